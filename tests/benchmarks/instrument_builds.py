"""What the instrumenting compiler costs a build, and what it costs a source that holds nothing to count.

    python tests/benchmarks/instrument_builds.py [--files 100] [--pairs 5] [--quick]

Builds a generated project through the toolchain and plainly, by turns, and takes the medians of the pairs' ratios. What a source costs that is
passed over is measured with a compiler that ends at once, so that the compiler's own noise does not hide it.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unperturbed.instrument.events import parse_event
from unperturbed.instrument.toolchain import Toolchain, write_toolchain

MOST_BUILD_RATIO = 2.5
MOST_PASSED_MS = 5.0
HEADERS = 60

CONFIGURATIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "nothing selected": {},
    "one file selected": {"m": {"enter": "part7_3"}},
    "a function that all include and 5 define or call": {"m": {"call": "shared"}},
    "everything selected": {"m": {"enter": "part*"}, "l": {"loop": "*"}},
}

_STUB = r"""
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    for (int index = 1; index < count; index++)
        if (!strcmp(words[index], "-E") || !strcmp(words[index], "-fsyntax-only"))
            return execvp(words[0] = strstr(words[0], "++") ? "g++" : "gcc", words);
    return 0;
}
"""

SOURCES: Mapping[str, str] = {
    "three headers of C.c": '#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint f(int n) { return printf("%d", n); }\n',
    f"{HEADERS} headers of its own.c": "".join(f'#include "own{n}.h"\n' for n in range(HEADERS))
    + "int f(int n) { return own1(n); }\n",
    "includes and calls the selected function.c": '#include "own0.h"\nint f(int n) { if (selected(n)) return selected(2); return 1; }\n',
    "many headers of C++.cc": "".join(
        f"#include <{name}>\n" for name in ("iostream", "map", "vector", "string", "algorithm", "regex", "thread")
    ),
}
"""Name of a source → its text. The first part of each name says what is measured."""


@dataclass(frozen=True)
class Cost:
    """Seconds of a build."""

    wall: float
    cpu: float


def build(folder: Path, compiler: str) -> Cost:
    """Build the project anew; it must succeed."""
    subprocess.run(["make", "-s", "clean"], cwd=folder, check=True)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(["make", "-s", "CFLAGS=-O2 -Wall", f"CC={compiler}", "all"], cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def write_project(folder: Path, files: int) -> None:
    """Write a project of many middling files."""
    body = "\n".join(
        f"int part{{0}}_{k}(int n) {{{{ int s = {k};\n"
        f"  for (int i = 0; i < n; i++) {{{{ if (i % 3) s += i * {k}; else s ^= (int)strlen(names[i & 3]); }}}}\n"
        f'  printf("%d", s); return s; }}}}'
        for k in range(20)
    )
    head = '#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include "shared.h"\nstatic const char *names[] = {"a", "b", "c", "d"};\n'
    folder.mkdir()
    (folder / "shared.h").write_text("/* What all parts share. */\nextern int shared(int n) __attribute__((pure));\n")
    for n in range(files):
        own = (
            "int shared(int n) { return n; }\n"
            if n == 0
            else f"int calling{n}(int n) {{ return shared(n); }}\n"
            if n < 5
            else ""
        )
        (folder / f"f{n}.c").write_text(head + body.format(n) + "\n" + own)
    objects = " ".join(f"f{n}.o" for n in range(files))
    (folder / "Makefile").write_text(f"all: {objects}\nclean:\n\trm -f *.o\n")


def toolchain(folder: Path, software: Mapping[str, Mapping[str, str]], compilers: Mapping[str, str] | None = None) -> Toolchain:
    """Write a toolchain without a runtime: only compiling is measured."""
    return write_toolchain(folder, {name: parse_event(event) for name, event in software.items()}, compilers=compilers or {})


def measure_builds(folder: Path, files: int, pairs: int) -> bool:
    """Print the builds' ratios; return whether they keep the bound."""
    project = folder / "project"
    write_project(project, files)
    print(
        f"build of {files} files, {pairs} pairs of builds, median of the ratios (and largest); CPU time of the plain build: ",
        end="",
    )
    print(f"{build(project, 'gcc').cpu / files * 1e3:.0f} ms a file")
    kept = True
    for number, (name, software) in enumerate(CONFIGURATIONS.items()):
        compiler = str(toolchain(folder / f"toolchain{number}", software).cc)
        taken = [(build(project, "gcc"), build(project, compiler)) for _ in range(pairs)]
        wall = [ours.wall / plain.wall for plain, ours in taken]
        cpu = [ours.cpu / plain.cpu for plain, ours in taken]
        added = statistics.median(ours.wall - plain.wall for plain, ours in taken) / files * 1e3
        print(
            f"  {name}: {statistics.median(wall):.2f} x wall ({max(wall):.2f}), {statistics.median(cpu):.2f} x CPU ({max(cpu):.2f}), "
            f"{added:+.1f} ms a file; bound {MOST_BUILD_RATIO} x"
        )
        kept &= statistics.median(wall) <= MOST_BUILD_RATIO
    return kept


