"""Did measuring change what was measured? Inner and outer correlations against a baseline, and verdicts that can be trusted.

Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data".
"""

from unperturbed.analysis.perturbation.baseline import Baseline
from unperturbed.analysis.perturbation.decide import combine_checks, holm
from unperturbed.analysis.perturbation.outer import outer_correlations
from unperturbed.analysis.perturbation.overhead import overhead
from unperturbed.analysis.perturbation.runs import MINIMUM_INTERVALS
from unperturbed.analysis.perturbation.verdict import Change, Overhead, Verdict, VerdictName, combine

__all__ = [
    "MINIMUM_INTERVALS",
    "Baseline",
    "Change",
    "Overhead",
    "Verdict",
    "VerdictName",
    "combine",
    "combine_checks",
    "holm",
    "outer_correlations",
    "overhead",
]
