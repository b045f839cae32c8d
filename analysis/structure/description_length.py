"""How many bits tell a sequence by a dictionary, which is what dictionaries are compared by.

The paper's J counts insertions and deletions alone, so that every segment its own word costs nothing. Here the words have to be told as well, and
which one each segment stands for: Rissanen's two-part description length, of a code that can be decoded. Both sides know the sequence's length, how
often each symbol occurs, and whether neighbours can be equal: the same for all dictionaries. Then are told, in this order,

*the dictionary*: the number of words and each word's length, by Elias's γ code; its symbols by `SymbolCode` (one bit tells whether words have equal
neighbours, where the sequence has none);

and for each segment until the sequence is complete

*its word*, or that it is a stretch without one (in a sequence without equal neighbours, a word that begins with the symbol before the segment has
lost it to that symbol's run, and the rest of it is what follows);
*its edits*: before each symbol of the word, and at its end, whether a symbol is inserted, as often as one is, and which one (all alike but the
one before it where neighbours differ; at the start all but the last of the alphabet, which is in order of appearance); for each symbol of the word
whether it is left out;
*or the stretch*: its symbols by `SymbolCode`, and after each whether another follows.

A choice costs what came before makes it cost: −log₂ of (times it was made + ½) / (choices so far + ½ · possibilities), after Krichevsky and Trofimov.
So no rate of errors has to be given or told. Without words the sequence is spelt out, and none of this is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.decomposition import Decomposition, Masks, cut
from unperturbed.analysis.structure.encoding import AnySequence, Encoded, encode
from unperturbed.analysis.structure.symbol_code import SymbolCode, has_equal_neighbours

__all__ = ["Counts", "DescriptionLength", "Prices", "description_length", "shortest_decomposition"]

_ROUNDS = 20
_FIRST_RATES = 0.05, 0.001
"""Of insertions and of deletions, before any were counted."""


@dataclass(frozen=True)
class DescriptionLength:
    """Bits of each part of a description.

    Attributes
    ----------
    dictionary : of the words.
    indices : of which word each segment stands for.
    edits : of what is inserted and left out.
    stretches : of what no word describes.
    """

    dictionary: float
    indices: float
    edits: float
    stretches: float

    @property
    def total(self) -> float:
        """All bits."""
        return self.dictionary + self.indices + self.edits + self.stretches


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each choice of a description is made.

    Attributes
    ----------
    units : int64, shape (words + 1,)
        Segments with each word, and stretches without one.
    insertions, gaps : times a symbol is inserted, and is not
    deletions, kept : of the words' symbols
    stretch_symbols : of stretches
    """

    units: NDArray[np.int64]
    insertions: int
    gaps: int
    deletions: int
    kept: int
    stretch_symbols: int

    @classmethod
    def of(cls, found: Decomposition, *, merging: bool) -> Counts:
        """Count the choices of a decomposition; `merging` words have lost their first symbol to the same one before."""
        masks = Masks.of(found.sequence.codes, found.sequence.words)
        distances, merged = masks.distances(found.cuts, found.words, merging=merging)
        told = found.words >= 0
        words, lengths, distances = found.words[told], found.lengths[told], distances[told]
        expected = masks.lengths[words] - merged[told]
        insertions = int(((distances + lengths - expected) // 2).sum())
        deletions = int(((distances - lengths + expected) // 2).sum())
        stretches = int((~told).sum())
        units = np.append(np.bincount(words, minlength=len(masks.lengths)), stretches).astype(np.int64)
        symbols = int(found.lengths[~told].sum())
        return cls(units, insertions, int((expected + 1).sum()), deletions, int(expected.sum()) - deletions, symbols)

    @classmethod
    def expected(cls, words: NDArray[np.int64], size: int, rate: float) -> Counts:
        """Return what a sequence would have at this rate of edits, for words of these lengths; stretches are rare."""
        mean = max(float(words.mean()), 1.0) if len(words) else 1.0
        each = max(round(size / mean / max(len(words), 1)), 1)
        units = np.append(np.full(len(words), each), 1).astype(np.int64)
        edited = round(rate * size)
        return cls(units, edited, size + int(units[:-1].sum()), edited, size, 2)

    @property
    def usual(self) -> float:
        """How often a word is used on the average."""
        return float(self.units.sum()) / len(self.units)

    def times(self, factor: float) -> Counts:
        """Return the choices of a sequence that is so many times as long."""
        units = np.rint(self.units * factor).astype(np.int64)
        others = (self.insertions, self.gaps, self.deletions, self.kept, self.stretch_symbols)
        return Counts(units, *(round(count * factor) for count in others))

    def with_word(self) -> Counts:
        """Return these choices with a further word, used as often as usual."""
        return replace(self, units=np.insert(self.units, len(self.units) - 1, max(round(self.usual), 1)))

    def without(self, word: int) -> Counts:
        """Return these choices without a word; what it stood for becomes stretches."""
        units = np.delete(self.units, word)
        units[-1] += self.units[word]
        return replace(self, units=units, stretch_symbols=self.stretch_symbols + 4 * int(self.units[word]))

    def bits(self, insertion: float) -> tuple[float, float, float]:
        """Return the bits of indices, edits and stretches, without a stretch's symbols; `insertion` are those of an inserted symbol."""
        if len(self.units) == 1:
            return 0.0, 0.0, 0.0
        edits = _adaptive((self.insertions, self.gaps)) + _adaptive((self.deletions, self.kept)) + self.insertions * insertion
        stretches = int(self.units[-1])
        return _adaptive(self.units), edits, _adaptive((self.stretch_symbols - stretches, stretches))


@dataclass(frozen=True, eq=False)
class Prices:
    """What a decomposition has to be charged so that the cheapest is the shortest to tell.

    Insertions cost i and deletions d. A segment of l symbols with a word of n has (ρ + l − n) / 2 of the former and (ρ − l + n) / 2 of the latter,
    together ρ (i + d) / 2 + (l − n) (i − d) / 2: a price for each edit, and one for each word; what depends on l is left out for segments and
    so taken off stretches, since all l add up to the sequence.

    Attributes
    ----------
    words : float64, shape (words,)
    edit, stretch : float
    symbols : float64, shape (n,)
    constant : float
        What a decomposition's cost lacks to its bits.
    each, end : float
        Of each symbol of a word, and of its end: parts of `words`.
    """

    words: NDArray[np.float64]
    edit: float
    stretch: float
    symbols: NDArray[np.float64]
    constant: float
    each: float
    end: float

    @classmethod
    def of(cls, counts: Counts, lengths: NDArray[np.int64], spelt: NDArray[np.float64], insertion: float) -> Prices:
        """Return prices by the choices of a former decomposition, for words of these lengths and symbols of these bits."""
        units = -np.log2((counts.units + 0.5) / (counts.units.sum() + len(counts.units) / 2))
        inserted, not_inserted = _choice(counts.insertions, counts.gaps)
        deleted, kept = _choice(counts.deletions, counts.kept)
        stretches = int(counts.units[-1])
        more, last = _choice(counts.stretch_symbols - stretches, stretches)
        insert, delete = inserted + insertion, deleted - kept
        tilt = (insert - delete) / 2
        each = kept - tilt + not_inserted
        words = (units[:-1] + lengths * each + not_inserted).astype(np.float64)
        stretch = float(units[-1]) + last - more
        return cls(words, (insert + delete) / 2, stretch, spelt + more - tilt, tilt * len(spelt), each, not_inserted)

    def word(self, lengths: NDArray[np.int64], unit: float) -> NDArray[np.float64]:
        """Return the prices of further words of these lengths that take so many bits to choose."""
        return (unit + lengths * self.each + self.end).astype(np.float64)


def description_length(sequence: AnySequence, model: Decomposition | Iterable[AnySequence]) -> DescriptionLength:
    """Return the bits that tell a sequence by a dictionary.

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
    model : Decomposition or iterable of words
        A decomposition of this sequence is told as it is; for words the shortest one is looked for. No words: the sequence spelt out.

    Returns
    -------
    DescriptionLength

    Raises
    ------
    DataError
        An empty word, or symbols that cannot be compared.
    ValueError
        A decomposition of another sequence.
    """
    if not isinstance(model, Decomposition):
        return shortest_decomposition(encode(sequence, model))[1]
    given = encode(sequence)
    if given.decode(given.codes) != model.sequence.decode(model.sequence.codes):
        raise ValueError("the decomposition is of another sequence; decompose this one")
    return told(model, SymbolCode.of(model.sequence))


def told(found: Decomposition, code: SymbolCode) -> DescriptionLength:
    """Return the bits of a decomposition."""
    encoded = found.sequence
    spelt = code.spelt(encoded.codes)
    in_stretch = np.repeat(found.words < 0, found.lengths)
    indices, edits, flags = Counts.of(found, merging=code.is_collapsed).bits(code.insertion)
    return DescriptionLength(dictionary_bits(encoded.words, code), indices, edits, flags + float(spelt[in_stretch].sum()))


def dictionary_bits(words: Iterable[NDArray[np.int32]], code: SymbolCode, *, more: int = 0) -> float:
    """Return the bits of encoded words; `more` are counted, but not told here (`words_bits`)."""
    listed = list(words)
    bits = float(_elias_gamma(len(listed) + more + 1))
    if not len(listed) + more:
        return bits
    if listed:
        differ = not any(has_equal_neighbours(word) for word in listed)
        lengths = np.array([len(word) for word in listed], np.int64)
        bits += float(words_bits(np.concatenate(listed), lengths, code, neighbours_differ=differ).sum())
    return bits + code.is_collapsed


def words_bits(
    codes: NDArray[np.integer], lengths: NDArray[np.int64], code: SymbolCode, *, neighbours_differ: bool = True
) -> NDArray[np.float64]:
    """Return the bits of words that stand one behind the other; where the sequence has no equal neighbours, words may have none either."""
    starts = np.cumsum(lengths) - lengths
    spelt = code.spelt(codes, starts, as_collapsed=code.is_collapsed and neighbours_differ)
    bits: NDArray[np.float64] = np.add.reduceat(spelt, starts) + [_elias_gamma(length) for length in lengths.tolist()]
    return bits


def shortest_decomposition(encoded: Encoded, *, code: SymbolCode | None = None) -> tuple[Decomposition, DescriptionLength]:
    """Return the decomposition over an encoded sequence's words that is told in the fewest bits, and these.

    What a choice costs depends on how often it is made; so the decomposition that is cheapest at the prices of the one before is looked for until
    none is shorter. That is a local minimum. It is looked for from three sides: with some edits, with hardly any (words only where they stand as
    they are), and from the paper's decomposition, which is never better than what is returned.
    """
    code = code or SymbolCode.of(encoded)
    size, count = len(encoded.codes), len(encoded.words)
    lengths = np.array([len(word) for word in encoded.words], np.int64)
    tries = [_settled(encoded, code, Counts.expected(lengths, size, rate)) for rate in _FIRST_RATES]
    if count:
        paper = cut(encoded, None, np.zeros(count), 1.0, math.inf, np.zeros(size))
        tries += [_settled(encoded, code, Counts.of(paper, merging=code.is_collapsed)), (paper, told(paper, code))]
    return min(tries, key=lambda found: found[1].total)


def _settled(encoded: Encoded, code: SymbolCode, counts: Counts) -> tuple[Decomposition, DescriptionLength]:
    lengths = np.array([len(word) for word in encoded.words], np.int64)
    spelt = code.spelt(encoded.codes)
    best: tuple[Decomposition, DescriptionLength] | None = None
    for _ in range(_ROUNDS):
        prices = Prices.of(counts, lengths, spelt, code.insertion)
        merged = -prices.each if code.is_collapsed else math.nan
        found = cut(encoded, None, prices.words, prices.edit, prices.stretch, prices.symbols, merged_price=merged)
        found = replace(found, cost=float(found.edits))
        bits = told(found, code)
        if best is not None and bits.total >= best[1].total:
            break
        best, counts = (found, bits), Counts.of(found, merging=code.is_collapsed)
    assert best is not None
    return best


def _adaptive(counts: Iterable[int] | NDArray[np.int64]) -> float:
    """Return the bits of all choices among some possibilities, made so often each, in any order."""
    listed = [int(count) for count in counts]
    half = len(listed) / 2
    nats = math.lgamma(sum(listed) + half) - math.lgamma(half)
    nats -= sum(math.lgamma(count + 0.5) - math.lgamma(0.5) for count in listed)
    return nats / math.log(2)


def _choice(yes: int, no: int) -> tuple[float, float]:
    """Return what either side of a choice costs when it has been made so often."""
    return -math.log2((yes + 0.5) / (yes + no + 1)), -math.log2((no + 0.5) / (yes + no + 1))


def _elias_gamma(number: int) -> int:
    """Return the bits of a whole number from 1 on."""
    return 2 * number.bit_length() - 1
