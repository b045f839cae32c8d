"""Ways to read counters inside: reset at each record, by turns and scaled, added up over threads."""

from __future__ import annotations

from ctypes.util import find_library
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collectors.runtime.inside.programs import (
    COLLECTED,
    CREW,
    EVENTS,
    METRICS,
    THREAD_FAULTS,
    Build,
    counting,
    faults_by_thread,
    run,
)
from tests.collectors.runtime.programs import BUSY
from unperturbed.collectors.records.counts import hardware_columns
from unperturbed.collectors.records.file import Mark, Records, Setup
from unperturbed.collectors.sources import Event, Pass
from unperturbed.collectors.sources import papi as papi_events
from unperturbed.collectors.sources.perf import events as perf_event
from unperturbed.errors import RunError


def test_counts_that_are_reset_at_each_record_add_up_to_those_that_run_on(build: Build) -> None:
    program = build(CREW + "int main(void) { touch(3000); return 0; }")
    for reset in (False, True):
        records, _ = run(program, counting(500_000, reset=reset))
        counts = records.rows["hardware"].astype(np.int64)
        assert len(counts) > 10
        assert (np.diff(counts, axis=0) >= 0).all(), "cumulative in both"
        # What happens between reading and starting again is lost: here nothing, as the thread stands still meanwhile.
        assert int(counts[-1][0] - counts[0][0]) in range(3000, 3000 + THREAD_FAULTS)


def test_the_handler_takes_no_page_fault_of_its_own(build: Build) -> None:
    """The record file's pages are there before the program begins: 400 records fill a dozen of them."""
    records, _ = run(build(BUSY + "int main(void) { busy(300000000); return 0; }"), counting(250_000))
    assert len(records.rows) > 200
    assert faults_by_thread(records)[0] <= 4


def test_events_that_need_not_take_turns_run_all_the_time_and_are_not_scaled(build: Build) -> None:
    records, _ = run(build(CREW + "int main(void) { touch(2000); return 0; }"), counting(multiplex=True))
    times = records.rows["times"]
    assert times.shape[1:] == (2, 2)
    assert (times[:, :, 0] == times[:, :, 1]).all()
    assert (np.diff(times[:, :, 0], axis=0) > 0).all()
    collected = Pass("main", "perf_event", METRICS, EVENTS, multiplexed=True)
    columns = {metric.name: (metric, column) for metric, column in hardware_columns(collected, records)}
    assert list(columns) == [
        "perf::page-faults",
        "perf::page-faults.enabled_ns",
        "perf::page-faults.running_ns",
        "perf::task-clock",
        "perf::task-clock.enabled_ns",
        "perf::task-clock.running_ns",
    ]
    assert not columns["perf::page-faults"][0].scaled
    assert columns["perf::page-faults"][1].sum() == faults_by_thread(records)[0]


def synthetic(setup: Setup, thread: list[int], **columns: object) -> Records:
    rows = np.zeros(len(thread), setup.record)
    rows["whole"] = np.arange(1, len(thread) + 1)
    rows["thread"] = thread
    for name, values in columns.items():
        rows[name] = values
    blank: dict[str, Any] = {field.name: 0 for field in fields(Records)}
    return Records(**{**blank, "rows": rows, "state": "finished", "message": "", "marks": Mark(0), "os_columns": ()})


readings = st.lists(
    st.tuples(*[st.integers(0, 10**6)] * 2, *[st.integers(0, 10**6), st.floats(0, 1)] * 2), min_size=2, max_size=12
)


@given(readings)
@settings(max_examples=60, deadline=None)
def test_scaled_counts_equal_the_naive_ones(steps: list[tuple[int, int, int, float, int, float]]) -> None:
    """Each step: counts of two events; of each, the time it was wanted and the share of it that it ran."""
    gained = [((a, b), ((wa, int(wa * sa)), (wb, int(wb * sb)))) for a, b, wa, sa, wb, sb in steps]
    setup = counting(multiplex=True)
    records = synthetic(
        setup,
        [0] * len(steps),
        hardware=np.cumsum([counts for counts, _ in gained], axis=0),
        times=np.cumsum([times for _, times in gained], axis=0),
    )
    collected = Pass("main", "perf_event", METRICS, EVENTS, multiplexed=True)
    columns = {metric.name: (metric, column) for metric, column in hardware_columns(collected, records)}
    for index, event in enumerate(EVENTS):
        naive = []
        for counts, times in gained[1:]:
            enabled, running = times[index]
            naive.append(counts[index] * (enabled / running) if running else float("nan") if enabled else 0.0)
        metric, column = columns[event.name]
        np.testing.assert_allclose(column, naive, rtol=1e-9)
        assert metric.scaled == any(times[index][1] < times[index][0] for _, times in gained[1:])
        assert [int(value) for value in columns[f"{event.name}.running_ns"][1]] == [
            times[index][1] for _, times in gained[1:]
        ]


