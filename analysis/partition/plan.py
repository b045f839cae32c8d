"""What a search for a partition gives: a plan, with the evidence for each of its subsets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from unperturbed.analysis.partition.bench import Measurement
from unperturbed.analysis.partition.forecast import Forecast
from unperturbed.analysis.partition.outcome import Cost, Subset
from unperturbed.analysis.perturbation import Verdict

__all__ = ["CertifiedSubset", "Plan", "UndecidedMetrics", "UnmeasurableMetric"]


@dataclass(frozen=True)
class CertifiedSubset:
    """Metrics that can be measured together: shown unperturbed by runs that had no part in finding them.

    Attributes
    ----------
    name : `subset-1`, …, the largest first.
    metrics : what it holds.
    level : of each one-sided bound at which it was certified.
    repetitions : certifying runs of each pass. runs : their names.
    verdict : the evidence, over all passes; None where the judge has none.
    cost : what measuring it added in those runs.
    """

    name: str
    metrics: Subset
    level: float
    repetitions: int
    runs: tuple[str, ...]
    verdict: Verdict | None
    cost: Cost


@dataclass(frozen=True)
class UnmeasurableMetric:
    """A metric that perturbs alone, so that it cannot be measured at this interval.

    Attributes
    ----------
    metric : its name.
    reason : what shows it. advice : what may help.
    repetitions, runs, verdict, cost : the evidence, as of a certified subset, but from the search's runs.
    """

    metric: str
    reason: str
    advice: str
    repetitions: int
    runs: tuple[str, ...]
    verdict: Verdict | None
    cost: Cost


@dataclass(frozen=True)
class UndecidedMetrics:
    """Metrics of one subset, or one metric, for which there is no certificate, and why. `verdict` is what was found of
    them together in the search."""

    metrics: Subset
    reason: str
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Plan:
    """A partition of the metrics, and how it was found. Every metric is in exactly one place.

    Attributes
    ----------
    subsets : certified. unmeasurable : perturb alone. undecided : neither.
    complete : the search ended by itself. stopped : else why: the limit, or `interrupted`.
    runs_used, hours : everything: search, certification, fresh baselines.
    history : every measurement, in order.
    strategy, seed, alpha, tolerance : as used. `tolerance` is None where the judge knows none.
    forecast : what was predicted before the search started.
    """

    subsets: tuple[CertifiedSubset, ...]
    unmeasurable: tuple[UnmeasurableMetric, ...]
    undecided: tuple[UndecidedMetrics, ...]
    complete: bool
    stopped: str
    runs_used: int
    hours: float
    history: tuple[Measurement, ...]
    strategy: str
    seed: int
    alpha: float
    tolerance: float | None
    forecast: Forecast

    def to_json(self) -> dict[str, Any]:
        """Return JSON types only: the evidence of every metric whole, the history without its own."""
        return {
            "subsets": [_without_tuples(asdict(each)) for each in self.subsets],
            "unmeasurable": [_without_tuples(asdict(each)) for each in self.unmeasurable],
            "undecided": [_without_tuples(asdict(each)) for each in self.undecided],
            "complete": self.complete,
            "stopped": self.stopped,
            "runs_used": self.runs_used,
            "hours": self.hours,
            "history": [each.to_json() for each in self.history],
            "strategy": self.strategy,
            "seed": self.seed,
            "alpha": self.alpha,
            "tolerance": self.tolerance,
            "forecast": asdict(self.forecast),
        }


def _without_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_tuples(item) for key, item in value.items()}
    return [_without_tuples(item) for item in value] if isinstance(value, list | tuple) else value
