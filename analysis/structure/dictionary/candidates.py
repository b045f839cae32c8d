"""Candidate words, and estimates of the bits that each would save in addition to a dictionary's words.

Candidates are windows of the sequence and variants of words. Many are evaluated at once, each in a vector lane, with a
bit-parallel edit distance (`kernels`). ARCHITECTURE.md compares this with rapidfuzz.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.structure.dictionary.description_length import (
    Counts,
    Prices,
    SymbolCode,
    dictionary_bits,
    words_bits,
)
from unperturbed.analysis.structure.segmentation import Decomposition
from unperturbed.analysis.structure.symbols import Encoded

Codes: TypeAlias = tuple[int, ...]
"""Word as numbers of symbols."""

LONGEST = 64
"""Maximum number of symbols in a candidate: the bits of a lane."""
NONE = 1 << 29
"""Marks a missing cost: it exceeds any cost, and twice this value still fits 32 bits."""

_MODULE = "unperturbed.analysis.structure.dictionary.kernels"
_PRICES = "int64, boolean, int64, int64"
_LANES = "const {bits}[:,::1]" + 4 * ", const int32[::1]"
_WIDTHS = ("uint32", "uint64")
_WORDS = tuple(f"const int32[::1], {_LANES.format(bits=bits)}, {_PRICES}, const int64[::1]" for bits in _WIDTHS)
_COSTS = tuple(
    f"const int32[::1]{3 * ', const int32[:,::1]'}, int64, {_LANES.format(bits=bits)}, {_PRICES}, const int32[::1]"
    for bits in _WIDTHS
)
_MARKS = tuple(f"{bits}[:,::1], const int64[::1], const int64[::1]" for bits in _WIDTHS)


@dataclass(frozen=True, eq=False)
class IntegerPrices:
    """Prices, except those of words, as integers in any unit."""

    edit: int  # Price of an insertion or deletion
    # Added to a word's price if the word has lost its first symbol to the run before it; None if words cannot.
    merged: int | None
    stretch: int | None  # Price of a stretch without a word; None for no stretches
    symbols: NDArray[np.int32]  # (n,): Price of each symbol in a stretch

    @property
    def arguments(self) -> tuple[int, bool, int, int]:
        """Arguments of the compiled loops."""
        return self.edit, self.merged is not None, self.merged or 0, NONE if self.stretch is None else self.stretch

    @property
    def is_bounded(self) -> bool:
        """Whether stretches bound the costs of words: no symbol has a negative price or costs more than an edit."""
        return self.stretch is not None and bool(((self.symbols >= 0) & (self.symbols <= self.edit)).all())

    def reaches(self, lengths: NDArray[np.int64], prices: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return, for each word, the length of the longest segment that may cost less with it than as a stretch."""
        most = 2 * lengths
        symbol = int(self.symbols.max(initial=0))
        if self.is_bounded and self.stretch is not None and symbol < self.edit:
            # A segment with x insertions costs at least x insertions with the word; as a stretch, x symbols more.
            insertions = np.maximum(self.stretch + symbol * lengths - prices, 0) // (self.edit - symbol) + 1
            most = np.minimum(lengths + insertions, most)
        return most.astype(np.int32)