def run(words: Sequence[str]) -> Cost:
    """Run a command, which must succeed."""
    start = time.perf_counter()
    _, status, usage = os.wait4(os.posix_spawn(words[0], words, os.environ), 0)
    if status:
        raise SystemExit(f"{' '.join(words)} failed")
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime)


def measure_sources(folder: Path, repetitions: int) -> bool:
    """Print what sources cost that are passed over; return whether they keep the bound."""
    stubs = {name: folder / file for name, file in (("cc", "stub"), ("cxx", "stub++"))}
    (folder / "stub.c").write_text(_STUB)
    for stub in stubs.values():
        subprocess.run(["gcc", "-O2", "stub.c", "-o", str(stub)], cwd=folder, check=True)
    chain = toolchain(folder / "stubbed", {"m": {"enter": "selected"}}, {name: str(path) for name, path in stubs.items()})
    for n in range(HEADERS):
        (folder / f"own{n}.h").write_text(f"#pragma once\n#include <stddef.h>\nint selected(int n);\nint own{n}(int n);\n")
    os.chdir(folder)
    print(f"a source that is passed over, added to its compilation, median of {repetitions} pairs of runs:")
    kept = True
    for number, (name, text) in enumerate(SOURCES.items()):
        label, _, ending = name.rpartition(".")
        source = f"source{number}.{ending}"
        (folder / source).write_text(text)
        role = "cxx" if ending == "cc" else "cc"
        ours, plain = [str(getattr(chain, role)), "-O2", "-c", source], [str(stubs[role]), "-O2", "-c", source]
        for _ in range(2):  # the first teaches the compiler's folders, the second the system's headers
            run(ours)
        before = (chain.folder / "sites" / "passed").stat().st_size
        pairs = [(run(plain), run(ours)) for _ in range(repetitions)]
        if (chain.folder / "sites" / "passed").stat().st_size == before:
            raise SystemExit(f"{label}: this source was not passed over")
        wall, cpu = (
            1e3 * statistics.median(getattr(ours, what) - getattr(plain, what) for plain, ours in pairs)
            for what in ("wall", "cpu")
        )
        print(f"  {label}: {wall:.2f} ms wall, {cpu:.2f} ms CPU; bound {MOST_PASSED_MS:.0f} ms")
        kept &= wall <= MOST_PASSED_MS
    return kept


def main() -> int:
    """Measure and print; the exit code tells whether the bounds hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a short run, to see that everything works")
    arguments = parser.parse_args()
    files, pairs, repetitions = (10, 1, 10) if arguments.quick else (arguments.files, arguments.pairs, 100)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kept = [measure_sources(folder, repetitions), measure_builds(folder, files, pairs)]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
