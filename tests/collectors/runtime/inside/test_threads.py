"""The inside sampler in programs with threads: every thread of every making counts for itself, and ends in order."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.runtime.inside.programs import (
    COLLECTED,
    CREW,
    FAULTS,
    METRICS,
    THRD_CREATE,
    THREAD_FAULTS,
    TOUCH,
    Build,
    counting,
    faults_by_thread,
    run,
)
from tests.collectors.runtime.programs import BUSY
from unperturbed.collectors.records.counts import hardware_columns
from unperturbed.collectors.records.file import Mark
from unperturbed.collectors.records.threads import thread_traces


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
        "cancelled at any moment": "ready = 1; pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0); for (;;) "
        "busy(1000);",
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
CONSTRUCTOR = """
static pthread_t early[3];
__attribute__((constructor(101))) static void begin(void) {
    for (int i = 0; i < 3; i++) pthread_create(&early[i], 0, crew, (void *)800L); }
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
    subprocess.run(
        ["gcc", "-O1", "-fPIC", "-shared", str(tmp_path / "library.c"), "-o", str(library), "-pthread"], check=True
    )
    load = f'void *h = dlopen("{library}", RTLD_NOW); void (*team)(void); *(void **)&team = dlsym(h, "team");'
    text = (
        "#include <dlfcn.h>\n"
        + ("" if opened else "void team(void);\n")
        + f"int main(void) {{ {load if opened else ''} team(); return 0; }}"
    )
    records, done = run(
        build(text, *([] if opened else [str(library), f"-Wl,-rpath,{tmp_path}"])), counting(threads=True)
    )
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
    assert "starts threads in a way that allows no sampler in them" in records.message
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
        "int main(void) { pthread_t t; pthread_create(&t, 0, crew, (void *)2000L); pthread_join(t, 0); "
        "touch(500); return 0; }"
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
