"""Compile the kernels of the analyses ahead of their first use, by small examples of everything that is compiled."""

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
"""Two runs with this number of intervals are aligned in cells of 32 bits, if their values are whole numbers."""


def warm_alignment() -> None:
    """Compile the kernels of dynamic time warping, for each type of cells, and of the check across aligned runs."""
    import numpy as np

    from unperturbed.analysis.alignment import dtw, pairwise
    from unperturbed.analysis.perturbation import Baseline

    series = np.random.default_rng(_SEED).normal(size=(2, 64))
    whole = np.random.default_rng(_SEED).integers(0, 9, (2, _WHOLE_CELLS)).astype(np.float64)
    for one, other in (series, whole):
        dtw(one, other)
        pairwise([one, other])
    runs = [next(recurring_phases(seed)) for seed in range(_RUNS)]
    Baseline(runs[: _RUNS - 3], metrics=("one", "two")).outer(runs[-3:], align_on=("one", "two"))


def recurring_phases(seed: int) -> Iterator[Trace]:
    """Yield two runs of the same phases, the second one shorter."""
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


GROUP = "unperturbed.kernels"  # The entry points of functions that compile a part's loops


def warmers() -> Mapping[str, Callable[[], None]]:
    """Return what compiles the loops of each part, by its name."""
    from unperturbed.common.extensions import loaders

    others = {name: _compile_with(load) for name, load in loaders(GROUP, FunctionType).items()}
    return {"alignment": warm_alignment, **others}


def _compile_with(load: Callable[[], FunctionType]) -> Callable[[], None]:
    """Return a function that imports another one, and calls it."""
    return lambda: load()()  # noqa: PLW0108  without it the import would come first


def warm_once(part: str, announce: Callable[[str], None] | None = None) -> None:
    """Compile a part's kernels before a command's own work, once in all; announce or log it in one line."""
    stamp = _stamp(part)
    if stamp is None or stamp.exists():
        return
    what = f"compiling the loops of the {part}, this once: some 10 s of CPU time"
    (announce or (lambda line: logging.getLogger(__name__).info("%s …", line)))(what)
    logger = logging.getLogger("unperturbed")
    level = logger.level
    if level == logging.INFO:  # one line says it; with -v each kernel has its own
        logger.setLevel(logging.WARNING)
    try:
        warmers()[part]()
    finally:
        logger.setLevel(level)
    stamp.touch()


def remember_warmed(part: str) -> None:
    """Keep in the cache that a part is compiled."""
    stamp = _stamp(part)
    if stamp is not None:
        stamp.touch()


def _stamp(part: str) -> Path | None:
    """Return the file that marks a part as compiled; None where nothing can be kept and compiling would be in vain."""
    from importlib.metadata import version

    from unperturbed.common.user_cache import user_cache

    try:
        folder = user_cache() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    return folder / f"{part}-{version('unperturbed')}-{version('numba')}.ready"
