"""Alignment of all pairs of a set of series or traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from unperturbed.analysis.alignment import merge_text
from unperturbed.analysis.alignment.dtw.pairs import Progress, distance_matrix, warp_paths
from unperturbed.analysis.alignment.dtw.paths import WarpPath
from unperturbed.analysis.alignment.dtw.series import FloatArray, Scale
from unperturbed.analysis.alignment.traces import with_default_metrics
from unperturbed.collectors.data import Trace
from unperturbed.common.result import Result
from unperturbed.common.table import Table
from unperturbed.common.wording import counted

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False)
class PairwiseAlignment(Result):
    """The alignments of all pairs of a set of series.

    Attributes
    ----------
    names : tuple of str
        Name of each series.
    distances : array of float64, shape (k, k)
        Cost of aligning each pair: symmetric, zeros on the diagonal.
    paths : mapping of tuple of (int, int) to WarpPath
        The warp path of each pair a < b, with series a as x; empty unless requested.
    on : tuple of str
        Metrics that traces were aligned on; empty for plain series.
    """

    _page: ClassVar[str] = "unperturbed.analysis.report.alignment:render_pairwise"

    names: tuple[str, ...]
    distances: FloatArray
    paths: Mapping[tuple[int, int], WarpPath] = field(default_factory=dict)
    on: tuple[str, ...] = ()

    def headline(self) -> str:
        """Return the number of series and the range of their distances, in one line."""
        return merge_text.pairwise_headline(self)

    def tables(self) -> list[Table]:
        """Return the distances as a table."""
        return [merge_text.distances_table(self)]

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row for each pair: first, second, distance."""
        import polars as pl  # noqa: PLC0415  slow to load

        pairs = combinations(range(len(self.names)), 2)
        rows = [(self.names[a], self.names[b], float(self.distances[a, b])) for a, b in pairs]
        return pl.DataFrame(rows, {"first": pl.String, "second": pl.String, "distance": pl.Float64}, orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Return names, distances and paths as plain data, ready for JSON."""
        paths = [{"first": a, "second": b, **path.to_dict()} for (a, b), path in self.paths.items()]
        return {"names": list(self.names), "on": list(self.on), "distances": self.distances.tolist(), "paths": paths}


def pairwise(
    series: Sequence[ArrayLike | Trace],
    *,
    names: Sequence[str] | None = None,
    on: str | Sequence[str] | None = None,
    paths: bool = False,
    penalty: float = 0.0,
    band: int | None = None,
    scale: Scale = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> PairwiseAlignment:
    """Align all pairs of a set of series or traces exactly, on all processors or a cluster.

    Parameters
    ----------
    series : sequence of array_like or Trace
        Arrays of shape (n,) or (n, metrics), or traces of one program; lengths may differ.
    names : sequence of str, optional
        Name of each series. By default the traces' run names, or numbers from 0.
    on : str or sequence of str, optional
        Metrics to align traces on. By default IPC, or else the hardware metrics that all traces have.
    paths : bool, default False
        Also return the warp paths.
    penalty : float, default 0
        As for `dtw`.
    band : int, optional
        As for `dtw`.
    scale : {"std", "range"} or array_like, optional
        Divisor of each metric, the same for all series; see `dtw`. Traces are divided by the range by default.
    workers : int, optional
        Number of parallel workers. By default the setting of `joblib.parallel_config`, else one thread for each
        processor.
    progress : callable, optional
        Called in this thread with the number of finished pairs and the number of all pairs.

    Returns
    -------
    PairwiseAlignment
        The distance matrix and, on request, the paths.

    Raises
    ------
    DataError
        No series is given; a series is empty, has a wrong shape, different metrics or a value that is not finite; or
        differences overflow.
    ValueError
        Series and traces are mixed; the numbers of names and series differ; or the penalty or the band is negative.

    Notes
    -----
    Plain dynamic time warping of each pair; `align` also treats flat stretches and uses anchors.
    """
    given = list(series)
    traces = [trace for trace in given if isinstance(trace, Trace)]
    if traces and len(traces) < len(given):
        raise ValueError(
            f"some of the items are traces ({len(traces)} of {len(given)}) and some are series: give series or "
            "traces, not both"
        )
    if names is not None and len(names) != len(given):
        raise ValueError(f"{counted(len(names), 'name')} for {len(given)} series: give one name per series")
    metrics: tuple[str, ...] = ()
    rows: list[ArrayLike] = []
    if traces:
        named = (on,) if isinstance(on, str) else on
        traces, metrics = (traces, tuple(named)) if named is not None else _with_metrics(traces)
        rows = [trace.values(metrics) for trace in traces]
        scale = "range" if scale is None else scale
        called = [merge_text.run_name(trace, str(number)) for number, trace in enumerate(traces)]
    else:
        rows = [array for array in given if not isinstance(array, Trace)]
        called = [str(number) for number in range(len(rows))]
    chosen = tuple(called if names is None else names)
    if not paths:
        costs = distance_matrix(rows, penalty=penalty, band=band, scale=scale, workers=workers, progress=progress)
        return PairwiseAlignment(chosen, costs, {}, metrics)
    paths_of_pairs = warp_paths(rows, penalty=penalty, band=band, scale=scale, workers=workers, progress=progress)
    costs = np.zeros((len(rows), len(rows)))
    for pair, path in paths_of_pairs.items():
        costs[pair] = costs[pair[::-1]] = path.cost
    return PairwiseAlignment(chosen, costs, paths_of_pairs, metrics)


def _with_metrics(traces: Sequence[Trace]) -> tuple[list[Trace], tuple[str, ...]]:
    """Return the traces, with IPC added if it can be computed, and the metrics to align on."""
    first = traces[0]
    prepared = [with_default_metrics(trace, first) for trace in traces]
    common = tuple(name for name in prepared[0][2] if all(name in on for _, _, on in prepared))
    return [trace for trace, _, _ in prepared], common or prepared[0][2]
