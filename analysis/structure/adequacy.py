"""Whether a model is adequate: J ≤ a(L), equation (9) of "Structural analysis of measurement paths", with a(L) from what chance would give.

The paper leaves a(L) open. Any words describe any sequence somehow, and words that were learnt of a sequence describe it better than others do. So
the bound is what as many words of the same lengths cost that were learnt, for the least J, of the same symbols in a random order. A sequence without
structure is one of these orders: with s of them its J is below all with a chance of 1 / (s + 1), and so on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.decomposition import Decomposition, cut
from unperturbed.analysis.structure.encoding import AnySequence, Encoded, encode
from unperturbed.analysis.structure.lanes import LONGEST, Codes, Lanes, Table, WholePrices
from unperturbed.analysis.structure.shuffling import shuffled

__all__ = ["Adequacy", "Bound", "Null", "adequacy_of", "least_cost", "null_costs"]

Bound: TypeAlias = float | Callable[[int], float]
"""a of (9), or a(L), a function of the sequence's length."""

_LEAST_SAMPLE, _SAMPLE_FOR_WORDS = 1500, 6
"""Symbols of a shuffled sequence: at least, and for each symbol of the words. A longer one costs the more in proportion."""
_WORK, _FEWEST, _MOST = 2_500_000, 24, 96
"""Symbols that candidates go through for one shuffled sequence; candidates for a word."""


@dataclass(frozen=True, eq=False)
class Adequacy:
    """Whether words describe a sequence.

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
    null_costs : float64, shape (shuffles,)
        J of shuffled sequences, in order; empty for a bound that was given.
    """

    cost: float
    bound: float
    is_adequate: bool
    level: float = float("nan")
    null_costs: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class Null:
    """What a bound from shuffled sequences is made of.

    Attributes
    ----------
    shuffles : int
        Shuffled sequences; at least 1 / level − 1.
    level : float
        Chance that a sequence without structure is called adequate, from 0 to 1.
    relearn : bool
        Words are learnt of each shuffled sequence, as they were of this one; else they are the same, for words that came from elsewhere.
    seed : int

    Raises
    ------
    ValueError
        A level that is none, or that so few shuffles cannot tell.
    """

    shuffles: int = 19
    level: float = 0.05
    relearn: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"level is {self.level}; give a chance between 0 and 1")
        if self.rank < 1:
            needed = math.ceil(1 / self.level - 1 - 1e-9)
            raise ValueError(f"{self.shuffles} shuffles cannot tell a chance of {self.level}; give {needed} or more")

    @property
    def rank(self) -> int:
        """Of the null cost, counted from 1 for the least, that a cost has to be below."""
        return math.floor(self.level * (self.shuffles + 1) + 1e-9)


def adequacy_of(
    sequence: AnySequence, words: Sequence[AnySequence], *, bound: Bound | None = None, null: Null | None = None
) -> Adequacy:
    """Tell whether words describe a sequence, equation (9).

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
    words : the same
    bound : float or function of the sequence's length, optional
        a(L). By default from shuffled sequences.
    null : Null, optional
        How many of these, and what is done with them.

    Returns
    -------
    Adequacy

    Raises
    ------
    DataError
        An empty word, or symbols that cannot be compared.
    ValueError
        A bound that is NaN.

    Notes
    -----
    The bound from shuffled sequences lies an edit below the least of their costs (of 19; else below the one whose rank the level asks for), since
    J is a whole number. Of a long sequence a part of each shuffled one stands for all of it, which makes the bound stricter: words fit a short
    part better.
    """
    return judged(encode(sequence, words), bound, null or Null())


def judged(encoded: Encoded, bound: Bound | None, null: Null) -> Adequacy:
    """Tell the same of an encoded sequence and its words."""
    size, cost = len(encoded.codes), least_cost(encoded).cost
    if bound is not None:
        given = float(bound(size) if callable(bound) else bound)
        if math.isnan(given):
            raise ValueError(f"the bound for a sequence of {size} symbols is NaN; give a number of insertions and deletions")
        return Adequacy(cost, given, bool(encoded.words) and cost <= given)
    costs = null_costs(encoded, null)
    limit = float(costs[null.rank - 1]) - 1
    return Adequacy(cost, limit, bool(encoded.words) and cost <= limit, null.level, costs)


def least_cost(encoded: Encoded) -> Decomposition:
    """Return the decomposition of (7) over an encoded sequence's words."""
    size, count = len(encoded.codes), len(encoded.words)
    return cut(encoded, None, np.zeros(count), 1.0, math.inf if count else 0.0, np.ones(size))


def null_costs(encoded: Encoded, null: Null) -> NDArray[np.float64]:
    """Return J of shuffled sequences, in order: shape (shuffles,). Some are looked at together, one on each processor."""
    chances = np.random.default_rng(null.seed).spawn(null.shuffles)
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        costs = list(pool.map(lambda chance: _null_cost(encoded, null, chance), chances))
    finally:  # when a user stops, the others are not begun
        pool.shutdown(cancel_futures=True)
    return np.sort(np.array(costs, np.float64))


