"""What counting a library function's calls costs.

Nanoseconds and instructions a call, plain and exact, beside a wrapper written in C.

    python tests/benchmarks/instrument_preload.py [--blocks 30] [--seed 1] [--quick] [--json FILE]

A function of a shared library that does nothing is called in a loop, in a process of its own for each library that is
preloaded, in random order, under the outside sampler: what it read must be the number of calls.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from counting_cost import added_in_blocks, median_interval, run_observed
from numpy.typing import NDArray
from sampler_report import Section, Table, deliver, host_state, parse_arguments

from unperturbed.collectors.runtime import build_interposer, build_preload
from unperturbed.errors import RunError
from unperturbed.instrument.binaries.interposition import Interposed, interposer_source

_CALLS = 20_000_000
_SIMULATED_CALLS = 1_000_000

_LIBRARY = "long nothing(long a) { return a; }"
_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
long nothing(long a);
int main(int count, char **argument)
{
    struct timespec begin, end;
    long calls = count > 1 ? atol(argument[1]) : 0, sum = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long call = 0; call < calls; call++)
        sum += nothing(call);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%lld\\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
    return sum == 1;
}
"""
_WRAPPER = """
#define _GNU_SOURCE
#include <dlfcn.h>
static long own, (*next)(long);
long nothing(long a) { if (!next) *(void **)&next = dlsym(RTLD_NEXT, "nothing"); own++; return next(a); }
"""
_WAYS = ("none again", "plain", "exact", "two metrics", "wrapper in C, dlsym once")


def _build(folder: Path) -> tuple[Path, dict[str, Path]]:
    for name, text, flags in (
        ("libnothing.so", _LIBRARY, ["-shared", "-fPIC"]),
        ("wrapper.so", _WRAPPER, ["-shared", "-fPIC"]),
        ("program", _PROGRAM, [str(folder / "libnothing.so"), f"-Wl,-rpath,{folder}"]),
    ):
        (folder / f"{name}.c").write_text(text)
        subprocess.run(["gcc", "-O2", str(folder / f"{name}.c"), *flags, "-o", str(folder / name), "-ldl"], check=True)
    plain, exact = Interposed("nothing"), Interposed("nothing", exact=True)
    chosen = {"plain": {0: plain}, "exact": {0: exact}, "two metrics": {0: plain, 1: plain}}
    libraries = {way: build_interposer("gcc", interposer_source(functions)) for way, functions in chosen.items()}
    return folder / "program", {**libraries, "wrapper in C, dlsym once": folder / "wrapper.so"}


def _run(program: Path, library: Path | None, counts: bool, folder: Path) -> float:
    """Return ns a call."""
    preload = ":".join(map(str, [build_preload("gcc"), *([library] if library else [])]))
    printed, counted = run_observed(
        [str(program), str(_CALLS)], folder, software=2, environment={"UNPERTURBED_PRELOAD": preload}
    )
    if counts and counted != _CALLS:
        raise RunError(f"{library}: {_CALLS} calls, {counted} counted")
    return int(printed) / _CALLS


def _instructions(program: Path, library: Path | None, folder: Path) -> float:
    """Return instructions a call, as callgrind counts them, less those of a run without calls."""
    total = []
    for calls in (0, _SIMULATED_CALLS):
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", str(program), str(calls)]
        environment = {"PATH": "/usr/bin:/bin", **({"LD_PRELOAD": str(library)} if library else {})}
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
        found = re.search(r"Collected : (\d+)", said)
        if found is None:
            raise RunError(f"callgrind told no count:\n{said}")
        total.append(int(found[1]))
    return (total[1] - total[0]) / _SIMULATED_CALLS


def _measure(
    program: Path, libraries: Mapping[str, Path], blocks: int, seed: int, folder: Path
) -> dict[str, NDArray[np.float64]]:
    """Return what counting adds to a call [ns], one value a block, by way."""

    def of(way: str) -> float:
        alone = _run(program, None, False, folder)
        counts = way in ("plain", "exact", "two metrics")
        return _run(program, libraries.get(way), counts, folder) - alone

    return added_in_blocks(_WAYS, of, blocks, seed)


def main() -> None:
    """Measure and report."""
    description = __doc__.splitlines()[0] if __doc__ else ""
    arguments = parse_arguments(description, blocks=(30, "blocks"), seed=(1, "of the order and the bootstrap"))
    before = host_state()
    with tempfile.TemporaryDirectory() as name:
        program, libraries = _build(Path(name))
        added = _measure(program, libraries, 5 if arguments.quick else arguments.blocks, arguments.seed, Path(name))
        instructions = (
            {way: _instructions(program, libraries.get(way), Path(name)) for way in _WAYS}
            if shutil.which("valgrind")
            else {}
        )
    deliver(_section(added, instructions, arguments.seed), arguments, before)


def _section(added: Mapping[str, NDArray[np.float64]], instructions: Mapping[str, float], seed: int) -> Section:
    rows = []
    for way in _WAYS:
        middle, low, high = median_interval(added[way], seed)
        more = f"{instructions[way] - instructions['none again']:+.2f}" if instructions else "–"
        rows.append([way, f"{middle:+.2f}", f"[{low:+.2f}, {high:+.2f}]", more])
    return Section(
        script="instrument_preload",
        title="What counting a library function's calls costs",
        method=(
            f"A library's function that returns its argument is called {_CALLS:,} times in a process of its "
            f"own under the outside sampler; "
            f"{len(added['plain'])} blocks in random order, medians of the differences with 95 % bootstrap "
            f"intervals. What the sampler read was the "
            "number of calls. Instructions are callgrind's."
        ),
        tables=[Table("Added to each call", ["counted", "ns", "95 %", "instructions"], rows)],
        verdicts=[],
        data={"added_ns": {way: values.tolist() for way, values in added.items()}, "instructions": dict(instructions)},
    )


if __name__ == "__main__":
    main()
