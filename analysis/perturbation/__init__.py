"""Did measuring change what was measured? Inner and outer correlations against a baseline, and verdicts that can be trusted.

Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data".
"""

from unperturbed.analysis.perturbation.baseline import MINIMUM_RUNS, Baseline
from unperturbed.analysis.perturbation.decide import combine_checks, holm
from unperturbed.analysis.perturbation.few import inner_of_few
from unperturbed.analysis.perturbation.layout import with_origins
from unperturbed.analysis.perturbation.outer import outer_correlations
from unperturbed.analysis.perturbation.overhead import overhead
from unperturbed.analysis.perturbation.runs import MINIMUM_INTERVALS
from unperturbed.analysis.perturbation.stability import Apart, Drift, Stability
from unperturbed.analysis.perturbation.verdict import Change, Overhead, Verdict, VerdictName, combine

__all__ = [
    "MINIMUM_INTERVALS",
    "MINIMUM_RUNS",
    "Apart",
    "Baseline",
    "Change",
    "Drift",
    "Overhead",
    "Stability",
    "Verdict",
    "VerdictName",
    "combine",
    "combine_checks",
    "holm",
    "inner_of_few",
    "outer_correlations",
    "overhead",
    "with_origins",
]