def _null_cost(encoded: Encoded, null: Null, chance: np.random.Generator) -> float:
    """Return J of one shuffled sequence."""
    size = len(encoded.codes)
    sample = min(size, max(_LEAST_SAMPLE, _SAMPLE_FOR_WORDS * sum(map(len, encoded.words))))
    codes = shuffled(encoded.codes, chance)[:sample]
    known = replace(encoded, codes=codes)
    if null.relearn:
        lengths = sorted((min(len(word), len(codes)) for word in encoded.words), reverse=True)
        cost = _relearnt_cost(known, lengths, chance)
    else:
        cost = least_cost(known).cost
    return cost * (size / sample if sample else 1.0)


def _relearnt_cost(encoded: Encoded, lengths: list[int], chance: np.random.Generator) -> float:
    """Return the least J over words of these lengths, the longest first, that were found.

    They are windows: chosen one after another, or side by side all over the sequence, which is hard to beat when they are nearly as long as it; the
    better ones of these are then chosen once more, each beside all others.
    """
    if not lengths or not len(encoded.codes):
        return least_cost(replace(encoded, words=())).cost
    search = _NullSearch(encoded, chance, int(np.clip(_WORK // (len(encoded.codes) * 2 * len(lengths)), _FEWEST, _MOST)))
    first = min((search.one_by_one(lengths), search.side_by_side(lengths)), key=lambda one: one.about)
    best = min((first, search.once_more(first)), key=lambda one: one.about)
    return least_cost(replace(encoded, words=tuple(np.array(word, np.int32) for word in best.words))).cost


@dataclass(frozen=True, eq=False)
class _Tried:
    """Words, and J if no segment is longer than twice its word."""

    words: Sequence[Codes]
    about: int


class _NullSearch:
    """Looks for windows of a sequence as words of a small J."""

    def __init__(self, encoded: Encoded, chance: np.random.Generator, many: int) -> None:
        self.encoded, self.chance, self.many = encoded, chance, many
        self.codes = encoded.codes
        self.prices = WholePrices(1, None, None, np.zeros(len(self.codes), np.int32))

    def one_by_one(self, lengths: Sequence[int]) -> _Tried:
        """Choose each word, the longest first, beside those before it."""
        words: list[Codes] = []
        table = self._table(words)
        for length in lengths:
            words.append(self._best(self._windows(length), table, -1))
            table = table.beside(self._table(words[-1:]))
        return self._tried(words, table)

    def side_by_side(self, lengths: Sequence[int]) -> _Tried:
        """Take windows in a random order from all over the sequence, with random gaps."""
        ordered = self.chance.permutation(np.array(lengths))
        room = max(len(self.codes) - int(ordered.sum()), 0)
        gaps = np.diff(np.sort(self.chance.integers(0, room + 1, len(ordered))), prepend=0)
        starts = np.cumsum(ordered + gaps) - ordered
        latest = len(self.codes) - ordered
        words = [self._window(start, length) for start, length in zip(np.minimum(starts, latest), ordered, strict=True)]
        return self._tried(words, self._table(words))

    def once_more(self, before: _Tried) -> _Tried:
        """Choose each word anew beside all others as they were."""
        table = self._table(before.words)
        words = [self._best([word, *self._windows(len(word))], table, number) for number, word in enumerate(before.words)]
        return self._tried(words, self._table(words))

    def _tried(self, words: Sequence[Codes], table: Table) -> _Tried:
        cuts, _ = table.path(self.prices)
        return _Tried(words, int(table.least[cuts[:-1], np.diff(cuts) - 1].sum()))

    def _window(self, start: int, length: int) -> Codes:
        return tuple(self.codes[start : start + length].tolist())

    def _windows(self, length: int) -> list[Codes]:
        starts = np.arange(len(self.codes) - length + 1)
        drawn = starts if len(starts) <= self.many else self.chance.choice(starts, self.many, replace=False)
        return [self._window(start, length) for start in drawn.tolist()]

    def _table(self, words: Sequence[Codes]) -> Table:
        tried = [word[:LONGEST] for word in words]  # of those that are longer, what can be
        return Table.of(self.codes, tried, len(self.encoded.alphabet), np.zeros(len(words), np.int32), self.prices)

    def _best(self, tried: list[Codes], table: Table, without: int) -> Codes:
        """Return the candidate with which J is the least, the first of those that are too long to be tried."""
        if len(tried[0]) > LONGEST:
            return tried[0]
        lanes = Lanes.of(tried, len(self.encoded.alphabet))
        costs = lanes.costs(self.codes, table, without, np.zeros(len(tried), np.int32), self.prices)
        return tried[int(lanes.order[int(costs.argmin())])]
