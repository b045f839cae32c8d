"""The inside sampler in programs that do what programs do: threads, cancellation, forks, jumps out of handlers, descriptors closed, libraries closed.

Counts come from the kernel's software events, which are there on every host: a page touched is a page fault.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kill_validation import CASES, Case, compile_victim, kill_one
from programs import BUSY, COUNTED, INCLUDE, sample

from unperturbed.collectors import catalogue, perf_event, perf_names
from unperturbed.collectors.assemble import assemble, milestone, thread_traces
from unperturbed.collectors.counts import hardware_columns, threads
from unperturbed.collectors.invariants import PARTS, implausible
from unperturbed.collectors.passes import Pass
from unperturbed.collectors.perf_event import PREFIX
from unperturbed.collectors.record import SIGNAL, Event, Mark, Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime_build import BOUNDS, SOURCES, build_preload
from unperturbed.collectors.trace import Metric
from unperturbed.errors import RunError
from unperturbed.instrument.events import parse_event
from unperturbed.instrument.toolchain import write_toolchain

FAULTS = Event("perf::page-faults", 1, 2, kernel=True)
TASK_CLOCK = Event("perf::task-clock", 1, 1, kernel=True)
EVENTS = (FAULTS, TASK_CLOCK)
METRICS = tuple(Metric(event.name, "os", source="perf_event") for event in EVENTS)
COLLECTED = Pass("main", "perf_event", METRICS, EVENTS)

TOUCH = """
#include <stdlib.h>
#include <sys/mman.h>
static void touch(long pages) {
    for (long i = 0; i < pages; i++) {
        char *p = (char *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p[0] = 1; munmap(p, 4096);
        if (i % 50 == 0) busy(200000);
    }
}
"""
THREAD_FAULTS = 40
"""More page faults than a thread takes for its stack and its sampler."""

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """Return what is linked before and behind each program, compiled once."""
    folder = tmp_path_factory.mktemp("runtime")
    sources = [BOUNDS[0], *SOURCES, BOUNDS[1]]
    command = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-DUNPERTURBED_EXECUTABLE", "-c"]
    subprocess.run([*command, *map(str, sources)], cwd=folder, check=True)
    objects = [str(folder / f"{source.stem}.o") for source in sources]
    return objects[:1], objects[1:]


@pytest.fixture
def build(tmp_path: Path, runtime: tuple[list[str], list[str]]) -> Build:
    """Return a function that compiles a program with the runtime in it."""

    def make(text: str, *flags: str, compiler: str = "gcc") -> Path:
        source = tmp_path / ("program.c" if compiler == "gcc" else "program.cc")
        source.write_text(text)
        before, behind = runtime
        command = [compiler, "-O1", f"-I{INCLUDE}", *before, str(source), *behind, *flags, "-o", str(tmp_path / "program")]
        subprocess.run([*command, "-ldl", "-lrt", "-pthread"], check=True)
        return tmp_path / "program"

    return make


def run(program: Path, setup: Setup, *arguments: str, **kwargs: object) -> tuple[Records, subprocess.CompletedProcess[str]]:
    """Run a program; where the kernel lets nobody count, there is nothing to test."""
    records, done = sample(program.parent, [str(program), *arguments], setup, timeout=60, **kwargs)
    if records.state == "failed" and "ermi" in records.message and os.geteuid() != 0:
        pytest.skip(f"this host allows no perf events: {records.message}")
    return records, done


def counting(interval_ns: int = 1_000_000, **kwargs: object) -> Setup:
    return Setup("perf_event", interval_ns, "monotonic", EVENTS, **kwargs)  # type: ignore[arg-type]


def plain(interval_ns: int = 1_000_000, **kwargs: object) -> Setup:
    return Setup("none", interval_ns, "monotonic", **kwargs)  # type: ignore[arg-type]


def faults_by_thread(records: Records) -> dict[int, int]:
    """Return what each thread counted from its beginning (the main thread: from its first record) to its last record."""
    found = {}
    for thread in threads(records):
        counts = records.rows["hardware"][records.rows["thread"] == thread, 0]
        found[thread] = int(counts[-1] - (counts[0] if thread == 0 else 0))
    return found


def assemble_plain(records: Records, collected: Pass = COLLECTED, software: tuple[str, ...] = ()) -> object:
    return assemble(
        records,
        collected,
        software=tuple(map(milestone, software)),
        os_metrics=(),
        derived={},
        dumps=Path("none"),
        attributes={},
    )


# Threads.

CREW = (
    BUSY
    + TOUCH
    + """
#include <pthread.h>
static void *crew(void *pages) { touch((long)pages); return pages; }
"""
)


def test_every_thread_counts_for_itself_and_the_sum_is_the_processs(build: Build) -> None:
    main = """
int main(void) {
    pthread_t t[3]; void *back;
    for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, crew, (void *)(1000 * (i + 1)));
    touch(500);
    for (long i = 0; i < 3; i++) { pthread_join(t[i], &back); if ((long)back != 1000 * (i + 1)) return 3; }
    return 0; }
"""
    records, done = run(build(CREW + main), counting(threads=True, os_metrics=("minor_faults",)))
    assert (done.returncode, records.state) == (0, "finished")
    assert records.threads == 4
    assert Mark.THREADS in records.marks
    found = faults_by_thread(records)
    assert found.pop(0) in range(500, 500 + 4 * THREAD_FAULTS)
    for counted, touched in zip(sorted(found.values()), (1000, 2000, 3000), strict=True):
        assert counted in range(touched, touched + THREAD_FAULTS)
    columns = {metric.name: column for metric, column in hardware_columns(COLLECTED, records)}
    total = int(columns[FAULTS.name].sum())
    assert total == sum(faults_by_thread(records).values())
    whole = records.rows["os"][records.rows["thread"] == 0, records.os_columns.index("minor_faults")]
    assert abs(total - int(whole[-1] - whole[0])) <= 3 * THREAD_FAULTS, "what getrusage tells of the process"
    traces = thread_traces(records, COLLECTED, {})
    assert sorted(traces) == [0, 1, 2, 3]
    for number, trace in traces.items():
        rows = records.rows[records.rows["thread"] == number]
        assert int(trace.columns[FAULTS.name].sum()) == int(rows["hardware"][-1][0] - rows["hardware"][0][0])
        assert (np.diff(rows["monotonic_ns"]) > 0).all()
        assert (np.diff(rows["hardware"], axis=0) >= 0).all()


@pytest.mark.parametrize("way", ["return", "pthread_exit", "cancelled", "cancelled at any moment"])
def test_a_thread_leaves_its_last_record_however_it_ends(build: Build, way: str) -> None:
    ending = {
        "return": "return (void *)7;",
        "pthread_exit": "pthread_exit((void *)7);",
        "cancelled": "ready = 1; for (;;) { busy(1000); pthread_testcancel(); }",
        "cancelled at any moment": "ready = 1; pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0); for (;;) busy(1000);",
    }[way]
    text = f"""{CREW}
