"""Candidate words and neighbouring dictionaries, and about how many bits each would save.

Candidates are windows of the sequence and variants of words. Neighbours shift a word boundary, split a word or merge
two words. Changed by a symbol at a time, a word stays where it is when its neighbours would have to change with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.decomposition.segmentation import Decomposition
from unperturbed.analysis.structure.dictionary.description_length import Counts, Prices, dictionary_bits, words_bits
from unperturbed.analysis.structure.dictionary.lanes import NONE, Codes, IntegerPrices, Lanes, SegmentCosts
from unperturbed.analysis.structure.dictionary.symbol_code import SymbolCode
from unperturbed.analysis.structure.sequence.encoding import Encoded

_FINEST = 256.0
"""Units of a bit, unless the sequence is so long that its bits would not fit."""

_LENGTHS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64)
"""Of windows: variants by a symbol more or less reach those in between."""


@dataclass(frozen=True, eq=False)
class CandidateEvaluator:
    """Evaluates a dictionary to which one word is added, or in which one is replaced, at fixed prices."""

    encoded: Encoded  # The sequence and the dictionary
    code: SymbolCode  # Of literal symbols
    counts: Counts  # Choices of a decomposition, from which the prices follow

    @cached_property
    def prices(self) -> Prices:
        """Prices of choices."""
        lengths = np.array([len(word) for word in self.encoded.words], np.int64)
        return Prices.of(self.counts, lengths, self.code.literal_bits(self.encoded.codes), self.code.insertion)

    @cached_property
    def _resolution(self) -> float:
        """Bits of one unit of the integer prices."""
        literal = float(np.abs(self.prices.symbols).sum()) + abs(self.prices.stretch) + 1.0
        return 1 / min(_FINEST, NONE / 4 / literal)

    def _rounded(self, bits: NDArray[np.float64] | float) -> NDArray[np.int32]:
        return np.rint(np.asarray(bits) / self._resolution).astype(np.int32)

    @cached_property
    def _integer_prices(self) -> IntegerPrices:
        prices = self.prices
        edit, merged, stretch = (int(self._rounded(price)) for price in (prices.edit, -prices.each, prices.stretch))
        return IntegerPrices(edit, merged if self.code.is_collapsed else None, stretch, self._rounded(prices.symbols))

    @cached_property
    def _known(self) -> SegmentCosts:
        words, prices = [tuple(word.tolist()) for word in self.encoded.words], self._rounded(self.prices.words)
        return SegmentCosts.of(self.encoded.codes, words, len(self.encoded.alphabet), prices, self._integer_prices)

    def decomposition(self) -> Decomposition:
        """Return the cheapest decomposition over the dictionary as it is, up to the rounding of prices."""
        cuts, words = self._known.path(self._integer_prices)
        return Decomposition.of(self.encoded, cuts, words)

    def bits(
        self, candidates: Sequence[Codes], *, without: int = -1, found: Decomposition | None = None
    ) -> NDArray[np.float64]:
        """Return about how many bits the sequence and its dictionary take with each candidate: shape (candidates,).

        The decomposition is the best one at these prices; prices are not adapted to it. `without` is the index of the
        word that candidates replace; with a decomposition `found` only the surroundings of that word's segments are
        evaluated, and only differences of bits mean something.
        """
        lanes = Lanes.of(candidates, len(self.encoded.alphabet))
        codes, known, prices = self.encoded.codes, self._known, self._integer_prices
        if found is not None and without >= 0:
            positions = _surroundings(found, without)
            codes, known = codes[positions], known.without_word(without, positions)
            prices = replace(prices, symbols=prices.symbols[positions])
        word_prices = self._rounded(self.prices.further_words(lanes.lengths, self._index_bits(without)))
        costs = lanes.costs(codes, known, without, word_prices, prices)
        bits = np.empty(len(candidates))
        bits[lanes.order] = costs * self._resolution + words_bits(lanes.numbers, lanes.lengths, self.code)
        if without not in self._kept_bits:
            kept = (word for index, word in enumerate(self.encoded.words) if index != without)
            self._kept_bits[without] = dictionary_bits(kept, self.code, more=1)
        return bits + self.prices.constant + self._kept_bits[without]

    @cached_property
    def _kept_bits(self) -> dict[int, float]:
        """Bits of the dictionary without a word but with one more; all variants of the word need them."""
        return {}

    def _index_bits(self, without: int) -> float:
        """Return the bits of the new word's index: those of the word it replaces, or of one used as often as others."""
        total = float(self.counts.segments.sum()) + len(self.counts.segments) / 2
        if without >= 0:
            return float(-np.log2((self.counts.segments[without] + 0.5) / total))
        uses = self.counts.mean_uses
        return float(-np.log2((uses + 0.5) / (total + uses + 0.5)))


def _surroundings(found: Decomposition, word: int) -> NDArray[np.int64]:
    """Return the positions of a word's segments, and of those before and after them."""
    own = found.words == word
    near = own.copy()
    near[1:] |= own[:-1]
    near[:-1] |= own[1:]
    return np.flatnonzero(np.repeat(near, found.lengths))


