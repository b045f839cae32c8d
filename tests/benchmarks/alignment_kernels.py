"""How fast, and in how much memory, series are aligned exactly, beside other libraries.

    python tests/benchmarks/alignment_kernels.py [--runs 5] [--seed 1] [--quick] [--json FILE] [--markdown]

The libraries are the extra `peers`; those that are not installed are left out and named. Each run is a process of its
own, and libraries take turns. Fails where a bound is missed. Without --quick, linmdtw takes minutes over 100,000
intervals.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from alignment_peers import LIBRARIES, PAIRED_SERIES, is_installed
from sampler_report import Section, Table, deliver, host_state, parse_arguments

_OWN = "unperturbed"
_TWO = "two threads"
_LIMIT_CELLS = 13e9
"""Most cells a second of one core by anti-diagonals: five loads, a store and five operations a vector, two a cycle."""
_MANY = 100_000
_OWN_LENGTHS = (3_000, 10_000, 20_000, 30_000, 50_000, _MANY)
_PEERS_LENGTHS = (3_000, 10_000, 30_000)
_PAIRED_LENGTH, _TWO_THREADS_LENGTH = 1_000, 3_000
_FIGURE = "kernels.svg"
_EXACT = 1e-9
"""Relative excess of a path's cost up to which it is as cheap as the cheapest; sums are rounded in other orders."""


@dataclass(frozen=True)
class Task:
    """What one process does."""

    library: str
    task: str
    intervals: int

    @property
    def fits(self) -> bool:
        """Whether its table fits the memory that is free now."""
        table = LIBRARIES[self.library].table_bytes * self.intervals**2 if self.task == "path" else 0
        return table < 0.9 * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Taken:
    """Medians over runs: processor and elapsed time [s], peak memory above what was resident before [bytes], path cost.

    `shortest` is the least elapsed time: other work on the machine only adds.
    """

    seconds: float
    elapsed: float
    peak: float
    cost: float
    shortest: float
    runs: int


@dataclass(frozen=True)
class Bound:
    """What is required, and what was found; `found` is None where a peer to compare with is missing."""

    text: str
    found: float | None
    holds: bool


def _tasks(quick: bool) -> list[Task]:
    libraries = [name for name, library in LIBRARIES.items() if is_installed(library) and name != _TWO]
    longest = 10_000 if quick else _MANY
    tasks = [Task(_OWN, "path", length) for length in _OWN_LENGTHS if length <= longest or length == _MANY]
    tasks += [Task(_OWN, "cost", length) for length in _PEERS_LENGTHS if length <= longest]
    peers = [name for name in libraries if name != _OWN]
    tasks += [Task(name, "path", length) for name in peers for length in _PEERS_LENGTHS if length <= longest]
    tasks += [Task(name, "pairs", _PAIRED_LENGTH) for name in libraries if LIBRARIES[name].pairs]
    tasks += [Task(name, "pairs", _TWO_THREADS_LENGTH) for name in (_OWN, _TWO)]
    return tasks + [Task("linmdtw", "path", _MANY)] * ("linmdtw" in libraries and not quick)


