"""How fast, and in how much memory, event traces are compared, beside other libraries.

    python tests/benchmarks/event_distances.py [--runs 3] [--seed 1] [--quick] [--json FILE] [--markdown]

The libraries are the extra `peers`; those that are not installed are left out and named. Each run is a process of its own. Fails where a bound is
missed.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from event_distances_tasks import TASKS, is_installed
from sampler_report import Section, Table, deliver, host_state, parse_arguments

_LONG, _COUNTED = 75_000, 4_000_000
_LENGTHS = (9_375, 18_750, 37_500, _LONG)
_LONGER = (2 * _LONG, 4 * _LONG)
"""Where memory grows as the traces do: what shorter ones take is less than what a process takes anyway."""
_TYPES, _ONE_TYPE, _MANY_TYPES = 300, 1, 5_000
_PEERS_LENGTH = 9_375
_EXACT = 1e-9


@dataclass(frozen=True)
class Run:
    """What one process does."""

    task: str
    events: int
    types: int = _TYPES


@dataclass(frozen=True)
class Taken:
    """Medians: processor time and elapsed time [s], peak memory above what was resident before [bytes]; what was found."""

    seconds: float
    elapsed: float
    peak: float
    value: float


def _own_runs(scale: float) -> list[Run]:
    """Return what is measured, at a share of the full lengths."""
    long = int(_LONG * scale)
    runs = [Run("distance", int(length * scale)) for length in (*_LENGTHS, *(_LONGER if scale == 1 else ()))]
    runs += [Run(task, long) for task in ("script", "paper", "mannila", "plugins", "dense", "sparse")]
    runs += [Run("dense", long, types) for types in (_ONE_TYPE, _MANY_TYPES)]
    runs += [Run("distance", long, types) for types in (_ONE_TYPE, _MANY_TYPES)]
    runs += [Run("script", long, types) for types in (_ONE_TYPE, _MANY_TYPES)]
    runs += [Run("sparse", long, _MANY_TYPES)]
    return runs + [Run(task, int(_COUNTED * scale)) for task in ("band", "near", "counts")]


def _peer_runs(scale: float) -> list[Run]:
    short, long = int(_PEERS_LENGTH * scale), int(_LONG * scale)
    runs = [Run(task, short) for task in ("loop", "dtw", "twe", "erp")] + [
        Run(task, long) for task in ("loop", "indel", "lcs", "dtw")
    ]
    return [run for run in runs if is_installed(TASKS[run.task])]


def _measure(runs: Sequence[Run], times: int, seed: int) -> dict[Run, Taken]:
    """Run all, in blocks, each block in a random order; what takes half a minute runs once."""
    chance = random.Random(seed)
    found: dict[Run, list[dict[str, float]]] = {run: [] for run in runs}
    for block in range(times):
        order = list(runs)
        chance.shuffle(order)
        for number, run in enumerate(order):
            print(f"\rblock {block + 1} of {times}: {number + 1} of {len(order)}", end="", file=sys.stderr, flush=True)
            if not any(made["elapsed"] > 30 for made in found[run]):
                found[run].append(_process(run, seed))
    print(file=sys.stderr)
    return {
        run: Taken(**{field: statistics.median(one[field] for one in made) for field in made[0]}) for run, made in found.items()
    }


def _process(run: Run, seed: int) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).with_name("event_distances_tasks.py"))]
    environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")}
    done = subprocess.run(
        [*command, run.task, *map(str, (run.events, run.types, seed))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{run} failed: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _bounds(taken: Mapping[Run, Taken], scale: float) -> list[tuple[str, float, bool]]:
    """Return what is asked for, what was found, and whether it holds."""
    long = int(_LONG * scale)
    speeds = [long**2 / taken[Run("dense", long, types)].seconds / 1e9 for types in (_TYPES, _ONE_TYPE, _MANY_TYPES)]
    worst = max(taken[Run("distance", long, types)].seconds for types in (_TYPES, _ONE_TYPE, _MANY_TYPES))
    counts = taken[Run("counts", int(_COUNTED * scale))].elapsed
    bounds = [
        (f"all cells of {long:,}², Gcells a second of processor time ≥ 1", min(speeds), min(speeds) >= 1),
        (f"temporal distance of {long:,}², slowest of three distributions, processor s ≤ 8", worst, worst <= 8),
        (
            f"occurrence and dropping of {int(_COUNTED * scale):,} events, elapsed s ≤ 1 (the paper: less than 10)",
            counts,
            counts <= 1,
        ),
    ]
    if scale == 1:
        events = (_LONG, *_LONGER)
        peaks = [taken[Run("distance", length)].peak for length in events]
        exponent = float(np.polyfit(np.log(events), np.log(peaks), 1)[0])
        bounds.append((f"memory's exponent, all of {events[0]:,}² to {events[-1]:,}² ≤ 1.1", exponent, exponent <= 1.1))
    same = [(run, made) for run, made in taken.items() if run.task == "loop"]
    for run, made in same:
        apart = abs(made.value / taken[Run("distance", run.events)].value - 1)
        bounds.append(
            (f"relative difference to the plain loop's result at {run.events:,}² ≤ {_EXACT:g}", apart, apart <= _EXACT)
        )
    return bounds


def _rows(taken: Mapping[Run, Taken]) -> list[list[str]]:
    rows = []
    for run, made in taken.items():
        speed = "–" if run.task in ("band", "near", "counts", "plugins") else f"{run.events**2 / made.seconds / 1e9:.3g}"
        size = [f"{run.events:,}", f"{run.types:,}"]
        rows.append(
            [TASKS[run.task].what, *size, f"{made.seconds:.3g}", f"{made.elapsed:.3g}", speed, f"{made.peak / 1e6:,.1f}"]
        )
    return rows


def main() -> None:
    """Measure, report, and fail where a bound is missed."""
    description = __doc__.splitlines()[0] if __doc__ else ""
    arguments = parse_arguments(description, runs=(3, "runs of each"), seed=(1, "of the traces and the order"))
    before = host_state()
    scale = 0.1 if arguments.quick else 1.0
    missing = sorted({task.package for task in TASKS.values() if not is_installed(task)})
    times = 1 if arguments.quick else arguments.runs
    own, peers = _own_runs(scale), _peer_runs(scale)
    taken = _measure([*own, *peers], times, arguments.seed)
    bounds = _bounds(taken, scale)
    columns = ["", "events each", "types", "processor s", "elapsed s", "Gcells/s", "MB"]
    section = Section(
        script="event_distances",
        title="Distances of event traces beside other libraries",
        method=(
            "Two independent traces with exponential gaps of 0.4 ms on average; 300 types by Zipf's law, one type, or 5,000 equally frequent ones; "
            "traces that differ little are the same with one event in a thousand lost and gaps changed by up to 1 %. V such that 0.1 s costs as "
            "much as a deletion and an insertion. Each run is a process of its own, on one thread, after small ones that load and compile all. "
            f"Medians of {times} runs: processor time, elapsed time, and peak memory above what was resident before. No other library computes this "
            "distance: a plain compiled loop does, the others compute what is nearest. Gcells/s count all cells, computed or not."
        ),
        tables=[
            Table("unperturbed", columns, _rows({run: taken[run] for run in own})),
            Table("Others", columns, _rows({run: taken[run] for run in peers})),
        ],
        verdicts=[
            *(f"{text}: {found:.3g}{'' if holds else ' — MISSED'}." for text, found, holds in bounds),
            *([f"Not installed, and left out: {', '.join(missing)}."] if missing else []),
        ],
        data={"taken": [{**vars(run), **vars(made)} for run, made in taken.items()], "bounds": bounds, "missing": missing},
    )
    deliver(section, arguments, before)
    missed = [text for text, _, holds in bounds if not holds]
    if missed:
        raise SystemExit(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
