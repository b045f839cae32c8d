"""Responses of correlations and totals to the dose, and whether they can be corrected for the counting."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from unperturbed.analysis.doses.fit import FEWEST_ROUNDS, Contrast, FloatArray, fit_doses
from unperturbed.analysis.multiple_testing import holm, holm_of_intervals
from unperturbed.analysis.perturbation.correlation import fisher, from_fisher
from unperturbed.analysis.perturbation.decide import classify_change
from unperturbed.analysis.perturbation.rounds import round_of
from unperturbed.analysis.perturbation.verdict import Verdict, VerdictName
from unperturbed.analysis.totals.verdict import TIMES, TotalChange, total_of
from unperturbed.collectors.data import Trace

ResponseName = Literal["not linear", "undecided", "corrected", "not needed"]
"""*not needed*: the counting leaves the value unperturbed. Otherwise: *corrected*: the response is shown to be a line
within the tolerance, so its value at dose 0 is the value without counting. *not linear*: the response is shown to
deviate from a line by more than the tolerance. *undecided*: neither is shown."""

SERIOUSNESS: tuple[ResponseName, ...] = ("not linear", "undecided", "corrected", "not needed")
"""All outcomes, most serious first."""

_BY_LINEARITY: Mapping[VerdictName, ResponseName] = {
    "unperturbed": "corrected",
    "perturbed": "not linear",
    "shifted": "undecided",
    "undecided": "undecided",
}


@dataclass(frozen=True)
class Response:
    """Response of one correlation or total to the dose."""

    check: Literal["inner", "outer", "software", "total"]
    # first, second: Metrics of a correlation; equal for an outer correlation or a total.
    first: str
    second: str
    means: Mapping[int, float]  # Mean at each dose above 0
    # value, low, high: Extrapolated to dose 0, with the interval at 1 − α.
    value: float
    low: float
    high: float
    without: float | None  # Observed mean at dose 0; None if the program did not run without counting
    # The deviation from a line at dose 0 (a difference of ρ, or a ratio of totals minus 1), with its interval at
    # 1 − 2α; NaN and infinite if too few doses show it.
    deviation: float
    deviation_low: float
    deviation_high: float
    p: float  # p-value of a deviation of 0
    p_beyond: float  # p-value of a deviation within the tolerance
    tolerance: float
    change: VerdictName  # Verdict on dose 1, against the runs without counting if there are any
    rounds: int
    by_signals: bool = False  # Whether the signals were extrapolated, interval by interval, and not the coefficients
    outcome: ResponseName = "undecided"

    @property
    def label(self) -> str:
        """Return the metrics as one label."""
        return self.first if self.first == self.second else f"{self.first} – {self.second}"

    @property
    def weight(self) -> tuple[int, float]:
        """Return a sort key: the most serious outcome first, undecided times last, then the largest change."""
        undecided_time = self.first in TIMES and self.outcome == "undecided"
        change = self.means[1] - self.value
        size = abs(change) if self.check != "total" else abs(change / self.value if self.value else 0)
        return len(SERIOUSNESS) if undecided_time else SERIOUSNESS.index(self.outcome), -size / (self.tolerance or 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the response as JSON types."""
        return asdict(self) | {"means": {str(dose): mean for dose, mean in self.means.items()}}


@dataclass(frozen=True)
class DoseResponses:
    """Responses of everything that was judged in one configuration."""

    configuration: str
    responses: tuple[Response, ...]
    alpha: float

    @property
    def outcome(self) -> ResponseName:
        """Return the most serious outcome; undecided times do not count, as for the verdicts on totals."""
        known = {each.outcome for each in self.responses if each.first not in TIMES or each.outcome != "undecided"}
        return next((name for name in SERIOUSNESS if name in known), "not needed")

    @property
    def ranked(self) -> list[Response]:
        """Return the responses, most serious first."""
        return sorted(self.responses, key=lambda each: each.weight)

    def having(self, outcome: ResponseName) -> list[Response]:
        """Return the responses with this outcome, most serious first."""
        return [each for each in self.ranked if each.outcome == outcome]

    def to_dict(self) -> dict[str, Any]:
        """Return outcome and responses as JSON types."""
        return {
            "configuration": self.configuration,
            "outcome": self.outcome,
            "alpha": self.alpha,
            "responses": [each.to_dict() for each in self.responses],
        }


