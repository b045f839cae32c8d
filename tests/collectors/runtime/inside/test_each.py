"""Threads one by one: each counts software metrics in variables of its own, and notes what it was created for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.collectors.runtime.inside.programs import COLLECTED, FAULTS, TOUCH, Build, counting, run
from tests.collectors.runtime.programs import BUSY
from unperturbed.analysis.alignment.threads import routine_of
from unperturbed.collectors.records.assemble import assemble, milestone
from unperturbed.collectors.records.file import Mark, Records, further_record_files, read_record_file
from unperturbed.collectors.records.roles import MAIN, read_births, roles
from unperturbed.collectors.records.threads import described, thread_traces
from unperturbed.collectors.runtime import BOUNDS, INCLUDE, runtime_files
from unperturbed.instrument.binaries.routines import routine_name

COUNTED_BY_THREAD = """
#include "unperturbed.h"
static __thread unsigned long long counts[2];
static const uint32_t metric[2] = {0, 1};
static struct unperturbed_table table = {0, 0, metric, 2, 2};
static void __attribute__((constructor)) enrol(void) {
    table.counts = (uint64_t *)(void *)counts; unperturbed_register(&table); }
#define COUNT(i) __asm__ __volatile__("incq %0" : "+m"(counts[i]))
"""
"""A translation unit's counters, as the instrumenting compiler puts them there for threads one by one."""

SOFTWARE = (milestone("steps"), milestone("others"))
HEAD = BUSY + TOUCH + COUNTED_BY_THREAD + "#include <pthread.h>\n#include <unistd.h>\n#include <sys/prctl.h>\n"


def one_by_one(
    build: Build, text: str, *flags: str, interval_ns: int = 1_000_000
) -> tuple[Records, dict[str, dict[str, object]]]:
    """Run a program; return its records, and what is told of each thread, by role."""
    program = build(HEAD + text, *flags)
    records, done = run(program, counting(interval_ns, threads=True, each=True, software=2))
    assert (done.returncode, records.message) == (0, "")
    births = read_births(program.parent / "record")
    assert sorted(births) == list(range(records.threads))
    named = roles(births, lambda place: routine_name(place.file, place.offset, place.symbol))
    traces = thread_traces(records, COLLECTED, {}, software=SOFTWARE, roles=named)
    told = {thread["role"]: thread for thread in described(traces, births)}
    assert len(told) == records.threads
    return records, told


def test_racing_threads_lose_no_count_and_the_sum_is_of_all(build: Build) -> None:
    text = """
static void *worker(void *n) { for (long i = 0; i < (long)n; i++) COUNT(0); COUNT(1); return n; }
int main(void) {
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, worker, (void *)(3000000 * (i + 1)));
    for (int i = 0; i < 100; i++) { COUNT(0); busy(10000); }
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    return 0; }
"""
    records, told = one_by_one(build, text)
    assert {role: thread["totals"]["steps"] for role, thread in told.items()} == {  # type: ignore[index]
        MAIN: 100,
        "worker#1": 3_000_000,
        "worker#2": 6_000_000,
        "worker#3": 9_000_000,
        "worker#4": 12_000_000,
    }
    trace = assemble(
        records,
        COLLECTED,
        software=SOFTWARE,
        os_metrics=(),
        derived={},
        dumps=Path("none"),
        attributes={},
        each_thread=True,
    )
    assert (trace["steps"].sum(), trace["others"].sum()) == (30_000_100, 4)
    assert (trace["steps"] >= 0).all()
    faults = sum(thread["totals"][FAULTS.name] for thread in told.values())  # type: ignore[index]
    assert trace[FAULTS.name].sum() == faults


