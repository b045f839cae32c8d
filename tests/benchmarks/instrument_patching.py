"""What patching a configuration into a build costs: time by the number of places, and instructions per event.

    python tests/benchmarks/instrument_patching.py [--blocks 9] [--quick] [--json FILE] [--markdown]

A program with so many calls of one function is built with a no-op before each call. Patching switches the counting of
all calls on or off, so that every place changes; the list of places is read once for each build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from sampler_report import Section, Table, deliver, host_state, parse_arguments

from unperturbed.instrument.binaries.places import patch, read_places
from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.events import parse_event

_A_FUNCTION = 100
_ROUNDS = 100_000


def _build(folder: Path, places: int) -> Path:
    """Build `many`, which calls at each place `_ROUNDS` times, and `plain`, without places."""
    calls = "\n".join("    nothing(n);" for _ in range(_A_FUNCTION))
    functions = range(places // _A_FUNCTION)
    text = "__attribute__((noinline)) static void nothing(volatile long n) { (void)n; }\n"
    text += "\n".join(f"__attribute__((noinline)) void f{number}(long n) {{\n{calls}\n}}" for number in functions)
    called = " ".join(f"f{number}(i);" for number in functions)
    text += f"\nint main(void) {{ for (long i = 0; i < {_ROUNDS}; i++) {{ {called} }} return 0; }}\n"
    (folder / "many.c").write_text(text)
    software = {"calls": parse_event({"call": "nothing"})}
    tools = write_toolchain(folder / "tools", software, compilers={}, form="patchable")
    for compiler, name in ((str(tools.cc), "many"), ("gcc", "plain")):
        subprocess.run([compiler, "-O1", "many.c", "-o", name], cwd=folder, check=True)
    return folder / "many"


def _seconds(what: Callable[..., object], *arguments: object) -> float:
    begun = time.perf_counter()
    what(*arguments)
    return time.perf_counter() - begun


def _instructions(program: Path) -> int:
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={program}.out", str(program)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    (count,) = re.findall(r"Collected : (\d+)", told)
    return int(count)


def main() -> None:
    """Build, measure and report."""
    arguments = parse_arguments(__doc__ or "", blocks=(9, "repetitions of each timing"))
    before, rows, data = host_state(), [], {}
    per_event: list[list[str]] = []
    for places in (100, 10_000) if arguments.quick else (100, 10_000, 100_000):
        with tempfile.TemporaryDirectory() as name:
            program = _build(Path(name), places)
            found = read_places(program)
            if len(found) != places:
                raise SystemExit(f"the program has {len(found)} places, not {places}")
            times: dict[str, list[float]] = {"read": [], "patch": [], "copy": []}
            for block in range(arguments.blocks):
                times["read"].append(_seconds(read_places, program))
                times["patch"].append(_seconds(patch, program, found, [0] if block % 2 == 0 else []))
                times["copy"].append(_seconds(shutil.copy2, program, f"{program}.copy"))
            size = program.stat().st_size
            if not per_event:
                patch(program, found, [])
                plain, ready = _instructions(program.with_name("plain")), _instructions(program)
                patch(program, found, [0])
                counted, events = _instructions(program), places * _ROUNDS
                per_event = [
                    ["ready: a no-op at every place", f"{ready:,}", f"{(ready - plain) / events:.4f}"],
                    ["patched: every place counts", f"{counted:,}", f"{(counted - plain) / events:.4f}"],
                ]
        data[str(places)] = times
        rows.append([f"{places:,}", f"{size / 1e6:.1f}", *(f"{1000 * median(each):,.1f}" for each in times.values())])
    heads = ["places", "size of the file, MB", "reading the list, ms", "patching, ms", "copying the file, ms"]
    section = Section(
        script="instrument_patching",
        title="What patching a build costs",
        method=(
            f"Calls of an empty function, {_A_FUNCTION} in each function, are counted by one metric. Every place "
            f"changes at each patching; medians of {arguments.blocks}. Instructions are callgrind's, of {_ROUNDS:,} "
            "executions of 100 places, above those of the program as gcc builds it."
        ),
        tables=[
            Table("Time", heads, rows),
            Table("Instructions", ["build", "instructions", "added per event"], per_event),
        ],
        verdicts=[],
        data=data,
    )
    deliver(section, arguments, before)


if __name__ == "__main__":
    main()
