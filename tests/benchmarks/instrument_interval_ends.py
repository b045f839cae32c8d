"""Cost of ending intervals at the program's own events: per event and per interval, simulated and native.

    python tests/benchmarks/instrument_interval_ends.py [--blocks 9] [--quick] [--json FILE] [--markdown]

One function is called many times. It is compiled without a counter, with a counter, and as the metric whose events end
intervals, into a program and into a library. Callgrind counts instructions; the clock is read natively by the program.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from sampler_report import Section, Table, deliver, host_state, parse_arguments

from unperturbed.collectors.records.file import Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import BOUNDS, runtime_files
from unperturbed.collectors.sources.callgrind import EVENTS, Machine, valgrind_command
from unperturbed.collectors.sources.dumps import read_dumps
from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.events import parse_event

_CODE = "__attribute__((noinline)) int step(int x) { return x * 3 + 1; }\n"
_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int step(int);
int main(int count, char **words)
{
    struct timespec begin, end;
    long n = count > 1 ? atol(words[1]) : 0;
    int sum = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < n; i++)
        sum += step((int)i);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.0f %d\\n", (end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec, sum);
    return 0;
}
"""
_WAYS = ("plain", "counted", "ending")
_SIMULATED, _NEVER = 20_000, 10**12


@dataclass(frozen=True)
class _Program:
    """A program in its folder."""

    folder: Path

    def run(self, n: int, *, every: int = 0, prefix: tuple[str, ...] = (), source: str = "none") -> tuple[float, Any]:
        """Run it with n events; return the nanoseconds that it took and its records, if `every` is given."""
        environment = {"PATH": os.environ["PATH"]}
        setup = Setup(source, every, "program", software=1, capacity=1 << 17)
        if every:
            create_record_file(self.folder / "record", setup)
            environment["UNPERTURBED_RECORD"] = str(self.folder / "record")
        words = [*prefix, "./program", str(n)]
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout.split()[0]), read_record_file(self.folder / "record", setup) if every else None


def _build(folder: Path, compiler: str, way: str, place: str) -> _Program:
    """Compile the program in one of the ways, its function in the program or in a library."""
    folder.mkdir(parents=True)
    (folder / "step.c").write_text(_CODE)
    (folder / "main.c").write_text(_MAIN)
    cc = compiler
    if way != "plain":
        tools = write_toolchain(
            folder / "tools",
            {"steps": parse_event({"enter": "step"})},
            compilers={"cc": compiler},
            runtime=runtime_files(),
            bounds=BOUNDS,
            ends_intervals="steps" if way == "ending" else "",
        )
        cc = str(tools.cc)

    def run(*words: str) -> None:
        subprocess.run([cc, "-O2", *words], cwd=folder, check=True)

    if place == "library":
        run("-fPIC", "-shared", "step.c", "-o", "libstep.so")
        run("main.c", "-o", "program", "-L.", "-lstep", "-Wl,-rpath,$ORIGIN")
    else:
        run("main.c", "step.c", "-o", "program")
    return _Program(folder)


def _instructions(program: _Program, n: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "./program", str(n)]
    told = subprocess.run(command, cwd=program.folder, capture_output=True, text=True, check=True).stderr
    (count,) = re.findall(r"Collected : (\d+)", told)
    return int(count)


def _per_event(program: _Program) -> float:
    return (_instructions(program, 2 * _SIMULATED) - _instructions(program, _SIMULATED)) / _SIMULATED


def _per_interval(program: _Program) -> Mapping[str, int]:
    """Return what callgrind attributes to the program at an interval's end: two short intervals less a long one."""
    lengths = []
    for every in (50, 100):
        dumps = program.folder / f"dumps{every}"
        prefix = tuple(valgrind_command(Machine(), dumps))
        _, records = program.run(_SIMULATED, every=every, prefix=prefix, source="simulated")
        counts = read_dumps(dumps.with_name(f"{dumps.name}.{records.owner}"), len(records.rows) - 1)
        if any(len(set(counts[name][1:-1].tolist())) > 1 for name in ("Ir", "Dr", "Dw", "Bc", "Bi")):
            raise SystemExit("intervals of the same events differ in simulated counts")
        lengths.append({name: int(counts[name][5]) for name in EVENTS})
    return {name: 2 * lengths[0][name] - lengths[1][name] for name in EVENTS}


