"""Tests of conditional independence on tables of discrete and continuous variables.

Lemeire et al., "Causal analysis for performance modeling of computer programs", sections 6.1 and 7.1. A further test is
one class in a module of `tests`, or in another distribution.
"""

from unperturbed.analysis.causal.independence.base import IndependenceTest, Outcome
from unperturbed.analysis.causal.independence.methods import independence_tests
from unperturbed.analysis.causal.independence.methods.auto import CombinedTest
from unperturbed.analysis.causal.independence.methods.kernel import KernelTest
from unperturbed.analysis.causal.independence.methods.paper import PaperTest
from unperturbed.analysis.causal.independence.methods.regression import DETERMINED, RegressionTest

__all__ = [
    "DETERMINED",
    "CombinedTest",
    "IndependenceTest",
    "KernelTest",
    "Outcome",
    "PaperTest",
    "RegressionTest",
    "independence_tests",
]
