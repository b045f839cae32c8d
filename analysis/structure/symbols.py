"""Symbols of sequences and words as numbers, indel distances of fragments, and their classes by the nearest prototype.

Indel distance is the fewest insertions and deletions that turn one fragment into another: "Structural analysis of
measurement paths", section 2, eq. (1). The paper's transformation of T2 into T1 inserts symbols of T2; what is meant is
T1's. The least number is the same in either direction: |s| + |t| − 2·LCS(s, t). Prototypes are words, eq. (4), or
medoids, the other kind that the paper names (section 1).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist

from unperturbed.errors import DataError

Word: TypeAlias = str | tuple[Hashable, ...]
"""A word as callers get it: text for a text, a tuple of symbols otherwise."""


@runtime_checkable
class HasSymbols(Protocol):
    """The part of a structural sequence that is used here: its symbols."""

    @property
    def symbols(self) -> NDArray[np.int32]:
        """Class of each fragment: shape (n,)."""


AnySequence: TypeAlias = str | Iterable[Hashable] | NDArray[Any] | HasSymbols
"""Text, any hashable symbols, an array of shape (n,), or a `StructuralSequence`."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A sequence and words over one alphabet."""

    codes: NDArray[np.int32]  # (n,): Number of each symbol in `alphabet`
    words: tuple[NDArray[np.int32], ...]  # (length,): The same for each word, none of them empty
    # The sequence's symbols in the order in which they appear, then those that only words have.
    alphabet: tuple[Hashable, ...]
    is_text: bool  # Whether the sequence came as text, so that words are returned as text

    def with_words(self, words: Iterable[Sequence[int]]) -> Encoded:
        """Return the sequence with other words, given as numbers of symbols."""
        return replace(self, words=tuple(np.array(word, np.int32) for word in words))

    def decode(self, codes: NDArray[np.int32]) -> Word:
        """Return numbers of symbols as a word: text where the sequence was text, a tuple of symbols otherwise."""
        symbols = tuple(self.alphabet[code] for code in codes.tolist())
        if self.is_text and all(_is_character(symbol) for symbol in symbols):
            return "".join(str(symbol) for symbol in symbols)
        return symbols


def encode(sequence: AnySequence, words: Iterable[AnySequence] = ()) -> Encoded:
    """Number the symbols of a sequence and of words by value: 1 of a list is 1 of an int array.

    Words are text only where the sequence is text or all its symbols are single characters.
    """
    if isinstance(words, str):
        raise DataError(f"words is {words!r}, a single text; give a list of words")
    numbers: dict[Hashable, int] = {}
    codes = number_symbols(sequence, numbers, "the sequence")
    of_characters = all(_is_character(symbol) for symbol in numbers)
    numbered = []
    for position, word in enumerate(words):
        name = f"word {position}"
        if isinstance(word, str) and not of_characters:
            raise DataError(
                f"{name} is the text {word!r}, but the sequence's symbols are not single characters; give a tuple of "
                "symbols"
            )
        numbered.append(number_symbols(word, numbers, name))
        if not len(numbered[-1]):
            raise DataError(f"{name} is empty; give one symbol or more")
    return Encoded(codes, tuple(numbered), tuple(numbers), isinstance(sequence, str))


def number_symbols(sequence: AnySequence, numbers: dict[Hashable, int], name: str) -> NDArray[np.int32]:
    """Return numbers of a sequence's symbols, shape (n,); new ones join `numbers`. `name` is for error messages."""
    given = sequence.symbols if isinstance(sequence, HasSymbols) else sequence
    if isinstance(given, np.ndarray) and given.ndim != 1:
        raise DataError(f"{name} has the shape {given.shape}; give a one-dimensional array, one symbol per element")
    # Python's own numbers: words return them.
    symbols: list[Hashable] = given.tolist() if isinstance(given, np.ndarray) else list(given)
    codes: list[int] = []
    try:
        for symbol in symbols:
            if isinstance(symbol, float) and math.isnan(symbol):
                raise DataError(
                    f"symbol {len(codes)} of {name} is NaN, which equals nothing; give unknown elements a class of "
                    "their own"
                )
            codes.append(numbers.setdefault(symbol, len(numbers)))
    except TypeError as error:
        raise DataError(
            f"symbol {len(codes)} of {name} is {symbols[len(codes)]!r}; give a hashable symbol, such as a number, a "
            "text or a tuple"
        ) from error
    return np.array(codes, np.int32)


def _is_character(symbol: Hashable) -> bool:
    return isinstance(symbol, str) and len(symbol) == 1


Comparable: TypeAlias = bytes | list[int]
"""Numbers of symbols as rapidfuzz takes them."""

_BYTE = 256
_WORTH_THREADS = 100_000
"""Pairs from which on starting threads pays."""


def indel_distance(one: AnySequence, other: AnySequence) -> int:
    """Return ρ of two sequences, eq. (1): fewest insertions and deletions that turn one into the other.

    Parameters
    ----------
    one, other : str, iterable of hashable, array of shape (n,) or StructuralSequence
        May be empty: ρ is then the other's length.

    Returns
    -------
    int
        A metric: symmetric, 0 only for equal sequences, and it keeps the triangle inequality.

    Raises
    ------
    DataError
        A symbol that cannot be compared.
    """
    ((first, second),) = _comparable([[one, other]], ["sequence"])
    return Indel.distance(first, second)


