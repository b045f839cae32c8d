"""The fast test of mixed variables: are the residuals of two variables, regressed on those held fixed, correlated?

X ⊥ Z | S where neither variable's curves (`features`) are correlated with the other variable, after each was regressed on S
cell by cell. Because both are residuals, what a regression misses of S does harm only where it misses the same for both
(Shah and Peters, "The hardness of conditional independence testing and the generalised covariance measure", 2020). Pillai's
trace of the canonical correlations has an F distribution whatever is discrete: for two continuous variables it is that of a
regression, for two discrete ones a test of association within strata.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from unperturbed.analysis.causal.independence.determined import Neighbours, neighbours_in
from unperturbed.analysis.causal.independence.features import Features, features_of
from unperturbed.analysis.causal.independence.outcome import Outcome
from unperturbed.analysis.causal.independence.residuals import HeldFixed, compiled_here
from unperturbed.analysis.causal.variables import Data
from unperturbed.analysis.compiling import compiled

__all__ = ["DETERMINED", "RegressionTest"]

Floats = NDArray[np.float64]

DETERMINED = 1e-6
"""A variable is determined by others when less than this share of its variance is left."""
_UNEVEN = 1e-3
"""The p-value below which the size of residuals is taken to depend on what is held fixed."""
_LEAST_SIZE = 0.2
"""Of the mean size: where residuals are expected to be smaller, they are taken to be so large."""
_PLAIN = 1e-4
"""Part of alpha below which a dependence is plain."""
_KEPT_BYTES = 400e6
_LEFT = 1e-7
"""A column of which less than this share of its variance is left has only rounding in it."""
_INDEPENDENT = 1e-8
"""The same of a direction among columns."""


@dataclass(frozen=True)
class _Association:
    p_value: float
    bits: float


_NONE = _Association(1.0, 0.0)


@dataclass(frozen=True)
class _Left:
    """What is left of a variable when others are held fixed.

    Attributes
    ----------
    scales : float64, shape (rows, scales)
        Residuals of the variable's scales.
    orthonormal_scales, orthonormal_curve : float64, shape (rows, at most columns)
        Orthonormal bases of the residuals of its scales, and of all that a dependence is looked for in.
    unexplained : float
    most_bits : float
        Entropy of a discrete variable, which is all that can be told of it.
    """

    scales: Floats
    orthonormal_scales: Floats
    orthonormal_curve: Floats
    unexplained: float
    most_bits: float

    @property
    def bytes(self) -> int:
        return self.scales.nbytes + self.orthonormal_scales.nbytes + self.orthonormal_curve.nbytes


class RegressionTest:
    """Tests X ⊥ Z | S by regression.

    Parameters
    ----------
    data : Data
    alpha : float
        Independence is taken to hold where the p-value is above.
    determined : float
        Share of the variance below which what is left of a variable, given others, is taken for nothing.
    """

    def __init__(self, data: Data, *, alpha: float = 0.01, determined: float = DETERMINED) -> None:
        self.alpha = alpha
        self._data = data
        self._determined = determined
        self._features: Mapping[str, Features] = features_of(data)
        self._outcomes: dict[tuple[frozenset[str], frozenset[str]], Outcome] = {}
        self._held: _Recent[frozenset[str], HeldFixed] = _Recent(_KEPT_BYTES / 4)
        self._left: _Recent[tuple[str, frozenset[str]], _Left] = _Recent(_KEPT_BYTES)
        self._neighbours: _Recent[frozenset[str], Neighbours] = _Recent(_KEPT_BYTES / 4)
        self._shares: dict[tuple[str, frozenset[str]], float] = {}

    def test(self, one: str, other: str, given: Sequence[str] = ()) -> Outcome:
        """Test whether two variables are independent when some others are held fixed."""
        held = frozenset(given)
        key = frozenset({one, other}), held
        if key not in self._outcomes:
            self._outcomes[key] = self._tested(min(one, other), max(one, other), held)
        return self._outcomes[key]

    def unexplained(self, name: str, given: Sequence[str]) -> float:
        """Return the share of a variable's variance that others leave: 0 where they determine it, about 1 where they say
        nothing."""
        key = name, frozenset(given)
        if key not in self._shares:
            self._shares[key] = self._left_of(*key).unexplained
        return self._shares[key]

    def determines(self, given: Sequence[str], name: str) -> bool:
        """Tell whether some variables determine another."""
        return bool(given) and self.unexplained(name, given) < self._determined

    def _tested(self, one: str, other: str, held: frozenset[str]) -> Outcome:
        first, second = self._left_of(one, held), self._left_of(other, held)
        for name, left in ((one, first), (other, second)):
            if left.unexplained < self._determined:
                return Outcome(True, 1.0, 0.0, name)
        fixed = self._fixed(held)
        spare = self._data.rows - fixed.parameters
        ways = [_association(first.orthonormal_curve, second.orthonormal_scales, spare)]
        if "continuous" in {self._data.kinds[one], self._data.kinds[other]}:
            ways.append(_association(first.orthonormal_scales, second.orthonormal_curve, spare))
        bits = min(max(way.bits for way in ways), first.most_bits, second.most_bits)
        # Where the dependence is plain already, nobody needs to know whether it also changes from cell to cell.
        if held and min(way.p_value for way in ways) > _PLAIN * self.alpha:
            ways += self._interactions(self._features[one], first.scales, second.orthonormal_scales, held, fixed)
        p_value = min(1.0, len(ways) * min(way.p_value for way in ways))
        return Outcome(p_value > self.alpha, p_value, float(bits))

    def _left_of(self, name: str, held: frozenset[str]) -> _Left:
        known = self._left.get((name, held))
        if known is not None:
            return known
        fixed, own = self._fixed(held), self._features[name]
        curve = fixed.residuals(own.curve)
        unexplained = self._share(own, curve[:, : own.scales.shape[1]], held, fixed)
        if held:
            curve = _evened(curve, fixed)
        scales = np.ascontiguousarray(curve[:, : own.scales.shape[1]])
        left = _Left(scales, _orthonormal(scales), _orthonormal(curve), unexplained, own.entropy_bits)
        self._left.keep((name, held), left)
        return left

    def _share(self, own: Features, scales: Floats, held: frozenset[str], fixed: HeldFixed) -> float:
        rows = self._data.rows
        spare = rows - fixed.parameters
        if not held or spare < 1 or not scales.shape[1]:
            return 1.0
        left = np.mean(scales**2, axis=0) * rows / spare
        share = float(left.max() if own.codes is not None else left.min())
        continuous = [self._features[name] for name in held if self._features[name].codes is None]
        if len(continuous) == 1:
            neighbours = self._neighbours.get(held)
            if neighbours is None:
                neighbours = neighbours_in(continuous[0], fixed.cell_of)
                self._neighbours.keep(held, neighbours)
            share = min(share, neighbours.unexplained(own))
        return share

    def _interactions(
        self, first: Features, scales: Floats, others: Floats, held: frozenset[str], fixed: HeldFixed
    ) -> list[_Association]:
        """Return whether the dependence is there in some cells, or at some values of what is held fixed, with opposite
        signs."""
        by = np.hstack([self._features[name].scales for name in sorted(held)])
        own = scales[:, :1] if first.codes is None else scales
        products = (own[:, :, None] * by[:, None, :]).reshape(len(by), -1)
        spare = self._data.rows - fixed.parameters
        if products.shape[1] > spare // 10:
            return []
        return [_association(_orthonormal(fixed.residuals(products)), others, spare)]

    def _fixed(self, held: frozenset[str]) -> HeldFixed:
        known = self._held.get(held)
        if known is None:
            known = HeldFixed(self._features, sorted(held), self._data.rows)
            self._held.keep(held, known)
        return known


class _Sized(Protocol):
    @property
    def bytes(self) -> int: ...


_Key = TypeVar("_Key")
_Value = TypeVar("_Value", bound=_Sized)


class _Recent(Generic[_Key, _Value]):
    """What was used last, as far as memory goes."""

    def __init__(self, most_bytes: float) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._known: OrderedDict[_Key, _Value] = OrderedDict()

    def get(self, key: _Key) -> _Value | None:
        """Return what is known of a key, as what was used last."""
        if key not in self._known:
            return None
        self._known.move_to_end(key)
        return self._known[key]

    def keep(self, key: _Key, value: _Value) -> None:
        """Keep a value, and forget what was used longest ago where memory asks for it."""
        self._known[key] = value
        self._bytes += value.bytes
        while self._bytes > self._most and len(self._known) > 1:
            self._bytes -= self._known.popitem(last=False)[1].bytes


def _evened(columns: Floats, fixed: HeldFixed) -> Floats:
    """Return residuals divided by how large they are expected to be, where that depends on what is held fixed.

    A function of what is held fixed neither makes nor hides a dependence, and rows with large residuals in both variables
    no longer decide alone.
    """
    fitted, spare = fixed.parameters - 1, len(columns) - fixed.parameters
    if fitted < 1 or spare < 1:
        return columns
    columns = np.ascontiguousarray(columns)
    level, apart = compiled_here("deviations")(columns)
    left = fixed.residuals(apart)
    total, rest = np.einsum("ij,ij->j", apart, apart), np.einsum("ij,ij->j", left, left)
    ratio = np.divide(total - rest, rest, out=np.zeros(len(total)), where=rest > 0) * spare / fitted
    uneven = fdtrc(fitted, spare, ratio) < _UNEVEN
    if not uneven.any():
        return columns
    evened: Floats = compiled_here("evened")(columns, level, apart - left, uneven, _LEAST_SIZE)
    return evened


def _association(one: Floats, other: Floats, spare: int) -> _Association:
    """Test two orthonormal bases of residuals for correlation by Pillai's trace.

    `spare` is the number of rows less the parameters that were fitted to each column.
    """
    rows, p, q = len(one), one.shape[1], other.shape[1]
    few, many = min(p, q), max(p, q)
    upper = spare - p - q + few  # the freedom of what is left of one after regression on the other
    if few == 0 or upper < few:  # with p + q > spare some of one is always some of the other
        return _NONE
    squares, inflation = _compiled("canonical")(one, other)
    # Where both scatter more at the same rows, products vary more than independence makes them.
    trace = float(squares.sum()) / max(1.0, inflation)
    statistic = upper / many * trace / (few - trace)
    bits = float(-0.5 * np.log2(1.0 - squares).sum()) - p * q / (2 * rows * np.log(2))
    return _Association(float(fdtrc(few * many, few * upper, statistic)), max(bits, 0.0))


def _orthonormal(columns: Floats) -> Floats:
    """Return an orthonormal basis of columns, without those of which only rounding is left."""
    basis: Floats = _compiled("orthonormal")(np.ascontiguousarray(columns), _LEFT, _INDEPENDENT)
    return basis


@cache
def _compiled(name: str) -> Any:
    package, columns = __name__.rpartition(".")[0], "float64[:,::1]"
    signature = {"canonical": f"{columns}, {columns}", "orthonormal": f"{columns}, float64, float64"}[name]
    return compiled(f"{package}.association_kernels", name, (signature,), called="the independence test")
