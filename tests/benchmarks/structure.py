"""How fast, and in how much memory, sequences are decomposed and words are learnt, beside plain ways to do it.

    python tests/benchmarks/structure.py [--runs 3] [--seed 1] [--quick] [--json FILE] [--markdown]

Each run is a process of its own. Fails where a bound is missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sampler_report import Section, Table, deliver, host_state, parse_arguments
from structure_tasks import TASKS
from task_processes import bound_texts, fail_where_missed, measure_tasks

_LONG, _WORDS = 100_000, 50
_LENGTHS = (12_500, 25_000, 50_000, _LONG)
_LONGER = (2 * _LONG, 4 * _LONG)
"""Where memory grows as the sequence does: what shorter ones take is less than what a process takes anyway."""
_LEARNT, _LEARNT_WORDS = 20_000, (6, 20, 50)
_LEARNT_LENGTHS = (5_000, 10_000, 40_000)
_SEGMENTS = 2_000
_SHORT = 500
"""Symbols of what takes Python seconds."""


@dataclass(frozen=True)
class Run:
    """What one process does."""

    task: str
    symbols: int
    words: int = _WORDS


@dataclass(frozen=True)
class Taken:
    """Medians: CPU time and elapsed time [s], peak memory above what was resident before [bytes]; what was found.

    `ratio` is that of the bits with what was learnt to those with what was planted, 0 for other tasks.
    """

    seconds: float
    elapsed: float
    peak: float
    value: float
    ratio: float


def _own_runs(scale: float) -> list[Run]:
    """Return what is measured, at a share of the full lengths."""
    runs = [Run("decompose", int(length * scale)) for length in (*_LENGTHS, *(_LONGER if scale == 1 else ()))]
    runs += [Run("decompose", _SHORT), Run("distances", _SEGMENTS * 32)]
    runs += [Run("learn", int(_LEARNT * scale), words) for words in _LEARNT_WORDS]
    return runs + [Run("learn", int(length * scale), _LEARNT_WORDS[0]) for length in _LEARNT_LENGTHS]


def _peer_runs(scale: float) -> list[Run]:
    return [Run("loop", int(_LONG * scale)), Run("loop", _SHORT), Run("rapidfuzz", _SHORT)]


def _exponent(taken: Mapping[Run, Taken], lengths: Sequence[int], field: str) -> float:
    values = [getattr(taken[Run("decompose", length)], field) for length in lengths]
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])


def _bounds(taken: Mapping[Run, Taken], scale: float) -> list[tuple[str, float, bool]]:
    """Return what is asked for, what was found, and whether it holds."""
    long, learnt = int(_LONG * scale), int(_LEARNT * scale)
    decomposed = taken[Run("decompose", long)].seconds
    pairs = taken[Run("distances", _SEGMENTS * 32)].seconds
    bounds = [
        (f"{long:,} symbols over {_WORDS} words of up to 16, processor s ≤ 5", decomposed, decomposed <= 5),
        (f"distances of {_SEGMENTS:,} segments, processor s of all cores ≤ 0.5", pairs, pairs <= 0.5),
    ]
    for words in _LEARNT_WORDS:
        made = taken[Run("learn", learnt, words)]
        bounds.append(
            (f"learnt from {learnt:,} symbols of {words} words, processor s ≤ 30", made.seconds, made.seconds <= 30)
        )
        bounds.append((f"its bits over those with the true words ({words}) ≤ 1.1", made.ratio, made.ratio <= 1.1))
    if scale == 1:
        time, memory = _exponent(taken, _LENGTHS, "seconds"), _exponent(taken, (_LONG, *_LONGER), "peak")
        bounds.append((f"time's exponent, {_LENGTHS[0]:,} to {_LONG:,} symbols ≤ 1.1", time, time <= 1.1))
        bounds.append((f"memory's exponent, {_LONG:,} to {_LONGER[-1]:,} symbols ≤ 1.1", memory, memory <= 1.1))
    for run, made in taken.items():
        if run.task in ("loop", "rapidfuzz"):
            apart = abs(made.value - taken[Run("decompose", run.symbols)].value)
            bounds.append(
                (f"difference to the cost by {TASKS[run.task].what}, {run.symbols:,} symbols = 0", apart, apart == 0)
            )
    return bounds


def _rows(taken: Mapping[Run, Taken]) -> list[list[str]]:
    rows = []
    for run, made in taken.items():
        size = [f"{run.symbols:,}", f"{run.words:,}" if run.task != "distances" else "–"]
        numbers = [f"{made.seconds:.3g}", f"{made.elapsed:.3g}", f"{made.peak / 1e6:,.1f}"]
        rows.append([TASKS[run.task].what, *size, *numbers, f"{made.ratio:.3f}" if made.ratio else "–"])
    return rows


def main() -> None:
    """Measure, report, and fail where a bound is missed."""
    description = __doc__.splitlines()[0] if __doc__ else ""
    arguments = parse_arguments(description, runs=(3, "runs of each"), seed=(1, "of the sequences and the order"))
    before = host_state()
    scale = 0.1 if arguments.quick else 1.0
    times = 1 if arguments.quick else arguments.runs
    own, peers = _own_runs(scale), _peer_runs(scale)
    script = Path(__file__).with_name("structure_tasks.py")
    asked = {run: (run.task, *map(str, (run.symbols, run.words, arguments.seed))) for run in (*own, *peers)}
    measured = measure_tasks(script, asked, times, arguments.seed)
    taken = {run: Taken(**made) for run, made in measured.items()}
    bounds = _bounds(taken, scale)
    columns = ["", "symbols", "words", "processor s", "elapsed s", "MB", "bits / true words'"]
    section = Section(
        script="structure",
        title="Phase words beside plain ways to find them",
        method=(
            "Sequences of 10 classes without equal neighbours: independent ones for decompositions, with words of 5 to "
            "16 symbols that have nothing to do with them; for learning, words in a random order with a symbol in 40 "
            "lost and one in 40 replaced, which are then to be found. Each run is a process of its own, on one thread "
            "(distances and shuffled sequences: all cores), after a small one that compiles all. "
            f"Medians of {times} runs: CPU time, elapsed time, and peak memory above what was resident before. "
            "No other library computes an optimal decomposition: a plain compiled loop does, and a loop in Python over "
            "rapidfuzz."
        ),
        tables=[
            Table("unperturbed", columns, _rows({run: taken[run] for run in own})),
            Table("Others", columns, _rows({run: taken[run] for run in peers})),
        ],
        verdicts=bound_texts(bounds),
        data={"taken": [{**vars(run), **vars(made)} for run, made in taken.items()], "bounds": bounds},
    )
    deliver(section, arguments, before)
    fail_where_missed(bounds)


if __name__ == "__main__":
    main()
