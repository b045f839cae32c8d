"""Words that may shorten a description: where they come from, and how many bits each would save."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.decomposition import Decomposition
from unperturbed.analysis.structure.description_length import Counts, Prices, dictionary_bits, words_bits
from unperturbed.analysis.structure.encoding import Encoded
from unperturbed.analysis.structure.lanes import NONE, Codes, Lanes, Table, WholePrices
from unperturbed.analysis.structure.symbol_code import SymbolCode

__all__ = ["Trial", "Windows", "bits_of_symbols", "variants"]

_FINEST = 256.0
"""Units of a bit, unless the sequence is so long that its bits would not fit."""

_LENGTHS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64)
"""Of windows: those in between are found by a symbol more or less."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A dictionary to which one word is added, or in which one is replaced, at prices that stay.

    Attributes
    ----------
    encoded : the sequence and the dictionary.
    code, counts : how symbols are spelt; choices of a decomposition, by which others are priced.
    """

    encoded: Encoded
    code: SymbolCode
    counts: Counts

    @cached_property
    def prices(self) -> Prices:
        """What choices cost."""
        lengths = np.array([len(word) for word in self.encoded.words], np.int64)
        return Prices.of(self.counts, lengths, self.code.spelt(self.encoded.codes), self.code.insertion)

    @cached_property
    def _unit(self) -> float:
        """Bits of a whole number's unit."""
        spelt_out = float(np.abs(self.prices.symbols).sum()) + abs(self.prices.stretch) + 1.0
        return 1 / min(_FINEST, NONE / 4 / spelt_out)

    def _whole(self, bits: NDArray[np.float64] | float) -> NDArray[np.int32]:
        return np.rint(np.asarray(bits) / self._unit).astype(np.int32)

    @cached_property
    def _wholes(self) -> WholePrices:
        prices = self.prices
        edit, merged, stretch = (int(self._whole(price)) for price in (prices.edit, -prices.each, prices.stretch))
        return WholePrices(edit, merged if self.code.is_collapsed else None, stretch, self._whole(prices.symbols))

    @cached_property
    def _table(self) -> Table:
        words = [tuple(word.tolist()) for word in self.encoded.words]
        return Table.of(self.encoded.codes, words, len(self.encoded.alphabet), self._whole(self.prices.words), self._wholes)

    def decomposition(self) -> Decomposition:
        """Return the cheapest decomposition over the dictionary as it is, up to the rounding of prices."""
        cuts, words = self._table.path(self._wholes)
        return Decomposition.of(self.encoded, cuts, words)

    def bits(
        self, candidates: Sequence[Codes], *, without: int = -1, found: Decomposition | None = None
    ) -> NDArray[np.float64]:
        """Return about how many bits the sequence and its dictionary would take with each candidate: shape (candidates,).

        The decomposition is the best one at these prices; those that its own choices would have are not looked for. `without` is the index of the
        word that it replaces; where a decomposition is given, only around that word's segments, and only differences of bits mean something then.
        """
        lanes = Lanes.of(candidates, len(self.encoded.alphabet))
        codes, table, prices = self.encoded.codes, self._table, self._wholes
        if found is not None and without >= 0:
            there = _around(found, without)
            codes, table, prices = codes[there], table.without(without, there), replace(prices, symbols=prices.symbols[there])
        costs = lanes.costs(
            codes, table, without, self._whole(self.prices.word(lanes.lengths, self._choosing(without))), prices
        )
        bits = np.empty(len(candidates))
        bits[lanes.order] = costs * self._unit + words_bits(lanes.numbers, lanes.lengths, self.code)
        kept = (word for index, word in enumerate(self.encoded.words) if index != without)
        return bits + self.prices.constant + dictionary_bits(kept, self.code, more=1)

    def _choosing(self, without: int) -> float:
        """Bits that tell that a segment has the new word: those of the one it replaces, or of one that is used as often as others on the average."""
        total = float(self.counts.units.sum()) + len(self.counts.units) / 2
        if without >= 0:
            return float(-np.log2((self.counts.units[without] + 0.5) / total))
        uses = self.counts.usual
        return float(-np.log2((uses + 0.5) / (total + uses + 0.5)))


