"""Alignment of two runs' threads one by one: which thread of the one run did the work of which thread of the other.

Threads with a role (`worker#2`) are aligned with the thread of the same role. Threads of one routine that take their
work from a queue change places from run to run: they are matched by the work that they took. The distance of two
threads is the cost of the warp path that aligns them, plus the difference of their totals: warping alone does not tell
a short thread from a long one of the same kind. The assignment with the least sum of distances is found exactly. Then
the threads of each pair are aligned as runs are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from unperturbed.analysis.alignment import merge_text
from unperturbed.analysis.alignment.dtw.paths import WarpPath, anchored_dtw
from unperturbed.analysis.alignment.dtw.series import FloatArray
from unperturbed.analysis.alignment.milestones import milestone_scores
from unperturbed.analysis.alignment.prepared_runs import ascending_columns, common_scales
from unperturbed.analysis.alignment.traces import align
from unperturbed.collectors.data import Trace
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.result import Result
from unperturbed.common.table import Column, Table
from unperturbed.common.wording import counted, listing, number
from unperturbed.errors import DataError

if TYPE_CHECKING:
    import polars as pl

optimize = LazyLibrary("scipy.optimize")

_MAIN = "main"
_MOST_PAIRS = 250_000  # Warp paths of one routine; a thousandth of a second each
_KINDS = ("hardware", "simulated")


class ThreadPair(NamedTuple):
    """A thread of each run that did the same work, as far as that can be."""

    first: str  # Role of the first run's thread
    second: str
    distance: float
    path: WarpPath  # An Alignment, unless one of the threads has only a few equal intervals


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ThreadAlignment(Result):
    """Alignment of two runs' threads.

    Attributes
    ----------
    names : tuple of (str, str)
        The runs.
    by : {"role", "work"}
        How threads of one routine were matched: in the order of their creation, or by the work that they took.
    on : tuple of str
        Metrics on which threads were compared.
    pairs : tuple of ThreadPair
        The pairs, by the first run's role.
    alone : tuple of (tuple of str, tuple of str)
        Roles of each run without a counterpart.
    traces : tuple of (Mapping, Mapping)
        The threads of each run by role.
    """

    names: tuple[str, str]
    by: Literal["role", "work"]
    on: tuple[str, ...]
    pairs: tuple[ThreadPair, ...]
    alone: tuple[tuple[str, ...], tuple[str, ...]]
    traces: tuple[Mapping[str, Trace], Mapping[str, Trace]]

    @property
    def distance(self) -> float:
        """Sum of the pairs' distances."""
        return sum(pair.distance for pair in self.pairs)

    @cached_property
    def shared(self) -> dict[str, float]:
        """For each software counter, the share of its events that the paired threads both had; rarest counter first.

        1 means that each thread had as many events as its counterpart.
        """
        return {name: found[0] for name, found in self._scores.items()}

    @cached_property
    def near(self) -> dict[str, float]:
        """For each software counter, the share of its events that the pairs' paths align with an interval of its own.

        The path of a pair aligns the nth event of the one thread with an interval of the other that contains the nth
        event, or a neighbour of it. Events that the other thread did not have count as not aligned.
        """
        return {name: found[1] for name, found in self._scores.items()}

    @cached_property
    def _scores(self) -> dict[str, tuple[float, float]]:
        totals: dict[str, int] = {}
        scores = {}
        a, b = self.traces
        every = [*a.values(), *b.values()]
        for name in _counters(every[0]):
            if all(name in trace.metrics for trace in every):
                totals[name] = sum(int(trace[name].sum()) for trace in every)
        for name, total in sorted(totals.items(), key=lambda item: (item[1], item[0])):
            shared = near = 0.0
            for pair in self.pairs:
                x, y = (np.cumsum(run[role][name]) for run, role in ((a, pair.first), (b, pair.second)))
                common = int(min(x[-1], y[-1]))
                shared += 2 * common
                if common:
                    near += 2 * common * float(np.mean(milestone_scores(pair.path, x, y) <= 1))
            if total:
                scores[name] = (shared / total, near / total)
        return scores

    def headline(self) -> str:
        """Return the runs and how their threads were matched, in one line."""
        return f"{' and '.join(self.names)}: {counted(len(self.pairs), 'pair')} of threads matched {self._how()}"

    def _how(self) -> str:
        if self.by == "role":
            return "by role"
        moved = sum(pair.first != pair.second for pair in self.pairs)
        places = f"{moved} have another place" if moved else "all have the same place"
        return f"by their work: {places} in the order of their creation"

    def tables(self) -> list[Table]:
        """Return the pairs, and the scores by software counters if there are any."""
        a, b = self.traces
        rows = [
            (pair.first, pair.second, f"{len(a[pair.first])}", f"{len(b[pair.second])}", number(pair.distance, 4))
            for pair in self.pairs
        ]
        heads = ("intervals of the first", "of the second", "distance")
        columns = [Column("first run"), Column("second run"), *(Column(head, "right") for head in heads)]
        tables = [Table(columns, rows, "Threads that did the same work")]
        if self.shared:
            scored = [(name, f"{share:.1%}", f"{self.near[name]:.1%}") for name, share in self.shared.items()]
            titles = ("events of paired threads", "aligned within one interval")
            columns = [Column("counter"), *(Column(title, "right") for title in titles)]
            tables.append(Table(columns, scored, "Scores: how many events the matching gives to the same thread"))
        return tables

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on threads without a counterpart."""
        return tuple(
            f"{counted(len(roles), 'thread')} of {name} {'has' if len(roles) == 1 else 'have'} no counterpart: "
            f"{listing(roles)}"
            for name, roles in zip(self.names, self.alone, strict=True)
            if roles
        )

    def to_frame(self) -> pl.DataFrame:
        """Return one row for each pair: the roles, the distance, and the number of elements of the path."""
        import polars as pl  # noqa: PLC0415  slow to load

        rows = [(pair.first, pair.second, pair.distance, len(pair.path)) for pair in self.pairs]
        types = {"first": pl.String, "second": pl.String, "distance": pl.Float64, "elements": pl.Int64}
        return pl.DataFrame(rows, types, orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Return the pairs with their paths, and the scores, as plain data, ready for JSON."""
        pairs = [
            {
                "first": pair.first,
                "second": pair.second,
                "distance": pair.distance,
                "x_index": pair.path.x_index.tolist(),
                "y_index": pair.path.y_index.tolist(),
            }
            for pair in self.pairs
        ]
        return {
            "runs": list(self.names),
            "by": self.by,
            "on": list(self.on),
            "distance": self.distance,
            "pairs": pairs,
            "alone": [list(roles) for roles in self.alone],
            "shared": self.shared,
            "near": self.near,
        }