@dataclass(frozen=True)
class Scale:
    """Scale of the values: how they are shown, and how a deviation compares with the tolerance."""

    shown: Callable[[FloatArray], FloatArray]
    # Of a value and a deviation from it: the deviation in the unit of the tolerance.
    deviation: Callable[[FloatArray, FloatArray], FloatArray]
    # Of a value and a tolerance: the largest deviations below and above that are within it.
    reach: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


def _reach_of_rho(value: FloatArray, tolerance: FloatArray) -> tuple[FloatArray, FloatArray]:
    rho = from_fisher(value)
    below, above = (fisher(np.clip(rho + sign * tolerance, -1, 1)) for sign in (-1, 1))
    return np.maximum(0, value - below), np.maximum(0, above - value)


FISHER = Scale(from_fisher, lambda value, by: from_fisher(value + by) - from_fisher(value), _reach_of_rho)
RATIO = Scale(
    lambda value: value,
    lambda value, by: np.maximum(by / value, -1),
    lambda value, tolerance: (value * (1 - 1 / (1 + tolerance)), value * tolerance),
)


Checked = tuple[Sequence[Trace], Sequence[Verdict]]
"""Runs, and their checks against the same reference runs."""

_Key = tuple[str, str, str]


def responses_of_checks(
    by_dose: Mapping[int, Checked],
    without: Sequence[Trace],
    changes: Verdict,
    at_zero: Sequence[Checked],
    *,
    alpha: float,
) -> list[Response]:
    """Return the responses of correlations, without outcomes.

    `by_dose`: For each dose above 0, its runs and their checks, all against the same reference runs.
    `without`: The reference runs, if they are runs of the same build without counting; otherwise none.
    `changes`: The verdict on dose 1.
    `at_zero`: Runs made by `signals`, by lines and by parabolas; empty if their intervals are not the same work.
    """
    known = {dose: _observed(checks) for dose, (_, checks) in by_dose.items()}
    extrapolated = [_observed(checks) for _, checks in at_zero]
    decided = {(change.check, change.first, change.second): change for change in changes.changes}
    keys = [key for key in known[1] if key in decided and all(key in each for each in (*known.values(), *extrapolated))]
    reference: dict[_Key, tuple[float, ...]] = {
        (change.check, change.first, change.second): change.reference
        for check in by_dose[1][1]
        for change in check.changes
    }
    return _of_coefficients(
        keys,
        {dose: (runs, known[dose]) for dose, (runs, _) in by_dose.items()},
        (without, reference) if without else None,
        [(runs, each) for (runs, _), each in zip(at_zero, extrapolated, strict=True)],
        [(decided[key].tolerance, decided[key].verdict) for key in keys],
        alpha=alpha,
    )


def responses_of_software(
    by_dose: Mapping[int, Checked], at_one: Sequence[Trace], at_zero: Sequence[Checked], *, alpha: float
) -> list[Response]:
    """Return the responses of pairs with a software metric, which no run without counting has.

    `by_dose`: For each dose above 1, its runs and their check against the runs at dose 1, `at_one`.
    `at_zero`: As in `responses_of_checks`, checked against these runs too; the change to dose 0 decides whether a
    correction is needed.
    """
    (_, line), _ = at_zero
    changes = {("software", change.first, change.second): change for check in line for change in check.changes}
    known = {dose: _observed(checks, "software") for dose, (_, checks) in by_dose.items()}
    extrapolated = [_observed(checks, "software") for _, checks in at_zero]
    keys = [key for key in changes if all(key in each for each in (*known.values(), *extrapolated))]
    return _of_coefficients(
        keys,
        {1: (at_one, {key: changes[key].reference for key in keys})}
        | {dose: (runs, known[dose]) for dose, (runs, _) in by_dose.items()},
        None,
        [(runs, each) for (runs, _), each in zip(at_zero, extrapolated, strict=True)],
        [(changes[key].tolerance, changes[key].verdict) for key in keys],
        alpha=alpha,
    )


def _observed(checks: Sequence[Verdict], name: str = "") -> dict[_Key, tuple[float, ...]]:
    return {
        (name or change.check, change.first, change.second): change.observed
        for check in checks
        for change in check.changes
    }


