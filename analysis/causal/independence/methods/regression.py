"""Fast independence test: correlation of the residuals of two variables regressed on the conditioning set.

X ⊥ Z | S holds if neither variable's curves (`residuals.Features`) are correlated with the other variable, after each
was regressed on S cell by cell. Because both are residuals, the misfit of a regression on S does harm only if both
variables have the same misfit (Shah and Peters, "The hardness of conditional independence testing and the generalised
covariance measure", 2020). Pillai's trace of the canonical correlations has an F distribution, discrete or not.

A regression on a few columns cannot find that n determines #op, or that #op determines n: its misfit looks like
unexplained variance. But neighbouring rows in n have nearly the same #op if, and only if, n determines #op.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.independence.loops import compiled_loop
from unperturbed.analysis.causal.independence.methods import IndependenceOutcome, IndependenceTest
from unperturbed.analysis.causal.independence.residuals import (
    MOST_ROWS,
    ConditioningSet,
    Features,
    Smoother,
    features_of,
)
from unperturbed.analysis.causal.table.variables import Data, Floats
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

Places = NDArray[np.int64]

_JUMPS = 0.05
"""Share of the rows at which a curve may jump."""


@dataclass(frozen=True)
class Neighbours:
    """Rows that are neighbours in a continuous variable, within cells."""

    order: Places  # (rows,): Rows sorted by cell and, in each cell, by the variable
    starts: Places  # (values,): Where the rows of each value begin in that order
    counts: Places  # (values,): Number of rows of each value
    inside: Places  # (any,): Values with a neighbour on both sides in their cell
    share: Floats  # (any, 1): Relative position of each of these between its neighbours, 0 to 1

    def unexplained(self, own: Features) -> float:
        """Return the share of a variable's variance that neighbours do not explain: the larger of two estimates.

        The first is the squared deviation of rows that share a value of the continuous variable from their mean. The
        second is the squared deviation of each value's mean from the line between the means before and after it, in
        ranks, so neither a few large values nor the scale dominates. For values without order, the mean square of the
        second is the variance times 1 + w² + (1 − w)², where w is the relative position between the two neighbours. The
        largest twentieth of the squares is left out to allow for jumps. Both estimates are needed: repeated runs of
        points drawn at random agree in all parameters, and yet n does not determine the datatype.
        """
        columns = own.scales if own.ranks is None else own.ranks[:, None]
        spread = np.mean((columns - columns.mean(axis=0)) ** 2, axis=0)
        if not len(spread) or spread.min() <= 0:
            return 1.0
        values = columns[self.order]
        means = np.add.reduceat(values, self.starts, axis=0) / self.counts[:, None]
        shares = [
            _least(squares) / spread
            for squares in (self._about_means(values, means), self._about_lines(means))
            if len(squares) >= 1 / _JUMPS
        ]
        return float(np.max(shares)) if shares else 1.0

    def _about_means(self, values: Floats, means: Floats) -> Floats:
        """Return squared deviations from the means of rows that share a value, corrected for the number of rows."""
        if len(self.starts) == len(self.order):
            return values[:0]
        many = np.repeat(self.counts, self.counts)
        shared = many > 1
        left = (values - np.repeat(means, self.counts, axis=0))[shared]
        return np.asarray(left**2 * (many / np.maximum(many - 1, 1))[shared, None])

    def _about_lines(self, means: Floats) -> Floats:
        """Return squared deviations of means from the line between both neighbours in the cell, scaled to variance."""
        at, share = self.inside, self.share
        apart = means[at] - (1 - share) * means[at - 1] - share * means[at + 1]
        return np.asarray(apart**2 / (1 + share**2 + (1 - share) ** 2))


def neighbours_in(by: Features, cells: NDArray[np.int64]) -> Neighbours:
    """Find neighbouring rows within each cell; `cells` has shape (rows,)."""
    assert by.ranks is not None
    order = np.lexsort((by.ranks, cells))
    at, cell = by.ranks[order], cells[order]
    starts = np.flatnonzero(np.concatenate(([True], (at[1:] != at[:-1]) | (cell[1:] != cell[:-1]))))
    counts = np.diff(np.append(starts, len(at)))
    at, cell = at[starts], cell[starts]
    inside = 1 + np.flatnonzero((cell[:-2] == cell[1:-1]) & (cell[1:-1] == cell[2:]))
    width = at[inside + 1] - at[inside - 1]
    share = np.divide(at[inside] - at[inside - 1], width, out=np.full(len(width), 0.5), where=width > 0)[:, None]
    return Neighbours(order, starts, counts, inside, share)


def _least(squares: Floats) -> Floats:
    """Return the mean of each column's squares, without the share `_JUMPS` with the largest squares."""
    return np.asarray(np.sort(squares, axis=0)[: int(np.ceil((1 - _JUMPS) * len(squares)))].mean(axis=0))