def _nanoseconds(program: _Program, n: int, every: int = 0) -> float:
    return program.run(n, every=every)[0]


def _rounds(rounds: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Return the times of several measurements, which take turns."""
    taken = [[measure() for measure in measures] for _ in range(rounds)]
    return [list(times) for times in zip(*taken, strict=True)]


def main() -> None:
    """Build, measure and report."""
    arguments = parse_arguments(__doc__ or "", blocks=(9, "repetitions of each timing"))
    events = 10**7 if arguments.quick else 10**8
    before, data = host_state(), {}
    instructions, nanoseconds, intervals = [], [], []
    with tempfile.TemporaryDirectory() as name:
        for compiler in ("gcc", "clang"):
            for place in ("program", "library"):
                programs = {way: _build(Path(name) / compiler / place / way, compiler, way, place) for way in _WAYS}
                plain, counted, ending = (_per_event(programs[way]) for way in _WAYS)
                attributed = _per_interval(programs["ending"])
                row = [f"{compiler}, in a {place}"]
                instructions.append(
                    [*row, f"{counted - plain:.2f}", f"{ending - plain:.2f}", f"{ending - counted:.2f}"]
                    + [str(attributed[event]) for event in ("Ir", "Dr", "Dw", "Bc", "Bi")]
                )
                runs = [partial(_nanoseconds, programs[way], events) for way in _WAYS]
                times = [[each / events for each in taken] for taken in _rounds(arguments.blocks, *runs)]
                best = [min(each) for each in times]
                nanoseconds.append([*row, *(f"{each:.2f}" for each in best), f"{best[2] - best[1]:.2f}"])
                data[f"{compiler}, {place}"] = {"attributed": attributed, "ns per event": times}
        program = programs["ending"]
        wanted = 10**4 if arguments.quick else 10**5
        for every in (10, 100, 1_000):
            long, short = (partial(_nanoseconds, program, wanted * every, end) for end in (every, _NEVER))
            costs = [
                (with_ - without) / wanted
                for with_, without in zip(*_rounds(arguments.blocks, long, short), strict=True)
            ]
            intervals.append([f"{every:,}", f"{wanted:,}", f"{median(costs):,.0f}", f"{min(costs):,.0f}"])
            data[f"every {every}"] = costs
    section = Section(
        script="instrument_interval_ends",
        title="What it costs that the program's own events end intervals",
        method=(
            f"A function of two instructions is called {events:,} times natively ({_SIMULATED:,} under callgrind). Its "
            "entry is not counted, counted, or counted by the metric whose events end intervals, without a record "
            f"file. Times are the shortest of {arguments.blocks}. What an interval's end adds under callgrind is twice "
            "the count of 50 events less that of 100: it is the same at every end. Natively, it is the time that "
            "records of one software metric add, over a run that records none; no hardware counter is read."
        ),
        tables=[
            Table(
                "Instructions, under callgrind",
                [
                    *("code", "added per counted event", "per event that ends intervals", "difference"),
                    *("instructions attributed per interval", "reads", "writes", "conditional branches", "indirect"),
                ],
                instructions,
            ),
            Table(
                "Time per call, native, ns",
                ["code", "plain", "counted", "ends intervals", "ends intervals less counted"],
                nanoseconds,
            ),
            Table(
                "Time per interval, native, ns",
                ["events in an interval", "intervals", "median", "shortest"],
                intervals,
            ),
        ],
        verdicts=[],
        data=data,
    )
    deliver(section, arguments, before)


if __name__ == "__main__":
    main()
