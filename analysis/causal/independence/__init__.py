"""Tests of conditional independence on tables of discrete and continuous variables.

Lemeire et al., "Causal analysis for performance modeling of computer programs", sections 6.1 and 7.1.
"""

from unperturbed.analysis.causal.independence.combined import CombinedTest
from unperturbed.analysis.causal.independence.kernel import KernelTest
from unperturbed.analysis.causal.independence.outcome import IndependenceTest, Outcome
from unperturbed.analysis.causal.independence.paper import PaperTest
from unperturbed.analysis.causal.independence.regression import DETERMINED, RegressionTest

__all__ = ["DETERMINED", "CombinedTest", "IndependenceTest", "KernelTest", "Outcome", "PaperTest", "RegressionTest"]