def indel_distances(segments: Iterable[AnySequence], others: Iterable[AnySequence] | None = None) -> NDArray[np.int64]:
    """Return ρ of each pair of segments, eq. (1).

    Parameters
    ----------
    segments : iterable of str, iterable of hashable, array of shape (length,) or StructuralSequence
        n segments. Symbols are compared by value. Segments may be empty.
    others : iterable of str, iterable of hashable, array of shape (length,) or StructuralSequence, optional
        m segments to compare with. The segments themselves by default.

    Returns
    -------
    array of int64, shape (n, m)
        Insertions and deletions. Symmetric with a zero diagonal where segments are compared with themselves.

    Raises
    ------
    DataError
        A symbol that cannot be compared, or one text in place of several segments.

    Notes
    -----
    Bit-parallel LCS of rapidfuzz, on all cores.
    """
    if isinstance(segments, str) or isinstance(others, str):
        raise DataError("segments is a single text; give a list of segments")
    groups = [list(segments)] if others is None else [list(segments), list(others)]
    compared = _comparable(groups, ["segment", "other"][: len(groups)])
    rows, columns = compared[0], compared[-1]
    furthest = sum(max(map(len, group), default=0) for group in (rows, columns))
    threads = -1 if len(rows) * len(columns) >= _WORTH_THREADS else 1
    found = cdist(rows, columns, scorer=Indel.distance, dtype=np.min_scalar_type(furthest), workers=threads)
    return found.astype(np.int64).reshape(len(rows), len(columns))


def square(distances: ArrayLike) -> NDArray[np.float64]:
    """Return distances as a square matrix of float64, shape (d, d); anything empty is a matrix without rows."""
    matrix = np.asarray(distances, dtype=np.float64)
    if matrix.size == 0 and matrix.ndim < 3:
        return np.empty((0, 0))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(
            f"distances have the shape {matrix.shape}; give a square matrix, a row and a column for each segment"
        )
    return matrix


def comparable(codes: NDArray[np.int32], symbols: int) -> Comparable:
    """Return numbers below `symbols` in the form that rapidfuzz compares fastest, and exactly: not by hashes."""
    return codes.astype(np.uint8).tobytes() if symbols <= _BYTE else codes.tolist()


def _comparable(groups: list[list[AnySequence]], names: list[str]) -> list[list[Comparable]]:
    """Return sequences as numbers over one alphabet."""
    numbers: dict[Hashable, int] = {}
    coded = [
        [number_symbols(sequence, numbers, f"{name} {position}") for position, sequence in enumerate(group)]
        for group, name in zip(groups, names, strict=True)
    ]
    return [[comparable(codes, len(numbers)) for codes in group] for group in coded]


def nearest_prototype(distances: ArrayLike, members: ArrayLike) -> NDArray[np.int64]:
    """Give each segment the class of its nearest prototype, eq. (4).

    Parameters
    ----------
    distances : array of float, shape (d, d)
        Of all segments; see `indel_distances`.
    members : array of int, shape (k,)
        Rows of the prototypes, such as `Kernel.members`; one or more where there are segments, none twice.

    Returns
    -------
    array of int64, shape (d,)
        For each segment the position of its prototype in `members`. Each prototype has its own class, also where
        another one is at distance 0. Of several nearest ones the first in `members`.

    Raises
    ------
    DataError
        A matrix that is not square, or members that are not rows of it.
    """
    matrix, chosen = square(distances), np.asarray(members, dtype=np.int64).reshape(-1)
    outside = chosen[(chosen < 0) | (chosen >= len(matrix))]
    if len(outside):
        raise DataError(f"member {outside[0]} is not a row of the distances, which has {len(matrix)}")
    if len(np.unique(chosen)) < len(chosen):
        raise DataError("a member is given twice; give each row once")
    if not len(matrix):
        return np.empty(0, np.int64)
    if not len(chosen):
        raise DataError("no members; give the row of at least one prototype")
    labels: NDArray[np.int64] = matrix[:, chosen].argmin(axis=1)
    labels[chosen] = np.arange(len(chosen))
    return labels


def medoids(distances: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    """Return the row of each class's medoid, the segment nearest to all others of its class on average (section 1).

    `labels` as of `nearest_prototype`, shape (d,). Of several medoids the lowest.
    """
    matrix, classes = square(distances), np.asarray(labels)
    if classes.shape != (len(matrix),):
        raise DataError(f"labels have the shape {classes.shape}; give one for each of the {len(matrix)} segments")
    if not len(matrix):
        return np.empty(0, np.int64)
    if classes.min() < 0:
        raise DataError(f"label {classes.min()} of segment {classes.argmin()} is below 0; number classes from 0")
    found = np.empty(int(classes.max()) + 1, np.int64)
    for number in range(len(found)):
        rows = np.flatnonzero(classes == number)
        if not len(rows):
            raise DataError(f"class {number} has no segments; number classes from 0 without gaps")
        found[number] = rows[matrix[np.ix_(rows, rows)].sum(axis=1).argmin()]
    return found
