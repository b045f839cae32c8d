"""Which metrics predict the rest: the result, and the function that computes it from the values of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unperturbed.analysis.choice import answer_text
from unperturbed.analysis.choice.clusters import Tree, join
from unperturbed.analysis.choice.held_back import Prediction, Step, judge_choices
from unperturbed.analysis.choice.moments import FloatArray, Moments, Scale, rescale
from unperturbed.analysis.perturbation import MINIMUM_RUNS
from unperturbed.analysis.perturbation.comparable import MINIMUM_INTERVALS, few_interval_notes, vary_in_few_intervals
from unperturbed.common.frames import Framed
from unperturbed.common.result import Result, plain
from unperturbed.common.wording import counted, duration
from unperturbed.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.common.table import Table

_CYCLES = "PAPI_TOT_CYC"
_INTERVALS_EACH = 10
"""Intervals in a run for each chosen metric: with fewer, a fit begins to describe the intervals themselves."""


@dataclass(frozen=True)
class Cost:
    """What measuring a choice takes."""

    runs: int  # Runs of each pass
    seconds: float | None  # One run; None if unknown
    at_once: int | None = None  # Metrics that share the counters in one run; None if one run counts all metrics
    in_all: frozenset[str] = frozenset()  # Metrics that every run can count beside these
    planned: Callable[[Sequence[str]], int] | None = None  # Passes that metrics need; None to assume it from the above

    def passes(self, chosen: Sequence[str]) -> int:
        """Return the number of passes that a choice needs, planned or if any `at_once` metrics can share a run."""
        if self.planned is not None:
            return self.planned(chosen)
        sharing = sum(metric not in self.in_all for metric in chosen)
        return 1 if self.at_once is None else max(1, math.ceil(sharing / self.at_once))

    def time(self, chosen: Sequence[str]) -> float | None:
        """Return the seconds that a choice takes; None if unknown."""
        return None if self.seconds is None else self.passes(chosen) * self.runs * self.seconds


@dataclass(frozen=True, repr=False)
class MetricChoice(Framed, Result):
    """The metrics that predict the rest of a campaign's metrics, and how well, for each number of metrics."""

    _page: ClassVar[str] = "unperturbed.analysis.choice.page:render_choice"

    metrics: tuple[str, ...]
    simulated: frozenset[str]  # Metrics that a simulator counted
    target: float  # R² at which a metric counts as predicted
    runs: tuple[str, ...]  # Names of the runs; each is held back once
    intervals: int  # Intervals of the shortest run
    steps: tuple[Step, ...]  # The choice of 1, 2, … metrics
    from_others: tuple[Prediction, ...]  # Each metric predicted from all others together
    tree: Tree
    cost: Cost
    scale: Scale = "count"  # Scale of the values that are predicted
    excluded: tuple[tuple[str, str], ...] = ()  # Metrics left out, each with the reason
    notes: tuple[str, ...] = ()
    hours: float | None = None  # Time that the choice may take

    @property
    def enough(self) -> Step | None:
        """Return the smallest choice whose metrics predict all others; None if there is none."""
        return next((step for step in self.steps if len(step.predicted(self.target)) == len(step.predictions)), None)

    @property
    def recommended(self) -> Step | None:
        """Return the choice to measure: the smallest that predicts all others, or of those that fit the time, the one
        that gives the most metrics, measured and predicted; None if every metric has to be measured.
        """
        if self.hours is None:
            return self.enough
        affordable = [step for step in self.steps if (self.cost.time(step.chosen) or 0) <= 3600 * self.hours]
        return max(
            affordable, key=lambda step: (len(step.chosen) + len(step.predicted(self.target)), -len(step.chosen))
        )

    @property
    def unpredicted(self) -> tuple[str, ...]:
        """Return the metrics that neither a choice nor all others together predict to the target."""
        reached = {
            each.metric
            for predictions in (self.from_others, *(step.predictions for step in self.steps))
            for each in predictions
            if each.r2 >= self.target
        }
        return tuple(metric for metric in self.metrics if metric not in reached)

    def headline(self) -> str:
        """Return how many metrics predict the rest, which these are, and which metrics are predicted by none."""
        return answer_text.headline(self)

    def tables(self) -> tuple[Table, ...]:
        """Return a table with a row for each number of metrics, one with a row for each metric, and the clusters."""
        return (
            answer_text.steps_table(self),
            answer_text.metrics_table(self),
            *([answer_text.clusters_table(self)] if self.tree.clusters else []),
        )

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with a row for each number of metrics and each metric that is then predicted."""
        import polars as pl  # noqa: PLC0415  slow to load

        rows = [
            {
                "size": len(step.chosen),
                "chosen": list(step.chosen),
                "metric": each.metric,
                "r2": each.r2,
                "low": each.low,
                "high": each.high,
                "predicted": each.is_predicted(self.target),
            }
            for step in self.steps
            for each in step.predictions
        ]
        return pl.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        recommended = self.recommended
        found: dict[str, Any] = plain(
            {
                "metrics": list(self.metrics),
                "simulated": sorted(self.simulated),
                "r2": self.target,
                "scale": self.scale,
                "runs": list(self.runs),
                "intervals": self.intervals,
                "recommended": None if recommended is None else list(recommended.chosen),
                "enough": None if self.enough is None else len(self.enough.chosen),
                "unpredicted": list(self.unpredicted),
                "steps": [
                    {
                        **asdict(replace(step, predictions=())),
                        "seconds": self.cost.time(step.chosen),
                        "passes": self.cost.passes(step.chosen),
                        "predictions": list(map(asdict, step.predictions)),
                    }
                    for step in self.steps
                ],
                "from_others": list(map(asdict, self.from_others)),
                "clusters": [
                    {"metrics": list(cluster.metrics), "weakest": asdict(cluster.weakest)}
                    for cluster in self.tree.clusters
                ],
                "correlations": list(map(asdict, self.tree.correlations)),
                "joins": list(map(list, self.tree.joins)),
                "runs_planned": self.cost.runs,
                "hours": self.hours,
                "excluded": dict(self.excluded),
                "notes": list(self.notes),
            }
        )
        return found


def choose_metrics(
    runs: Mapping[str, FloatArray],
    metrics: Sequence[str],
    *,
    target: float,
    cost: Cost,
    scale: Scale = "count",
    simulated: Sequence[str] = (),
    hours: float | None = None,
    left_out: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
) -> MetricChoice:
    """Return which metrics predict the rest, from the values of each run by its name, (intervals, metrics).

    `left_out`: Metrics that the runs lack, each with the reason. Metrics without a finite value in an interval, or
    constant in a run, are left out too.
    """
    _require_enough(runs)
    kept, excluded = _usable(runs, metrics)
    names = [metrics[at] for at in kept]
    if len(names) < 2:
        said = f": {excluded[0][0]} is {excluded[0][1]}" if excluded else ""
        raise DataError(f"there {'is one metric' if names else 'are no metrics'} to choose from{said}")
    values = [rows[:, kept] for rows in runs.values()]
    intervals = min(map(len, values))
    most = min(len(names) - 1, max(1, intervals // _INTERVALS_EACH))
    steps, from_others = judge_choices(Moments.of([rescale(rows, scale) for rows in values]), names, most, target)
    if hours is not None:
        _require_affordable(steps[0], cost, hours)
    limit = (
        [f"Choices of more than {most} metrics need longer runs: {_INTERVALS_EACH} intervals for each chosen metric."]
        if most < len(names) - 1
        else []
    )
    few = vary_in_few_intervals(values, names)
    return MetricChoice(
        tuple(names),
        frozenset(simulated) & frozenset(names),
        target,
        tuple(runs),
        intervals,
        tuple(steps),
        tuple(from_others),
        join(values, names, target),
        cost,
        scale,
        (*left_out, *excluded),
        (*notes, *_cycle_notes(names, simulated), *few_interval_notes(few, "rely on none"), *limit),
        hours,
    )


def _cycle_notes(names: Sequence[str], simulated: Sequence[str]) -> Iterator[str]:
    if _CYCLES in names and _CYCLES in simulated:
        yield f"{_CYCLES} is simulated: a formula of other events, which therefore predict it."


def _require_enough(runs: Mapping[str, FloatArray]) -> None:
    if len(runs) < MINIMUM_RUNS:
        raise DataError(
            f"{counted(len(runs), 'run')}, but at least {MINIMUM_RUNS} are needed, of which each is held back once: "
            "measure more"
        )
    for name, values in runs.items():
        if len(values) < MINIMUM_INTERVALS:
            raise DataError(
                f"run {name} has {counted(len(values), 'interval')}, but at least {MINIMUM_INTERVALS} are needed: "
                "shorten the interval or lengthen the run"
            )


def _usable(runs: Mapping[str, FloatArray], metrics: Sequence[str]) -> tuple[list[int], list[tuple[str, str]]]:
    kept, excluded = [], []
    for at, metric in enumerate(metrics):
        for name, values in runs.items():
            column = values[:, at]
            if not np.isfinite(column).all():
                excluded.append((metric, f"without a value in an interval of run {name}"))
                break
            if (column == column[0]).all():
                excluded.append((metric, f"{'zero' if column[0] == 0 else 'constant'} in every interval of run {name}"))
                break
        else:
            kept.append(at)
    return kept, excluded


def _require_affordable(smallest: Step, cost: Cost, hours: float) -> None:
    """Refuse a time in which not even one metric can be measured, or a campaign whose runs have no known time."""
    seconds = cost.time(smallest.chosen)
    if seconds is None:
        raise DataError("the campaign does not know how long its runs took, so no time can be divided among them")
    if seconds > 3600 * hours:
        raise DataError(
            f"{counted(cost.runs, 'run')} of one pass take {duration(seconds)}, more than {duration(3600 * hours)}: "
            f"give at least {math.ceil(seconds / 36) / 100} hours, or fewer runs"
        )
