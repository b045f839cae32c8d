"""The smallest number of valid subsets, exactly, where validity is known of every subset."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from tests.analysis.partition.simulated import Program


def validity(of: Program, tolerance: float = 0.1, chunk: int = 1 << 14) -> NDArray[np.bool_]:
    """Return whether each subset is valid, shape (2ⁿ,); bit i of the index is metric i."""
    n = len(of.cost)
    masks = np.arange(2**n)
    rows = ((masks[at : at + chunk, None] >> np.arange(n)) & 1 == 1 for at in range(0, len(masks), chunk))
    return np.concatenate([of.valid(row, tolerance) for row in rows])


def fewest(valid: NDArray[np.bool_], mask: int) -> int:
    """Return the fewest disjoint valid subsets that hold the metrics of `mask`."""
    groups = next(k for k in range(1, mask.bit_count() + 2) if k > mask.bit_count() or _possible(valid, mask, k))
    if groups > mask.bit_count():
        raise ValueError("there is no partition into valid subsets")
    return groups


def measurable(valid: NDArray[np.bool_]) -> int:
    """Return the metrics that are valid alone, as a mask."""
    return sum(1 << at for at in range(len(valid).bit_length() - 1) if valid[1 << at])


def _possible(valid: NDArray[np.bool_], mask: int, groups: int) -> bool:
    return bool(_split(valid, mask, groups, np.zeros((groups + 1, len(valid)), np.bool_)))


@numba.njit
def _split(valid, mask, groups, impossible):  # type: ignore[no-untyped-def]
    """Whether `mask` is a union of at most `groups` disjoint valid subsets; the first holds its lowest bit."""
    if valid[mask]:
        return True
    if groups == 1 or impossible[groups, mask]:
        return False
    lowest = mask & -mask
    rest = mask ^ lowest
    part = rest
    while part:
        part = (part - 1) & rest
        if valid[part | lowest] and _split(valid, rest ^ part, groups - 1, impossible):
            return True
    impossible[groups, mask] = True
    return False
