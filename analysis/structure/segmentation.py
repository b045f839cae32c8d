"""Decompose a sequence over a dictionary: cut it into segments that are as near as possible to its words.

"Structural analysis of measurement paths", section 3, equations (6)–(8). The sum in (6) runs over the decomposition's
segments; the paper writes k, which is also the word.

A first decomposition comes from the sequence alone, by one reading of section 1: "a variable-size window, which
isolates the current fragment and evaluates the degree of its similarity to the preceding fragment in the sense of the
given metrics".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rapidfuzz.distance import Indel

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.structure.symbols import AnySequence, Comparable, Encoded, Word, comparable, encode
from unperturbed.common.result import Result
from unperturbed.common.table import Column, Table
from unperturbed.common.wording import counted

if TYPE_CHECKING:
    import polars as pl

_MODULE = "unperturbed.analysis.structure.kernels"
_WORDS = "const int32[::1], const uint64[:,::1], const int64[::1], const int64[::1], const int32[::1]"
_CHEAPEST = (f"{_WORDS}, const float64[::1], float64, int64, float64, const float64[::1], float64",)
_MASKS = ("const int32[::1], const int32[::1], const int64[::1]",)
_DISTANCES = (f"{_WORDS}, const int64[::1], const int64[::1], boolean",)


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition(Result):
    """A sequence as segments, each with its word.

    Attributes
    ----------
    cost : float
        J of (6), the number of insertions and deletions; where `decompose` was given prices, what it minimised.
    cuts : array of int64, shape (segments + 1,)
        Where segments begin, and the sequence's length.
    words : array of int64, shape (segments,)
        Index of each segment's word in `dictionary`; −1 for a stretch that no word describes.
    distances : array of int64, shape (segments,)
        ρ of (1) between each segment and its word, in insertions and deletions; the length of a stretch without a word.
    sequence : Encoded
        What was decomposed.
    """

    cost: float
    cuts: NDArray[np.int64]
    words: NDArray[np.int64]
    distances: NDArray[np.int64]
    sequence: Encoded = field(repr=False)

    def __len__(self) -> int:
        """Return the number of segments, d_opt."""
        return len(self.words)

    @cached_property
    def dictionary(self) -> tuple[Word, ...]:
        """The words, as they were given."""
        return tuple(self.sequence.decode(word) for word in self.sequence.words)

    @property
    def edits(self) -> int:
        """Insertions and deletions in all, the symbols without a word among them: J of (6) for these segments."""
        return int(self.distances.sum())

    @property
    def model(self) -> tuple[Word, ...]:
        """R(T) of (8): the words in their order, without stretches that have none."""
        return tuple(self.dictionary[word] for word in self.words.tolist() if word >= 0)

    @cached_property
    def segments(self) -> tuple[Word, ...]:
        """The sequence's segments."""
        codes = self.sequence.codes
        return tuple(self.sequence.decode(codes[first:last]) for first, last in pairwise(self.cuts.tolist()))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Symbols of each segment: shape (segments,)."""
        return np.diff(self.cuts)

    def headline(self) -> str:
        """Return the number of segments, of words and of edits."""
        segments, words = counted(len(self), "segment"), counted(len(self.dictionary), "word")
        return f"{segments} over {words}, {counted(self.edits, 'edit')}"

    def tables(self) -> Sequence[Table]:
        """Return the words: segments of each, and their insertions and deletions."""
        columns = [Column("word"), Column("times", "right"), Column("edits", "right")]
        names = [word if isinstance(word, str) else " ".join(map(str, word)) for word in self.dictionary]
        rows = []
        for number, name in [*enumerate(names), (-1, "no word")]:
            own = self.words == number
            if number >= 0 or own.any():
                rows.append([name, f"{own.sum():,}", f"{self.distances[own].sum():,}"])
        return [Table(columns, rows, "Words, and the segments that are near to them")]

    def to_frame(self) -> pl.DataFrame:
        """Return a row a segment: its first symbol, the one behind its last, its word (null for none), edits."""
        import polars as pl  # noqa: PLC0415  only this needs it

        word = [number if number >= 0 else None for number in self.words.tolist()]
        columns = {"first": self.cuts[:-1], "stop": self.cuts[1:], "word": word, "edits": self.distances}
        return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64))

    def to_dict(self) -> dict[str, Any]:
        """Return cost, words and segments as plain data, ready for JSON."""
        dictionary = [word if isinstance(word, str) else list(word) for word in self.dictionary]
        return {"cost": self.cost, "dictionary": dictionary, "segments": self.to_frame().to_dicts()}


class WordMasks(NamedTuple):
    """A sequence and words as bit masks: the first arguments of the compiled loops."""

    codes: NDArray[np.int32]  # (n,): The sequence's symbols, those of no word all alike
    # (all words' blocks, symbols): A bit for each symbol of a word, at the upper end of its blocks.
    bits: NDArray[np.uint64]
    blocks: NDArray[np.int64]  # (words + 1,): Rows where words begin
    # lengths, firsts: (words,): Of each word, and its first symbol.
    lengths: NDArray[np.int64]
    firsts: NDArray[np.int32]

    @classmethod
    def of(cls, codes: NDArray[np.int32], words: Sequence[NDArray[np.int32]]) -> WordMasks:
        """Return the masks of encoded words, none of them empty."""
        joined = np.concatenate([*words, np.zeros(0, np.int32)])
        lengths = np.array([len(word) for word in words], np.int64)
        return cls(*compiled(_MODULE, "word_masks", _MASKS)(codes, joined, lengths))

    def distances(
        self, cuts: NDArray[np.int64], words: NDArray[np.int64], *, merging: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return ρ between segments and their words, and which words lost their first symbol to the run before.

        Both have the shape (segments,). With `merging`, a lost symbol is not a deletion.
        """
        measure = compiled(_MODULE, "segment_distances", _DISTANCES)
        found: tuple[NDArray[np.int64], NDArray[np.bool_]] = measure(*self, cuts, words, merging)
        return found


