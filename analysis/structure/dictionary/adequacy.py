"""Adequacy of a model: J ≤ a(L), equation (9) of "Structural analysis of measurement paths"; a(L) from shuffles.

The paper does not define a(L). Any words describe any sequence to some extent, and words learned from a sequence
describe it better than others. So the bound is the cost with words of the same number and lengths, learned for minimum
J from the same symbols in a random order. A sequence without structure is one of these orders: with s shuffled
sequences, its J is below all of theirs with probability 1 / (s + 1).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.structure.dictionary.candidates import (
    LONGEST,
    Codes,
    IntegerPrices,
    Lanes,
    SegmentCosts,
)
from unperturbed.analysis.structure.dictionary.description_length import has_equal_neighbours
from unperturbed.analysis.structure.segmentation import Decomposition, decompose_encoded
from unperturbed.analysis.structure.symbols import AnySequence, Encoded, encode

_ARRANGE, _SWAP = ("const int64[::1], const float64[::1]",), ("int32[::1], const int64[:,::1]",)

_SWAPS = 20
"""Number of swaps to try for each symbol."""


def shuffle_symbols(codes: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int32]:
    """Return a sequence's symbols in a random order; if the sequence has no equal neighbours, neither has the result.

    If runs are collapsed, symbols are drawn one after another from the remaining ones that differ from the preceding
    symbol, if the rest can still be arranged in this way. These orders are not equally likely. So symbols are then
    swapped at random if no neighbours become equal: a Markov chain in whose stationary distribution they are.
    """
    if has_equal_neighbours(codes):
        return rng.permutation(codes)
    counts = np.bincount(codes, minlength=1).astype(np.int64)
    arranged: NDArray[np.int32] = compiled(__name__, "arrange", _ARRANGE)(counts, rng.random(len(codes)))
    positions = rng.integers(0, max(len(codes), 1), (2, _SWAPS * len(codes)))
    compiled(__name__, "swap", _SWAP)(arranged, positions)
    return arranged


def arrange(counts: Any, chances: Any) -> Any:
    """Arrange the given counts of symbols at random without equal neighbours, from uniform random numbers; compiled.

    Such an order must exist.
    """
    left, rest, before = counts.copy(), counts.sum(), -1
    arranged = np.empty(rest, np.int32)
    for position in range(len(arranged)):
        most = left.argmax()
        # If one symbol remains once more than all others together, it must be every second symbol from here on.
        if 2 * left[most] > rest and most != before:
            symbol = most
        else:
            drawn = chances[position] * (rest - (left[before] if before >= 0 else 0))
            symbol = -1
            for candidate in range(len(left)):
                if candidate != before and left[candidate]:
                    symbol = candidate
                    drawn -= left[candidate]
                    if drawn < 0:
                        break
        arranged[position] = symbol
        left[symbol] -= 1
        rest -= 1
        before = symbol
    return arranged


def swap(codes: Any, positions: Any) -> None:
    """Swap the symbols at each pair of positions, shape (2, swaps), unless neighbours become equal; compiled."""
    last = len(codes) - 1
    for number in range(positions.shape[1]):
        place, other = positions[0, number], positions[1, number]
        codes[place], codes[other] = codes[other], codes[place]
        for position in (place, other):
            equal_before = position > 0 and codes[position - 1] == codes[position]
            if equal_before or (position < last and codes[position + 1] == codes[position]):
                codes[place], codes[other] = codes[other], codes[place]
                break


Bound: TypeAlias = float | Callable[[int], float]
"""Bound a(L) of (9): a number, or a function of the sequence's length."""

_LEAST_SAMPLE, _SAMPLE_FOR_WORDS = 1500, 6
"""Minimum number of symbols in a shuffled sequence, and number per symbol of the words; J of longer ones is scaled."""
_WORK, _FEWEST, _MOST = 2_500_000, 24, 96
"""Work for one shuffled sequence, in symbols times candidates; minimum and maximum number of candidates for a word."""


