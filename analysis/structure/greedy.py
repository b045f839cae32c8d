"""Words by description length: what shortens the description most is added, bettered and dropped, until nothing does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from unperturbed.analysis.structure.candidates import Trial, Windows, bits_of_symbols, variants
from unperturbed.analysis.structure.decomposition import Decomposition
from unperturbed.analysis.structure.description_length import (
    Counts,
    DescriptionLength,
    shortest_decomposition,
    told,
)
from unperturbed.analysis.structure.encoding import Encoded
from unperturbed.analysis.structure.lanes import Codes
from unperturbed.analysis.structure.rearranging import glued, joint, parted, stripped, widened
from unperturbed.analysis.structure.symbol_code import SymbolCode

__all__ = ["Cover", "learn_words"]

_WHOLE, _SAMPLE, _BLOCKS = 5000, 2500, 5
"""Symbols of sequences that are searched as a whole; of a sample, and its blocks."""
_FEW_SYMBOLS, _SHORT = 1000, 8
"""Symbols of a sequence that is searched twice, and of the windows from which the second search begins."""
_WORTH_IT = 1.05
"""Bits of what it has found before the thorough steps, beside those of the first search, up to which these are made."""
_WORK, _WINDOWS, _FEWEST_WINDOWS, _TRIED = 1_500_000, 3000, 200, 3
"""Windows that are tried when a word is added, and how many of the best are bettered before one is chosen."""
_SYMBOLS = 8
"""Other symbols that a word's variants may have: the most frequent ones of its segments and beside them."""
_FEW = 12
"""Words up to which all of them are moved and replaced: that takes the square of their number."""
_NEAR = 100.0
"""Bits that other words may need more before they are bettered."""
_TOGETHER = 3
"""Words that may have to be there before any of them pays."""
_SMALL, _LITTLE = 1e-9, 20.0
"""Bits: what rounding makes, and what prices that follow the words may make up for."""


@dataclass(frozen=True, eq=False)
class Cover:
    """Words and the shortest description with them that was found.

    Attributes
    ----------
    words : tuple of tuples of symbols' numbers
    decomposition, bits, counts : what they give.
    trial : further words beside these, at the prices of these counts or of those before.
    """

    words: tuple[Codes, ...]
    decomposition: Decomposition
    bits: DescriptionLength
    counts: Counts
    trial: Trial

    @property
    def total(self) -> float:
        """Bits in all."""
        return self.bits.total