def _of_coefficients(
    keys: Sequence[_Key],
    by_dose: Mapping[int, tuple[Sequence[Trace], Mapping[_Key, Sequence[float]]]],
    without: tuple[Sequence[Trace], Mapping[_Key, Sequence[float]]] | None,
    at_zero: Sequence[tuple[Sequence[Trace], Mapping[_Key, Sequence[float]]]],
    decided: Sequence[tuple[float, VerdictName]],
    *,
    alpha: float,
) -> list[Response]:
    """Return the responses of correlations whose ρ is known for each run."""
    if not keys:
        return []

    def columns(side: tuple[Sequence[Trace], Mapping[_Key, Sequence[float]]]) -> tuple[Sequence[Trace], FloatArray]:
        return side[0], fisher(np.array([side[1][key] for key in keys], np.float64)).T

    made = _responses(
        {dose: columns(side) for dose, side in by_dose.items()},
        None if without is None else columns(without),
        decided,
        FISHER,
        alpha=alpha,
        at_zero=[columns(side) for side in at_zero],
    )
    return [
        replace(response, check=_CHECKS[check], first=first, second=second)
        for response, (check, first, second) in zip(made, keys, strict=False)
        if check in _CHECKS
    ]


_CHECKS: Mapping[str, Literal["inner", "outer", "software"]] = {
    "inner": "inner",
    "outer": "outer",
    "software": "software",
}


def responses_of_totals(
    by_dose: Mapping[int, Sequence[Trace]], without: Sequence[Trace], changes: Sequence[TotalChange], *, alpha: float
) -> list[Response]:
    """Return the responses of totals, without outcomes; arguments as in `responses_of_checks`.

    Each increment adds its cost to the total. So totals are extrapolated as they are, not as logarithms.
    """

    def totals(runs: Sequence[Trace]) -> FloatArray:
        return np.array([[total_of(run, change.metric) or math.nan for change in changes] for run in runs], np.float64)

    if not changes:
        return []
    size = totals(by_dose[1]).mean(axis=0)  # spreads of instructions and of seconds are comparable as ratios only
    made = _responses(
        {dose: (runs, totals(runs) / size) for dose, runs in by_dose.items()},
        (without, totals(without) / size) if without else None,
        [(change.tolerance, change.verdict) for change in changes],
        replace(RATIO, shown=lambda value: np.asarray(np.maximum(0, value * size), np.float64)),
        alpha=alpha,
    )
    return [
        replace(response, first=change.metric, second=change.metric)
        for response, change in zip(made, changes, strict=False)
        if not math.isnan(response.value)
    ]


def _responses(
    values: Mapping[int, tuple[Sequence[Trace], FloatArray]],
    without: tuple[Sequence[Trace], FloatArray] | None,
    decided: Sequence[tuple[float, VerdictName]],
    scale: Scale,
    *,
    alpha: float,
    at_zero: Sequence[tuple[Sequence[Trace], FloatArray]] = (),
) -> list[Response]:
    """Return one response for each column of the values, (runs, m); none if too few rounds have all doses.

    `decided`: Tolerance and verdict of each column.
    `at_zero`: Values of runs at dose 0, by lines and by parabolas, if signals were extrapolated.
    """
    doses = sorted(values)
    rows = {dose: _by_round(*values[dose]) for dose in doses}
    idle = _by_round(*without) if without is not None else {}
    complete = [key for key in rows[1] if all(key in of_dose for of_dose in rows.values())]
    with_idle = [key for key in complete if key in idle]
    if len(with_idle) >= FEWEST_ROUNDS:
        complete = with_idle
    if len(complete) < FEWEST_ROUNDS:
        return []
    stacked = np.array([[rows[dose][key] for dose in doses] for key in complete], np.float64)
    beside = np.array([idle[key] for key in with_idle], np.float64) if complete is with_idle else None
    made = [_by_round(*side) for side in at_zero]
    line, parabola = (np.array([each[key] for key in complete], np.float64) for each in made) if made else (None, None)
    extrapolated = None if line is None or parabola is None else (line, parabola)
    return responses_of_values(doses, stacked, beside, decided, scale, alpha=alpha, at_zero=extrapolated)


