"""Greedy dictionary search: add, refine, replace and drop words while the description length falls.

Changes by one symbol at a time cannot improve a word if its neighbours must change too; so words with a shared end are
extended together. Without these moves, one description of 58 planted sequences takes 3 % more bits. Splitting words,
merging words into all their neighbours and stripping shared ends shortened none of the 58 descriptions. Of 48 other
planted sequences, two descriptions are longer without these moves (by 0.5 and 3.8 %) and one is shorter: 0.1 % in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from unperturbed.analysis.structure.dictionary.candidates import (
    CandidateEvaluator,
    Codes,
    Windows,
    bits_per_symbol,
    extended_ends,
    word_variants,
)
from unperturbed.analysis.structure.dictionary.description_length import (
    ROUNDS,
    Counts,
    DescriptionLength,
    SymbolCode,
    decomposition_from,
    shortest_decomposition,
)
from unperturbed.analysis.structure.segmentation import Decomposition
from unperturbed.analysis.structure.symbols import Encoded

_WHOLE, _SAMPLE, _BLOCKS = 5000, 2500, 5
"""Maximum symbols of a sequence that is searched as a whole; symbols of a sample, and number of its blocks."""
_FEW_SYMBOLS, _SHORT = 1000, 8
"""Maximum symbols of a sequence that is searched twice, and of the windows from which the second search starts."""
_WORTH_IT = 1.05
"""Run the thorough steps of the second search only if its cover is within 5 % of the best one."""
_WORK, _WINDOWS, _FEWEST_WINDOWS, _EVALUATED = 1_500_000, 3000, 200, 3
"""Work, maximum and minimum number of windows to evaluate when adding a word; number of the best that are refined."""
_SYMBOLS = 8
"""Number of symbols tried in a word's variants: the most frequent ones in and next to its segments."""
_FEW = 12
"""Maximum number of words that are all extended and replaced; the time is quadratic in this number."""
_NEAR = 100.0
"""Bits that a dictionary may take in addition before its words are refined."""
_TOGETHER = 3
"""Maximum number of words added together if no single word saves bits."""
_ROUNDING, _MARGIN = 1e-9, 20.0
"""Bits of rounding error, and bits that adapted prices may still save."""


@dataclass(frozen=True, eq=False)
class Cover:
    """Words, and the shortest description found with them."""

    words: tuple[Codes, ...]  # Words as numbers of symbols
    decomposition: Decomposition  # The sequence over these words
    bits: DescriptionLength  # Description length of the decomposition
    counts: Counts  # Choices of the decomposition
    evaluator: CandidateEvaluator  # Evaluator of further words, at the prices of these counts

    @property
    def total(self) -> float:
        """Total bits."""
        return self.bits.total