@dataclass(frozen=True, eq=False)
class Adequacy:
    """Verdict on whether words describe a sequence.

    Attributes
    ----------
    cost : float
        J of (6) and (7): insertions and deletions of the best decomposition over the words.
    bound : float
        a(L) of (9), in the same unit.
    is_adequate : bool
        Whether J ≤ a(L) and there is at least one word.
    level : float
        Probability that a sequence without structure is called adequate; NaN if the user set the bound.
    null_costs : array of float64, shape (shuffles,)
        J of shuffled sequences, sorted; empty if the user set the bound.
    """

    cost: float
    bound: float
    is_adequate: bool
    level: float = float("nan")
    null_costs: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data, ready for JSON; there is no level if the user set the bound."""
        level = None if math.isnan(self.level) else self.level
        return {"cost": self.cost, "bound": self.bound, "level": level, "is_adequate": self.is_adequate}


@dataclass(frozen=True)
class Null:
    """Null model: how the bound is computed from shuffled sequences.

    Attributes
    ----------
    shuffles : int, default 19
        Number of shuffled sequences; at least 1 / level − 1.
    level : float, default 0.05
        Probability, from 0 to 1, that a sequence without structure is called adequate.
    relearn : bool, default True
        Whether words are learned from each shuffled sequence, as they were from the original. Otherwise the same words
        are used; choose this for words that were not learned from the sequence.
    seed : int, default 0
        Seed of the shuffles.

    Raises
    ------
    ValueError
        A level out of range, or so small that it needs more shuffles.
    """

    shuffles: int = 19
    level: float = 0.05
    relearn: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"`level` is {self.level}: use a probability above 0 and below 1")
        if self.rank < 1:
            needed = math.ceil(1 / self.level - 1 - 1e-9)
            raise ValueError(f"`shuffles` is {self.shuffles}, too few for `level` {self.level}: use {needed} or more")

    @property
    def rank(self) -> int:
        """Rank of the null cost just above the bound; the smallest null cost has rank 1."""
        return math.floor(self.level * (self.shuffles + 1) + 1e-9)


def adequacy_of(
    sequence: AnySequence, words: Sequence[AnySequence], *, bound: Bound | None = None, null: Null | None = None
) -> Adequacy:
    """Test whether words describe a sequence, equation (9).

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
        Symbols are compared by value.
    words : sequence of str, iterable of hashable, array of shape (length,) or StructuralSequence
        The model.
    bound : float or callable, optional
        a(L); a function takes the sequence's length. By default, it is computed from shuffled sequences.
    null : Null, optional
        Number of shuffled sequences, and whether words are learned from them.

    Returns
    -------
    Adequacy
        Cost, bound and verdict.

    Raises
    ------
    DataError
        An empty word, or symbols that cannot be compared.
    ValueError
        A bound that is NaN.

    Notes
    -----
    The bound from 19 shuffled sequences is one edit below the smallest of their costs, because J is an integer (for
    other numbers and levels, below the cost with the rank that follows from the level). For a long sequence, only part
    of the shuffled sequence is used and its cost extrapolated; this makes the bound stricter, because words fit a short
    part better.
    """
    return judge_encoded(encode(sequence, words), bound, null or Null())


def judge_encoded(encoded: Encoded, bound: Bound | None, null: Null) -> Adequacy:
    """Test whether an encoded sequence's words describe it; see `adequacy_of`."""
    size, cost = len(encoded.codes), cheapest_decomposition(encoded).cost
    if bound is not None:
        given = float(bound(size) if callable(bound) else bound)
        if math.isnan(given):
            raise ValueError(
                f"the bound for a sequence of {size} symbols is NaN: give it as a number of insertions and deletions"
            )
        return Adequacy(cost, given, bool(encoded.words) and cost <= given)
    costs = null_costs(encoded, null)
    limit = float(costs[null.rank - 1]) - 1
    return Adequacy(cost, limit, bool(encoded.words) and cost <= limit, null.level, costs)


def cheapest_decomposition(encoded: Encoded) -> Decomposition:
    """Return the cheapest decomposition of an encoded sequence over its words, equation (7) of the paper."""
    size, count = len(encoded.codes), len(encoded.words)
    return decompose_encoded(encoded, None, np.zeros(count), 1.0, math.inf if count else 0.0, np.ones(size))


def null_costs(encoded: Encoded, null: Null) -> NDArray[np.float64]:
    """Return J of shuffled sequences, sorted: shape (shuffles,); uses one thread per processor."""
    generators = np.random.default_rng(null.seed).spawn(null.shuffles)
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        costs = list(pool.map(lambda rng: _null_cost(encoded, null, rng), generators))
    finally:  # after a user's interrupt, start no further search
        pool.shutdown(cancel_futures=True)
    return np.sort(np.array(costs, np.float64))


