"""On an emulated PMU, intervals end at the program's own events, and all registers are kept, those of SVE too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.pmu.architectures import NEWEST_ARM64
from tests.pmu.cases import COMPILER, Case, Result, run_cases
from tests.pmu.machine import Machine
from tests.pmu.matrix import HARDWARE
from tests.pmu.test_counts import whole
from unperturbed.collectors.records.file import Setup
from unperturbed.collectors.runtime import BOUNDS, runtime_files
from unperturbed.collectors.sources import Event
from unperturbed.instrument.compiler.settings import read_settings
from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.compiler.wrapper import run
from unperturbed.instrument.events import parse_event

EVERY, STEPS = 100, 5050
WORK = """\
#include <stdio.h>
#include "turns.h"
static unsigned long own;
static void step(unsigned long n) { own++; turn(1000 + n % 700); }
int main(void)
{
    for (unsigned long n = 0; n < 5050; n++)
        step(n);
    printf("%lu\\n", own);
    return 0;
}
"""
FLAGS = {"plain": ["-O0"], "fast": ["-O2"]}
PAPI = tuple(map(Event, ("PAPI_TOT_CYC", "PAPI_TOT_INS")))

REGISTERS = """\
#include <stdint.h>
#include <stdio.h>
#include <string.h>
extern __thread long long unperturbed_remaining;
static int step(int x) { return x + 1; }
struct state { uint64_t general[32]; uint64_t flags; uint8_t vectors[32 * 256]; uint8_t predicates[16 * 32]; };
static struct state before, after;
void unperturbed_interval_ends(void);
void exchange(const struct state *from, struct state *to, void (*ends)(void));
#define EACH(one) one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) one(10) one(11) one(12) \\
    one(13) one(14) one(15)
#define HIGH(one) one(16) one(17) one(18) one(19) one(20) one(21) one(22) one(23) one(24) one(25) one(26) one(27) \\
    one(28) one(29) one(30) one(31)
#if LONG
#define LOAD(i) "ldr z" #i ", [x9, #" #i ", mul vl]\\n"
#define STORE(i) "str z" #i ", [x9, #" #i ", mul vl]\\n"
#else
#define LOAD(i) "ldr q" #i ", [x9, #16 * " #i "]\\n"
#define STORE(i) "str q" #i ", [x9, #16 * " #i "]\\n"
#endif
#define LOAD_PREDICATE(i) "ldr p" #i ", [x10, #" #i ", mul vl]\\n"
#define STORE_PREDICATE(i) "str p" #i ", [x10, #" #i ", mul vl]\\n"
/* x29 has the address of the function to call; x30 is the return address, which a site keeps. */
__asm__(".text\\n.arch_extension sve\\n.globl exchange\\nexchange:\\n"
    "stp x29, x30, [sp, #-256]!\\n"
    "stp x19, x20, [sp, #16]\\nstp x21, x22, [sp, #32]\\nstp x23, x24, [sp, #48]\\nstp x25, x26, [sp, #64]\\n"
    "stp x27, x28, [sp, #80]\\nstp d8, d9, [sp, #96]\\nstp d10, d11, [sp, #112]\\nstp d12, d13, [sp, #128]\\n"
    "stp d14, d15, [sp, #144]\\nstp x0, x1, [sp, #160]\\nstr x2, [sp, #176]\\n"
    "add x9, x0, #264\\nmov x10, #8456\\nadd x10, x0, x10\\n"
#if LONG
    EACH(LOAD_PREDICATE)
#endif
    EACH(LOAD) HIGH(LOAD)
    "mov x29, x2\\nldr x1, [x0, #256]\\nmsr nzcv, x1\\nmov x30, x0\\n"
    "ldp x0, x1, [x30]\\nldp x2, x3, [x30, #16]\\nldp x4, x5, [x30, #32]\\nldp x6, x7, [x30, #48]\\n"
    "ldp x8, x9, [x30, #64]\\nldp x10, x11, [x30, #80]\\nldp x12, x13, [x30, #96]\\nldp x14, x15, [x30, #112]\\n"
    "ldp x16, x17, [x30, #128]\\nldp x18, x19, [x30, #144]\\nldp x20, x21, [x30, #160]\\nldp x22, x23, [x30, #176]\\n"
    "ldp x24, x25, [x30, #192]\\nldp x26, x27, [x30, #208]\\nldr x28, [x30, #224]\\n"
    "blr x29\\n"
    "ldr x30, [sp, #168]\\n"
    "stp x0, x1, [x30]\\nstp x2, x3, [x30, #16]\\nstp x4, x5, [x30, #32]\\nstp x6, x7, [x30, #48]\\n"
    "stp x8, x9, [x30, #64]\\nstp x10, x11, [x30, #80]\\nstp x12, x13, [x30, #96]\\nstp x14, x15, [x30, #112]\\n"
    "stp x16, x17, [x30, #128]\\nstp x18, x19, [x30, #144]\\nstp x20, x21, [x30, #160]\\nstp x22, x23, [x30, #176]\\n"
    "stp x24, x25, [x30, #192]\\nstp x26, x27, [x30, #208]\\nstr x28, [x30, #224]\\n"
    "mrs x1, nzcv\\nstr x1, [x30, #256]\\n"
    "ldr x1, [sp, #176]\\nsub x1, x29, x1\\nstr x1, [x30, #232]\\n" /* 0 if x29 was kept */
    "add x9, x30, #264\\nmov x10, #8456\\nadd x10, x30, x10\\n"
#if LONG
    EACH(STORE_PREDICATE)
#endif
    EACH(STORE) HIGH(STORE)
    "ldp x19, x20, [sp, #16]\\nldp x21, x22, [sp, #32]\\nldp x23, x24, [sp, #48]\\nldp x25, x26, [sp, #64]\\n"
    "ldp x27, x28, [sp, #80]\\nldp d8, d9, [sp, #96]\\nldp d10, d11, [sp, #112]\\nldp d12, d13, [sp, #128]\\n"
    "ldp d14, d15, [sp, #144]\\nldp x29, x30, [sp], #256\\nret\\n");
