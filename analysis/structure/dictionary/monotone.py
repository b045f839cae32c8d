"""The paper's own search for words: alternate between a kernel of segments and a decomposition over its words.

"Structural analysis of measurement paths", sections 2 and 3. The kernel of a set of segments is the subset of
"maximally distant" segments, which become words: eqs. (2), (3) and (5), Kuznetsov's method of monotonic functions. One
pass that repeatedly removes the segment with the smallest weight finds the maximum over all subsets.

The two steps have no common objective: the kernel is the exact solution of (3), within the bounds that `kernel` states;
the decomposition is that of (7) among segments of limited length. One step may lose what the other gains. So each
dictionary is scored by its description length, and the shortest description is kept.

Choices beyond the paper: its kernel uses one power p; here, several are tried. It ends when the dictionary does not
change; here, also in a cycle or at a limit of rounds. If the model is inadequate, it runs again "with a new starting
vocabulary"; here, with different thresholds of the window that gives the first decomposition, then with random cuts.
Segments of up to twice the longest word become words, which could double in length until two of them are the whole
sequence, with J = 0; here, their length is limited.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.structure.dictionary.description_length import (
    DescriptionLength,
    SymbolCode,
    encoded_length,
    shortest_decomposition,
)
from unperturbed.analysis.structure.segmentation import (
    Decomposition,
    decompose,
    decompose_encoded,
    first_decomposition,
)
from unperturbed.analysis.structure.symbols import AnySequence, Encoded, Word, indel_distances, square
from unperturbed.errors import DataError

_LARGEST_EXACT = 2**53
_LARGEST_SUM = 2**61
"""Maximum sum of integer weights; it leaves half the range of int64 free for the mark of removed rows."""
_REMOVED = np.iinfo(np.int64).max
_ROUNDING = 2.0**-52
"""Rounding error of a power, relative to the largest power."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """Kernel of a set of segments: the subset H* of eq. (3), with the order of removals that leads to it.

    Attributes
    ----------
    members : array of int64, shape (size,)
        Rows of the matrix that belong to H*, in increasing order.
    value : float
        F(H*): the minimum over members of the sum of powers of the distances to all members.
    defining_sequence : array of int64, shape (d,)
        All rows in the order of their removal. H* is the set that remained at the last threshold step.
    weights : array of float64, shape (d,)
        π of each row at its removal: F of the remaining set, including this row.
    threshold_steps : array of int64, shape (steps,)
        Positions in the defining sequence at which the threshold u changes; the first is 0.
    """

    members: NDArray[np.int64]
    value: float
    defining_sequence: NDArray[np.int64]
    weights: NDArray[np.float64]
    threshold_steps: NDArray[np.int64]


def kernel(distances: ArrayLike, power: float = 1.0, *, smallest: bool = False) -> Kernel:
    """Find the subset of segments in which even the least distant member is most distant; for exactness, see the notes.

    Parameters
    ----------
    distances : array of float, shape (d, d)
        Distances: symmetric, 0 or more, finite, with a zero diagonal; see `indel_distances`.
    power : float, default 1.0
        Exponent p of the distances, above 0. Large exponents emphasise segments that are far from all others
        ("sufficiently high power", section 2).
    smallest : bool, default False
        Whether the threshold also changes at an equal weight. False, as in the paper, gives the largest subset that
        reaches the maximum; True gives the smallest if no two rows are at distance 0. With duplicates, the result is a
        subset that cannot be made smaller; if rows at distance 0 differ, it is any subset that reaches the maximum.

    Returns
    -------
    Kernel
        The kernel. Without rows, it has no members and value 0; for one row, or if all distances are 0, the value is 0.

    Raises
    ------
    ValueError
        A power that is not above 0, or so large that the powers of distances overflow.
    DataError
        A matrix that does not contain distances.

    Notes
    -----
    Among rows with the same weight, the lowest is removed first. O(d²) time and one copy of the matrix. Sums are
    integers, so they do not drift when columns are subtracted. They are exact for integer distances of at most 2⁵³ and
    an integer power if d times the largest power is at most 2⁶¹, as for 100 segments with distances up to 64 and power
    9. Otherwise their resolution is finer than the rounding of the powers, and weights are considered equal if they
    differ by at most that rounding, 2⁻⁵² of d times the largest power.
    """
    matrix = _checked(distances)
    if not (power > 0 and math.isfinite(power)):
        raise ValueError(f"`power` is {power}: use a finite number above 0")
    if not len(matrix):
        return Kernel(np.empty(0, np.int64), 0.0, np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))
    powers, exponent, rounding = _whole_powers(matrix, power)
    order, weights = _defining_sequence(powers)
    steps = _threshold_steps(weights, rounding, smallest)
    last = steps[-1]
    scaled = np.ldexp(weights.astype(np.float64), exponent)
    return Kernel(np.sort(order[last:]), float(scaled[last]), order, scaled, np.array(steps, np.int64))


def _checked(distances: ArrayLike) -> NDArray[np.float64]:
    matrix = square(distances)
    for wrong, what in (
        (~np.isfinite(matrix), "it must be finite"),
        (matrix < 0, "it must not be negative"),
        (np.diag(np.diag(matrix) != 0), "it must be 0 from a segment to itself"),
        (matrix != matrix.T, "it must be the same in both directions"),
    ):
        if wrong.any():
            row, column = (int(index) for index in np.argwhere(wrong)[0])
            raise DataError(f"the distance from segment {row} to segment {column} is {matrix[row, column]}: {what}")
    return matrix


def _whole_powers(matrix: NDArray[np.float64], power: float) -> tuple[NDArray[np.int64], int, int]:
    """Return the powers as integer multiples of a power of 2, its exponent, and the rounding error of their sums."""
    furthest, rows = float(matrix.max()), len(matrix)
    try:
        largest = furthest**power
    except OverflowError:
        largest = math.inf
    if math.isinf(largest * rows) or (furthest and not largest):
        raise ValueError(f"power {power:g} of the distance {furthest:g} is out of range: use a power nearer to 1")
    if (
        float(power).is_integer()
        and furthest <= _LARGEST_EXACT
        and largest * rows <= _LARGEST_SUM
        and (matrix % 1 == 0).all()
    ):
        return matrix.astype(np.int64) ** int(power), 0, 0
    # The maximum of F is at least the largest power, that of the most distant pair, so the resolution is relative to
    # it. It is a power of two, so powers are rounded at most once.
    exponent = math.frexp(largest * rows)[1] - _LARGEST_SUM.bit_length() + 1
    whole = np.rint(np.ldexp(matrix**power, -exponent)).astype(np.int64)
    return whole, exponent, math.ceil(math.ldexp(rows * largest * _ROUNDING, -exponent))


def _defining_sequence(powers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows in the order of their removal, and their weights at that time (the algorithm of section 2)."""
    remaining = powers.sum(axis=0)
    order, weights = np.empty(len(powers), np.int64), np.empty(len(powers), np.int64)
    for step in range(len(powers)):
        row = int(remaining.argmin())
        order[step], weights[step] = row, remaining[row]
        remaining -= powers[row]  # section 3: π(L, H_k) = π(L, H_k-1) − ρ
        remaining[row] = _REMOVED
    return order, weights


