"""What counters in a real program cost.

Instructions an event, text, and CPU time, beside gcc's and the kernel's own means.

    python tests/benchmarks/instrument_instructions.py [--blocks 15] [--seed 1] [--quick] [--json FILE]

Debian's bzip2 -9 packs a text that a seed makes. Instructions are callgrind's; so are those of the increments alone, at
their own addresses.
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

import numpy as np
from instrument_uprobe import run_counted
from sampler_report import Section, Table, deliver, host_state, parse_arguments

from unperturbed.collectors.runtime import BOUNDS, runtime_files
from unperturbed.common.user_cache import user_cache
from unperturbed.harness.program.sources import debian_source
from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.events import parse_event

BOUND_AN_EVENT = 1.0
BOUND_INSTRUCTIONS, BOUND_TEXT = 0.01, 0.02
COUNTING_RUNTIME = Path(__file__).parents[1] / "instrument" / "runtime.c"
OBJECTS = [
    f"{name}.o"
    for name in ("blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib", "bzip2")
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
REFERENCE, TWO_NAME, ALL_NAME, SHAM_NAME = "nothing counted", "two metrics", "all enters and loops", "sham of these"
GCOV = ("--coverage",)
EXPLAINING = (
    ("gcc", "-O0"),
    ("gcc", "-O2", "-fno-inline"),
    ("gcc", "-O2"),
    ("gcc", "-O3"),
    ("clang", "-O0"),
    ("clang", "-O2", "-fno-unroll-loops", "-fno-vectorize", "-fno-slp-vectorize"),
    ("clang", "-O2"),
)
SORTING = ("mainGtU", "mainSimpleSort", "mainQSort3", "fallbackSimpleSort", "BZ2_hbMakeCodeLengths")
_RESAMPLINGS = 10_000


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
    Way(TWO_NAME, TWO),
    Way("all enters", ENTERS),
    Way(ALL_NAME, ALL),
    Way(SHAM_NAME, ALL, sham=True),
    Way("-finstrument-functions", {}, ("-finstrument-functions",), events=ENTERS),
    Way("gcov: --coverage", {}, GCOV, events=ALL),
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


def folder_name(compiler: str, way: Way, *, counting: bool = False) -> str:
    """Return the name of the folder that a way is built in."""
    return re.sub(r"\W+", "-", f"{compiler} {way.name}{' counting' if counting else ''}")


def build(folder: Path, compiler: str, way: Way, *, counting: bool = False) -> Path:
    """Build bzip2 in a folder of its own, and return the program.

    Parameters
    ----------
    counting : with a runtime that writes what the metrics have counted, instead of the one that is shipped and sleeps
    here.
    """
    target = folder / folder_name(compiler, way, counting=counting)
    shutil.copytree(debian_source("bzip2", user_cache()), target, ignore=shutil.ignore_patterns("*.o", "*.a", ".pc"))
    events = {name: parse_event(event) for name, event in (way.counted if counting else way.software).items()}
    tools = write_toolchain(
        target.with_name(f"{target.name}.tools"),
        events,
        compilers={"cc": compiler},
        runtime=[COUNTING_RUNTIME] if counting else runtime_files(),
        bounds=[] if counting else BOUNDS,
        form="sham" if way.sham and not counting else "counting",
    )
    flags = ["-O2", *(() if counting else way.flags)]
    made = ["make", "-s", "-j2", f"CC={tools.cc}", f"CFLAGS={' '.join(flags)} -D_FILE_OFFSET_BITS=64", *OBJECTS]
    subprocess.run(made, cwd=target, check=True, capture_output=True)
    objects = list(OBJECTS)
    if "-finstrument-functions" in flags:
        (target / "hooks.c").write_text(HOOKS)
        subprocess.run([compiler, "-O2", "-c", "hooks.c"], cwd=target, check=True)
        objects.append("hooks.o")
    subprocess.run([str(tools.cc), *flags, *objects, "-o", "program"], cwd=target, check=True, capture_output=True)
    return target / "program"


def happened(program: Path, data: Path, folder: Path) -> int:
    """Return how many events a program counts for itself."""
    counts = folder / "counts"
    subprocess.run(
        [program, "-9", "-c", data], check=True, capture_output=True, env={**os.environ, "COUNTS_FILE": str(counts)}
    )
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
    """Return each program's CPU time in each block, in which all run once, in random order."""
    order = random.Random(seed)
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(blocks):
        for name in order.sample(list(programs), len(programs)):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [programs[name], "-9", "-c", data], check=True, stdout=subprocess.DEVNULL, cwd=programs[name].parent
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return found


