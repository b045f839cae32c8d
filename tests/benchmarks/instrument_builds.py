"""What the instrumenting compiler costs a build, and what it costs a source that holds nothing to count.

    python tests/benchmarks/instrument_builds.py [--files 100] [--pairs 5] [--quick] [--json FILE] [--markdown]

Builds a generated project through the toolchain and plainly, by turns, and takes the medians of the pairs' ratios. What
a source costs that is passed over is measured with a compiler that ends at once, so that the compiler's own noise does
not hide it.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sampler_report import Section, Table, deliver, host_state, parse_arguments

from unperturbed.instrument.compiler.toolchain import Toolchain, write_toolchain
from unperturbed.instrument.events import parse_event

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
    subprocess.run(
        ["make", "-s", "CFLAGS=-O2 -Wall", f"CC={compiler}", "all"], cwd=folder, check=True, capture_output=True
    )
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


def toolchain(
    folder: Path, software: Mapping[str, Mapping[str, str]], compilers: Mapping[str, str] | None = None
) -> Toolchain:
    """Write a toolchain without a runtime: only compiling is measured."""
    return write_toolchain(
        folder, {name: parse_event(event) for name, event in software.items()}, compilers=compilers or {}
    )


def measure_builds(folder: Path, files: int, pairs: int) -> dict[str, list[tuple[Cost, Cost]]]:
    """Return, for each configuration, the costs of builds by turns: plainly, and through the toolchain."""
    project = folder / "project"
    write_project(project, files)
    build(project, "gcc")
    found = {}
    for number, (name, software) in enumerate(CONFIGURATIONS.items()):
        compiler = str(toolchain(folder / f"toolchain{number}", software).cc)
        found[name] = [(build(project, "gcc"), build(project, compiler)) for _ in range(pairs)]
    return found


def run(words: Sequence[str]) -> Cost:
    """Run a command, which must succeed."""
    start = time.perf_counter()
    _, status, usage = os.wait4(os.posix_spawn(words[0], words, os.environ), 0)
    if status:
        raise SystemExit(f"{' '.join(words)} failed")
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime)


def measure_sources(folder: Path, repetitions: int) -> dict[str, list[tuple[Cost, Cost]]]:
    """Return, for each source that is passed over, the costs of compiling it by turns.

    Plainly, and through the toolchain.
    """
    stubs = {name: folder / file for name, file in (("cc", "stub"), ("cxx", "stub++"))}
    (folder / "stub.c").write_text(_STUB)
    for stub in stubs.values():
        subprocess.run(["gcc", "-O2", "stub.c", "-o", str(stub)], cwd=folder, check=True)
    chain = toolchain(
        folder / "stubbed", {"m": {"enter": "selected"}}, {name: str(path) for name, path in stubs.items()}
    )
    for n in range(HEADERS):
        (folder / f"own{n}.h").write_text(
            f"#pragma once\n#include <stddef.h>\nint selected(int n);\nint own{n}(int n);\n"
        )
    found = {}
    for number, (name, text) in enumerate(SOURCES.items()):
        label, _, ending = name.rpartition(".")
        source = folder / f"source{number}.{ending}"
        source.write_text(text)
        role = "cxx" if ending == "cc" else "cc"
        ours, plain = (
            [str(getattr(chain, role)), "-O2", "-c", str(source)],
            [str(stubs[role]), "-O2", "-c", str(source)],
        )
        for _ in range(2):  # the first teaches the compiler's folders, the second the system's headers
            run(ours)
        before = (chain.folder / "sites" / "passed").stat().st_size
        found[label] = [(run(plain), run(ours)) for _ in range(repetitions)]
        if (chain.folder / "sites" / "passed").stat().st_size == before:
            raise SystemExit(f"{label}: this source was not passed over")
    return found


def main() -> int:
    """Measure and report; the exit code tells whether the bounds hold."""
    arguments = parse_arguments(
        __doc__.splitlines()[0] if __doc__ else "", files=(100, "sources of the project"), pairs=(5, "builds by turns")
    )
    before = host_state()
    files, pairs, repetitions = (10, 1, 10) if arguments.quick else (arguments.files, arguments.pairs, 100)
    with tempfile.TemporaryDirectory() as name:
        sources = measure_sources(Path(name), repetitions)
        builds = measure_builds(Path(name), files, pairs)
    slowest = max(_median(ours.wall / plain.wall for plain, ours in found) for found in builds.values())
    dearest = max(1e3 * _median(ours.wall - plain.wall for plain, ours in found) for found in sources.values())
    section = Section(
        script="instrument_builds",
        title="The compiler wrapper",
        method=(
            f"A generated project of {files} C files is built plainly and through the toolchain by turns, "
            f"{pairs} pairs, at -O2 -Wall; medians "
            f"of the pairs' ratios. A source that is passed over is compiled {repetitions} times each way by "
            f"a compiler that ends at once, "
            "so that the compiler's own noise does not hide what is added."
        ),
        tables=[_build_table(builds, files), _source_table(sources)],
        verdicts=[
            f"The slowest build takes {slowest:.2f} × the plain one in the median (bound {MOST_BUILD_RATIO}); "
            f"{_holds(slowest <= MOST_BUILD_RATIO)}.",
            f"A source that is passed over costs {dearest:.2f} ms at most (bound {MOST_PASSED_MS:.0f}); "
            f"{_holds(dearest <= MOST_PASSED_MS)}.",
        ],
        data={"builds_s": _plain(builds), "sources_s": _plain(sources)},
    )
    deliver(section, arguments, before)
    return 0 if slowest <= MOST_BUILD_RATIO and dearest <= MOST_PASSED_MS else 1


def _build_table(builds: Mapping[str, Sequence[tuple[Cost, Cost]]], files: int) -> Table:
    rows = []
    for name, found in builds.items():
        wall, cpu = ([getattr(ours, what) / getattr(plain, what) for plain, ours in found] for what in ("wall", "cpu"))
        rows.append(
            [
                name,
                f"{_median(wall):.2f} × (largest {max(wall):.2f})",
                f"{_median(cpu):.2f} ×",
                f"{1e3 * _median(plain.wall for plain, _ in found) / files:.1f}",
                f"{1e3 * _median(ours.wall - plain.wall for plain, ours in found) / files:+.1f}",
            ]
        )
    return Table(
        f"Builds of {files} files beside the plain build",
        ["selected", "by the clock", "CPU time", "plain, ms a file", "added, ms a file"],
        rows,
    )


def _source_table(sources: Mapping[str, Sequence[tuple[Cost, Cost]]]) -> Table:
    rows = [
        [
            name,
            *(
                f"{1e3 * _median(getattr(ours, what) - getattr(plain, what) for plain, ours in found):.2f}"
                for what in ("wall", "cpu")
            ),
        ]
        for name, found in sources.items()
    ]
    return Table("Added to a source that is passed over", ["source", "by the clock, ms", "CPU time, ms"], rows)


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _holds(good: bool) -> str:
    return "it holds" if good else "it does not hold"


def _plain(found: Mapping[str, Sequence[tuple[Cost, Cost]]]) -> dict[str, list[dict[str, dict[str, float]]]]:
    return {
        name: [{"plain": vars(plain), "ours": vars(ours)} for plain, ours in pairs] for name, pairs in found.items()
    }


if __name__ == "__main__":
    sys.exit(main())
