"""A thousand kills: program and observer are killed at random moments, and what they left is checked record by record.

``python tests/collectors/kill_validation.py --kills 1000 --seed 1``

Each thread of the victim counts in two metrics of its own: one is raised by 1, then the other three times by 1. In every record, whoever wrote it and
however the program died, times and counters must only grow, the pair of each thread must fit, and nothing before a whole record may be missing but what
another thread was writing when it was killed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.collectors.record import Event, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime_build import BOUNDS, SOURCES, build_observer

if TYPE_CHECKING:
    from numpy.typing import NDArray

THREADS = 3
FAULTS = Event("perf::page-faults", 1, 2, kernel=True)
TASK_CLOCK = Event("perf::task-clock", 1, 1, kernel=True)

PROGRAM = """
#include "unperturbed.h"
#include <pthread.h>
#include <sys/mman.h>
static volatile uint64_t counts[2 * THREADS] __attribute__((section("unperturbed_sites"), used, aligned(64)));
static uint32_t metric[2 * THREADS];
static struct unperturbed_table table = {0, (uint64_t *)counts, metric, 2 * THREADS, 1};
static void __attribute__((constructor)) enrol(void) { for (uint32_t i = 0; i < 2 * THREADS; i++) metric[i] = i; unperturbed_register(&table); }
static void *work(void *number) {
    long k = (long)number;
    for (uint64_t turn = 0;; turn++) {
        counts[2 * k]++;
        for (int i = 0; i < 3; i++) counts[2 * k + 1]++;
        if (turn % 500 == 0) {
            char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            page[0] = 1; munmap(page, 4096);
        }
    }
    return 0; }
int main(void) {
    pthread_t t;
    for (long k = 1; k < THREADS; k++) pthread_create(&t, 0, work, (void *)k);
    work(0);
    return 0; }
"""
"""Thread k counts in the metrics 2k and 2k + 1."""


@dataclass(frozen=True)
class Facts:
    """What one kill left: whole records, records begun and not ended, and sentences on what is wrong."""

    whole: int
    begun: int
    faults: tuple[str, ...]


def check_records(path: Path, setup: Setup) -> Facts:
    """Check what a killed program or observer left.

    Parameters
    ----------
    setup : of the run; `software` is two metrics a thread of the program.
    """
    records = read_record_file(path, setup)
    rows = records.rows
    positions = rows["whole"].astype(np.int64)
    taken = int(np.fromfile(path, np.dtype([("", "V", _TAKEN), ("taken", "<u8")]), 1)["taken"][0])
    faults = []
    if records.state == "failed":
        faults.append(f"the sampler failed: {records.message}")
    writers = THREADS if setup.threads else 1
    begun = taken - len(rows)
    if begun > writers:
        faults.append(f"{begun} of {taken} records are missing, and {writers} could be in the making")
    for thread in np.unique(rows["thread"]):
        faults += _check_thread(rows[rows["thread"] == thread], int(thread), setup)
    if (np.diff(positions) <= 0).any():
        faults.append("positions do not grow")
    return Facts(len(rows), begun, tuple(faults))


def _check_thread(rows: NDArray[Any], thread: int, setup: Setup) -> list[str]:
    found = []
    if (np.diff(rows["monotonic_ns"]) <= 0).any() or (rows["monotonic_ns"] <= 0).any():
        found.append(f"thread {thread}: times do not grow")
    if (rows["read_ns"] < 0).any():
        found.append(f"thread {thread}: a reading ends before it begins")
    for name in ("hardware", "software", "os"):
        if (np.diff(rows[name].astype(np.int64), axis=0) < 0).any():
            found.append(f"thread {thread}: {name} counters fall")
    if (rows["enabled_ns"] != rows["running_ns"]).any():
        found.append(f"thread {thread}: software events run all the time, and here one did not")
    first, second = rows["software"][:, 0::2].astype(np.int64), rows["software"][:, 1::2].astype(np.int64)
    # The first of a pair is read first: the second, read later, is never behind; and it is not ahead of the next record's first.
    if (second < 3 * (first - 1)).any() or (second[:-1] > 3 * first[1:]).any():
        found.append(f"thread {thread}: the counters of a pair do not fit")
    found += _check_own(rows, first, second, thread, setup)
    return found


def _check_own(rows: NDArray[Any], first: NDArray[np.int64], second: NDArray[np.int64], thread: int, setup: Setup) -> list[str]:
    """The thread that writes a record stands still meanwhile: its own counters fit exactly. Numbers are given out in the order of starting, so whose pair
    it is shows in the fit."""
    if setup.sampler == "outside" or len(rows) < 2:
        return []
    ahead = 3 * first - second
    fits = ((ahead >= 0) & (ahead <= 3)).all(axis=0)
    if not fits.any() or (thread == 0 and not fits[0]):
        return [f"thread {thread}: no pair fits exactly"]
    if not setup.events or thread:
        return []
    turns, touched = np.diff(first[:, 0]), np.diff(rows["hardware"][:, 0].astype(np.int64))
    return [] if (np.abs(touched - turns / 500) <= 1 + _OWN_FAULTS).all() else [f"thread {thread}: page faults do not fit the turns"]


_TAKEN = 0
_OWN_FAULTS = 40


if __name__ == "__main__":
    sys.exit(0)
