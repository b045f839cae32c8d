"""Symbols as numbers, indel distances between fragments, and classes of fragments by the nearest prototype.

The indel distance is the smallest number of insertions and deletions that turn one fragment into another: "Structural
analysis of measurement paths", section 2, eq. (1). The paper's transformation of T2 into T1 inserts symbols of T2, but
must mean symbols of T1. The number is the same in both directions: |s| + |t| − 2·LCS(s, t). Prototypes are words,
eq. (4), or medoids, the other kind that the paper names (section 1).
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

from unperturbed.common.wording import counted
from unperturbed.errors import DataError

Word: TypeAlias = str | tuple[Hashable, ...]
"""Word as returned to callers: text if the sequence is text, else a tuple of symbols."""


@runtime_checkable
class HasSymbols(Protocol):
    """Protocol of objects with symbols, such as a structural sequence."""

    @property
    def symbols(self) -> NDArray[np.int32]:
        """Class of each fragment: shape (n,)."""


AnySequence: TypeAlias = str | Iterable[Hashable] | NDArray[Any] | HasSymbols
"""Sequence of symbols: text, any hashable symbols, an array of shape (n,), or a `StructuralSequence`."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sequence and words, encoded over one alphabet."""

    codes: NDArray[np.int32]  # (n,): Index of each symbol in `alphabet`
    words: tuple[NDArray[np.int32], ...]  # (length,): The same for each word; no word is empty
    # The sequence's symbols in order of first occurrence, then those that occur only in words.
    alphabet: tuple[Hashable, ...]
    is_text: bool  # Whether the sequence was given as text; then words are returned as text

    def with_words(self, words: Iterable[Sequence[int]]) -> Encoded:
        """Return the sequence with different words, given as numbers of symbols."""
        return replace(self, words=tuple(np.array(word, np.int32) for word in words))

    def decode(self, codes: NDArray[np.int32]) -> Word:
        """Return numbers of symbols as a word: text if the sequence was text, else a tuple of symbols."""
        symbols = tuple(self.alphabet[code] for code in codes.tolist())
        if self.is_text and all(_is_character(symbol) for symbol in symbols):
            return "".join(str(symbol) for symbol in symbols)
        return symbols


def encode(sequence: AnySequence, words: Iterable[AnySequence] = ()) -> Encoded:
    """Number the symbols of a sequence and of words by value: 1 in a list equals 1 in an int array.

    Words can be text only if the sequence is text or all its symbols are single characters.
    """
    if isinstance(words, str):
        raise DataError(f"`words` is the single string {words!r}: give a list of words")
    numbers: dict[Hashable, int] = {}
    codes = number_symbols(sequence, numbers, "the sequence")
    of_characters = all(_is_character(symbol) for symbol in numbers)
    numbered = []
    for position, word in enumerate(words):
        name = f"word {position}"
        if isinstance(word, str) and not of_characters:
            raise DataError(
                f"{name} is the string {word!r}, but the sequence's symbols are not single characters: give a tuple of "
                "symbols"
            )
        numbered.append(number_symbols(word, numbers, name))
        if not len(numbered[-1]):
            raise DataError(f"{name} is empty: give one or more symbols")
    return Encoded(codes, tuple(numbered), tuple(numbers), isinstance(sequence, str))


def number_symbols(sequence: AnySequence, numbers: dict[Hashable, int], name: str) -> NDArray[np.int32]:
    """Return the numbers of a sequence's symbols, shape (n,); add new symbols to `numbers`. `name` is for errors."""
    given = sequence.symbols if isinstance(sequence, HasSymbols) else sequence
    if isinstance(given, np.ndarray) and given.ndim != 1:
        raise DataError(f"{name} has the shape {given.shape}: give a one-dimensional array, one symbol per element")
    # Use Python's own numbers, because words are returned with them.
    symbols: list[Hashable] = given.tolist() if isinstance(given, np.ndarray) else list(given)
    codes: list[int] = []
    try:
        for symbol in symbols:
            if isinstance(symbol, float) and math.isnan(symbol):
                raise DataError(
                    f"symbol {len(codes)} of {name} is NaN, which does not equal itself: give unknown elements a "
                    "symbol of their own"
                )
            codes.append(numbers.setdefault(symbol, len(numbers)))
    except TypeError as error:
        raise DataError(
            f"symbol {len(codes)} of {name} is {symbols[len(codes)]!r}: give a hashable symbol, such as a number, a "
            "string or a tuple"
        ) from error
    return np.array(codes, np.int32)


def _is_character(symbol: Hashable) -> bool:
    return isinstance(symbol, str) and len(symbol) == 1


Comparable: TypeAlias = bytes | list[int]
"""Numbers of symbols in a form that rapidfuzz accepts."""

_BYTE = 256
_WORTH_THREADS = 100_000
"""Minimum number of pairs for which threads are worth starting."""


def indel_distance(one: AnySequence, other: AnySequence) -> int:
    """Return the indel distance ρ of two sequences, eq. (1): the fewest edits that turn one into the other.

    Parameters
    ----------
    one, other : str, iterable of hashable, array of shape (n,) or StructuralSequence
        The sequences. If one is empty, ρ is the other's length.

    Returns
    -------
    int
        The number of insertions and deletions. It is a metric: symmetric, 0 only for equal sequences, and it satisfies
        the triangle inequality.

    Raises
    ------
    DataError
        A symbol that cannot be compared.
    """
    ((first, second),) = _comparable([[one, other]], ["sequence"])
    return Indel.distance(first, second)


