"""Whether intervals of simulated work hold the same work in all runs, also where programs make many system calls.

    python docs/evidence/work_intervals.py [--runs 6] [--busy 4] [--programs NAME …]

Runs each program against itself by `unperturbed compare`, alone and beside busy processes, and compares where the
intervals of the two runs of each round end. Writes docs/evidence/work_intervals.md beside itself.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the experiments are not installed

import unperturbed as up
from experiments.common.load import busy_beside
from experiments.common.provenance import made_by

HERE = Path(__file__).parent

_MADE = """
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static volatile unsigned long work;
static volatile unsigned char *memory;
static void busy(int turns) { for (int i = 0; i < turns; i++) work += i; }
static void miss(int turns) { static unsigned at; while (turns--) memory[(at = at * 1664525u + 1013904223u) >> 6]++; }
static int part;
static void *share(void *unused) {
    for (int own; (own = __atomic_fetch_add(&part, 1, __ATOMIC_RELAXED)) < 6000;)
        if (own / 500 % 2) miss(1000); else busy(1000 + own % 7);
    return unused;
}
static void *brief(void *unused) { busy(20000); return unused; }
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long turn;
static void *turns(void *own) {
    for (int i = 0; i < 3000; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != (long)own) pthread_cond_wait(&changed, &mutex);
        busy(1000);
        turn = !(long)own;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return 0;
}
int main(void) {
    pthread_t threads[2];
    int fd = open("/dev/null", O_WRONLY);
    memory = malloc(64 << 20);
    WORK
    return fd < 0;
}
"""
_PROGRAMS = {
    "no system call": "busy(12000000);",
    "a `write` in 10,000 blocks": "for (int i = 0; i < 600; i++) { busy(10000 + i % 7); write(fd, &fd, 1); }",
    "a `write` in 1,000 blocks": "for (int i = 0; i < 6000; i++) { busy(1000 + i % 7); write(fd, &fd, 1); }",
    "a `write` in 40 blocks": "for (int i = 0; i < 150000; i++) { busy(40 + i % 7); write(fd, &fd, 1); }",
    "the same, in phases of other speeds": "for (int i = 0; i < 20000; i++) "
    "{ if (i / 1000 % 2) miss(200); else busy(200); write(fd, &fd, 1); }",
    "two threads that share the work": "for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, share, 0); "
    "for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);",
    "400 threads, one after the other": "for (int i = 0; i < 400; i++) "
    "{ pthread_create(&threads[0], 0, brief, 0); pthread_join(threads[0], 0); }",
    "two threads in turn, every 1,000 blocks": "for (long i = 0; i < 2; i++) "
    "pthread_create(&threads[i], 0, turns, (void *)i); for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);",
}
_SUMS = "{ sum[$1 % 97] += $1 } END { for (key in sum) print key, sum[key] }"
_REAL = {
    "sort": ["sort", "-n", "--parallel=1"],  # one thread: the turns of several differ from run to run
    "gzip": ["gzip", "-c"],
    "od": ["od", "-x"],
    "awk": ["awk", _SUMS],
    "xz, two threads": ["xz", "-T2", "--block-size=64KiB", "-0", "-c"],
}
_LINES = 30_000


def main() -> None:
    """Run the campaigns and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--busy", type=int, default=4, help="processes beside the second set of campaigns")
    parser.add_argument("--programs", nargs="*", default=[*_PROGRAMS, *_REAL])
    arguments, made = parser.parse_args(), made_by()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        digits = random.Random(1)
        (folder / "lines.txt").write_text("".join(f"{digits.randrange(10**9)}\n" for _ in range(_LINES)))
        for program in arguments.programs:
            command = _command(folder, program)
            for busy in (0, arguments.busy):
                with busy_beside(busy):
                    rows.append(_row(folder, program, command, busy, arguments.runs))
                print(rows[-1], file=sys.stderr)
    page = _PAGE.format(runs=arguments.runs, rows="\n".join(rows), made=made)
    (HERE / "work_intervals.md").write_text(page)


def _command(folder: Path, program: str) -> list[str]:
    """Return a program's command line, after compiling it if it is one of those above."""
    if program in _REAL:
        return [*_REAL[program], str(folder / "lines.txt")]
    source, target = folder / "program.c", folder / "program"
    source.write_text(_MADE.replace("WORK", _PROGRAMS[program]))
    subprocess.run(["gcc", "-O1", "-w", "-pthread", "-o", target, source], check=True)
    return [str(target)]


def _row(folder: Path, program: str, command: list[str], busy: int, runs: int) -> str:
    campaign = folder / f"{len([*folder.iterdir()])}"
    options = ["--source", "simulated", "--metrics", "PAPI_TOT_INS", "--runs", str(runs), "--no-check"]
    words = ["compare", *options, "--campaign", str(campaign), "--name", campaign.name]
    done = subprocess.run(
        [sys.executable, "-m", "unperturbed.harness.cli", *words, "--", *command, "--", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    traces = up.load(campaign)
    first = {run.attributes["block"]: run for run in traces["baseline"]}
    (other,) = (name for name in traces if name != "baseline")
    apart, intervals = [], []
    for run in traces[other]:
        both = [np.cumsum(each["PAPI_TOT_INS"])[:-1] for each in (run, first[run.attributes["block"]])]
        common = min(map(len, both))
        length = statistics.median(np.diff(both[0]))
        apart.append(np.abs(both[0][:common] - both[1][:common]) / length)
        intervals += [len(run), len(first[run.attributes["block"]])]
    ends = np.concatenate(apart)
    held = f"{min(intervals)}" if min(intervals) == max(intervals) else f"{min(intervals)}–{max(intervals)}"
    shown = f"{np.median(ends):.3f} | {np.quantile(ends, 0.95):.3f} | {ends.max():.3f}"
    return f"| {program} | {busy or '–'} | {held} | {shown} |"


_PAGE = """\
# Intervals of simulated work in equal runs

Intervals of work end after equally many basic blocks of the program. valgrind delivers the sampler's ticks at the end
of a quantum and at system calls that may wait; each tick executes blocks too, and how many come depends on the host. So
do equal runs have the same intervals?

Each program ran {runs} times against itself (`unperturbed compare`), alone and beside busy processes. *Apart*: the
distance between the ends of an interval in the two runs of a round, in intervals. The programs above `sort` are made
for this page. The others are Debian's, on a file of numbers. Threads that share work have other turns in each run.

**What changed on this page, and why.** Since 30 November each thread has ticks of its own. Before, those of the main
thread ended the intervals of all. While it waited, they came late, and later on a busy host: runs of two threads that
share their work had 13 to 23 intervals instead of 61, and those of lz4 1.10 136 to 386, now 195 or 196. Two threads
that take turns every 1,000 blocks had 62 to 67 intervals, at most 2.2 apart: where ticks at the ends of quanta are few,
those of the main thread count again, but only once this has been seen.

| program | busy processes beside it | intervals a run | apart: median | 95 % below | largest |
|---|---|---|---|---|---|
{rows}

{made}
"""


if __name__ == "__main__":
    main()
