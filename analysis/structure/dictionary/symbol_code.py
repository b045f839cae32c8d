"""Code symbols literally: by their frequency, and never as their own neighbour where runs are collapsed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.sequence.encoding import Encoded

_HALVINGS = 100
_MOST = 0.4999
"""Largest share of a symbol: where it is every second one, there is no such chain, but one that comes so near."""
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class SymbolCode:
    """Bits of literal symbols."""

    # (symbols,): They add up to 1. Where runs are collapsed, symbol c comes after another one, b, with the chance w_c
    # / (1 − w_b).
    weights: NDArray[np.float64]
    is_collapsed: bool  # No two neighbours of the sequence are equal

    @classmethod
    def of(cls, encoded: Encoded) -> SymbolCode:
        """Return the code by the counts of a sequence's symbols; symbols that only words have count half."""
        counts = np.bincount(encoded.codes, minlength=len(encoded.alphabet)).astype(np.float64)
        counts[counts == 0] = 0.5
        shares = counts / max(float(counts.sum()), 1.0)
        is_collapsed = not has_equal_neighbours(encoded.codes)
        return cls(_weights(shares) if is_collapsed else shares, is_collapsed)

    @property
    def insertion(self) -> float:
        """Bits of an inserted symbol: one of all, or of those that differ from the one before it."""
        return float(np.log2(max(len(self.weights) - self.is_collapsed, 1)))

    @cached_property
    def _alone(self) -> NDArray[np.float64]:
        """Bits of each symbol where it may follow itself."""
        return np.asarray(-np.log2(self.weights), np.float64)

    @cached_property
    def _after(self) -> NDArray[np.float64]:
        """Bits that the symbol after each takes more: it is another one."""
        return np.asarray(np.log2(np.maximum(1 - self.weights, _LEAST)), np.float64)

    def literal_bits(
        self, codes: NDArray[np.integer], starts: NDArray[np.int64] | None = None, *, as_collapsed: bool | None = None
    ) -> NDArray[np.float64]:
        """Return the bits of each symbol of a text, or of several that begin at `starts`: shape (n,).

        `as_collapsed` is whether the decoder may rely on neighbours that differ; as in the sequence by default.
        """
        bits: NDArray[np.float64] = self._alone[codes]
        if self.is_collapsed if as_collapsed is None else as_collapsed:
            after = self._after[codes[:-1]]
            after[(np.empty(0, np.int64) if starts is None else starts[1:]) - 1] = 0.0
            bits[1:] += after
        return bits


def has_equal_neighbours(codes: NDArray[np.int32]) -> bool:
    """Tell whether a symbol is followed by itself."""
    return bool((codes[1:] == codes[:-1]).any())


def _weights(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return w with w_c (1 − w_c) in the proportion of the shares: the chain above visits symbols as often.

    The chain is reversible, w_b (1 − w_b) · w_c / (1 − w_b) = w_b · w_c, so that its stationary shares are w (1 − w).
    Each w solves w (1 − w) = s · share, the smaller root, or for the most frequent symbol the larger one where that is
    needed; s is such that they add up to 1.
    """
    if len(shares) < 3:
        return np.full(len(shares), 1 / max(len(shares), 1))
    most = int(shares.argmax())
    if shares[most] > _MOST:
        shares = shares * ((1 - _MOST) / (1 - shares[most]))
        shares[most] = _MOST
    highest = 1 / (4 * float(shares[most]))
    larger = float(_roots(shares, highest, most, larger=False).sum()) < 1

    def beyond(scale: float) -> float:
        return float(_roots(shares, scale, most, larger=larger).sum()) - 1

    # With the smaller roots alone the sum grows with s; with one larger root it is above 1 for a small s and below for
    # the highest.
    low, high = 0.0, highest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if (beyond(middle) > 0) != larger:
            high = middle
        else:
            low = middle
    weights = _roots(shares, high if larger else low, most, larger=larger)
    normalised: NDArray[np.float64] = weights / weights.sum()
    return normalised


def _roots(shares: NDArray[np.float64], scale: float, most: int, *, larger: bool) -> NDArray[np.float64]:
    spread = np.sqrt(np.maximum(1 - 4 * scale * shares, 0.0))
    roots: NDArray[np.float64] = 2 * scale * shares / (1 + spread)
    if larger:
        roots[most] = (1 + spread[most]) / 2
    return roots
