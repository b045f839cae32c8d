"""How many runs and hours a search will take, said before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from unperturbed.analysis.partition.limits import Settings
from unperturbed.analysis.partition.strategies import STRATEGIES, Strategy

__all__ = ["Forecast", "forecast"]

_TOGETHER = 5
"""Metrics that go together, when nothing is known yet."""

_SEARCH, _CERTIFY, _REGROUP = 1.5, 5, 16
"""Repetitions of a candidate and of a certificate for each one at first, as some candidates get more and a certificate is made at a
smaller level; and candidates that regrouping tries. Means over the simulated programs of `docs/evidence/partition.md`, which has the
forecast beside what was needed."""


@dataclass(frozen=True)
class Forecast:
    """What a search will take, in runs (`max_runs` kept) and in hours (None where it is not known how long a run takes).

    Attributes
    ----------
    low, hours_low : if all metrics can be measured together.
    expected, hours_expected : if about five metrics go together.
    high, hours_high : if no two metrics do.
    """

    low: int
    expected: int
    high: int
    hours_low: float | None = None
    hours_expected: float | None = None
    hours_high: float | None = None


def forecast(
    metrics: int,
    strategy: str | Strategy = "first-fit",
    settings: Settings | None = None,
    *,
    passes: int = 1,
    baseline_runs: int = 0,
) -> Forecast:
    """Predict what a search will take, before it starts.

    Parameters
    ----------
    metrics : how many metrics.
    strategy : its name, or itself.
    settings : repetitions, limits, seconds a run; None for the defaults.
    passes : runs that one repetition takes.
    baseline_runs : fresh runs of the baseline for each round of certification, all passes together.

    Returns
    -------
    Forecast
    """
    chosen = STRATEGIES[strategy] if isinstance(strategy, str) else strategy
    given = settings or Settings()

    def runs(subsets: int) -> int:
        tried = 1.0
        if subsets > 1:
            # Improving tries to join every two subsets, to move each metric into another, and regroups.
            tried += chosen.candidates(metrics, subsets) + subsets * (subsets - 1) / 2 + metrics + _REGROUP
        repetitions = _SEARCH * tried + _CERTIFY * subsets
        needed = ceil(given.repetitions * repetitions) * passes + baseline_runs
        return needed if given.max_runs is None else min(needed, given.max_runs)

    low, expected, high = (runs(subsets) for subsets in (1, ceil(metrics / _TOGETHER), metrics))
    if given.seconds_per_run is None:
        return Forecast(low, expected, high)
    limit = float("inf") if given.max_hours is None else given.max_hours
    return Forecast(low, expected, high, *(min(count * given.seconds_per_run / 3600, limit) for count in (low, expected, high)))