def test_roles_say_who_created_whom_and_names_are_those_at_the_end(build: Build) -> None:
    text = """
static void *leaf(void *name) { if (name) prctl(PR_SET_NAME, name); touch(100); COUNT(0); return 0; }
static void *branch(void *unused) {
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, leaf, i ? "tab\\there" : 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    return unused; }
int main(void) {
    pthread_t t[3];
    pthread_create(&t[0], 0, branch, 0); pthread_create(&t[1], 0, leaf, "own");
    pthread_create(&t[2], 0, branch, 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    return 0; }
"""
    _, told = one_by_one(build, text)
    leaves = {f"branch#{b}/leaf#{leaf}" for b in (1, 2) for leaf in (1, 2)}
    assert set(told) == {MAIN, "branch#1", "branch#2", "leaf#1", *leaves}
    assert told["leaf#1"]["name"] == "own"
    assert told["branch#2/leaf#2"]["name"] == "tab here"
    assert {routine_of(role) for role in told} == {MAIN, "branch", "leaf", "branch/leaf"}


def test_detached_threads_that_outlive_main_leave_their_counts(build: Build) -> None:
    """With intervals of a minute, all counts are in the first and the last record."""
    text = """
static volatile int ready;
static void *endless(void *unused) {
    for (int i = 0; i < 5000; i++) COUNT(0);
    __atomic_add_fetch(&ready, 1, 5);
    for (;;) pause();
    return unused; }
static void *brief(void *unused) { COUNT(1); __atomic_add_fetch(&ready, 1, 5); return unused; }
int main(void) {
    pthread_t t;
    for (int i = 0; i < 3; i++) { pthread_create(&t, 0, endless, 0); pthread_detach(t); }
    for (int i = 0; i < 3; i++) { pthread_create(&t, 0, brief, 0); pthread_detach(t); }
    while (ready < 6) usleep(1000);
    usleep(20000);
    return 0; }
"""
    records, told = one_by_one(build, text, interval_ns=60_000_000_000)
    assert records.state == "finished"
    assert [told[f"endless#{i}"]["totals"]["steps"] for i in (1, 2, 3)] == [5000] * 3  # type: ignore[index]
    assert told["endless#1"]["name"] is None
    assert [told[f"brief#{i}"]["totals"]["others"] for i in (1, 2, 3)] == [1] * 3  # type: ignore[index]


def test_thousands_of_short_threads_each_have_a_role_and_all_counts(build: Build) -> None:
    text = """
static void *brief(void *n) { for (long i = 0; i < (long)n; i++) COUNT(0); return 0; }
int main(void) {
    for (long k = 0; k < 80; k++) {
        pthread_t t[32];
        for (long i = 0; i < 32; i++) if (pthread_create(&t[i], 0, brief, (void *)(k + 1))) return 3;
        for (int i = 0; i < 32; i++) pthread_join(t[i], 0);
    }
    return 0; }
"""
    records, told = one_by_one(build, text, interval_ns=5_000_000)
    assert records.threads == 1 + 80 * 32
    for number in range(80 * 32):
        assert told[f"brief#{number + 1}"]["totals"]["steps"] == number // 32 + 1  # type: ignore[index]


STD_THREAD = """
#include <thread>
static void twice(int n) { for (int i = 0; i < n; i++) COUNT(0); }
int main() {
    std::thread a([] { COUNT(0); }), b(twice, 7), c(twice, 8);
    a.join(); b.join(); c.join();
    return 0; }
"""
OPENMP = """
int main(void) {
    #pragma omp parallel for num_threads(3) schedule(static)
    for (int i = 0; i < 3000; i++) COUNT(0);
    return 0; }
"""


def test_threads_of_openmp_have_the_role_of_its_library(build: Build) -> None:
    _, told = one_by_one(build, OPENMP, "-fopenmp")
    others = sorted(set(told) - {MAIN})
    assert [role.partition("#")[2] for role in others] == ["1", "2"]
    assert len({routine_of(role) for role in others}) == 1
    assert others[0].startswith(("gomp_thread_start", "libgomp.so"))
    assert [thread["totals"]["steps"] for thread in told.values()] == [1000] * 3  # type: ignore[index]


