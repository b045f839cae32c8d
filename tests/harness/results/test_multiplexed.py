"""Runs in which metrics take turns: intervals that are joined, and runs beside the passes that count their metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.imports.format import with_attributes
from unperturbed.collectors.records.estimates import METHODS, Observed, estimate_counts, estimated_columns
from unperturbed.collectors.sources.limits import Shared
from unperturbed.harness.results.multiplexed import beside_passes, check_multiplexed, lengthened
from unperturbed.harness.spec.campaign_spec import CampaignSpec

INTERVALS = 50
NAMES = ("one", "two", "three")


def shared(seed: int) -> list[tuple[Metric, Shared]]:
    random = np.random.default_rng(seed)
    enabled = random.integers(900, 1100, INTERVALS)
    made = []
    for at, name in enumerate(NAMES):
        running = np.where((np.arange(INTERVALS) + at) % 3 == 0, 0, enabled // 2)
        made.append((Metric(name, "hardware"), Shared(random.integers(0, 50, INTERVALS) * running, enabled, running)))
    return made


def recorded(estimate: str, pass_name: str = "multiplexed") -> Trace:
    columns = dict(estimated_columns(shared(1), estimate))
    begin = np.arange(INTERVALS)
    facts: dict[str, Any] = {"run": "0001", "configuration": "multiplexed", "pass": pass_name, "interval_ns": 4}
    return Trace.from_columns(
        columns,
        {metric.name: column for metric, column in columns.items()},
        begin_ns=begin,
        end_ns=begin + 1,
        attributes=facts,
    )


@pytest.mark.parametrize("estimate", METHODS)
@pytest.mark.parametrize("every", [1, 4])
def test_joined_intervals_are_estimated_from_what_was_counted(estimate: str, every: int) -> None:
    for stored in METHODS:
        made = lengthened(recorded(stored), every, estimate)
        rows = INTERVALS // every
        parts = [
            [
                [sum(getattr(each, part)[row * every : (row + 1) * every]) for _, each in shared(1)]
                for row in range(rows)
            ]
            for part in ("counts", "enabled_ns", "running_ns")
        ]
        expected = estimate_counts(Observed(*(np.array(part, np.float64) for part in parts)), estimate)
        np.testing.assert_allclose(made.values(NAMES), expected, rtol=1e-6, atol=1e-3)
        assert made.attributes["interval_ns"] == 4 * every
        assert len(made) == rows


def test_an_estimate_in_each_interval_keeps_what_was_counted() -> None:
    trace = recorded("smoothed")
    assert "one.counted" in trace
    assert "one.counted" not in recorded("scaled")
    np.testing.assert_array_equal(trace["one.counted"], shared(1)[0][1].counts)
    assert "multiplexed: smoothed from 33% of the time" in trace.metrics["one"].meaning


def plain(names: tuple[str, ...], pass_name: str) -> Trace:
    begin = np.arange(INTERVALS)
    facts = {"run": f"{pass_name} 1", "configuration": "baseline", "pass": pass_name, "interval_ns": 4}
    columns = {name: np.arange(INTERVALS) for name in names}
    metrics = [Metric(name, "hardware") for name in names]
    return Trace.from_columns(metrics, columns, begin_ns=begin, end_ns=begin + 1, attributes=facts)


def test_a_run_stands_beside_each_pass_whose_metrics_it_has() -> None:
    own = {"multiplexed": {"multiplexed": (recorded("scaled"),)}}
    passes = {
        name: {"baseline": (plain(names, name),)}
        for name, names in {"main": NAMES[:2], "second": NAMES[2:], "other": ("four",)}.items()
    }
    made = beside_passes({**passes, **own})
    assert list(made) == ["main", "second", "other"]
    assert "multiplexed" not in made["other"]
    beside = made["main"]["multiplexed"][0]
    assert list(beside) == ["one", "two", *(f"{name}.{x}_ns" for name in NAMES[:2] for x in ("enabled", "running"))]
    assert beside.attributes["pass"] == "main"
    assert beside_passes(passes) is passes


def test_what_a_pass_counts_beside_another_machines_misses_is_judged() -> None:
    """Misses of the page cache take no turns: runs with turns lack them, and are held against the rest of that pass."""
    analysis = SimpleNamespace(alpha=0.05, tolerance=0.1, totals={"default": 0.01})
    measure = SimpleNamespace(estimate="scaled", hardware=(*NAMES, "four"))
    spec = cast("CampaignSpec", SimpleNamespace(analysis=analysis, measure=measure))
    clock = {"clock": "work", "interval_ns": 1}
    turning = tuple(with_attributes(recorded("scaled"), **clock, run=f"{run}") for run in range(3))
    passes = {
        name: {"baseline": tuple(with_attributes(plain(names, name), **clock, run=f"{name} {run}") for run in range(5))}
        for name, names in {"main": NAMES[:2], "cache": ("three", "four")}.items()
    }
    traces = {**passes, "multiplexed": {"multiplexed": turning}}
    assert "multiplexed" not in beside_passes(traces)["cache"]
    made = check_multiplexed(spec, traces)
    assert made is not None
    assert {outcome.metric for outcome in made.rows[0].outcomes} == {*NAMES}
