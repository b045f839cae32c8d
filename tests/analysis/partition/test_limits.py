"""Limits and forecasts."""

from __future__ import annotations

import pytest

from tests.analysis.partition.scripted import Scripted
from unperturbed.analysis.partition import STRATEGIES, SearchSettings, Stop, forecast, search
from unperturbed.analysis.partition.evaluation import Limits


def test_runs_are_allowed_up_to_the_limit_and_not_beyond():
    limits = Limits(SearchSettings(max_runs=10), lambda: 0.0)
    limits.require(10)
    limits.runs = 7
    limits.require(3)
    said = "`max_runs` is 10: the search has made 7 runs, and the next measurement needs 4 more"
    with pytest.raises(Stop, match=said):
        limits.require(4)


def test_what_is_kept_for_certification_is_at_most_half():
    limits = Limits(SearchSettings(max_runs=10), lambda: 0.0)
    limits.require(3, reserve=7)
    limits.require(5, reserve=99)
    with pytest.raises(Stop, match="5 runs are reserved for certification"):
        limits.require(6, reserve=99)


def test_hours_are_foreseen_by_what_was_expected_and_then_by_what_it_took():
    now = [100.0]
    limits = Limits(SearchSettings(max_hours=1, seconds_per_run=600), lambda: now[0])
    limits.require(6)
    with pytest.raises(Stop, match="`max_hours` is 1"):
        limits.require(7)
    now[0] += 900
    limits.runs = 9  # 100 s each, so that 2,700 s hold 18 more by 150 s each, expectation counted as one run
    limits.require(17)
    with pytest.raises(Stop):
        limits.require(20)


def test_hours_that_are_kept_for_certification_are_named():
    now = [0.0]
    limits = Limits(SearchSettings(max_hours=1), lambda: now[0])
    now[0], limits.runs = 1800.0, 10
    limits.require(5, reserve=5)
    with pytest.raises(
        Stop, match=r"the next 5 runs would take about 15 min 0 s; 30 min 0 s are reserved for certification"
    ):
        limits.require(5, reserve=20)


def test_without_limits_nothing_stops():
    limits = Limits(SearchSettings(), lambda: 0.0)
    limits.require(10**9)
    assert not limits.any


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_forecast_rises_from_low_to_high_and_with_passes(strategy):
    one = forecast(20, strategy)
    assert 6 <= one.low < one.expected < one.high
    two = forecast(20, strategy, passes=2, baseline_runs=20)
    assert two.expected == 2 * one.expected + 20
    assert one.hours_expected is None


def test_a_forecast_tells_hours_and_where_a_limit_stops():
    """Cut at the limit, it would say that the limit is enough."""
    found = forecast(20, settings=SearchSettings(max_runs=100, seconds_per_run=36, max_hours=0.5))
    unlimited = forecast(20)
    assert (found.low, found.expected, found.high) == (unlimited.low, unlimited.expected, unlimited.high)
    assert (found.limit, unlimited.limit) == (50, None)
    assert found.hours_high == pytest.approx(found.high / 100)
    assert forecast(20, settings=SearchSettings(max_runs=100)).limit == 100


def test_what_all_metrics_together_take_is_within_the_low_forecast():
    plan = search("abcdefgh", Scripted(), SearchSettings())
    assert plan.runs_used <= plan.forecast.low


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_metrics_of_which_no_two_go_together_stay_within_the_high_forecast(strategy):
    judge = Scripted(lambda name: "perturbed" if len(name) > 1 else "unperturbed")
    plan = search("abcdefgh", judge, SearchSettings(), strategy=strategy)
    assert len(plan.subsets) == 8
    assert plan.runs_used <= plan.forecast.high
