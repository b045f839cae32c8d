"""What the check of a campaign of many traces, and the alignment of all their pairs, take in each of joblib's ways.

::

    python -m tests.benchmarks.many_traces FOLDER [--runs 700] [--metrics 20] [--configurations 14] [--intervals 180]
        [--workers 2] [--repeat 3] [--only pairwise]

makes a campaign of generated traces in FOLDER, where there is none yet. Prints medians of seconds, and of the processor
time of the process that waits most: this one and its busiest worker one after the other, which is about what an idle
host takes. Workers are started before. All ways must give the same result to the last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import joblib
import psutil
from dask.distributed import Client, LocalCluster

import unperturbed as up
from tests.benchmarks.large_campaign import make


def main() -> None:
    """Make the campaign, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name, default in (("runs", 700), ("metrics", 20), ("configurations", 14), ("intervals", 180)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=("check", "pairwise"))
    chosen = parser.parse_args()
    if not (chosen.folder / "campaign.sqlite").exists():
        make(chosen.folder, chosen.runs, chosen.metrics, chosen.configurations, intervals=chosen.intervals)
    campaign = up.load(chosen.folder)
    traces = [trace for each in campaign.check().traces["main"].values() for trace in each]
    works: dict[str, Callable[[], Any]] = {
        "check": lambda: json.dumps(up.check(chosen.folder).to_dict(), default=str).encode(),
        "pairwise": lambda: distances(traces),
    }
    works = {name: work for name, work in works.items() if chosen.only in (None, name)}
    found: dict[str, set[str]] = {name: set() for name in works}
    print("| work | way | seconds | here and busiest worker [s] | all processes [s] |\n|---|---|---|---|---|")
    with ExitStack() as stack:
        cluster = LocalCluster(
            n_workers=chosen.workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.ERROR
        )
        stack.enter_context(Client(stack.enter_context(cluster)))
        ways: dict[str, Callable[[], Any]] = {
            "default": nullcontext,
            "loky": lambda: joblib.parallel_config("loky", n_jobs=chosen.workers),
            "dask": lambda: joblib.parallel_config("dask"),
        }
        for name, work in works.items():
            rows: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
            for repetition in range(chosen.repeat + 1):  # the first starts and warms the workers
                for way, context in ways.items():
                    with context():
                        before, started = dict(cpu_times()), time.perf_counter()
                        found[name].add(hashlib.sha256(work()).hexdigest())
                        wall = time.perf_counter() - started
                        spent = [now - before.get(process, 0.0) for process, now in cpu_times()]
                    if repetition:
                        rows[way].append((wall, spent[0] + max(spent[1:], default=0.0), sum(spent)))
            for way, measured in rows.items():
                cells = " | ".join(f"{median(column):.1f}" for column in zip(*measured, strict=True))
                print(f"| {name} | {way} | {cells} |", flush=True)
    assert all(len(hashes) == 1 for hashes in found.values()), "the ways differ"


def distances(traces: Sequence[up.Trace]) -> bytes:
    """Return the costs of all pairs, aligned on two metrics, as the check's runs are."""
    return up.pairwise(traces, on=traces[0].names("hardware")[:2]).distances.tobytes()


def cpu_times() -> Iterator[tuple[int, float]]:
    """Yield the CPU time of this process and of each of its workers."""
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        times = process.cpu_times()
        yield process.pid, times.user + times.system


if __name__ == "__main__":
    main()