def align_threads(
    a: Sequence[Trace],
    b: Sequence[Trace],
    *,
    by: Literal["role", "work"] = "work",
    on: str | Sequence[str] | None = None,
    band: int | None = None,
) -> ThreadAlignment:
    """Align the threads of two runs one by one.

    Parameters
    ----------
    a, b : sequence of Trace
        Traces of the threads of each run, with their roles (`measure: threads: each`).
    by : {"role", "work"}, default "work"
        `role` pairs threads of the same role. `work` pairs threads of the same routine and creator's routine so that
        the sum of distances is least.
    on : str or sequence of str, optional
        Metrics to compare. None uses all hardware metrics that all threads have, real or simulated.
    band : int, optional
        As for `dtw`, in intervals.

    Returns
    -------
    ThreadAlignment
        The pairs with their warp paths, and scores by software counters.

    Raises
    ------
    DataError
        A trace has no role, two have the same, or the metrics are missing or not finite.
    """
    first, second = _by_role(a), _by_role(b)
    names = (on,) if isinstance(on, str) else tuple(on) if on is not None else _common(first, second)
    values = [{role: trace.values(names) for role, trace in run.items()} for run in (first, second)]
    scale = common_scales(names, *(ascending_columns(np.concatenate(list(run.values()))) for run in values))
    x, y = ({role: rows / scale for role, rows in run.items()} for run in values)
    pairs = [
        pair
        for routine, (of_a, of_b) in _groups(first, second).items()
        for pair in (
            _same_roles(of_a, of_b, x, y, band)
            if by == "role" or routine == _MAIN or len(of_a) == len(of_b) == 1
            else _least_sum(of_a, of_b, x, y, band)
        )
    ]
    pairs = [pair._replace(path=_aligned(first[pair.first], second[pair.second], names) or pair.path) for pair in pairs]
    order = {role: at for at, role in enumerate(first)}
    taken = ({pair.first for pair in pairs}, {pair.second for pair in pairs})
    return ThreadAlignment(
        names=(merge_text.run_name(a[0], "the first run"), merge_text.run_name(b[0], "the second run")),
        by=by,
        on=names,
        pairs=tuple(sorted(pairs, key=lambda pair: order[pair.first])),
        alone=(
            tuple(role for role in first if role not in taken[0]),
            tuple(role for role in second if role not in taken[1]),
        ),
        traces=(first, second),
    )


