"""Compile the analyses' kernels before their first use, by running each kernel on a small example."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unperturbed.collectors.data import Trace

_SEED = 1
_RUNS = 8
_WHOLE_CELLS = (1 << 14) + 64
"""Number of intervals in each run at which two runs of whole numbers are aligned in 32-bit cells."""


def warm_alignment() -> None:
    """Compile the dynamic-time-warping kernels for each cell type, and the kernels of the check across aligned runs."""
    import numpy as np

    from unperturbed.analysis.alignment import dtw, pairwise
    from unperturbed.analysis.perturbation import Baseline

    series = np.random.default_rng(_SEED).normal(size=(2, 64))
    whole = np.random.default_rng(_SEED).integers(0, 9, (2, _WHOLE_CELLS)).astype(np.float64)
    for row, other in (series, whole):
        dtw(row, other)
        pairwise([row, other])
    runs = [next(recurring_phases(seed)) for seed in range(_RUNS)]
    Baseline(runs[: _RUNS - 3], metrics=("one", "two")).outer(runs[-3:], align_on=("one", "two"))


def recurring_phases(seed: int) -> Iterator[Trace]:
    """Yield two runs with the same phases; the second run is shorter."""
    import numpy as np

    from unperturbed.collectors.data import Metric, Trace

    levels = {"a": (10, 900), "b": (200, 20), "c": (60, 300)}
    chance = np.random.default_rng(seed)
    metrics = [Metric(name, "hardware") for name in ("one", "two")]
    for rounds in (20, 17):
        counts = np.array([chance.poisson(levels[phase]) for phase in "abcacb" * rounds for _ in range(5)]) + 1
        ends = np.cumsum(np.full(len(counts), 1_000_000))
        columns = {"one": counts[:, 0], "two": counts[:, 1]}
        yield Trace.from_columns(metrics, columns, begin_ns=ends - 1_000_000, end_ns=ends)


GROUP = "unperturbed.kernels"  # Entry points of the functions that compile each analysis's loops


def warmers() -> Mapping[str, Callable[[], None]]:
    """Return the functions that compile each analysis's loops, keyed by the name of the analysis."""
    from unperturbed.common.extensions import loaders

    others = {name: _compile_with(load) for name, load in loaders(GROUP, FunctionType).items()}
    return {"alignment": warm_alignment, **others}


def _compile_with(load: Callable[[], FunctionType]) -> Callable[[], None]:
    """Return a function that imports a warming function and calls it."""
    return lambda: load()()  # noqa: PLW0108  without the lambda, the import would happen at once


def warm_once(analysis: str, announce: Callable[[str], None] | None = None) -> None:
    """Compile an analysis's kernels before a command's own work, if not yet compiled; announce or log this."""
    stamp = _stamp(analysis)
    if stamp is None or stamp.exists():
        return
    what = f"compiling the loops of the {analysis} analysis, at first use only: about 10 s of CPU time"
    (announce or (lambda line: logging.getLogger(__name__).info("%s …", line)))(what)
    logger = logging.getLogger("unperturbed")
    level = logger.level
    if level == logging.INFO:  # one line is enough; with -v, each kernel has its own line
        logger.setLevel(logging.WARNING)
    try:
        warmers()[analysis]()
    finally:
        logger.setLevel(level)
    stamp.touch()


def remember_warmed(analysis: str) -> None:
    """Record in the cache that an analysis is compiled."""
    stamp = _stamp(analysis)
    if stamp is not None:
        stamp.touch()


def _stamp(analysis: str) -> Path | None:
    """Return the file that marks an analysis as compiled; None if the cache is not writable (compiling is wasted)."""
    from importlib.metadata import version

    from unperturbed.common.user_cache import user_cache

    try:
        folder = user_cache() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    return folder / f"{analysis}-{version('unperturbed')}-{version('numba')}.ready"
