"""The plan of a sweep: points, steps, order."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.collectors.passes import Passes
from unperturbed.collectors.sources import Pass
from unperturbed.collectors.sources import callgrind as simulated
from unperturbed.collectors.sources.perf import events as perf_event
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.plan import PlannedRun
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import parse_spec
from unperturbed.harness.spec.sections.parameters import count_points, points
from unperturbed.harness.studies.sweep_plan import (
    Step,
    check_sweep_budget,
    plan_sweep,
    steps,
    surplus,
)

NOTHING = Pass("none", "none", ())
STEPS = (Step("native", "reference", NOTHING), Step("main", "baseline", NOTHING), Step("software", "all", NOTHING))


def _campaign(parameters: dict[str, Any], measure: dict[str, Any] | None = None, **design: Any) -> CampaignSpec:
    used = " ".join(f"{{parameters.{name}}}" for name in parameters)
    spec = {
        "name": "x",
        "parameters": parameters,
        "program": {"run": f"sh -c true {used}"},
        "measure": measure or {},
        "campaign": {"seed": 1, **design},
    }
    return parse_spec(json.dumps(spec), "spec.yaml", Path())


def test_lists_and_ranges_give_every_combination() -> None:
    spec = _campaign({"n": {"from": 1, "to": 3}, "datatype": ["int", "float"]})
    found = points(spec)
    assert len(found) == count_points(spec) == 6
    assert {(point["n"], point["datatype"]) for point in found} == {
        (n, kind) for n in (1, 2, 3) for kind in ("int", "float")
    }
    assert list(found[0]) == ["n", "datatype"]


def test_the_order_of_parameters_in_the_spec_changes_no_point() -> None:
    for one, other in (
        ({"n": [1, 2], "m": [3, 4, 5]}, {"m": [3, 4, 5], "n": [1, 2]}),
        ({"n": {"uniform": [1, 99]}, "m": [3, 4, 5]}, {"m": [3, 4, 5], "n": {"uniform": [1, 99]}}),
    ):
        design = {"points": 9} if isinstance(one["n"], dict) else {}
        assert points(_campaign(one, **design)) == points(_campaign(other, **design))


def test_more_points_leave_the_first_ones_as_they_are() -> None:
    parameters = {"n": {"uniform": [5, 300]}, "x": {"uniform": [0.5, 2]}, "kind": ["a", "b", "c"]}
    few, many = (points(_campaign(parameters, points=count)) for count in (10, 200))
    assert many[:10] == few
    assert points(_campaign(parameters, points=10, seed=2)) != few
    assert Counter(point["kind"] for point in many).keys() == {"a", "b", "c"}


@given(st.integers(-20, 20), st.integers(1, 30), st.booleans(), st.integers(0, 1000))
def test_draws_lie_within_their_bounds_and_reach_them(low: int, width: int, whole: bool, seed: int) -> None:
    bounds = [low, low + width] if whole else [float(low), low + width]
    values = [point["n"] for point in points(_campaign({"n": {"uniform": bounds}}, points=60, seed=seed))]
    assert all(low <= value <= low + width for value in values)
    assert {type(value) for value in values} == {int if whole else float}
    assert len(set(values)) > 1


def test_whole_numbers_are_drawn_evenly_and_magnitudes_too() -> None:
    even = Counter(point["n"] for point in points(_campaign({"n": {"uniform": [1, 4]}}, points=4000)))
    assert set(even) == {1, 2, 3, 4}
    assert max(even.values()) - min(even.values()) < 250
    drawn = [point["n"] for point in points(_campaign({"n": {"log_uniform": [1, 9999]}}, points=4000))]
    magnitudes = Counter(len(str(value)) for value in drawn)
    assert set(magnitudes) == {1, 2, 3, 4}
    assert max(magnitudes.values()) - min(magnitudes.values()) < 250
    ones = sum(value == 1 for value in drawn)
    assert 250 < ones < 350, "1 to 2 is 0.30 of a magnitude, and so of its thousand draws"


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 3), st.integers(0, 99))
def test_everything_is_planned_once_and_each_points_result_comes_first(
    count: int, repetitions: int, width: int, seed: int
) -> None:
    plan = plan_sweep(STEPS[:width], range(1, count + 1), repetitions, seed=seed)
    assert plan == plan_sweep(STEPS[:width], range(1, count + 1), repetitions, seed=seed)
    assert [run.id for run in plan] == [f"{number:06d}" for number in range(1, len(plan) + 1)]
    slots = Counter((run.point, run.repetition, run.pass_name) for run in plan)
    assert set(slots.values()) == {1}
    assert len(slots) == count * repetitions * width
    assert [run.block for run in plan] == sorted(run.block for run in plan)
    first: dict[int, PlannedRun] = {}
    pads: dict[tuple[int, int], set[int]] = {}
    for run in plan:
        first.setdefault(run.point, run)
        pads.setdefault((run.point, run.block), set()).add(run.pad_bytes)
        assert run.block == run.repetition - 1
        assert (run.configuration, run.pass_name) in {(step.configuration, step.name) for step in STEPS}
    assert all(run.pass_name == "native" and run.repetition == 1 for run in first.values())
    assert all(len(sizes) == 1 for sizes in pads.values()), "all runs of a row have an environment of one size"


def test_points_are_shuffled_so_that_drift_meets_all_alike() -> None:
    plan = plan_sweep(STEPS, range(1, 200 + 1), 2, seed=3)
    for repetition in (1, 2):
        block = [run for run in plan if run.repetition == repetition]
        places: dict[str, list[int]] = {}
        for place, run in enumerate(block):
            places.setdefault(run.pass_name, []).append(place if run.point > 100 else -place)
        # Low and high points come at the same time, whatever is run of them.
        assert all(abs(sum(found)) / len(found) < 30 for found in places.values())
        assert [run.point for run in block] != sorted(run.point for run in block)


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 6), st.integers(0, 3), st.integers(0, 9))
def test_what_is_asked_for_later_is_planned_behind(
    count: int, repetitions: int, more: int, again: int, seed: int
) -> None:
    before = plan_sweep(STEPS, range(1, count + 1), repetitions, seed=seed)
    rest = plan_sweep(STEPS, range(1, count + more + 1), repetitions + again, seed=seed, before=before)
    slots = Counter((run.point, run.repetition, run.pass_name) for run in (*before, *rest))
    assert set(slots.values()) == {1}
    assert len(slots) == (count + more) * (repetitions + again) * len(STEPS)
    ids = [run.id for run in (*before, *rest)]
    assert ids == sorted(set(ids))
    if rest:
        assert min(run.block for run in rest) > max(run.block for run in before)
    news: dict[int, str] = {}
    for run in rest:
        if run.point > count:
            news.setdefault(run.point, run.pass_name)
    assert set(news.values()) <= {"native"}


def test_a_part_that_was_planned_is_completed() -> None:
    plan = plan_sweep(STEPS, range(1, 5 + 1), 2, seed=1)
    kept = random.Random(1).sample(plan, 17)
    rest = plan_sweep(STEPS, range(1, 5 + 1), 2, seed=1, before=kept)
    slots = Counter((run.point, run.repetition, run.pass_name) for run in (*kept, *rest))
    assert (len(slots), set(slots.values())) == (30, {1})
    assert not plan_sweep(STEPS, range(1, 5 + 1), 2, seed=1, before=plan)


def test_what_is_not_asked_for_any_more() -> None:
    plan = plan_sweep(STEPS, range(1, 3 + 1), 2, seed=1)
    gone = surplus(plan, range(1, 3), 1, {step.name for step in STEPS})
    assert len(gone) == len(plan) - 2 * len(STEPS)
    assert all(run.point <= 2 and run.repetition == 1 for run in plan if run.id not in gone)
    only_native = surplus(plan, range(1, 4), 2, {"native"})
    assert {run.pass_name for run in plan if run.id not in only_native} == {"native"}


def _passes(*found: Pass) -> Passes:
    return Passes(found, {})


SIMULATED = Pass("main", "simulated", (simulated.metric("PAPI_TOT_INS"), simulated.metric("PAPI_L1_DCM")))
PAGED = Pass("page-cache", "simulated", (simulated.metric("PAPI_TOT_INS"), simulated.metric("PAPI_TLB_DM")))
REAL = Pass("perf_event", "perf_event", (perf_event.metric("perf::page-faults"),))


def _asked(spec: CampaignSpec, *passes: Pass) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(step.name, step.configuration, (*step.metrics, *step.software)) for step in steps(spec, _passes(*passes))]


def test_steps_take_each_metric_once_and_the_systems_from_a_program_that_is_not_simulated() -> None:
    native = ("native", "reference", ())
    plain = _campaign({"n": [1, 2]})
    assert _asked(plain, Pass("main", "none", ())) == [native]
    faults = _campaign({"n": [1, 2]}, {"os": ["minor_faults"]})
    system = ("system", "baseline", ("minor_faults",))
    assert _asked(faults, Pass("main", "none", ())) == [native, system]
    main = ("main", "baseline", ("PAPI_TOT_INS", "PAPI_L1_DCM"))
    assert _asked(faults, SIMULATED, PAGED) == [native, main, ("page-cache", "baseline", ("PAPI_TLB_DM",)), system]
    assert _asked(faults, SIMULATED, REAL) == [
        native,
        main,
        ("perf_event", "baseline", ("perf::page-faults", "minor_faults")),
    ]
    thrice = _campaign({"n": [1, 2]}, {"os": ["minor_faults"]}, native_runs=3)
    natives = [(name, "reference", ()) for name in ("native", "native-2", "native-3")]
    assert _asked(thrice, Pass("main", "none", ())) == [*natives, system]
    counted = _campaign({"n": [1, 2]}, {"software": {"calls": {"preload": "malloc"}}})
    assert _asked(counted, Pass("main", "none", ())) == [native, ("software", "all", ("calls",))]


def test_a_plan_that_is_too_large_is_refused_with_its_size() -> None:
    passes = _passes(SIMULATED)
    design = {"points": 100, "repetitions": 2}
    assert check_sweep_budget(_campaign({"n": {"uniform": [1, 9]}}, **design), passes) == 400
    with pytest.raises(
        SpecError, match=r"the plan has 400 runs \(points × repetitions × passes: 100 × 2 × 2\), but `max_runs` is 399"
    ):
        check_sweep_budget(_campaign({"n": {"uniform": [1, 9]}}, **design, max_runs=399), passes)
    with pytest.raises(SpecError, match="the limit is 999,999"):
        check_sweep_budget(_campaign({"n": {"uniform": [1, 9]}}, points=100_000, repetitions=6), passes)
