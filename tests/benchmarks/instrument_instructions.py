"""What counters in a real program cost: instructions an event, text, and processor time, beside gcc's and the kernel's own means.

    python tests/benchmarks/instrument_instructions.py [--blocks 15] [--seed 1] [--quick] [--json FILE]

Debian's bzip2 -9 packs a text that a seed makes. Instructions are callgrind's; so are those of the increments alone, at their own addresses.
"""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from instrument_uprobe import run_counted
from sampler_report import Section, Table, deliver, host_state, parse_arguments

from unperturbed.collectors.runtime_build import BOUNDS, SOURCES, user_cache
from unperturbed.harness.sources import debian_source
from unperturbed.instrument.events import parse_event
from unperturbed.instrument.toolchain import write_toolchain

BOUND_AN_EVENT = 1.0
BOUND_INSTRUCTIONS, BOUND_TEXT = 0.01, 0.02
COUNTING_RUNTIME = Path(__file__).parents[1] / "instrument" / "runtime.c"
OBJECTS = [
    f"{name}.o" for name in ("blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib", "bzip2")
]
TWO = {"compares": {"enter": "mainGtU"}, "nblock": {"write": "EState.nblock"}}
ENTERS = {"enters": {"enter": "*"}}
ALL = {**ENTERS, "loops": {"loop": "*"}}
HOOKS = """
unsigned long enters, exits;
#define HOOK __attribute__((no_instrument_function)) void
HOOK __cyg_profile_func_enter(void *function, void *caller) { (void)function; (void)caller; enters++; }
HOOK __cyg_profile_func_exit(void *function, void *caller) { (void)function; (void)caller; exits++; }
"""
REFERENCE = "nothing counted"
_RESAMPLINGS = 10_000
_PRECISE = 4


@dataclass(frozen=True)
class Way:
    """A way to count: the metrics, or the compiler's own option; a sham counts nothing in the place of all."""

    name: str
    software: Mapping[str, Mapping[str, object]]
    flags: tuple[str, ...] = ()
    sham: bool = False
    events: Mapping[str, Mapping[str, object]] | None = None

    @property
    def counted(self) -> Mapping[str, Mapping[str, object]]:
        """Return the events that this way counts, as metrics."""
        return self.software if self.events is None else self.events


WAYS = (
    Way(REFERENCE, {}),
    Way("two metrics", TWO),
    Way("all enters", ENTERS),
    Way("all enters and loops", ALL),
    Way("sham of these", ALL, sham=True),
    Way("-finstrument-functions", {}, ("-finstrument-functions",), events=ENTERS),
    Way("--coverage (gcov)", {}, ("--coverage",), events=ALL),
)


@dataclass(frozen=True)
class Cost:
    """What one way costs.

    Attributes
    ----------
    events : what happened, of the metrics that this way counts.
    instructions : of the whole run.
    increments : executed at the addresses of counters; 0 for ways without.
    text : bytes.
    by_function : the program's own instructions by function.
    """

    events: int
    instructions: int
    increments: int
    text: int
    by_function: Counter[str]


def build(folder: Path, compiler: str, way: Way, *, counting: bool = False) -> Path:
    """Build bzip2 in a folder of its own; `counting` with a runtime that writes the counts, else with the one that is shipped."""
    target = folder / re.sub(r"\W+", "-", f"{compiler}-{way.name}-{counting}")
    shutil.copytree(debian_source("bzip2", user_cache()), target, ignore=shutil.ignore_patterns("*.o", "*.a", ".pc"))
    events = {name: parse_event(event) for name, event in (way.counted if counting else way.software).items()}
    runtime = {"runtime": [COUNTING_RUNTIME]} if counting else {"runtime": SOURCES, "bounds": BOUNDS}
    tools = write_toolchain(
        target.with_name(f"{target.name}.tools"), events, compilers={"cc": compiler}, sham=way.sham, **runtime
    )
    flags = ["-O2", *(() if counting else way.flags)]
    made = " ".join(["CFLAGS=" + " ".join([*flags, "-D_FILE_OFFSET_BITS=64"])])
    subprocess.run(["make", "-s", "-j2", f"CC={tools.cc}", made, *OBJECTS], cwd=target, check=True, capture_output=True)
    extra = []
    if "-finstrument-functions" in flags:
        (target / "hooks.c").write_text(HOOKS)
        subprocess.run([compiler, "-O2", "-c", "hooks.c"], cwd=target, check=True)
        extra = ["hooks.o"]
    link = [str(tools.cc), *flags, *OBJECTS, *extra, "-o", "program"]
    subprocess.run(link, cwd=target, check=True, capture_output=True)
    return target / "program"


