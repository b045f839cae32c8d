"""Probes of the kernel in real programs, sampled inside and outside.

Their counts are the programs' own, and nobody else meets them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collectors.runtime.programs import BUSY, COUNTED, INCLUDE, sample
from unperturbed.collectors import kernel_probes
from unperturbed.collectors.kernel_probes import measure_hit_cost, probe_registry, register_probes, remove_probes
from unperturbed.collectors.records.assemble import assemble, milestone
from unperturbed.collectors.records.file import (
    HEADER,
    Mark,
    Probe,
    Records,
    Setup,
    create_record_file,
    read_record_file,
)
from unperturbed.collectors.runtime import BOUNDS, build_observer, build_preload, runtime_files
from unperturbed.collectors.sources import Event, Pass
from unperturbed.errors import HostError


def _why_not() -> str:
    try:
        probe_registry()
    except HostError as error:
        return str(error)
    return ""


pytestmark = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "probes work")

Build = Callable[..., Path]
SIDES = ("inside", "outside")
HIT = """
static _Atomic unsigned long hits;
static __attribute__((noinline, noclone)) void hit(void) { __asm__ volatile("" ::: "memory"); }
#define HIT() do { hits++; hit(); } while (0)
"""
"""A function that a probe counts, and the program's own count of it."""


@dataclass(frozen=True)
class At:
    """A place of a probe, as `instrument` finds them."""

    number: int
    name: str
    path: Path
    offset: int
    semaphore: int = 0


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str]]:
    """Return what is linked before and behind each program, compiled once."""
    folder = tmp_path_factory.mktemp("runtime")
    sources = [BOUNDS[0], *runtime_files(), BOUNDS[1]]
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-DUNPERTURBED_EXECUTABLE", "-c", *map(str, sources)], cwd=folder, check=True
    )
    objects = [str(folder / f"{source.stem}.o") for source in sources]
    return objects[:1], objects[1:]


@pytest.fixture
def build(tmp_path: Path, runtime: tuple[list[str], list[str]]) -> Build:
    """Return a function that compiles a program with the runtime in it."""

    def make(text: str, *flags: str, folder: Path = tmp_path) -> Path:
        source = folder / "program.c"
        source.write_text(BUSY + HIT + text)
        before, behind = runtime
        command = ["gcc", "-O1", f"-I{INCLUDE}", *before, str(source), *behind, *flags]
        subprocess.run([*command, "-o", str(folder / "program"), "-ldl", "-lrt", "-pthread"], check=True)
        return folder / "program"

    return make


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    remove_probes()


def function(number: int, path: Path, name: str) -> At:
    """Find a function of a binary by binutils: another way than the instrumentation's."""
    table = subprocess.run(["readelf", "-sW", str(path)], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"([0-9a-f]{{16}}) +\d+ FUNC .* {name}(?:@\S+)?$", table, re.MULTILINE)
    assert found, f"{name} in {path}"
    return At(number, f"{path.name}:{name}", path, file_offset(path, int(found[1], 16)))


def file_offset(path: Path, address: int) -> int:
    segments = subprocess.run(["readelf", "-lW", str(path)], capture_output=True, text=True, check=True).stdout
    for offset, begin, size in re.findall(r"LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)", segments):
        if int(begin, 16) <= address < int(begin, 16) + int(size, 16):
            return address - int(begin, 16) + int(offset, 16)
    raise AssertionError(path)


def setup(
    side: str, probes: Sequence[Probe], interval_ns: int = 1_000_000, *, source: str = "none", **kwargs: object
) -> Setup:
    software = {"software": 1 + max(probe.metric for probe in probes)} | kwargs
    return Setup(source, interval_ns, "monotonic", sampler=side, probes=tuple(probes), **software)  # type: ignore[arg-type]


def counts(records: Records) -> list[int]:
    """Return the last values of the main thread's records."""
    rows = records.rows[records.rows["thread"] == 0]
    assert records.state == "finished", records.message
    assert (np.diff(rows["software"], axis=0) >= 0).all()
    return [int(value) for value in rows["software"][-1]]


@pytest.mark.parametrize("side", SIDES)
def test_hits_of_all_threads_are_the_programs_own_count(build: Build, tmp_path: Path, side: str) -> None:
    text = """
#include <pthread.h>
#include <stdio.h>
static void *work_on(void *n) { for (long i = 0; i < (long)n; i++) { HIT(); if (i % 20 == 0) busy(100000); } return 0; }
int main(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work_on, (void *)(700L + i));
    work_on((void *)500L);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    pthread_create(&t[0], 0, work_on, (void *)300L);
    pthread_join(t[0], 0);
    printf("%lu", (unsigned long)hits);
    return 0; }
"""
    program = build(text, "-g", "-pthread")
    records, done = sample(tmp_path, [str(program)], setup(side, register_probes([function(0, program, "hit")])))
    assert counts(records) == [int(done.stdout)]
    assert int(done.stdout) == 700 + 701 + 702 + 500 + 300
    assert len(np.unique(records.rows["software"][:, 0])) > 5


