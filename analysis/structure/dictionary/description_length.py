"""Description length of a sequence under a dictionary, in bits: the score by which dictionaries are compared.

The paper's J counts only insertions and deletions, so it is 0 if every segment is its own word. Here, the words and the
choice of a word for each segment are encoded as well: Rissanen's two-part description length. Encoder and decoder know
the sequence's length, the frequency of each symbol, and whether neighbours can be equal. The description has two parts.

*Dictionary*: the number of words and each word's length, in Elias's γ code; the words' symbols by `SymbolCode` (with
one bit for whether words have equal neighbours, if the sequence has none).

*Segments*, until the sequence is complete. For each: its word, or that it is a stretch without a word. (In a sequence
without equal neighbours, a word that begins with the symbol before the segment has lost its first symbol to that
symbol's run; the rest of the word follows.) Then the edits: before each symbol of the word, and at its end, whether a
symbol is inserted, repeated for each insertion, and which symbol (all with equal probability, except the preceding one
if neighbours differ; at the start, all except the last of the alphabet, which is in order of first occurrence); and for
each symbol of the word, whether it is left out. For a stretch: its symbols by `SymbolCode`, and after each whether
another follows.

The cost of a choice depends on the preceding choices: −log₂ of (times it was made + ½) / (choices so far + ½ ·
possibilities), as proposed by Krichevsky and Trofimov. So no error rate has to be given or encoded. Without words, the
sequence is literal, and none of this is encoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.segmentation import Decomposition, WordMasks, decompose_encoded
from unperturbed.analysis.structure.symbols import AnySequence, Encoded, encode

_HALVINGS = 100
_MOST = 0.4999
"""Maximum share of a symbol: no chain has a symbol with a share of exactly one half, but one comes this near."""
_LEAST = 1e-300
_ONE_TEXT = np.zeros(1, np.int64)


@dataclass(frozen=True, eq=False)
class SymbolCode:
    """Code of literal symbols: the bits of each symbol."""

    # (symbols,): Sum is 1. If runs are collapsed, c follows a different symbol b with probability w_c / (1 − w_b).
    weights: NDArray[np.float64]
    is_collapsed: bool  # Whether no two neighbours of the sequence are equal

    @classmethod
    def of(cls, encoded: Encoded) -> SymbolCode:
        """Return the code for the counts of a sequence's symbols; symbols that occur only in words count ½."""
        counts = np.bincount(encoded.codes, minlength=len(encoded.alphabet)).astype(np.float64)
        counts[counts == 0] = 0.5
        shares = counts / max(float(counts.sum()), 1.0)
        is_collapsed = not has_equal_neighbours(encoded.codes)
        return cls(_weights(shares) if is_collapsed else shares, is_collapsed)

    @property
    def insertion(self) -> float:
        """Bits of an inserted symbol, among all symbols or among those that differ from the preceding one."""
        return float(np.log2(max(len(self.weights) - self.is_collapsed, 1)))

    @cached_property
    def _bits(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bits of each symbol if it may follow itself, and the correction for its successor, which must differ."""
        return -np.log2(self.weights), np.log2(np.maximum(1 - self.weights, _LEAST))

    def literal_bits(
        self, codes: NDArray[np.integer], starts: NDArray[np.int64] = _ONE_TEXT, *, neighbours_differ: bool = True
    ) -> NDArray[np.float64]:
        """Return the bits of each symbol of texts that begin at `starts`: shape (n,).

        The decoder uses that neighbours differ, if they do in the sequence and in all of these texts.
        """
        alone, after = self._bits
        bits: NDArray[np.float64] = alone[codes]
        if self.is_collapsed and neighbours_differ:
            more = after[codes[:-1]]
            more[starts[1:] - 1] = 0.0
            bits[1:] += more
        return bits


def has_equal_neighbours(codes: NDArray[np.int32]) -> bool:
    """Return whether any symbol is followed by itself."""
    return bool((codes[1:] == codes[:-1]).any())


def _weights(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights w with w_c (1 − w_c) proportional to the shares of visits that `SymbolCode`'s chain makes.

    The chain is reversible, w_b (1 − w_b) · w_c / (1 − w_b) = w_b · w_c, so its stationary shares are w (1 − w). Each w
    solves w (1 − w) = s · share: it is the smaller root or, for the most frequent symbol if necessary, the larger root.
    s is chosen to make the sum of all w equal 1.
    """
    if len(shares) < 3:
        return np.full(len(shares), 1 / max(len(shares), 1))
    most = int(shares.argmax())
    if shares[most] > _MOST:
        shares = shares * ((1 - _MOST) / (1 - shares[most]))
        shares[most] = _MOST
    highest = 1 / (4 * float(shares[most]))
    larger = float(_roots(shares, highest, most, larger=False).sum()) < 1
    # With smaller roots only, the sum grows with s; with one larger root, it is above 1 for a small s and below 1 for
    # the highest s.
    low, high = 0.0, highest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if (float(_roots(shares, middle, most, larger=larger).sum()) > 1) != larger:
            high = middle
        else:
            low = middle
    weights = _roots(shares, high if larger else low, most, larger=larger)
    return np.asarray(weights / weights.sum(), np.float64)


def _roots(shares: NDArray[np.float64], scale: float, most: int, *, larger: bool) -> NDArray[np.float64]:
    spread = np.sqrt(np.maximum(1 - 4 * scale * shares, 0.0))
    roots: NDArray[np.float64] = 2 * scale * shares / (1 + spread)
    if larger:
        roots[most] = (1 + spread[most]) / 2
    return roots


ROUNDS = 20
_FIRST_RATES = 0.05, 0.001
"""Rates of insertions and deletions at which the search starts, before any are counted."""


@dataclass(frozen=True)
class DescriptionLength:
    """Description length: the bits of each part of a description.

    Attributes
    ----------
    dictionary : float
        Bits of the words.
    indices : float
        Bits of each segment's choice of a word.
    edits : float
        Bits of insertions and deletions.
    stretches : float
        Bits of stretches that no word describes.
    """

    dictionary: float
    indices: float
    edits: float
    stretches: float

    @property
    def total(self) -> float:
        """Total bits."""
        return self.dictionary + self.indices + self.edits + self.stretches


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of each choice in a description."""

    segments: NDArray[np.int64]  # (words + 1,): Segments with each word, then stretches without a word
    # insertions, gaps: Decisions to insert a symbol, and not to insert one.
    insertions: int
    gaps: int
    # deletions, kept: Symbols of words that are left out, and that are kept.
    deletions: int
    kept: int
    stretch_symbols: int  # Symbols in stretches

    @classmethod
    def of(cls, decomposition: Decomposition, *, merging: bool) -> Counts:
        """Count the choices of a decomposition; with `merging`, words may lose their first symbol to the run before."""
        masks = WordMasks.of(decomposition.sequence.codes, decomposition.sequence.words)
        distances, merged = masks.distances(decomposition.cuts, decomposition.words, merging=merging)
        with_word = decomposition.words >= 0
        words, lengths, distances = (
            decomposition.words[with_word],
            decomposition.lengths[with_word],
            distances[with_word],
        )
        # Insertions i and deletions d follow from ρ = i + d edits and a difference in length of l − n = i − d.
        expected = masks.lengths[words] - merged[with_word]
        insertions = int(((distances + lengths - expected) // 2).sum())
        deletions = int(((distances - lengths + expected) // 2).sum())
        stretches = int((~with_word).sum())
        segments = np.append(np.bincount(words, minlength=len(masks.lengths)), stretches).astype(np.int64)
        symbols = int(decomposition.lengths[~with_word].sum())
        gaps, kept = int((expected + 1).sum()), int(expected.sum()) - deletions
        return cls(segments, insertions, gaps, deletions, kept, symbols)

    @classmethod
    def expected(cls, words: NDArray[np.int64], size: int, rate: float) -> Counts:
        """Return the expected choices of a sequence of this size at this rate of edits, for words of these lengths."""
        mean = max(float(words.mean()), 1.0) if len(words) else 1.0
        each = max(round(size / mean / max(len(words), 1)), 1)
        segments = np.append(np.full(len(words), each), 1).astype(np.int64)
        edited = round(rate * size)
        return cls(segments, edited, size + int(segments[:-1].sum()), edited, size, 2)

    @property
    def mean_uses(self) -> float:
        """Mean number of segments of a word."""
        return float(self.segments.sum()) / len(self.segments)

    def scaled(self, factor: float) -> Counts:
        """Return the counts of a sequence that is `factor` times as long."""
        segments = np.rint(self.segments * factor).astype(np.int64)
        others = (self.insertions, self.gaps, self.deletions, self.kept, self.stretch_symbols)
        return Counts(segments, *(round(count * factor) for count in others))

    def with_word(self) -> Counts:
        """Return the counts with a further word that has an average number of segments."""
        uses = max(round(self.mean_uses), 1)
        return replace(self, segments=np.insert(self.segments, len(self.segments) - 1, uses))

    def without_word(self, word: int) -> Counts:
        """Return the counts without a word, whose segments become stretches."""
        segments = np.delete(self.segments, word)
        segments[-1] += self.segments[word]
        return replace(self, segments=segments, stretch_symbols=self.stretch_symbols + 4 * int(self.segments[word]))

    def bits(self, insertion: float) -> tuple[float, float, float]:
        """Return the bits of indices, edits, and stretches without their symbols; `insertion`: bits of a symbol."""
        if len(self.segments) == 1:
            return 0.0, 0.0, 0.0
        edits = _adaptive((self.insertions, self.gaps)) + _adaptive((self.deletions, self.kept))
        edits += self.insertions * insertion
        stretches = int(self.segments[-1])
        return _adaptive(self.segments), edits, _adaptive((self.stretch_symbols - stretches, stretches))


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices for `decompose` at which the cheapest decomposition has the shortest description.

    An insertion costs i and a deletion d. A segment of l symbols with a word of n has (ρ + l − n) / 2 insertions and (ρ
    − l + n) / 2 deletions, which cost ρ (i + d) / 2 + (l − n) (i − d) / 2: a price for each edit, and one for each
    word. The term in l is omitted for segments and subtracted for stretches, because all l add up to the sequence.
    """

    words: NDArray[np.float64]  # (words,): Price of a segment with each word
    # edit, stretch: Price of an insertion or deletion, and of a stretch without a word.
    edit: float
    stretch: float
    symbols: NDArray[np.float64]  # (n,): Price of each symbol of the sequence in a stretch
    constant: float  # Difference between a decomposition's bits and its cost
    # each, end: Prices of each symbol of a word, and of its end; parts of `words`.
    each: float
    end: float

    @classmethod
    def of(
        cls, counts: Counts, lengths: NDArray[np.int64], literal_bits: NDArray[np.float64], insertion: float
    ) -> Prices:
        """Return the prices that follow from the choices of an earlier decomposition, for words of these lengths."""
        indices = -np.log2((counts.segments + 0.5) / (counts.segments.sum() + len(counts.segments) / 2))
        inserted, not_inserted = _choice(counts.insertions, counts.gaps)
        deleted, kept = _choice(counts.deletions, counts.kept)
        stretches = int(counts.segments[-1])
        more, last = _choice(counts.stretch_symbols - stretches, stretches)
        insert, delete = inserted + insertion, deleted - kept
        tilt = (insert - delete) / 2
        each = kept - tilt + not_inserted
        words = (indices[:-1] + lengths * each + not_inserted).astype(np.float64)
        stretch = float(indices[-1]) + last - more
        symbols, constant = literal_bits + more - tilt, tilt * len(literal_bits)
        return cls(words, (insert + delete) / 2, stretch, symbols, constant, each, not_inserted)


def description_length(sequence: AnySequence, model: Decomposition | Iterable[AnySequence]) -> DescriptionLength:
    """Return the description length of a sequence under a dictionary.

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
        Symbols are compared by value.
    model : Decomposition, or iterable of str, iterable of hashable or array
        A decomposition of this sequence is encoded as given; for words, the decomposition with the shortest description
        is searched. Without words, the sequence is encoded symbol by symbol.

    Returns
    -------
    DescriptionLength
        Bits by part.

    Raises
    ------
    DataError
        An empty word, or symbols that cannot be compared.
    ValueError
        A decomposition of a different sequence.
    """
    if not isinstance(model, Decomposition):
        return shortest_decomposition(encode(sequence, model))[1]
    given = encode(sequence)
    if given.decode(given.codes) != model.sequence.decode(model.sequence.codes):
        raise ValueError("`model` is a decomposition of a different sequence: decompose `sequence`")
    return encoded_length(model, SymbolCode.of(model.sequence))


def encoded_length(decomposition: Decomposition, code: SymbolCode, counts: Counts | None = None) -> DescriptionLength:
    """Return the description length of a decomposition; give `counts` to save counting its choices again."""
    encoded = decomposition.sequence
    literal_bits = code.literal_bits(encoded.codes)
    in_stretch = np.repeat(decomposition.words < 0, decomposition.lengths)
    counts = counts or Counts.of(decomposition, merging=code.is_collapsed)
    indices, edits, flags = counts.bits(code.insertion)
    return DescriptionLength(
        dictionary_bits(encoded.words, code), indices, edits, flags + float(literal_bits[in_stretch].sum())
    )


def dictionary_bits(words: Iterable[NDArray[np.int32]], code: SymbolCode, *, more: int = 0) -> float:
    """Return the bits of encoded words; `more` further words are counted but encoded elsewhere (`words_bits`)."""
    listed = list(words)
    count = len(listed) + more
    bits = float(2 * (count + 1).bit_length() - 1)  # Elias's γ
    if listed:
        differ = not any(has_equal_neighbours(word) for word in listed)
        lengths = np.array([len(word) for word in listed], np.int64)
        bits += float(words_bits(np.concatenate(listed), lengths, code, neighbours_differ=differ).sum())
    return bits + (code.is_collapsed and count > 0)


def words_bits(
    codes: NDArray[np.integer], lengths: NDArray[np.int64], code: SymbolCode, *, neighbours_differ: bool = True
) -> NDArray[np.float64]:
    """Return the bits of each of several concatenated words; with `neighbours_differ`, no symbol may follow itself."""
    starts = np.cumsum(lengths) - lengths
    literal_bits = code.literal_bits(codes, starts, neighbours_differ=neighbours_differ)
    _, digits = np.frexp(lengths)
    bits: NDArray[np.float64] = np.add.reduceat(literal_bits, starts) + (2 * digits - 1)
    return bits


def shortest_decomposition(
    encoded: Encoded, *, code: SymbolCode | None = None
) -> tuple[Decomposition, DescriptionLength]:
    """Return the decomposition with the shortest description over an encoded sequence's words, and its bits.

    The cost of a choice depends on its frequency; so the cheapest decomposition at the prices of the preceding one is
    computed repeatedly until the description becomes no shorter. The result is a local minimum. The search has three
    starts: some edits, almost none (only exact matches of words), and the paper's decomposition, which is never better
    than the result.
    """
    code = code or SymbolCode.of(encoded)
    size, count = len(encoded.codes), len(encoded.words)
    lengths = np.array([len(word) for word in encoded.words], np.int64)
    tries = [decomposition_from(encoded, code, Counts.expected(lengths, size, rate)) for rate in _FIRST_RATES]
    if count:
        paper = decompose_encoded(encoded, None, np.zeros(count), 1.0, math.inf, np.zeros(size))
        counts = Counts.of(paper, merging=code.is_collapsed)
        tries += [decomposition_from(encoded, code, counts), (paper, encoded_length(paper, code, counts))]
    return min(tries, key=lambda attempt: attempt[1].total)


def decomposition_from(
    encoded: Encoded, code: SymbolCode, counts: Counts, *, rounds: int = ROUNDS
) -> tuple[Decomposition, DescriptionLength]:
    """Decompose at the prices of the counts, and count again, until the description becomes no shorter."""
    lengths = np.array([len(word) for word in encoded.words], np.int64)
    literal_bits = code.literal_bits(encoded.codes)
    best: tuple[Decomposition, DescriptionLength] | None = None
    for _ in range(rounds):
        prices = Prices.of(counts, lengths, literal_bits, code.insertion)
        merged = -prices.each if code.is_collapsed else math.nan
        given = prices.words, prices.edit, prices.stretch, prices.symbols
        decomposition = decompose_encoded(encoded, None, *given, merged_price=merged)
        decomposition = replace(decomposition, cost=float(decomposition.edits))
        counts = Counts.of(decomposition, merging=code.is_collapsed)
        bits = encoded_length(decomposition, code, counts)
        if best is not None and bits.total >= best[1].total:
            break
        best = decomposition, bits
    assert best is not None
    return best


def _adaptive(counts: Iterable[int] | NDArray[np.int64]) -> float:
    """Return the bits of a series of choices, from the count of each possibility; their order does not matter."""
    listed = [int(count) for count in counts]
    half = len(listed) / 2
    nats = math.lgamma(sum(listed) + half) - math.lgamma(half)
    nats -= sum(math.lgamma(count + 0.5) - math.lgamma(0.5) for count in listed)
    return nats / math.log(2)


def _choice(yes: int, no: int) -> tuple[float, float]:
    """Return the bits of yes and of no in a choice, from the counts of both."""
    return -math.log2((yes + 0.5) / (yes + no + 1)), -math.log2((no + 0.5) / (yes + no + 1))
