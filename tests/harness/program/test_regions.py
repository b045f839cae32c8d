"""Counts within a function: exact in every kind of build, and however the function is left."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.harness.program.own_events import OwnEvents, own_events
from tests.harness.program.test_interval_ends import FLAGS
from unperturbed.collectors.records.file import Mark, Records
from unperturbed.collectors.sources import find_source
from unperturbed.collectors.sources.callgrind import Machine, valgrind_command
from unperturbed.collectors.sources.dumps import read_dumps
from unperturbed.instrument.binaries.places import patch, read_places
from unperturbed.instrument.finding.site_log import read_sites

MAIN = """
#include <stdio.h>
#include <stdlib.h>
static unsigned data[1 << 18];
__attribute__((noinline)) static void step(void) { __asm__ volatile(""); }
__attribute__((noinline)) static unsigned work(unsigned x, int n)
{
    for (int i = 0; i < n; i++)
        data[(x = x * 1664525u + 1013904223u) >> 14]++;
    return x;
}
__attribute__((noinline)) unsigned region(unsigned x, int n)
{
    if (n % 7 == 0)
        return x;
    x = work(x, n);
    if (x & 1)
        return x ^ 5;
    return x;
}
int main(int count, char **words)
{
    unsigned x = 1;
    int rounds = count > 1 ? atoi(words[1]) : 200;
    for (int i = 0; i < rounds; i++) {
        x = work(region(x, 100 + i % 30), 200);
        step();
    }
    printf("%u\\n", x);
    return 0;
}
"""
SOFTWARE = {"steps": {"enter": "step"}, "within": {"within": "region", "of": "PAPI_TOT_INS"}}
OVERHEAD = 38  # With -O2: 20 instructions of both calls, and what the function executes before and after them


def simulate(program: OwnEvents, *command: str, every: int = 50) -> tuple[Records, NDArray[np.int64]]:
    """Run a program under callgrind; return its records and the instructions in its region in each interval."""
    dumps = program.folder / "dumps"
    words = valgrind_command(Machine(), dumps)
    records, done = program.run(*command, every=every, source="simulated", prefix=words, regions={1: 0})
    assert done.returncode == 0, done.stderr
    return records, read_dumps(dumps.with_name(f"dumps.{records.owner}"), len(records.rows) - 1, region=1)["Ir"]


def inclusive(folder: Path, *command: str, function: str = "region") -> int:
    """Return the instructions between a function's entry and its return, as callgrind counts them itself."""
    words = ["valgrind", "-q", "--tool=callgrind", f"--toggle-collect={function}", "--callgrind-out-file=own"]
    environment = {"PATH": os.environ["PATH"]}
    subprocess.run([*words, *command], cwd=folder, env=environment, capture_output=True, check=True)
    told = re.findall(r"^totals: (\d+)", (folder / "own").read_text(), re.MULTILINE)
    return int(told[-1])


def test_the_counts_are_what_callgrind_counts_in_the_function(tmp_path: Path) -> None:
    program = own_events(tmp_path, {"main.c": MAIN}, software=SOFTWARE)
    program.compile("-O2", "main.c", "-o", "program")
    for rounds in (100, 230):
        records, counts = simulate(program, "./program", str(rounds))
        assert records.state == "finished", records.message
        assert not records.marks & (Mark.LEFT | Mark.CROSSINGS)
        assert inclusive(tmp_path, "./program", str(rounds)) - counts.sum() == OVERHEAD * rounds
        assert len(counts) == -(-rounds // 50) + (rounds % 50 == 0)
        # `region` does the same in rounds 0 to 29, 30 to 59, …
        first = inclusive(tmp_path, "./program", "50") - OVERHEAD * 50
        assert counts[0] == first


def test_an_interval_may_end_within_the_function(tmp_path: Path) -> None:
    text = MAIN.replace("x = work(x, n);", "x = work(x, n); step(); x = work(x, n);").replace("        step();\n", "")
    program = own_events(tmp_path, {"main.c": text}, software=SOFTWARE)
    program.compile("-O2", "main.c", "-o", "program")
    records, counts = simulate(program, "./program", "100", every=1)
    assert records.state == "finished"
    whole = read_dumps(tmp_path / f"dumps.{records.owner}", len(records.rows) - 1)["Ir"]
    assert (counts <= whole).all()
    assert (counts[1:-1] > 0).all()
    # The same events without those interval ends: each costs 6 instructions of the program, and 3 at each event.
    _, alone = simulate(program, "./program", "100", every=1_000_000)
    assert counts.sum() - alone.sum() == 6 * (len(records.rows) - 2)


QUICK = {"O2-gcc", "O0-clang", "pic-gcc"}


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        pytest.param(compiler, flags, id=(name := f"{how}-{compiler}"), marks=() if name in QUICK else pytest.mark.long)
        for how, flags in FLAGS.items()
        for compiler in ("gcc", "clang")
    ],
)
def test_every_build_counts_faults_of_the_function_alone(tmp_path: Path, compiler: str, flags: list[str]) -> None:
    program = own_events(tmp_path, {"main.c": FAULTS}, compiler=compiler, software=FAULTING)
    if compiler == "clang" and "-flto" in flags:
        flags = [*flags, "-fuse-ld=lld"]
    program.compile(*flags, "main.c", "-o", "program")
    records, faults = count_faults(program)
    assert records.state == "finished", records.message
    assert faults.sum() == 60
    assert faults.tolist() == [4] * 15 + [0]
    alone = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert alone.stdout == "90\n"  # without a record file


