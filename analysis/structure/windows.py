"""A first decomposition, from the sequence alone: fragments that are like the one before them, and the places where that changes.

"Structural analysis of measurement paths", section 1, says no more than this: "a variable-size window, which isolates the current fragment and
evaluates the degree of its similarity to the preceding fragment in the sense of the given metrics". What is done here is one reading of it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Indel

from unperturbed.analysis.structure.distances import Comparable, comparable
from unperturbed.analysis.structure.encoding import AnySequence, encode

__all__ = ["first_decomposition"]


def first_decomposition(
    sequence: AnySequence, *, theta: float = 0.3, shortest: int = 3, longest: int = 12
) -> NDArray[np.int64]:
    """Cut a sequence where it stops being like what came just before.

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
    theta : ratio
        θ, from 0 to 1: fragments are alike where ρ / (sum of their lengths) does not exceed it. 0: only equal ones; 1: any.
    shortest, longest : symbols
        Of a fragment; 1 ≤ shortest ≤ longest. The last one may be shorter.

    Returns
    -------
    int64, shape (fragments + 1,)
        Where fragments begin, and the sequence's length; [0] for an empty sequence.

    Raises
    ------
    DataError
        A symbol that cannot be compared.
    ValueError
        A θ or lengths outside their ranges.

    Notes
    -----
    The window grows from `shortest` to `longest` symbols and ends where it is most like the preceding fragment. Where that exceeds θ, the
    sequence has changed and a fragment without a forerunner begins: it ends where it is most like the window of its own length behind it. Where
    that exceeds θ too, nothing recurs here, and it ends after `shortest` symbols. Of equally good ends the first. O(n · longest³ / shortest) steps at
    most, most of them 64 at a time.
    """
    if not 0 <= theta <= 1:
        raise ValueError(f"theta is {theta}; give a ratio from 0 to 1")
    if not 1 <= shortest <= longest:
        raise ValueError(
            f"shortest is {shortest} and longest {longest}; a fragment has 1 symbol or more, and longest is not below shortest"
        )
    encoded = encode(sequence)
    symbols = comparable(encoded.codes, len(encoded.alphabet))
    cuts, preceding = [0], symbols[:0]
    while cuts[-1] < len(symbols):
        begin = cuts[-1]
        end = _most_alike(symbols, begin, preceding, theta, (shortest, longest))
        preceding = symbols[begin:end]
        cuts.append(end)
    return np.array(cuts, np.int64)


def _most_alike(symbols: Comparable, begin: int, preceding: Comparable, theta: float, lengths: tuple[int, int]) -> int:
    """Return where the fragment ends that begins here."""
    shortest, longest = lengths
    ends = range(begin + shortest, min(begin + longest, len(symbols)) + 1)
    to_preceding = [Indel.normalized_distance(symbols[begin:end], preceding) for end in ends]
    if begin and min(to_preceding, default=math.inf) <= theta:
        return ends[to_preceding.index(min(to_preceding))]
    halves = [(begin, end, 2 * end - begin) for end in ends if 2 * end - begin <= len(symbols)]
    to_following = [Indel.normalized_distance(symbols[first:middle], symbols[middle:last]) for first, middle, last in halves]
    if min(to_following, default=math.inf) <= theta:
        return ends[to_following.index(min(to_following))]
    return min(begin + shortest, len(symbols))
