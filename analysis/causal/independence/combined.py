"""The default test: regression first, and kernel mutual information where regression sees nothing.

Most pairs of performance data that depend on each other do so in a way that regression sees at once. What it does not see
(a spread that depends on a parameter, a circle) would be taken for independence, so that verdict alone is checked by the
test that is free of form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unperturbed.analysis.causal.independence.kernel import KernelTest
from unperturbed.analysis.causal.independence.outcome import Outcome
from unperturbed.analysis.causal.independence.regression import RegressionTest

__all__ = ["CombinedTest"]


class CombinedTest:
    """Tests X ⊥ Z | S by two tests, whose p-values count twice so that together they err as seldom as one (Bonferroni).

    Parameters
    ----------
    regression : RegressionTest
    kernel : KernelTest
    alpha : float
        Independence is taken to hold where the p-value is above.
    """

    def __init__(self, regression: RegressionTest, kernel: KernelTest, *, alpha: float = 0.01) -> None:
        self.alpha = alpha
        self._regression = regression
        self._kernel = kernel

    def test(self, one: str, other: str, given: Sequence[str] = ()) -> Outcome:
        """Test whether two variables are independent when some others are held fixed."""
        first = self._regression.test(one, other, given)
        if first.determined or 2 * first.p_value <= self.alpha:
            return replace(first, p_value=min(1.0, 2 * first.p_value), independent=bool(first.determined))
        second = self._kernel.test(one, other, given)
        p_value = min(1.0, 2 * first.p_value, 2 * second.p_value)
        return Outcome(p_value > self.alpha, p_value, first.bits if first.p_value <= second.p_value else second.bits)