int main(void)
{
    uint8_t *byte = (uint8_t *)&before;
    for (unsigned i = 0; i < sizeof before; i++)
        byte[i] = (uint8_t)(i * 167 + 13);
    before.flags = 0xa0000000;
    step(1);
    unperturbed_remaining = 0;
    exchange(&before, &after, unperturbed_interval_ends);
    unsigned vectors = 0, longest = LONG ? 256 : 16;
    if (memcmp(before.general, after.general, 29 * 8)) return puts("general"), 1;
    if (after.general[29]) return puts("x29"), 1;
    if (before.flags != after.flags) return puts("flags"), 1;
    for (unsigned i = 0; i < 32 * longest && before.vectors[i] == after.vectors[i]; i++) vectors++;
    for (unsigned i = vectors; i < sizeof after.vectors; i++)
        if (after.vectors[i]) return printf("vectors at %u\\n", i), 1;
    if (vectors % 512 || vectors < 512) return printf("%u bytes of vectors\\n", vectors), 1;
    if (LONG && memcmp(before.predicates, after.predicates, vectors / 16)) return puts("predicates"), 1;
    printf("%u bits\\n", vectors / 4);
    return 0;
}
"""


def build(folder: Path, name: str, text: str, *flags: str, threads: str = "plain") -> Path:
    """Compile a program whose events of `step` end intervals, as the instrumenting compiler does."""
    folder.mkdir(exist_ok=True)
    source, program = folder / f"{name}.c", folder / name
    source.write_text(text)
    chain = write_toolchain(
        folder / f"{name}.toolchain",
        {"steps": parse_event({"enter": "step", "threads": threads})},
        compilers={"cc": COMPILER},
        runtime=runtime_files(),
        bounds=BOUNDS,
        ends_intervals="steps",
    )
    words = (COMPILER, f"-I{Path(__file__).parent}", *flags, str(source), "-o", str(program))
    assert run(read_settings(str(chain.folder / "settings.json")), words) == 0
    return program


def own(source: str, events: tuple[Event, ...]) -> Setup:
    return Setup(source, EVERY, "program", events, software=1, capacity=128)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def left(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("own")
    programs = {name: build(folder, name, WORK, *flags) for name, flags in FLAGS.items()}
    programs["exact"] = build(folder, "exact", WORK, *FLAGS["fast"], threads="exact")
    programs["short"] = build(folder, "short", REGISTERS, "-O2", "-DLONG=0")
    cases = {
        f"{name}-{source}{again}": Case(f"/bin/{name}", own(source, PAPI if source == "papi" else HARDWARE))
        for name in programs
        for source in ("papi", "perf_event")
        for again in ("", "-again")
        if name != "short"
    }
    cases["short"] = Case("/bin/short", own("none", ()))
    return run_cases(machine, programs, cases, folder / "records", timeout_s=120)


@pytest.fixture(scope="module")
def newest(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("newest")
    programs = {
        "late": build(folder, "late", WORK, "-O2", "-march=armv8.1-a", threads="exact"),
        "long": build(folder, "long", REGISTERS, "-O2", "-DLONG=1"),
    }
    cases = {name: Case(f"/bin/{name}", own("none", ())) for name in programs}
    return run_cases(machine, programs, cases, folder / "records", timeout_s=120, cpu=NEWEST_ARM64)


def steps(result: Result) -> list[int]:
    return [int(count) for count in np.diff(whole(result).rows["software"][:, 0])]


@pytest.mark.parametrize("source", ["papi", "perf_event"])
@pytest.mark.parametrize("name", ["plain", "fast", "exact"])
def test_intervals_of_two_runs_are_the_same_work(left: dict[str, Result], name: str, source: str) -> None:
    runs = [left[f"{name}-{source}{again}"] for again in ("", "-again")]
    for result in runs:
        assert result.stdout == f"{STEPS}\n"
        assert steps(result) == [EVERY] * (STEPS // EVERY) + [STEPS % EVERY]
    first, second = (np.diff(result.sampled.rows["hardware"][:, 1]) for result in runs)
    assert first[:-1].min() > EVERY * 4 * 1000
    assert np.abs(first - second).max() < 200


def test_exact_counts_on_the_newest_processor(newest: dict[str, Result]) -> None:
    assert steps(newest["late"]) == [EVERY] * (STEPS // EVERY) + [STEPS % EVERY]


def test_registers_are_kept(left: dict[str, Result], newest: dict[str, Result]) -> None:
    assert (left["short"].status, left["short"].stdout) == (0, "128 bits\n")
    assert newest["long"].status == 0, newest["long"].stdout
    assert int(newest["long"].stdout.split()[0]) > 128