@dataclass(frozen=True, eq=False)
class Lanes:
    """Candidates in order of length, each in a vector lane."""

    order: NDArray[np.int64]  # (candidates,): Index of each in the given order
    numbers: NDArray[np.int64]  # (all symbols,): Symbols of the candidates, concatenated
    # lengths, firsts: (candidates,): Length and first symbol of each.
    lengths: NDArray[np.int64]
    firsts: NDArray[np.int32]
    # (letters, candidates): Bits at the positions of each symbol in each candidate, its end at the highest bit.
    masks: NDArray[np.uint32] | NDArray[np.uint64]

    @classmethod
    def of(cls, candidates: Sequence[Codes], letters: int) -> Lanes:
        """Return one or more candidates of 1 to `LONGEST` symbols as lanes."""
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
        word_prices: NDArray[np.int32],
        prices: IntegerPrices,
        *,
        without: int = -1,
    ) -> NDArray[np.int32]:
        """Return the minimum cost over a dictionary and each candidate, at these prices: shape (candidates,).

        `known` are the dictionary's costs, `without` is the word that candidates replace, or −1. Each candidate is
        evaluated for segments of up to at least twice its length; next to longer candidates, for longer segments too.
        """
        of_words = known.least, known.which, known.second, without
        of_lanes = self.lengths.astype(np.int32), self.firsts, prices.reaches(self.lengths, word_prices), word_prices
        search = compiled(_MODULE, "costs_with", _COSTS)
        costs: NDArray[np.int32] = search(codes, *of_words, self.masks, *of_lanes, *prices.arguments, prices.symbols)
        return costs


@dataclass(frozen=True, eq=False)
class SegmentCosts:
    """Costs of a dictionary's words for each segment, by its start and length, also without any one of the words."""

    # least, which: (n, symbols of a segment): The minimum cost, `NONE` if no word is better than a stretch, and its
    # word, −1 for none.
    least: NDArray[np.int32]
    which: NDArray[np.int32]
    second: NDArray[np.int32]  # (n, symbols of a segment): The minimum cost of all other words

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
        of_words = (lanes.lengths.astype(np.int32), lanes.firsts, reaches, of_lanes)
        given = np.ascontiguousarray(lanes.masks[:, order]), *(values[order] for values in of_words)
        least, which, second = compiled(_MODULE, "cheapest_words", _WORDS)(codes, *given, *prices.arguments, before)
        # Leave out columns that no word reaches, because each costs a pass of the loops.
        reached = int(np.flatnonzero((least < NONE).any(axis=0)).max(initial=-1)) + 1
        numbers = np.append(lanes.order[order], -1).astype(np.int32)
        return cls(*(np.ascontiguousarray(costs[:, :reached]) for costs in (least, numbers[which], second)))

    def beside(self, other: SegmentCosts) -> SegmentCosts:
        """Return the smaller of the two costs of each segment, without the words' numbers."""
        narrow, wide = sorted((self.least, other.least), key=lambda costs: costs.shape[1])
        costs = wide.copy()
        np.minimum(costs[:, : narrow.shape[1]], narrow, out=costs[:, : narrow.shape[1]])
        return SegmentCosts(costs, np.full_like(costs, -1), costs)

    def without_word(self, word: int, positions: NDArray[np.int64]) -> SegmentCosts:
        """Return the costs of all other words at increasing positions; no segment spans a gap between positions."""
        costs = np.where(self.which[positions] == word, self.second[positions], self.least[positions])
        last = np.append(np.flatnonzero(np.diff(positions) > 1), len(positions) - 1)
        left = last[np.searchsorted(last, np.arange(len(positions)))] - np.arange(len(positions))
        costs[np.arange(costs.shape[1]) > left[:, None]] = NONE
        return SegmentCosts(costs, np.full_like(costs, -1), costs)


_FINEST = 256.0
"""Units per bit, unless the sequence is so long that its bits would not fit."""

_LENGTHS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64)
"""Lengths of windows; variants with one symbol more or less reach the lengths in between."""


