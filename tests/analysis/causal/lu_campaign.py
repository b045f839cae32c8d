"""A synthetic campaign of the paper's LU decomposition (section 8.2), whose causes are known.

What varies from seed to seed: the constants of each data type, the cache, and how noisy instructions, misses and cycles
are.

    n            uniform from 5 to 300                  datatype     one of six                    optimisation  0 or 1
    elementsize  = bytes(datatype)
    instr        = base(datatype) − saving(datatype) · optimisation + noise           a basic operation's instructions
    L2M          = (n² · elementsize > cache) · elementsize / 64 + noise                           its misses
    C            = CPI(datatype) · instr + penalty · L2M − gain(datatype) · optimisation + noise   its cycles
    ops          = n (n − 1) (2n − 1) / 6
    T            = ops · C / f

datatype → C and optimisation → C are true edges, as section 8.2 found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from unperturbed.analysis.causal.table.knowledge import Knowledge

__all__ = ["ALL", "SEVEN", "SIZES", "Quality", "draw", "knowledge", "quality", "true_edges"]

SIZES = {"short": 2, "int": 4, "float": 4, "double": 8, "long": 8, "longdouble": 12}
SEVEN = ("n", "datatype", "optimisation", "elementsize", "instr", "L2M", "C")
ALL = (*SEVEN, "ops", "T")

_EDGES = (
    ("datatype", "elementsize"),
    ("datatype", "instr"),
    ("optimisation", "instr"),
    ("n", "L2M"),
    ("elementsize", "L2M"),
    ("instr", "C"),
    ("L2M", "C"),
    ("datatype", "C"),
    ("optimisation", "C"),
    ("n", "ops"),
    ("ops", "T"),
    ("C", "T"),
)
_TIERS = (("n", "datatype", "optimisation"), ("elementsize", "ops"), ("instr", "L2M"), ("C",), ("T",))


def draw(seed: int, rows: int = 400, *, noise: float = 1.0) -> pl.DataFrame:
    """Return a campaign's table.

    `noise` multiplies all noise: 1 is 1–4 % of the instructions, .5–2 % of the cycles and 5–15 % of the smallest jump
    in misses.
    """
    random = np.random.default_rng(seed)
    types = list(SIZES)
    base = random.uniform(20, 60, len(types))
    saving = base * random.uniform(0.1, 0.3, len(types))
    cpi = random.uniform(0.8, 2.2, len(types))
    gain = random.uniform(3, 10, len(types))
    penalty = random.uniform(150, 420)
    cache = random.uniform(40, 250) * 1024
    clock = random.uniform(1e9, 3e9)
    noise_instr, noise_misses, noise_cycles = (
        noise * part
        for part in (random.uniform(0.01, 0.04), random.uniform(0.05, 0.15) * 2 / 64, random.uniform(0.005, 0.02))
    )

    n = random.integers(5, 301, rows)
    datatype = random.integers(0, len(types), rows)
    optimisation = random.integers(0, 2, rows)
    elementsize = np.array([SIZES[name] for name in types])[datatype]
    instr = base[datatype] - saving[datatype] * optimisation
    instr = instr + noise_instr * base.mean() * random.standard_normal(rows)
    misses = np.where(n**2 * elementsize > cache, elementsize / 64, 0.0) + noise_misses * random.standard_normal(rows)
    cycles = cpi[datatype] * instr + penalty * misses - gain[datatype] * optimisation
    cycles = cycles + noise_cycles * cycles.mean() * random.standard_normal(rows)
    ops = n * (n - 1) * (2 * n - 1) / 6
    return pl.DataFrame(
        {
            "n": n,
            "datatype": [types[one] for one in datatype],
            "optimisation": optimisation,
            "elementsize": elementsize,
            "instr": instr,
            "L2M": misses,
            "C": cycles,
            "ops": ops,
            "T": ops * cycles / clock,
        }
    )


def true_edges(names: tuple[str, ...]) -> set[tuple[str, str]]:
    """Return the directed edges of the model among some variables."""
    return {edge for edge in _EDGES if set(edge) <= set(names)}


def knowledge(names: tuple[str, ...]) -> Knowledge:
    """Return the order parameters → derived → events → cycles → time."""
    return Knowledge(tiers=[[name for name in tier if name in names] for tier in _TIERS])


@dataclass(frozen=True)
class Quality:
    """Of the undirected edges found: precision and recall, the false ones and the lost ones."""

    precision: float
    recall: float
    false: tuple[frozenset[str], ...]
    lost: tuple[frozenset[str], ...]


def quality(found: set[frozenset[str]], names: tuple[str, ...]) -> Quality:
    """Compare adjacencies with the true ones."""
    true = {frozenset(edge) for edge in true_edges(names)}
    right = len(found & true)
    return Quality(
        right / len(found) if found else 1.0,
        right / len(true),
        tuple(sorted(found - true, key=sorted)),
        tuple(sorted(true - found, key=sorted)),
    )
