"""The default test: regression first, and kernel mutual information if regression finds no dependence.

Regression finds most dependences of performance data at once. What it cannot find (a variance that depends on a
parameter, a circle) it would report as independence, so only that verdict is confirmed by the nonparametric test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from unperturbed.analysis.causal.independence.base import IndependenceTest, Outcome
from unperturbed.analysis.causal.independence.methods.kernel import KernelTest
from unperturbed.analysis.causal.independence.methods.regression import RegressionTest
from unperturbed.analysis.causal.table.variables import Data


class CombinedTest(IndependenceTest):
    """Tests X ⊥ Z | S by two tests with doubled p-values, which keeps the joint error rate at alpha (Bonferroni)."""

    name: ClassVar[str] = "auto"

    def __init__(self, regression: RegressionTest, kernel: KernelTest, *, alpha: float = 0.01) -> None:
        self.alpha = alpha
        self._regression = regression
        self._kernel = kernel

    @classmethod
    def create(cls, data: Data, *, alpha: float, seed: int) -> CombinedTest:
        """Return the test on a table."""
        return cls(RegressionTest(data, alpha=alpha), KernelTest(data, alpha=alpha, seed=seed), alpha=alpha)

    @property
    def screening(self) -> IndependenceTest:
        """The regression test."""
        return self._regression

    def test(self, one: str, other: str, given: Sequence[str] = ()) -> Outcome:
        """Test whether two variables are independent given others."""
        first = self._regression.test(one, other, given)
        if first.determined or 2 * first.p_value <= self.alpha:
            return replace(first, p_value=min(1.0, 2 * first.p_value), independent=bool(first.determined))
        second = self._kernel.test(one, other, given)
        p_value = min(1.0, 2 * first.p_value, 2 * second.p_value)
        return Outcome(p_value > self.alpha, p_value, first.bits if first.p_value <= second.p_value else second.bits)
