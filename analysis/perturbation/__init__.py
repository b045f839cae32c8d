"""Verdicts on measurement perturbation: did measuring change the correlations of a program's metrics?

They compare inner and outer correlations of checked runs with those of a baseline.

Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data".
"""

from unperturbed.analysis.perturbation.baseline import MINIMUM_RUNS, Baseline
from unperturbed.analysis.perturbation.bootstrap import inner_by_bootstrap
from unperturbed.analysis.perturbation.comparable import MINIMUM_INTERVALS
from unperturbed.analysis.perturbation.correlation import fisher, from_fisher
from unperturbed.analysis.perturbation.decide import combine_checks
from unperturbed.analysis.perturbation.outer import outer_correlations
from unperturbed.analysis.perturbation.stability import Drift, OutlierRun, Stability
from unperturbed.analysis.perturbation.verdict import (
    OPEN,
    SEVERITY,
    SHOWN,
    Change,
    CheckName,
    Overhead,
    Verdict,
    VerdictName,
    combine,
    overhead,
    ranked_changes,
)
from unperturbed.analysis.perturbation.verdict_text import (
    VERDICT_MEANINGS,
    VERDICT_SIGNS,
    change_sentence,
    change_table,
    overhead_words,
    runs_advice,
    verdict_cell,
    verdict_headline,
    verdict_table,
)
from unperturbed.common.faces import lazy_names

__all__ = [
    "MINIMUM_INTERVALS",
    "MINIMUM_RUNS",
    "OPEN",
    "SEVERITY",
    "SHOWN",
    "VERDICT_MEANINGS",
    "VERDICT_SIGNS",
    "Baseline",
    "Change",
    "CheckName",
    "Drift",
    "OutlierRun",
    "Overhead",
    "Stability",
    "Verdict",
    "VerdictName",
    "change_sentence",
    "change_table",
    "combine",
    "combine_checks",
    "fisher",
    "from_fisher",
    "inner_by_bootstrap",
    "outer_correlations",
    "overhead",
    "overhead_words",
    "ranked_changes",
    "runs_advice",
    "verdict_cell",
    "verdict_headline",
    "verdict_table",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    former={
        "unperturbed.analysis.multiple_testing": "holm",
        "unperturbed.analysis.perturbation.correlation": "FloatArray",
        "unperturbed.analysis.perturbation.decide": "classify_change with_origins",
        "unperturbed.analysis.perturbation.verdict_text": "VERDICT_TONES decisive_change mean_rho",
        "unperturbed.analysis.perturbation.verdict": "MethodName OriginName change_weight",
    },
)