class _Search:
    """Steps of a search over one sequence; each step takes a cover and returns a shorter one, or the same."""

    def __init__(self, encoded: Encoded, longest: int, rng: np.random.Generator) -> None:
        self.encoded, self.longest, self.rng = encoded, longest, rng
        self.code = SymbolCode.of(encoded)
        self.literal_bits = self.code.literal_bits(encoded.codes)
        self.windows = Windows(encoded.codes, longest)
        self.best_variants: dict[tuple[object, ...], Codes] = {}

    def cover(self, words: tuple[Codes, ...], counts: Counts | None = None) -> Cover:
        """Describe the sequence with the given words; `counts`, of a cover with similar words, set initial prices."""
        encoded = self.encoded.with_words(words)
        if not words or counts is None:
            decomposition, bits = shortest_decomposition(encoded, code=self.code)
        else:
            decomposition, bits = decomposition_from(encoded, self.code, counts, rounds=1 if self.is_long else ROUNDS)
        if words:
            counts = Counts.of(decomposition, merging=self.code.is_collapsed)
        else:  # for a first word: half of the symbols in segments, with one edit per thirty symbols
            size = len(self.encoded.codes)
            counts = Counts(np.array([1], np.int64), size // 30, size, size // 30, size, max(size // 2, 1))
        return Cover(words, decomposition, bits, counts, CandidateEvaluator(encoded, self.code, counts))

    @property
    def is_long(self) -> bool:
        """Whether the sequence is so long that a sample is searched first and only the likeliest steps are tried."""
        return len(self.encoded.codes) > _WHOLE

    def bits(self, cover: Cover, words: Sequence[Codes], word: int) -> NDArray[np.float64]:
        """Estimate the bits with other words instead of `word`; only differences between them are meaningful."""
        return cover.evaluator.bits(words, without=word, decomposition=cover.decomposition if self.is_long else None)

    def symbols_for(self, cover: Cover, word: int) -> list[int]:
        """Return the most frequent symbols in a word's segments and next to them."""
        codes, cuts = self.encoded.codes, cover.decomposition.cuts
        segments = np.flatnonzero(cover.decomposition.words == word)
        wider = np.zeros(len(codes) + 1, np.int64)
        np.add.at(wider, np.maximum(cuts[segments] - 1, 0), 1)
        np.add.at(wider, np.minimum(cuts[segments + 1] + 1, len(codes)), -1)
        counts = np.bincount(codes[np.cumsum(wider)[:-1] > 0], minlength=1)
        frequent = np.argsort(-counts, kind="stable")[:_SYMBOLS]
        return [int(symbol) for symbol in frequent if counts[symbol]]

    def refine_word(self, cover: Cover, word: int) -> Cover:
        """Change a word one symbol at a time while this shortens the description."""
        while True:
            best = self.best_variant(cover, word)
            if best == cover.words[word]:
                return cover
            refined = self.cover((*cover.words[:word], best, *cover.words[word + 1 :]), cover.counts)
            if refined.total >= cover.total - _ROUNDING:
                return cover
            cover = refined

    def best_variant(self, cover: Cover, word: int) -> Codes:
        """Change a word one symbol at a time while this saves bits at a cover's prices."""
        # Prices and symbols follow from words and decomposition, so a repeated cover has the same best variants.
        decomposition = cover.decomposition.cuts.tobytes() + cover.decomposition.words.tobytes()
        key = cover.words, sha256(decomposition).digest(), word
        if key not in self.best_variants:
            symbols, best = self.symbols_for(cover, word), cover.words[word]
            while True:
                variants = word_variants(best, symbols, self.longest, is_collapsed=self.code.is_collapsed)
                bits = self.bits(cover, variants, word)
                if bits.min() >= bits[0] - _ROUNDING:
                    break
                best = variants[int(bits.argmin())]
            self.best_variants[key] = best
        return self.best_variants[key]

    def refine_words(self, cover: Cover, since: Cover | None) -> Cover:
        """Refine words until none changes; if there are many, only words whose number of segments changed."""
        known = _uses(since) if since is not None and len(cover.words) > _FEW else {}
        while True:
            changed = [word for word in cover.words if known.get(word) != _uses(cover)[word]]
            if not changed:
                return cover
            for word in changed:
                known[word] = _uses(cover).get(word, 0)
                if word in cover.words:
                    cover = self.refine_word(cover, cover.words.index(word))

    def add_word(self, cover: Cover) -> Cover:
        """Add the word that shortens the description most; if there are many words, add further ones that help."""
        likely = [word for word, total in self.rank_additions(cover) if total < cover.total + _MARGIN]
        many = len(cover.words) >= _FEW
        chosen = _dissimilar(likely, max(_EVALUATED, len(cover.words) // 4)) if many else likely[:_EVALUATED]
        best = min(
            [cover, *(self.with_word(cover, word) for word in chosen[:_EVALUATED])],
            key=lambda candidate: candidate.total,
        )
        if best is not cover:
            for word in chosen[_EVALUATED:]:
                best = min(best, self.with_word(best, word), key=lambda candidate: candidate.total)
        return best

    def add_words_jointly(self, cover: Cover) -> Cover:
        """Add a few words that save no bits alone but may save bits together."""
        grown = cover
        for _ in range(_TOGETHER):
            ranked = self.rank_additions(grown)
            if not ranked:
                break
            grown = min(
                (self.with_word(grown, word) for word, _ in ranked[:_EVALUATED]), key=lambda candidate: candidate.total
            )
            grown = self.refine_words(grown, None)
            if grown.total < cover.total - _ROUNDING:
                return grown
        return cover

    def rank_additions(self, cover: Cover) -> list[tuple[Codes, float]]:
        """Return windows that are not yet words, with the estimated bits after adding each, the fewest first."""
        symbol_bits = self.literal_bits
        if cover.words:
            symbol_bits = bits_per_symbol(cover.decomposition, cover.evaluator.prices, symbol_bits)
        most = int(np.clip(_WORK // max(len(symbol_bits), 1), _FEWEST_WINDOWS, _WINDOWS))
        windows = self.windows.best(symbol_bits, float(np.log2(len(cover.words) + 2)), most, self.rng)
        additions = [word for word in windows if word not in cover.words]
        if not additions:
            return []
        bits = cover.evaluator.bits(additions)
        return [(additions[index], float(bits[index])) for index in np.argsort(bits, kind="stable").tolist()]

    def with_word(self, cover: Cover, word: Codes) -> Cover:
        return self.refine_word(self.cover((*cover.words, word), cover.counts.with_word()), len(cover.words))

    def without_word(self, cover: Cover, word: int) -> Cover:
        return self.cover(cover.words[:word] + cover.words[word + 1 :], cover.counts.without_word(word))

    def drop_words(self, cover: Cover) -> Cover:
        """Drop words that do not save bits."""
        for word in reversed(range(len(cover.words))):
            if self.may_be_dropped(cover, word):
                fewer = self.without_word(cover, word)
                if fewer.total < cover.total - _ROUNDING:
                    cover = fewer
        return cover

    def may_be_dropped(self, cover: Cover, word: int) -> bool:
        """Return whether removing a word would cost few bits at the current prices."""
        if len(cover.words) < 3:
            return True
        twin = cover.words[word - 1]  # a duplicate instead of the word is useless
        here, there = self.bits(cover, [cover.words[word], twin], word)
        return bool(there - here < _MARGIN)

    def join_frequent_pair(self, cover: Cover) -> Cover:
        """Join two words that often follow each other into one word."""
        for first, second in self.frequent_pairs(cover):
            word, other = cover.words[first], cover.words[second]
            # If runs are collapsed, equal symbols at the boundary become one.
            whole = word + other[self.code.is_collapsed and word[-1] == other[0] :]
            if len(whole) > self.longest or whole in cover.words:
                continue
            joined = self.drop_words(self.with_word(cover, whole))
            if joined.total < cover.total - _ROUNDING:
                return joined
        return cover

    def frequent_pairs(self, cover: Cover) -> list[tuple[int, int]]:
        """Return the pairs of words that follow each other in more than half of the rarer word's segments."""
        words = cover.decomposition.words
        known = (words[:-1] >= 0) & (words[1:] >= 0)
        pairs, counts = np.unique(np.stack((words[:-1], words[1:]))[:, known], axis=1, return_counts=True)
        fewer = np.minimum(*cover.counts.segments[pairs])
        often = np.flatnonzero(counts > fewer / 2)
        most_often = often[np.argsort(-counts[often], kind="stable")][:_FEW]
        return [(int(first), int(second)) for first, second in pairs[:, most_often].T]

    def extend_shared_ends(self, cover: Cover) -> Cover:
        """Add a symbol before all words with the same first symbol, or after all words with the same last symbol."""
        for words in extended_ends(cover.words, len(self.encoded.alphabet)):
            if max(map(len, words)) > self.longest:
                continue
            extended = self.cover(words, cover.counts)
            if extended.total <= cover.total + _NEAR:
                extended = self.drop_words(self.refine_words(extended, cover))
            if extended.total < cover.total - _ROUNDING:
                return extended
        return cover

    def replace_word(self, cover: Cover) -> Cover:
        """Drop a word, refine the others, and add the word that helps most."""
        for word in range(len(cover.words)):
            fewer = self.refine_words(self.without_word(cover, word), cover)
            replaced = self.refine_words(self.add_word(fewer), fewer)
            if replaced.total < cover.total - _ROUNDING:
                return replaced
        return cover


def _uses(cover: Cover) -> dict[Codes, int]:
    return dict(zip(cover.words, cover.counts.segments.tolist(), strict=False))


def _dissimilar(words: Sequence[Codes], most: int) -> list[Codes]:
    """Return at most `most` words, each of which has little in common with the words before it."""
    chosen: list[Codes] = []
    for word in words[: 50 * most]:
        if all(2 * LCSseq.similarity(word, other) < min(len(word), len(other)) + 1 for other in chosen):
            chosen.append(word)
        if len(chosen) == most:
            break
    return chosen


def learn_words(encoded: Encoded, *, longest: int, seed: int, observe: Callable[[Cover], None]) -> Cover:
    """Search for words that give an encoded sequence a short description; its own words are not used.

    In a long sequence, words are searched first in a sample and then, starting from these, in the whole sequence.
    `observe` is called with each intermediate cover.
    """
    rng = np.random.default_rng(seed)
    words: tuple[Codes, ...] = ()
    counts: Counts | None = None
    for part in _samples(encoded):
        search = _Search(replace(encoded, codes=part, words=()), longest, rng)
        cover = _improve(search, search.cover(words, counts), observe)
        if 0 < len(part) <= _FEW_SYMBOLS and longest > _SHORT:
            # A long window that recurs by chance is a bad start; words that start from short windows grow more slowly.
            search.windows = Windows(part, _SHORT)
            other = _improve(search, search.cover(()), thorough=False)
            if other.total < _WORTH_IT * cover.total and set(other.words) != set(cover.words):
                other = _improve(search, other)
            if other.total < cover.total - _ROUNDING:
                cover = other
                observe(cover)
        words, counts = cover.words, cover.counts.scaled(len(encoded.codes) / max(len(part), 1))
    return min(cover, search.cover(cover.words), key=lambda candidate: candidate.total)  # decomposed from all starts


def _samples(encoded: Encoded) -> Iterator[NDArray[np.int32]]:
    """Yield a sample of a long sequence (blocks spread over it), then the whole sequence."""
    codes = encoded.codes
    if len(codes) > _WHOLE:
        starts = np.linspace(0, len(codes) - _SAMPLE // _BLOCKS, _BLOCKS).astype(np.int64)
        blocks = [codes[start : start + _SAMPLE // _BLOCKS] for start in starts.tolist()]
        for number in range(1, _BLOCKS):
            if blocks[number][0] == blocks[number - 1][-1]:  # a run over the boundary would be one symbol
                blocks[number] = blocks[number][1:]
        yield np.concatenate(blocks)
    yield codes


def _improve(
    search: _Search, cover: Cover, observe: Callable[[Cover], None] = lambda _: None, *, thorough: bool = True
) -> Cover:
    """Add, refine and drop words until nothing helps; only a thorough search uses steps that take quadratic time."""
    if not len(search.encoded.codes):
        return cover
    since: Cover | None = None
    while True:
        before = cover.total
        cover = since = search.drop_words(search.refine_words(search.add_word(cover), since))
        observe(cover)
        if cover.total < before - _ROUNDING:
            continue
        steps = [search.join_frequent_pair] if cover.words else [search.add_words_jointly]
        if thorough and len(cover.words) <= _FEW and not search.is_long:
            steps += [search.extend_shared_ends, search.replace_word]
        for step in steps:
            if cover.total >= before - _ROUNDING:
                cover = step(cover)
        if cover.total >= before - _ROUNDING:
            return cover