static volatile int ready;
static void *member(void *unused) {{ touch(700); {ending} return unused; }}
int main(void) {{
    pthread_t t; void *back;
    pthread_create(&t, 0, member, 0);
    if ({int("cancelled" in way)}) {{ while (!ready) busy(1000); busy(3000000); pthread_cancel(t); }}
    pthread_join(t, &back);
    return back == PTHREAD_CANCELED ? 9 : (int)(long)back; }}
"""
    records, done = run(build(text), counting(300_000, threads=True))
    assert done.returncode == (9 if "cancelled" in way else 7)
    assert records.state == "finished"
    assert faults_by_thread(records)[1] in range(700, 700 + THREAD_FAULTS)


def test_a_thread_is_cancelled_only_where_the_program_says_so(build: Build) -> None:
    """The handler reads counters by read(2), where threads may be cancelled: in the middle of the program's work."""
    text = (
        BUSY
        + """
#include <pthread.h>
static _Thread_local volatile int working; static volatile int wrong, cleaned;
static void clean(void *unused) { (void)unused; cleaned++; wrong += working; }
static void *member(void *unused) {
    pthread_cleanup_push(clean, 0);
    for (;;) { working = 1; busy(1000000); working = 0; pthread_testcancel(); }
    pthread_cleanup_pop(0);
    return unused; }
int main(void) {
    for (int i = 0; i < 60; i++) {
        pthread_t t; void *back;
        pthread_create(&t, 0, member, 0); busy(200000 * (i % 5)); pthread_cancel(t); pthread_join(t, &back);
        if (back != PTHREAD_CANCELED) return 3;
    }
    return cleaned != 60 ? 4 : wrong; }
"""
    )
    records, done = run(build(text), counting(100_000, threads=True))
    assert done.returncode == 0
    assert records.threads == 61


def test_many_short_threads_each_have_a_first_and_a_last_record(build: Build) -> None:
    main = """
int main(void) {
    for (int k = 0; k < 5; k++) {
        pthread_t t[64];
        for (int i = 0; i < 64; i++) if (pthread_create(&t[i], 0, crew, (void *)10L)) return 3;
        for (int i = 0; i < 64; i++) pthread_join(t[i], 0);
    }
    return 0; }
"""
    records, done = run(build(CREW + main), counting(500_000, threads=True))
    assert (done.returncode, records.state, records.threads) == (0, "finished", 321)
    found = faults_by_thread(records)
    assert sorted(found) == list(range(321))
    assert min(found.values()) >= 10
    columns = dict(hardware_columns(COLLECTED, records))
    assert int(columns[METRICS[0]].sum()) == sum(found.values())


STD_THREAD = """
#include <cstdlib>
#include <thread>
#include <vector>
int main() {
    std::vector<std::thread> crew;
    for (int i = 0; i < 3; i++) crew.emplace_back([] { touch(800); });
    for (auto &member : crew) member.join();
    return 0; }
"""
THRD_CREATE = """
#include <threads.h>
static int member(void *unused) { touch(800); return unused ? 1 : 42; }
int main(void) {
    thrd_t t[3]; int back = 0;
    for (int i = 0; i < 3; i++) thrd_create(&t[i], member, 0);
    for (int i = 0; i < 3; i++) { thrd_join(t[i], &back); if (back != 42) return 3; }
    return 0; }
"""
CONSTRUCTOR = """
static pthread_t early[3];
__attribute__((constructor(101))) static void begin(void) { for (int i = 0; i < 3; i++) pthread_create(&early[i], 0, crew, (void *)800L); }
int main(void) { for (int i = 0; i < 3; i++) pthread_join(early[i], 0); return 0; }
"""


@pytest.mark.parametrize(
    ("text", "compiler"),
    [(BUSY + TOUCH + STD_THREAD, "g++"), (BUSY + TOUCH + THRD_CREATE, "gcc"), (CREW + CONSTRUCTOR, "gcc")],
    ids=["std::thread", "thrd_create", "constructor"],
)
def test_threads_of_every_making_are_sampled(build: Build, text: str, compiler: str) -> None:
    records, done = run(build(text, compiler=compiler), counting(threads=True))
    assert (done.returncode, records.state, records.threads) == (0, "finished", 4)
    found = faults_by_thread(records)
    assert all(found[thread] in range(800, 800 + THREAD_FAULTS) for thread in (1, 2, 3))


@pytest.mark.parametrize("opened", [False, True], ids=["linked", "opened"])
def test_threads_that_a_library_makes_are_sampled(build: Build, tmp_path: Path, opened: bool) -> None:
    (tmp_path / "library.c").write_text(
        CREW + "void team(void) { pthread_t t; pthread_create(&t, 0, crew, (void *)800L); pthread_join(t, 0); }"
    )
    library = tmp_path / "libteam.so"
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", str(tmp_path / "library.c"), "-o", str(library), "-pthread"], check=True)
    load = f'void *h = dlopen("{library}", RTLD_NOW); void (*team)(void); *(void **)&team = dlsym(h, "team");'
    text = (
        "#include <dlfcn.h>\n"
        + ("" if opened else "void team(void);\n")
        + f"int main(void) {{ {load if opened else ''} team(); return 0; }}"
    )
    records, done = run(build(text, *([] if opened else [str(library), f"-Wl,-rpath,{tmp_path}"])), counting(threads=True))
    assert (done.returncode, records.threads) == (0, 2)
    assert faults_by_thread(records)[1] in range(800, 800 + THREAD_FAULTS)


