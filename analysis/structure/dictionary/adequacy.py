"""Adequacy of a model: J ≤ a(L), equation (9) of "Structural analysis of measurement paths", with a(L) from chance.

The paper leaves a(L) open. Any words describe any sequence somehow, and words that were learned from a sequence
describe it better than others do. So the bound is the cost of as many words of the same lengths that were learned, for
the least J, from the same symbols in a random order. A sequence without structure is one of these orders: with s of
them its J is below all with a chance of 1 / (s + 1), and so on.
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
"""Tried for each symbol."""


def shuffle_symbols(codes: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int32]:
    """Return a sequence's symbols in a random order; where it has no equal neighbours, in one that has none either.

    Where runs are collapsed, symbols are drawn one after another of those that are left and differ from the one before,
    as far as the rest can still be arranged so. Such orders are not all equally likely; so symbols are then swapped at
    random while no neighbours become equal, a Markov chain whose stationary orders are.
    """
    if has_equal_neighbours(codes):
        return rng.permutation(codes)
    counts = np.bincount(codes, minlength=1).astype(np.int64)
    arranged: NDArray[np.int32] = compiled(__name__, "arrange", _ARRANGE)(counts, rng.random(len(codes)))
    positions = rng.integers(0, max(len(codes), 1), (2, _SWAPS * len(codes)))
    compiled(__name__, "swap", _SWAP)(arranged, positions)
    return arranged


def arrange(counts: Any, chances: Any) -> Any:
    """Draw these counts of symbols in an order without equal neighbours, by uniform numbers from 0 to 1; compiled.

    Such an order has to exist.
    """
    left, rest, before = counts.copy(), counts.sum(), -1
    arranged = np.empty(rest, np.int32)
    for position in range(len(arranged)):
        most = left.argmax()
        # With one more of a symbol than of all others together it has to be every second one from here on.
        if 2 * left[most] > rest and most != before:
            symbol = most
        else:
            drawn = chances[position] * (rest - (left[before] if before >= 0 else 0))
            symbol = -1
            for one in range(len(left)):
                if one != before and left[one]:
                    symbol = one
                    drawn -= left[one]
                    if drawn < 0:
                        break
        arranged[position] = symbol
        left[symbol] -= 1
        rest -= 1
        before = symbol
    return arranged


def swap(codes: Any, positions: Any) -> None:
    """Swap the symbols of each pair of positions, shape (2, swaps), where no neighbours become equal; compiled."""
    last = len(codes) - 1
    for number in range(positions.shape[1]):
        one, other = positions[0, number], positions[1, number]
        codes[one], codes[other] = codes[other], codes[one]
        for position in (one, other):
            equal_before = position > 0 and codes[position - 1] == codes[position]
            if equal_before or (position < last and codes[position + 1] == codes[position]):
                codes[one], codes[other] = codes[other], codes[one]
                break


Bound: TypeAlias = float | Callable[[int], float]
"""a of (9), or a(L), a function of the sequence's length."""

_LEAST_SAMPLE, _SAMPLE_FOR_WORDS = 1500, 6
"""Symbols of a shuffled sequence: at least, and for each symbol of the words. Longer ones are extrapolated."""
_WORK, _FEWEST, _MOST = 2_500_000, 24, 96
"""Work for one shuffled sequence, in symbols times candidates; fewest and most candidates for a word."""


@dataclass(frozen=True, eq=False)
class Adequacy:
    """The judgement whether words describe a sequence.

    Attributes
    ----------
    cost : float
        J of (6) and (7): insertions and deletions of the best decomposition over the words.
    bound : float
        a(L) of (9), in the same unit.
    is_adequate : bool
        J ≤ a(L), and there are words at all.
    level : float
        Chance that a sequence without structure is called adequate; NaN for a bound that was given.
    null_costs : array of float64, shape (shuffles,)
        J of shuffled sequences, in order; empty for a bound that was given.
    """

    cost: float
    bound: float
    is_adequate: bool
    level: float = float("nan")
    null_costs: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, ready for JSON; a bound that was given has no level."""
        level = None if math.isnan(self.level) else self.level
        return {"cost": self.cost, "bound": self.bound, "level": level, "is_adequate": self.is_adequate}


@dataclass(frozen=True)
class Null:
    """The null model: how the bound is drawn from shuffled sequences.

    Attributes
    ----------
    shuffles : int, default 19
        Shuffled sequences; at least 1 / level − 1.
    level : float, default 0.05
        Chance that a sequence without structure is called adequate, from 0 to 1.
    relearn : bool, default True
        Words are learned from each shuffled sequence, as they were from this one; otherwise they are the same, for
        words that came from elsewhere.
    seed : int, default 0
        Of the shuffles.

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
            raise ValueError(f"level is {self.level}; give a probability between 0 and 1")
        if self.rank < 1:
            needed = math.ceil(1 / self.level - 1 - 1e-9)
            raise ValueError(f"{self.shuffles} shuffles are too few for the level {self.level}; give {needed} or more")

    @property
    def rank(self) -> int:
        """Rank of the null cost that a cost has to be below; 1 is the least."""
        return math.floor(self.level * (self.shuffles + 1) + 1e-9)