class Windows:
    """Windows of a sequence as candidates: all where they are few, else what recurs and what takes many bits."""

    def __init__(self, codes: NDArray[np.int32], longest: int) -> None:
        self._codes = codes
        self._found: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
        numbers = codes.astype(np.int64)
        length = 1
        for wanted in (length for length in _LENGTHS if length <= min(longest, len(codes))):
            while length < wanted:
                # Equal windows have equal numbers: that of the window without its last symbol, and this symbol.
                numbers = numbers[:-1] * (int(codes.max()) + 1) + codes[length:]
                _, numbers = np.unique(numbers, return_inverse=True)
                length += 1
            _, first = np.unique(numbers, return_index=True)
            self._found.append((wanted, first, numbers))

    def best(self, symbol_bits: NDArray[np.float64], price: float, most: int, rng: np.random.Generator) -> list[Codes]:
        """Return the windows that would save most bits, and some of those that take many.

        `symbol_bits`: array of float64, shape (n,). Bits of each of the sequence's symbols in the present description.
        """
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
    """Return a word's variants: a symbol inserted, deleted or replaced anywhere, and its beginnings and ends.

    Words with equal neighbours are left out where the sequence has none. The word itself comes first.
    """
    listed = list(symbols)
    # In a word without equal neighbours only those where it is changed can be equal, and looking there is faster.
    looks_there = is_collapsed and not _has_equal_neighbours(word)
    padded = (None, *word, None)
    found = {word: None}
    for at in range(len(word)):
        begin, end = word[:at], word[at + 1 :]
        before, after = padded[at], padded[at + 2]
        found[begin] = found[word[at:]] = None
        if not looks_there or before != after or before is None:
            found[begin + end] = None
        for symbol in listed:
            if not looks_there or symbol not in (before, after):
                found[(*begin, symbol, *end)] = None
    for at in range(len(word) + 1):
        begin, end = word[:at], word[at:]
        for symbol in listed:
            if not looks_there or symbol not in padded[at : at + 2]:
                found[(*begin, symbol, *end)] = None
    looks_everywhere = is_collapsed and not looks_there
    return [one for one in found if 0 < len(one) <= longest and not (looks_everywhere and _has_equal_neighbours(one))]


def _has_equal_neighbours(word: Codes) -> bool:
    return any(before == after for before, after in pairwise(word))


def bits_per_symbol(found: Decomposition, prices: Prices, literal_bits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return about the bits of each symbol in a decomposition: a segment's are spread over its symbols."""
    if not len(found):
        return literal_bits
    with_word = np.concatenate((prices.words, [0.0]))[found.words] + prices.edit * found.distances
    each = with_word / found.lengths + prices.constant / max(len(literal_bits), 1)
    return np.where(np.repeat(found.words, found.lengths) < 0, literal_bits, np.repeat(each, found.lengths))


_BOUNDARY = 3
"""Symbols that are shifted over a boundary together."""
_PART = 3
"""Symbols of either part of a word, at least."""

Words = tuple[Codes, ...]


def strip_shared_ends(words: Words) -> Iterator[Words]:
    """Yield words without what several of them begin, or end, with."""
    for size in range(1, _BOUNDARY + 1):
        for part, rest in ((slice(None, size), slice(size, None)), (slice(-size, None), slice(None, -size))):
            shared = Counter(word[part] for word in words if len(word) > size)
            for symbols in sorted(symbols for symbols, count in shared.items() if count > 1):
                yield tuple(word[rest] if word[part] == symbols and len(word) > size else word for word in words)


def extend_shared_ends(words: Words, letters: int) -> Iterator[Words]:
    """Yield words with a symbol more where several begin, or end, with the same."""
    for end in (0, -1):
        shared = Counter(word[end] for word in words)
        for border in sorted(symbol for symbol, count in shared.items() if count > 1):
            for more in (symbol for symbol in range(letters) if symbol != border):
                before, behind = ((more,), ()) if end == 0 else ((), (more,))
                yield tuple(before + word + behind if word[end] == border else word for word in words)


def split_word(words: Words) -> Iterator[Words]:
    """Yield words with one of them in two; its second part is the last word."""
    for number, word in enumerate(words):
        for cut in range(_PART, len(word) - _PART + 1):
            if word[cut:] not in words:
                yield (*words[:number], word[:cut], *words[number + 1 :], word[cut:])


def merge_into_neighbours(
    words: Words, pairs: Iterable[tuple[int, int]], *, is_collapsed: bool
) -> Iterator[tuple[int, Words]]:
    """Yield words without one that becomes a part of all those that follow, or precede, it, and which one that is.

    `pairs` are words that follow each other often, by their numbers.
    """
    after: dict[int, list[int]] = {}
    before: dict[int, list[int]] = {}
    for first, second in pairs:
        if first != second:
            after.setdefault(first, []).append(second)
            before.setdefault(second, []).append(first)
    for number in range(len(words)):
        for others, is_first in ((after.get(number, []), True), (before.get(number, []), False)):
            if len(others) > 1:
                merged = list(words)
                for other in others:
                    two = (words[number], words[other]) if is_first else (words[other], words[number])
                    merged[other] = concatenate(*two, is_collapsed=is_collapsed)
                yield number, tuple(merged[:number] + merged[number + 1 :])


def concatenate(first: Codes, second: Codes, *, is_collapsed: bool) -> Codes:
    """Return two words as one; equal symbols at the boundary are one where runs are collapsed."""
    return first + second[1:] if is_collapsed and first[-1] == second[0] else first + second