OWN_CREATE = """
#define _GNU_SOURCE
#include <dlfcn.h>
typedef int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *p) {
    return ((create)dlsym(RTLD_NEXT, "pthread_create"))(t, a, f, p); }
"""
OWN_THRD_CREATE = (
    "int thrd_create(pthread_t *t, int (*f)(void *), void *p) { return pthread_create(t, 0, (void *(*)(void *))f, p); }"
)


def test_threads_that_no_sampler_can_be_put_into_are_told(build: Build) -> None:
    """A program that has a pthread_create of its own; it is told by the C library that there was a second thread."""
    main = "int main(void) { pthread_t t; pthread_create(&t, 0, crew, (void *)100L); pthread_join(t, 0); return 0; }"
    program = build("#define _GNU_SOURCE\n" + CREW + OWN_CREATE + main)
    records, done = run(program, counting(threads=True))
    assert (done.returncode, records.state) == (0, "failed")
    assert "made threads in a way that no sampler can be put into" in records.message
    records, _ = run(program, counting())
    assert (records.state, records.threads) == ("finished", 1)
    assert Mark.THREADS in records.marks


def test_a_program_with_a_thrd_create_of_its_own_keeps_it(build: Build) -> None:
    main = "int main(void) { pthread_t t; thrd_create(&t, member, 0); pthread_join(t, 0); return 0; }"
    text = CREW + "static int member(void *unused) { touch(300); return unused != 0; }" + OWN_THRD_CREATE
    records, done = run(build(text + main), counting(threads=True))
    assert (done.returncode, records.state, records.threads) == (0, "finished", 2)
    assert faults_by_thread(records)[1] in range(300, 300 + THREAD_FAULTS)


def test_the_main_thread_alone_is_counted_by_default_and_threads_are_told(build: Build) -> None:
    main = (
        "int main(void) { pthread_t t; pthread_create(&t, 0, crew, (void *)2000L); pthread_join(t, 0); touch(500); return 0; }"
    )
    records, _ = run(build(CREW + main), counting())
    assert records.threads == 1
    assert Mark.THREADS in records.marks
    assert set(records.rows["thread"]) == {0}
    assert faults_by_thread(records)[0] in range(500, 500 + 2 * THREAD_FAULTS)


def test_threads_that_are_started_with_every_signal_blocked_are_sampled(build: Build) -> None:
    """As liblzma and many others start theirs."""
    main = """
#include <signal.h>
static void *work_long(void *unused) { busy(60000000); return unused; }
int main(void) {
    sigset_t all, before; pthread_t t;
    sigfillset(&all); pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&t, 0, work_long, 0);
    pthread_sigmask(SIG_SETMASK, &before, 0); pthread_join(t, 0); return 0; }
"""
    records, _ = run(build(BUSY + "#include <pthread.h>\n" + main), counting(threads=True))
    assert np.count_nonzero(records.rows["thread"] == 1) > 5
    assert Mark.SIGNAL_BLOCKED not in records.marks


def test_a_child_that_a_thread_forked_stays_silent_when_it_returns_from_the_threads_function(build: Build) -> None:
    text = (
        BUSY
        + """
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static void *member(void *unused) { if (fork() == 0) return unused; wait(0); return unused; }
int main(void) { pthread_t t; pthread_create(&t, 0, member, 0); pthread_join(t, 0); busy(10000000); return 0; }
"""
    )
    records, done = run(build(text), counting(500_000_000, threads=True))
    assert (done.returncode, records.state) == (0, "finished")
    assert [int(np.count_nonzero(records.rows["thread"] == thread)) for thread in (0, 1)] == [2, 2]


def test_rights_given_up_stop_a_later_threads_counters_and_that_is_told(build: Build, tmp_path: Path) -> None:
    if os.geteuid() != 0 or int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) < 2:
        pytest.skip("needs rights to give up")
    main = """
#include <unistd.h>
static volatile int sampled;
static void *first(void *pages) { sampled = 1; return crew(pages); }
int main(void) {
    pthread_t t[2];
    pthread_create(&t[0], 0, first, (void *)300L); while (!sampled) busy(1000);
    if (setresuid(65534, 65534, 65534)) return 3;
    touch(300); pthread_join(t[0], 0);
    if (%d) { pthread_create(&t[1], 0, crew, (void *)300L); pthread_join(t[1], 0); }
    return 0; }
"""
    head = "#define _GNU_SOURCE\n" + CREW
    records, done = run(build(head + main % 0), counting(threads=True))
    assert (done.returncode, records.state) == (0, "finished")
    records, done = run(build(head + main % 1), counting(threads=True))
    assert (done.returncode, records.state) == (0, "failed")
    assert "Permission denied" in records.message


# Ways to read.


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
        assert [int(value) for value in columns[f"{event.name}.running_ns"][1]] == [times[index][1] for _, times in gained[1:]]


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
    records = synthetic(setup, thread, monotonic_ns=moments, hardware=np.array(counts)[:, None], enabled_ns=1, running_ns=1)
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
        naive = [value + after - before for value, before, after in zip(naive, cumulative, cumulative[1:], strict=False)]
    assert np.abs(column - np.array(naive)).max() <= len(others), "each is rounded to a whole count"


def test_partial_counts_are_refused_when_no_turns_were_asked_for() -> None:
    records = synthetic(counting(), [0, 0, 0], monotonic_ns=[1, 2, 3], enabled_ns=[100, 200, 300], running_ns=[100, 150, 200])
    with pytest.raises(RunError, match=r"on the counters in 66\.7% of the time only"):
        list(hardware_columns(COLLECTED, records))


