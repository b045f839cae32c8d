"""Open predictions decided by further runs, which had no part in choosing.

The pilot chooses the metrics and fits the others once. Each further run then shows how much of a metric's variation the
fit leaves. Looks come after 4, 8, 16, … further runs, and look i spends α / 2^i: so the chance that a prediction is
shown, or refuted, wrongly at any look is at most α for each, however often one goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.analysis.choice.held_back import LEVEL, Prediction, Step, predict
from unperturbed.analysis.choice.moments import FloatArray, Moments, coefficients, rescale

if TYPE_CHECKING:
    from unperturbed.analysis.choice.metric_choice import MetricChoice

FIRST_LOOK = 4
"""Further runs before the first look."""

Run = Mapping[str, FloatArray]
"""Values of the metrics that a further run has, interval by interval."""


def next_look(runs: int) -> int:
    """Return how many further runs the next look needs."""
    needed = FIRST_LOOK
    while needed <= runs:
        needed *= 2
    return needed


def open_step(choice: MetricChoice) -> Step | None:
    """Return the choice whose decision would help most: the smallest that may still be shown to predict all others.

    None if the smallest such choice is known, or none is left.
    """
    for step in choice.steps:
        if step is choice.enough:
            return None
        states = [(each.is_predicted(choice.target), each.is_open(choice.target)) for each in step.predictions]
        if all(shown or is_open for shown, is_open in states):
            return step
    return None


def decide_by(choice: MetricChoice, pilot: Sequence[FloatArray], fresh: Sequence[Run]) -> MetricChoice:
    """Return the choice with its open predictions judged by further runs, where a look is complete.

    `pilot`: Values of the runs that made the choice, of its metrics in their order.
    """
    centre, width = _scale(pilot, choice)
    _, _, correlations = Moments.of([rescale(rows, choice.scale) for rows in pilot]).fitted()
    steps = []
    for step in choice.steps:
        chosen = [choice.metrics.index(name) for name in step.chosen]
        weights = coefficients(correlations, chosen)
        predictions = []
        for each in step.predictions:
            at = choice.metrics.index(each.metric)
            judged = None
            if each.is_open(choice.target):
                named = (*step.chosen, each.metric)
                found = [np.column_stack([run[name] for name in named]) for run in fresh if run.keys() >= set(named)]
                judged = _judge(each.metric, found, chosen, at, weights[:, at], centre, width, choice)
            predictions.append(judged or each)
        steps.append(replace(step, predictions=tuple(predictions)))
    return replace(choice, steps=tuple(steps))


def _scale(pilot: Sequence[FloatArray], choice: MetricChoice) -> tuple[FloatArray, FloatArray]:
    """Return the centre and the width by which `Moments.of` scales values."""
    runs = [rescale(rows, choice.scale) for rows in pilot]
    centre = np.mean([run.mean(axis=0) for run in runs], axis=0)
    width = np.sqrt(np.mean([((run - centre) ** 2).mean(axis=0) for run in runs], axis=0))
    return np.asarray(centre, np.float64), np.asarray(width, np.float64)


def _judge(
    metric: str,
    runs: Sequence[FloatArray],
    chosen: Sequence[int],
    at: int,
    weights: FloatArray,
    centre: FloatArray,
    width: FloatArray,
    choice: MetricChoice,
) -> Prediction | None:
    """Return a metric's prediction in the further runs of the last complete look; None before the first.

    `runs`: Values of the chosen metrics, then of this one.
    """
    complete, look = 0, 0
    while next_look(complete) <= len(runs):
        complete, look = next_look(complete), look + 1
    if not complete:
        return None
    order = [*chosen, at]
    unexplained = []
    for values in runs[:complete]:
        scaled = (rescale(values, choice.scale) - centre[order]) / width[order]
        spread = float(scaled[:, -1].var())
        left = float(np.mean((scaled[:, -1] - scaled[:, :-1] @ weights) ** 2))
        unexplained.append(left / spread if spread > 0 else float(left > 0))
    return predict(metric, np.array(unexplained), level=1 - (1 - LEVEL) / 2**look)