@pytest.mark.parametrize("form", ["sham", "patchable"])
def test_idle_places_do_not_switch_until_they_are_patched(tmp_path: Path, form: str) -> None:
    program = own_events(tmp_path, {"main.c": FAULTS}, software=FAULTING, form=form)
    program.compile("-O2", "main.c", "-o", "program")
    records, faults = count_faults(program)
    assert records.state == "finished"
    assert not faults.any()
    if form == "sham":
        return
    places = read_places(tmp_path / "program")
    assert {place.metric for place in places} == {1}
    patch(tmp_path / "program", places, [1])
    assert count_faults(program)[1].tolist() == [4] * 15 + [0]
    patch(tmp_path / "program", places, [])
    assert not count_faults(program)[1].any()


INLINED = """
#include <stdio.h>
static unsigned state = 1;
unsigned region(void) { state = state * 1664525u + 1013904223u; return state >> 8; }
__attribute__((noinline)) unsigned fill(int n) { unsigned s = 0; for (int i = 0; i < n; i++) s += region(); return s; }
int main(void) { printf("%u\\n", fill(30)); return 0; }
"""


def test_a_place_may_be_a_call_by_a_register(tmp_path: Path) -> None:
    """In a loop, the compiler keeps the address of the pointer in a register: the instruction has 2 bytes."""
    program = own_events(tmp_path, {"main.c": INLINED}, software={"within": FAULTING["within"]}, form="patchable")
    program.compile("-O2", "main.c", "-o", "program")
    places = read_places(tmp_path / "program")
    assert min(len(place.idle) for place in places) == 2
    untouched = (tmp_path / "program").read_bytes()
    patch(tmp_path / "program", places, [0])
    assert (tmp_path / "program").read_bytes() != untouched
    result = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    patch(tmp_path / "program", places, [])
    assert (tmp_path / "program").read_bytes() == untouched


FAULTS = """
#include <stdio.h>
#include <sys/mman.h>
static char *pages;
static int step(int x) { return x + 1; }
static int touch(int count) { for (int i = 0; i < count; i++) { *pages = 1; pages += 4096; } return count; }
static int region(int i) { volatile int v[8]; v[i & 7] = touch(1 + i % 2 * 2); if (i % 3) return v[i & 7]; return 1; }
int main(void)
{
    int sum = 0;
    pages = mmap(0, 4096 * 300, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, 4096 * 300, MADV_NOHUGEPAGE);
    for (int i = 0; i < 30; i++) {
        region(i);
        touch(2);
        sum = step(sum) + 2;
    }
    printf("%d\\n", sum);
    return 0;
}
"""
"""30 calls of `region` with 1 or 3 page faults in turn, and as many with 2 outside of it."""
FAULTING = {"steps": {"enter": "step"}, "within": {"within": "region", "of": "perf::minor-faults"}}