# Clocks and the signal.


@pytest.mark.parametrize("clock", ["process-cpu", "thread-cpu"])
def test_clocks_of_processor_time_stand_still_while_the_program_sleeps(build: Build, clock: str) -> None:
    text = BUSY + "#include <unistd.h>\nint main(void) { busy(100000000); usleep(300000); busy(100000000); return 0; }"
    records, _ = run(build(text), Setup("none", 4_000_000, clock))
    rows = records.rows
    assert (np.diff(rows["cpu_ns"]) >= 0).all(), "the kernel tells the process's time to a jiffy while a timer runs on it"
    assert (rows["monotonic_ns"][-1] - rows["monotonic_ns"][0]) - (rows["cpu_ns"][-1] - rows["cpu_ns"][0]) > 250e6
    assert np.diff(rows["monotonic_ns"]).max() > 290e6, "no record in the sleep"
    assert len(rows) > 5


def test_each_clock_of_processor_time_counts_whose_it_is(build: Build) -> None:
    text = BUSY + "#include <pthread.h>\nstatic void *f(void *p) { busy(100000000); return p; }\n"
    text += "int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); busy(30000000); return 0; }"
    program = build(text)
    spent = {}
    for clock in ("process-cpu", "thread-cpu"):
        rows = run(program, Setup("none", 4_000_000, clock))[0].rows
        spent[clock] = int(rows["cpu_ns"][-1] - rows["cpu_ns"][0])
    assert spent["process-cpu"] > 2 * spent["thread-cpu"]


@pytest.mark.parametrize("number", [signal.SIGPROF, signal.SIGUSR1, signal.SIGRTMIN + 1, signal.SIGRTMAX])
def test_any_signal_that_can_be_handled_serves(build: Build, number: int) -> None:
    records, done = run(build(BUSY + "int main(void) { busy(30000000); return 0; }"), plain(signal=int(number)))
    assert (done.returncode, records.state) == (0, "finished")
    assert len(records.rows) > 3


@pytest.mark.parametrize("number", [signal.SIGKILL, 32, 33, 65])
def test_a_signal_that_cannot_be_handled_is_refused(build: Build, number: int) -> None:
    records, done = run(build("int main(void) { return 0; }"), plain(signal=int(number)))
    assert (done.returncode, records.state) == (0, "failed")
    assert "the sampler's signal: Invalid argument" in records.message


@pytest.mark.parametrize(
    ("act", "mark", "told"),
    [
        ("signal(N, mine);", Mark.SIGNAL_TAKEN, "installed a handler of its own"),
        ("signal(N, SIG_IGN);", Mark.SIGNAL_TAKEN, "installed a handler of its own"),
        (
            "sigset_t s; sigemptyset(&s); sigaddset(&s, N); sigprocmask(SIG_BLOCK, &s, 0);",
            Mark.SIGNAL_BLOCKED,
            "blocked the sampler's",
        ),
        ("sigset_t s; sigfillset(&s); sigprocmask(SIG_SETMASK, &s, 0);", Mark.SIGNAL_BLOCKED, "blocked the sampler's signal"),
    ],
)
def test_a_signal_taken_or_blocked_later_is_noticed_and_the_run_refused(build: Build, act: str, mark: Mark, told: str) -> None:
    text = f"#include <signal.h>\n#define N {int(SIGNAL)}\n{BUSY}\nvoid mine(int s) {{ (void)s; }}\n"
    program = build(f"{text}int main(void) {{ busy(20000000); {act} busy(20000000); return 0; }}")
    records, done = run(program, plain())
    assert done.returncode == 0
    assert records.marks == mark
    with pytest.raises(RunError, match=told) as refusal:
        assemble_plain(records, Pass("main", "none", ()))
    assert "choose another by `signal:`, or take sampler: outside" in str(refusal.value)


def test_a_thread_that_blocks_the_signal_is_noticed_too(build: Build) -> None:
    text = (
        BUSY
        + """
#include <pthread.h>
#include <signal.h>
static void *member(void *unused) { sigset_t s; sigfillset(&s); pthread_sigmask(SIG_SETMASK, &s, 0); busy(10000000); return unused; }
int main(void) { pthread_t t; pthread_create(&t, 0, member, 0); pthread_join(t, 0); return 0; }
"""
    )
    program = build(text)
    assert Mark.SIGNAL_BLOCKED in run(program, counting(threads=True))[0].marks
    assert Mark.SIGNAL_BLOCKED not in run(program, counting())[0].marks, "no tick of the main thread's was held back"


def test_ticks_that_waited_while_the_signal_was_blocked_are_counted_as_missed(build: Build) -> None:
    text = (
        BUSY
        + "#include <signal.h>\nint main(void) { sigset_t s, o; busy(10000000); sigfillset(&s); sigprocmask(SIG_SETMASK, &s, &o); "
    )
    records, _ = run(build(text + "busy(60000000); sigprocmask(SIG_SETMASK, &o, 0); busy(10000000); return 0; }"), plain())
    assert records.marks == Mark(0)
    gap_ms = np.diff(records.rows["monotonic_ns"]).max() / 1e6
    assert gap_ms > 10
    assert abs(int(records.rows["overruns"].max()) - gap_ms) < 3


def test_signals_of_the_same_number_from_elsewhere_are_nobodys_tick(build: Build) -> None:
    text = f"""
#include <signal.h>
#include <time.h>
#include <unistd.h>
{BUSY}
int main(void) {{
    struct sigevent e = {{.sigev_notify = SIGEV_SIGNAL, .sigev_signo = {int(SIGNAL)}, .sigev_value.sival_ptr = (void *)0x1234}};
    struct itimerspec often = {{{{0, 300000}}, {{0, 300000}}}};
    timer_t t;
    timer_create(CLOCK_MONOTONIC, &e, &t); timer_settime(t, 0, &often, 0);
    for (int i = 0; i < 10; i++) {{ sigqueue(getpid(), {int(SIGNAL)}, (union sigval){{.sival_ptr = (void *)0x77}}); busy(1000000); }}
    return 0; }}
"""
    records, done = run(build(text), plain(500_000_000))
    assert (done.returncode, records.state) == (0, "finished")
    assert len(records.rows) == 2


