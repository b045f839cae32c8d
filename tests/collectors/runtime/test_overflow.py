"""Intervals that an event ends: the kernel's own events overflow on every host, and exactly.

`tests/pmu` does the same with a processor's counters.
"""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collectors.runtime.inside.programs import COLLECTED, CREW, EVENTS, TOUCH, Build, run
from tests.collectors.runtime.programs import BUSY, compile_program, sample
from unperturbed.collectors.data import Trace
from unperturbed.collectors.records.assemble import assemble
from unperturbed.collectors.records.counts import missed_overflows, of_thread, skids, threads
from unperturbed.collectors.records.file import OVERFLOW_SIGNAL, Mark, Records, Setup
from unperturbed.collectors.records.threads import thread_traces
from unperturbed.collectors.sources import Event
from unperturbed.errors import RunError

PERIOD = 100
PAGES = 3000
STEADY = BUSY + TOUCH + "int main(void) { touch(3000); return 0; }"
FACTS = {"interval_event": "perf::page-faults", "interval_ns": PERIOD, "clock": "monotonic"}


def every(period: int = PERIOD, **kwargs: Any) -> Setup:
    given: dict[str, Any] = {"signal": OVERFLOW_SIGNAL, "interval_event": EVENTS[0].name, **kwargs}
    return Setup("perf_event", period, "event", EVENTS, **given)


def trace_of(records: Records, **facts: Any) -> Trace:
    attributes = {**FACTS, **facts}
    return assemble(
        records, COLLECTED, software=(), os_metrics=(), derived={}, dumps=Path("none"), attributes=attributes
    )


@pytest.mark.parametrize("reset", [False, True])
def test_every_interval_holds_the_same_work_in_every_run(build: Build, reset: bool) -> None:
    program = build(STEADY)
    traces = []
    for _ in range(2):
        records, done = run(program, every(reset=reset))
        assert (done.returncode, records.state, records.nested) == (0, "finished", 0)
        traces.append(trace_of(records))
    for trace in traces:
        faults = trace["perf::page-faults"]
        assert PAGES <= faults.sum() < PAGES + PERIOD
        assert len(trace) == PAGES // PERIOD + 1
        assert set(faults[1:-1]) == {PERIOD}
        assert not trace.overruns.any()
        assert (trace.attributes["skid_median"], trace.attributes["skid_p99"]) == (0, 0)
    assert list(traces[0]["perf::page-faults"][1:-1]) == list(traces[1]["perf::page-faults"][1:-1])


def test_the_observer_is_woken_by_the_event(tmp_path: Path) -> None:
    program = compile_program(tmp_path, STEADY, "-pthread")
    records, done = sample(tmp_path, [str(program)], every(sampler="outside"))
    assert (done.returncode, records.state) == (0, "finished")
    trace = trace_of(records)
    # The program goes on while the observer reads: what it does until then is the skid, and what has passed
    # altogether was missed.
    over = int(trace["perf::page-faults"].sum()) // PERIOD
    assert len(trace) > 5
    assert over - 1 <= len(trace) - 1 + trace.overruns.sum() <= over
    assert 0 <= trace.attributes["skid_median"] < PERIOD
    assert records.sample_rate > 0
    assert 1_000_000 <= records.tick_ns <= 10_000_000


def test_the_observer_is_woken_by_threads_too(tmp_path: Path) -> None:
    text = CREW + "int main(void) { pthread_t t; pthread_create(&t, 0, crew, (void *)3000L); pthread_join(t, 0); }"
    records, done = sample(tmp_path, [str(compile_program(tmp_path, text, "-pthread"))], every(sampler="outside"))
    assert (done.returncode, records.state) == (0, "finished")
    assert len(records.rows) > 10


def test_every_thread_has_intervals_of_its_own_work(build: Build) -> None:
    text = """int main(void) { pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, crew, (void *)1000L);
    touch(1000); for (int i = 0; i < 2; i++) pthread_join(t[i], 0); return 0; }"""
    records, done = run(build(CREW + text), every(threads=True))
    assert (done.returncode, records.state) == (0, "finished")
    assert threads(records) == (0, 1, 2)
    for thread in threads(records):
        counts = of_thread(records, thread)["hardware"][1:-1, 0]
        assert list(counts) == list(range(PERIOD, PERIOD * (len(counts) + 1), PERIOD))
    for trace in thread_traces(records, COLLECTED, FACTS).values():
        assert not trace.overruns.any()


def test_switches_of_the_scheduler_end_intervals(build: Build) -> None:
    switches = Event("perf::context-switches", 1, 3, kernel=True)
    setup = Setup(
        "perf_event", 10, "event", (switches,), signal=OVERFLOW_SIGNAL, interval_event="perf::context-switches"
    )
    text = "#include <unistd.h>\nint main(void) { for (int i = 0; i < 200; i++) usleep(200); return 0; }"
    records, done = run(build(text), setup)
    assert (done.returncode, records.state) == (0, "finished")
    counts = records.rows["hardware"][:, 0]
    if counts[-1] == 0:
        pytest.skip("this host lets users count in user space only, where nothing switches")
    assert len(counts) > 15
    assert not missed_overflows(counts, 10).any()
    assert (skids(counts, 10) <= 2).all()


