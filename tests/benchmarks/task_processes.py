"""Tasks of a benchmark, each run in a process of its own: medians of what they took."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

__all__ = ["bound_texts", "fail_where_missed", "measure_tasks"]

Run = TypeVar("Run", bound=Hashable)

Bound = tuple[str, float, bool]
"""What is asked for, what was found, and whether it holds."""

_LONG = 30.0
"""Seconds: what takes longer runs once."""


def measure_tasks(
    script: Path, runs: Mapping[Run, Sequence[str]], times: int, seed: int
) -> dict[Run, dict[str, float]]:
    """Run tasks in blocks, each block in a random order, on one thread each.

    Parameters
    ----------
    script : path
        Prints a line of JSON with numbers, among them `elapsed`, the seconds that the task took.
    runs : mapping
        The script's arguments by run.
    times : int
        Blocks. A run that took half a minute is not repeated.
    seed : int
        Of the order.

    Returns
    -------
    dict
        Medians of the numbers, by run.

    Raises
    ------
    SystemExit
        A task failed; the message ends with what it said.
    """
    chance = random.Random(seed)
    found: dict[Run, list[dict[str, float]]] = {run: [] for run in runs}
    for block in range(times):
        order = list(runs)
        chance.shuffle(order)
        for number, run in enumerate(order):
            print(f"\rblock {block + 1} of {times}: {number + 1} of {len(order)}", end="", file=sys.stderr, flush=True)
            if not any(made["elapsed"] > _LONG for made in found[run]):
                found[run].append(_process(script, runs[run]))
    print(file=sys.stderr)
    return {
        run: {field: statistics.median(one[field] for one in made) for field in made[0]} for run, made in found.items()
    }


def _process(script: Path, arguments: Sequence[str]) -> dict[str, float]:
    environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")}
    done = subprocess.run(
        [sys.executable, str(script), *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script.name} {' '.join(arguments)} failed: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def bound_texts(bounds: Sequence[Bound]) -> list[str]:
    """Return a line for each bound: what is asked for, what was found, and whether it was missed."""
    return [f"{text}: {found:.3g}{'' if holds else ' — MISSED'}." for text, found, holds in bounds]


def fail_where_missed(bounds: Sequence[Bound]) -> None:
    """End with a message that names the bounds which do not hold; return if all do."""
    missed = [text for text, _, holds in bounds if not holds]
    if missed:
        raise SystemExit(f"missed: {'; '.join(missed)}")
