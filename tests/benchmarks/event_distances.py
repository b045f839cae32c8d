"""How fast, and in how much memory, event traces are compared, beside other libraries.

    python tests/benchmarks/event_distances.py [--runs 3] [--seed 1] [--quick] [--json FILE] [--markdown]

The libraries are the extra `peers`; those that are not installed are left out and named. Each run is a process of its
own. Fails where a bound is missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from event_distances_tasks import TASKS, is_installed
from sampler_report import Section, Table, deliver, host_state, parse_arguments
from task_processes import bound_texts, fail_where_missed, measure_tasks

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
    """Medians: processor and elapsed time [s], peak memory above what was resident before [bytes]; the result."""

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


def _bounds(taken: Mapping[Run, Taken], scale: float) -> list[tuple[str, float, bool]]:
    """Return what is required, what was found, and whether it holds."""
    long = int(_LONG * scale)
    speeds = [long**2 / taken[Run("dense", long, types)].seconds / 1e9 for types in (_TYPES, _ONE_TYPE, _MANY_TYPES)]
    worst = max(taken[Run("distance", long, types)].seconds for types in (_TYPES, _ONE_TYPE, _MANY_TYPES))
    counts = taken[Run("counts", int(_COUNTED * scale))].elapsed
    bounds = [
        (f"all cells of {long:,}², Gcells a second of CPU time ≥ 1", min(speeds), min(speeds) >= 1),
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
        speed = (
            "–" if run.task in ("band", "near", "counts", "plugins") else f"{run.events**2 / made.seconds / 1e9:.3g}"
        )
        size = [f"{run.events:,}", f"{run.types:,}"]
        rows.append(
            [
                TASKS[run.task].what,
                *size,
                f"{made.seconds:.3g}",
                f"{made.elapsed:.3g}",
                speed,
                f"{made.peak / 1e6:,.1f}",
            ]
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
    script = Path(__file__).with_name("event_distances_tasks.py")
    asked = {run: (run.task, *map(str, (run.events, run.types, arguments.seed))) for run in (*own, *peers)}
    measured = measure_tasks(script, asked, times, arguments.seed)
    taken = {run: Taken(**made) for run, made in measured.items()}
    bounds = _bounds(taken, scale)
    columns = ["", "events each", "types", "processor s", "elapsed s", "Gcells/s", "MB"]
    section = Section(
        script="event_distances",
        title="Distances of event traces beside other libraries",
        method=(
            "Two independent traces with exponential gaps of 0.4 ms on average; 300 types by Zipf's law, one type, or "
            "5,000 equally frequent ones; "
            "traces that differ little are the same with one event in a thousand lost and gaps changed by up to 1 %. "
            "V such that 0.1 s costs as "
            "much as a deletion and an insertion. Each run is a process of its own, on one thread, after small ones "
            "that load and compile all. "
            f"Medians of {times} runs: CPU time, elapsed time, and peak memory above what was resident before. "
            "No other library computes this "
            "distance: a plain compiled loop does, the others compute what is nearest. Gcells/s count all cells, "
            "computed or not."
        ),
        tables=[
            Table("unperturbed", columns, _rows({run: taken[run] for run in own})),
            Table("Others", columns, _rows({run: taken[run] for run in peers})),
        ],
        verdicts=[
            *bound_texts(bounds),
            *([f"Not installed, and left out: {', '.join(missing)}."] if missing else []),
        ],
        data={
            "taken": [{**vars(run), **vars(made)} for run, made in taken.items()],
            "bounds": bounds,
            "missing": missing,
        },
    )
    deliver(section, arguments, before)
    fail_where_missed(bounds)


if __name__ == "__main__":
    main()
