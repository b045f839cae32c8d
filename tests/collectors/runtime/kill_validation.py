"""A thousand kills: program and observer are killed at random moments, and what they left is checked record by record.

``python -m tests.collectors.runtime.kill_validation --kills 1000 --seed 1``

Each thread of the victim counts in two metrics of its own, one by 1 and then the other three times by 1, and touches a
page now and then. In whatever record was whole when the program died, times and counters must only have grown, the pair
of each thread must fit, page faults must fit the turns, and nothing before it may be missing but what another thread
was writing at that moment.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.collectors.runtime.programs import compile_program
from unperturbed.collectors.records.file import HEADER, Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import build_observer
from unperturbed.collectors.sources import Event

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CASES", "Case", "Facts", "compile_victim", "kill_one"]

_EVENTS = (Event("perf::page-faults", 1, 2, kernel=True), Event("perf::task-clock", 1, 1, kernel=True))
_TURNS_A_PAGE = 500
_OWN_FAULTS = 12
"""Page faults of a thread beside those of its turns: its stack, its first steps."""

_START_FAULTS = 150
"""The same of a whole program while it starts its threads."""

_INTERVALS_NS = (50_000, 100_000, 200_000, 1_000_000)
_LATEST_S = 0.025
_DEATH_S = 5.0

_PROGRAM = """
#include <pthread.h>
#include <sys/mman.h>
#include "unperturbed.h"
static volatile uint64_t counts[2 * THREADS] __attribute__((section("unperturbed_sites"), used, aligned(64)));
static uint32_t metric[2 * THREADS];
static struct unperturbed_table table = {0, (uint64_t *)counts, metric, 2 * THREADS, 1};
static void __attribute__((constructor)) enrol(void)
{
    for (uint32_t i = 0; i < 2 * THREADS; i++) metric[i] = i;
    unperturbed_register(&table);
}
static void *work(void *number)
{
    volatile uint64_t *own = counts + 2 * (long)number;
    for (;;) {
        if (own[0] % TURNS == 0) {
            char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            page[0] = 1;
            munmap(page, 4096);
        }
        own[0]++;
        for (int i = 0; i < 3; i++) own[1]++;
    }
    return number;
}
int main(void)
{
    pthread_t thread;
    for (long k = 1; k < THREADS; k++) {
        pthread_create(&thread, 0, work, (void *)k);
        while (counts[2 * k] == 0) {} /* so that samplers are numbered as the threads are */
    }
    work(0);
    return 0;
}
"""


@dataclass(frozen=True)
class Case:
    """A way to be killed.

    Attributes
    ----------
    victim : `program` or `observer`.
    workers : threads that the program has, the main one among them.
    """

    name: str
    victim: str
    setup: Setup
    workers: int


@dataclass(frozen=True)
class Facts:
    """What one kill left: whole records, records that were begun only, and sentences on what is wrong."""

    whole: int
    begun: int
    faults: tuple[str, ...]


def _case(name: str, victim: str, workers: int, **kwargs: Any) -> Case:
    setup = Setup("perf_event", 100_000, "monotonic", _EVENTS, software=2 * workers, capacity=2048, **kwargs)
    return Case(name, victim, setup, workers)


CASES = (
    _case("inside, one thread", "program", 1),
    _case("inside, three threads", "program", 3, threads=True),
    _case("inside, three threads, reset", "program", 3, threads=True, reset=True),
    _case(
        "inside, with the system's counters", "program", 1, os_metrics=("user_time_us", "sched_run_ns", "read_calls")
    ),
    _case("outside, the program", "program", 3, sampler="outside"),
    _case("outside, the observer", "observer", 3, sampler="outside"),
)


def compile_victim(folder: Path, threads: int) -> Path:
    """Compile the program of so many threads."""
    folder.mkdir(exist_ok=True)
    return compile_program(folder, _PROGRAM, f"-DTHREADS={threads}", f"-DTURNS={_TURNS_A_PAGE}", "-pthread")


def kill_one(folder: Path, program: Path, case: Case, *, interval_ns: int, delay_s: float) -> Facts:
    """Start the program, kill it or its observer after a delay, and check what was left.

    Raises
    ------
    AssertionError
        The program lived on without its observer.
    """
    record = folder / "record"
    setup = Setup(**{**vars(case.setup), "interval_ns": interval_ns})
    create_record_file(record, setup)
    observer = [str(build_observer("gcc")), str(record)] if setup.sampler == "outside" else []
    started = subprocess.Popen([*observer, str(program)], env={"UNPERTURBED_RECORD": str(record)})
    time.sleep(delay_s)
    owner = int(np.fromfile(record, HEADER, 1)["owner"][0])
    if observer and case.victim == "program" and owner:
        os.kill(owner, signal.SIGKILL)
    else:
        started.kill()
    started.wait()
    deadline = time.monotonic() + _DEATH_S
    while owner and _lives(owner):
        assert time.monotonic() < deadline, "the program outlived its observer"
        time.sleep(0.0005)
    taken = int(np.fromfile(record, HEADER, 1)["taken"][0])
    return _check(read_record_file(record, setup), taken, case)


def _lives(pid: int) -> bool:
    """Tell whether a process runs; one that is dead may wait long for its parent to look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _check(records: Records, taken: int, case: Case) -> Facts:
    rows = records.rows
    writers = case.workers if case.setup.threads else 1
    begun = taken - len(rows) if taken <= case.setup.capacity else 0
    faults = []
    if (
        records.state == "failed" and "observer's memory" not in records.message
    ):  # which is gone when the observer is killed first
        faults.append(f"the sampler failed: {records.message}")
    if records.unread:
        faults.append(f"counters were not read in {records.unread} records")
    if begun > writers:
        faults.append(f"{begun} of {taken} records are missing, and at most {writers} were being written")
    for thread in np.unique(rows["thread"]):
        faults += _check_thread(rows[rows["thread"] == thread], int(thread), case)
    return Facts(len(rows), begun, tuple(faults))