def _run(task: Task, seed: int) -> dict[str, float] | None:
    """Return what a process of its own measured, or None where its memory is not to be had."""
    if not task.fits:
        return None
    command = [sys.executable, str(Path(__file__).with_name("alignment_peers.py"))]
    environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")}
    done = subprocess.run(
        [*command, task.library, task.task, str(task.intervals), str(seed)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{task} failed: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(tasks: Sequence[Task], runs: int, seed: int) -> dict[Task, Taken]:
    """Run all tasks in blocks, each block in a random order; what takes minutes runs once."""
    chance = random.Random(seed)
    found: dict[Task, list[dict[str, float]]] = {task: [] for task in tasks}
    for block in range(runs):
        order = list(tasks)
        chance.shuffle(order)
        for number, task in enumerate(order):
            print(f"\rblock {block + 1} of {runs}: {number + 1} of {len(order)}", end="", file=sys.stderr, flush=True)
            took_long = any(run["elapsed"] > 60 for run in found[task])
            run = None if took_long else _run(task, seed)
            if run is not None:
                found[task].append(run)
    print(file=sys.stderr)
    return {
        task: Taken(
            **{field: statistics.median(run[field] for run in made) for field in made[0] if field != "shortest"},
            shortest=min(run["shortest"] for run in made),
            runs=len(made),
        )
        for task, made in found.items()
        if made
    }


def _exact_peers(taken: Mapping[Task, Taken], length: int) -> dict[str, Taken]:
    """Return the peers whose path is as cheap as ours."""
    own = taken[Task(_OWN, "path", length)].cost
    return {
        task.library: made
        for task, made in taken.items()
        if task.library != _OWN and (task.task, task.intervals) == ("path", length) and made.cost <= own * (1 + _EXACT)
    }


def _ratio(others: Iterable[float], own: float) -> float | None:
    fastest = min(others, default=None)
    return None if fastest is None else fastest / own


def _at_least(text: str, found: float | None, bound: float) -> Bound:
    return Bound(f"{text} ≥ {bound:g}", found, found is None or found >= bound)


def _at_most(text: str, found: float, bound: float) -> Bound:
    return Bound(f"{text} ≤ {bound:g}", found, found <= bound)


def _bounds(taken: Mapping[Task, Taken]) -> list[Bound]:
    own = {task.intervals: made for task, made in taken.items() if (task.library, task.task) == (_OWN, "path")}
    bounds = []
    for length in (10_000, 30_000):
        if length in own:
            peers = [made.seconds for made in _exact_peers(taken, length).values()]
            bounds.append(
                _at_least(
                    f"path of {length:,}², speed over the fastest exact peer's", _ratio(peers, own[length].seconds), 15
                )
            )
    bounds.append(_at_most("path of 100,000², MB above import", own[_MANY].peak / 1e6, 300))
    linear = taken.get(Task("linmdtw", "path", _MANY))
    bounds.append(
        _at_least("path of 100,000², speed over that of linmdtw", linear and linear.seconds / own[_MANY].seconds, 20)
    )
    bounds.append(_at_most("exponent of the memory over the length, from 10,000 intervals on", _exponent(own), 1.5))
    paired = {
        task.library: made for task, made in taken.items() if (task.task, task.intervals) == ("pairs", _PAIRED_LENGTH)
    }
    peers = [made.seconds for name, made in paired.items() if name != _OWN]
    bounds.append(
        _at_least("costs of 40 × 1,000, speed over the fastest peer's", _ratio(peers, paired[_OWN].seconds), 10)
    )
    one, two = (taken[Task(name, "pairs", _TWO_THREADS_LENGTH)].shortest for name in (_OWN, _TWO))
    if len(os.sched_getaffinity(0)) > 1:
        bounds.append(_at_least("costs of 40 × 3,000, two threads, × one", one / two, 1.8))
    return bounds


def _exponent(own: Mapping[int, Taken]) -> float:
    """Fit peak memory = a · n^b to the lengths whose memory is more than what the process takes anyway; return b."""
    lengths = [length for length in own if length >= 10_000]
    return float(np.polyfit(np.log(lengths), np.log([own[length].peak for length in lengths]), 1)[0])


def _path_rows(taken: Mapping[Task, Taken]) -> list[list[str]]:
    lengths = [*_PEERS_LENGTHS, _MANY]
    rows = []
    for name, library in LIBRARIES.items():
        made = {length: taken.get(Task(name, "path", length)) for length in lengths}
        if not any(made.values()):
            continue
        cells = [f"{one.seconds:.3g} s, {one.peak / 1e6:,.0f} MB" if one else "–" for one in made.values()]
        excess = [
            100 * (one.cost / taken[Task(_OWN, "path", length)].cost - 1)
            for length, one in made.items()
            if one is not None
        ]
        exact = "exact" if max(excess) <= 100 * _EXACT else f"{library.note}: up to {max(excess):+.2g} %"
        rows.append([name, *cells, exact])
    return rows


def _speed_rows(taken: Mapping[Task, Taken]) -> list[list[str]]:
    rows = []
    for length in _OWN_LENGTHS:
        path, cost = taken.get(Task(_OWN, "path", length)), taken.get(Task(_OWN, "cost", length))
        if path:
            speed = [f"{length**2 / made.seconds / 1e9:.1f}" if made else "–" for made in (path, cost)]
            rows.append([f"{length:,}²", f"{path.seconds:.3g}", f"{path.peak / 1e6:,.1f}", *speed])
    return rows


def _pair_rows(taken: Mapping[Task, Taken]) -> list[list[str]]:
    rows = []
    for task, made in taken.items():
        if task.task == "pairs":
            cells = PAIRED_SERIES * (PAIRED_SERIES - 1) / 2 * task.intervals**2
            what = f"{PAIRED_SERIES} × {task.intervals:,}"
            rows.append(
                [task.library, what, f"{made.seconds:.3g}", f"{made.elapsed:.3g}", f"{cells / made.shortest / 1e9:.2g}"]
            )
    return sorted(rows, key=lambda row: row[1])


def _section(taken: Mapping[Task, Taken], bounds: Sequence[Bound], missing: Sequence[str]) -> Section:
    verdicts = [
        f"{bound.text}: {'nothing to compare with' if bound.found is None else f'{bound.found:.3g}'}"
        f"{'' if bound.holds else ' — MISSED'}."
        for bound in bounds
    ]
    if missing:
        verdicts.append(f"Not installed, and left out: {', '.join(missing)}.")
    return Section(
        script="alignment_kernels",
        title="Exact alignment beside other libraries",
        method=(
            "Random walks of as many steps as it says, one metric, float64, |x − y|. Each run is a process of its "
            "own, on one thread, after a small "
            "one that loads and compiles everything; the libraries take turns, in random order. Medians of "
            f"{max(made.runs for made in taken.values())} runs (of one, where it takes minutes): CPU time, and "
            "peak memory above what was "
            "resident before. A path's cost is added up anew, in float64, whatever the library minimised. Two threads "
            "are held against one by "
            "the shortest elapsed times of some twenty repetitions: other work on the machine only adds."
        ),
        tables=[
            Table(
                "Warp paths",
                ["library", *(f"{length:,}²" for length in (*_PEERS_LENGTHS, _MANY)), "cost of the path"],
                _path_rows(taken),
            ),
            Table(
                "unperturbed alone",
                ["matrix", "s", "MB", "10⁹ cells/s", "10⁹ cells/s, cost without the path"],
                _speed_rows(taken),
            ),
            Table(
                "Costs of all pairs",
                ["library", "series", "processor s", "elapsed s", "10⁹ cells/s at best"],
                _pair_rows(taken),
            ),
        ],
        verdicts=verdicts,
        data={
            "taken": [{**vars(task), **vars(made)} for task, made in taken.items()],
            "bounds": [vars(bound) for bound in bounds],
            "missing": list(missing),
        },
    )


def _draw(taken: Mapping[Task, Taken], file: Path) -> None:
    """Draw time and memory against the length, on logarithmic axes, with the limits."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = _FIGURE
    from matplotlib import pyplot

    figure, (times, memory) = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for name in LIBRARIES:
        made = sorted(
            (task.intervals, one) for task, one in taken.items() if (task.library, task.task) == (name, "path")
        )
        if made:
            lengths = [length for length, _ in made]
            style: dict[str, Any] = {"marker": "o", "linewidth": 2.5 if name == _OWN else 1.2, "label": name}
            times.plot(lengths, [one.seconds for _, one in made], **style)
            memory.plot(lengths, [one.peak / 1e6 for _, one in made], **style)
    span = np.array([_OWN_LENGTHS[0], _MANY])
    times.plot(span, span**2.0 / _LIMIT_CELLS, "k:", label="one core's limit, estimated")
    memory.plot(span, span**2.0 * 8 / 1e6, "k:", label="the whole table")
    for axes, label in ((times, "CPU time [s]"), (memory, "memory above import [MB]")):
        axes.set(xscale="log", yscale="log", xlabel="intervals of each series", ylabel=label)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Measure, report, and fail where a bound is missed."""
    description = __doc__.splitlines()[0] if __doc__ else ""
    arguments = parse_arguments(description, runs=(5, "runs of each"), seed=(1, "of the series and the order"))
    before = host_state()
    missing = [name for name, library in LIBRARIES.items() if not is_installed(library)]
    taken = _measure(_tasks(arguments.quick), 1 if arguments.quick else arguments.runs, arguments.seed)
    bounds = _bounds(taken)
    section = _section(taken, bounds, missing)
    if arguments.markdown:
        _draw(taken, Path(__file__).parents[2] / "docs" / "evidence" / _FIGURE)
        section = replace(section, method=f"{section.method}\n\n![Time and memory against the length]({_FIGURE})")
    deliver(section, arguments, before)
    missed = [bound.text for bound in bounds if not bound.holds]
    if missed:
        raise SystemExit(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