def added(found: Mapping[str, Sequence[float]], name: str, seed: int) -> tuple[float, float, float]:
    """Return the median of a way's time over the reference's in the same block, less 1, with a bootstrapped 95 % interval."""
    ratios = np.asarray(found[name]) / np.asarray(found[REFERENCE]) - 1
    drawn = np.random.default_rng(seed).choice(ratios, (_RESAMPLINGS, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(np.median(ratios)), float(low), float(high)


@dataclass(frozen=True)
class Probed:
    """A uprobe on the first instruction of one function.

    Its hits, and what one costs by CPU time and by the clock.
    """

    function: str
    hits: int
    cpu_us: float
    wall_us: float


def uprobe(program: Path, data: Path, repeats: int) -> Probed:
    """Return what a hit of a uprobe costs, on that one of the sorting functions with a body of its own that is entered most often."""
    symbols = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    arguments = ["-9", "-c", str(data)]
    names = [name for name in SORTING if re.search(rf" [tT] {name}$", symbols, re.MULTILINE)]
    hits = {name: run_counted(program, name, arguments).hits for name in names}
    name = max(hits, key=hits.__getitem__)
    pairs = [(run_counted(program, None, arguments), run_counted(program, name, arguments)) for _ in range(repeats)]
    cpu, wall = (
        statistics.median(getattr(probed, time) - getattr(alone, time) for alone, probed in pairs) / hits[name] * 1e6
        for time in ("cpu_s", "wall_s")
    )
    return Probed(name, hits[name], cpu, wall)


def text(words: int, seed: int) -> bytes:
    """Return a text of so many words, of three hundred different ones."""
    table = [f"{n * 2654435761 % 2**32:x}" for n in range(300)]
    return " ".join(random.Random(seed).choices(table, k=words)).encode()


def main() -> None:
    """Measure and report."""
    arguments = parse_arguments(
        __doc__.splitlines()[0] if __doc__ else "",
        blocks=(15, "runs of each program"),
        seed=(1, "of the text and of the order"),
    )
    before = host_state()
    blocks = 3 if arguments.quick else arguments.blocks
    costs: dict[str, dict[str, Cost]] = {}
    seconds: dict[str, dict[str, list[float]]] = {}
    timed_events: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny, small, large = folder / "tiny", folder / "small", folder / "large"
        small.write_bytes(text(60_000, arguments.seed))
        large.write_bytes(text(60_000 if arguments.quick else 600_000, arguments.seed))
        for compiler in filter(shutil.which, ("gcc", "clang")):
            ways = [way for way in WAYS if way.flags != GCOV or _links(compiler, folder)]
            programs = {way.name: build(folder, compiler, way) for way in ways}
            counting = {way.name: build(folder, compiler, way, counting=True) for way in ways if way.counted}
            counted = {name: happened(program, small, folder) for name, program in counting.items()}
            timed_events[compiler] = {name: happened(program, large, folder) for name, program in counting.items()}
            costs[compiler] = {
                name: measure(program, small, counted.get(name, 0), folder) for name, program in programs.items()
            }
            seconds[compiler] = times(programs, large, blocks, arguments.seed)
        tiny.write_bytes(text(6_000, arguments.seed))  # at ten microseconds a hit a long text would take minutes
        probed = uprobe(folder / folder_name("gcc", WAYS[0]) / "program", tiny, blocks)
        explained = {
            " ".join([compiler, *flags]): _an_event(
                compiler, tuple(flags), costs[compiler][ALL_NAME].events, small, folder
            )
            for compiler, *flags in EXPLAINING
            if compiler in costs
        }
    tables = [
        _instruction_table(costs),
        _time_table(seconds, timed_events, arguments.seed),
        Table(
            "The kernel's probe on one function of the gcc program that counts nothing",
            ["function", "hits", "CPU time, us a hit", "by the clock, us a hit"],
            [[probed.function, f"{probed.hits:,}", f"{probed.cpu_us:.2f}", f"{probed.wall_us:.2f}"]],
        ),
        Table(
            "All enters and loops: instructions an event by the compiler's options, beside the same options "
            "without counters",
            ["options", "instructions an event"],
            [[options, f"{each:+.3f}"] for options, each in explained.items()],
        ),
    ]
    data = {
        "costs": {compiler: {way: vars(cost) for way, cost in found.items()} for compiler, found in costs.items()},
        "seconds": seconds,
        "timed_events": timed_events,
        "uprobe": vars(probed),
        "explained": explained,
    }
    section = Section(
        script="instrument_instructions",
        title="Counters in a real program",
        method=(
            "Debian's bzip2 -9 on a seeded text, built by its own Makefile at -O2 with the runtime that is "
            "shipped, asleep; each way beside the "
            "same program with nothing counted. Instructions of the whole run under callgrind; executed: at "
            "the addresses of the counters' own "
            "instructions, for each event. Time: CPU time of interleaved runs, median of the ratios "
            "within a block, 95 % by bootstrap."
        ),
        tables=tables,
        verdicts=_verdicts(costs),
        data=data,
    )
    deliver(section, arguments, before)


def _links(compiler: str, folder: Path) -> bool:
    """Tell whether a compiler has the library that gcov's counters need."""
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    command = [compiler, *GCOV, "empty.c", "-o", "empty"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def _an_event(compiler: str, flags: tuple[str, ...], events: int, data: Path, folder: Path) -> float:
    """Return the instructions an event that counting all enters and loops adds at other options than -O2."""
    ways = [Way(f"{name} {' '.join(flags)}", software, flags) for name, software in (("nothing", {}), ("all", ALL))]
    alone, counted = (measure(build(folder, compiler, way), data, events, folder).instructions for way in ways)
    return (counted - alone) / events


def _instruction_table(costs: Mapping[str, Mapping[str, Cost]]) -> Table:
    rows = []
    for compiler, found in costs.items():
        reference = found[REFERENCE]
        for way, cost in found.items():
            more = cost.instructions - reference.instructions
            rows.append(
                [
                    f"{compiler}: {way}",
                    f"{cost.events:,}" if way != SHAM_NAME else "–",
                    f"{more / reference.instructions:+.2%}",
                    f"{more / cost.events:+.3f}" if cost.events else "–",
                    f"{cost.increments / cost.events:.5f}" if cost.increments else "–",
                    f"{cost.text / reference.text - 1:+.2%}",
                ]
            )
    return Table(
        "Instructions and text", ["way", "events", "instructions", "an event", "executed, an event", "text"], rows
    )


def _time_table(
    seconds: Mapping[str, Mapping[str, Sequence[float]]], events: Mapping[str, Mapping[str, int]], seed: int
) -> Table:
    rows = []
    for compiler, found in seconds.items():
        for way, own in found.items():
            ratio, low, high = added(found, way, seed)
            happened_here = events[compiler].get(way, 0)
            each = f"{ratio * statistics.median(found[REFERENCE]) / happened_here * 1e9:+.2f}" if happened_here else "–"
            rows.append(
                [
                    f"{compiler}: {way}",
                    f"{statistics.median(own):.3f}",
                    f"{ratio:+.1%}",
                    f"{low:+.1%} … {high:+.1%}",
                    each,
                ]
            )
    return Table("CPU time of interleaved runs", ["way", "median, s", "added", "95 %", "ns an event"], rows)


def _verdicts(costs: Mapping[str, Mapping[str, Cost]]) -> list[str]:
    verdicts = []
    for compiler, found in costs.items():
        reference, every, two, sham = (found[name] for name in (REFERENCE, ALL_NAME, TWO_NAME, SHAM_NAME))
        each = (every.instructions - reference.instructions) / every.events
        more, text_more = two.instructions / reference.instructions - 1, two.text / reference.text - 1
        verdicts += [
            f"{compiler}, all enters and loops at -O2: {each:+.3f} instructions an event (bound "
            f"{BOUND_AN_EVENT}); {_holds(each <= BOUND_AN_EVENT)}.",
            f"{compiler}, two metrics: {more:+.2%} instructions (bound {BOUND_INSTRUCTIONS:.0%}), "
            f"{text_more:+.2%} text (bound {BOUND_TEXT:.0%}); "
            f"{_holds(more <= BOUND_INSTRUCTIONS and text_more <= BOUND_TEXT)}.",
            f"{compiler}: the counting itself is {every.increments / every.events:.5f} instructions an event, "
            f"executed at the counters' addresses. "
            f"The rest, {every.instructions - reference.instructions - every.increments:+,}, is what the "
            f"compiler makes otherwise where a counter "
            f"stands: {_otherwise(reference, every)}. A sham build, which has a no-op for each increment, "
            f"shows the same rest: it executes "
            f"{abs(sham.instructions - every.instructions):,} instructions more or fewer than the build that counts.",
        ]
    return verdicts


def _holds(good: bool) -> str:
    return "it holds" if good else "it does not hold"


def _otherwise(reference: Cost, counted: Cost) -> str:
    """Return the functions whose own instructions differ most; a function's clones are added to it."""
    changes: Counter[str] = Counter()
    for cost, sign in ((counted, 1), (reference, -1)):
        for function, instructions in cost.by_function.items():
            changes[function.partition(".")[0].partition("'")[0]] += sign * instructions
    largest = sorted(changes.items(), key=lambda change: -abs(change[1]))[:4]
    return ", ".join(f"{function} {change:+,}" for function, change in largest) + " (with its increments)"


if __name__ == "__main__":
    main()
