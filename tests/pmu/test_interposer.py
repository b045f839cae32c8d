"""Calls of library functions, counted on AArch64: every way of passing values, colliding threads, real programs.

Each is counted on a processor of the first architecture (Armv8.0), and on one that has atomic additions and refuses
jumps to places that are not marked for them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.instrument.binaries.calls import ALLOCATED, ALLOCATING, CALLED, COLLIDING, COUNTER, LIBRARY, TORTURE
from tests.pmu.architectures import NEWEST_ARM64
from tests.pmu.cases import COMPILER, Case, Result, compile_text, no_servers, run_cases
from tests.pmu.machine import Machine
from tests.pmu.matrix import HARDWARE, SAMPLERS
from tests.pmu.packages import fetch_guest, fetch_tools
from unperturbed.collectors.records.file import Setup
from unperturbed.collectors.runtime import build_interposer, build_observer, build_preload
from unperturbed.instrument.binaries.interposition import Interposed, interposer_source, is_bound_within

PROCESSORS = {
    "cortex-a57": COMPILER,
    NEWEST_ARM64: f"{COMPILER} -march=armv8.5-a -mbranch-protection=standard -Wl,-z,force-bti -nostartfiles",
}
"""The emulated processors, and how libraries are compiled for them. Debian 12's start files have no landing places."""

NAMES = [*CALLED, "keep", "twice", "call_back", "_setjmp", "vfork", "snprintf", "fwrite"]
POKES, CALLS, REPEATS = 100_000, 50_000, 3
OWN_CALLS = ("read", "clock_gettime", "open", "strcmp", "dlerror", "dladdr", "mmap", "sysconf", "getrusage")

READING = r"""
#include <fcntl.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long work;
int main(void) {
    char c;
    struct timespec t;
    int fd = open("/dev/zero", O_RDONLY);
    for (int i = 0; i < 70; i++) {
        if (read(fd, &c, 1) != 1) return 1;
        clock_gettime(CLOCK_MONOTONIC, &t);
        for (int n = 0; n < 60000; n++) work += (unsigned long)n;
    }
    return 0;
}
"""

CALLING = r"""
#include <stdlib.h>
long nothing(long a);
int main(int count, char **argument) {
    long sum = 0;
    for (long left = count > 1 ? atol(argument[1]) : 0; left; left--) sum += nothing(left);
    return sum == 1;
}
"""

OPENING = r"""
#include <dlfcn.h>
int main(void) {
    void *library = dlopen("/lib/libshallow.so", RTLD_NOW | RTLD_LOCAL);
    int (*f)(int);
    *(void **)&f = library ? dlsym(library, "shallow") : 0;
    return f ? f(1) + f(2) + !!dlerror() : 1;
}
"""

GDB = "gdb -batch -ex 'print nosuchname' -ex 'print 6*7' /bin/calling"
"""A program in C++ that throws and catches an exception for the first of these."""
GDB_CALLS = ("malloc", "free", "__cxa_throw", "_Unwind_RaiseException")


@dataclass
class Cases:
    """What shall run in a machine, and the files that it needs there."""

    files: dict[str, Path]
    compiler: str
    cases: dict[str, Case] = field(default_factory=dict)

    def add(
        self, name: str, command: str, counted: Mapping[int, Interposed], sampler: str = "inside", **more: Any
    ) -> None:
        """Add a command whose calls are counted."""
        library = build_interposer(self.compiler, interposer_source(counted))
        self.files[f"/{library.name}"] = library
        program = Path(shlex.split(command)[0]).name
        own: dict[str, Any] = {"sampler": sampler, "program": program, "software": len(counted), "capacity": 4096}
        setup = replace(Setup("none", 1_000_000, "monotonic", **own), **more)
        preloaded = f"/preload.so:/{library.name}"
        environment = {"inside": "LD_PRELOAD", "outside": "UNPERTURBED_PRELOAD"}[sampler]
        observer = "observer $RECORD " if sampler == "outside" else ""
        self.cases[name] = Case(f"{environment}={preloaded} {observer}{command}", setup)


def plain(*names: str) -> dict[int, Interposed]:
    return dict(enumerate(map(Interposed, names)))