def routine_of(role: str) -> str:
    """Return a role without the places among equals: `reader#1/worker#2` is one of `reader/worker`."""
    return "/".join(part.rpartition("#")[0] or part for part in role.split("/"))


def _by_role(traces: Sequence[Trace]) -> dict[str, Trace]:
    found: dict[str, Trace] = {}
    for trace in traces:
        role = trace.attributes.get("role")
        if not role:
            raise DataError("a thread's trace has no role: measure with `threads: each`")
        if role in found:
            raise DataError(f"two threads of a run have the role {role}: give the threads of one process")
        found[str(role)] = trace
    if not found:
        raise DataError("no trace of a thread: measure a program that starts threads, with `threads: each`")
    return found


def _counters(trace: Trace) -> list[str]:
    return [
        name for name, metric in trace.metrics.items() if metric.kind == "software" and metric.semantics == "counter"
    ]


def _common(*runs: Mapping[str, Trace]) -> tuple[str, ...]:
    """Return the hardware metrics that all threads have."""
    every = [trace for run in runs for trace in run.values()]
    names = tuple(
        name
        for name, metric in every[0].metrics.items()
        if metric.kind in _KINDS and all(name in trace.metrics for trace in every)
    )
    if not names:
        raise DataError("the threads have no hardware metric in common, real or simulated: name metrics with `on`")
    return names


def _groups(first: Mapping[str, Trace], second: Mapping[str, Trace]) -> dict[str, tuple[list[str], list[str]]]:
    """Return the roles of each run by routine."""
    groups: defaultdict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for at, run in enumerate((first, second)):
        for role in run:
            groups[routine_of(role)][at].append(role)
    return groups


def _paired(
    one: str, other: str, x: Mapping[str, FloatArray], y: Mapping[str, FloatArray], band: int | None
) -> ThreadPair:
    path = anchored_dtw(x[one], y[other], (), band=band)
    left = float(np.abs(x[one].sum(axis=0) - y[other].sum(axis=0)).sum())
    return ThreadPair(one, other, path.cost + left, path)


def _aligned(one: Trace, other: Trace, on: Sequence[str]) -> WarpPath | None:
    """Return the alignment of two threads, on the metrics that vary in one of them; None if none does."""
    varying = [name for name in on if len(np.unique(np.concatenate([one[name], other[name]]))) > 1]
    return align(one, other, on=varying) if varying else None


def _same_roles(
    of_a: Sequence[str], of_b: Sequence[str], x: Mapping[str, FloatArray], y: Mapping[str, FloatArray], band: int | None
) -> list[ThreadPair]:
    return [_paired(role, role, x, y, band) for role in of_a if role in of_b]


def _least_sum(
    of_a: Sequence[str], of_b: Sequence[str], x: Mapping[str, FloatArray], y: Mapping[str, FloatArray], band: int | None
) -> list[ThreadPair]:
    """Return the pairs with the least sum of distances; if the runs have unequal numbers, some threads stay alone."""
    if not of_a or not of_b:
        return []
    if len(of_a) * len(of_b) > _MOST_PAIRS:
        raise DataError(
            f"{routine_of(of_a[0])}: {len(of_a):,} and {len(of_b):,} threads are too many to compare all with all: "
            "match them by role"
        )
    every = [[_paired(one, other, x, y, band) for other in of_b] for one in of_a]
    rows, columns = optimize.linear_sum_assignment([[pair.distance for pair in row] for row in every])
    return [every[row][column] for row, column in zip(rows.tolist(), columns.tolist(), strict=True)]
