"""Verdicts by MPI rank, how unequal the ranks are, and how long they wait.

A rank is a stratum as a node is, with its own baseline. Unlike nodes, the ranks of a run are not independent: a change
on one may delay the other. So the verdict on all ranks together is no mean over them: it is the verdict on the changes
of all ranks as one family, corrected by Holm, which holds for any dependence. The sum over ranks has a verdict of its
own, that of the campaign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unperturbed.analysis.nodes.combine import Combined
from unperturbed.analysis.perturbation import SEVERITY, Verdict, VerdictName, combine, ranked_changes, verdict_cell
from unperturbed.analysis.perturbation.decide import decide
from unperturbed.collectors.data import Trace
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import listing, number, span
from unperturbed.errors import DataError

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


@dataclass(frozen=True)
class RankVerdicts:
    """Verdicts by rank, and facts about the ranks of the baseline's runs."""

    combined: tuple[Combined, ...]  # One for each configuration; its nodes are the ranks: `rank 0`
    imbalance: Mapping[str, Estimate]  # The largest count of a rank over the mean of all ranks, by metric
    largest: Mapping[str, str]  # The rank that has it in most runs, by metric
    waiting: Mapping[str, Estimate]  # The share of a rank's time in calls that wait for another rank
    waits: Mapping[str, float]  # The mean number of these calls in a run, by rank
    level: float  # Of the intervals
    simulated: bool  # Times are those of the simulator
    notes: tuple[str, ...] = ()

    def at_least(self, mildest: VerdictName) -> tuple[str, ...]:
        """Return the configurations with this or a more serious verdict on all ranks together."""
        serious = SEVERITY[: SEVERITY.index(mildest) + 1]
        return tuple(each.configuration for each in self.combined if each.these.verdict in serious)

    def tables(self) -> tuple[Table, ...]:
        """Return the verdicts by rank, the imbalance of each metric, and the waiting of each rank."""
        verdicts = (verdicts_by_rank(self.combined),) if self.combined else ()
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
            *verdicts,
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
            "verdicts": [of_ranks_to_dict(each) for each in self.combined],
            "imbalance": {name: vars(each) | {"largest": self.largest[name]} for name, each in self.imbalance.items()},
            "waiting": {rank: vars(share) | {"calls": self.waits[rank]} for rank, share in self.waiting.items()},
            "level": self.level,
            "notes": list(self.sentences()),
        }


def combine_ranks(verdicts: Mapping[str, Verdict]) -> Combined:
    """Combine the verdicts of several ranks on one configuration: on each, and on all as one family of changes."""
    if not verdicts:
        raise DataError("no rank to combine: give the verdict of at least one rank")
    first = next(iter(verdicts.values()))
    decided = decide([change for verdict in verdicts.values() for change in verdict.changes], alpha=first.alpha)
    lost = tuple((name, f"{why} ({rank})") for rank, verdict in verdicts.items() for name, why in verdict.lost)
    together = replace(
        first,
        verdict=combine((change.verdict for change in decided), lost=bool(lost)),
        changes=decided,
        excluded=(),
        lost=lost,
        notes=(),
    )
    return Combined(first.configuration, tuple(verdicts), dict(verdicts), together, None, {}, {})


def verdicts_by_rank(combined: Sequence[Combined]) -> Table:
    """Return a table with one row for each rank and configuration, and one for all ranks together."""
    rows: list[list[Cell | str]] = []
    for each in combined:
        for scope, verdict in (*each.by_node.items(), ("all ranks", each.these)):
            ranked = ranked_changes(verdict.changes)
            change = ranked[0] if ranked else None
            rows.append(
                [
                    each.configuration,
                    scope,
                    verdict_cell(verdict.verdict),
                    "" if change is None else f"{change.check} ρ of {change.label}",
                    "" if change is None else f"{change.effect:+.3f}",
                    "" if change is None else span(change.low, change.high),
                ]
            )
    heads = [Column(head) for head in ("configuration", "rank", "verdict", "most serious change")]
    return Table([*heads, Column("ρ", "right"), Column("interval", "right")], rows, "Verdicts by rank")


def of_ranks_to_dict(combined: Combined) -> dict[str, Any]:
    """Return the verdicts on one configuration by rank as JSON types."""
    return {
        "configuration": combined.configuration,
        "all_ranks": combined.these.verdict,
        "by_rank": {rank: verdict.to_dict() for rank, verdict in combined.by_node.items()},
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
        tuple(combined),
        {
            metric: Estimate.over_runs([max(counts) * len(counts) / sum(counts) for counts in counted], level)
            for metric, counted in totals.items()
        },
        largest,
        {rank: Estimate.over_runs(each, level) for rank, each in shares.items()},
        {rank: float(np.mean(each)) for rank, each in calls.items()},
        level,
        any(metric.kind == "simulated" for trace in baseline for metric in trace.metrics.values()),
        (*left_out, *unseen, *notes),
    )


def _bounds(low: float, high: float) -> str:
    return f"{low:.3f} … {high:.3f}" if np.isfinite(low) else "–"


def _percent(share: float) -> str:
    return f"{number(100 * max(0.0, min(1.0, share)), 2)} %"