def _null_cost(encoded: Encoded, null: Null, rng: np.random.Generator) -> float:
    """Return J of one shuffled sequence."""
    size = len(encoded.codes)
    sample = min(size, max(_LEAST_SAMPLE, _SAMPLE_FOR_WORDS * sum(map(len, encoded.words))))
    known = replace(encoded, codes=shuffle_symbols(encoded.codes, rng)[:sample])
    cost = _relearned_cost(known, rng) if null.relearn else cheapest_decomposition(known).cost
    return cost * (size / sample if sample else 1.0)


def _relearned_cost(encoded: Encoded, rng: np.random.Generator) -> float:
    """Return the smallest J that a search finds with words of the same lengths as an encoded sequence's own words.

    Words are windows of the sequence. They are chosen one after another, or side by side all over the sequence, which
    is hard to beat if their total length is nearly that of the sequence. The better choice is then improved, one word
    at a time.
    """
    lengths = sorted((min(len(word), len(encoded.codes)) for word in encoded.words), reverse=True)
    if not lengths or not len(encoded.codes):
        return cheapest_decomposition(replace(encoded, words=())).cost
    search = _NullSearch(encoded, rng, int(np.clip(_WORK // (len(encoded.codes) * 2 * len(lengths)), _FEWEST, _MOST)))
    first = min((search.one_by_one(lengths), search.side_by_side(lengths)), key=search.cost)
    return min(search.cost(first), search.cost(search.improve(first)))


class _NullSearch:
    """Search for windows of a sequence that, used as words, give a small J."""

    def __init__(self, encoded: Encoded, rng: np.random.Generator, candidates: int) -> None:
        self.encoded, self.rng, self.candidates = encoded, rng, candidates
        self.codes = encoded.codes
        self.prices = IntegerPrices(1, None, None, np.zeros(len(self.codes), np.int32))

    def cost(self, words: Sequence[Codes]) -> float:
        """Return J with these words."""
        return cheapest_decomposition(self.encoded.with_words(words)).cost

    def one_by_one(self, lengths: Sequence[int]) -> list[Codes]:
        """Choose one word after another, the longest first, each given the words before it."""
        words: list[Codes] = []
        known = self._costs(words)
        for length in lengths:
            words.append(self._best(self._windows(length), known, -1))
            known = known.beside(self._costs(words[-1:]))
        return words

    def side_by_side(self, lengths: Sequence[int]) -> list[Codes]:
        """Choose windows side by side all over the sequence, in a random order and with random gaps."""
        ordered = self.rng.permutation(np.array(lengths))
        room = max(len(self.codes) - int(ordered.sum()), 0)
        gaps = np.diff(np.sort(self.rng.integers(0, room + 1, len(ordered))), prepend=0)
        starts = np.cumsum(ordered + gaps) - ordered
        latest = len(self.codes) - ordered
        return [self._window(start, length) for start, length in zip(np.minimum(starts, latest), ordered, strict=True)]

    def improve(self, words: Sequence[Codes]) -> list[Codes]:
        """Choose each word again, with all other words unchanged."""
        known = self._costs(words)
        return [self._best([word, *self._windows(len(word))], known, number) for number, word in enumerate(words)]

    def _window(self, start: int, length: int) -> Codes:
        return tuple(self.codes[start : start + length].tolist())

    def _windows(self, length: int) -> list[Codes]:
        starts = np.arange(len(self.codes) - length + 1)
        if len(starts) > self.candidates:
            starts = self.rng.choice(starts, self.candidates, replace=False)
        return [self._window(start, length) for start in starts.tolist()]

    def _costs(self, words: Sequence[Codes]) -> SegmentCosts:
        beginnings = [word[:LONGEST] for word in words]  # only the beginning of longer words: a lane has no more bits
        free = np.zeros(len(words), np.int32)
        return SegmentCosts.of(self.codes, beginnings, len(self.encoded.alphabet), free, self.prices)

    def _best(self, candidates: list[Codes], known: SegmentCosts, without: int) -> Codes:
        """Return the candidate with the smallest J, or the first if candidates are too long for a lane."""
        if len(candidates[0]) > LONGEST:
            return candidates[0]
        lanes = Lanes.of(candidates, len(self.encoded.alphabet))
        costs = lanes.costs(self.codes, known, np.zeros(len(candidates), np.int32), self.prices, without=without)
        return candidates[int(lanes.order[int(costs.argmin())])]