@dataclass(frozen=True, eq=False)
class CandidateEvaluator:
    """Evaluator of a dictionary with one word added or replaced, at fixed prices."""

    encoded: Encoded  # The sequence and the dictionary
    code: SymbolCode  # Code of literal symbols
    counts: Counts  # Choices of a decomposition, from which the prices follow

    @cached_property
    def prices(self) -> Prices:
        """Prices that follow from the counts."""
        lengths = np.array([len(word) for word in self.encoded.words], np.int64)
        return Prices.of(self.counts, lengths, self.code.literal_bits(self.encoded.codes), self.code.insertion)

    @cached_property
    def _resolution(self) -> float:
        """Bits of one unit of the integer prices."""
        literal = float(np.abs(self.prices.symbols).sum()) + abs(self.prices.stretch) + 1.0
        return 1 / min(_FINEST, NONE / 4 / literal)

    def _rounded(self, bits: ArrayLike) -> NDArray[np.int32]:
        return np.rint(np.asarray(bits) / self._resolution).astype(np.int32)

    @cached_property
    def _integer_prices(self) -> IntegerPrices:
        prices = self.prices
        edit, merged, stretch = (int(self._rounded(price)) for price in (prices.edit, -prices.each, prices.stretch))
        return IntegerPrices(edit, merged if self.code.is_collapsed else None, stretch, self._rounded(prices.symbols))

    def bits(
        self, candidates: Sequence[Codes], *, without: int = -1, decomposition: Decomposition | None = None
    ) -> NDArray[np.float64]:
        """Estimate the bits of the sequence and its dictionary with each candidate: shape (candidates,).

        Prices are not adapted to the best decomposition. `without` is the word that candidates replace. With
        `decomposition`, only the surroundings of its segments are evaluated, and only differences of bits are
        meaningful.
        """
        lanes = Lanes.of(candidates, len(self.encoded.alphabet))
        codes, known, prices = self.encoded.codes, self._known, self._integer_prices
        if decomposition is not None and without >= 0:
            positions = _surroundings(decomposition, without)
            codes, known = codes[positions], known.without_word(without, positions)
            prices = replace(prices, symbols=prices.symbols[positions])
        each, end = self.prices.each, self.prices.end
        word_prices = self._rounded(self._index_bits(without) + lanes.lengths * each + end)
        costs = lanes.costs(codes, known, word_prices, prices, without=without)
        bits = np.empty(len(candidates))
        bits[lanes.order] = costs * self._resolution + words_bits(lanes.numbers, lanes.lengths, self.code)
        kept = [word for number, word in enumerate(self.encoded.words) if number != without]
        return bits + self.prices.constant + dictionary_bits(kept, self.code, more=1)

    @cached_property
    def _known(self) -> SegmentCosts:
        words, prices = [tuple(word.tolist()) for word in self.encoded.words], self._rounded(self.prices.words)
        return SegmentCosts.of(self.encoded.codes, words, len(self.encoded.alphabet), prices, self._integer_prices)

    def _index_bits(self, without: int) -> float:
        """Return the bits of the new word's index, from the uses of the replaced word or the mean uses of all words."""
        total = float(self.counts.segments.sum()) + len(self.counts.segments) / 2
        if without >= 0:
            return float(-np.log2((self.counts.segments[without] + 0.5) / total))
        uses = self.counts.mean_uses
        return float(-np.log2((uses + 0.5) / (total + uses + 0.5)))


def _surroundings(decomposition: Decomposition, word: int) -> NDArray[np.int64]:
    """Return the positions of a word's segments, and of the segments before and after them."""
    own = decomposition.words == word
    near = own.copy()
    near[1:] |= own[:-1]
    near[:-1] |= own[1:]
    return np.flatnonzero(np.repeat(near, decomposition.lengths))