def happened(program: Path, data: Path, folder: Path) -> int:
    """Return how many events a program counts for itself."""
    counts = folder / "counts"
    subprocess.run([program, "-9", "-c", data], check=True, capture_output=True, env={**os.environ, "COUNTS_FILE": str(counts)})
    return sum(map(int, counts.read_text().split()))


def measure(program: Path, data: Path, events: int, folder: Path) -> Cost:
    """Return what a run under callgrind costs."""
    dump = folder / "callgrind"
    options = ["--dump-instr=yes", "--compress-pos=no", "--compress-strings=no", f"--callgrind-out-file={dump}"]
    command = ["valgrind", "--quiet", "--tool=callgrind", *options, str(program), "-9", "-c", str(data)]
    subprocess.run(command, check=True, capture_output=True, cwd=program.parent)
    addresses = _increments(program)
    increments, by_function, total = 0, Counter[str](), 0
    function, binary, is_call = "", "", False
    for line in dump.read_text().splitlines():
        if line.startswith("ob="):
            binary = line[3:]
        elif line.startswith("fn="):
            function = line[3:]
        elif line.startswith("summary:"):
            total = int(line.split()[1])
        elif line.startswith("calls="):
            is_call = True
        elif found := re.match(r"0x([0-9a-f]+) \d+ (\d+)$", line):
            if not is_call and binary == str(program):
                by_function[function] += int(found[2])
                increments += int(found[2]) if int(found[1], 16) in addresses else 0
            is_call = False
    size = subprocess.run(["size", program], check=True, capture_output=True, text=True).stdout
    return Cost(events, total, increments, int(size.split()[6]), by_function)


def _increments(program: Path) -> set[int]:
    """Return the addresses of the instructions that add to a counter."""
    sections = subprocess.run(["objdump", "-h", "-w", program], check=True, capture_output=True, text=True).stdout
    found = re.search(r"unperturbed_sites\s+([0-9a-f]+)\s+([0-9a-f]+)", sections)
    if found is None:
        return set()
    start, end = int(found[2], 16), int(found[2], 16) + int(found[1], 16)
    listing = subprocess.run(["objdump", "-d", "-w", program], check=True, capture_output=True, text=True).stdout
    adding = re.findall(r"^\s*([0-9a-f]+):.*\t(?:inc|add)q .*# ([0-9a-f]+) <", listing, re.MULTILINE)
    return {int(address, 16) for address, counter in adding if start <= int(counter, 16) < end}


def times(programs: Mapping[str, Path], data: Path, blocks: int, seed: int) -> dict[str, list[float]]:
    """Return each program's processor time in each block, in which all run once, in random order."""
    order = random.Random(seed)
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(blocks):
        for name in order.sample(list(programs), len(programs)):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([programs[name], "-9", "-c", data], check=True, stdout=subprocess.DEVNULL, cwd=programs[name].parent)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return found


def added(found: Mapping[str, Sequence[float]], name: str, seed: int) -> tuple[float, float, float]:
    """Return the median of a way's time over the reference's in the same block, less 1, with a bootstrapped 95 % interval."""
    ratios = np.asarray(found[name]) / np.asarray(found[REFERENCE]) - 1
    drawn = np.random.default_rng(seed).choice(ratios, (_RESAMPLINGS, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(np.median(ratios)), float(low), float(high)


def uprobes(program: Path, data: Path, reference: Cost, repeats: int) -> dict[str, Any]:
    """Return what a hit of a uprobe costs, on the function that is entered most often."""
    symbols = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    functions = set(re.findall(r" [tT] (\w+)$", symbols, re.MULTILINE))
    calls = {
        name: run_counted(program, name, ["-9", "-c", str(data)]).hits
        for name in ("mainGtU", "mainSimpleSort", "BZ2_hbMakeCodeLengths", "mainQSort3")
        if name in functions
    }
    name = max(calls, key=calls.__getitem__)
    with_probe = [run_counted(program, name, ["-9", "-c", str(data)]) for _ in range(repeats)]
    without = [run_counted(program, None, ["-9", "-c", str(data)]) for _ in range(repeats)]
    hits = with_probe[0].hits
    cpu = statistics.median(run.cpu_s for run in with_probe) - statistics.median(run.cpu_s for run in without)
    wall = statistics.median(run.wall_s for run in with_probe) - statistics.median(run.wall_s for run in without)
    return {
        "function": name,
        "hits": hits,
        "cpu_us": cpu / hits * 1e6,
        "wall_us": wall / hits * 1e6,
        "instructions": reference.instructions,
    }
