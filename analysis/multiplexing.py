"""Which metrics may be multiplexed: runs in which metrics take turns on the counters, beside passes.

In a pass, each metric has a counter all the time. A metric that takes turns may be multiplexed if its total, and its
correlations with all other metrics that may be multiplexed or are always counted, are shown to be unperturbed. Pairs
that meet in no pass cannot be compared, and are counted. A count that is estimated badly changes every correlation in
which it takes part. So the metric that takes part in most changes is left out first, until no change is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from unperturbed.analysis.perturbation import Baseline, Change, VerdictName, verdict_cell
from unperturbed.analysis.perturbation.comparable import compared_pairs
from unperturbed.analysis.totals.verdict import TotalChange, compare_runs, decide_totals
from unperturbed.collectors.data import Metric, Trace
from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import counted, first_of, listing, percent


@dataclass(frozen=True)
class Counted:
    """Runs of a pass, and runs in which metrics take turns, with estimated counts."""

    reference: Sequence[Trace]
    observed: Sequence[Trace]
    metrics: Sequence[str]  # Those of the pass; earlier passes may have some of them


@dataclass(frozen=True)
class Outcome:
    """Whether a metric may be multiplexed, and why not."""

    metric: str
    verdict: VerdictName
    why: str = ""


@dataclass(frozen=True)
class Multiplexed:
    """Outcomes for one length of an interval and one estimate of the counts."""

    interval: str  # In words
    intervals: int  # Of the shortest run
    estimate: str
    outcomes: tuple[Outcome, ...]  # One for each metric that takes turns
    apart: int = 0  # Pairs that no pass counts together, so that their correlation is not compared

    @property
    def kept(self) -> tuple[str, ...]:
        """Return the metrics that may be multiplexed."""
        return tuple(each.metric for each in self.outcomes if each.verdict == "unperturbed")


@dataclass(frozen=True)
class MultiplexingVerdicts:
    """Which metrics may be multiplexed, by length of an interval and by estimate."""

    rows: tuple[Multiplexed, ...]  # That of the spec's interval and estimate first

    def sentences(self) -> tuple[str, ...]:
        """Return what holds for the spec's interval and estimate, and for the best other ones."""
        first, *others = self.rows
        of = counted(len(first.outcomes), "metric")
        where = f"at intervals of {first.interval} with {first.estimate} counts"
        said = f"{len(first.kept)} of {of} may be multiplexed {where}"
        lost = [f"{each.metric} ({each.why})" for each in first.outcomes if each.verdict != "unperturbed"]
        sentences = [f"{said}. Not: {'; '.join(lost)}." if lost else f"{said}."]
        best = max(others, key=lambda row: len(row.kept), default=first)
        if len(best.kept) > len(first.kept):
            sentences.append(
                f"At intervals of {best.interval} with {best.estimate} counts, {len(best.kept)} may be: the best of "
                f"{len(self.rows)} rows, each judged at α by itself: confirm it by a campaign with this interval and "
                "`estimate`."
            )
        elif lost:
            sentences.append(
                f"For {first_of([each.metric for each in first.outcomes if each.verdict != 'unperturbed'])}, use the "
                "passes of this campaign, in which each metric is counted all the time."
            )
        if first.apart:
            sentences.append(
                f"The correlations of {counted(first.apart, 'pair')} are not compared, because no pass counts both "
                "metrics. A campaign without `multiplex`, with `together: all` under `analysis`, has passes in which "
                "they meet."
            )
        return tuple(sentences)

    def tables(self) -> tuple[Table, ...]:
        """Return the outcomes by metric, and how many metrics may be multiplexed by length and estimate."""
        first = self.rows[0]
        named = (Column("metric"), Column("verdict"), Column("why not"))
        by_metric: list[list[Cell | str]] = [
            [each.metric, verdict_cell(each.verdict), each.why] for each in first.outcomes
        ]
        heads = (
            *(Column("interval"), Column("intervals", "right"), Column("estimate")),
            *(Column("may be", "right"), Column("which")),
        )
        rows = [
            [row.interval, f"{row.intervals:,}", row.estimate, f"{len(row.kept)} of {len(row.outcomes)}", _named(row)]
            for row in self.rows
        ]
        caption = f"Metrics that take turns, at intervals of {first.interval} with {first.estimate} counts"
        return Table(named, by_metric, caption), Table(heads, rows, "By length of an interval and by estimate")

    def to_dict(self) -> dict[str, Any]:
        """Return all rows as JSON types."""
        return {"rows": [asdict(row) for row in self.rows], "notes": list(self.sentences())}


