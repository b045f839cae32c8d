"""What a way of counting adds to a call.

Programs under the outside sampler, in blocks of random order, and medians over the blocks.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.records.file import Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import build_observer

__all__ = ["added_in_blocks", "median_interval", "run_observed"]

_RESAMPLINGS = 10_000
_INTERVAL_NS = 1_000_000_000
"""Longer than a run: nothing is read while it lasts."""

Case = TypeVar("Case", bound=Hashable)


def run_observed(
    command: Sequence[str], folder: Path, *, software: int, environment: Mapping[str, str]
) -> tuple[str, int]:
    """Run a command under the outside sampler.

    Return what it printed, and the count of the first of its software metrics.
    """
    setup = Setup("none", _INTERVAL_NS, "monotonic", software=software, capacity=64, sampler="outside")
    record = folder / "record"
    create_record_file(record, setup)
    done = subprocess.run(
        [str(build_observer("gcc")), str(record), *command],
        env={**environment, "UNPERTURBED_RECORD": str(record)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, int(read_record_file(record, setup).rows["software"][-1][0])


def added_in_blocks(
    cases: Sequence[Case], added: Callable[[Case], float], blocks: int, seed: int
) -> dict[Case, NDArray[np.float64]]:
    """Measure each case once a block, in random order; return its values, one a block."""
    chance = random.Random(seed)
    values: dict[Case, list[float]] = {case: [] for case in cases}
    for block in range(blocks):
        order = list(cases)
        chance.shuffle(order)
        for case in order:
            values[case].append(added(case))
        print(f"\rblock {block + 1} of {blocks}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {case: np.array(measured) for case, measured in values.items()}


def median_interval(values: NDArray[np.float64], seed: int) -> tuple[float, float, float]:
    """Return the median and its 95 % bootstrap interval over blocks."""
    chosen = np.random.default_rng(seed).integers(0, len(values), (_RESAMPLINGS, len(values)))
    low, high = np.percentile(np.median(values[chosen], axis=1), [2.5, 97.5])
    return float(np.median(values)), float(low), float(high)
