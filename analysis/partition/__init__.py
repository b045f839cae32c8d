"""Which metrics can be measured together: a partition of them into few subsets, each certified to leave the program unperturbed.

Open problem 1 of Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 4.
"""

from unperturbed.analysis.partition.bench import Bench, Measurement
from unperturbed.analysis.partition.forecast import Forecast, forecast
from unperturbed.analysis.partition.judging import Reference, TraceJudge
from unperturbed.analysis.partition.limits import Settings, Stop
from unperturbed.analysis.partition.outcome import Cost, Judge, Outcome
from unperturbed.analysis.partition.plan import CertifiedSubset, Plan, UndecidedMetrics, UnmeasurableMetric
from unperturbed.analysis.partition.search import search
from unperturbed.analysis.partition.strategies import STRATEGIES, Strategy
from unperturbed.analysis.partition.traces import partition

__all__ = [
    "STRATEGIES",
    "Bench",
    "CertifiedSubset",
    "Cost",
    "Forecast",
    "Judge",
    "Measurement",
    "Outcome",
    "Plan",
    "Reference",
    "Settings",
    "Stop",
    "Strategy",
    "TraceJudge",
    "UndecidedMetrics",
    "UnmeasurableMetric",
    "forecast",
    "partition",
    "search",
]