@dataclass
class _Search:
    """What stays the same while words are looked for."""

    encoded: Encoded
    code: SymbolCode
    longest: int
    chance: np.random.Generator
    windows: Windows = field(init=False)
    spelt: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.windows = Windows(self.encoded.codes, self.longest)
        self.spelt = self.code.spelt(self.encoded.codes)

    def encoded_with(self, words: Iterable[Codes]) -> Encoded:
        return replace(self.encoded, words=tuple(np.array(word, np.int32) for word in words))

    def cover(self, words: tuple[Codes, ...], counts: Counts | None = None) -> Cover:
        """Tell the sequence with some words, at the prices that choices like these give to begin with."""
        encoded = self.encoded_with(words)
        if not words or counts is None:
            found, bits = shortest_decomposition(encoded, code=self.code)
            counts = self.counts(found) if words else self._first_counts()
            return Cover(words, found, bits, counts, Trial(encoded, self.code, counts))
        best: Cover | None = None
        while True:
            trial = Trial(encoded, self.code, counts)
            found = trial.decomposition()
            bits = told(found, self.code)
            if best is not None and bits.total >= best.total:
                return replace(best, trial=trial)
            counts = self.counts(found)
            best = Cover(words, found, bits, counts, trial)
            if self.is_long:
                return best

    def counts(self, found: Decomposition) -> Counts:
        return Counts.of(found, merging=self.code.is_collapsed)

    def settled(self, cover: Cover) -> Cover:
        """Return the words with the shortest description that can be found."""
        return min(cover, self.cover(cover.words), key=lambda one: one.total)

    @property
    def is_long(self) -> bool:
        """Whether only what is most likely to help is tried, as in a sequence of which a sample was searched before."""
        return len(self.encoded.codes) > _WHOLE

    def _first_counts(self) -> Counts:
        """Before there is a word: half is told by words, with an edit in thirty symbols."""
        size = len(self.encoded.codes)
        return Counts(np.array([1], np.int64), size // 30, size, size // 30, size, max(size // 2, 1))

    def bits(self, cover: Cover, tried: Sequence[Codes], word: int) -> NDArray[np.float64]:
        """Return about the bits with others in a word's place; only their differences mean something."""
        return cover.trial.bits(tried, without=word, found=cover.decomposition if self.is_long else None)

    def symbols_for(self, cover: Cover, word: int) -> list[int]:
        """Return the most frequent symbols of a word's segments and of what is beside them."""
        codes, cuts = self.encoded.codes, cover.decomposition.cuts
        segments = np.flatnonzero(cover.decomposition.words == word)
        wider = np.zeros(len(codes) + 1, np.int64)
        np.add.at(wider, np.maximum(cuts[segments] - 1, 0), 1)
        np.add.at(wider, np.minimum(cuts[segments + 1] + 1, len(codes)), -1)
        counts = np.bincount(codes[np.cumsum(wider)[:-1] > 0], minlength=1)
        frequent = np.argsort(-counts, kind="stable")[:_SYMBOLS]
        return [int(symbol) for symbol in frequent if counts[symbol]]

    def bettered(self, cover: Cover, word: int) -> Cover:
        """Change a word by a symbol at a time while that shortens the description."""
        while True:
            symbols = self.symbols_for(cover, word)
            start = best = cover.words[word]
            while True:
                tried = variants(best, symbols, self.longest, is_collapsed=self.code.is_collapsed)
                bits = self.bits(cover, tried, word)
                if bits.min() >= bits[0] - _SMALL:
                    break
                best = tried[int(bits.argmin())]
            if best == start:
                return cover
            found = self.cover((*cover.words[:word], best, *cover.words[word + 1 :]), cover.counts)
            if found.total >= cover.total - _SMALL:
                return cover
            cover = found

    def all_bettered(self, cover: Cover, since: Cover | None) -> Cover:
        """Better words until none changes any more; of many words only those that are used otherwise than in an earlier cover."""
        known = _uses(since) if since is not None and len(cover.words) > _FEW else {}
        while True:
            changed = [word for word in cover.words if known.get(word) != _uses(cover)[word]]
            if not changed:
                return cover
            for word in changed:
                known[word] = _uses(cover).get(word, 0)
                if word in cover.words:
                    cover = self.bettered(cover, cover.words.index(word))

    def candidates(self, cover: Cover) -> list[Codes]:
        """Return the windows that would save most as words beside those of a cover."""
        prices = cover.trial.prices
        told = bits_of_symbols(cover.decomposition, prices, self.spelt) if cover.words else self.spelt
        most = int(np.clip(_WORK // max(len(told), 1), _FEWEST_WINDOWS, _WINDOWS))
        return self.windows.best(told, float(np.log2(len(cover.words) + 2)), most, self.chance)

    def enlarged(self, cover: Cover) -> Cover:
        """Add the word that shortens the description most, and of many words others that do too; the same cover where none does."""
        tried, bits = self.additions(cover)
        likely = [word for word, total in zip(tried, bits, strict=True) if total < cover.total + _LITTLE]
        chosen = _unlike(likely, max(_TRIED, len(cover.words) // 4)) if len(cover.words) >= _FEW else likely[:_TRIED]
        best = min([cover, *(self.with_word(cover, word) for word in chosen[:_TRIED])], key=lambda one: one.total)
        if best is not cover:
            for word in chosen[_TRIED:]:
                best = min(best, self.with_word(best, word), key=lambda one: one.total)
        return best

    def begun(self, cover: Cover) -> Cover:
        """Add words that do not pay alone as long as there are few: together they may."""
        found = cover
        for _ in range(_TOGETHER):
            tried, _bits = self.additions(found)
            if not tried:
                break
            found = min((self.with_word(found, word) for word in tried[:_TRIED]), key=lambda one: one.total)
            found = self.all_bettered(found, None)
            if found.total < cover.total - _SMALL:
                return found
        return cover

    def additions(self, cover: Cover) -> tuple[list[Codes], list[float]]:
        """Return windows that are no words yet, and about the bits with each in addition, the fewest first."""
        tried = [word for word in self.candidates(cover) if word not in cover.words]
        if not tried:
            return [], []
        bits = cover.trial.bits(tried)
        order = np.argsort(bits, kind="stable").tolist()
        return [tried[index] for index in order], [float(bits[index]) for index in order]

    def with_word(self, cover: Cover, word: Codes) -> Cover:
        return self.bettered(self.cover((*cover.words, word), cover.counts.with_word()), len(cover.words))

    def without_word(self, cover: Cover, word: int) -> Cover:
        return self.cover(cover.words[:word] + cover.words[word + 1 :], cover.counts.without(word))

    def reduced(self, cover: Cover) -> Cover:
        """Drop words that do not pay."""
        for word in reversed(range(len(cover.words))):
            if self.may_go(cover, word):
                fewer = self.without_word(cover, word)
                if fewer.total < cover.total - _SMALL:
                    cover = fewer
        return cover

    def may_go(self, cover: Cover, word: int) -> bool:
        """Tell whether a word's absence would cost little at the present prices."""
        if len(cover.words) < 3:
            return True
        twin = cover.words[word - 1]  # in the word's place it is of no use
        here, there = self.bits(cover, [cover.words[word], twin], word)
        return bool(there - here < _LITTLE)

    def joined(self, cover: Cover) -> Cover:
        """Make one word of two that often follow each other."""
        for first, second in self.pairs(cover):
            whole = joint(cover.words[first], cover.words[second], is_collapsed=self.code.is_collapsed)
            if len(whole) > self.longest or whole in cover.words:
                continue
            found = self.reduced(self.with_word(cover, whole))
            if found.total < cover.total - _SMALL:
                return found
        return cover

    def pairs(self, cover: Cover) -> list[tuple[int, int]]:
        """Return the words that follow each other most often for how often they occur."""
        words = cover.decomposition.words
        known = (words[:-1] >= 0) & (words[1:] >= 0)
        pairs, counts = np.unique(np.stack((words[:-1], words[1:]))[:, known], axis=1, return_counts=True)
        fewer = np.minimum(*cover.counts.units[pairs])
        often = np.flatnonzero(counts > fewer / 2)
        return [
            (int(first), int(second)) for first, second in pairs[:, often[np.argsort(-counts[often], kind="stable")][:_FEW]].T
        ]

    def rearranged(self, cover: Cover) -> Cover:
        """Put other words into the place of all, as `rearranging` makes them, where that helps once they are bettered."""
        for words, counts, near in self.arrangements(cover):
            if max(map(len, words)) > self.longest:
                continue
            found = self.cover(words, counts)
            if found.total <= cover.total + near:
                found = self.reduced(self.all_bettered(found, cover))
            if found.total < cover.total - _SMALL:
                return found
        return cover

    def arrangements(self, cover: Cover) -> Iterator[tuple[tuple[Codes, ...], Counts, float]]:
        """Yield words, counts to begin with, and how many bits more than now they may need to be bettered."""
        words, counts = cover.words, cover.counts
        yield from ((one, counts.with_word(), _NEAR) for one in parted(words))
        yield from ((one, counts, _NEAR) for one in widened(words, len(self.encoded.alphabet)))
        for number, one in glued(words, self.pairs(cover), is_collapsed=self.code.is_collapsed):
            yield one, counts.without(number), _NEAR
        yield from ((one, counts, np.inf) for one in stripped(words))

    def replaced(self, cover: Cover) -> Cover:
        """Drop a word, better the others without it, and add what helps most then."""
        for word in range(len(cover.words)):
            fewer = self.all_bettered(self.without_word(cover, word), cover)
            found = self.all_bettered(self.enlarged(fewer), fewer)
            if found.total < cover.total - _SMALL:
                return found
        return cover


def _uses(cover: Cover) -> dict[Codes, int]:
    return dict(zip(cover.words, cover.counts.units.tolist(), strict=False))


def _unlike(words: Sequence[Codes], most: int) -> list[Codes]:
    """Return the first so many words that have little in common with those before."""
    chosen: list[Codes] = []
    for word in words[: 50 * most]:
        if all(2 * LCSseq.similarity(word, other) < min(len(word), len(other)) + 1 for other in chosen):
            chosen.append(word)
        if len(chosen) == most:
            break
    return chosen


def learn_words(encoded: Encoded, *, longest: int, seed: int, heard: Callable[[Cover], None] | None = None) -> Cover:
    """Return words that tell an encoded sequence in few bits; its own words are not used.

    Each step is taken only where it shortens the description, so that the search ends. The words of a long sequence are looked for in a sample first,
    and in all of it from these on. `heard` is told each cover on the way.
    """
    chance = np.random.default_rng(seed)
    words: tuple[Codes, ...] = ()
    counts: Counts | None = None
    for part in _samples(encoded):
        known = replace(encoded, codes=part, words=())
        search = _Search(known, SymbolCode.of(known), longest, chance)
        cover = _learnt(search, search.cover(words, counts), heard)
        if 0 < len(part) <= _FEW_SYMBOLS and longest > _SHORT:
            # A long window that recurs by chance is a bad beginning; from short ones words grow more slowly.
            search.windows = Windows(part, _SHORT)
            other = _learnt(search, search.cover(()), None, thorough=False)
            if other.total < _WORTH_IT * cover.total and set(other.words) != set(cover.words):
                other = _learnt(search, other, None)
            if other.total < cover.total - _SMALL:
                cover = other
                if heard is not None:
                    heard(cover)
        words, counts = cover.words, cover.counts.times(len(encoded.codes) / max(len(part), 1))
    return search.settled(cover)


def _samples(encoded: Encoded) -> Iterator[NDArray[np.int32]]:
    """Yield a sample of a long sequence, blocks from all over it; last, the sequence."""
    codes = encoded.codes
    if len(codes) > _WHOLE:
        starts = np.linspace(0, len(codes) - _SAMPLE // _BLOCKS, _BLOCKS).astype(np.int64)
        blocks = [codes[start : start + _SAMPLE // _BLOCKS] for start in starts.tolist()]
        for number in range(1, _BLOCKS):
            if blocks[number][0] == blocks[number - 1][-1]:  # a run over the border would be one symbol
                blocks[number] = blocks[number][1:]
        yield np.concatenate(blocks)
    yield codes


def _learnt(search: _Search, cover: Cover, heard: Callable[[Cover], None] | None, *, thorough: bool = True) -> Cover:
    """Add, better and drop words until nothing helps; a thorough search tries what takes the square of their number, too."""
    if not len(search.encoded.codes):
        return cover
    since: Cover | None = None
    while True:
        before = cover.total
        cover = search.reduced(search.all_bettered(search.enlarged(cover), since))
        since = cover
        if heard is not None:
            heard(cover)
        if cover.total < before - _SMALL:
            continue
        steps = [search.joined] if cover.words else [search.begun]
        if thorough and len(cover.words) <= _FEW and not search.is_long:
            steps += [search.rearranged, search.replaced]
        for step in steps:
            if cover.total >= before - _SMALL:
                cover = step(cover)
        if cover.total >= before - _SMALL:
            return cover