def compile_guest(folder: Path) -> dict[str, Path]:
    """Return the programs and libraries, by path in the guest."""
    files: dict[str, Path] = {}
    for name, text in {
        "libmany.so": LIBRARY,
        "libpoke.so": "void poke(void) {}",
        "libnothing.so": "long nothing(long a) { return a; }",
        "libdeep.so": "int deep(int n) { return n * 7; }",
        "hand.so": COUNTER.replace("NAME", '"malloc"'),
    }.items():
        files[f"/lib/{name}"] = compile_text(folder, text, name)
    shallow = "int deep(int); int shallow(int n) { return deep(n); }"
    files["/lib/libshallow.so"] = compile_text(folder, shallow, "libshallow.so", str(folder / "libdeep.so"))
    for name, text, flags in (
        ("torture", TORTURE, [str(folder / "libmany.so")]),
        ("early", TORTURE, [str(folder / "libmany.so"), "-DEARLY"]),
        ("allocating", ALLOCATING, ["-fno-builtin", "-DTURNS=2000"]),
        ("colliding", COLLIDING, [str(folder / "libpoke.so"), "-pthread"]),
        ("reading", READING, []),
        ("calling", CALLING, [str(folder / "libnothing.so")]),
        ("opening", OPENING, []),
    ):
        files[f"/bin/{name}"] = compile_text(folder, text, name, *flags)
    return files


def cases_of(files: dict[str, Path], compiler: str) -> Cases:
    run = Cases({**files, "/bin/observer": build_observer(COMPILER), "/preload.so": build_preload(COMPILER)}, compiler)
    for program in ("torture", "early"):
        run.cases[f"{program}-alone"] = Case(f"/bin/{program}")
        run.add(program, f"/bin/{program}", plain(*NAMES))
    for sampler in SAMPLERS:
        run.add(f"allocating-{sampler}", "/bin/allocating", plain(*ALLOCATED), sampler)
        run.add(f"reading-{sampler}", "/bin/reading", plain(*OWN_CALLS), sampler)
        run.add(f"opening-{sampler}", "/bin/opening", plain("deep"), sampler)
    exact = {0: Interposed("poke", exact=True), 1: Interposed("poke"), 2: Interposed("pthread_create")}
    run.add("colliding", f"/bin/colliding {POKES}", exact)
    counting: dict[str, Any] = {"source": "perf_event", "events": HARDWARE, "interval_ns": 10_000_000_000}
    for name, counted in {
        "nothing": {},
        "plain": plain("nothing"),
        "exact": {0: Interposed("nothing", exact=True)},
        "twice": plain("nothing", "nothing"),
    }.items():
        for case, calls in ((f"cost-{name}", CALLS), (f"cost-{name}-0", 0)):
            run.add(case, f"/bin/calling {calls}", counted or plain("atol"), **counting)
            run.cases |= {f"{case}-again{number}": run.cases[case] for number in range(1, REPEATS)}
    run.cases["gdb-alone"] = Case(f"COUNT_FILE=/tmp/own LD_PRELOAD=/lib/hand.so {GDB}; cat /tmp/own")
    run.add("gdb", GDB, plain(*GDB_CALLS))
    unmarked = interposer_source(plain("nothing")).replace('#define LANDING "hint #34\\n"', '#define LANDING "nop\\n"')
    library = build_interposer(compiler, unmarked)
    run.files["/unmarked.so"] = library
    run.cases["unmarked"] = Case("LD_PRELOAD=/unmarked.so /bin/calling 3")
    return run


