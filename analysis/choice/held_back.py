"""How well chosen metrics predict the others in a run that neither the choice nor the fit has seen.

Intervals of one run depend on one another, so a run is held back as a whole: all other runs choose k metrics and fit
the others by least squares, and the run shows how much of each metric's variation over its intervals remains
unexplained. Each run is held back once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unperturbed.analysis.choice.moments import FloatArray, Moments, coefficients, coefficients_of_others, errors
from unperturbed.analysis.choice.search import Choice, choose, explained, r2_of_all
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

LEVEL = 0.95
"""Confidence level of each interval of R²."""


@dataclass(frozen=True)
class Prediction:
    """How well a metric is predicted in runs held back."""

    metric: str
    r2: float  # The mean over the runs
    low: float  # Ends of the confidence interval, by the variation between runs
    high: float
    runs: tuple[
        float, ...
    ]  # R² in each run; NaN where the other runs chose this metric, which then needs no prediction

    def is_predicted(self, target: float) -> bool:
        """Return whether R² is shown to reach the target: the whole interval does."""
        return self.low >= target

    def is_open(self, target: float) -> bool:
        """Return whether more runs may show that R² reaches the target."""
        return not self.is_predicted(target) and not self.high < target


@dataclass(frozen=True)
class Step:
    """The choice of k metrics."""

    chosen: tuple[str, ...]
    how: str  # The search that found it: `forward`, `exact` or `backward`
    explained: float  # Share of the variance of all metrics that the choice explains in the runs that made it
    forward_explained: float  # The same of the forward search's choice
    agreeing: int  # How many of the choices with one run held back are this choice
    predictions: tuple[Prediction, ...]  # Of the other metrics, in their order

    def predicted(self, target: float) -> tuple[str, ...]:
        """Return the other metrics that are shown to reach the target."""
        return tuple(each.metric for each in self.predictions if each.is_predicted(target))

    @property
    def worst(self) -> Prediction:
        """Return the prediction whose R² may be the lowest: the one with the lowest end of its interval."""
        return min(self.predictions, key=lambda each: each.low)


def judge_choices(
    moments: Moments, metrics: Sequence[str], most: int, target: float
) -> tuple[list[Step], list[Prediction]]:
    """Return the choice of 1 to `most` metrics, each with its predictions; and the predictions from all other metrics.

    The choice that is returned is that of all runs. Its predictions are those of the choices with one run held back,
    which may differ from it.
    """
    folds = [_Fold(moments, run, most, target) for run in range(len(moments))]
    _, _, correlations = moments.fitted()
    steps = []
    for place, choice in enumerate(choose(correlations, most, target)):
        rest = [at for at in range(len(metrics)) if at not in choice.chosen]
        unexplained = {at: np.array([fold.unexplained(place, at) for fold in folds]) for at in rest}
        steps.append(
            Step(
                tuple(metrics[at] for at in choice.chosen),
                choice.how,
                explained(correlations, choice.chosen),
                explained(correlations, choice.forward),
                sum(set(fold.chosen(place)) == set(choice.chosen) for fold in folds),
                tuple(predict(metrics[at], unexplained[at]) for at in rest),
            )
        )
    from_others = np.array([fold.unexplained_by_others() for fold in folds])
    return steps, [predict(metric, from_others[:, at]) for at, metric in enumerate(metrics)]


class _Fold:
    """One run held back: the choices of the others, and the run's moments on their scale."""

    def __init__(self, moments: Moments, held_back: int, most: int, target: float) -> None:
        centre, width, self._correlations = moments.fitted(held_back)
        self._choices: list[Choice] = choose(self._correlations, most, target)
        self._products = moments.about(held_back, centre, width)
        self._spread = moments.spread[held_back] / width**2
        self._left: dict[tuple[int, ...], FloatArray] = {}  # Unexplained shares of all metrics, by choice

    def chosen(self, place: int) -> tuple[int, ...]:
        return self._choices[min(place, len(self._choices) - 1)].chosen

    def unexplained(self, place: int, metric: int) -> float:
        """Return the share of a metric's variation in the run that a choice leaves.

        If these runs chose the metric itself, where all runs chose another, the metric that replaces it best takes its
        place: of near twins, any may be chosen.
        """
        chosen = self.chosen(place)
        if metric in chosen:
            rest = tuple(one for one in chosen if one != metric)
            others = [one for one in range(len(self._correlations)) if one not in chosen]
            chosen = max(((*rest, one) for one in others), key=lambda each: self._r2(each, metric))
        left = self._left.get(chosen)
        if left is None:
            weights = np.zeros_like(self._correlations)
            weights[list(chosen)] = coefficients(self._correlations, chosen)
            left = self._left[chosen] = errors(self._products, weights) / self._spread
        return float(left[metric])

    def _r2(self, chosen: Sequence[int], metric: int) -> float:
        return round(float(r2_of_all(self._correlations, chosen)[metric]), 9)

    def unexplained_by_others(self) -> FloatArray:
        """Return the share of each metric's variation in the run that all other metrics together leave."""
        left = errors(self._products, coefficients_of_others(self._correlations))
        return np.asarray(left / self._spread, np.float64)


def predict(metric: str, unexplained: FloatArray, *, level: float = LEVEL) -> Prediction:
    """Return a metric's prediction from the unexplained share of each run, at least two runs; Student's interval."""
    runs = 1 - unexplained
    mean, quantile = float(runs.mean()), float(special.stdtrit(len(runs) - 1, (1 + level) / 2))
    reach = quantile * float(runs.std(ddof=1)) / math.sqrt(len(runs))
    return Prediction(metric, mean, mean - reach, min(1.0, mean + reach), tuple(runs.tolist()))
