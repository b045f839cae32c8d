"""Partition of software metrics into few subsets, each certified to leave the program unperturbed.

Open problem 1 of Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 4.
"""

from unperturbed.analysis.partition.evaluation import Ahead, CandidateEvaluator, Judge, SearchSettings, Stop
from unperturbed.analysis.partition.judging import Reference, TraceJudge
from unperturbed.analysis.partition.plan import (
    CertifiedSubset,
    Cost,
    Forecast,
    Measurement,
    Plan,
    SubsetOutcome,
    UndecidedMetrics,
    UnmeasurableMetric,
)
from unperturbed.analysis.partition.plan_text import STAGES, plan_headline, plan_table
from unperturbed.analysis.partition.search import partition, search
from unperturbed.analysis.partition.strategies import STRATEGIES, Strategy, forecast
from unperturbed.common.faces import lazy_names

__all__ = [
    "STAGES",
    "STRATEGIES",
    "Ahead",
    "CandidateEvaluator",
    "CertifiedSubset",
    "Cost",
    "Forecast",
    "Judge",
    "Measurement",
    "Plan",
    "Reference",
    "SearchSettings",
    "Stop",
    "Strategy",
    "SubsetOutcome",
    "TraceJudge",
    "UndecidedMetrics",
    "UnmeasurableMetric",
    "forecast",
    "partition",
    "plan_headline",
    "plan_table",
    "search",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    former={
        "unperturbed.analysis.partition.evaluation": "Settings=SearchSettings",
        "unperturbed.analysis.partition.plan": "Outcome=SubsetOutcome",
    },
)