@pytest.mark.parametrize("side", SIDES)
def test_a_sampler_for_each_thread_reads_probes_in_the_main_threads_records_alone(
    build: Build, tmp_path: Path, side: str
) -> None:
    text = """
#include <pthread.h>
static void *work_on(void *n) { (void)n; for (int i = 0; i < 200; i++) { HIT(); busy(100000); } return 0; }
int main(void) { pthread_t t; pthread_create(&t, 0, work_on, 0); work_on(0); pthread_join(t, 0); return 0; }
"""
    program = build(text, "-pthread")
    probes = register_probes([function(0, program, "hit")])
    records, _ = sample(tmp_path, [str(program)], setup(side, probes, threads=side == "inside"))
    assert counts(records) == [400]
    others = records.rows[records.rows["thread"] != 0]
    assert (len(others) > 5) == (side == "inside")
    assert not others["software"].any()


@pytest.mark.parametrize("side", SIDES)
def test_several_places_of_a_metric_are_added_and_stand_beside_compiled_counters(
    build: Build, tmp_path: Path, side: str
) -> None:
    text = (
        COUNTED
        + """
static __attribute__((noinline)) void more(int n) { __asm__ volatile("" :: "r"(n)); }
int main(void) { for (int i = 0; i < 100; i++) { HIT(); more(i); more(i); COUNT(0); COUNT(1); busy(100000); }
    return 0; }
"""
    )
    program = build(text)
    both = [function(2, program, "hit"), function(2, program, "more"), function(3, program, "more")]
    records, _ = sample(tmp_path, [str(program)], setup(side, register_probes(both)))
    assert counts(records) == [100, 100, 300, 200]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("how", [{}, {"reset": True}, {"multiplex": True}, {"os_metrics": ("user_time_us",)}])
def test_hardware_events_and_other_counters_are_read_as_without_probes(
    build: Build, tmp_path: Path, side: str, how: dict[str, Any]
) -> None:
    text = """
#include <sys/mman.h>
int main(void) {
    for (int i = 0; i < 400; i++) {
        char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p[0] = 1; munmap(p, 4096); HIT(); busy(100000); }
    return 0; }
"""
    program = build(text)
    probes = register_probes([function(0, program, "hit")])
    events = (Event("perf::page-faults", 1, 2, kernel=True), Event("perf::task-clock", 1, 1, kernel=True))
    records, _ = sample(tmp_path, [str(program)], setup(side, probes, source="perf_event", events=events, **how))
    assert counts(records) == [400]
    faults = records.rows["hardware"][:, 0]
    assert 400 <= int(faults[-1] - faults[0]) < 700


@pytest.mark.parametrize("side", SIDES)
def test_a_function_of_a_library(build: Build, tmp_path: Path, side: str) -> None:
    (tmp_path / "library.c").write_text("int twice(int x) { return 2 * x; }\n")
    library = tmp_path / "libtwice.so"
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", str(tmp_path / "library.c"), "-o", str(library)], check=True)
    text = (
        "int twice(int); int main(void) { int s = 0; for (int i = 0; i < 321; i++) { s += twice(i); busy(100000); "
        "} return s == 1; }"
    )
    program = build(text, str(library), f"-Wl,-rpath,{tmp_path}")
    records, _ = sample(tmp_path, [str(program)], setup(side, register_probes([function(0, library, "twice")])))
    assert counts(records) == [321]


COUNT_CALLS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static long calls;
int lzma_code(void *stream, int action)
{
    static int (*next)(void *, int);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "lzma_code");
    calls++;
    return next(stream, action);
}
__attribute__((destructor)) static void tell(void) { FILE *f = fopen(COUNT_FILE, "w"); fprintf(f, "%ld", calls);
    fclose(f); }
