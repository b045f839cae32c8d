"""Verdicts on measurement perturbation: did measuring change how the metrics of a program move together?

Inner and outer correlations of checked runs are compared with those of a baseline.

Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data".
"""

from unperturbed.analysis.levels import LevelChange, level_changes, level_table
from unperturbed.analysis.multiple_testing import holm
from unperturbed.analysis.perturbation.baseline import MINIMUM_RUNS, Baseline
from unperturbed.analysis.perturbation.bootstrap import inner_by_bootstrap
from unperturbed.analysis.perturbation.comparable import MINIMUM_INTERVALS
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
from unperturbed.analysis.perturbation.decide import classify_change, combine_checks, with_origins
from unperturbed.analysis.perturbation.describe import (
    VERDICT_MEANINGS,
    VERDICT_SIGNS,
    VERDICT_TONES,
    change_sentence,
    change_table,
    decisive_change,
    mean_rho,
    overhead_words,
    runs_advice,
    verdict_cell,
    verdict_headline,
    verdict_table,
)
from unperturbed.analysis.perturbation.outer import outer_correlations
from unperturbed.analysis.perturbation.stability import Drift, OutlierRun, Stability
from unperturbed.analysis.perturbation.verdict import (
    OPEN,
    SEVERITY,
    SHOWN,
    Change,
    CheckName,
    MethodName,
    OriginName,
    Overhead,
    Verdict,
    VerdictName,
    change_weight,
    combine,
    overhead,
    ranked_changes,
)

__all__ = [
    "MINIMUM_INTERVALS",
    "MINIMUM_RUNS",
    "OPEN",
    "SEVERITY",
    "SHOWN",
    "VERDICT_MEANINGS",
    "VERDICT_SIGNS",
    "VERDICT_TONES",
    "Baseline",
    "Change",
    "CheckName",
    "Drift",
    "FloatArray",
    "LevelChange",
    "MethodName",
    "OriginName",
    "OutlierRun",
    "Overhead",
    "Stability",
    "Verdict",
    "VerdictName",
    "change_sentence",
    "change_table",
    "change_weight",
    "classify_change",
    "combine",
    "combine_checks",
    "decisive_change",
    "fisher",
    "from_fisher",
    "holm",
    "inner_by_bootstrap",
    "level_changes",
    "level_table",
    "mean_rho",
    "outer_correlations",
    "overhead",
    "overhead_words",
    "ranked_changes",
    "runs_advice",
    "verdict_cell",
    "verdict_headline",
    "verdict_table",
    "with_origins",
]
