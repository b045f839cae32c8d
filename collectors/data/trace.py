"""The trace: one row an interval, one column a metric, and what is known about each.

This module and `table` are the only ones of `collectors` that `analysis` imports.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

from unperturbed.collectors.data.parquet import read_parquet_file
from unperturbed.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

Kind = Literal["hardware", "simulated", "software", "os", "derived"]
Semantics = Literal["counter", "gauge"]

INTERVAL_COLUMNS = ("begin_ns", "end_ns", "overruns")
"""Columns of every trace beside its metrics: an interval's bounds, ns since the first record, and missed ticks."""

_METADATA_KEY = "unperturbed"
_FORMAT = 1


@dataclass(frozen=True)
class Metric:
    """What one column of a trace holds.

    Attributes
    ----------
    name : str
        The metric's name, as the spec gives it.
    kind : Kind
        Where it comes from. `simulated` is never shown as hardware.
    unit : str, default "events"
        Unit of one interval's value.
    semantics : Semantics, default "counter"
        A counter's row holds the events of that interval; a gauge's row holds the value at its end.
    source : str, default ""
        The collector that read it (`callgrind`, `papi`, `perf_event`, `getrusage`, `instrumentation`,
        `formula`).
    meaning : str, default ""
        One line for people.
    components : tuple of str, default ()
        Elementary events that the value is computed from. Two metrics that share one are correlated by
        construction, so they never form an inner pair.
    scaled : bool, default False
        The count was multiplexed and extrapolated from the share of time that it ran.
    """

    name: str
    kind: Kind
    unit: str = "events"
    semantics: Semantics = "counter"
    source: str = ""
    meaning: str = ""
    components: tuple[str, ...] = ()
    scaled: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise DataError(f"metric {self.name!r}: kind {self.kind!r} is not one of {', '.join(get_args(Kind))}")
        if self.name in INTERVAL_COLUMNS:
            raise DataError(f"metric {self.name!r}: the name is taken by a column that every trace has; choose another")
        if not self.components:
            object.__setattr__(self, "components", (f"{self.source}:{self.name}",))


