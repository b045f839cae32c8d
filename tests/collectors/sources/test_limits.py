"""A simulated processor with few counters: passes that fit, and turns as Linux takes them."""

from __future__ import annotations

from collections import deque
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.collectors.passes import plan_passes
from unperturbed.collectors.sources.callgrind import FORMULAS, Machine
from unperturbed.collectors.sources.limits import Limits, Turns, divide, take_turns
from unperturbed.errors import HostError

NAMES = [name for name in FORMULAS if name.startswith("PAPI_") and "_L3_" not in name and name != "PAPI_TLB_DM"]


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
    st.lists(st.sampled_from(NAMES), max_size=3, unique=True),
    st.integers(1, 5),
)
def test_passes_fit_the_counters_and_are_few(names: list[str], shared: list[str], counters: int) -> None:
    limits = Limits(counters)
    passes = divide(names, limits, shared)
    own = {name for name in names if name not in shared and name not in limits.fixed}
    taken = len(set(names).intersection(shared).difference(limits.fixed))
    if passes is None:
        assert taken > counters or (own and taken == counters)
        return
    assert all(map(limits.fits, passes))
    assert set().union(*passes) == set(names)
    everywhere = {name for name in names if name in shared or name in limits.fixed}
    assert all(everywhere <= set(part) for part in passes)
    assert len(passes) == max(1, -(-len(own) // (counters - taken)) if own else 1)


def rotate(
    counts: dict[str, list[int]], limits: Limits, turns: Turns, time_ns: list[int]
) -> dict[str, list[list[int]]]:
    """Count slice by slice what the events at the head of a rotating list count."""
    ring = deque(name for name in counts if name not in limits.fixed)
    made: dict[str, list[list[int]]] = {name: [] for name in counts}
    for at, lasted in enumerate(time_ns):
        if at and at % turns.turn == 0:
            ring.rotate(-1)
        on = {*limits.fixed, *list(ring)[: limits.counters]}
        for name, intervals in made.items():
            if at % turns.interval == 0:
                intervals.append([0, 0, 0])
            intervals[-1][1] += lasted
            if name in on:
                intervals[-1][0] += counts[name][at]
                intervals[-1][2] += lasted
    return made


@given(st.data())
def test_turns_are_those_of_a_rotating_list(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True))
    limits, slices = Limits(data.draw(st.integers(1, 4))), data.draw(st.integers(1, 40))
    turns = Turns(data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7)))
    column = st.lists(st.integers(0, 2**40), min_size=slices, max_size=slices)
    counts, time_ns = {name: data.draw(column) for name in names}, data.draw(column)
    arrays = {name: np.array(values) for name, values in counts.items()}
    found = {
        name: np.stack([shared.counts, shared.enabled_ns, shared.running_ns], axis=1).tolist()
        for name, shared in take_turns(arrays, limits, turns, np.array(time_ns))
    }
    assert found == rotate(counts, limits, turns, time_ns)


def test_pairs_meet_in_the_fewest_passes_of_a_simulated_processor() -> None:
    names = [*Limits.fixed, "PAPI_LD_INS", "PAPI_SR_INS", "PAPI_BR_CN", "PAPI_BR_MSP", "PAPI_L1_DCM", "PAPI_TLB_DM"]
    pairs = list(map(frozenset, combinations(names, 2)))

    def plan(counters: int, *known: frozenset[str]) -> list[set[str]]:
        machine = Machine(limits=Limits(counters))
        found = plan_passes(
            names, source="simulated", machine=machine, compiler="gcc", shared=Limits.fixed, meet=pairs, known=known
        )
        return [{metric.name for metric in item.metrics} for item in found.passes]

    for counters, count in ((2, 10 + 4), (3, 4 + 2), (5, 1 + 1)):
        held = plan(counters)
        assert len(held) == count
        assert plan(counters, *map(frozenset, held)) == held
        assert all(Limits(counters).fits(each) for each in held)
        apart = [set(pair) for pair in pairs if not any(pair <= each for each in held)]
        # Pages and lines are two machines, and an estimate of cycles is of one of them.
        assert apart == [{name, "PAPI_TLB_DM"} for name in ("PAPI_TOT_CYC", "PAPI_L1_DCM")]
    assert len(plan(1)) == 6, "each alone beside the fixed ones"
    del names[4:7]
    loads = {"PAPI_TOT_INS", "PAPI_LD_INS", "PAPI_SR_INS"}
    assert plan(3) == [{*loads, "PAPI_TOT_CYC"}, {*loads, "PAPI_TLB_DM"}]
    del names[1]
    assert plan(3) == [{*loads, "PAPI_TLB_DM"}], "all fit the machine of pages"


def test_a_simulated_processor_needs_passes_as_a_real_one() -> None:
    names = ["PAPI_TOT_INS", "PAPI_LD_INS", "PAPI_SR_INS", "PAPI_BR_INS", "PAPI_BR_MSP", "PAPI_TLB_DM"]
    machine = Machine(limits=Limits(2))
    plan = plan_passes(names, source="simulated", machine=machine, compiler="gcc", shared=("PAPI_TOT_INS",))
    assert [(item.name, [metric.name for metric in item.metrics]) for item in plan.passes] == [
        ("main", ["PAPI_TOT_INS", "PAPI_LD_INS", "PAPI_SR_INS"]),
        ("simulated", ["PAPI_TOT_INS", "PAPI_BR_INS", "PAPI_BR_MSP"]),
        ("page-cache", ["PAPI_TOT_INS", "PAPI_TLB_DM"]),
    ]
    (shared,) = plan_passes(
        names[:5], source="simulated", machine=machine, compiler="gcc", shared=("PAPI_TOT_INS",), multiplex=True
    ).passes
    assert shared.limits == Limits(2)
    (whole,) = plan_passes(names[:3], source="simulated", machine=machine, compiler="gcc", multiplex=True).passes
    assert whole.limits is None
    with pytest.raises(HostError, match="the simulated processor has 1 counter, which the metrics that each pass"):
        plan_passes(
            names[:4], source="simulated", machine=Machine(limits=Limits(1)), compiler="gcc", shared=("PAPI_LD_INS",)
        )