def test_a_handler_of_the_programs_that_jumps_away_does_not_end_the_sampling(build: Build) -> None:
    text = (
        BUSY
        + """
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
static sigjmp_buf back;
static void jump(int s) { (void)s; siglongjmp(back, 1); }
int main(void) {
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    volatile int n = 0;
    signal(SIGALRM, jump); setitimer(ITIMER_REAL, &often, 0);
    sigsetjmp(back, 1);
    if (n++ < 5000) for (;;) busy(1000);
    setitimer(ITIMER_REAL, &never, 0); return 0; }
"""
    )
    records, done = run(build(text), counting(100_000))
    assert (done.returncode, records.state) == (0, "finished")
    assert records.nested == 0
    assert len(records.rows) > 500
    assert records.rows["whole"][-1] == len(records.rows), "no record was begun and left"


@pytest.mark.parametrize("alternate", [False, True])
def test_the_handler_runs_on_the_alternate_stack_if_that_is_asked_for(build: Build, alternate: bool) -> None:
    text = (
        BUSY
        + """
#include <signal.h>
#include <stdio.h>
#include <string.h>
static char stack[65536];
int main(void) {
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    size_t untouched = 0;
    memset(stack, 0x5a, sizeof stack); sigaltstack(&other, 0); busy(30000000);
    while (untouched < sizeof stack && stack[untouched] == 0x5a) untouched++;
    printf("%zu", sizeof stack - untouched); return 0; }
"""
    )
    records, done = run(build(text), counting(alternate_stack=alternate))
    assert len(records.rows) > 3
    used = int(done.stdout)
    assert (used > 500) is alternate
    assert used < 8192, "a stack of SIGSTKSZ is enough"


def test_a_sleep_is_cut_short_inside_though_calls_are_restarted_and_is_not_outside(build: Build) -> None:
    """A perturbation that SA_RESTART does not cover: nanosleep(2) and its like return early. There is none outside."""
    text = """
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    struct timespec t = {0, 20000000};
    int early = 0, fd[2];
    char c;
    for (int i = 0; i < 10; i++) early += nanosleep(&t, 0) != 0;
    if (pipe(fd)) return 3;
    if (fork() == 0) { usleep(20000); return write(fd[1], "x", 1) != 1; }
    if (read(fd[0], &c, 1) != 1) return 4;
    printf("%d", early); return 0; }
"""
    program = build(text)
    records, done = run(program, plain())
    assert done.returncode == 0, "read(2) is restarted"
    assert int(done.stdout) >= 8
    assert len(records.rows) > 10
    _, done = run(program, plain(sampler="outside"))
    assert (done.returncode, done.stdout) == (0, "0")


# Processes.

SPAWNING = {
    "fork": "if (fork() == 0) { busy(3000000); return 5; }",
    "fork and _exit": "if (fork() == 0) { busy(3000000); _exit(5); }",
    "fork and threads": "if (fork() == 0) { pthread_t t; pthread_create(&t, 0, member, 0); pthread_join(t, 0); return 5; }",
    "fork and exec": 'if (fork() == 0) { execl("/proc/self/exe", "program", "child", (char *)0); _exit(9); }',
    "vfork": 'if (vfork() == 0) { execl("/proc/self/exe", "program", "child", (char *)0); _exit(9); }',
    "posix_spawn": 'char *words[] = {"program", "child", 0}; posix_spawn(&p, "/proc/self/exe", 0, 0, words, environ);',
    "system": 'if (system("exit 3") != 3 << 8) return 8; if (fork() == 0) return 5;',
}


@pytest.mark.parametrize("way", SPAWNING)
def test_children_of_every_making_stay_silent(build: Build, way: str) -> None:
    text = f"""
#define _GNU_SOURCE
{COUNTED}{BUSY}
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
void *member(void *unused) {{ COUNT(0); busy(3000000); return unused; }}
int main(int n, char **v) {{
    pid_t p; int status; (void)v; (void)p;
    if (n > 1) {{ COUNT(0); busy(3000000); return 5; }}
    busy(3000000); {SPAWNING[way]}
    if (wait(&status) < 0 || status != 5 << 8) return 9;
    COUNT(1); busy(3000000); return 0; }}
"""
    records, done = run(build(text), plain(200_000, software=2, threads=True))
    assert (done.returncode, records.state) == (0, "finished")
    assert list(records.rows["software"][-1]) == [0, 1]
    assert records.threads == 1
    assert records.tables == 1
    assert set(records.rows["thread"]) == {0}
    assert (np.diff(records.rows["monotonic_ns"]) > 0).all()


def test_a_program_that_goes_to_the_background_ends_its_records_there(build: Build) -> None:
    text = (
        "#define _GNU_SOURCE\n"
        + COUNTED
        + BUSY
        + "#include <unistd.h>\nint main(void) { busy(20000000); if (daemon(1, 1)) return 3; COUNT(0); busy(20000000); return 0; }"
    )
    records, done = run(build(text), plain(software=2))
    assert done.returncode == 0
    assert records.state == "attached"
    assert int(records.rows["software"][-1][0]) == 0


def test_forks_of_a_large_program_come_to_an_end_at_short_intervals(build: Build) -> None:
    text = """
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    size_t size = 300UL << 20; char *p = malloc(size);
    memset(p, 1, size);
    for (int i = 0; i < 3; i++) { if (fork() == 0) _exit(p[i] - 1); wait(0); }
    return 0; }
"""
    records, done = run(build(text), plain(50_000))
    assert (done.returncode, records.state) == (0, "finished")


