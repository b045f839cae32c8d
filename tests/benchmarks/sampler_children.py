"""What counting a child process costs.

Milliseconds from a child's creation to its end, with the run's sampler and without.

    python tests/benchmarks/sampler_children.py [--blocks 30] [--seed 1] [--quick] [--json FILE]

A program creates children that do nothing, one after another, by fork or by posix_spawn. Blocks of all ways in random
order; differences are those of a block.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from counting_cost import median_interval
from numpy.typing import NDArray
from sampler_report import Section, Table, deliver, host_state, parse_arguments

from tests.collectors.runtime.programs import COUNTED, compile_program
from unperturbed.collectors.records.file import Setup, create_record_file
from unperturbed.collectors.runtime import build_observer
from unperturbed.collectors.sources import Event

_CHILDREN = 50
_PROGRAM = (
    "#define _GNU_SOURCE\n"
    + COUNTED
    + """
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(int n, char **v) {
    struct timespec t, u; int children = n > 2 ? atoi(v[2]) : 0, spawns = n > 1 && strcmp(v[1], "posix_spawn") == 0;
    if (children == 0) return 0;
    clock_gettime(CLOCK_MONOTONIC, &t);
    for (int i = 0; i < children; i++) {
        char *words[] = {v[0], "child", 0}; pid_t pid;
        if (spawns) { if (posix_spawn(&pid, v[0], 0, 0, words, environ)) return 9; }
        else if ((pid = fork()) == 0) _exit(0);
        waitpid(pid, 0, 0);
    }
    clock_gettime(CLOCK_MONOTONIC, &u);
    printf("%.9f\\n", (u.tv_sec - t.tv_sec + 1e-9 * (u.tv_nsec - t.tv_nsec)) / children);
    return 0; }
"""
)
_FAULTS = Event("perf::page-faults", 1, 2, kernel=True)
_WAYS: Mapping[str, Setup | None] = {
    "nothing": None,
    "inside: software metrics": Setup("none", 4_000_000, "monotonic", software=2, children=True),
    "inside: and a kernel event": Setup(
        "perf_event", 4_000_000, "monotonic", events=(_FAULTS,), software=2, children=True
    ),
    "outside: software metrics": Setup("none", 4_000_000, "monotonic", software=2, children=True, sampler="outside"),
}


def _milliseconds(program: Path, made_by: str, setup: Setup | None) -> float:
    """Return the time per child of one run of the program."""
    with tempfile.TemporaryDirectory() as folder:
        environment, prefix = {"PATH": os.environ["PATH"]}, []
        if setup is not None:
            record = Path(folder) / "record"
            create_record_file(record, setup)
            environment["UNPERTURBED_RECORD"] = str(record)
            prefix = [str(build_observer("gcc")), str(record)] if setup.sampler == "outside" else []
        command = [*prefix, str(program), made_by, str(_CHILDREN)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return 1e3 * float(done.stdout)


def main() -> None:
    """Measure and report."""
    description = __doc__.splitlines()[0] if __doc__ else ""
    arguments = parse_arguments(description, blocks=(30, "blocks"), seed=(1, "of the order and the bootstrap"))
    before, draw = host_state(), random.Random(arguments.seed)
    cases = [(made_by, way) for made_by in ("fork", "posix_spawn") for way in _WAYS]
    found: dict[tuple[str, str], list[float]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as name:
        program = compile_program(Path(name), _PROGRAM)
        for _ in range(5 if arguments.quick else arguments.blocks):
            for made_by, way in draw.sample(cases, len(cases)):
                found[made_by, way].append(_milliseconds(program, made_by, _WAYS[way]))
    deliver(_section({case: np.array(times) for case, times in found.items()}, arguments.seed), arguments, before)


def _section(found: Mapping[tuple[str, str], NDArray[np.float64]], seed: int) -> Section:
    rows = []
    for (made_by, way), times in found.items():
        middle, low, high = median_interval(times - found[made_by, "nothing"], seed)
        rows.append([made_by, way, f"{np.median(times):.2f}", f"{middle:+.2f}", f"[{low:+.2f}, {high:+.2f}]"])
    return Section(
        script="sampler_children",
        title="What counting a child process costs",
        method=(
            f"A program with 2 software metrics creates {_CHILDREN} children that do nothing, one after another, by "
            "fork or by posix_spawn of itself, and waits for each; "
            f"{len(next(iter(found.values())))} blocks in random order, medians of the differences within a block, "
            "with 95 % bootstrap intervals. A real counter takes as long to open as the kernel event; PAPI's own start "
            "is not included."
        ),
        tables=[Table("From creation to end", ["children made by", "counted", "ms a child", "more, ms", "95 %"], rows)],
        verdicts=[],
        data={f"{made_by}, {way}": times.tolist() for (made_by, way), times in found.items()},
    )


if __name__ == "__main__":
    main()