def count_faults(program: OwnEvents, *command: str, every: int = 2, **how: object) -> tuple[Records, NDArray[np.int64]]:
    """Run a program natively; return its records, and the page faults in its region in each interval."""
    event = find_source("perf_event").event("perf::minor-faults")
    records, done = program.run(
        *(command or ("./program",)), every=every, source="perf_event", events=(event,), regions={1: 0}, **how
    )
    assert done.returncode == 0, done.stderr
    rows = records.rows[records.rows["thread"] == 0]
    return records, np.diff(rows["software"][:, 1])


LEAVINGS = {
    "recursion": ("return i ? touch(1) + region(i - 1) : 0;", 435, 0),
    "goto": ("if (i & 1) goto end; touch(2); end: return i;", 30, 0),
    "nothing": ("touch(1);", 30, 0),
    "exit": ("if (i == 20) { touch(3); exit(0); } return touch(1);", 23, 0),
    "longjmp": ("touch(1); if (i == 20) longjmp(place, 1); return i;", None, Mark.LEFT),
    "longjmp within": ("touch(1); if (i == 20 && !setjmp(other)) longjmp(other, 1); return i;", 30, 0),
}


@pytest.mark.parametrize(("body", "faults", "mark"), LEAVINGS.values(), ids=LEAVINGS)
def test_however_the_function_is_left(tmp_path: Path, body: str, faults: int | None, mark: int) -> None:
    text = re.sub(
        r"static int region\(int i\) .*", f"__attribute__((noinline)) static int region(int i) {{ {body} }}", FAULTS
    )
    text = text.replace("#include <sys/mman.h>", "#include <setjmp.h>\n#include <stdlib.h>\n#include <sys/mman.h>")
    text = text.replace("static char *pages;", "jmp_buf place, other; static char *pages;").replace("* 300", "* 600")
    text = text.replace("        region(i);", "        if (!setjmp(place)) region(i);")
    program = own_events(tmp_path, {"main.c": text}, software=FAULTING)
    program.compile("-O2", "-w", "main.c", "-o", "program")
    records, counts = count_faults(program)
    assert records.marks & Mark.LEFT == mark
    if faults is not None:  # exit(3) itself may touch pages
        assert faults <= counts.sum() < faults + (10 if "exit" in body else 1)


JUMPING = """
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static jmp_buf place, inner;
static int step(int x) { return x + 1; }
#ifdef INLINED
__attribute__((always_inline)) static inline void region(int i) { if (i == 3) LONGJMP(place, 1); }
#else
__attribute__((noinline)) static void region(int i) { if (!setjmp(inner)) LONGJMP(i == 3 ? place : inner, 1); }
#endif
__attribute__((noinline)) static int deeper(int x)
{
    char room[1000];
    memset(room, x, sizeof room);
    for (int i = 0; i < 30; i++)
        x = step(x + room[i]);
    puts(room[500] == 4 ? "4" : "no");
    exit(0);
}
int main(int argc, char **argv)
{
    for (volatile int i = 0; i < 2 + argc; i++)
        if (!SETJMP)
            region(i);
    return argv[0][0] && deeper(4);
}
"""
"""Three calls that jump within `region`; with an argument, one that leaves it. Then deeper calls to the end."""
JUMPS = {
    "plain": ("-O2",),
    "at once": ("-O0",),
    "own names": ("-O2", "-DLONGJMP=siglongjmp", "-DSETJMP=sigsetjmp(place, 1)"),
    "checked": ("-O2", "-D_FORTIFY_SOURCE=2"),
    "static": ("-O2", "-static"),
    "inlined": ("-O2", "-DINLINED"),
}


@pytest.mark.parametrize("flags", JUMPS.values(), ids=JUMPS)
def test_a_jump_is_seen_where_deeper_calls_follow_it(tmp_path: Path, flags: tuple[str, ...]) -> None:
    program = own_events(tmp_path, {"main.c": JUMPING}, software=FAULTING)
    defined = "".join(flags)
    if "LONGJMP" not in defined:
        flags += ("-DLONGJMP=longjmp", "-DSETJMP=setjmp(place)")
    program.compile(*flags, "-w", "main.c", "-o", "program")
    event = find_source("perf_event").event("perf::minor-faults")
    for words, mark in ((), 0), (("leave",), Mark.LEFT):
        records, done = program.run("./program", *words, every=2, source="perf_event", events=(event,), regions={1: 0})
        assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
        assert records.marks & Mark.LEFT == mark