ENDINGS = {
    "_exit": ("_exit(6);", 6, "attached"),
    "quick_exit": ("quick_exit(6);", 6, "attached"),
    "abort": ("abort();", -int(signal.SIGABRT), "attached"),
    "exit in a handler": ("signal(SIGUSR1, leave); raise(SIGUSR1);", 6, "finished"),
    "exit by another thread": ("pthread_t t; pthread_create(&t, 0, out, 0); pthread_join(t, 0);", 6, "attached"),
    "the main thread leaves": ("pthread_t t; pthread_create(&t, 0, on, 0); pthread_exit(0);", 0, "failed"),
}


@pytest.mark.parametrize("way", ENDINGS)
def test_an_end_of_any_kind_keeps_its_records_and_its_exit_code(build: Build, way: str) -> None:
    act, code, state = ENDINGS[way]
    text = f"""
#define _GNU_SOURCE
{COUNTED}{BUSY}
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
void leave(int s) {{ (void)s; exit(6); }}
void *out(void *unused) {{ busy(3000000); exit(6); return unused; }}
void *on(void *unused) {{ busy(60000000); return unused; }}
int main(void) {{ for (int i = 0; i < 20; i++) {{ COUNT(0); busy(1000000); }} {act} return 1; }}
"""
    records, done = run(build(text), plain(300_000, software=2))
    assert (done.returncode, records.state) == (code, state)
    assert int(records.rows["software"][-1][0]) > 5
    assert records.rows["whole"][-1] == len(records.rows)
    if state == "failed":
        with pytest.raises(RunError, match="the main thread ended before the program did"):
            assemble_plain(records)


COUNTING_LIBRARY = """
#include "unperturbed.h"
static uint64_t counts[1] __attribute__((section("unperturbed_sites"), used, aligned(64)));
static const uint32_t metric[1] = {1};
static struct unperturbed_table table = {0, counts, metric, 1, 1};
static void __attribute__((constructor)) enrol(void) { unperturbed_register(&table); }
void hit(void) { (*(volatile uint64_t *)counts)++; }
"""


@pytest.fixture
def counting_library(tmp_path: Path) -> Path:
    (tmp_path / "library.c").write_text(COUNTING_LIBRARY)
    library = tmp_path / "libhit.so"
    sources = [BOUNDS[0], tmp_path / "library.c", BOUNDS[1]]
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", f"-I{INCLUDE}", *map(str, sources), "-o", str(library)], check=True)
    return library


EXPORTS = "-Wl,--export-dynamic-symbol=unperturbed_register*"


def test_a_library_that_only_a_child_opens_is_none_of_the_programs(build: Build, counting_library: Path) -> None:
    text = f"""
{BUSY}
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {{
    busy(3000000);
    if (fork() == 0) {{
        void *h = dlopen("{counting_library}", RTLD_NOW); void (*hit)(void);
        *(void **)&hit = h ? dlsym(h, "hit") : 0; if (!hit) _exit(9); hit(); busy(3000000); return 0;
    }}
    int status; wait(&status); busy(3000000); return status != 0; }}
"""
    records, done = run(build(text, EXPORTS), plain(300_000, software=2))
    assert (done.returncode, records.state) == (0, "finished")
    assert records.tables == 0, "the run is refused: none of the code that counts was loaded by the program"
    assert list(records.rows["software"][-1]) == [0, 0]


@pytest.mark.parametrize("sampler", ["inside", "outside"])
def test_a_library_that_is_closed_keeps_its_counts(build: Build, counting_library: Path, sampler: str) -> None:
    """The handler reads its counters to the end; the observer's list of them is walked when the program forks or ends."""
    text = f"""
{COUNTED}{BUSY}
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {{
    for (int i = 0; i < 3; i++) {{
        void *h = dlopen("{counting_library}", RTLD_NOW); void (*hit)(void);
        if (dlerror()) return 8;
        *(void **)&hit = dlsym(h, "hit"); for (int k = 0; k < 10; k++) {{ hit(); busy(300000); }}
        dlclose(h); busy(3000000);
    }}
    if (fork() == 0) return 0;
    wait(0); return 0; }}
"""
    records, done = run(build(text, EXPORTS), plain(300_000, software=2, sampler=sampler))
    assert (done.returncode, records.state) == (0, "finished")
    assert int(records.rows["software"][-1][1]) == 30
    assert (np.diff(records.rows["software"], axis=0) >= 0).all()


# Descriptors and the operating system's counters.


def test_the_programs_descriptors_keep_their_numbers(build: Build) -> None:
    text = '#include <fcntl.h>\nint main(void) { return open("/dev/null", O_RDONLY); }'
    records, done = run(build(text), counting(os_metrics=("sched_run_ns", "read_calls")))
    assert (done.returncode, records.state) == (3, "finished")


def test_a_program_that_closes_all_descriptors_keeps_its_data_and_lost_counts_are_told(build: Build) -> None:
    text = (
        "#define _GNU_SOURCE\n"
        + BUSY
        + """
#include <string.h>
#include <unistd.h>
int main(void) {
    char bytes[1000]; int fd[2];
    busy(3000000); closefrom(3);
    for (int i = 0; i < 8; i++) if (pipe(fd) || write(fd[1], bytes, sizeof bytes) != sizeof bytes) return 3;
    busy(20000000);
    for (int i = 3; i < 19; i += 2) if (read(i, bytes, sizeof bytes) != sizeof bytes) return 4;
    return 0; }
"""
    )
    records, done = run(build(text), counting(300_000))
    assert done.returncode == 0
    assert records.unread > 10
    with pytest.raises(RunError, match="the counters could not be read at"):
        assemble_plain(records)


def test_scheduler_and_file_counters_inside(build: Build) -> None:
    text = (
        BUSY + '#include <fcntl.h>\n#include <unistd.h>\nint main(void) { char c[1000]; int fd = open("/dev/zero", O_RDONLY); '
    )
    text += (
        "for (int i = 0; i < 100; i++) { if (read(fd, c, sizeof c) != 1000) return 1; busy(500000); } usleep(1000); return 0; }"
    )
    records, done = run(
        build(text), plain(os_metrics=("sched_run_ns", "sched_slices", "chars_read", "read_calls", "minor_faults"))
    )
    assert done.returncode == 0
    gained = dict(zip(records.os_columns, (records.rows["os"][-1] - records.rows["os"][0]).tolist(), strict=True))
    assert (np.diff(records.rows["os"], axis=0) >= 0).all()
    assert gained["sched_run_ns"] > 5e6
    assert gained["sched_slices"] >= 1
    # The sampler reads two files of /proc for each record, and those reads count too.
    own = len(records.rows) * 2
    assert gained["read_calls"] in range(100, 100 + own + 1)
    assert gained["chars_read"] in range(100_000, 100_000 + own * 200)