def adequacy_of(
    sequence: AnySequence, words: Sequence[AnySequence], *, bound: Bound | None = None, null: Null | None = None
) -> Adequacy:
    """Judge whether words describe a sequence, equation (9).

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
        Symbols are compared by value.
    words : sequence of str, iterable of hashable, array of shape (length,) or StructuralSequence
        The model.
    bound : float or callable, optional
        a(L); a function takes the sequence's length. By default from shuffled sequences.
    null : Null, optional
        How many of these, and whether words are learned from them.

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
    The bound from shuffled sequences lies an edit below the least of their costs (of 19; else below the one whose rank
    follows from the level), since J is a whole number. Of a long sequence only a part is shuffled and the cost
    extrapolated, which makes the bound stricter: words fit a short part better.
    """
    return judge_encoded(encode(sequence, words), bound, null or Null())


def judge_encoded(encoded: Encoded, bound: Bound | None, null: Null) -> Adequacy:
    """Judge an encoded sequence and its words, as `adequacy_of`."""
    size, cost = len(encoded.codes), cheapest_decomposition(encoded).cost
    if bound is not None:
        given = float(bound(size) if callable(bound) else bound)
        if math.isnan(given):
            raise ValueError(
                f"the bound for a sequence of {size} symbols is NaN; give a number of insertions and deletions"
            )
        return Adequacy(cost, given, bool(encoded.words) and cost <= given)
    costs = null_costs(encoded, null)
    limit = float(costs[null.rank - 1]) - 1
    return Adequacy(cost, limit, bool(encoded.words) and cost <= limit, null.level, costs)


def cheapest_decomposition(encoded: Encoded) -> Decomposition:
    """Return the decomposition of (7) over an encoded sequence's words."""
    size, count = len(encoded.codes), len(encoded.words)
    return decompose_encoded(encoded, None, np.zeros(count), 1.0, math.inf if count else 0.0, np.ones(size))


def null_costs(encoded: Encoded, null: Null) -> NDArray[np.float64]:
    """Return J of shuffled sequences, in order: shape (shuffles,). One thread a processor."""
    generators = np.random.default_rng(null.seed).spawn(null.shuffles)
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        costs = list(pool.map(lambda rng: _null_cost(encoded, null, rng), generators))
    finally:  # when a user interrupts, no further one is started
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
    """Return the least J that a search finds over words of the lengths of an encoded sequence's.

    Words are windows of the sequence: chosen one after another, or side by side all over the sequence, which is hard to
    beat when they are nearly as long as it; the better of both is then improved, each word beside all others.
    """
    lengths = sorted((min(len(word), len(encoded.codes)) for word in encoded.words), reverse=True)
    if not lengths or not len(encoded.codes):
        return cheapest_decomposition(replace(encoded, words=())).cost
    search = _NullSearch(encoded, rng, int(np.clip(_WORK // (len(encoded.codes) * 2 * len(lengths)), _FEWEST, _MOST)))
    first = min((search.one_by_one(lengths), search.side_by_side(lengths)), key=search.cost)
    return min(search.cost(first), search.cost(search.improve(first)))


class _NullSearch:
    """Search windows of a sequence for words of a small J."""

    def __init__(self, encoded: Encoded, rng: np.random.Generator, candidates: int) -> None:
        self.encoded, self.rng, self.candidates = encoded, rng, candidates
        self.codes = encoded.codes
        self.prices = IntegerPrices(1, None, None, np.zeros(len(self.codes), np.int32))

    def cost(self, words: Sequence[Codes]) -> float:
        """Return J over these words."""
        return cheapest_decomposition(self.encoded.with_words(words)).cost

    def one_by_one(self, lengths: Sequence[int]) -> list[Codes]:
        """Choose each word, the longest first, beside those before it."""
        words: list[Codes] = []
        known = self._costs(words)
        for length in lengths:
            words.append(self._best(self._windows(length), known, -1))
            known = known.beside(self._costs(words[-1:]))
        return words

    def side_by_side(self, lengths: Sequence[int]) -> list[Codes]:
        """Take windows in a random order from all over the sequence, with random gaps."""
        ordered = self.rng.permutation(np.array(lengths))
        room = max(len(self.codes) - int(ordered.sum()), 0)
        gaps = np.diff(np.sort(self.rng.integers(0, room + 1, len(ordered))), prepend=0)
        starts = np.cumsum(ordered + gaps) - ordered
        latest = len(self.codes) - ordered
        return [self._window(start, length) for start, length in zip(np.minimum(starts, latest), ordered, strict=True)]

    def improve(self, words: Sequence[Codes]) -> list[Codes]:
        """Choose each word anew beside all others as they were."""
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
        tried = [word[:LONGEST] for word in words]  # the beginning of longer ones: a lane has no more bits
        free = np.zeros(len(words), np.int32)
        return SegmentCosts.of(self.codes, tried, len(self.encoded.alphabet), free, self.prices)

    def _best(self, tried: list[Codes], known: SegmentCosts, without: int) -> Codes:
        """Return the candidate with the least J; of those too long for a lane, the first."""
        if len(tried[0]) > LONGEST:
            return tried[0]
        lanes = Lanes.of(tried, len(self.encoded.alphabet))
        costs = lanes.costs(self.codes, known, np.zeros(len(tried), np.int32), self.prices, without=without)
        return tried[int(lanes.order[int(costs.argmin())])]
