"""What instrumentation costs, measured: instructions an event (callgrind), and text.

Run by hand: UNPERTURBED_SOURCES=<folder with an unpacked bzip2> python tests/instrument/measure_cost.py
"""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from unperturbed.instrument.events import Event, parse_event
from unperturbed.instrument.toolchain import Toolchain, write_toolchain

RUNTIME = Path(__file__).with_name("runtime.c")
OBJECTS = [
    f"{name}.o" for name in ("blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib", "bzip2")
]
CONFIGURATIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "runtime only": {},
    "two metrics": {"mainGtU": {"enter": "mainGtU"}, "nblock": {"write": "EState.nblock"}},
    "all enters and loops": {"enters": {"enter": "*"}, "loops": {"loop": "*"}},
}


def cpu_seconds(words: list[str], folder: Path) -> float:
    """Return user plus system time of a command and its children; it must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def toolchain(folder: Path, events: Mapping[str, Mapping[str, str]]) -> Toolchain:
    software: dict[str, Event] = {name: parse_event(event) for name, event in events.items()}
    return write_toolchain(folder, software, compilers={}, runtime=[RUNTIME])


def measure_program(source: Path, folder: Path) -> None:
    data = folder / "input"
    words = [f"{n * 2654435761 % 2**32:x}" for n in range(300)]
    data.write_text(" ".join(random.Random(1).choices(words, k=60_000)))
    make = ["make", "-s", "CFLAGS=-O2 -D_FILE_OFFSET_BITS=64", *OBJECTS]
    plain = cpu_seconds([*make, "CC=gcc"], copy_of(source, folder / "plain"))
    print(f"bzip2, plain build: {plain:.2f} s CPU")
    reference: tuple[int, int] | None = None
    for number, (name, events) in enumerate(CONFIGURATIONS.items()):
        compilers = toolchain(folder / f"toolchain{number}", events)
        build = copy_of(source, folder / f"build{number}")
        seconds = cpu_seconds([*make, f"CC={compilers.cc}"], build)
        subprocess.run([str(compilers.cc), "-O2", *OBJECTS, "-o", "program"], cwd=build, check=True)
        counts = folder / "counts"
        answer = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "./program", "-9", "-c", str(data)],
            cwd=build,
            check=True,
            capture_output=True,
            env={**os.environ, "COUNTS_FILE": str(counts)},
        )
        found = re.search(rb"Collected : (\d+)", answer.stderr)
        assert found is not None
        instructions = int(found[1])
        text = int(subprocess.run(["size", "program"], cwd=build, check=True, capture_output=True).stdout.split()[6])
        happened = sum(map(int, counts.read_text().split()))
        if reference is None:
            reference = instructions, text
        added = instructions - reference[0]
        each = f", {added / happened:.2f} an event" if happened else ""
        print(
            f"  {name}: {happened:,} events, {added:+,} instructions ({added / reference[0]:+.2%}{each}), "
            f"text {text / reference[1] - 1:+.2%}, build {seconds:.2f} s CPU ({seconds / plain:.2f} × plain)"
        )


def copy_of(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder)
    for stale in folder.glob("*.o"):
        stale.unlink()
    return folder


def main() -> int:
    sources = [
        path
        for path in sorted(Path(os.environ.get("UNPERTURBED_SOURCES", ".")).glob("bz*"))
        if (path / "blocksort.c").is_file()
    ]
    if not sources:
        print("UNPERTURBED_SOURCES must name a folder that holds an unpacked bzip2", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        measure_program(sources[0], Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