def decompose(
    sequence: AnySequence,
    words: Iterable[AnySequence],
    *,
    longest: int | None = None,
    word_prices: ArrayLike | None = None,
    edit_price: float = 1.0,
    stretch_price: float | None = None,
    symbol_prices: ArrayLike = 0.0,
) -> Decomposition:
    """Cut a sequence into segments, none too long, whose distances to their nearest words add up to the least.

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
        Symbols are compared by value.
    words : iterable of str, iterable of hashable, array of shape (length,) or StructuralSequence
        The dictionary; none of them empty. They may be longer than the sequence.
    longest : int, optional
        Symbols of a segment. Twice the length of the longest word by default (section 3); at least 1.
    word_prices : array of float, shape (words,), optional
        Added for each segment with this word. 0 by default, which is the paper's J.
    edit_price : float, default 1.0
        Of an insertion or a deletion. 1 is the paper's.
    stretch_price : float, optional
        Of a stretch that no word describes. None by default: each segment has a word, as in the paper.
    symbol_prices : float or array of float, shape (n,), default 0.0
        Of a symbol in such a stretch.

    Returns
    -------
    Decomposition
        Of equal costs the one with the fewest segments, of these the one whose last segment is the longest, then the
        one before it, and so on; of equally near words the first. A word comes before a stretch without one. A sequence
        without symbols has no segments and costs 0. Without words nothing is described: one stretch over all, at an
        `edit_price` a symbol, since that many insertions make the sequence out of an empty model.

    Raises
    ------
    DataError
        An empty word, or symbols that cannot be compared.
    ValueError
        `longest` below 1, a price that is not finite, a negative `edit_price`, or another number of prices than of
        words or symbols.

    Notes
    -----
    Equations (6) and (7) of the paper, exactly: C(e) = min over 1 ≤ l ≤ longest and words k of C(e − l) + ρ(L[e − l :
    e], y_k), with C(0) = 0. The minimum is over decompositions without a segment of more than `longest` symbols; one
    with longer segments may cost less, as "xxxxxxab" over the word "ab" does: 6 in one segment, 8 in segments of up to
    4. O(n · longest · words) steps for words of up to 64 symbols (of each further 64 as many again), and O(n) memory.
    """
    encoded = encode(sequence, words)
    size, count = len(encoded.codes), len(encoded.words)
    if longest is not None and longest < 1:
        raise ValueError(f"longest is {longest}; give 1 symbol or more")
    if not (math.isfinite(edit_price) and edit_price >= 0):
        raise ValueError(f"edit_price is {edit_price}; give a finite price of 0 or more")
    prices = _prices(0.0 if word_prices is None else word_prices, count, "word_prices", "word")
    of_symbols = _prices(symbol_prices, size, "symbol_prices", "symbol of the sequence")
    stretch = math.inf if stretch_price is None else stretch_price
    if stretch_price is not None and not math.isfinite(stretch_price):
        raise ValueError(
            f"stretch_price is {stretch_price}; give a finite price, or None for no stretches without a word"
        )
    if not count and stretch_price is None:
        stretch, of_symbols = 0.0, np.full(size, float(edit_price))
    return decompose_encoded(encoded, longest, prices, float(edit_price), stretch, of_symbols)