_MOST_NAMED = 6


def _named(row: Multiplexed) -> str:
    if len(row.kept) == len(row.outcomes):
        return "all"
    return listing(row.kept) if len(row.kept) <= _MOST_NAMED else ""


def judge_multiplexed(
    passes: Sequence[Counted],
    *,
    interval: str,
    estimate: str,
    alpha: float,
    tolerance: float,
    totals: Mapping[str, float],
) -> Multiplexed:
    """Judge each metric that takes turns, by its total and its correlations within a run.

    `alpha`, `tolerance`, `totals`: As for the verdicts of a campaign; all correlations are one family, and all totals.
    """
    runs = [trace for each in passes for trace in each.observed]
    turning = dict.fromkeys(name for each in passes for name in each.metrics if _takes_turns(each.observed, name))
    gaps = find_gaps(runs, turning)
    changes: list[Change] = []
    compared: list[TotalChange] = []
    described: dict[str, Metric] = {}
    met: set[frozenset[str]] = set()
    for each in passes:
        names = [name for name in each.metrics if name not in gaps]
        if names:
            baseline = Baseline(each.reference, metrics=names, met=met, alpha=alpha, tolerance=tolerance)
            if baseline.pairs:
                changes += baseline.inner([trace[names] for trace in each.observed]).changes
        new = [name for name in each.metrics if name not in described]
        compared += compare_runs(each.reference, each.observed, new, alpha=alpha, tolerances=totals)
        met |= {frozenset(pair) for pair in combinations(each.metrics, 2)}
        described |= {name: each.reference[0].metrics[name] for name in new}
    apart, _ = compared_pairs(list(described.values()), (), met)
    lost = {name: Outcome(name, "undecided", why) for name, why in gaps.items()}
    for total in decide_totals(compared, alpha=alpha):
        gap = gaps.get(total.metric, "")
        if total.metric in turning and total.verdict not in ("unperturbed", "undecided" if gap else ""):
            why = f"{gap}; " if gap else ""
            lost[total.metric] = Outcome(total.metric, total.verdict, f"{why}total {percent(total.change)}")
    for outcome in _by_changes([change for change in changes if change.verdict != "unperturbed"], turning, lost):
        lost[outcome.metric] = outcome
    return Multiplexed(
        interval,
        min(len(trace) for trace in runs),
        estimate,
        tuple(lost.get(name, Outcome(name, "unperturbed")) for name in turning),
        len(apart),
    )


def _by_changes(
    changes: Sequence[Change], turning: Mapping[str, None], lost: Mapping[str, Outcome]
) -> Iterator[Outcome]:
    """Yield the metric that takes part in most changes, and again without it, until no change is left."""
    left = [change for change in changes if not {change.first, change.second} & lost.keys()]
    while parts := Counter(name for change in left for name in (change.first, change.second) if name in turning):
        most = max(parts.values())
        candidates = [name for name in turning if parts[name] == most]
        largest = max(
            (change for change in left if {change.first, change.second} & {*candidates}),
            key=lambda change: abs(change.effect),
        )
        worst = next(name for name in candidates if name in (largest.first, largest.second))
        other = largest.second if worst == largest.first else largest.first
        yield Outcome(worst, largest.verdict, f"correlation with {other} {largest.effect:+.2f}")
        left = [change for change in left if worst not in (change.first, change.second)]


def _takes_turns(runs: Sequence[Trace], name: str) -> bool:
    return any(trace.metrics[name].scaled for trace in runs)


def find_gaps(runs: Sequence[Trace], metrics: Iterable[str]) -> dict[str, str]:
    """Return the metrics that have no value in some intervals of a run, with the largest share of these."""
    shares = {
        name: max((float(np.mean(~np.isfinite(trace[name]))) for trace in runs if name in trace), default=0.0)
        for name in metrics
    }
    return {name: f"no value in {share:.0%} of the intervals" for name, share in shares.items() if share > 0}
