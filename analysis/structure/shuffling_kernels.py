"""The compiled loops that lay out and swap symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba.extending import register_jitable

__all__ = ["lay_out", "swap"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compilable(function: _Function) -> _Function:
    marked: _Function = register_jitable(function)
    return marked


def lay_out(counts: Any, chances: Any) -> Any:
    """Return so many of each symbol without equal neighbours, drawn by uniform numbers from 0 to 1, int32. There has to be such an order."""
    left, rest, before = counts.copy(), counts.sum(), -1
    made = np.empty(rest, np.int32)
    for place in range(len(made)):
        most = left.argmax()
        # With one more of a symbol than of all others it has to come now, and in turn from here on.
        if 2 * left[most] > rest and most != before:
            symbol = most
        else:
            drawn = chances[place] * (rest - (left[before] if before >= 0 else 0))
            symbol = -1
            for one in range(len(left)):
                if one != before and left[one]:
                    symbol = one
                    drawn -= left[one]
                    if drawn < 0:
                        break
        made[place] = symbol
        left[symbol] -= 1
        rest -= 1
        before = symbol
    return made


@_compilable
def _differs(codes: Any, place: int) -> Any:
    """Tell whether a symbol differs from both neighbours."""
    return (place == 0 or codes[place - 1] != codes[place]) and (place == len(codes) - 1 or codes[place + 1] != codes[place])


def swap(codes: Any, places: Any) -> None:
    """Swap symbols pair by pair of places, shape (2, swaps), where that makes no neighbours equal."""
    for number in range(places.shape[1]):
        one, other = places[0, number], places[1, number]
        codes[one], codes[other] = codes[other], codes[one]
        if not (_differs(codes, one) and _differs(codes, other)):
            codes[one], codes[other] = codes[other], codes[one]