def _threshold_steps(weights: NDArray[np.int64], rounding: int, smallest: bool) -> list[int]:
    """Return the steps at which the threshold u changes."""
    steps, threshold = [0], int(weights[0])
    for step, weight in enumerate(weights[1:].tolist(), start=1):
        if weight > threshold + rounding or (smallest and weight >= threshold - rounding):
            steps.append(step)
            threshold = max(threshold, weight)
    return steps


POWERS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
"""Powers to try: 1 keeps nearly every segment as a word, 16 nearly none; larger powers change nothing."""
THETAS = (0.3, 0.15, 0.5)

_SHORTEST, _LONGEST = 3, 12
"""Minimum and maximum number of symbols between random cuts."""
_MOST_SEGMENTS = 5000
"""Maximum number of different segments; a matrix of their distances takes 200 MB."""

_Codes: TypeAlias = tuple[int, ...]
_Description: TypeAlias = tuple[Decomposition, DescriptionLength]


@dataclass(frozen=True)
class Round:
    """Intermediate dictionary of a search.

    Attributes
    ----------
    words : tuple of Word
        The words, in no particular order.
    bits : float
        Total description length.
    cost : float
        J of the paper's (6): insertions and deletions of the decomposition that takes these bits.
    """

    words: tuple[Word, ...]
    bits: float
    cost: float


class Start(NamedTuple):
    """First decomposition, from which an alternation starts."""

    name: str  # Description of its origin
    cuts: NDArray[np.int64]  # (segments + 1,): Start of each segment, and the sequence's length


class Alternation(NamedTuple):
    """Result of an alternation of kernels and decompositions."""

    # The decomposition with the shortest description over the words of the best round, without unused words; without
    # any words if that is shorter.
    decomposition: Decomposition
    bits: DescriptionLength
    # Each round with the words that its decomposition (7) uses, the bits of that decomposition, and its J.
    rounds: tuple[Round, ...]
    stopped: str  # "fixed point", "cycle of n rounds" or "limit of n rounds", the power, and the start