@pytest.fixture(scope="module", params=PROCESSORS)
def processor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def results(processor: str, machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("interposer")
    run = cases_of(compile_guest(folder), PROCESSORS[processor])
    run.files |= {**fetch_tools(), "/lib/aarch64-linux-gnu/libdebuginfod.so.1": no_servers(folder)}
    records = folder / "records"
    return run_cases(machine, run.files, run.cases, records, timeout_s=120, cpu=processor, processors=2)


def counts(result: Result) -> list[int]:
    assert (result.sampled.state, result.sampled.message) == ("finished", ""), result.stderr
    return [int(value) for value in result.sampled.rows["software"][-1]]


@pytest.mark.parametrize("program", ["torture", "early"])
def test_whatever_is_passed_and_returned_passes_by(results: dict[str, Result], program: str) -> None:
    alone, counted = results[f"{program}-alone"], results[program]
    assert "times 3, callback 42\nvfork 9\n" in alone.stdout
    assert (counted.stdout, counted.stderr, counted.status) == (alone.stdout, "", 0)
    turns = 1 + (program == "early")
    expected = {name: count * turns for name, count in {**CALLED, "keep": 1}.items()}
    expected |= {"twice": 3, "call_back": 1, "_setjmp": 1, "vfork": 1, "fwrite": 1, "snprintf": 11 * turns + 2}
    assert dict(zip(NAMES, counts(counted), strict=True)) == expected


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_unbuilt_program_is_counted_as_it_runs(results: dict[str, Result], sampler: str) -> None:
    found = results[f"allocating-{sampler}"]
    assert (found.status, found.stdout) == (3, "1 done\n")
    assert dict(zip(ALLOCATED, counts(found), strict=True)) == ALLOCATED


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_samplers_own_calls_are_not_counted(results: dict[str, Result], sampler: str) -> None:
    expected = dict.fromkeys(OWN_CALLS, 0) | {"read": 70, "clock_gettime": 70, "open": 1}
    assert dict(zip(OWN_CALLS, counts(results[f"reading-{sampler}"]), strict=True)) == expected


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_calls_of_libraries_opened_for_themselves_alone(results: dict[str, Result], sampler: str) -> None:
    found = results[f"opening-{sampler}"]
    assert found.status == 21
    assert counts(found) == [2]


def test_exact_counts_of_threads_that_collide(results: dict[str, Result]) -> None:
    exact, inexact, started = counts(results["colliding"])
    assert (exact, started) == (2 * POKES, 2)
    assert POKES <= inexact <= exact


def test_a_program_of_the_distribution_that_throws(results: dict[str, Result]) -> None:
    alone, counted = results["gdb-alone"], results["gdb"]
    *printed, own = alone.stdout.splitlines()
    assert (counted.stdout.splitlines(), counted.stderr) == (printed, alone.stderr)
    assert "$1 = 42" in printed
    assert "No symbol table is loaded" in alone.stderr
    allocated, freed, thrown, raised = counts(counted)
    assert allocated == int(own) > 1000
    assert freed > 500
    assert 0 < thrown <= raised


def test_what_the_c_library_calls_within_itself_is_known_from_its_file() -> None:
    """The relocations of this processor have numbers of their own; the counts above are of such calls, too."""
    libc = fetch_guest() / "tree/lib/aarch64-linux-gnu/libc.so.6"
    assert {name: is_bound_within(libc, name) for name in ("malloc", "free", "read", "fwrite")} == {
        "malloc": False,
        "free": False,
        "read": True,
        "fwrite": True,
    }


def instructions_of_a_call(results: dict[str, Result], name: str) -> float:
    """Return what a call executes: of the repeated runs the least, as whatever else happens only adds."""

    def least(case: str) -> int:
        repeats = [case, *(f"{case}-again{number}" for number in range(1, REPEATS))]
        ends = [results[repeat].sampled.rows["hardware"] for repeat in repeats]
        return min(int(rows[-1][1]) - int(rows[0][1]) for rows in ends)

    return (least(f"cost-{name}") - least(f"cost-{name}-0")) / CALLS


def test_what_a_call_costs(results: dict[str, Result], processor: str) -> None:
    """One instruction more or less would show: the loop calls the function so many times and does nothing else."""

    nothing = instructions_of_a_call(results, "nothing")
    added = {name: instructions_of_a_call(results, name) - nothing for name in ("plain", "exact", "twice")}
    print(f"{processor}: instructions that counting adds to a call: {added}")
    assert counts(results["cost-plain"]) == counts(results["cost-exact"]) == [CALLS]
    assert counts(results["cost-twice"]) == [CALLS, CALLS]
    expected = {"plain": 15, "exact": 14 if processor == NEWEST_ARM64 else 16, "twice": 20}
    assert added == pytest.approx(expected, abs=0.05)


def test_a_processor_that_wants_landing_places_finds_them(results: dict[str, Result], processor: str) -> None:
    """Without them the same library is killed there, so the processor does look."""
    assert results["unmarked"].status == (132 if processor == NEWEST_ARM64 else 0)