@dataclass(frozen=True)
class Trace:
    """Metrics of one run, interval by interval.

    Attributes
    ----------
    metrics : mapping of str to Metric
        Read-only mapping, name to `Metric`, in column order.
    begin_ns, end_ns : array of int64
        Int64, shape (intervals,). Bounds of each interval, ns since the first record, on the clock that
        intervals are taken from (`attributes["clock"]`): wall-clock time, or the process's processor time.
    overruns : array of int64
        Int64, shape (intervals,). Timer ticks that were missed inside the interval.
    attributes : mapping of str to object, optional
        What is known about the run as a whole (configuration, source, clock, seed, …); JSON types only.
    """

    metrics: Mapping[str, Metric]
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    overruns: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]] = field(repr=False)
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_columns(
        cls,
        metrics: Iterable[Metric],
        columns: Mapping[str, Sequence[float] | NDArray[Any]],
        *,
        begin_ns: Sequence[int] | NDArray[np.int64],
        end_ns: Sequence[int] | NDArray[np.int64],
        overruns: Sequence[int] | NDArray[np.int64] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Trace:
        """Make a trace from one sequence a metric.

        Parameters
        ----------
        metrics : iterable of Metric
            In the order that the columns shall have.
        columns : mapping of str to sequence of float or array
            One sequence of equal length for each metric; integers stay int64, all else becomes float64.
        begin_ns, end_ns : sequence of int or array of int64
            Bounds of the intervals, ns since the first record.
        overruns : sequence of int or array of int64, optional
            Missed ticks an interval; none by default.
        attributes : mapping of str to object, optional
            JSON-able facts about the run.

        Raises
        ------
        DataError
            A column is missing or of another length, two metrics share a name, an interval ends before it begins.
        """
        import numpy as np  # noqa: PLC0415  a process that counts itself knows metrics, and shall not load it

        described = tuple(metrics)
        named = {metric.name: metric for metric in described}
        if len(named) != len(described):
            names = [metric.name for metric in described]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise DataError(f"two metrics share the name {', '.join(twice)}")
        begin = np.asarray(begin_ns, dtype=np.int64)
        end = np.asarray(end_ns, dtype=np.int64)
        missed = np.zeros(len(begin), np.int64) if overruns is None else np.asarray(overruns, dtype=np.int64)
        if not len(begin) == len(end) == len(missed):
            raise DataError(
                f"{len(begin)} interval begins, {len(end)} ends and {len(missed)} overruns: they must be as many"
            )
        backwards = np.flatnonzero(end < begin)
        if len(backwards):
            raise DataError(f"interval {backwards[0]} ends before it begins")
        arrays: dict[str, NDArray[Any]] = {}
        for name in named:
            if name not in columns:
                raise DataError(f"no column for metric {name!r}")
            column = np.asarray(columns[name])
            if column.shape != begin.shape:
                raise DataError(f"metric {name!r} has shape {column.shape}, the trace has {len(begin)} intervals")
            arrays[name] = column.astype(np.int64 if np.issubdtype(column.dtype, np.integer) else np.float64)
        return cls(
            MappingProxyType(named),
            begin,
            end,
            missed,
            MappingProxyType(arrays),
            MappingProxyType(dict(attributes or {})),
        )

    def __len__(self) -> int:
        return len(self.begin_ns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return one metric's column, shape (intervals,)."""
        try:
            return self.columns[name]
        except KeyError:
            raise DataError(f"the trace has no metric {name!r}; it has {', '.join(self.metrics)}") from None

    def values(self, names: Iterable[str]) -> NDArray[np.float64]:
        """Return the named metrics as a float64 array of shape (intervals, metrics)."""
        import numpy as np  # noqa: PLC0415

        if isinstance(names, str):
            raise DataError(f"values({names!r}): give a list of names, as in values([{names!r}])")
        return np.column_stack([self[name].astype(np.float64) for name in names])

    def names(self, *kinds: Kind) -> tuple[str, ...]:
        """Return the names of the metrics of these kinds (of all, when none is given), in column order."""
        return tuple(name for name, metric in self.metrics.items() if not kinds or metric.kind in kinds)

    def to_polars(self) -> pl.DataFrame:
        """Return a polars DataFrame: `begin_ns`, `end_ns`, `overruns`, then one column a metric."""
        import polars as pl  # noqa: PLC0415  slow to load, and not every user of a trace needs it

        return pl.DataFrame(
            {"begin_ns": self.begin_ns, "end_ns": self.end_ns, "overruns": self.overruns, **dict(self.columns)}
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file. It appears whole or not at all: written aside, synced, renamed."""
        target = Path(path)
        aside = target.with_name(f".{target.name}.{os.getpid()}")
        described = {
            "format": _FORMAT,
            "metrics": [asdict(metric) for metric in self.metrics.values()],
            "attributes": dict(self.attributes),
        }
        try:
            with aside.open("wb") as file:
                self.to_polars().write_parquet(file, metadata={_METADATA_KEY: json.dumps(described)})
                file.flush()
                os.fsync(file.fileno())
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Trace:
        """Read what `write` wrote.

        Raises
        ------
        DataError
            The file is missing, is no Parquet file, or holds no trace.
        """
        import polars as pl  # noqa: PLC0415

        source = Path(path)
        if not source.is_file():
            what = (
                "a folder; name the trace.parquet of a run in it" if source.is_dir() else "there is no such trace file"
            )
            raise DataError(f"{source}: {what}")
        try:
            frame, metadata = read_parquet_file(source)
        except pl.exceptions.PolarsError as error:
            raise DataError(f"{source}: not a readable Parquet file ({error})") from None
        text = metadata.get(_METADATA_KEY)
        if text is None:
            raise DataError(f"{source}: a Parquet file, but not a trace of this tool (no description of its metrics)")
        described = json.loads(text)
        if described["format"] > _FORMAT:
            raise DataError(f"{source}: written by a newer version (format {described['format']}); update this one")
        metrics = [Metric(**{**entry, "components": tuple(entry["components"])}) for entry in described["metrics"]]
        return cls.from_columns(
            metrics,
            {metric.name: frame[metric.name].to_numpy() for metric in metrics},
            begin_ns=frame["begin_ns"].to_numpy(),
            end_ns=frame["end_ns"].to_numpy(),
            overruns=frame["overruns"].to_numpy(),
            attributes=described["attributes"],
        )
