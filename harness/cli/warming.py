"""Compile the kernels of the analyses ahead of their first use, by small examples of everything that is compiled.

Code is kept in the user's cache (see `unperturbed.analysis.compiling`), so that a first answer waits for none.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, get_args

if TYPE_CHECKING:
    from unperturbed.collectors.data import Trace

_SEED = 1
_RUNS = 8
_WHOLE_CELLS = (1 << 14) + 64
"""Whole numbers are aligned in cells of 32 bits where two runs of so many intervals are."""
_LOG = "".join(f"{1000 * at} {'abc'[at % 3]}\n" for at in range(60))


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
    runs = [next(_phases(seed)) for seed in range(_RUNS)]
    Baseline(runs[: _RUNS - 3], metrics=("one", "two")).outer(runs[-3:], align_on=("one", "two"))


def warm_structure() -> None:
    """Compile classes of intervals, decompositions and the search for a dictionary."""
    from unperturbed.analysis.structure import compare_structure, compose, structural_sequence

    one, other = _phases(_SEED)
    first = compose(structural_sequence(one, seed=_SEED), seed=_SEED)
    second = compose(structural_sequence(other, seed=_SEED, classes=first.sequence.classes), seed=_SEED)
    compare_structure(first, second, seed=_SEED)


def _phases(seed: int) -> Iterator[Trace]:
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


def warm_diagnosis() -> None:
    """Compile the readers of event logs and the distances of event traces."""
    from unperturbed.analysis.diagnosis import (
        EventTrace,
        Variant,
        abstract,
        diagnose,
        learn_blocks,
        log_formats,
        read_events,
        temporal_distance,
    )
    from unperturbed.common.scratch import scratch_folder

    for log_format in log_formats().values():
        log_format.compile()
    with scratch_folder("warming") as place:
        path = place / "log"
        path.write_text(_LOG)
        trace = read_events(path, format="simple")
    abstract(trace, learn_blocks([trace]))
    diagnose([trace, trace, trace], trace)
    for types, step in ((3, 1), (3, 1 << 30), (50, 1)):  # few and many types, times of 32 bits and of more
        events, others = (
            EventTrace.from_pairs([((step + 10) * at + at % 7, f"type{at * stride % types}") for at in range(300)])
            for stride in (1, 7)
        )
        for variant in get_args(Variant):
            temporal_distance(events, others, variant=variant).script()


def warm_model() -> None:
    """Compile the tests of independence and the regressions' loops."""
    import numpy as np
    import polars as pl

    from unperturbed.analysis.causal import Knowledge, independence_tests, learn

    chance = np.random.default_rng(_SEED)
    size, kind = chance.integers(1, 100, 80), chance.choice(["one", "two"], 80)
    misses = size**2 * (1 + 0.1 * chance.normal(size=80)) * np.where(kind == "one", 1, 2)
    seconds = 1e-6 * misses + 1e-3 * size + 0.01 * chance.normal(size=80)
    table = pl.DataFrame({"size": size, "kind": kind, "misses": misses, "seconds": seconds})
    for test in independence_tests():
        learn(table, Knowledge(), test=test)


WARMERS: Mapping[str, Callable[[], None]] = {
    "alignment": warm_alignment,
    "structure": warm_structure,
    "diagnosis": warm_diagnosis,
    "model": warm_model,
}
"""The parts with compiled kernels, and what compiles them."""


def warm_once(part: str, announce: Callable[[str], None] | None = None) -> None:
    """Compile a part's kernels where that was never done, before a command's own work and not in the middle of it.

    `announce`: Receives one line where this takes its time; that line is logged where nothing is given.
    """
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
        WARMERS[part]()
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
