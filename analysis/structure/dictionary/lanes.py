"""Evaluate many candidate words at once (bit-parallel edit distance), each beside the words of a dictionary.

rapidfuzz's distances of all segments, with the same recursion in numpy, take 60 to 90 times as long on the tests'
planted sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.compiling import compiled

Codes: TypeAlias = tuple[int, ...]
"""A word as numbers of symbols."""

LONGEST = 64
"""Symbols of a candidate: bits of a lane."""
NONE = 1 << 29
"""No cost: more than any, and twice this still fits 32 bits."""

_MODULE = "unperturbed.analysis.structure.dictionary.candidate_kernels"
_PRICES = "int64, boolean, int64, int64"
_LANES = "const {bits}[:,::1]" + 4 * ", const int32[::1]"
_SEGMENT_COSTS = 3 * "const int32[:,::1], "
_WIDTHS = ("uint32", "uint64")
_WORDS = tuple(f"const int32[::1], {_LANES.format(bits=bits)}, {_PRICES}, const int64[::1]" for bits in _WIDTHS)
_COSTS = tuple(
    f"const int32[::1], {_SEGMENT_COSTS}int64, {_LANES.format(bits=bits)}, {_PRICES}, const int32[::1]"
    for bits in _WIDTHS
)
_MARKS = tuple(f"{bits}[:,::1], const int64[::1], const int64[::1]" for bits in _WIDTHS)
_PATH = ("const int32[:,::1], const int32[:,::1], int64, const int32[::1]",)


@dataclass(frozen=True, eq=False)
class IntegerPrices:
    """Prices as whole numbers of any unit, but for those of words."""

    edit: int  # Of an insertion or deletion
    # Added to a word's price where it has lost its first symbol to the run before it; None where words never do.
    merged: int | None
    stretch: int | None  # Of a stretch without a word; None for no stretches
    symbols: NDArray[np.int32]  # (n,): Of the symbols of a stretch

    @property
    def arguments(self) -> tuple[int, bool, int, int]:
        """Arguments of the compiled loops."""
        return self.edit, self.merged is not None, self.merged or 0, NONE if self.stretch is None else self.stretch

    @property
    def is_bounded(self) -> bool:
        """Whether a stretch bounds the costs of words: each of its symbols costs something, at most an insertion."""
        return self.stretch is not None and bool(((self.symbols >= 0) & (self.symbols <= self.edit)).all())

    def reaches(self, lengths: NDArray[np.int64], prices: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the longest segments for which words may cost less than a stretch."""
        most = 2 * lengths
        symbol = int(self.symbols.max(initial=0))
        if self.is_bounded and self.stretch is not None and symbol < self.edit:
            # A segment with x insertions costs x of them at least, and as a stretch x symbols more.
            insertions = np.maximum(self.stretch + symbol * lengths - prices, 0) // (self.edit - symbol) + 1
            most = np.minimum(lengths + insertions, most)
        return most.astype(np.int32)