def _around(found: Decomposition, word: int) -> NDArray[np.int64]:
    """Return the positions of a word's segments, and of those before and after them."""
    mine = found.words == word
    near = mine.copy()
    near[1:] |= mine[:-1]
    near[:-1] |= mine[1:]
    return np.flatnonzero(np.repeat(near, found.lengths))


class Windows:
    """Stretches of a sequence as candidates: all of them where they are few, else what recurs and what is told badly."""

    def __init__(self, codes: NDArray[np.int32], longest: int) -> None:
        self._codes = codes
        self._found: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
        numbers = codes.astype(np.int64)
        length = 1
        for wanted in (length for length in _LENGTHS if length <= min(longest, len(codes))):
            while length < wanted:
                # Windows are numbered by what they were before and their last symbol.
                numbers = numbers[:-1] * (int(codes.max()) + 1) + codes[length:]
                _, numbers = np.unique(numbers, return_inverse=True)
                length += 1
            _, first = np.unique(numbers, return_index=True)
            self._found.append((wanted, first, numbers))

    def best(self, told: NDArray[np.float64], price: float, most: int, chance: np.random.Generator) -> list[Codes]:
        """Return at most so many windows.

        Parameters
        ----------
        told : bits of each of the sequence's symbols as it is told now.
        price : about the bits of a segment with a new word.
        """
        before = np.concatenate(([0.0], np.cumsum(told)))
        starts, lengths, saved = [], [], []
        for length, first, numbers in self._found:
            gain = np.maximum(before[length:] - before[:-length] - price, 0.0)
            starts.append(first)
            lengths.append(np.full(len(first), length))
            saved.append(np.bincount(numbers, weights=gain, minlength=len(first)) - before[-1] / max(len(told), 1) * length)
        if not starts:
            return []
        start, size, worth = np.concatenate(starts), np.concatenate(lengths), np.concatenate(saved)
        chosen = np.arange(len(start))
        if len(chosen) > most:
            chosen = np.argsort(-worth, kind="stable")[: most // 2]
            badly = np.maximum(before[size + start] - before[start], 0.0) / size
            others = np.setdiff1d(np.arange(len(start)), chosen)
            shares = badly[others] + 1e-9
            drawn = chance.choice(others, min(most - len(chosen), len(others)), replace=False, p=shares / shares.sum())
            chosen = np.concatenate((chosen, drawn))
        return [tuple(self._codes[start[index] : start[index] + size[index]].tolist()) for index in chosen]


def variants(word: Codes, symbols: Iterable[int], longest: int, *, is_collapsed: bool) -> list[Codes]:
    """Return what a word becomes by a symbol more, less or other anywhere, or when it begins or ends anywhere within itself.

    Words with equal neighbours are left out where the sequence has none. The word itself comes first.
    """
    listed = list(symbols)
    made = {word: None}
    for place in range(len(word)):
        for one in (word[:place], word[place:], word[:place] + word[place + 1 :]):
            made[one] = None
        for symbol in listed:
            made[(*word[:place], symbol, *word[place + 1 :])] = None
    for place in range(len(word) + 1):
        for symbol in listed:
            made[(*word[:place], symbol, *word[place:])] = None
    return [
        one
        for one in made
        if 0 < len(one) <= longest and not (is_collapsed and any(before == after for before, after in pairwise(one)))
    ]


def bits_of_symbols(found: Decomposition, prices: Prices, spelt: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return about the bits of each symbol as a decomposition tells it: a segment's are spread over its symbols."""
    if not len(found):
        return spelt
    with_word = np.concatenate((prices.words, [0.0]))[found.words] + prices.edit * found.distances
    each = with_word / found.lengths + prices.constant / max(len(spelt), 1)
    return np.where(np.repeat(found.words, found.lengths) < 0, spelt, np.repeat(each, found.lengths))