@pytest.mark.parametrize(("metric", "file"), [("read_calls", "/proc/PID/io"), ("sched_run_ns", "/proc/PID/schedstat")])
def test_counters_that_this_host_does_not_show_are_a_failure_not_zeros(
    tmp_path: Path, build: Build, metric: str, file: str
) -> None:
    program = build("int main(void) { return 0; }")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    hidden = f"mount -t tmpfs none /proc && exec {program}"
    records, done = sample(tmp_path, ["unshare", "--mount", "/bin/sh", "-c", hidden], plain(os_metrics=(metric,)))
    assert (done.returncode, records.state) == (0, "failed")
    assert file in records.message
    assert "No such file" in records.message
    with pytest.raises(RunError, match=file):
        assemble_plain(records)


# Programs that were not built here, and ways to build.


def preloaded(tmp_path: Path, setup: Setup, command: list[str]) -> tuple[Records, subprocess.CompletedProcess[bytes]]:
    create_record_file(tmp_path / "record", setup)
    environment = {
        "PATH": os.environ["PATH"],
        "UNPERTURBED_RECORD": str(tmp_path / "record"),
        "LD_PRELOAD": str(build_preload("gcc")),
    }
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    return read_record_file(tmp_path / "record", setup), done


def test_threads_of_a_program_that_was_not_built_here(tmp_path: Path) -> None:
    hashing = "import hashlib, threading\nts = [threading.Thread(target=lambda: hashlib.sha256(bytes(30_000_000))) for _ in range(3)]\n"
    command = [
        os.path.realpath(sys.executable),
        "-I",
        "-S",
        "-c",
        hashing + "for t in ts: t.start()\nfor t in ts: t.join()\nprint('good')",
    ]
    records, done = preloaded(tmp_path, counting(threads=True), command)
    assert done.stdout == b"good\n"
    assert (records.state, records.threads) == ("finished", 4)
    found = faults_by_thread(records)
    assert min(found[thread] for thread in (1, 2, 3)) > 1000, "each touches the pages of its bytes"


@pytest.mark.skipif(not shutil.which("xz"), reason="there is no xz here")
def test_a_compressor_whose_threads_block_every_signal(tmp_path: Path) -> None:
    data = random.Random(3).randbytes(1 << 20)
    (tmp_path / "data").write_bytes(data)
    command = ["xz", "-T2", "-1", "--block-size=256KiB", "--stdout", str(tmp_path / "data")]
    records, done = preloaded(tmp_path, counting(threads=True, program="xz"), command)
    assert subprocess.run(["xz", "-dc"], input=done.stdout, capture_output=True, check=True).stdout == data
    assert (records.state, records.threads) == ("finished", 3)
    assert all(np.count_nonzero(records.rows["thread"] == thread) > 5 for thread in range(3))


CALLS = {name: parse_event({"enter": name}) for name in ("step", "helper", "inner")}
STEPS = """
#include <stdio.h>
#ifdef LIBRARY
int outer(int);
#else
#define outer(i) (i)
#endif
int helper(int);
static volatile unsigned long work;
int before = 41, many[3000] = {7};
__attribute__((noinline)) static void step(int i) { for (int k = 0; k < 200000; k++) work += k; many[i % 3000]++; }
int main(void) { int sum = 0; for (int i = 0; i < 90; i++) { step(i); sum += helper(i) + outer(0); } printf("%d %d", sum, before); return 0; }
"""
HELPER = "int helper(int i) { static int kept[3000]; kept[i % 3000] += i; return kept[i % 3000]; }\n"
OUTER = "static int inner(int i) { return i; }\nint outer(int i) { return inner(i); }\n"


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workshop")
    write_toolchain(folder / "toolchain", CALLS, compilers={}, runtime=SOURCES, bounds=BOUNDS)
    for name, text in {"steps.c": STEPS, "helper.c": HELPER, "outer.c": OUTER}.items():
        (folder / name).write_text(text)
    return folder


def made(workshop: Path, *commands: str) -> Path:
    for command in commands:
        subprocess.run([str(workshop / "toolchain/cc"), *command.split()], cwd=workshop, check=True, capture_output=True)
    return workshop / "program"


LINKERS = [linker for linker in ("bfd", "gold", "lld") if shutil.which(f"ld.{linker}")]


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize(
    "flags", ["-O2", "-O2 -no-pie", "-O2 -flto", "-O3 -flto -flto-partition=max", "-O2 -static", "-O2 -flto -static"]
)
def test_counts_are_right_however_the_program_is_linked(workshop: Path, linker: str, flags: str) -> None:
    """Outside too, which shows that the linker left the counters between their bounds: what it moved away would be told, not lost."""
    compilers = {}
    if linker == "lld" and "-flto" in flags:  # lld cannot read what gcc leaves for the link, but clang's
        if shutil.which("clang") is None:
            pytest.skip("no clang")
        compilers = {"cc": "clang", "cxx": "clang++"}
        flags = flags.replace("-flto -flto-partition=max", "-flto=thin")
    write_toolchain(workshop / "toolchain", CALLS, compilers=compilers, runtime=SOURCES, bounds=BOUNDS)
    program = made(workshop, f"{flags} -fuse-ld={linker} steps.c helper.c -o program")
    for sampler in ("inside", "outside"):
        records, done = run(program, plain(500_000, software=3, sampler=sampler, threads=sampler == "inside"))
        assert (done.returncode, done.stdout) == (0, f"{sum(range(90))} 41")
        assert records.state == "finished"
        assert Mark.UNSHARED not in records.marks
        assert list(records.rows["software"][-1]) == [90, 90, 0]
        assert len(np.unique(records.rows["software"][:, 0])) > 5, "seen while it ran"


