"""What threads cost counters, measured.

Nanoseconds an event and counts lost, plain, exact and of each thread, alone and where all threads meet at one site.

Beside them the counters of each thread (`measure: threads: each`), in a program and in a library. The runtime of these
tests reads those of the main thread alone, so that what they lose is not seen here.

Run by hand: python tests/instrument/compiler/measure_threads.py [THREADS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
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
static void hit(void) {{ __asm__ volatile("" ::: "memory"); }}
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
        (folder / "prog.c").write_text(TEXT)
        programs = {"no counter": folder / "bare"}
        subprocess.run(["gcc", "-O2", "-pthread", str(folder / "prog.c"), "-o", str(folder / "bare")], check=True)
        for kind in ("plain", "exact", "each"):
            event = parse_event({"enter": "hit"} if kind == "each" else {"enter": "hit", "threads": kind})
            event = replace(event, threads=kind)  # `each` is for all metrics of a campaign, and no key of an event
            compilers = write_toolchain(folder / f"{kind}.toolchain", {"hit": event}, compilers={}, runtime=[RUNTIME])
            programs[kind] = folder / kind
            words = [str(compilers.cc), "-O2", "-pthread", str(folder / "prog.c")]
            subprocess.run([*words, "-o", str(programs[kind])], check=True)
            if kind == "each":
                library = ["-Dmain=begin", "-fPIC", "-shared", "-o", str(folder / "libprog.so")]
                subprocess.run([*words, *library], check=True)
        (folder / "main.c").write_text("int begin(int, char **); int main(int c, char **v) { return begin(c, v); }\n")
        linking = ["main.c", "-L.", "-lprog", "-Wl,-rpath,$ORIGIN", "-o", "shared"]
        subprocess.run(["gcc", "-O2", "-pthread", *linking], cwd=folder, check=True)
        programs["each, in a library"] = folder / "shared"
        for among in sorted({1, threads}):
            base, _ = run(programs["no counter"], among)
            for kind, program in programs.items():
                if kind == "no counter":
                    continue
                each, counted = run(program, among)
                lost = f", {1 - counted / (EVENTS * among):.2%} lost" if counted and not kind.startswith("each") else ""
                print(f"{among} thread(s), {kind}: {each - base:+.2f} ns an event of each thread{lost}")


if __name__ == "__main__":
    main()
