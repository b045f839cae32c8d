"""Programs with the inside sampler, what they are told to count, and what is read of them.

Counts come from the kernel's software events, which are there on every host: a page touched is a page fault.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collectors.runtime.programs import BUSY, sample
from unperturbed.collectors.data import Metric
from unperturbed.collectors.records.assemble import assemble, milestone
from unperturbed.collectors.records.counts import threads
from unperturbed.collectors.records.file import Records, Setup
from unperturbed.collectors.sources import Event, Pass

FAULTS = Event("perf::page-faults", 1, 2, kernel=True)
TASK_CLOCK = Event("perf::task-clock", 1, 1, kernel=True)
EVENTS = (FAULTS, TASK_CLOCK)
METRICS = tuple(Metric(event.name, "os", source="perf_event") for event in EVENTS)
COLLECTED = Pass("main", "perf_event", METRICS, EVENTS)

TOUCH = """
#include <stdlib.h>
#include <sys/mman.h>
static void touch(long pages) {
    for (long i = 0; i < pages; i++) {
        char *p = (char *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p[0] = 1; munmap(p, 4096);
        if (i % 50 == 0) busy(200000);
    }
}
"""
THREAD_FAULTS = 40
"""More page faults than a thread takes for its stack and its sampler."""

Build = Callable[..., Path]


CREW = (
    BUSY
    + TOUCH
    + """
#include <pthread.h>
/* The frame of a signal holds the processor's registers and may need another page of the stack, which would count. */
static __attribute__((noinline)) void deepen(void)
{
    volatile char stack[65536];
    for (unsigned long i = 0; i < sizeof stack; i += 1024) stack[i] = 1;
}
static void *crew(void *pages) { deepen(); touch((long)pages); return pages; }
"""
)


THRD_CREATE = """
#include <threads.h>
static int member(void *unused) { touch(800); return unused ? 1 : 42; }
int main(void) {
    thrd_t t[3]; int back = 0;
    for (int i = 0; i < 3; i++) thrd_create(&t[i], member, 0);
    for (int i = 0; i < 3; i++) { thrd_join(t[i], &back); if (back != 42) return 3; }
    return 0; }
"""


def run(
    program: Path, setup: Setup, *arguments: str, **kwargs: object
) -> tuple[Records, subprocess.CompletedProcess[str]]:
    """Run a program; where the kernel lets nobody count, there is nothing to test."""
    records, done = sample(program.parent, [str(program), *arguments], setup, timeout=60, **kwargs)
    if records.state == "failed" and "ermi" in records.message and os.geteuid() != 0:
        pytest.skip(f"this host allows no perf events: {records.message}")
    return records, done


def counting(interval_ns: int = 1_000_000, **kwargs: object) -> Setup:
    return Setup("perf_event", interval_ns, "monotonic", EVENTS, **kwargs)  # type: ignore[arg-type]


def plain(interval_ns: int = 1_000_000, **kwargs: object) -> Setup:
    return Setup("none", interval_ns, "monotonic", **kwargs)  # type: ignore[arg-type]


def faults_by_thread(records: Records) -> dict[int, int]:
    """Return each thread's counts from its beginning (the main thread: its first record) to its last record."""
    found = {}
    for thread in threads(records):
        counts = records.rows["hardware"][records.rows["thread"] == thread, 0]
        found[thread] = int(counts[-1] - (counts[0] if thread == 0 else 0))
    return found


def assemble_plain(records: Records, collected: Pass = COLLECTED, software: tuple[str, ...] = ()) -> object:
    return assemble(
        records,
        collected,
        software=tuple(map(milestone, software)),
        os_metrics=(),
        derived={},
        dumps=Path("none"),
        attributes={},
    )