"""


@pytest.mark.parametrize("side", SIDES)
def test_a_library_of_the_system_in_a_program_of_the_system(tmp_path: Path, side: str) -> None:
    """`xz` as it is installed: no source, no build. A library in between counts its calls in another way."""
    xz, library = shutil.which("xz"), Path("/usr/lib/x86_64-linux-gnu/liblzma.so.5")
    if not xz or not library.exists():
        pytest.skip("no xz with a shared liblzma here")
    (tmp_path / "between.c").write_text(COUNT_CALLS)
    between = tmp_path / "between.so"
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        f'-DCOUNT_FILE="{tmp_path}/calls"',
        str(tmp_path / "between.c"),
        "-o",
        str(between),
    ]
    subprocess.run([*command, "-ldl"], check=True)
    (tmp_path / "text").write_bytes(b"".join(b"%d squared is %d\n" % (n, n * n) for n in range(60_000)))
    chosen = setup(
        side, register_probes([function(0, library.resolve(), "lzma_code")]), program="" if side == "outside" else "xz"
    )
    preload = [str(between), *([str(build_preload("gcc"))] if side == "inside" else [])]
    command = ["env", f"LD_PRELOAD={' '.join(preload)}", xz, "--keep", "-3", str(tmp_path / "text")]
    records, done = sample(tmp_path, command, chosen)
    assert done.returncode == 0
    called = int((tmp_path / "calls").read_text())
    assert called > 10
    assert counts(records) == [called]


STATIC_PROBES = """
#include <stdio.h>
#ifdef SEMAPHORE
#define _SDT_HAS_SEMAPHORES 1
__extension__ unsigned short shop_sold_semaphore __attribute__((section(".probes"), used));
    /* the kernel raises it while somebody counts */
#define WANTED (*(volatile unsigned short *)&shop_sold_semaphore)
#else
#define WANTED 1
#endif
#include <sys/sdt.h>
static long sold;
int main(void) {
    for (int i = 0; i < 250; i++) {
        if (WANTED) { sold++; DTRACE_PROBE1(shop, sold, i); }
        busy(100000);
    }
    printf("%ld", sold);
    return 0; }
"""


def static_probe(number: int, path: Path, name: str) -> list[At]:
    notes = subprocess.run(["readelf", "-nW", str(path)], capture_output=True, text=True, check=True).stdout
    pattern = rf"Provider: (\w+)\s+Name: {name}\s+Location: (0x\w+), Base: 0x\w+, Semaphore: (0x\w+)"
    found = [(int(at, 16), int(semaphore, 16)) for _, at, semaphore in re.findall(pattern, notes)]
    assert found, f"{name} in {path}"
    return [At(number, name, path, file_offset(path, at), file_offset(path, s) if s else 0) for at, s in found]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("flags", [[], ["-DSEMAPHORE"]])
def test_static_probes_of_an_own_program(build: Build, tmp_path: Path, side: str, flags: list[str]) -> None:
    if not Path("/usr/include/x86_64-linux-gnu/sys/sdt.h").exists() and not Path("/usr/include/sys/sdt.h").exists():
        pytest.skip("no <sys/sdt.h> here (on Debian: apt-get install systemtap-sdt-dev)")
    program = build(STATIC_PROBES, *flags)
    places = static_probe(0, program, "sold")
    assert bool(places[0].semaphore) == bool(flags)
    records, done = sample(tmp_path, [str(program)], setup(side, register_probes(places)))
    assert counts(records) == [250]
    assert done.stdout == "250"
    if flags:
        assert subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout == "0"


@pytest.mark.parametrize("side", SIDES)
def test_exceptions_that_a_program_throws(tmp_path: Path, side: str) -> None:
    source = tmp_path / "throws.cc"
    source.write_text(
        BUSY + "#include <stdexcept>\nint main() { int n = 0; for (int i = 0; i < 150; i++) { try { if (i % 3) throw "
        'std::runtime_error("no"); } '
        "catch (const std::exception &) { n++; } busy(100000); } return n == 100 ? 0 : 1; }"
    )
    program = tmp_path / "throws"
    subprocess.run(["g++", "-O1", str(source), "-o", str(program)], check=True)
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    library = Path(re.search(r"libstdc\+\+\.so\.6 => (\S+)", listed)[1]).resolve()  # type: ignore[index]
    if (
        "libstdcxx"
        not in subprocess.run(["readelf", "-n", str(library)], capture_output=True, text=True, check=True).stdout
    ):
        pytest.skip("this libstdc++ was built without static probes")
    chosen = setup(
        side,
        register_probes([*static_probe(0, library, "throw"), *static_probe(1, library, "catch")]),
        program="throws",
    )
    preload = ["env", f"LD_PRELOAD={build_preload('gcc')}"] if side == "inside" else []
    records, done = sample(tmp_path, [*preload, str(program)], chosen)
    assert done.returncode == 0
    assert counts(records) == [100, 100]


# Other processes.


@pytest.mark.parametrize(
    ("side", "children", "expected"),
    [("inside", False, 50), ("outside", False, 50), ("outside", True, 50 + 3 * 70 + 90)],
)
def test_children_count_when_asked_for(build: Build, tmp_path: Path, side: str, children: bool, expected: int) -> None:
    text = """
