"""Decomposition of a sequence over a dictionary: segments that are as near as possible to the dictionary's words.

"Structural analysis of measurement paths", section 3, equations (6)–(8). The sum in (6) is over the segments of the
decomposition; the paper writes k, which is also the index of a word.

A first decomposition needs no dictionary. It interprets section 1: "a variable-size window, which isolates the current
fragment and evaluates the degree of its similarity to the preceding fragment in the sense of the given metrics".
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
    """Decomposition of a sequence into segments, each with its word.

    Attributes
    ----------
    cost : float
        J of (6), the number of insertions and deletions; if `decompose` had prices, the minimised cost.
    cuts : array of int64, shape (segments + 1,)
        Start of each segment, and the sequence's length.
    words : array of int64, shape (segments,)
        Index of each segment's word in `dictionary`; −1 for a stretch that no word describes.
    distances : array of int64, shape (segments,)
        ρ of (1) between each segment and its word, in insertions and deletions; the length of a stretch without a word.
    sequence : Encoded
        The decomposed sequence, with the words.
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
        """The words that were given."""
        return tuple(self.sequence.decode(word) for word in self.sequence.words)

    @property
    def edits(self) -> int:
        """Total insertions and deletions, including all symbols without a word: J of (6) for these segments."""
        return int(self.distances.sum())

    @property
    def model(self) -> tuple[Word, ...]:
        """R(T) of (8): the segments' words in order; stretches without a word are left out."""
        return tuple(self.dictionary[word] for word in self.words.tolist() if word >= 0)

    @cached_property
    def segments(self) -> tuple[Word, ...]:
        """The segments as sequences of symbols."""
        codes = self.sequence.codes
        return tuple(self.sequence.decode(codes[first:last]) for first, last in pairwise(self.cuts.tolist()))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of symbols in each segment: shape (segments,)."""
        return np.diff(self.cuts)

    def headline(self) -> str:
        """Return one line with the numbers of segments, words and edits."""
        segments, words = counted(len(self), "segment"), counted(len(self.dictionary), "word")
        return f"{segments} over {words}, {counted(self.edits, 'edit')}"

    def tables(self) -> Sequence[Table]:
        """Return a table of the words: their numbers of segments, insertions and deletions."""
        columns = [Column("word"), Column("times", "right"), Column("edits", "right")]
        names = [word if isinstance(word, str) else " ".join(map(str, word)) for word in self.dictionary]
        rows = []
        for number, name in [*enumerate(names), (-1, "no word")]:
            own = self.words == number
            if number >= 0 or own.any():
                rows.append([name, f"{own.sum():,}", f"{self.distances[own].sum():,}"])
        return [Table(columns, rows, "Words, and the segments that are near them")]

    def to_frame(self) -> pl.DataFrame:
        """Return a data frame of segments: first symbol, end (exclusive), word (null for none), edits."""
        import polars as pl  # noqa: PLC0415  only this needs it

        word = [number if number >= 0 else None for number in self.words.tolist()]
        columns = {"first": self.cuts[:-1], "stop": self.cuts[1:], "word": word, "edits": self.distances}
        return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64))

    def to_dict(self) -> dict[str, Any]:
        """Return cost, words and segments as plain data, ready for JSON."""
        dictionary = [word if isinstance(word, str) else list(word) for word in self.dictionary]
        return {"cost": self.cost, "dictionary": dictionary, "segments": self.to_frame().to_dicts()}


class WordMasks(NamedTuple):
    """Sequence and words as bit masks: the first arguments of the compiled loops."""

    codes: NDArray[np.int32]  # (n,): The sequence's symbols; symbols that no word contains have the same number
    # (all words' blocks, symbols): A bit for each symbol of a word, at the upper end of its blocks.
    bits: NDArray[np.uint64]
    blocks: NDArray[np.int64]  # (words + 1,): First row of each word
    # lengths, firsts: (words,): Length and first symbol of each word.
    lengths: NDArray[np.int64]
    firsts: NDArray[np.int32]

    @classmethod
    def of(cls, codes: NDArray[np.int32], words: Sequence[NDArray[np.int32]]) -> WordMasks:
        """Return the masks of a sequence and of its words; no word may be empty."""
        joined = np.concatenate([*words, np.zeros(0, np.int32)])
        lengths = np.array([len(word) for word in words], np.int64)
        return cls(*compiled(_MODULE, "word_masks", _MASKS)(codes, joined, lengths))

    def distances(
        self, cuts: NDArray[np.int64], words: NDArray[np.int64], *, merging: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return ρ between segments and their words, and whether each word lost its first symbol to the run before.

        Both have the shape (segments,). With `merging`, a lost symbol is not a deletion.
        """
        measure = compiled(_MODULE, "segment_distances", _DISTANCES)
        measured: tuple[NDArray[np.int64], NDArray[np.bool_]] = measure(*self, cuts, words, merging)
        return measured


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
    """Cut a sequence into segments of limited length with the smallest total distance to their nearest words.

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
        Symbols are compared by value.
    words : iterable of str, iterable of hashable, array of shape (length,) or StructuralSequence
        The dictionary. Words must not be empty; they may be longer than the sequence.
    longest : int, optional
        Maximum number of symbols in a segment, at least 1. By default twice the length of the longest word (section 3).
    word_prices : array of float, shape (words,), optional
        Prices that are added for each segment with a word. The default, 0, gives the paper's J.
    edit_price : float, default 1.0
        Price of an insertion or a deletion. The paper's is 1.
    stretch_price : float, optional
        Price of a stretch that no word describes. By default, each segment has a word, as in the paper.
    symbol_prices : float or array of float, shape (n,), default 0.0
        Price of each symbol in a stretch without a word.

    Returns
    -------
    Decomposition
        The cheapest decomposition. Among equal costs, the one with the fewest segments is chosen, then the one with the
        longest last segment, then the longest one before it, and so on; among equally near words, the first word. Words
        are preferred to stretches. A sequence without symbols has no segments and costs 0. Without words, the result is
        one stretch that costs `edit_price` for each symbol, because insertions build it from an empty model.

    Raises
    ------
    DataError
        An empty word, or symbols that cannot be compared.
    ValueError
        `longest` below 1, a price that is not finite, a negative `edit_price`, or a number of prices that differs from
        the number of words or symbols.

    Notes
    -----
    Equations (6) and (7) of the paper, exactly: C(e) = min over 1 ≤ l ≤ longest and words k of C(e − l) + ρ(L[e − l :
    e], y_k), with C(0) = 0. The minimum is over decompositions whose segments have at most `longest` symbols. Longer
    segments may cost less: "xxxxxxab" over the word "ab" costs 6 as one segment, but 8 in segments of up to 4 symbols.
    O(n · longest · words) steps for words of up to 64 symbols (as many again for each further 64), and O(n) memory.
    """
    encoded = encode(sequence, words)
    size, count = len(encoded.codes), len(encoded.words)
    if longest is not None and longest < 1:
        raise ValueError(f"`longest` is {longest}: use 1 symbol or more")
    if not (math.isfinite(edit_price) and edit_price >= 0):
        raise ValueError(f"`edit_price` is {edit_price}: use a finite price of 0 or more")
    prices = _prices(0.0 if word_prices is None else word_prices, count, "word_prices", "word")
    of_symbols = _prices(symbol_prices, size, "symbol_prices", "symbol of the sequence")
    stretch = math.inf if stretch_price is None else stretch_price
    if stretch_price is not None and not math.isfinite(stretch_price):
        raise ValueError(
            f"`stretch_price` is {stretch_price}: use a finite price, or `None` to give every segment a word"
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
    """Decompose an encoded sequence at valid prices; an infinite stretch price excludes stretches without a word.

    With a `merged_price`, if the symbol before a segment equals the first symbol of its word, the word lost this symbol
    when runs were collapsed: the segment is compared with the rest of the word, and the price is added. `distances`
    remain ρ of (1).
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
            f"`{name}` has the shape {prices.shape}: give one number, or one for each {of}, shape ({count},)"
        )
    if not np.isfinite(prices).all():
        raise ValueError(f"`{name}` contains {prices[~np.isfinite(prices)].flat[0]}: use finite prices")
    return np.full(count, prices)


def first_decomposition(
    sequence: AnySequence, *, theta: float = 0.3, shortest: int = 3, longest: int = 12
) -> NDArray[np.int64]:
    """Cut a sequence into fragments at points where it stops being similar to the preceding fragment.

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
        Symbols are compared by value.
    theta : float, default 0.3
        θ, a ratio from 0 to 1: fragments are similar if ρ / (sum of their lengths) is at most θ. With 0, only equal
        fragments are similar; with 1, all are.
    shortest, longest : int
        Minimum and maximum number of symbols in a fragment; 1 ≤ shortest ≤ longest. The last fragment may be shorter.

    Returns
    -------
    array of int64, shape (fragments + 1,)
        Start of each fragment, and the sequence's length; [0] for an empty sequence.

    Raises
    ------
    DataError
        A symbol that cannot be compared.
    ValueError
        A θ or lengths outside their ranges.

    Notes
    -----
    The window grows from `shortest` to `longest` symbols and ends where it is most similar to the preceding fragment.
    If even this distance exceeds θ, the sequence has changed, and the window ends where it is most similar to the
    following window of the same length. If this distance exceeds θ too, nothing recurs here, and the window ends after
    `shortest` symbols. Among equally good ends, the first is chosen. O(n · longest³ / shortest) steps at most, usually
    64 at a time.
    """
    if not 0 <= theta <= 1:
        raise ValueError(f"`theta` is {theta}: use a ratio from 0 to 1")
    if not 1 <= shortest <= longest:
        raise ValueError(
            f"`shortest` is {shortest} and `longest` is {longest}: use 1 symbol or more for `shortest`, and at least "
            "as many for `longest`"
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
    """Return the end of the fragment that begins at `begin`."""
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
