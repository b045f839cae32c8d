"""Sequences without structure: the same symbols as often in another order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.structure.symbol_code import has_equal_neighbours

__all__ = ["shuffled"]

_MODULE = "unperturbed.analysis.structure.shuffling_kernels"
_LAY_OUT, _SWAP = ("int64[::1], float64[::1]",), ("int32[::1], int64[:,::1]",)

_SWAPS = 20
"""Tried for each symbol."""


def shuffled(codes: NDArray[np.int32], chance: np.random.Generator) -> NDArray[np.int32]:
    """Return a sequence's symbols in a random order; where it has no equal neighbours, one of the orders that have none.

    Where runs are collapsed, symbols are drawn one after another of those that are left and differ from the one before, as far as the rest can still
    be laid out so. Such orders are not all equally likely; so symbols are then swapped at random while no neighbours become equal, a chain whose
    orders are.
    """
    if has_equal_neighbours(codes):
        return chance.permutation(codes)
    counts = np.bincount(codes, minlength=1).astype(np.int64)
    made: NDArray[np.int32] = compiled(_MODULE, "lay_out", _LAY_OUT)(counts, chance.random(len(codes)))
    places = chance.integers(0, max(len(codes), 1), (2, _SWAPS * len(codes)))
    compiled(_MODULE, "swap", _SWAP)(made, places)
    return made
