"""One comparison of two event traces, in a process of its own: what it took, and what it found.

    python tests/benchmarks/event_distances_tasks.py TASK EVENTS TYPES SEED

prints a line of JSON.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib.metadata
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis import EventTrace, EventType

__all__ = ["TASKS", "Task", "is_installed"]

_PLUGINS = 6
_MEAN_GAP_NS = 400_000
_MOVE_COST, _WEIGHT = 2e-8, 1.0
"""V a ns and w(e): 0.1 s is as much as a deletion and an insertion."""


@dataclass(frozen=True)
class Task:
    """A way to compare two traces.

    Attributes
    ----------
    what : str
        What it computes, for the table.
    run : callable
        Two traces → a number.
    package : str
        The library that does it; empty for this project.
    table_bytes : int
        Memory that a cell takes.
    near : bool
        The trace is the reference with 1 event in 1,000 lost, and each gap changed by up to 1 %; else both are
        independent.
    """

    what: str
    run: Callable[[EventTrace, EventTrace], float]
    package: str = ""
    table_bytes: int = 0
    near: bool = False


def is_installed(task: Task) -> bool:
    """Tell whether a task's library is here."""
    if not task.package:
        return True
    try:
        importlib.metadata.version(task.package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _random(chance: np.random.Generator, events: int, types: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return exponential gaps and types by Zipf's law; 5,000 and more are equally frequent."""
    frequency = 1.0 / np.arange(1, types + 1) if types < 5000 else np.ones(types)
    return chance.exponential(_MEAN_GAP_NS, events).astype(np.int64), chance.choice(
        types, events, p=frequency / frequency.sum()
    )


def _trace(gaps: NDArray[np.int64], types: NDArray[np.int64]) -> EventTrace:
    present, numbers = np.unique(types, return_inverse=True)
    kinds = tuple(EventType(f"p{kind % _PLUGINS}:{kind}", f"p{kind % _PLUGINS}") for kind in present.tolist())
    return EventTrace(np.cumsum(gaps), numbers.astype(np.int32), kinds, "ns")


def _pair(task: Task, events: int, types: int, seed: int) -> tuple[EventTrace, EventTrace]:
    chance = np.random.default_rng(seed)
    one = _random(chance, events, types)
    if not task.near:
        return _trace(*one), _trace(*_random(chance, events, types))
    kept = chance.random(events) > 0.001
    changed = (one[0] * chance.uniform(0.99, 1.01, events)).astype(np.int64)
    return _trace(*one), _trace(changed[kept], one[1][kept])


def _own(**options: Any) -> Callable[[EventTrace, EventTrace], float]:
    def run(one: EventTrace, other: EventTrace) -> float:
        from unperturbed.analysis.diagnosis.distances.temporal import temporal_distance

        return temporal_distance(one, other, **{"per_plugin": False, "move_cost": _MOVE_COST, **options}).total

    return run


def _script(one: EventTrace, other: EventTrace) -> float:
    from unperturbed.analysis.diagnosis.distances.temporal import temporal_distance

    script = temporal_distance(one, other, per_plugin=False, move_cost=_MOVE_COST).script()
    return script.cost_in_time + script.cost_in_events


def _forced(sparse: bool) -> Callable[[EventTrace, EventTrace], float]:
    def run(one: EventTrace, other: EventTrace) -> float:
        from unperturbed.analysis.diagnosis.distances.temporal_search import cells_of

        weights = dict.fromkeys((*one.types, *other.types), Fraction(1))
        cells = cells_of(one, other, weights, Fraction(2, 10**8), "gaps")
        saved = dataclasses.replace(cells, is_sparse=sparse).saved()[-1]
        return float((cells.weights - 2 * int(saved)) * cells.unit / 2)

    return run


def _counts(one: EventTrace, other: EventTrace) -> float:
    from unperturbed.analysis.diagnosis.distances.counts import dropping_distance, occurrence_distance

    return float(occurrence_distance(one, other).total + dropping_distance(one, other).total)


def _numbers(one: EventTrace, other: EventTrace) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    from unperturbed.analysis.diagnosis import shared_ids

    _, (a, b) = shared_ids((one, other))
    return a, b


def _gaps_s(trace: EventTrace) -> NDArray[np.float64]:
    return np.diff(trace.timestamps, prepend=trace.timestamps[:1]) / 1e9


def _rows(types: Any, gaps: Any, other_types: Any, other_gaps: Any, move_cost: float, weight: float) -> float:
    """The same recurrence as anybody would write it, with two rows."""
    above = np.arange(len(other_types) + 1) * weight
    row = np.empty_like(above)
    for i in range(len(types)):
        row[0] = above[0] + weight
        for j in range(len(other_types)):
            best = min(above[j + 1], row[j]) + weight
            if types[i] == other_types[j]:
                best = min(best, above[j] + move_cost * abs(gaps[i] - other_gaps[j]))
            row[j + 1] = best
        above, row = row, above
    return float(above[-1])


def _plain_loop() -> Callable[[EventTrace, EventTrace], float]:
    def run(one: EventTrace, other: EventTrace) -> float:
        import numba

        loop = numba.njit(_rows) if "loop" not in kept else kept["loop"]
        kept["loop"] = loop
        a, b = _numbers(one, other)
        return float(loop(a, _gaps_s(one), b, _gaps_s(other), _MOVE_COST * 1e9, _WEIGHT))

    kept: dict[str, Any] = {}
    return run


def _rapidfuzz(measure: str) -> Callable[[EventTrace, EventTrace], float]:
    def run(one: EventTrace, other: EventTrace) -> float:
        from rapidfuzz import distance

        a, b = _numbers(one, other)
        return float(getattr(distance, measure).distance(a.tolist(), b.tolist()))

    return run


def _dtaidistance(one: EventTrace, other: EventTrace) -> float:
    from dtaidistance import dtw

    return float(dtw.distance_fast(_gaps_s(one), _gaps_s(other), inner_dist="euclidean"))


def _aeon(measure: str) -> Callable[[EventTrace, EventTrace], float]:
    def run(one: EventTrace, other: EventTrace) -> float:
        from aeon import distances

        return float(getattr(distances, f"{measure}_distance")(_gaps_s(one), _gaps_s(other)))

    return run


TASKS = {
    "distance": Task("temporal distance", _own()),
    "script": Task("its edit script", _script),
    "paper": Task('temporal distance, variant "paper"', _own(variant="paper")),
    "mannila": Task('temporal distance, variant "mannila"', _own(variant="mannila")),
    "plugins": Task("temporal distance, each plugin by itself", _own(per_plugin="only")),
    "band": Task("temporal distance, band of 1,000", _own(band=1000)),
    "near": Task("temporal distance of traces that differ little", _own(), near=True),
    "dense": Task("all cells", _forced(sparse=False)),
    "sparse": Task("matching cells alone", _forced(sparse=True)),
    "counts": Task("occurrence and dropping distance", _counts),
    "loop": Task("the same distance in a plain compiled loop", _plain_loop(), "numba"),
    "indel": Task("rapidfuzz Indel: no times, no weights", _rapidfuzz("Indel"), "rapidfuzz"),
    "lcs": Task("rapidfuzz LCSseq: no times, no weights", _rapidfuzz("LCSseq"), "rapidfuzz"),
    "dtw": Task("dtaidistance DTW of the gaps: no types", _dtaidistance, "dtaidistance"),
    "twe": Task("aeon time warp edit of the gaps: no types", _aeon("twe"), "aeon", 16),
    "erp": Task("aeon edit with real penalty of the gaps: no types", _aeon("erp"), "aeon", 16),
}


def _status(field: str) -> float:
    """Return a field of this process's status [bytes]."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def main() -> None:
    """Do the task once small, so that all is loaded and compiled, and then as asked."""
    warnings.simplefilter("ignore")  # of peers, about what they lack
    name, events, types, seed = sys.argv[1], *map(int, sys.argv[2:5])
    task = TASKS[name]
    for small in (60, 1200):  # on both sides of the size from which on other functions are used
        task.run(*_pair(task, small, types, seed))
    one, other = _pair(task, events, types, seed)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again with what is resident now
    before, begin, begin_own = _status("VmRSS"), time.perf_counter(), time.process_time()
    value = task.run(one, other)
    found = {"seconds": time.process_time() - begin_own, "elapsed": time.perf_counter() - begin, "value": value}
    print(json.dumps(found | {"peak": _status("VmHWM") - before}))


if __name__ == "__main__":
    main()
