"""Verdicts by MPI rank, how unequal the ranks are, and how long they wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unperturbed.analysis.nodes.combine import Combined
from unperturbed.analysis.nodes.strata import Kind, StrataVerdicts
from unperturbed.collectors.data import Trace
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.table import Column, Table
from unperturbed.common.wording import listing, number

special = LazyLibrary("scipy.special")

_WAITS, _WAIT_NS = "mpi_waits", "mpi_wait_ns"
_UNSEEN = (
    "No rank made a blocking call of MPI that could be counted. If MPI is linked statically, link it dynamically: "
    "otherwise waiting is unknown, and simulated counts include it and vary from run to run."
)


@dataclass(frozen=True)
class Estimate:
    """A mean over runs with its confidence interval, by Student's t; infinitely wide for one run."""

    mean: float
    low: float
    high: float

    @classmethod
    def over_runs(cls, values: Sequence[float], level: float) -> Estimate:
        """Return the mean of one value for each run."""
        mean, count = float(np.mean(values)), len(values)
        if count < 2:
            return cls(mean, float("-inf"), float("inf"))
        half = float(special.stdtrit(count - 1, (1 + level) / 2) * np.std(values, ddof=1) / np.sqrt(count))
        return cls(mean, mean - half, mean + half)


@dataclass(frozen=True, kw_only=True)
class RankVerdicts(StrataVerdicts):
    """Verdicts by rank, and facts about the ranks of the baseline's runs."""

    kind: Kind = "rank"
    imbalance: Mapping[str, Estimate]  # The largest count of a rank over the mean of all ranks, by metric
    largest: Mapping[str, str]  # The rank that has it in most runs, by metric
    waiting: Mapping[str, Estimate]  # The share of a rank's time in calls that wait for another rank
    waits: Mapping[str, float]  # The mean number of these calls in a run, by rank
    level: float  # Of the intervals
    simulated: bool  # Times are those of the simulator

    def tables(self) -> tuple[Table, ...]:
        """Return the verdicts by rank, the imbalance of each metric, and the waiting of each rank."""
        unequal = [
            [
                metric,
                f"{ratio.mean:.3f}",
                _bounds(ratio.low, ratio.high),
                self.largest[metric] if ratio.mean > 1 else "all the same",
            ]
            for metric, ratio in self.imbalance.items()
        ]
        heads = (Column("metric"), Column("largest / mean", "right"), Column("interval", "right"), Column("largest"))
        waiting = [
            [rank, number(self.waits[rank], 6), _percent(share.mean), f"{_percent(share.low)} … {_percent(share.high)}"]
            for rank, share in self.waiting.items()
        ]
        columns = (Column("rank"), Column("calls", "right"), Column("time", "right"), Column("interval", "right"))
        return (
            *super().tables(),
            *([Table(heads, unequal, "Imbalance of the ranks, in the baseline")] if unequal else ()),
            *([Table(columns, waiting, "Waiting, in the baseline")] if waiting else ()),
        )

    def sentences(self) -> tuple[str, ...]:
        """Return notes on the tables, one sentence each."""
        of_simulator = "The times of waiting are those under the simulator, whose counts leave waiting out."
        return (*self.notes, *([of_simulator] if self.simulated and self.waiting else ()))

    def to_dict(self) -> dict[str, Any]:
        """Return verdicts and facts as JSON types."""
        return {
            **super().to_dict(),
            "imbalance": {name: vars(each) | {"largest": self.largest[name]} for name, each in self.imbalance.items()},
            "waiting": {rank: vars(share) | {"calls": self.waits[rank]} for rank, share in self.waiting.items()},
            "level": self.level,
        }


def describe_ranks(
    combined: Sequence[Combined], baseline: Sequence[Trace], *, level: float, notes: Sequence[str] = ()
) -> RankVerdicts:
    """Add imbalance and waiting to verdicts by rank.

    `baseline`: Traces of the baseline's runs, of all passes; their attribute `processes` has the totals of each rank.
    """
    runs = [[told for told in trace.attributes["processes"] if "rank" in told] for trace in baseline]
    totals: dict[str, list[list[float]]] = {}
    for run in runs:
        for metric in run[0]["totals"] if run else ():
            counts = [float(told["totals"].get(metric, 0.0)) for told in run]
            if sum(counts) > 0 and metric not in (_WAITS, _WAIT_NS):
                totals.setdefault(metric, []).append(counts)
    largest = {}
    for metric, counted in totals.items():
        most = [int(np.argmax(counts)) for counts in counted]
        largest[metric] = f"rank {max(sorted(set(most)), key=most.count)}"
    shares: dict[str, list[float]] = {}
    calls: dict[str, list[float]] = {}
    for told in (one for run in runs for one in run):
        if _WAIT_NS in told["totals"] and told["seconds"] > 0:
            shares.setdefault(f"rank {told['rank']}", []).append(told["totals"][_WAIT_NS] / (1e9 * told["seconds"]))
            calls.setdefault(f"rank {told['rank']}", []).append(told["totals"][_WAITS])
    starters = dict.fromkeys(told["image"] for trace in baseline for told in trace.attributes.get("launchers", ()))
    unseen = (_UNSEEN,) if calls and not any(map(any, calls.values())) else ()
    if unseen:
        shares.clear()
    left_out = (f"The counts of {listing(starters)}, which only start ranks, are left out.",) if starters else ()
    return RankVerdicts(
        combined=tuple(combined),
        imbalance={
            metric: Estimate.over_runs([max(counts) * len(counts) / sum(counts) for counts in counted], level)
            for metric, counted in totals.items()
        },
        largest=largest,
        waiting={rank: Estimate.over_runs(each, level) for rank, each in shares.items()},
        waits={rank: float(np.mean(each)) for rank, each in calls.items()},
        level=level,
        simulated=any(metric.kind == "simulated" for trace in baseline for metric in trace.metrics.values()),
        notes=(*left_out, *unseen, *notes),
    )


def _bounds(low: float, high: float) -> str:
    return f"{low:.3f} … {high:.3f}" if np.isfinite(low) else "–"


def _percent(share: float) -> str:
    return f"{number(100 * max(0.0, min(1.0, share)), 2)} %"
