"""On an emulated PMU, the overflow of a counter ends intervals: inside and outside, to the cycle, and throttling shows.

The emulated processor interrupts as soon as its counter of cycles overflows. For instructions the emulator (QEMU 7.2)
does so only when the processor next enters the kernel, at the latest with its tick of 4 ms: intervals of instructions
are late there, and that they are must show.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.pmu.cases import Result
from tests.pmu.matrix import CASES, HARDWARE, INTERVAL_NS, PERIOD, SAMPLERS, SHORT_TURNS, SOURCES, TEAM_WORK
from tests.pmu.test_counts import counted, reference, whole
from unperturbed.collectors.data import Trace
from unperturbed.collectors.records.assemble import assemble
from unperturbed.collectors.records.counts import missed_overflows, skids
from unperturbed.collectors.records.file import Mark, Records
from unperturbed.collectors.sources import Pass
from unperturbed.collectors.sources.perf import events as perf_event
from unperturbed.errors import RunError

EVERY_WAY = [f"overflow-{source}-{sampler}" for source in SOURCES for sampler in SAMPLERS]
METRICS = tuple(perf_event.metric(f"perf::{event.name}") for event in HARDWARE)
COLLECTED = Pass("main", "perf_event", METRICS, HARDWARE)


def trace_of(records: Records, name: str) -> Trace:
    setup = CASES[name].setup
    assert setup
    facts = {"interval_event": METRICS[setup.interval_index].name, "interval_ns": setup.interval_ns}
    return assemble(records, COLLECTED, software=(), os_metrics=(), derived={}, dumps=Path("none"), attributes=facts)


@pytest.mark.parametrize("name", EVERY_WAY)
def test_every_interval_holds_so_many_cycles(results: dict[str, Result], name: str) -> None:
    records = whole(results[name])
    trace = trace_of(records, name)
    cycles = trace["perf::cycles"]
    assert len(trace) == cycles.sum() // PERIOD + 1
    assert not trace.overruns.any()
    # What the signal's delivery and the handler take in user space; the observer preempts the program at once, as both
    # have one processor.
    assert 0 <= trace.attributes["skid_median"] <= trace.attributes["skid_p99"] < PERIOD / 1000
    assert np.abs(cycles[1:-1] - PERIOD).max() < PERIOD / 1000


def test_two_runs_agree_interval_by_interval_far_better_than_by_time(results: dict[str, Result]) -> None:
    spread = {}
    for ends, names in {
        "work": ("overflow-perf_event-inside", "overflow-again"),
        "time": ("perf_event-inside", "papi-inside"),
    }.items():
        first, second = (np.diff(whole(results[name]).rows["hardware"], axis=0)[1:-1, 1] for name in names)
        shared = min(len(first), len(second))
        spread[ends] = np.abs(first[:shared] - second[:shared]).mean()
    assert spread["work"] < 100
    assert spread["work"] < spread["time"]


@pytest.mark.parametrize("name", EVERY_WAY)
def test_no_count_is_lost_by_interrupts(results: dict[str, Result], name: str) -> None:
    assert counted(whole(results[name])) == pytest.approx(reference(results), rel=0.01)


def instructions_a_record(results: dict[str, Result], seldom: str, often: str) -> float:
    rare, frequent = whole(results[seldom]), whole(results[often])
    more = len(frequent.rows) - len(rare.rows)
    assert more > 400
    return (counted(frequent)[1] - counted(rare)[1]) / more


def test_an_overflow_costs_the_program_hardly_more_than_a_timers_tick(results: dict[str, Result]) -> None:
    timer = instructions_a_record(results, "perf_event-inside", "often-inside")
    overflow = instructions_a_record(results, "overflow-perf_event-inside", "overflow-often-inside")
    print(f"instructions a record in the program: {timer:.0f} by a timer, {overflow:.0f} by an overflow")
    assert 0 < overflow < timer + 100


def test_an_overflow_outside_costs_the_program_no_instruction(results: dict[str, Result]) -> None:
    assert abs(instructions_a_record(results, "overflow-perf_event-outside", "overflow-often-outside")) < 1


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_counts_that_throttling_lost_are_not_believed(results: dict[str, Result], sampler: str) -> None:
    name = f"overflow-throttled-{sampler}"
    records = whole(results[name])
    said = "may have"
    if sampler == "inside":
        assert counted(records)[0] < 0.5 * 8 * SHORT_TURNS, "the kernel stopped the counter for most of each tick"
        assert Mark.THROTTLED in records.marks
        said = "has"
    why = r"because it caused too many interrupts \(an interval ends every 100,000 counts\)"
    with pytest.raises(RunError, match=f"kernel {said} throttled perf::cycles {why}"):
        trace_of(records, name)


@pytest.mark.parametrize("name", [*EVERY_WAY, "overflow-often-inside", "overflow-often-outside"])
def test_what_was_not_throttled_is_not_said_to_be(results: dict[str, Result], name: str) -> None:
    assert Mark.THROTTLED not in results[name].sampled.marks
    trace_of(results[name].sampled, name)


def test_a_late_interrupt_shows_as_skid_and_as_missed_overflows(results: dict[str, Result]) -> None:
    records = whole(results["overflow-late"])
    trace = trace_of(records, "overflow-late")
    assert trace["perf::instructions"].sum() == pytest.approx(4 * SHORT_TURNS, rel=0.01)
    # Not asserted: a later emulator may be in time.
    print(
        f"instructions: median skid {trace.attributes['skid_median']:,.0f}, {trace.attributes['missed_ticks']} missed"
    )
    assert len(trace) - 1 + trace.attributes["missed_ticks"] == trace["perf::instructions"].sum() // (PERIOD // 10)


def test_it_needs_no_capability_at_level_2(results: dict[str, Result]) -> None:
    cycles = whole(results["overflow-nobody"]).rows["hardware"][:, 0]
    assert not missed_overflows(cycles, PERIOD).any()


def test_an_event_that_interrupts_can_be_read_in_user_space(results: dict[str, Result]) -> None:
    records = whole(results["overflow-user-read"])
    assert records.marks & Mark.USER_READ
    cycles = records.rows["hardware"][:, 0]
    assert not missed_overflows(cycles, PERIOD // 10).any()
    assert np.median(skids(cycles, PERIOD // 10)) < PERIOD / 1000
    assert counted(records)[1] == pytest.approx(4 * SHORT_TURNS, rel=0.01)


def test_every_thread_ends_its_own_intervals(results: dict[str, Result]) -> None:
    records = whole(results["overflow-team-inside"])
    for thread in (0, 1):
        cycles = records.rows["hardware"][records.rows["thread"] == thread, 0]
        assert len(cycles) > 30
        assert not missed_overflows(cycles, PERIOD // 5).any()


def test_the_observer_gets_as_many_records_as_the_threads_sum_has_periods(results: dict[str, Result]) -> None:
    """Each thread overflows by its own count: intervals of their sum are so long on average only."""
    records = whole(results["overflow-team-outside"])
    cycles, instructions = counted(records)
    assert instructions == pytest.approx(2 * TEAM_WORK, rel=0.01)
    assert len(records.rows) - 2 == pytest.approx(cycles / (PERIOD // 5), abs=2)


def test_the_timers_interval_is_as_long(results: dict[str, Result]) -> None:
    """The comparisons above hold intervals of one length against each other: a cycle is a nanosecond."""
    assert PERIOD == INTERVAL_NS
    assert len(whole(results["overflow-again"]).rows) == pytest.approx(
        len(whole(results["perf_event-inside"]).rows), abs=2
    )
