"""Sentences and tables on the metrics that predict the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from unperturbed.common.table import Cell, Column, Table, Tone
from unperturbed.common.wording import BAD, GOOD, UNDECIDED, correlation, counted, duration, first_of, listing, number

if TYPE_CHECKING:
    from unperturbed.analysis.choice.clusters import Correlation
    from unperturbed.analysis.choice.held_back import Prediction, Step
    from unperturbed.analysis.choice.metric_choice import MetricChoice

_NAMED = 16
_INTERVAL = "confidence interval, by the variation between runs"


def headline(choice: MetricChoice) -> str:
    """Return how many metrics predict the rest, which these are, and which are predicted by none."""
    step, goal = choice.recommended, f"R² {number(choice.target, 4)} in runs held back"
    every, alone = len(choice.metrics), choice.unpredicted
    none = f"; {_listed(alone)} {'is' if len(alone) == 1 else 'are'} predicted by none" if alone else ""
    if len(alone) == every:
        return f"none of the {every} metrics is predicted by the others to {goal}: measure all of them"
    if step is None:
        tried = len(choice.steps)
        return f"no choice of up to {tried} of the {every} metrics predicts the rest to {goal}{none}"
    lead = f"{len(step.chosen)} of {every} metrics"
    if step is choice.enough:
        predict = "predicts" if len(step.chosen) == 1 else "predict"
        return f"{lead} {predict} the rest to {goal}: {_listed(step.chosen)}{none}"
    shown = step.predicted(choice.target)
    missing = [each.metric for each in step.predictions if each.metric not in shown]
    predict = f"predict {len(shown)} of the other {len(step.predictions)}" if shown else "predict none of the others"
    return f"{lead} that fit the time {predict} to {goal}: {_listed(step.chosen)}; not shown: {_listed(missing)}"


def sentences(choice: MetricChoice) -> Iterator[str]:
    """Yield sentences on what the answer rests on, and what it takes to measure the choice."""
    step = choice.recommended
    yield (
        f"From {counted(len(choice.runs), 'run')} of at least {choice.intervals:,} intervals. Each run is predicted by "
        "a choice and a fit of the other runs alone; R² is the predicted share of the variation of "
        f"{'counts' if choice.scale == 'count' else 'the square roots of counts'} over its intervals."
    )
    if step is not None:
        passes, seconds = choice.cost.passes(step.chosen), choice.cost.time(step.chosen)
        takes = "" if seconds is None else f", about {duration(seconds, whole=True)}"
        runs = counted(choice.cost.runs, "run")
        yield f"To measure the choice: {counted(passes, 'pass', 'passes')} of {runs}{takes}."
        if choice.cost.at_once is not None and choice.cost.planned is None:
            yield (
                f"The number of passes assumes that any {choice.cost.at_once} metrics can share a run, as in the "
                "campaign's largest pass; `unperturbed run --dry-run` shows the passes."
            )
    if choice.simulated:
        which = "All counts" if len(choice.simulated) == len(choice.metrics) else "Some counts"
        yield f"{which} are simulated, not counted by a processor."
    for metric, reason in choice.excluded:
        yield f"{metric} is left out: {reason}."
    yield from choice.notes


def steps_table(choice: MetricChoice, most: int | None = None) -> Table:
    """Return a table with a row for each number of metrics; with `most`, the rows up to two beyond the choice."""
    chosen = choice.recommended
    shown = choice.steps
    if most is not None:
        shown = shown[: min(most, len(chosen.chosen) + 2) if chosen is not None else most]
    columns = (
        Column("k", "right", "number of metrics"),
        Column("metrics", meaning="the best k metrics; + marks those that a smaller choice lacks"),
        Column("predicted", "right", "other metrics that are shown to reach the target"),
        Column("worst", meaning="the other metric that is predicted worst", whole=True),
        Column("its R² ≥", "right", "lower end of the 95 % interval of its R² in runs held back"),
        Column("its R²", "right", "mean of the runs held back", detail=True),
        Column("same choice", "right", "how many of the choices with one run held back are this one", detail=True),
        Column("time", "right", "of measuring the choice", detail=True),
        Column("explained", "right", "share of the variance of all metrics, in the runs that chose", detail=True),
        Column("forward", "right", "the same of the forward search", detail=True),
        Column("search", meaning="the search that found the choice", detail=True),
    )
    rows: list[list[Cell | str]] = []
    for place, step in enumerate(shown):
        before = choice.steps[place - 1].chosen if place else ()
        tone: Tone = "strong" if step is chosen else ""
        rows.append(
            [
                Cell(str(len(step.chosen)), tone, len(step.chosen)),
                Cell(_added(step, before), tone),
                f"{len(step.predicted(choice.target))} of {len(step.predictions)}",
                step.worst.metric,
                r2_text(step.worst.low),
                r2_text(step.worst.r2),
                f"{step.agreeing} of {len(choice.runs)}",
                duration(choice.cost.time(step.chosen), whole=True),
                number(step.explained, 4),
                number(step.forward_explained, 4),
                step.how,
            ]
        )
    return Table(
        columns, rows, f"The best k metrics, and how many others they predict to R² {number(choice.target, 4)}"
    )


def metrics_table(choice: MetricChoice) -> Table:
    """Return a table with a row for each metric: measured or predicted by the choice, R², and the nearest metric."""
    step = choice.recommended or choice.steps[-1]
    by_metric = {each.metric: each for each in step.predictions}
    columns = (
        Column("metric", whole=True),
        Column(f"of {len(step.chosen)}", meaning="whether the choice measures or predicts it", whole=True),
        Column("R²", "right", "from the choice, in runs held back"),
        Column("95 %", "right", _INTERVAL, detail=True),
        Column("from all", "right", "R² from all other metrics together"),
        Column("nearest", meaning="the metric with the strongest correlation", whole=True),
        Column("ρ", "right", "Spearman's coefficient over intervals within runs"),
        Column("ρ, 95 %", "right", _INTERVAL, detail=True),
        Column("kind", detail=True),
    )
    rows: list[list[Cell | str]] = []
    for metric, others in zip(choice.metrics, choice.from_others, strict=True):
        near, strongest = choice.tree.nearest(metric)
        own = by_metric.get(metric)
        rows.append(
            [
                metric,
                Cell("measure", "strong") if own is None else _predicted_cell(own, choice.target),
                "" if own is None else Cell(r2_text(own.r2), key=own.r2),
                "" if own is None else f"{r2_text(own.low)} … {r2_text(own.high)}",
                Cell(r2_text(others.r2), key=others.r2),
                near,
                Cell(correlation(strongest.rho), key=strongest.rho),
                f"{correlation(strongest.low)} … {correlation(strongest.high)}",
                "simulated" if metric in choice.simulated else "counted",
            ]
        )
    return Table(columns, rows, f"What the best {counted(len(step.chosen), 'metric')} predict")


def clusters_table(choice: MetricChoice) -> Table:
    """Return a table with a row for each cluster: its metrics, and its weakest pair."""
    columns = (
        Column("metrics"),
        Column("weakest pair", meaning="the pair with the lowest |ρ|"),
        Column("ρ", "right", "Spearman's coefficient over intervals within runs, with its 95 % confidence interval"),
    )
    rows = [
        [", ".join(cluster.metrics), f"{weakest.first} – {weakest.second}", rho_text(weakest)]
        for cluster in choice.tree.clusters
        for weakest in [cluster.weakest]
    ]
    return Table(columns, rows, f"Redundant metrics: |ρ| above {number(1 - choice.tree.cut, 3)} on average")


def prediction_text(prediction: Prediction) -> str:
    """Format R² with its interval: `0.971 (0.962 … 0.978)`."""
    return f"{r2_text(prediction.r2)} ({r2_text(prediction.low)} … {r2_text(prediction.high)})"


def r2_text(value: float) -> str:
    """Format R² with three decimals: near 1, the third counts."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:.3f}"
    return "0.000" if text == "-0.000" else text.replace("-", "−")


def rho_text(correlations: Correlation) -> str:
    """Format ρ with its interval."""
    return f"{correlation(correlations.rho)} ({correlation(correlations.low)} … {correlation(correlations.high)})"


def _predicted_cell(prediction: Prediction, target: float) -> Cell:
    if prediction.is_predicted(target):
        return Cell(f"{GOOD} predicted", "good")
    return Cell(f"{UNDECIDED} open", "undecided") if prediction.is_open(target) else Cell(f"{BAD} not predicted", "bad")


def _added(step: Step, before: tuple[str, ...]) -> str:
    if before and set(before) < set(step.chosen):
        return ", ".join(f"+ {metric}" for metric in step.chosen if metric not in before)
    return ", ".join(step.chosen)


def _listed(metrics: tuple[str, ...] | list[str]) -> str:
    return listing(metrics) if len(metrics) <= _NAMED else first_of(metrics, _NAMED)