def decompose_encoded(
    encoded: Encoded,
    longest: int | None,
    word_prices: NDArray[np.float64],
    edit_price: float,
    stretch_price: float,
    symbol_prices: NDArray[np.float64],
    *,
    merged_price: float = math.nan,
) -> Decomposition:
    """Decompose an encoded sequence at valid prices; a stretch price of infinity allows no stretch.

    With a `merged_price`, where the symbol before a segment is the first of its word, the segment is compared with the
    rest of the word, which lost it when runs were collapsed, and the price is added. `distances` are ρ of (1) still.
    """
    masks = WordMasks.of(encoded.codes, encoded.words)
    allowed = longest if longest is not None else 2 * int(masks.lengths.max(initial=0))
    search = compiled(_MODULE, "cheapest", _CHEAPEST)
    cost, cuts, words = search(*masks, word_prices, edit_price, allowed, stretch_price, symbol_prices, merged_price)
    return Decomposition(float(cost), cuts, words, masks.distances(cuts, words)[0], encoded)


def _prices(given: ArrayLike, count: int, name: str, of: str) -> NDArray[np.float64]:
    prices = np.asarray(given, np.float64)
    if prices.ndim and prices.shape != (count,):
        raise ValueError(
            f"{name} has the shape {prices.shape}; give one number, or one for each {of}: shape ({count},)"
        )
    if not np.isfinite(prices).all():
        raise ValueError(f"{name} has a price that is not finite: {prices[~np.isfinite(prices)].flat[0]}")
    return np.full(count, prices)


def first_decomposition(
    sequence: AnySequence, *, theta: float = 0.3, shortest: int = 3, longest: int = 12
) -> NDArray[np.int64]:
    """Cut a sequence where it stops being like what came just before.

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
        Symbols are compared by value.
    theta : float, default 0.3
        θ, a ratio from 0 to 1: fragments are alike where ρ / (sum of their lengths) does not exceed it. 0: only equal
        ones; 1: any.
    shortest, longest : int
        Symbols of a fragment; 1 ≤ shortest ≤ longest. The last one may be shorter.

    Returns
    -------
    array of int64, shape (fragments + 1,)
        Where fragments begin, and the sequence's length; [0] for an empty sequence.

    Raises
    ------
    DataError
        A symbol that cannot be compared.
    ValueError
        A θ or lengths outside their ranges.

    Notes
    -----
    The window grows from `shortest` to `longest` symbols and ends where it is most like the preceding fragment. Where
    that exceeds θ, the sequence has changed and a fragment without a forerunner begins: it ends where it is most like
    the window of its own length behind it. Where that exceeds θ too, nothing recurs here, and it ends after `shortest`
    symbols. Of equally good ends the first. O(n · longest³ / shortest) steps at most, most of them 64 at a time.
    """
    if not 0 <= theta <= 1:
        raise ValueError(f"theta is {theta}; give a ratio from 0 to 1")
    if not 1 <= shortest <= longest:
        raise ValueError(
            f"shortest is {shortest} and longest is {longest}; give 1 symbol or more for shortest, and at least as "
            "many for longest"
        )
    encoded = encode(sequence)
    symbols = comparable(encoded.codes, len(encoded.alphabet))
    cuts, preceding = [0], symbols[:0]
    while cuts[-1] < len(symbols):
        begin = cuts[-1]
        end = _most_alike(symbols, begin, preceding, theta, (shortest, longest))
        preceding = symbols[begin:end]
        cuts.append(end)
    return np.array(cuts, np.int64)


def _most_alike(symbols: Comparable, begin: int, preceding: Comparable, theta: float, lengths: tuple[int, int]) -> int:
    """Return the end of the fragment that begins here."""
    shortest, longest = lengths
    ends = range(begin + shortest, min(begin + longest, len(symbols)) + 1)
    to_preceding = [Indel.normalized_distance(symbols[begin:end], preceding) for end in ends]
    if begin and min(to_preceding, default=math.inf) <= theta:
        return ends[to_preceding.index(min(to_preceding))]
    to_following = [
        Indel.normalized_distance(symbols[begin:end], symbols[end : 2 * end - begin])
        for end in ends
        if 2 * end - begin <= len(symbols)
    ]
    if min(to_following, default=math.inf) <= theta:
        return ends[to_following.index(min(to_following))]
    return min(begin + shortest, len(symbols))
