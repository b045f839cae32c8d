"""Where a run becomes steady: planted starts, recurring phases, and runs that never settle."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from unperturbed.analysis.warm_up import Start, Starts, find_start, find_starts
from unperturbed.collectors.data import Metric, Trace

METRICS = ("a", "b")


def _trace(signals: NDArray[np.float64]) -> Trace:
    bounds = np.arange(len(signals) + 1)
    return Trace.from_columns(
        [Metric(name, "hardware") for name in METRICS],
        dict(zip(METRICS, signals.T, strict=True)),
        begin_ns=bounds[:-1],
        end_ns=bounds[1:],
    )


def _phases(*parts: tuple[float, int], seed: int = 1) -> Trace:
    """Return phases, each of a level (in standard deviations) and a number of intervals."""
    rng = np.random.default_rng(seed)
    return _trace(np.concatenate([level + rng.standard_normal((count, len(METRICS))) for level, count in parts]))


@pytest.mark.parametrize("seed", range(5))
def test_a_start_that_differs_ends_where_it_was_planted(seed: int) -> None:
    start = find_start(_phases((5, 40), (0, 160), seed=seed), METRICS)
    assert start.intervals == 200
    assert start.steady is not None
    assert abs(start.steady - 40) <= 2


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (((0, 200),), "one level"),
        (((5, 40), (0, 40)) * 4, "phases that recur"),
        (((0, 180), (5, 20)), "an end that differs"),
        (((5, 10), (0, 40)), "fewer than 60 intervals"),
    ],
)
def test_a_run_without_warm_up_is_steady_from_its_beginning(parts: tuple[tuple[float, int], ...], why: str) -> None:
    assert find_start(_phases(*parts), METRICS).steady == 0, why


def test_a_start_is_one_even_if_the_end_resembles_it() -> None:
    start = find_start(_phases((5, 40), (0, 160), (5, 20)), METRICS)
    assert start.steady is not None
    assert abs(start.steady - 40) <= 2


def test_a_start_before_recurring_phases_is_a_warm_up() -> None:
    start = find_start(_phases((-9, 30), *((5, 40), (0, 40)) * 3), METRICS)
    assert start.steady is not None
    assert abs(start.steady - 30) <= 1


@pytest.mark.parametrize(
    "parts", [((0, 60), (5, 60), (10, 60)), ((0, 140), (5, 60)), tuple((at * 4.0, 40) for at in range(6))]
)
def test_a_run_whose_phases_each_occur_once_is_never_steady(parts: tuple[tuple[float, int], ...]) -> None:
    assert find_start(_phases(*parts), METRICS).steady is None


@pytest.mark.parametrize("drift", [0.01, 0.1])
def test_a_small_drift_after_a_start_is_steady(drift: float) -> None:
    """Simulated counts hardly vary, so their ranks show the slightest drift as much as the start."""
    rng = np.random.default_rng(4)
    rest = 1 + drift * np.arange(240) / 240
    signals = np.concatenate([np.full(60, 10.0), rest])[:, None] * (1 + 0.001 * rng.standard_normal((300, 2)))
    assert find_start(_trace(signals), METRICS).steady == 60


@pytest.mark.parametrize(("start", "rest"), [(10.0, 1.0), (50.0, 0.0), (0.3, 0.1), (-1e-300, 1e-300), (1e308, -1e308)])
def test_levels_without_any_noise(start: float, rest: float) -> None:
    signals = np.full((200, 2), rest)
    signals[:40] = start
    assert find_start(_trace(signals), METRICS).steady == 40
    stairs = np.repeat(np.linspace(start / 2, rest / 2, 4), 50)
    assert find_start(_trace(np.column_stack([stairs, stairs])), METRICS).steady is None


@pytest.mark.parametrize("share", [0.03, 0.05, 0.1])
def test_outliers_do_not_hide_a_start(share: float) -> None:
    rng = np.random.default_rng(6)
    for _ in range(10):
        signals = rng.standard_normal((200, 2)) + 100 * (rng.random((200, 2)) < share)
        assert find_start(_trace(signals), METRICS).steady == 0
        signals[:40] += 3
        start = find_start(_trace(signals), METRICS)
        assert start.steady is not None
        assert 38 <= start.steady <= 46


def test_metrics_that_are_nearly_the_same_are_no_further_evidence() -> None:
    rng = np.random.default_rng(7)
    names = [f"m{at}" for at in range(6)]
    called = 0
    for _ in range(200):
        signals = 0.995 * rng.standard_normal((60, 1)) + 0.1 * rng.standard_normal((60, 6))
        for at in range(1, 60):
            signals[at] = 0.7 * signals[at - 1] + np.sqrt(1 - 0.7**2) * signals[at]
        bounds = np.arange(61)
        metrics = [Metric(name, "hardware") for name in names]
        columns = dict(zip(names, signals.T, strict=True))
        trace = Trace.from_columns(metrics, columns, begin_ns=bounds[:-1], end_ns=bounds[1:])
        called += find_start(trace, names).steady != 0
    assert called <= 10  # 2 of 200; 21 if the six count as six


def test_a_start_that_fades_ends_where_it_has_faded() -> None:
    """A change point stands in its middle, and what is left of it is too short to be a level of its own."""
    rng = np.random.default_rng(8)
    signals = 1 + 0.01 * rng.standard_normal((200, 2))
    signals[:40] += 2
    signals[40:56] += np.linspace(0.6, 0.05, 16)[:, None]
    start = find_start(_trace(signals), METRICS)
    assert start.steady is not None
    assert 50 <= start.steady <= 60


def test_a_drift_from_beginning_to_end_is_never_steady() -> None:
    rng = np.random.default_rng(5)
    signals = np.linspace(0, 6, 300)[:, None] + rng.standard_normal((300, 2))
    assert find_start(_trace(signals), METRICS).steady is None


def test_what_has_no_level_is_left_out() -> None:
    noisy = np.asarray(_phases((5, 40), (0, 160))["a"])
    alone = find_start(_trace(np.column_stack([noisy, np.ones(200)])), METRICS)
    assert alone.steady is not None
    assert abs(alone.steady - 40) <= 2
    without = np.where(np.arange(200) == 7, np.nan, 0.0)
    assert find_start(_trace(np.column_stack([noisy, without])), METRICS) == alone
    assert find_start(_trace(np.ones((200, 2))), METRICS) == Start(200, 0)


def test_one_outlier_is_no_start() -> None:
    signals = np.random.default_rng(2).standard_normal((200, 2))
    signals[:3] += 1e9
    assert find_start(_trace(signals), METRICS).steady == 0


def test_long_runs_are_averaged() -> None:
    start = find_start(_phases((5, 4_000), (0, 20_500)), METRICS)
    assert start.steady is not None
    assert abs(start.steady - 4_000) <= 25


def test_neighbours_that_resemble_each_other_are_no_levels() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        signals = rng.standard_normal((300, 2))
        for at in range(1, 300):
            signals[at] = 0.95 * signals[at - 1] + np.sqrt(1 - 0.95**2) * signals[at]
        assert find_start(_trace(signals), METRICS).steady == 0


def test_the_starts_of_several_runs() -> None:
    runs = [_phases((5, begin), (0, 200 - begin), seed=begin) for begin in (30, 40)]
    starts = find_starts([*runs, _phases((0, 200)), _phases((0, 60), (5, 60), (10, 60))], METRICS)
    assert (starts.warm_up, starts.never) == (2, 1)
    assert 40 <= starts.longest <= 43
    assert Starts(()).longest == 0
