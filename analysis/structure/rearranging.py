"""Other words that tell nearly the same: borders that move for several words at once, words in two, and two in one.

Changed by a symbol at a time, a word stays where it is when its neighbours would have to change with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from unperturbed.analysis.structure.lanes import Codes

__all__ = ["glued", "joint", "parted", "stripped", "widened"]

_BORDER = 3
"""Symbols that are taken over a border together."""
_PART = 3
"""Symbols of either part of a word."""

Words = tuple[Codes, ...]


def stripped(words: Words) -> Iterator[Words]:
    """Yield words without what several of them begin, or end, with."""
    for size in range(1, _BORDER + 1):
        for part, rest in ((slice(None, size), slice(size, None)), (slice(-size, None), slice(None, -size))):
            shared = Counter(word[part] for word in words if len(word) > size)
            for symbols in sorted(symbols for symbols, count in shared.items() if count > 1):
                yield tuple(word[rest] if word[part] == symbols and len(word) > size else word for word in words)


def widened(words: Words, letters: int) -> Iterator[Words]:
    """Yield words with a symbol more where several begin, or end, with the same."""
    for place in (0, -1):
        shared = Counter(word[place] for word in words)
        for border in sorted(symbol for symbol, count in shared.items() if count > 1):
            for more in (symbol for symbol in range(letters) if symbol != border):
                before, behind = ((more,), ()) if place == 0 else ((), (more,))
                yield tuple(before + word + behind if word[place] == border else word for word in words)


def parted(words: Words) -> Iterator[Words]:
    """Yield words with one of them in two; its second part is the last word."""
    for number, word in enumerate(words):
        for place in range(_PART, len(word) - _PART + 1):
            if word[place:] not in words:
                yield (*words[:number], word[:place], *words[number + 1 :], word[place:])


def glued(words: Words, pairs: Iterable[tuple[int, int]], *, is_collapsed: bool) -> Iterator[tuple[int, Words]]:
    """Yield words without one that becomes a part of all those that follow, or precede, it, and which one that is.

    `pairs` are words that follow each other often, by their numbers.
    """
    after: dict[int, list[int]] = {}
    before: dict[int, list[int]] = {}
    for first, second in pairs:
        if first != second:
            after.setdefault(first, []).append(second)
            before.setdefault(second, []).append(first)
    for number in range(len(words)):
        for others, is_first in ((after.get(number, []), True), (before.get(number, []), False)):
            if len(others) > 1:
                made = list(words)
                for other in others:
                    two = (words[number], words[other]) if is_first else (words[other], words[number])
                    made[other] = joint(*two, is_collapsed=is_collapsed)
                yield number, tuple(made[:number] + made[number + 1 :])


def joint(first: Codes, second: Codes, *, is_collapsed: bool) -> Codes:
    """Return two words as one; equal symbols at the border are one where runs are collapsed."""
    return first + second[1:] if is_collapsed and first[-1] == second[0] else first + second