def link(folder: Path, compiler: str, source: str, *flags: str) -> None:
    """Link a program of one source with the runtime, which is compiled with the same flags."""
    first, last = BOUNDS
    common = ["-O1", "-DUNPERTURBED_EXECUTABLE", f"-I{INCLUDE}", *flags]
    runtime = list(map(str, [first, *runtime_files(), last]))
    subprocess.run(["gcc", "-std=gnu11", *common, "-c", *runtime], cwd=folder, check=True)
    objects = [f"{file.stem}.o" for file in (*runtime_files(), last)]
    words = [compiler, *common, f"{first.stem}.o", source, *objects, "-o", "program", "-ldl", "-lrt", "-pthread"]
    subprocess.run(words, cwd=folder, check=True)


def steps_by_role(folder: Path) -> dict[str, int]:
    """Run a program; return the number of steps of each thread by its role."""
    records, done = run(folder / "program", counting(threads=True, each=True, software=2))
    assert (done.returncode, records.message) == (0, "")
    named = roles(read_births(folder / "record"), lambda at: routine_name(at.file, at.offset, at.symbol))
    traces = thread_traces(records, COLLECTED, {}, software=SOFTWARE, roles=named)
    return {trace.attributes["role"]: int(trace["steps"].sum()) for trace in traces.values()}


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_std_threads_have_the_role_of_what_they_call(tmp_path: Path) -> None:
    text = COUNTED_BY_THREAD.replace('#include "unperturbed.h"', 'extern "C" {\n#include "unperturbed.h"\n}')
    (tmp_path / "program.cc").write_text(text + STD_THREAD)
    link(tmp_path, "g++", "program.cc")
    told = steps_by_role(tmp_path)
    assert told == {MAIN: 0, "main::{lambda()$1}#1": 1, "void (*)(int), int#1": 7, "void (*)(int), int#2": 8}


@pytest.mark.parametrize("flags", ["-static", "-static-pie -fPIE"])
def test_a_static_program_has_roles_too(tmp_path: Path, flags: str) -> None:
    text = """
static void *member(void *unused) { COUNT(0); return unused; }
int main(void) {
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, member, 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    return 0; }
"""
    (tmp_path / "program.c").write_text(COUNTED_BY_THREAD + "#include <pthread.h>\n" + text)
    link(tmp_path, "gcc", "program.c", "-std=gnu11", "-DUNPERTURBED_STATIC", *flags.split())
    assert steps_by_role(tmp_path) == {MAIN: 0, "member#1": 1, "member#2": 1}


def test_threads_of_a_forked_child_are_its_own(build: Build) -> None:
    text = """
#include <sys/wait.h>
static void *member(void *n) { for (long i = 0; i < (long)n; i++) COUNT(0); return 0; }
static void two(long n) {
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, member, (void *)n);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
}
int main(void) {
    two(1000);
    pid_t child = fork();
    if (!child) { two(30); return 0; }
    waitpid(child, 0, 0);
    two(1000);
    return 0; }
"""
    program = build(HEAD + text)
    setup = counting(threads=True, each=True, software=2, children=True)
    records, done = run(program, setup)
    assert done.returncode == 0
    (file,) = further_record_files(program.parent / "record")
    own = {record: roles(read_births(record), lambda at: routine_name(at.file, at.offset, at.symbol))
           for record in (program.parent / "record", file)}  # fmt: skip
    assert set(own[file].values()) == {MAIN, "member#1", "member#2"}
    assert set(own[program.parent / "record"].values()) == {MAIN, *(f"member#{i}" for i in (1, 2, 3, 4))}
    traces = thread_traces(read_record_file(file, setup, grows=True), COLLECTED, {}, software=SOFTWARE, roles=own[file])
    assert [int(trace["steps"].sum()) for trace in traces.values()] == [0, 30, 30]
    assert (
        sum(int(trace["steps"].sum()) for trace in thread_traces(records, COLLECTED, {}, software=SOFTWARE).values())
        == 4000
    )


def test_a_role_that_cannot_be_written_is_marked(build: Build) -> None:
    program = build(HEAD + "static void *member(void *u) { return u; }\nint main(void) { pthread_t t; "
                    "pthread_create(&t, 0, member, 0); pthread_join(t, 0); return 0; }")  # fmt: skip
    (program.parent / "record.threads").mkdir()
    records, done = run(program, counting(threads=True, each=True, software=2))
    assert done.returncode == 0
    assert Mark.UNNAMED in records.marks
