"""Compile the loops of causal models ahead of their first use."""

from __future__ import annotations

_SEED = 1


def warm() -> None:
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
