"""Values of a campaign's runs for the choice of metrics: passes joined by equal work, or one pass by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.harness.phases_campaign import write_spec
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.data.trace import Kind
from unperturbed.errors import DataError
from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.studies.choice import _asked, _counters, _on_copies, _planner, _values_of


def _run(
    number: int, names: Sequence[str], *, clock: str = "work", intervals: int = 40, kind: Kind = "hardware"
) -> Trace:
    ends = np.arange(1, intervals + 1) * 1000
    columns = {name: np.arange(intervals) + 100 * number + at for at, name in enumerate(names)}
    facts = {"run": f"{number:04d}", "clock": clock, "repetition": number % 10}
    metrics = [Metric(name, "software" if name == "calls" else kind) for name in names]
    return Trace.from_columns(metrics, columns, begin_ns=ends - 1000, end_ns=ends, attributes=facts)


def test_runs_of_equal_work_are_joined_by_their_repetition() -> None:
    by_pass = {
        "main": [_run(number, ["ins", "a", "b"]) for number in (1, 2, 3)],
        "second": [_run(number, ["ins", "c"], intervals=39) for number in (13, 11, 12, 14)],
    }
    values = _values_of(by_pass)
    assert [metric.name for metric in values.metrics] == ["ins", "a", "b", "c"]
    assert list(values.runs) == ["0001+0011", "0002+0012", "0003+0013"]
    joined = values.runs["0002+0012"]
    assert joined.shape == (39, 4)
    assert joined[5].tolist() == [205, 206, 207, 1206]
    assert "Metrics of 2 passes are joined interval by interval" in values.notes[0]
    assert _counters(by_pass) == (2, frozenset({"ins"}))
    by_pass["second"][2] = _run(12, ["ins", "c"], intervals=30)
    with pytest.raises(DataError, match="repetition 2: the runs of the passes have 30 to 40 intervals"):
        _values_of(by_pass)


def test_metrics_that_the_spec_does_not_list_are_no_choice(tmp_path: Path) -> None:
    """Every run counts cycles, to be aligned on; simulated cycles are a sum of the other counts."""
    spec = load_spec(
        write_spec(
            tmp_path,
            measure__hardware=["PAPI_L1_DCM", "PAPI_BR_MSP"],
            measure__derived=None,
            analysis__align_on=["PAPI_L1_DCM"],
        )
    )
    by_pass = {"main": [_run(1, ["PAPI_TOT_CYC", "PAPI_L1_DCM", "PAPI_BR_MSP", "calls"])]}
    assert list(_asked(by_pass, spec)["main"][0].metrics) == ["PAPI_L1_DCM", "PAPI_BR_MSP", "calls"]
    renamed = {"main": [_run(1, ["PAPI_TOT_CYC", "PAPI_L1_DCM"])]}
    assert _asked(renamed, spec) == renamed


def test_without_equal_work_the_widest_pass_is_used_and_the_others_are_named() -> None:
    values = _values_of(
        {
            "main": [_run(number, ["ins", "a"], clock="monotonic") for number in (1, 2)],
            "second": [_run(number, ["ins", "b", "c"], clock="monotonic") for number in (11, 12)],
        }
    )
    assert [metric.name for metric in values.metrics] == ["ins", "b", "c"]
    assert list(values.runs) == ["0011", "0012"]
    assert [name for name, _ in values.left_out] == ["a"]
    assert values.notes == [
        "Only the runs of pass second are used: `clock: work`, or intervals that end at events, would join the passes."
    ]


def test_one_pass_counts_all_metrics_and_software_metrics_take_no_counter() -> None:
    runs = [_run(number, ["ins", "calls"]) for number in (1, 2)]
    assert _counters({"main": runs}) == (None, frozenset())
    assert _counters({"main": runs, "second": [_run(11, ["a", "b", "calls"])]}) == (2, frozenset({"calls"}))
    left = [Metric("faults", "os"), Metric("IPC", "derived"), Metric("a.enabled_ns", "hardware")]
    mixed = Trace.from_columns(
        [Metric("ins", "hardware"), *left],
        {name: np.arange(40) for name in ("ins", "faults", "IPC", "a.enabled_ns")},
        begin_ns=np.arange(40),
        end_ns=np.arange(1, 41),
    )
    assert [metric.name for metric in _values_of({"main": [mixed]}).metrics] == ["ins"]


def test_runs_that_repeat_one_another_are_said_to() -> None:
    chance = np.random.default_rng(1)
    first = chance.normal(size=(60, 3))
    assert _on_copies([first, first + 0.01 * chance.normal(size=first.shape)]) == [
        "The runs nearly repeat one another, interval by interval: R² holds for this program with this input."
    ]
    assert _on_copies([first, chance.normal(size=first.shape)]) == []
    assert _on_copies([first, first[:50]]) == []


def test_passes_of_a_simulated_processor_are_planned_as_a_campaign_would(tmp_path: Path) -> None:
    hardware = ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_L1_LDM", "PAPI_SR_INS", "PAPI_TLB_DM"]
    path = write_spec(tmp_path, measure__hardware=hardware, measure__derived=None, measure__simulator={"counters": 2})
    spec = load_spec(path)
    planned = _planner(spec, [Metric(name, "simulated") for name in hardware])
    assert planned is not None
    # Instructions have a counter of their own, and TLB misses need a machine of their own.
    assert [planned(hardware[:count]) for count in (1, 2, 3, 4, 5)] == [1, 1, 1, 2, 3]
    assert planned(["PAPI_TOT_INS", "steps"]) == 1
    assert _planner(spec, [Metric("PAPI_TOT_INS", "hardware")]) is None
    turns = load_spec(
        write_spec(
            tmp_path,
            measure__hardware=hardware,
            measure__derived=None,
            measure__simulator={"counters": 2},
            measure__multiplex=True,
        )
    )
    planned = _planner(turns, [Metric(name, "simulated") for name in hardware])
    assert planned is not None
    assert planned(hardware) == 3, "metrics that take turns in the pilot have passes in the campaign of a choice"