@dataclass(frozen=True, eq=False)
class SegmentCosts:
    """Costs of a dictionary's words for each segment, by its start and length."""

    # least, which: (n, symbols of a segment): The least cost, `NONE` where no word is better than a stretch, and its
    # word, −1 for none.
    least: NDArray[np.int32]
    which: NDArray[np.int32]
    second: NDArray[np.int32]  # (n, symbols of a segment): The least cost of all other words

    @classmethod
    def of(
        cls,
        codes: NDArray[np.int32],
        words: Sequence[Codes],
        letters: int,
        word_prices: NDArray[np.int32],
        prices: IntegerPrices,
    ) -> SegmentCosts:
        """Return the costs of words of up to `LONGEST` symbols for segments of up to twice their length."""
        if not words:
            none = np.empty((len(codes), 0), np.int32)
            return cls(none, none, none)
        lanes = Lanes.of(words, letters)
        before = np.empty(0, np.int64)
        if prices.is_bounded:
            before = np.concatenate(([0], np.cumsum(prices.symbols, dtype=np.int64)))
        of_lanes = word_prices[lanes.order]
        reaches = prices.reaches(lanes.lengths, of_lanes)
        order = np.argsort(-reaches, kind="stable")
        masks, each = lanes.masks[:, order], (lanes.lengths.astype(np.int32), lanes.firsts, reaches, of_lanes)
        search = compiled(_MODULE, "cheapest_words", _WORDS)
        given = (np.ascontiguousarray(masks), *(one[order] for one in each))
        least, which, second = search(codes, *given, *prices.arguments, before)
        # Leave out columns that no word reaches: each costs a pass of the loops.
        reached = int(np.flatnonzero((least < NONE).any(axis=0)).max(initial=-1)) + 1
        numbers = np.append(lanes.order[order], -1).astype(np.int32)
        return cls(*(np.ascontiguousarray(one[:, :reached]) for one in (least, numbers[which], second)))

    def path(self, prices: IntegerPrices) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the cuts and words of the cheapest decomposition."""
        stretch = prices.arguments[-1]
        found: tuple[NDArray[np.int64], NDArray[np.int64]]
        found = compiled(_MODULE, "cheapest_path", _PATH)(self.least, self.which, stretch, prices.symbols)
        return found

    def beside(self, other: SegmentCosts) -> SegmentCosts:
        """Return the least of both, without which word it is of."""
        wide, narrow = sorted((self.least, other.least), key=lambda costs: -costs.shape[1])
        costs = wide.copy()
        np.minimum(costs[:, : narrow.shape[1]], narrow, out=costs[:, : narrow.shape[1]])
        return SegmentCosts(costs, np.full_like(costs, -1), costs)

    def without_word(self, word: int, positions: NDArray[np.int64]) -> SegmentCosts:
        """Return the costs of the other words at some positions, in order; no segment spans a gap between them."""
        costs = np.where(self.which[positions] == word, self.second[positions], self.least[positions])
        last = np.append(np.flatnonzero(np.diff(positions) > 1), len(positions) - 1)
        left = last[np.searchsorted(last, np.arange(len(positions)))] - np.arange(len(positions))
        costs[np.arange(costs.shape[1]) > left[:, None]] = NONE
        return SegmentCosts(costs, np.full_like(costs, -1), costs)


@dataclass(frozen=True, eq=False)
class Lanes:
    """Candidates in order of length, a lane of vectors for each."""

    order: NDArray[np.int64]  # (candidates,): Index of each as it was given
    numbers: NDArray[np.int64]  # (all symbols,): Symbols of the candidates, concatenated
    # lengths, firsts: (candidates,): Of each, and its first symbol.
    lengths: NDArray[np.int64]
    firsts: NDArray[np.int32]
    # (letters, candidates): Bits where a candidate has a symbol, its end at the highest one.
    masks: NDArray[np.uint32] | NDArray[np.uint64]

    @classmethod
    def of(cls, candidates: Sequence[Codes], letters: int) -> Lanes:
        """Return one candidate or more as lanes; each has 1 to `LONGEST` symbols."""
        sizes = np.array([len(candidate) for candidate in candidates], np.int64)
        order = np.argsort(sizes, kind="stable")
        lengths = sizes[order]
        numbers = np.fromiter(
            chain.from_iterable(candidates[index] for index in order.tolist()), np.int64, int(sizes.sum())
        )
        masks = np.zeros((letters, len(order)), np.uint64 if lengths[-1] > 32 else np.uint32)
        firsts = compiled(_MODULE, "mark_symbols", _MARKS)(masks, numbers, lengths)
        return cls(order, numbers, lengths, firsts, masks)

    def costs(
        self,
        codes: NDArray[np.int32],
        known: SegmentCosts,
        without: int,
        word_prices: NDArray[np.int32],
        prices: IntegerPrices,
    ) -> NDArray[np.int32]:
        """Return the least cost over a dictionary and each candidate: shape (candidates,), in this order.

        `known` are the dictionary's costs; `without` is the index of the word that candidates replace, or −1;
        `word_prices` are the candidates'. Each is evaluated for segments of up to twice its length at least; beside
        longer ones, for longer segments too.
        """
        of_words = (known.least, known.which, known.second, without)
        of_lanes = (
            self.masks,
            self.lengths.astype(np.int32),
            self.firsts,
            prices.reaches(self.lengths, word_prices),
            word_prices,
        )
        search = compiled(_MODULE, "costs_with", _COSTS)
        costs: NDArray[np.int32] = search(codes, *of_words, *of_lanes, *prices.arguments, prices.symbols)
        return costs
