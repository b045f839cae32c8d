"""Tables of discrete and continuous variables: independent ones, and ones drawn along a random causal graph."""

from __future__ import annotations

import numpy as np
import polars as pl

from tests.analysis.causal.graphs import random_graph

__all__ = ["independent_table", "structured_table"]


def independent_table(seed: int, rows: int, columns: int = 10) -> pl.DataFrame:
    """Return independent columns: normal, lognormal, heavy-tailed, whole numbers, text, two values."""
    random = np.random.default_rng(seed)
    kinds = (
        lambda: random.standard_normal(rows),
        lambda: np.exp(random.standard_normal(rows)),
        lambda: random.standard_t(2, rows),
        lambda: random.integers(5, 301, rows),
        lambda: [f"type {one}" for one in random.integers(0, 6, rows)],
        lambda: random.integers(0, 2, rows),
        lambda: [f"rare {one}" for one in np.minimum(random.geometric(0.5, rows), 7)],
    )
    return pl.DataFrame({f"v{at}": kinds[at % len(kinds)]() for at in range(columns)})


def structured_table(
    seed: int, rows: int, size: int = 20, density: float = 0.12
) -> tuple[pl.DataFrame, dict[str, list[str]]]:
    """Return a table and the parents of each of its columns; a third of them are discrete."""
    random = np.random.default_rng(seed)
    parents = random_graph(random, size, density)
    columns: dict[str, np.ndarray] = {}
    numbers: dict[str, np.ndarray] = {}
    while len(columns) < size:
        for name, causes in parents.items():
            if name in columns or not all(one in columns for one in causes):
                continue
            level = random.standard_normal(rows)
            for one in causes:
                cause = numbers[one]
                curve = (cause, cause**2 / 2, np.abs(cause), np.where(cause > 0.3, 1.0, -1.0))[random.integers(0, 4)]
                level = level + random.uniform(0.7, 1.5) * random.choice((-1, 1)) * curve
            if random.random() < 1 / 3:
                cuts = np.quantile(level, np.linspace(0, 1, random.integers(2, 6) + 1)[1:-1])
                codes = np.searchsorted(cuts, level)
                columns[name] = np.array([f"c{code}" for code in codes])
                level = codes.astype(float)
            else:
                columns[name] = level
            numbers[name] = (level - level.mean()) / level.std()
    return pl.DataFrame({name: columns[name] for name in parents}), parents