def _check_thread(rows: NDArray[Any], thread: int, case: Case) -> Iterator[str]:
    first, second = (rows["software"][:, side::2].astype(np.int64) for side in (0, 1))
    if (np.diff(rows["monotonic_ns"]) <= 0).any() or (rows["monotonic_ns"] <= 0).any() or (rows["read_ns"] < 0).any():
        yield f"thread {thread}: times do not grow"
    for name in ("hardware", "software", "os"):
        if (np.diff(rows[name].astype(np.int64), axis=0) < 0).any():
            yield f"thread {thread}: {name} counters fall"
    # A pair is read in the order in which it is counted: the second of it is not behind, and not ahead of what the next
    # record holds of the first.
    if (second < 3 * (first - 1)).any() or (second[:-1] > 3 * first[1:]).any():
        yield f"thread {thread}: a pair of counters does not fit"
    if case.setup.sampler == "inside":
        yield from _check_own(rows, first[:, thread], second[:, thread], thread)
    else:
        yield from _check_whole(rows, first.sum(axis=1), case.workers)


def _check_own(rows: NDArray[Any], first: NDArray[np.int64], second: NDArray[np.int64], thread: int) -> Iterator[str]:
    """Check what a record's writer tells of itself: it stands still meanwhile, so it fits at once."""
    behind = 3 * first - second
    if (behind < 0).any() or (behind > 3).any():
        yield f"thread {thread}: its own pair does not fit"
    working = first > 0
    if working.any():
        beside = rows["hardware"][working, 0] - first[working] / _TURNS_A_PAGE
        # Before Linux 5.14 the record file's pages come one by one, each a fault.
        if float(np.ptp(beside)) > _OWN_FAULTS + len(rows) * rows.dtype.itemsize / 4096:
            yield f"thread {thread}: page faults do not fit the turns"


def _check_whole(rows: NDArray[Any], turns: NDArray[np.int64], threads: int) -> Iterator[str]:
    """Check what an observer tells of all threads.

    Events are read before the software counters, so they fit between two records.
    """
    pages, faults = turns / _TURNS_A_PAGE, rows["hardware"][:, 0].astype(np.int64)
    before = int(faults[0]) if len(faults) else 0
    if (faults - before > pages + threads + _START_FAULTS).any() or (faults[1:] - before < pages[:-1] - threads).any():
        yield "page faults do not fit the turns"


def main() -> int:
    """Kill as often as asked for, print what was found, and return 1 when a record was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000, help="in all (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and intervals (default: 1)")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {
            threads: compile_victim(folder / str(threads), threads) for threads in {case.workers for case in CASES}
        }
        print(f"{'killed':<36} {'kills':>6} {'whole records':>14} {'begun only':>11} {'faults':>7}")
        for index, case in enumerate(CASES):
            kills = asked.kills // len(CASES) + (index < asked.kills % len(CASES))
            found = [
                kill_one(
                    folder,
                    programs[case.workers],
                    case,
                    interval_ns=chance.choice(_INTERVALS_NS),
                    delay_s=chance.uniform(0, _LATEST_S),
                )
                for _ in range(kills)
            ]
            faults = [fault for facts in found for fault in facts.faults]
            whole, begun = (sum(getattr(facts, field) for facts in found) for field in ("whole", "begun"))
            print(f"{case.name:<36} {kills:>6} {whole:>14} {begun:>11} {len(faults):>7}", flush=True)
            for fault in sorted(set(faults)):
                print(f"    {faults.count(fault)} times: {fault}")
            wrong += len(faults)
    print(f"{asked.kills} kills, seed {asked.seed}: {'no fault' if not wrong else f'{wrong} faults'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