def starts(
    encoded: Encoded,
    *,
    words: Iterable[AnySequence] = (),
    thetas: Sequence[float] = THETAS,
    random_starts: int = 3,
    longest: int = 32,
    seed: int = 0,
) -> Iterator[Start]:
    """Yield first decompositions: over given words (if any), then by a window at each θ, then by random cuts."""
    given = list(words)
    if given:
        decomposition = decompose(encoded.decode(encoded.codes), given)
        yield Start("given words", _limit_lengths(decomposition.cuts, longest))
    for theta in thetas:
        yield Start(f"window, θ = {theta:g}", _limit_lengths(first_decomposition(encoded.codes, theta=theta), longest))
    for number in range(random_starts):
        size = len(encoded.codes)
        lengths = np.random.default_rng([seed, number]).integers(_SHORTEST, _LONGEST + 1, size // _SHORTEST + 1)
        ends = np.cumsum(lengths)
        cuts = np.unique(np.concatenate(([0], ends[ends < size], [size]))).astype(np.int64)
        yield Start(f"random cuts {number + 1}", _limit_lengths(cuts, longest))


def alternate(
    encoded: Encoded, start: Start, power: float, *, longest: int = 32, most_rounds: int = 30, literal: bool = False
) -> Alternation:
    """Alternate kernels and decompositions until a dictionary recurs (section 3).

    A dictionary is a set and depends only on the dictionary before it, so a recurring dictionary closes a cycle.
    """
    if most_rounds < 1:
        raise ValueError(f"`most_rounds` is {most_rounds}: use 1 or more")
    if longest < 1:
        raise ValueError(f"`longest` is {longest}: use 1 symbol or more")
    code = SymbolCode.of(encoded)
    segments, seen, described = _segments(encoded, start.cuts), list[tuple[_Codes, ...]](), list[_Description]()
    stopped = f"limit of {most_rounds} rounds"
    while len(seen) < most_rounds:
        words = _kernel_words(segments, power, literal=literal)
        if words in seen:
            length = len(seen) - seen.index(words)
            stopped = "fixed point" if length == 1 else f"cycle of {length} rounds"
            break
        seen.append(words)
        known = encoded.with_words(words)
        greatest = min(longest, 2 * max(map(len, words), default=1))
        free = np.zeros(len(words)), 1.0, np.inf, np.zeros(len(encoded.codes))  # eq. (7)
        pruned = _drop_unused_words(decompose_encoded(known, greatest, *free))
        described.append((pruned, encoded_length(pruned, code)))
        segments = _segments(encoded, pruned.cuts)
    best, _ = min(described, key=lambda description: description[1].total)
    rounds = tuple(Round(decomposition.dictionary, bits.total, decomposition.cost) for decomposition, bits in described)
    stopped = f"{stopped}, power {power:g}, start: {start.name}"
    return Alternation(*_shortest_description(best, code), rounds, stopped)


def _segments(encoded: Encoded, cuts: NDArray[np.int64]) -> list[_Codes]:
    codes = encoded.codes.tolist()
    return [tuple(codes[first:last]) for first, last in pairwise(cuts.tolist())]


def _kernel_words(segments: list[_Codes], power: float, *, literal: bool) -> tuple[_Codes, ...]:
    """Return the kernel's segments, without duplicates and sorted by their symbols."""
    compared = segments if literal else list(dict.fromkeys(segments))
    if len(compared) > _MOST_SEGMENTS:
        raise DataError(
            f"there are {len(compared):,} segments, but at most {_MOST_SEGMENTS:,} can be compared in pairs: "
            'call `learn_dictionary` with `method="description_length"`, or use a shorter sequence'
        )
    members = kernel(indel_distances(compared), power).members
    return tuple(sorted({compared[member] for member in members.tolist()}))


def _limit_lengths(cuts: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """Return cuts, with further ones in segments that are too long."""
    parts = [np.arange(first, last, max(longest, 1)) for first, last in pairwise(cuts.tolist())]
    return np.concatenate([*parts, cuts[-1:]])


def _drop_unused_words(decomposition: Decomposition) -> Decomposition:
    """Return the same decomposition without the words that no segment uses."""
    used = np.unique(decomposition.words[decomposition.words >= 0])
    numbers = np.where(decomposition.words < 0, -1, np.searchsorted(used, decomposition.words)).astype(np.int64)
    kept = replace(decomposition.sequence, words=tuple(decomposition.sequence.words[word] for word in used.tolist()))
    return replace(decomposition, words=numbers, sequence=kept)


def _shortest_description(decomposition: Decomposition, code: SymbolCode) -> _Description:
    """Return the shortest description that is found with words of a decomposition, or without words."""
    without_words = shortest_decomposition(replace(decomposition.sequence, words=()), code=code)
    best = decomposition, encoded_length(decomposition, code)
    while True:
        other, _ = shortest_decomposition(best[0].sequence, code=code)
        pruned = _drop_unused_words(other)
        bits = encoded_length(pruned, code)
        if bits.total >= best[1].total:
            return best if best[1].total < without_words[1].total else without_words
        best = pruned, bits