DETERMINED = 1e-6
"""A variable is determined by others when less than this share of its variance is left."""
_CERTAIN = 1e-4
"""A dependence counts as certain below this fraction of alpha."""
_KEPT_BYTES = 400e6
_LEFT = 1e-7
"""A column with less than this share of its variance left contains only rounding errors."""
_INDEPENDENT = 1e-8
"""The same limit for a direction in the space of the columns."""


@dataclass(frozen=True)
class _Association:
    p_value: float
    bits: float


_NONE = _Association(1.0, 0.0)


@dataclass(frozen=True)
class _Residuals:
    """Residuals of a variable given a conditioning set."""

    scales: Floats  # (rows, scales): Residuals of the variable's scales
    orthonormal_scales: Floats  # (rows, at most scales): Orthonormal basis of the scales
    orthonormal_curve: Floats  # (rows, at most columns): Orthonormal basis of the curve, which tests use
    unexplained: float  # Share of its variance that the conditioning set leaves
    most_bits: float  # Entropy of a discrete variable, an upper bound of its information


class RegressionTest(IndependenceTest):
    """Test of X ⊥ Z | S by regression.

    Parameters
    ----------
    data : Data
        The table.
    alpha : float
        Significance level: independence is accepted if the p-value is above it.
    determined : float
        Others determine a variable if they leave less than this share of its variance.
    """

    name: ClassVar[str] = "regression"

    def __init__(self, data: Data, *, alpha: float = 0.01, determined: float = DETERMINED) -> None:
        self.alpha = alpha
        self._data = data
        self._determined = determined
        self._features: Mapping[str, Features] = features_of(data)
        self._outcomes: dict[tuple[frozenset[str], frozenset[str]], IndependenceOutcome] = {}
        self._held: _Recent[frozenset[str], ConditioningSet] = _Recent(_KEPT_BYTES / 4)
        self._residuals: _Recent[tuple[str, frozenset[str]], _Residuals] = _Recent(_KEPT_BYTES)
        self._neighbours: _Recent[frozenset[str], Neighbours] = _Recent(_KEPT_BYTES / 4)
        self._shares: dict[tuple[str, frozenset[str]], float] = {}
        self._smoothers: _Recent[frozenset[str], Smoother] = _Recent(_KEPT_BYTES / 4)
        self._smoothed_rows = np.sort(np.random.default_rng(0).permutation(data.rows)[:MOST_ROWS])

    @classmethod
    def create(cls, data: Data, *, alpha: float, seed: int) -> RegressionTest:  # noqa: ARG003
        """Return the test for a table; nothing in it is random, so `seed` is ignored."""
        return cls(data, alpha=alpha)

    def test(self, one: str, other: str, given: Sequence[str] = ()) -> IndependenceOutcome:
        """Test whether two variables are independent when some others are held fixed."""
        held = frozenset(given)
        key = frozenset({one, other}), held
        if key not in self._outcomes:
            self._outcomes[key] = self._tested(min(one, other), max(one, other), held)
        return self._outcomes[key]

    def unexplained(self, name: str, given: Sequence[str]) -> float:
        """Return the share of a variable's variance that others do not explain: from 0 (determined) to about 1."""
        key = name, frozenset(given)
        if key not in self._shares:
            self._shares[key] = self._residuals_of(*key).unexplained
        return self._shares[key]

    def determines(self, given: Sequence[str], name: str) -> bool:
        """Return whether some variables determine another."""
        return bool(given) and self.unexplained(name, given) < self._determined

    def p_value_of_residuals(self, residuals: Floats, other: str, given: Sequence[str]) -> float:
        """Return the p-value of a dependence of a formula's residuals, shape (rows,), on another variable.

        The other variable is smoothed on the formula's parents, `given`; the p-value is 1 if these determine it.
        """
        rows = self._smoothed_rows
        smoother = self._smoothers.get(
            frozenset(given), lambda: Smoother([self._features[name] for name in given], rows)
        )
        columns, unexplained, freedom = smoother.residuals(self._features[other].scales[rows])
        columns = columns[:, unexplained > self._determined]
        left = residuals[rows] - residuals[rows].mean()
        return _association(_orthonormal(left[:, None]), _orthonormal(columns), int(freedom)).p_value

    def _tested(self, variable: str, other: str, held: frozenset[str]) -> IndependenceOutcome:
        first, second = self._residuals_of(variable, held), self._residuals_of(other, held)
        for name, left in ((variable, first), (other, second)):
            if left.unexplained < self._determined:
                return IndependenceOutcome(True, 1.0, 0.0, name)
        fixed = self._fixed(held)
        spare = self._data.rows - fixed.parameters
        ways = [_association(first.orthonormal_curve, second.orthonormal_scales, spare)]
        if "continuous" in {self._data.kinds[variable], self._data.kinds[other]}:
            ways.append(_association(first.orthonormal_scales, second.orthonormal_curve, spare))
        bits = min(max(way.bits for way in ways), first.most_bits, second.most_bits)
        # If the dependence is already certain, changes between cells need no further test.
        if held and min(way.p_value for way in ways) > _CERTAIN * self.alpha:
            ways += self._interactions(self._features[variable], first.scales, second.orthonormal_scales, held, fixed)
        p_value = min(1.0, len(ways) * min(way.p_value for way in ways))
        return IndependenceOutcome(p_value > self.alpha, p_value, float(bits))

    def _residuals_of(self, name: str, held: frozenset[str]) -> _Residuals:
        return self._residuals.get((name, held), lambda: self._new_residuals(name, held))

    def _new_residuals(self, name: str, held: frozenset[str]) -> _Residuals:
        fixed, own = self._fixed(held), self._features[name]
        curve, scales = fixed.residuals(own.curve), own.scales.shape[1]
        unexplained = self._unexplained_share(own, curve[:, :scales], held, fixed)
        if held:
            curve, scales = fixed.even_residuals(own)
        scales = np.ascontiguousarray(curve[:, :scales])
        return _Residuals(scales, _orthonormal(scales), _orthonormal(curve), unexplained, own.entropy_bits)

    def _unexplained_share(self, own: Features, scales: Floats, held: frozenset[str], fixed: ConditioningSet) -> float:
        rows = self._data.rows
        spare = rows - fixed.parameters
        if not held or spare < 1 or not scales.shape[1]:
            return 1.0
        left = np.mean(scales**2, axis=0) * rows / spare
        share = float(left.max() if own.codes is not None else left.min())
        continuous = [self._features[name] for name in held if self._features[name].codes is None]
        if len(continuous) == 1:
            neighbours = self._neighbours.get(held, lambda: neighbours_in(continuous[0], fixed.cell_of))
            share = min(share, neighbours.unexplained(own))
        return share

    def _interactions(
        self, first: Features, scales: Floats, others: Floats, held: frozenset[str], fixed: ConditioningSet
    ) -> list[_Association]:
        """Test for a dependence that differs in sign between cells, or between values of the conditioning set."""
        by = np.hstack([self._features[name].scales for name in sorted(held)])
        own = scales[:, :1] if first.codes is None else scales
        products = (own[:, :, None] * by[:, None, :]).reshape(len(by), -1)
        spare = self._data.rows - fixed.parameters
        if products.shape[1] > spare // 10:
            return []
        return [_association(_orthonormal(fixed.residuals(products)), others, spare)]

    def _fixed(self, held: frozenset[str]) -> ConditioningSet:
        return self._held.get(held, lambda: ConditioningSet(self._features, sorted(held), self._data.rows))


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Recent(Generic[_Key, _Value]):
    """Cache of objects with arrays; above a total size, the cache drops the least recently used objects."""

    def __init__(self, most_bytes: float) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._known: OrderedDict[_Key, _Value] = OrderedDict()

    def get(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """Return the value of a key; make it if it is not in the cache."""
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        value = self._known[key] = make()
        self._bytes += _bytes_of(value)
        while self._bytes > self._most and len(self._known) > 1:
            self._bytes -= _bytes_of(self._known.popitem(last=False)[1])
        return value


def _bytes_of(value: object) -> int:
    return sum(part.nbytes for part in vars(value).values() if isinstance(part, np.ndarray))


def _association(basis: Floats, other: Floats, spare: int) -> _Association:
    """Test two orthonormal bases of residuals by Pillai's trace; `spare` is the number of rows minus parameters."""
    rows, p, q = len(basis), basis.shape[1], other.shape[1]
    few, many = min(p, q), max(p, q)
    upper = spare - p - q + few  # residual degrees of freedom after regression of one on the other
    if few == 0 or upper < few:  # with p + q > spare the two bases always overlap
        return _NONE
    squares, inflation = compiled_loop("canonical")(basis, other)
    # If both scatter more at the same rows, products vary more than under independence.
    trace = float(squares.sum()) / max(1.0, inflation)
    statistic = upper / many * trace / (few - trace)
    bits = float(-0.5 * np.log2(1.0 - squares).sum()) - p * q / (2 * rows * np.log(2))
    return _Association(float(special.fdtrc(few * many, few * upper, statistic)), max(bits, 0.0))


def _orthonormal(columns: Floats) -> Floats:
    """Return an orthonormal basis of columns, without columns that contain only rounding errors."""
    basis: Floats = compiled_loop("orthonormal")(np.ascontiguousarray(columns), _LEFT, _INDEPENDENT)
    return basis
