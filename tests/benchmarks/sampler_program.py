"""The program that the benchmarks of the samplers measure.

One binary, with the runtime linked in and software counters in four translation units.

Without a record file in its environment the runtime sleeps, so that the same binary serves every variant. It does as
many turns as it is told, of some hundred microseconds each: additions all over a table of 4 MiB, two fresh pages, a
count at each site. It tells its own time and CPU time.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from unperturbed.collectors.runtime import BOUNDS, INCLUDE, runtime_files
from unperturbed.collectors.sources import Event

__all__ = ["EIGHT_EVENTS", "METRICS", "THREE_EVENTS", "UNITS", "build_program", "environment"]

UNITS = 4
"""Translation units that hold software counters."""
METRICS = 16
"""Software metrics; every unit has as many sites as the caller says for them."""

_SOFTWARE = 1  # PERF_TYPE_SOFTWARE: a host without a PMU has these, and the kernel reads them by the same path


def _events(*names: tuple[str, int]) -> tuple[Event, ...]:
    return tuple(Event(f"perf::{name}", _SOFTWARE, number, kernel=True) for name, number in names)


THREE_EVENTS = _events(("task-clock", 1), ("page-faults", 2), ("context-switches", 3))
EIGHT_EVENTS = _events(
    ("task-clock", 1),
    ("page-faults", 2),
    ("context-switches", 3),
    ("cpu-migrations", 4),
    ("minor-faults", 5),
    ("major-faults", 6),
    ("alignment-faults", 7),
    ("emulation-faults", 8),
)

_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <time.h>
#include <sys/mman.h>
void work0(void); void work1(void); void work2(void); void work3(void);
static uint64_t table[1 << 19];
uint64_t sum;
static uint64_t turn(uint64_t x)
{
    for (long i = 0; i < 120000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        table[x >> 45] += x;
    }
    char *fresh = mmap(0, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 2; i++)
        fresh[i * 4096] = (char)x;
    munmap(fresh, 2 * 4096);
    return x;
}
int main(int count, char **argument)
{
    long turns = count > 1 ? atol(argument[1]) : 100;
    struct timespec begin, end, before, after;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        table[i] = i;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < turns; i++) {
        sum = turn(sum);
        work0(); work1(); work2(); work3();
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    /* From 10^15 on, so that a longer time takes no more instructions to print. */
    fprintf(stderr, "ns %lld %lld\\n",
            1000000000000000LL + (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec,
            1000000000000000LL + (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec);
    return sum == 1;
}
"""

_UNIT = """
#include "unperturbed.h"
#define SITES {sites}
static uint64_t counts[SITES] __attribute__((section("unperturbed_sites"), used, aligned(64)));
static const uint32_t metric[SITES] = {{{metrics}}};
static struct unperturbed_table table = {{0, counts, metric, SITES, 1}};
static void __attribute__((constructor)) enrol(void) {{ unperturbed_register(&table); }}
void work{number}(void)
{{
    for (int i = 0; i < SITES; i++)
        ((volatile uint64_t *)counts)[i]++;
}}
"""


def build_program(folder: Path, *, sites: int = METRICS // UNITS) -> Path:
    """Compile the program with `sites` sites in each of its units, as the instrumenting compiler links one.

    Metrics come in turn.
    """
    texts = {"main.c": _MAIN}
    for number in range(UNITS):
        metrics = ",".join(str((number * sites + site) % METRICS) for site in range(sites))
        texts[f"unit{number}.c"] = _UNIT.format(sites=sites, metrics=metrics, number=number)
    for name, text in texts.items():
        (folder / name).write_text(text)
    target = folder / f"program{sites}"
    first, last = BOUNDS
    sources = [first, *(folder / name for name in texts), *runtime_files(), last]
    command = [
        "gcc",
        "-std=gnu11",
        "-O2",
        "-g",
        "-fPIC",
        "-DUNPERTURBED_EXECUTABLE",
        f"-I{INCLUDE}",
        *map(str, sources),
    ]
    subprocess.run([*command, "-o", str(target), "-ldl", "-lrt", "-lpthread"], check=True)
    return target


def environment(record: Path | None = None) -> dict[str, str]:
    """Return the environment of a run: the search path, and the record file that wakes a sampler."""
    given = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    return given | ({"UNPERTURBED_RECORD": str(record)} if record else {})