def test_a_program_that_becomes_another_is_not_killed(build: Build) -> None:
    """A signal may be on its way when the handler goes: it must be one of which nobody dies."""
    text = """#include <signal.h>
#include <unistd.h>
int main(void) { touch(500); sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0); touch(500);
    return execl("/bin/sh", "sh", "-c", "kill -URG $$; exit 3", (char *)0); }"""
    _, done = run(build(CREW + text), every())
    assert done.returncode == 3


def test_a_blocked_signal_harms_nobody_and_shows(build: Build) -> None:
    text = """#include <signal.h>
int main(void) { sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0); touch(3000); return 5; }"""
    records, done = run(build(CREW + text), every(10))
    assert done.returncode == 5
    assert Mark.SIGNAL_BLOCKED in records.marks
    with pytest.raises(RunError, match="blocked the sampler's signal"):
        trace_of(records)


def test_overflows_without_a_record_are_missed_and_no_count_is_lost(build: Build) -> None:
    text = """#include <signal.h>
int main(void) { sigset_t all; sigfillset(&all); touch(1000); sigprocmask(SIG_BLOCK, &all, 0); touch(1000);
    sigprocmask(SIG_UNBLOCK, &all, 0); touch(1000); return 0; }"""
    records, _ = run(build(CREW + text), every())
    trace = trace_of(records)
    assert PAGES <= trace["perf::page-faults"].sum() < PAGES + PERIOD
    assert trace.attributes["missed_ticks"] == trace.overruns.sum() == 1000 // PERIOD - 1


def test_signals_of_others_end_no_interval(build: Build) -> None:
    text = """#include <signal.h>
int main(void) { for (int i = 0; i < 50; i++) { union sigval value; value.sival_int = 512 + i;
    raise(SIGURG); sigqueue(getpid(), SIGURG, value); } touch(1000); return 0; }"""
    records, done = run(build("#define _GNU_SOURCE\n#include <unistd.h>\n" + CREW + text), every())
    assert done.returncode == 0
    assert len(records.rows) == 1000 // PERIOD + 2


def test_a_handler_of_the_program_is_left_alone(build: Build) -> None:
    text = """#include <signal.h>
static void own(int s) { (void)s; }
__attribute__((constructor(101))) static void early(void) { signal(SIGURG, own); }
int main(void) { touch(1000); return 0; }"""
    records, done = run(build(CREW + text), every())
    assert (done.returncode, records.state) == (0, "failed")
    assert "already handles the sampler's signal" in records.message


def test_an_event_that_cannot_interrupt_is_refused_by_name(build: Build) -> None:
    """The kernel's own clock of all processors counts, and overflows for nobody in user space alone."""
    events = (Event("perf::msr/tsc/", _type_of("msr"), 0, kernel=True),)
    setup = Setup("perf_event", PERIOD, "event", events, signal=OVERFLOW_SIGNAL, interval_event=events[0].name)
    records, done = run(build(STEADY), setup)
    assert (done.returncode, records.state) == (0, "failed")
    assert records.message.startswith("perf::msr/tsc/ cannot end intervals here, as the kernel cannot interrupt")


def _type_of(pmu: str) -> int:
    file = Path(f"/sys/bus/event_source/devices/{pmu}/type")
    if not file.exists():
        pytest.skip(f"this host has no PMU {pmu}")
    return int(file.read_text())


def test_counts_that_the_kernel_did_not_see_are_not_believed(build: Build) -> None:
    records, _ = run(build(STEADY), every())
    throttled = Records(**{**vars(records), "marks": records.marks | Mark.THROTTLED})
    with pytest.raises(RunError, match=r"the kernel has throttled perf::page-faults because .* every 100 counts"):
        trace_of(throttled)
    # Outside, by the kernel's own rule: so many overflows within one of its ticks.
    seen = Records(**{**vars(records), "sample_rate": 250, "tick_ns": 4_000_000})
    with pytest.raises(RunError, match="the kernel may have throttled"):
        trace_of(seen)
    trace_of(Records(**{**vars(records), "sample_rate": 1_000_000_000, "tick_ns": 4_000_000}))


def naive_missed(counts: list[int], period: int) -> list[int]:
    """Go through the counts one by one."""
    missed = []
    for place, (before, after) in enumerate(itertools.pairwise(counts)):
        passed = sum(count % period == 0 for count in range(before + 1, after + 1))
        own = 1 if place < len(counts) - 2 else 0
        missed.append(max(0, passed - own))
    return missed


@settings(deadline=None)
@given(st.integers(1, 50), st.lists(st.integers(0, 200), min_size=3, max_size=20))
def test_what_was_missed_equals_going_through_every_count(period: int, gained: list[int]) -> None:
    counts = np.cumsum(gained)
    assert list(missed_overflows(counts, period)) == naive_missed(list(map(int, counts)), period)


def test_the_signal_is_one_that_nobody_dies_of() -> None:
    assert signal.SIGURG == OVERFLOW_SIGNAL
