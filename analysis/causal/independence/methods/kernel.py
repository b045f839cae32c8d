"""Nonparametric test by kernel mutual information and local permutations, and the default test, which uses it.

The paper's measure (sections 6.1 and 7.1) without its constants: bandwidths follow Silverman's rule, and the threshold
is replaced by the distribution of the measure when X is exchanged between rows that are similar in S (Runge,
"Conditional independence testing based on a nearest-neighbor estimator of conditional mutual information", 2018).
Continuous X and Z enter as residuals of their regressions on S. This does not change I(X; Z | S), which holds S fixed,
and it removes almost all error from exchanging rows that are only nearly equal in S.

The default test runs the regression test first, which finds most dependences quickly. The regression test reports
dependences that it cannot find (a variance that depends on a parameter, a circle) as independence, so the kernel test
confirms only that verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.independence.loops import compiled_loop
from unperturbed.analysis.causal.independence.methods import IndependenceOutcome, IndependenceTest
from unperturbed.analysis.causal.independence.methods.regression import RegressionTest
from unperturbed.analysis.causal.independence.residuals import ConditioningSet, Features, features_of, normal_scores
from unperturbed.analysis.causal.table.variables import Data, Floats

Kernel = NDArray[np.float32]

_ALIKE = 8
"""Minimum number of rows in a group whose rows are exchanged; groups have fewer than twice as many."""
_LEAST_FREEDOM = 0.05
_ROWS_A_PARAMETER = 20
"""Rows per parameter: with fewer, residuals of both variables look alike, as the same rows are influential."""
_ENOUGH_GREATER = 3
"""After this many permutations reach the measured value, it is not significant (Besag and Clifford 1991)."""


class CombinedTest(IndependenceTest):
    """Test of X ⊥ Z | S by two tests with doubled p-values, which keep the joint error rate at alpha (Bonferroni)."""

    name: ClassVar[str] = "auto"

    def __init__(self, regression: RegressionTest, kernel: KernelTest, *, alpha: float = 0.01) -> None:
        self.alpha = alpha
        self._regression = regression
        self._kernel = kernel

    @classmethod
    def create(cls, data: Data, *, alpha: float, seed: int) -> CombinedTest:
        """Return the test for a table."""
        return cls(RegressionTest(data, alpha=alpha), KernelTest(data, alpha=alpha, seed=seed), alpha=alpha)

    @property
    def screening(self) -> IndependenceTest:
        """The regression test."""
        return self._regression

    def test(self, one: str, other: str, given: Sequence[str] = ()) -> IndependenceOutcome:
        """Test whether two variables are independent given others."""
        first = self._regression.test(one, other, given)
        if first.determined or 2 * first.p_value <= self.alpha:
            return replace(first, p_value=min(1.0, 2 * first.p_value), independent=bool(first.determined))
        second = self._kernel.test(one, other, given)
        p_value = min(1.0, 2 * first.p_value, 2 * second.p_value)
        return IndependenceOutcome(
            p_value > self.alpha, p_value, first.bits if first.p_value <= second.p_value else second.bits
        )


class KernelTest(IndependenceTest):
    """Test of X ⊥ Z | S by kernel mutual information and local permutations.

    From a longer table, `most_rows` rows are drawn with the seed: time and memory grow with the square of the rows.
    """

    name: ClassVar[str] = "kernel"

    def __init__(
        self, data: Data, *, alpha: float = 0.01, permutations: int = 199, most_rows: int = 1000, seed: int = 0
    ) -> None:
        self.alpha = alpha
        self._permutations = permutations
        self._seed = seed
        if data.rows > most_rows:
            data = data.take(np.sort(np.random.default_rng(seed).choice(data.rows, most_rows, replace=False)))
        self._rows = data.rows
        self._places = {name: place for place, name in enumerate(data.names)}
        self._features: Mapping[str, Features] = features_of(data)
        self._known: dict[tuple[frozenset[str], frozenset[str]], IndependenceOutcome] = {}

    def test(self, one: str, other: str, given: Sequence[str] = ()) -> IndependenceOutcome:
        """Test whether two variables are independent when some others are held fixed."""
        key = frozenset((one, other)), frozenset(given)
        if key not in self._known:
            self._known[key] = self._tested(min(one, other), max(one, other), tuple(sorted(given)))
        return self._known[key]

    def _tested(self, variable: str, other: str, given: tuple[str, ...]) -> IndependenceOutcome:
        fixed = ConditioningSet(self._features, given, self._rows, rows_a_parameter=_ROWS_A_PARAMETER)
        held = [self._features[name] for name in given]
        curves = [normal_scores(feature.scales[:, 0]) for feature in held if feature.codes is None]
        first, second = (self._residual(name, fixed) for name in (variable, other))
        dimensions = len(curves) + sum(part.ndim == 1 for part in (first, second))
        width = (4 / (dimensions + 2) / self._rows) ** (1 / (dimensions + 4))
        own, across = self._kernel(variable, first, width), self._kernel(other, second, width)
        cells = fixed.cell_of
        by = (cells[:, None] == cells[None, :]).astype(np.float32) if fixed.cells > 1 else np.ones_like(own)
        for curve in curves:
            _gaussian(curve, width, by)
        # The same test has the same seed, whatever was tested before.
        random = np.random.default_rng(
            [
                self._seed,
                *sorted(self._places[name] for name in (variable, other)),
                *(self._places[name] for name in given),
            ]
        )
        shuffled = _Shuffled(cells, curves, random)
        inform = compiled_loop("information_of_permutation")
        measured = inform(own, across, by, np.arange(self._rows))
        greater, made = 0, 0
        null = 0.0
        while made < self._permutations and greater < _ENOUGH_GREATER:
            value = inform(own, across, by, shuffled.order())
            made += 1
            null += value
            greater += value >= measured
        # If stopped early, the p-value is greater/made; otherwise the measured order counts as one permutation.
        p_value = greater / made if greater >= _ENOUGH_GREATER else (greater + 1) / (made + 1)
        return IndependenceOutcome(
            p_value > self.alpha, float(p_value), max(0.0, float(measured - null / made) / self._rows)
        )

    def _residual(self, name: str, fixed: ConditioningSet) -> NDArray[Any]:
        feature = self._features[name]
        if feature.codes is not None:
            return feature.codes[:, None]
        # Rows that the regression follows closely have small residuals in both variables, which is not a dependence.
        return normal_scores(
            fixed.even_residuals(feature)[0][:, 0] / np.sqrt(np.maximum(fixed.residual_variances(), _LEAST_FREEDOM))
        )

    def _kernel(self, name: str, values: NDArray[Any], width: float) -> Kernel:
        if self._features[name].codes is None:
            return _gaussian(values, width)
        same: Kernel = (values == values.T).astype(np.float32)
        return same


class _Shuffled:
    """Random row orders that exchange only rows with similar values of the conditioning set."""

    def __init__(self, cells: NDArray[np.int64], curves: Sequence[Floats], random: np.random.Generator) -> None:
        self._random = random
        self._group = cells.copy()
        if curves:
            points = np.array(curves).T
            for cell in range(int(cells.max()) + 1):
                _split(points, np.flatnonzero(cells == cell), self._group)
        self._place = np.argsort(self._group, kind="stable")
        self._order = np.empty(len(cells), np.int64)

    def order(self) -> NDArray[np.int64]:
        """Return a new random order; all calls return the same array."""
        self._order[self._place] = np.lexsort((self._random.random(len(self._order)), self._group))
        return self._order


def _split(points: Floats, rows: NDArray[np.intp], group: NDArray[np.int64]) -> None:
    """Number groups of neighbouring rows: halve the rows along the widest direction until groups are small."""
    if len(rows) < 2 * _ALIKE:
        return
    widest = int(np.argmax(np.ptp(points[rows], axis=0)))
    rows = rows[np.argsort(points[rows, widest], kind="stable")]
    half = len(rows) // 2
    group[rows[half:]] = group.max() + 1
    _split(points, rows[:half], group)
    _split(points, rows[half:], group)


def _gaussian(values: Floats, width: float, into: Kernel | None = None) -> Kernel:
    into = np.ones((len(values), len(values)), np.float32) if into is None else into
    compiled_loop("gaussian")(values, width, into)
    return into