def test_exceptions_leave_the_function(tmp_path: Path) -> None:
    text = FAULTS.replace("if (i % 3) return v[i & 7];", "if (i % 3) throw i;").replace(
        "        region(i);", "        try { region(i); } catch (int) { touch(1); }"
    )
    text = text.replace("pages = mmap", "pages = (char *)mmap")
    program = own_events(tmp_path, {"main.cc": text}, software=FAULTING)
    done = subprocess.run(
        [program.chain.cxx, "-O2", "main.cc", "-o", "program"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "no counters" not in done.stderr
    records, faults = count_faults(program)
    assert not records.marks & Mark.LEFT
    # The first exception touches pages of the library's data, too.
    assert faults[1:].tolist() == [4] * 14 + [0]


def test_threads_add_up(tmp_path: Path) -> None:
    text = FAULTS.replace("static char *pages;", "static __thread char *pages;").replace(
        "int main(void)", "static void *one(void *given)"
    )
    text = text.replace("    printf", "    if (given)\n        return given;\n    printf").replace(
        "return 0;", "return given;"
    )
    text += """
#include <pthread.h>
int main(void)
{
    pthread_t other[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&other[i], 0, one, other);
    for (int i = 0; i < 3; i++)
        pthread_join(other[i], 0);
    one(0);
    return 0;
}
"""
    program = own_events(tmp_path, {"main.c": text}, software=FAULTING)
    program.compile("-O2", "-pthread", "main.c", "-o", "program")
    _, faults = count_faults(program, threads=True)
    assert faults.sum() == 4 * 60


def test_ticks_within_the_reading_wait_for_its_end(tmp_path: Path) -> None:
    """A timer of 1 ms, in a program that does hardly anything but enter and leave its region."""
    text = MAIN.replace("100 + i % 30), 200)", "7), 1)")
    event = find_source("perf_event").event("perf::task-clock")
    program = own_events(tmp_path, {"main.c": text}, software=SOFTWARE)
    program.compile("-O2", "main.c", "-o", "program")
    records, done = program.run(
        "./program", "300000", every=1_000_000, clock="monotonic", source="perf_event", events=(event,), regions={1: 0}
    )
    assert done.returncode == 0, done.stderr
    assert records.state == "finished"
    rows = records.rows
    assert len(rows) > 50
    within, whole = np.diff(rows["software"][:, 1]), np.diff(rows["hardware"][:, 0])
    assert (within >= 0).all() and (within <= whole).all() and within.sum() > whole.sum() / 10
    seconds = (rows["monotonic_ns"][-1] - rows["monotonic_ns"][0]) / 1e9
    assert len(rows) + records.nested + rows["overruns"].sum() > 900 * seconds  # no tick is lost


def test_lambdas_and_constexpr_functions_are_named(tmp_path: Path) -> None:
    text = "constexpr int region(int x) { return x + 1; }\nint main() { static_assert(region(1) == 2); return 0; }\n"
    program = own_events(tmp_path, {"main.cc": text}, software=FAULTING)
    subprocess.run([program.chain.cxx, "-std=c++17", "main.cc", "-o", "program"], cwd=tmp_path, check=True)
    (place,) = read_sites(tmp_path / "toolchain").uncounted["within"]
    assert place.text.startswith("the function is constexpr, or a lambda that may be")


def test_a_program_without_the_runtime_runs_as_usual(tmp_path: Path) -> None:
    library = "static int step(int x) { return x; }\nint region(int x) { return step(x) + 1; }\n"
    program = own_events(tmp_path, {"region.c": library}, software=FAULTING)
    program.compile("-O2", "-fPIC", "-shared", "region.c", "-o", "libregion.so")
    (tmp_path / "plain.c").write_text("int region(int); int main(void) { return region(41); }\n")
    words = ["gcc", "plain.c", "-o", "plain", "-L.", "-lregion", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(words, cwd=tmp_path, check=True)
    assert subprocess.run(["./plain"], cwd=tmp_path, check=False).returncode == 42


def test_code_in_the_intel_syntax_of_clang_is_refused(tmp_path: Path) -> None:
    program = own_events(tmp_path, {"main.c": FAULTS}, compiler="clang", software={"within": FAULTING["within"]})
    words = [program.chain.cc, "-O2", "-masm=intel", "-c", "main.c"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "metrics that count `within` a function need code for x86-64, and with clang AT&T" in done.stderr