#include <sys/wait.h>
#include <unistd.h>
int main(int n, char **v) {
    if (n > 1) { for (int i = 0; i < 90; i++) HIT(); return 0; }
    for (int c = 0; c < 3; c++) if (fork() == 0) { for (int i = 0; i < 70; i++) HIT(); _exit(0); }
    if (fork() == 0) { execl(v[0], v[0], "again", (char *)0); _exit(1); }
    while (wait(0) > 0) {}
    for (int i = 0; i < 50; i++) { HIT(); busy(100000); }
    return 0; }
"""
    program = build(text)
    records, done = sample(
        tmp_path, [str(program)], setup(side, register_probes([function(0, program, "hit")]), children=children)
    )
    assert done.returncode == 0
    assert counts(records) == [expected]


@pytest.mark.parametrize("side", SIDES)
def test_another_process_of_the_same_binary_has_no_breakpoint(build: Build, tmp_path: Path, side: str) -> None:
    """The program prints the first byte of its function, then has a stranger print it.

    A process that no sampler watches.
    """
    text = """
#include <stdio.h>
#include <stdlib.h>
int main(int n, char **v) {
    (void)v;
    for (int i = 0; i < 20; i++) { HIT(); busy(100000); }
    printf("%02x\\n", *(volatile unsigned char *)(void *)hit);
    if (n == 1) { fflush(stdout); getchar(); }
    return 0; }
"""
    program = build(text)
    chosen = setup(side, register_probes([function(0, program, "hit")]))
    watched = tmp_path / "watched"
    script = (
        f"import subprocess, sys; print(subprocess.run([{str(program)!r}, 'stranger'], capture_output=True, "
        "text=True).stdout)"
    )
    create_record_file(tmp_path / "record", chosen)
    command = [str(build_observer("gcc")), str(tmp_path / "record")] if side == "outside" else []
    with (
        watched.open("w+") as output,
        subprocess.Popen(
            [*command, str(program)],
            env={"UNPERTURBED_RECORD": str(tmp_path / "record")},
            stdin=subprocess.PIPE,
            stdout=output,
        ) as process,
    ):
        while not watched.stat().st_size:
            pass
        stranger = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.strip()
        process.communicate(b"\n")
        output.seek(0)
        assert output.read().strip() == "cc"
    assert stranger != "cc"
    assert counts(read_record_file(tmp_path / "record", chosen)) == [20]


def test_outside_a_program_that_replaces_itself_is_counted_on(tmp_path: Path) -> None:
    text = """
#include <unistd.h>
int main(int n, char **v) { for (int i = 0; i < 60; i++) { HIT(); busy(100000); }
    if (n == 1) execl(v[0], v[0], "again", (char *)0); return 0; }
"""
    source, program = tmp_path / "own.c", tmp_path / "own"
    source.write_text(BUSY + HIT + text)
    subprocess.run(["gcc", "-O1", str(source), "-o", str(program)], check=True)
    records, _ = sample(tmp_path, [str(program)], setup("outside", register_probes([function(0, program, "hit")])))
    assert counts(records) == [120]
    assert Mark.EXEC not in records.marks
    trace = assemble(
        records,
        Pass("main", "none", (), ()),
        software=(milestone("hits", "kernel"),),
        os_metrics=(),
        derived={},
        dumps=Path("none"),
        attributes={},
    )
    assert int(trace["hits"].sum()) == 120


def test_threads_that_a_library_starts_before_main_are_counted(build: Build, tmp_path: Path) -> None:
    text = """
#include <pthread.h>
static pthread_t early;
static void *work_on(void *n) { for (long i = 0; i < (long)n; i++) { HIT(); busy(100000); } return 0; }
static void __attribute__((constructor(101))) begin(void) { pthread_create(&early, 0, work_on, (void *)200L); }
int main(void) { busy(1000000); pthread_join(early, 0); return 0; }
"""
    program = build(text, "-pthread")
    records, _ = sample(tmp_path, [str(program)], setup("inside", register_probes([function(0, program, "hit")])))
    assert counts(records) == [200]


def test_descriptors_are_out_of_the_programs_way(build: Build, tmp_path: Path) -> None:
    text = """