class Windows:
    """Windows of a sequence as candidates: all if there are few, else those that recur or take many bits."""

    def __init__(self, codes: NDArray[np.int32], longest: int) -> None:
        self._codes = codes
        self._found: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
        numbers = codes.astype(np.int64)
        length = 1
        for wanted in (length for length in _LENGTHS if length <= min(longest, len(codes))):
            while length < wanted:
                # Equal windows have equal numbers, which combine the shorter window's number and the last symbol.
                numbers = numbers[:-1] * (int(codes.max()) + 1) + codes[length:]
                _, numbers = np.unique(numbers, return_inverse=True)
                length += 1
            _, first = np.unique(numbers, return_index=True)
            self._found.append((wanted, first, numbers))

    def best(self, symbol_bits: NDArray[np.float64], price: float, most: int, rng: np.random.Generator) -> list[Codes]:
        """Return the windows that would save most of the symbols' bits, shape (n,), and some random expensive ones."""
        before = np.concatenate(([0.0], np.cumsum(symbol_bits)))
        starts, lengths, saved = [], [], []
        for length, first, numbers in self._found:
            gain = np.maximum(before[length:] - before[:-length] - price, 0.0)
            own_bits = before[-1] / max(len(symbol_bits), 1) * length
            starts.append(first)
            lengths.append(np.full(len(first), length))
            saved.append(np.bincount(numbers, weights=gain, minlength=len(first)) - own_bits)
        if not starts:
            return []
        start, size, gains = np.concatenate(starts), np.concatenate(lengths), np.concatenate(saved)
        chosen = np.arange(len(start))
        if len(chosen) > most:
            chosen = np.argsort(-gains, kind="stable")[: most // 2]
            density = np.maximum(before[size + start] - before[start], 0.0) / size
            others = np.setdiff1d(np.arange(len(start)), chosen)
            shares = density[others] + 1e-9
            drawn = rng.choice(others, min(most - len(chosen), len(others)), replace=False, p=shares / shares.sum())
            chosen = np.concatenate((chosen, drawn))
        codes, firsts, sizes = self._codes.tolist(), start[chosen].tolist(), size[chosen].tolist()
        return [tuple(codes[first : first + length]) for first, length in zip(firsts, sizes, strict=True)]


def word_variants(word: Codes, symbols: Iterable[int], longest: int, *, is_collapsed: bool) -> list[Codes]:
    """Return a word's variants: a symbol inserted, deleted or replaced anywhere, and its prefixes and suffixes.

    Words with equal neighbours are left out if the sequence has none. The word itself comes first.
    """
    listed = list(symbols)
    # In a word without equal neighbours, only neighbours at the change can become equal; checking these is faster.
    looks_there = is_collapsed and not _has_equal_neighbours(word)
    padded = (None, *word, None)
    variants = {word: None}
    for at in range(len(word)):
        begin, end = word[:at], word[at + 1 :]
        before, after = padded[at], padded[at + 2]
        variants[begin] = variants[word[at:]] = None
        if not looks_there or before != after or before is None:
            variants[begin + end] = None
        for symbol in listed:
            if not looks_there or symbol not in (before, after):
                variants[(*begin, symbol, *end)] = None
    for at in range(len(word) + 1):
        begin, end = word[:at], word[at:]
        for symbol in listed:
            if not looks_there or symbol not in padded[at : at + 2]:
                variants[(*begin, symbol, *end)] = None
    looks_everywhere = is_collapsed and not looks_there
    return [
        variant
        for variant in variants
        if 0 < len(variant) <= longest and not (looks_everywhere and _has_equal_neighbours(variant))
    ]


def _has_equal_neighbours(word: Codes) -> bool:
    return any(before == after for before, after in pairwise(word))


def bits_per_symbol(
    decomposition: Decomposition, prices: Prices, literal_bits: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Estimate the bits of each symbol in a decomposition; a segment's bits are spread evenly over its symbols."""
    if not len(decomposition):
        return literal_bits
    with_word = np.concatenate((prices.words, [0.0]))[decomposition.words] + prices.edit * decomposition.distances
    each = with_word / decomposition.lengths + prices.constant / max(len(literal_bits), 1)
    return np.where(
        np.repeat(decomposition.words, decomposition.lengths) < 0, literal_bits, np.repeat(each, decomposition.lengths)
    )


def extended_ends(words: tuple[Codes, ...], letters: int) -> Iterator[tuple[Codes, ...]]:
    """Yield dictionaries in which all words with the same first (or last) symbol have a further symbol at that end."""
    for end in (0, -1):
        shared = Counter(word[end] for word in words)
        for border in sorted(symbol for symbol, count in shared.items() if count > 1):
            for more in (symbol for symbol in range(letters) if symbol != border):
                before, behind = ((more,), ()) if end == 0 else ((), (more,))
                yield tuple(before + word + behind if word[end] == border else word for word in words)