def indel_distances(segments: Iterable[AnySequence], others: Iterable[AnySequence] | None = None) -> NDArray[np.int64]:
    """Return the indel distance ρ of each pair of segments, eq. (1).

    Parameters
    ----------
    segments : iterable of str, iterable of hashable, array of shape (length,) or StructuralSequence
        n segments. Symbols are compared by value. Segments may be empty.
    others : iterable of str, iterable of hashable, array of shape (length,) or StructuralSequence, optional
        m segments to compare with. By default, the segments themselves.

    Returns
    -------
    array of int64, shape (n, m)
        Numbers of insertions and deletions. The matrix is symmetric with a zero diagonal if segments are compared with
        themselves.

    Raises
    ------
    DataError
        A symbol that cannot be compared, or a single text instead of several segments.

    Notes
    -----
    Uses rapidfuzz's bit-parallel LCS, on all cores.
    """
    if isinstance(segments, str) or isinstance(others, str):
        name = "segments" if isinstance(segments, str) else "others"
        raise DataError(f"`{name}` is a single string: give a list of segments")
    groups = [list(segments)] if others is None else [list(segments), list(others)]
    compared = _comparable(groups, ["segment", "other"][: len(groups)])
    rows, columns = compared[0], compared[-1]
    furthest = sum(max(map(len, group), default=0) for group in (rows, columns))
    threads = -1 if len(rows) * len(columns) >= _WORTH_THREADS else 1
    distances = cdist(rows, columns, scorer=Indel.distance, dtype=np.min_scalar_type(furthest), workers=threads)
    return distances.astype(np.int64).reshape(len(rows), len(columns))


def square(distances: ArrayLike) -> NDArray[np.float64]:
    """Return distances as a square matrix of float64, shape (d, d); empty input gives an empty matrix."""
    matrix = np.asarray(distances, dtype=np.float64)
    if matrix.size == 0 and matrix.ndim < 3:
        return np.empty((0, 0))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(
            f"`distances` has the shape {matrix.shape}: give a square matrix with a row and a column for each segment"
        )
    return matrix


def comparable(codes: NDArray[np.int32], symbols: int) -> Comparable:
    """Return numbers below `symbols` in the form that rapidfuzz compares fastest, and exactly instead of by hashes."""
    return codes.astype(np.uint8).tobytes() if symbols <= _BYTE else codes.tolist()


def _comparable(groups: list[list[AnySequence]], names: list[str]) -> list[list[Comparable]]:
    """Return the sequences with each symbol replaced by its number in one alphabet, common to all sequences."""
    numbers: dict[Hashable, int] = {}
    coded = [
        [number_symbols(sequence, numbers, f"{name} {position}") for position, sequence in enumerate(group)]
        for group, name in zip(groups, names, strict=True)
    ]
    return [[comparable(codes, len(numbers)) for codes in group] for group in coded]


def nearest_prototype(distances: ArrayLike, members: ArrayLike) -> NDArray[np.int64]:
    """Assign each segment to the class of its nearest prototype, eq. (4).

    Parameters
    ----------
    distances : array of float, shape (d, d)
        Distances between all segments; see `indel_distances`.
    members : array of int, shape (k,)
        Rows of the prototypes, such as `Kernel.members`, without duplicates; at least one if there are segments.

    Returns
    -------
    array of int64, shape (d,)
        For each segment, the position of its prototype in `members`. Each prototype has its own class, even if another
        prototype is at distance 0. Among equally near prototypes, the first in `members` is chosen.

    Raises
    ------
    DataError
        A matrix that is not square, or members that are not rows of it.
    """
    matrix, chosen = square(distances), np.asarray(members, dtype=np.int64).reshape(-1)
    outside = chosen[(chosen < 0) | (chosen >= len(matrix))]
    if len(outside):
        raise DataError(
            f"`members` contains {outside[0]}, but `distances` has {counted(len(matrix), 'row')}, counted from 0"
        )
    if len(np.unique(chosen)) < len(chosen):
        raise DataError("`members` contains a row twice: give each row once")
    if not len(matrix):
        return np.empty(0, np.int64)
    if not len(chosen):
        raise DataError("`members` is empty: give the row of at least one prototype")
    labels: NDArray[np.int64] = matrix[:, chosen].argmin(axis=1)
    labels[chosen] = np.arange(len(chosen))
    return labels


def medoids(distances: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    """Return the row of each class's medoid, the segment that is on average nearest to its class (section 1).

    `labels`, shape (d,), are the result of `nearest_prototype`. Among several medoids, the lowest row is returned.
    """
    matrix, classes = square(distances), np.asarray(labels)
    if classes.shape != (len(matrix),):
        raise DataError(
            f"`labels` has the shape {classes.shape}: give one label for each of the {len(matrix)} segments"
        )
    if not len(matrix):
        return np.empty(0, np.int64)
    if classes.min() < 0:
        raise DataError(f"label {classes.min()} of segment {classes.argmin()} is negative: number classes from 0")
    medoid_rows = np.empty(int(classes.max()) + 1, np.int64)
    for number in range(len(medoid_rows)):
        rows = np.flatnonzero(classes == number)
        if not len(rows):
            raise DataError(f"class {number} has no segments: number classes from 0 without gaps")
        medoid_rows[number] = rows[matrix[np.ix_(rows, rows)].sum(axis=1).argmin()]
    return medoid_rows