def test_counters_outside_their_bounds_are_told_not_lost(build: Build) -> None:
    """What a linker that moves them would leave."""
    text = (
        COUNTED.replace('section("unperturbed_sites"), ', "") + BUSY + "int main(void) { COUNT(0); busy(20000000); return 0; }"
    )
    records, _ = run(build(text), plain(software=2, sampler="outside"))
    assert Mark.UNSHARED in records.marks
    with pytest.raises(RunError, match="could not be shared with the observer"):
        assemble_plain(records, Pass("main", "none", ()), software=("a", "b"))
    records, _ = run(build(text), plain(software=2))
    assert list(records.rows["software"][-1]) == [1, 0], "inside they are read where they lie"


@pytest.mark.parametrize("linker", LINKERS)
def test_a_program_and_its_library_observed_outside(workshop: Path, linker: str) -> None:
    flags = f"-O2 -fuse-ld={linker}"
    library = f"{flags} -fPIC -shared outer.c -o libouter.so"
    program = made(workshop, library, f"{flags} -DLIBRARY steps.c helper.c -L. -louter -Wl,-rpath,{workshop} -o program")
    records, done = run(program, plain(500_000, software=3, sampler="outside"))
    assert (done.returncode, records.state, records.tables) == (0, "finished", 3)
    assert list(records.rows["software"][-1]) == [90, 90, 90]
    assert Mark.UNSHARED not in records.marks
    assert len(np.unique(records.rows["software"][:, 2])) > 5


def test_threads_of_a_static_program(workshop: Path) -> None:
    (workshop / "crew.c").write_text(
        CREW
        + THRD_CREATE.replace(
            "int main(void) {", "int main(void) { pthread_t p; pthread_create(&p, 0, crew, (void *)800L);"
        ).replace("return 0; }", "pthread_join(p, 0); return 0; }")
    )
    program = made(workshop, "-O1 -static crew.c -o program")
    records, done = run(program, counting(threads=True))
    assert (done.returncode, records.state, records.threads) == (0, "finished", 5)
    assert all(faults_by_thread(records)[thread] in range(800, 800 + THREAD_FAULTS) for thread in (1, 2, 3, 4))
    records, done = run(program, counting(sampler="outside"))
    assert (done.returncode, records.state) == (0, "finished")
    assert int(records.rows["hardware"][-1][0]) >= 3200


# Kills: some here, a thousand in kill_validation.py.


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    return {workers: compile_victim(tmp_path_factory.mktemp("victim"), workers) for workers in {case.workers for case in CASES}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kills_lose_no_whole_record(tmp_path: Path, victims: dict[int, Path], case: Case) -> None:
    chance = random.Random(11)
    whole = 0
    for _ in range(40):
        facts = kill_one(tmp_path, victims[case.workers], case, interval_ns=100_000, delay_s=chance.uniform(0, 0.02))
        assert facts.faults == ()
        whole += facts.whole
    assert whole > 400


# What must hold between events.


def test_every_pair_names_metrics_that_exist() -> None:
    for name in {name for pair in PARTS for name in pair}:
        if name.startswith(PREFIX):
            perf_names.parse(name.removeprefix(PREFIX), Path("/"))
        else:
            assert name in catalogue.PRESETS
    assert len(set(PARTS)) == len(PARTS)
    assert all(part != whole and (whole, part) not in PARTS for part, whole in PARTS)


def test_a_part_that_exceeds_its_whole_is_told() -> None:
    columns = {
        "PAPI_L1_DCM": np.array([5.0, 50, 7]),
        "PAPI_L1_DCA": np.array([10.0, 10, 10]),
        "PAPI_TOT_INS": np.array([1, 1, 1]),
    }
    (sentence,) = implausible(columns)
    assert sentence == "PAPI_L1_DCM (62) exceeds PAPI_L1_DCA (30), of which it is a part; in 33% of the intervals"
    assert implausible({"PAPI_L1_DCM": np.array([5.0]), "PAPI_L2_DCM": np.array([6.0])}) == [
        "PAPI_L2_DCM (6) exceeds PAPI_L1_DCM (5), of which it is a part; in 100% of the intervals"
    ]


def test_small_excesses_and_intervals_without_a_count_are_no_violation() -> None:
    whole = np.full(100, 1000.0)
    assert implausible({"PAPI_BR_MSP": whole * 1.009, "PAPI_BR_INS": whole}) == []
    assert len(implausible({"PAPI_BR_MSP": whole * 1.011, "PAPI_BR_INS": whole})) == 1
    never = np.array([np.nan, 10.0, 900.0])
    assert implausible({"PAPI_BR_MSP": never, "PAPI_BR_INS": np.array([1.0, 20.0, np.nan])}) == []
    assert implausible({"PAPI_BR_MSP": np.full(2, np.nan), "PAPI_BR_INS": whole[:2]}) == []


@pytest.mark.parametrize(("part", "whole"), PARTS)
def test_each_pair_is_looked_at(part: str, whole: str) -> None:
    assert implausible({part: np.array([1, 1]), whole: np.array([1, 1])}) == []
    assert len(implausible({part: np.array([3, 1]), whole: np.array([1, 1])})) >= 1


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
    counts = {}
    for reset in (False, True):
        setup = Setup("perf_event", 1_000_000, "monotonic", events, reset=reset)
        records, done = run(build(text), setup)
        assert (done.returncode, records.state) == (0, "finished")
        assert len(records.rows) > 20
        counts[reset] = records.rows["hardware"][-1] - records.rows["hardware"][0]
    assert 20_000 <= counts[False][1] < 23_000
    assert 0.95 * counts[False][1] < counts[True][1] < 1.2 * counts[False][1], "the calls that reset are counted too"
    assert 0.9 * counts[False][2] < counts[True][2] < 1.1 * counts[False][2]