#include <fcntl.h>
#include <unistd.h>
int main(void) {
    int fd = open("/dev/null", O_RDONLY);
    for (int i = 3; i < 100; i++) close(i);
    for (int i = 0; i < 50; i++) { HIT(); busy(100000); }
    return fd; }
"""
    program = build(text)
    records, done = sample(tmp_path, [str(program)], setup("inside", register_probes([function(0, program, "hit")])))
    assert done.returncode == 3
    assert counts(records) == [50]


def test_the_cost_of_a_hit_is_measured_and_nothing_is_left() -> None:
    before = probe_registry().read_text()
    cost = measure_hit_cost("gcc")
    assert cost.cheap_ns > 0
    assert cost.ns("cheap") == cost.cheap_ns
    assert cost.ns("unknown") >= cost.ns("cheap")
    assert probe_registry().read_text() == before


# Refusals.


def test_under_the_simulator_there_are_no_probes(tmp_path: Path) -> None:
    probe = Probe(0, 1, "program:hit")
    with pytest.raises(HostError, match=r"program:hit: .* under the simulator"):
        create_record_file(tmp_path / "record", Setup("simulated", 1_000_000, "work", software=1, probes=(probe,)))


@pytest.mark.parametrize("side", SIDES)
def test_the_runtime_refuses_probes_under_valgrind(build: Build, tmp_path: Path, side: str) -> None:
    program = build("int main(void) { HIT(); busy(1000000); return 7; }")
    chosen = setup(side, register_probes([function(0, program, "hit")]))
    record = tmp_path / "record"
    create_record_file(record, chosen)
    content = bytearray(record.read_bytes())
    if side == "outside":  # inside, valgrind is met as itself
        np.frombuffer(content, HEADER, 1)["source"][0] = 1
        record.write_bytes(content)
    command = [str(build_observer("gcc")), str(record)] if side == "outside" else []
    done = subprocess.run(
        [*command, "valgrind", "--quiet", "--tool=none", str(program)],
        env={"PATH": os.environ["PATH"], "UNPERTURBED_RECORD": str(record)},
        check=False,
    )
    records = read_record_file(record, chosen)
    assert records.state == "failed"
    assert "under valgrind" in records.message
    assert done.returncode == (7 if side == "inside" else 127)


@pytest.mark.parametrize("side", SIDES)
def test_a_probe_that_was_removed_meanwhile(build: Build, tmp_path: Path, side: str) -> None:
    program = build("int main(void) { HIT(); busy(1000000); return 0; }")
    probes = register_probes([function(0, program, "hit")])
    remove_probes()
    records, _ = sample(tmp_path, [str(program)], setup(side, probes))
    assert records.state == "failed"
    assert "program:hit: the kernel no longer has this probe" in records.message


def test_what_the_kernel_refuses_is_met_at_registration(build: Build) -> None:
    # A prefix that names a segment: the kernel steps over no such instruction.
    text = """
__asm__(".globl odd\\n.type odd,@function\\nodd: .byte 0x2e,0x90\\nret\\n.size odd,.-odd\\n");
void odd(void);
int main(void) { odd(); return 0; }
"""
    program = build(text)
    before = probe_registry().read_text()
    with pytest.raises(HostError, match=r"program:odd: the kernel cannot set a breakpoint on that instruction"):
        register_probes([function(0, program, "odd")])
    with pytest.raises(HostError, match="the file has changed"):
        register_probes([At(0, "program:gone", program, 1 << 30)])
    assert probe_registry().read_text() == before


def test_names_that_the_kernels_commands_cannot_hold(build: Build, tmp_path: Path) -> None:
    odd = tmp_path / "a folder #1"
    odd.mkdir()
    program = build("int main(void) { for (int i = 0; i < 30; i++) { HIT(); busy(100000); } return 0; }", folder=odd)
    records, _ = sample(tmp_path, [str(program)], setup("outside", register_probes([function(0, program, "hit")])))
    assert counts(records) == [30]


def test_probes_of_a_process_that_was_killed_are_cleared_away(build: Build) -> None:
    program = build("int main(void) { HIT(); return 0; }")
    place = function(0, program, "hit")
    group = re.sub(r"\d+$", "4194303", kernel_probes._own_group())  # above the largest process number but one
    kernel_probes._append(probe_registry(), f"p:{group}/left {place.path}:{place.offset:#x}")
    register_probes([place])
    left = probe_registry().read_text()
    assert f"{group}/" not in left
    assert str(program) in left
    remove_probes()
    assert str(program) not in probe_registry().read_text()
    assert register_probes([]) == ()