@pytest.mark.parametrize("multiplexed", [False, True])
def test_a_counter_that_was_misread_fails_the_run(multiplexed: bool) -> None:
    """A counter of 48 bits that is read while it is set anew: the count falls by 2^47 and comes back."""
    setup = Setup("perf_event", 1, "monotonic", EVENTS[:1], multiplex=multiplexed)
    counts = np.array([[10], [20 - 2**47], [30], [40]])
    times = {"times": np.arange(4)[:, None, None]} if multiplexed else {"enabled_ns": 1, "running_ns": 1}
    records = synthetic(setup, [0] * 4, monotonic_ns=range(4), hardware=counts, **times)
    with pytest.raises(RunError, match=r"page-faults fell by 140,737,488,355,318 between two readings.*misread"):
        list(hardware_columns(Pass("main", "perf_event", METRICS[:1], EVENTS[:1], multiplexed=multiplexed), records))


crews = st.lists(
    st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 1000)), min_size=2, max_size=6), min_size=1, max_size=4
)


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 1000)), min_size=2, max_size=8), crews)
@settings(max_examples=60, deadline=None)
def test_threads_add_up_as_the_naive_sum_does(main: list[tuple[int, int]], others: list[list[tuple[int, int]]]) -> None:
    """Each step of a thread: time to its record, and what it counted meanwhile."""
    setup = Setup("perf_event", 1, "monotonic", EVENTS[:1], threads=True)
    thread, moments, counts = [], [], []
    for number, steps in enumerate([main, *others]):
        thread += [number] * len(steps)
        moments += list(np.cumsum([gap for gap, _ in steps]))
        counts += list(np.cumsum([gain for _, gain in steps]))
    records = synthetic(
        setup, thread, monotonic_ns=moments, hardware=np.array(counts)[:, None], enabled_ns=1, running_ns=1
    )
    ((_, column),) = hardware_columns(Pass("main", "perf_event", METRICS[:1], EVENTS[:1]), records)

    def until(steps: list[tuple[int, int]], moment: int) -> float:
        at, counted = steps[0]
        if moment < at:
            return 0.0
        for gap, gain in steps[1:]:
            if moment < at + gap:
                return counted + gain * (moment - at) / gap
            at, counted = at + gap, counted + gain
        return float(counted)

    bounds = list(np.cumsum([gap for gap, _ in main]))
    naive = [float(gain) for _, gain in main[1:]]
    for steps in others:
        cumulative = [until(steps, moment) for moment in bounds]
        naive = [
            value + after - before for value, before, after in zip(naive, cumulative, cumulative[1:], strict=False)
        ]
    assert np.abs(column - np.array(naive)).max() <= len(others), "each is rounded to a whole count"


def test_partial_counts_are_refused_when_no_turns_were_asked_for() -> None:
    records = synthetic(
        counting(), [0, 0, 0], monotonic_ns=[1, 2, 3], enabled_ns=[100, 200, 300], running_ns=[100, 150, 200]
    )
    with pytest.raises(RunError, match=r"counted only 66\.7% of the time"):
        list(hardware_columns(COLLECTED, records))


def test_reset_keeps_events_that_another_pmu_counts_than_the_leaders(build: Build) -> None:
    """Enabled as a group again, the kernel leaves such members out, and enabled and running time do not tell."""
    tracepoint = perf_event.event("perf::raw_syscalls:sys_enter")
    if tracepoint is None:
        pytest.skip("the kernel's tracepoints cannot be read here")
    text = f"""{CREW}
#include <unistd.h>
int main(void) {{ for (int i = 0; i < 20000; i++) {{ getppid(); if (i % 20 == 0) touch(1); busy(3000); }} return 0; }}
"""
    events = (Event("perf::task-clock", 1, 1, kernel=True), tracepoint, Event("perf::page-faults", 1, 2, kernel=True))
    counts, ticks = {}, {}
    for reset in (False, True):
        setup = Setup("perf_event", 1_000_000, "monotonic", events, reset=reset)
        records, done = run(build(text), setup)
        assert (done.returncode, records.state) == (0, "finished")
        assert len(records.rows) > 20
        counts[reset] = records.rows["hardware"][-1] - records.rows["hardware"][0]
        ticks[reset] = len(records.rows)
        # Its own calls (touch makes two), and two of each tick: reading the group and returning from the signal.
        assert abs(counts[reset][1] - (20_000 + 2 * 1_000 + 2 * ticks[reset])) <= 20
    assert 0.95 * counts[False][1] < counts[True][1] < 1.2 * counts[False][1]
    assert 0.9 * counts[False][2] < counts[True][2] < 1.1 * counts[False][2]


@pytest.mark.parametrize("name", ["perf::context-switches", "perf::cs", "perf::context-switches:k"])
def test_papi_counts_what_the_kernel_does_in_the_kernel(build: Build, name: str) -> None:
    """PAPI looks in user space unless it is told otherwise, and no context switch ever happened there."""
    if find_library("papi") is None:
        pytest.skip("no libpapi is installed")
    event = papi_events.event(name)
    assert event is not None
    program = build(
        BUSY + "#include <unistd.h>\nint main(void) { for (int i = 0; i < 100; i++) usleep(1000); return 0; }"
    )
    setup = Setup("papi", 10_000_000, "monotonic", (event, Event("perf::task-clock", kernel=True)))
    records, _ = run(program, setup)
    if records.state == "failed":
        pytest.skip(f"PAPI cannot count here: {records.message}")
    assert 90 <= int(records.rows["hardware"][-1, 0] - records.rows["hardware"][0, 0]) <= 1000
    in_user_space = papi_events.event("perf::context-switches:u")
    assert in_user_space is not None
    assert (in_user_space.kernel, in_user_space.user) == (False, True)
