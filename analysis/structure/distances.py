"""How many insertions and deletions turn one fragment of a sequence into another.

"Structural analysis of measurement paths", section 2, eq. (1). The paper's transformation of T2 into T1 inserts symbols of T2; what is meant is
T1's. The least number is the same in either direction: |s| + |t| − 2·LCS(s, t).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist

from unperturbed.analysis.structure.encoding import AnySequence, number_symbols
from unperturbed.errors import DataError

__all__ = ["Comparable", "comparable", "indel_distance", "indel_distances", "square"]

Comparable: TypeAlias = bytes | list[int]
"""Numbers of symbols, for rapidfuzz."""

_BYTE = 256
_WORTH_THREADS = 100_000
"""Pairs from which on starting threads pays."""


def indel_distance(one: AnySequence, other: AnySequence) -> int:
    """Return ρ of two sequences, eq. (1): fewest insertions and deletions that turn one into the other.

    Parameters
    ----------
    one, other : str, iterable of hashable, array of shape (n,) or StructuralSequence
        May be empty: ρ is then the other's length.

    Returns
    -------
    int
        A metric: symmetric, 0 only for equal sequences, and it keeps the triangle inequality.

    Raises
    ------
    DataError
        A symbol that cannot be compared.
    """
    ((first, second),) = _comparable([[one, other]], ["sequence"])
    return Indel.distance(first, second)


def indel_distances(segments: Iterable[AnySequence], others: Iterable[AnySequence] | None = None) -> NDArray[np.int64]:
    """Return ρ of each pair of segments, eq. (1).

    Parameters
    ----------
    segments : n of str, iterable of hashable, array of shape (length,) or StructuralSequence
        Symbols are compared by value. Segments may be empty.
    others : m of the same, optional
        What they are compared with. Themselves by default.

    Returns
    -------
    int64, shape (n, m)
        Insertions and deletions. Symmetric with a zero diagonal where segments are compared with themselves.

    Raises
    ------
    DataError
        A symbol that cannot be compared, or one text in place of several segments.

    Notes
    -----
    Bit-parallel LCS of rapidfuzz, on all cores.
    """
    if isinstance(segments, str) or isinstance(others, str):
        raise DataError("segments are given as one text; give a list of segments")
    groups = [list(segments)] if others is None else [list(segments), list(others)]
    compared = _comparable(groups, ["segment", "other"][: len(groups)])
    rows, columns = compared[0], compared[-1]
    furthest = sum(max(map(len, group), default=0) for group in (rows, columns))
    threads = -1 if len(rows) * len(columns) >= _WORTH_THREADS else 1
    found = cdist(rows, columns, scorer=Indel.distance, dtype=np.min_scalar_type(furthest), workers=threads)
    return found.astype(np.int64).reshape(len(rows), len(columns))


def square(distances: ArrayLike) -> NDArray[np.float64]:
    """Return distances as a square matrix: float64, shape (d, d); anything empty is one of no rows.

    Raises
    ------
    DataError
        Another shape.
    """
    matrix = np.asarray(distances, dtype=np.float64)
    if matrix.size == 0 and matrix.ndim < 3:
        return np.empty((0, 0))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"distances have the shape {matrix.shape}; give a square matrix, a row and a column for each segment")
    return matrix


def comparable(codes: NDArray[np.int32], symbols: int) -> Comparable:
    """Return numbers below `symbols` as rapidfuzz compares them fastest; anything but numbers it compares by hashes, which may coincide."""
    return codes.astype(np.uint8).tobytes() if symbols <= _BYTE else codes.tolist()


def _comparable(groups: list[list[AnySequence]], names: list[str]) -> list[list[Comparable]]:
    """Return sequences as numbers over one alphabet."""
    numbers: dict[Hashable, int] = {}
    coded = [
        [number_symbols(sequence, numbers, f"{name} {position}") for position, sequence in enumerate(group)]
        for group, name in zip(groups, names, strict=True)
    ]
    return [[comparable(codes, len(numbers)) for codes in group] for group in coded]
