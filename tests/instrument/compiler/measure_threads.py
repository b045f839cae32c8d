"""What threads cost counters, measured.

Nanoseconds an event and counts lost, plain and exact, alone and where all threads meet at one site.

Beside them what else could count exactly: a thread's own word, found by the segment register in a program and by a call
in a library.

Run by hand: python tests/instrument/compiler/measure_threads.py [THREADS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.events import parse_event

RUNTIME = Path(__file__).parents[1] / "runtime.c"
EVENTS = 50_000_000
REPEATS = 5

TEXT = f"""\
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static void hit(void) {{ OWN __asm__ volatile("" ::: "memory"); }}
static void *work(void *unused) {{ for (long i = 0; i < {EVENTS}; i++) hit(); return unused; }}
static double seconds(void) {{ struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }}
int main(int count, char **argument) {{
    int threads = atoi(argument[count - 1]);
    pthread_t thread[64];
    double began = seconds();
    for (int i = 0; i < threads; i++) pthread_create(&thread[i], 0, work, 0);
    for (int i = 0; i < threads; i++) pthread_join(thread[i], 0);
    printf("%.9f\\n", (seconds() - began) / {EVENTS} * 1e9);
    return 0;
}}
"""
OWN_WORD = "static __thread unsigned long own;\n" + TEXT.replace("OWN", '__asm__ volatile("incq %0" : "+m"(own));')
"""A counter of each thread's own, as it would stand in a program, or in a library, where it takes a call to find it."""


def run(program: Path, threads: int) -> tuple[float, int]:
    """Return the least time an event [ns] and the events counted in that run."""
    found = []
    counts = program.with_suffix(".counts")
    for _ in range(REPEATS):
        counts.unlink(missing_ok=True)
        done = subprocess.run(
            [str(program), str(threads)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "COUNTS_FILE": str(counts)},
        )
        found.append((float(done.stdout), int(counts.read_text().split()[0]) if counts.exists() else 0))
    return min(found)


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "prog.c").write_text(TEXT.replace("OWN", ""))
        programs = {"no counter": folder / "bare"}
        subprocess.run(["gcc", "-O2", "-pthread", str(folder / "prog.c"), "-o", str(folder / "bare")], check=True)
        for kind in ("plain", "exact"):
            event = parse_event({"enter": "hit", "threads": kind})
            compilers = write_toolchain(folder / f"{kind}.toolchain", {"hit": event}, compilers={}, runtime=[RUNTIME])
            programs[kind] = folder / kind
            words = [str(compilers.cc), "-O2", "-pthread", str(folder / "prog.c"), "-o", str(programs[kind])]
            subprocess.run(words, check=True)
        (folder / "own.c").write_text(OWN_WORD)
        (folder / "main.c").write_text("int begin(int, char **); int main(int c, char **v) { return begin(c, v); }\n")
        for words in (
            ["own.c", "-o", "own"],
            ["-Dmain=begin", "-fPIC", "-shared", "own.c", "-o", "libown.so"],
            ["main.c", "-L.", "-lown", "-Wl,-rpath,$ORIGIN", "-o", "shared"],
        ):
            subprocess.run(["gcc", "-O2", "-pthread", *words], cwd=folder, check=True)
        programs |= {"a thread's own word, in a program": folder / "own", "the same in a library": folder / "shared"}
        for among in sorted({1, threads}):
            base, _ = run(programs["no counter"], among)
            for kind, program in programs.items():
                if kind == "no counter":
                    continue
                each, counted = run(program, among)
                lost = f", {1 - counted / (EVENTS * among):.2%} lost" if counted else ""
                print(f"{among} thread(s), {kind}: {each - base:+.2f} ns an event of each thread{lost}")


if __name__ == "__main__":
    main()
