"""Number the symbols of sequences and words: decomposition and dictionaries compute with numbers alone."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from unperturbed.errors import DataError

Word: TypeAlias = str | tuple[Hashable, ...]
"""A word as callers get it: text for a text, a tuple of symbols otherwise."""


@runtime_checkable
class HasSymbols(Protocol):
    """A structural sequence, as far as it is used here: it has symbols."""

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

    def decode(self, codes: NDArray[np.int32]) -> Word:
        """Return numbers of symbols as a word: text where the sequence was text, a tuple of symbols otherwise."""
        symbols = tuple(self.alphabet[code] for code in codes.tolist())
        if self.is_text and all(_is_character(symbol) for symbol in symbols):
            return "".join(str(symbol) for symbol in symbols)
        return symbols


def encode(sequence: AnySequence, words: Iterable[AnySequence] = ()) -> Encoded:
    """Number the symbols of a sequence and of words.

    `sequence`: str, iterable of hashable, array of shape (n,) or StructuralSequence. Symbols are compared by value: 1
    of a list is 1 of an int array.
    `words`: iterable of str, iterable of hashable, array of shape (length,) or StructuralSequence. Text only where the
    sequence is text or all its symbols are single characters.
    """
    if isinstance(words, str):
        raise DataError(f"words are {words!r}, one text; give a list of words")
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
            raise DataError(f"{name} is empty; a word has one symbol or more")
    return Encoded(codes, tuple(numbered), tuple(numbers), isinstance(sequence, str))


def number_symbols(sequence: AnySequence, numbers: dict[Hashable, int], name: str) -> NDArray[np.int32]:
    """Return numbers of a sequence's symbols, shape (n,); new ones join `numbers`. `name` is for error messages."""
    symbols = _symbols(sequence, name)
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
            f"symbol {len(codes)} of {name} is {symbols[len(codes)]!r}; a symbol is hashable, such as a number, a text "
            "or a tuple"
        ) from error
    return np.array(codes, np.int32)


def _symbols(sequence: AnySequence, name: str) -> list[Hashable]:
    given = sequence.symbols if isinstance(sequence, HasSymbols) else sequence
    if not isinstance(given, np.ndarray):
        return list(given)
    if given.ndim != 1:
        raise DataError(f"{name} has the shape {given.shape}; give one axis, one symbol per element")
    symbols: list[Hashable] = given.tolist()  # Python's own numbers: words return them
    return symbols


def _is_character(symbol: Hashable) -> bool:
    return isinstance(symbol, str) and len(symbol) == 1