def responses_of_values(
    doses: Sequence[int],
    stacked: FloatArray,
    beside: FloatArray | None,
    decided: Sequence[tuple[float, VerdictName]],
    scale: Scale,
    *,
    alpha: float,
    at_zero: tuple[FloatArray, FloatArray] | None = None,
) -> list[Response]:
    """Return one response for each of m columns, without metrics and outcome.

    `stacked`: float64, shape (rounds, doses, m). Values at the doses above 0, on the scale of the fit.
    `beside`: float64, shape (rounds, m). Values without counting; None if there are none.
    `decided`: Tolerance of each column, and verdict on dose 1.
    `at_zero`: As in `fit_doses`.
    """
    fit = fit_doses(doses, stacked, beside, alpha=alpha, at_zero=at_zero)
    value = fit.value.mean
    tolerance = np.array([each for each, _ in decided], np.float64)
    p = p_beyond = np.ones(len(value))
    deviation, low, high = (np.full(len(value), bound) for bound in (math.nan, -math.inf, math.inf))
    if (contrast := fit.deviation) is not None:
        low, high = _widest(scale, value, contrast, alpha)
        deviation = scale.deviation(value, contrast.mean)
        below, above = _reach(scale, value, contrast.mean, tolerance)
        p = contrast.p()
        p_beyond = np.where(tolerance > 0, contrast.p_beyond(below, above), p)
    shown = [scale.shown(each) for each in (value, fit.low, fit.high)]
    means = scale.shown(stacked.mean(axis=0))
    return [
        Response(
            check="total",
            first="",
            second="",
            means={dose: float(means[number, at]) for number, dose in enumerate(doses)},
            value=float(shown[0][at]),
            low=float(shown[1][at]),
            high=float(shown[2][at]),
            without=None if beside is None else float(scale.shown(beside.mean(axis=0))[at]),
            deviation=float(deviation[at]),
            deviation_low=float(low[at]),
            deviation_high=float(high[at]),
            p=float(p[at]),
            p_beyond=float(p_beyond[at]),
            tolerance=float(tolerance[at]),
            change=decided[at][1],
            rounds=len(stacked),
            by_signals=at_zero is not None,
        )
        for at in range(len(value))
    ]


def _widest(scale: Scale, value: FloatArray, contrast: Contrast, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of a deviation, the wider of two: the error may be in the value or in what deviates from it."""
    at_zero = value + contrast.mean
    low, high = (
        (scale.deviation(value, bound), scale.deviation(at_zero - bound, bound)) for bound in contrast.bounds(alpha)
    )
    return np.minimum(*low), np.maximum(*high)


def _reach(
    scale: Scale, value: FloatArray, deviation: FloatArray, tolerance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the largest deviations below and above that may be within the tolerance, from the value or to it."""
    below, above = scale.reach(value, tolerance)
    from_above, from_below = scale.reach(value + deviation, tolerance)
    return np.maximum(below, from_below), np.maximum(above, from_above)


def _by_round(runs: Sequence[Trace], values: FloatArray) -> dict[tuple[object, ...], FloatArray]:
    return {round_of(run): row for run, row in zip(runs, values, strict=True)}


def decide_responses(configuration: str, responses: Sequence[Response], *, alpha: float) -> DoseResponses:
    """Correct the p-values over all responses of a configuration, and add outcomes."""
    if not responses:
        return DoseResponses(configuration, (), alpha)
    corrected = holm([each.p for each in responses])
    beyond = holm_of_intervals([each.p_beyond for each in responses])
    return DoseResponses(
        configuration,
        tuple(
            replace(each, outcome=_outcome(each, float(corrected[at]), float(beyond[at]), alpha))
            for at, each in enumerate(responses)
        ),
        alpha,
    )


def _outcome(response: Response, p: float, p_beyond: float, alpha: float) -> ResponseName:
    if response.change == "unperturbed":
        return "not needed"
    low, high, tolerance = response.deviation_low, response.deviation_high, response.tolerance
    if response.check == "total":
        low, high, tolerance = (math.log1p(max(each, -1 + 1e-12)) for each in (low, high, tolerance))
    outcome = _BY_LINEARITY[classify_change(p, p_beyond, low, high, alpha=alpha, tolerance=tolerance)]
    # Coefficients may change most from dose 0 to 1, and the doses above 0 do not show this change.
    is_seen = response.check == "total" or response.by_signals or response.without is not None
    return "undecided" if outcome == "corrected" and not is_seen else outcome
