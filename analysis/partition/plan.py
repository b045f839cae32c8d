"""Results of a search for a partition: outcomes of subsets, measurements, and the plan with all of its evidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from unperturbed.analysis.partition import plan_text
from unperturbed.analysis.perturbation import Verdict, VerdictName
from unperturbed.common.result import Result, plain

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.common.table import Table

_SCHEMA_VERSION = 1
"""Schema version of plan.json; its JSON Schema is harness/results/json_schemas/plan.json."""

Subset: TypeAlias = tuple[str, ...]
"""Metrics that are measured together, in the caller's order of all metrics."""

Stage = Literal["rewriting", "together", "alone", "search", "improve", "baseline", "certify"]
"""Purpose of a measurement: a build without counting, all metrics together, one metric alone, a candidate of the
strategy, fewer subsets, a fresh baseline, or a certification."""


@dataclass(frozen=True)
class Cost:
    """Overhead of measuring a subset.

    Attributes
    ----------
    instructions, cycles, time : float or None
        Ratios to the baseline minus one (0.03 is 3 % more); None if unknown.
    events : float or None
        Mean number of events that the subset's software metrics counted in a run; None if the traces lack them.
    """

    instructions: float | None = None
    cycles: float | None = None
    time: float | None = None
    events: float | None = None


@dataclass(frozen=True)
class SubsetOutcome:
    """Outcome of one subset's runs.

    Attributes
    ----------
    verdict : VerdictName
        Verdict over all passes; *unperturbed* only if every pass is.
    repetitions : int
        Number of runs of each pass that the subset was judged by.
    repetitions_to_accept : int or None
        Number of repetitions with a fair chance to show the subset to be unperturbed; None if it is already shown, or
        if no number has.
    carried : tuple of str
        Changes that are not *unperturbed*, the most serious first; then lost metrics.
    cost : Cost
        Overhead of measuring.
    runs : tuple of str
        Names of the runs.
    evidence : Verdict or None
        The verdict itself, over all passes and both checks; None if the judge has none.
    node : str, default ""
        The node that made all of these runs, and the baseline runs that they are compared with; empty if there is only
        one host.
    """

    verdict: VerdictName
    repetitions: int
    repetitions_to_accept: int | None = None
    carried: tuple[str, ...] = ()
    cost: Cost = Cost()
    runs: tuple[str, ...] = ()
    evidence: Verdict | None = None
    node: str = ""

    @property
    def unperturbed(self) -> bool:
        """Return whether the subset is shown to be unperturbed."""
        return self.verdict == "unperturbed"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON types, without the evidence."""
        left_out = {"evidence"} if self.node else {"evidence", "node"}
        kept = {name: value for name, value in vars(self).items() if name not in left_out}
        return {**kept, "carried": list(self.carried), "cost": asdict(self.cost), "runs": list(self.runs)}


@dataclass(frozen=True)
class Measurement:
    """One measurement, for the observer and for the plan's history.

    Attributes
    ----------
    number : int
        Counted from 1.
    stage : Stage
        Purpose of the measurement.
    subset : Subset
        The measured subset; empty for baseline runs.
    repetitions : int
        New runs of each pass.
    outcome : SubsetOutcome or None
        Outcome of all runs that the subset was judged by: its whole pool in the search, only the new runs in a
        certification. None for baseline runs.
    runs_used : int
        Runs made so far, including these.
    level : float or None
        Level of a certification, otherwise None.
    certifiable : bool, default True
        False if the search goes on although the subset is *unperturbed*: its changes are so close to the tolerance that
        a certificate would need too many runs.
    """

    number: int
    stage: Stage
    subset: Subset
    repetitions: int
    outcome: SubsetOutcome | None
    runs_used: int
    level: float | None = None
    certifiable: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON types, without the evidence."""
        outcome = self.outcome.to_json() if self.outcome else None
        return {**vars(self), "subset": list(self.subset), "outcome": outcome}


@dataclass(frozen=True)
class Forecast:
    """Predicted effort of a search, in runs and hours.

    Attributes
    ----------
    low : int
        Runs if all metrics can be measured together.
    hours_low : float or None
        Hours for these runs; None if the time of a run is unknown.
    expected : int
        Runs if about five metrics go together.
    hours_expected : float or None
        Hours for these runs.
    high : int
        Runs if no two metrics go together.
    hours_high : float or None
        Hours for these runs.
    limit : int or None
        Runs after which `max_runs` or `max_hours` stops the search; None without a limit.
    """

    low: int
    expected: int
    high: int
    hours_low: float | None = None
    hours_expected: float | None = None
    hours_high: float | None = None
    limit: int | None = None


@dataclass(frozen=True)
class CertifiedSubset:
    """Metrics that can be measured together, as shown by runs that were not used to find them.

    Attributes
    ----------
    name : str
        `subset-1`, …, the largest first.
    metrics : Subset
        Metrics of the subset.
    level : float
        Level of each one-sided bound at which the subset was certified.
    repetitions : int
        Number of certifying runs of each pass.
    runs : tuple of str
        Names of the certifying runs.
    verdict : Verdict or None
        The evidence, over all passes; None if the judge has none.
    cost : Cost
        Overhead of measuring the subset in these runs.
    node : str, default ""
        The node that made these runs; empty if there is only one host.
    """

    name: str
    metrics: Subset
    level: float
    repetitions: int
    runs: tuple[str, ...]
    verdict: Verdict | None
    cost: Cost
    node: str = ""


@dataclass(frozen=True)
class UnmeasurableMetric:
    """Metric that perturbs the program even alone, so it cannot be measured at this interval.

    Attributes
    ----------
    metric : str
        Name of the metric.
    reason : str
        What shows the perturbation.
    advice : str
        What to try instead.
    repetitions : int
        Number of runs of each pass, in the search, that show the perturbation.
    runs : tuple of str
        Names of these runs.
    verdict : Verdict or None
        The evidence, over all passes; None if the judge has none.
    cost : Cost
        Overhead of measuring the metric in these runs.
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
    """Subset or single metric without a certificate.

    Attributes
    ----------
    metrics : Subset
        The metrics.
    reason : str
        Why there is no certificate.
    verdict : Verdict, optional
        Verdict of the search on these metrics together.
    """

    metrics: Subset
    reason: str
    verdict: Verdict | None = None


@dataclass(frozen=True, repr=False)
class Plan(Result):
    """Partition of the metrics, with its evidence: each metric is certified, unmeasurable or undecided.

    Attributes
    ----------
    subsets : tuple of CertifiedSubset
        The subsets that are certified, the largest first.
    unmeasurable : tuple of UnmeasurableMetric
        Metrics that perturb the program even alone.
    undecided : tuple of UndecidedMetrics
        Metrics that are neither certified nor unmeasurable.
    complete : bool
        Whether the search finished.
    stopped : str
        Why the search did not finish: the limit, or `interrupted`; empty if it finished.
    runs_used : int
        Runs of the search, of certifications and of fresh baselines.
    hours : float
        Duration of the search.
    history : tuple of Measurement
        Every measurement, in order.
    strategy : str
        Name of the strategy.
    seed : int
        Seed of the strategy's random choices.
    alpha : float
        Upper bound on the probability that the plan contains any invalid certificate.
    tolerance : float or None
        Largest |Δρ| that counts as no perturbation; None if the judge has none.
    forecast : Forecast
        Prediction from before the search started.
    families : tuple of CertifiedSubset, default ()
        With one build for all configurations: the builds, named `family-1`, …, whose sites leave the program
        unperturbed without counting. Empty if one build of all metrics does.
    one_build : bool, default False
        Whether candidates are configurations of shared builds (`builds: one`).
    kind : {"software", "hardware"}, default "software"
        Kind of the metrics. Subsets of hardware metrics are passes, and all candidates run one build.
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
    families: tuple[CertifiedSubset, ...] = ()
    one_build: bool = False
    kind: Literal["software", "hardware"] = "software"

    _page: ClassVar[str] = "unperturbed.analysis.report.partition:render_plan"

    def headline(self) -> str:
        """Return which metrics can be measured together, in one sentence."""
        return plan_text.plan_headline(self)

    def tables(self) -> tuple[Table, ...]:
        """Return the tables of certified subsets, of builds and of metrics left out; empty tables are omitted."""
        made = (plan_text.plan_table(self), plan_text.families_table(self), plan_text.left_out_table(self))
        return tuple(table for table in made if table.rows)

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row for each metric: `metric`, `subset` (null if there is none), `state`."""
        import polars as pl  # noqa: PLC0415  slow to load, and not every plan makes a frame

        rows: list[tuple[str, str | None, str]] = [
            (metric, subset.name, "certified") for subset in self.subsets for metric in subset.metrics
        ]
        rows += [(unmeasurable.metric, None, "unmeasurable") for unmeasurable in self.unmeasurable]
        rows += [(metric, None, "undecided") for each in self.undecided for metric in each.metrics]
        return pl.DataFrame(rows, {"metric": pl.String, "subset": pl.String, "state": pl.String}, orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON types, with the evidence of every metric but not that of the history.

        Numbers that JSON cannot represent (NaN, ∞) become None.
        """
        return {
            "schema_version": _SCHEMA_VERSION,
            **vars(self),
            "subsets": plain([_certified(each) for each in self.subsets]),
            "unmeasurable": plain([asdict(each) for each in self.unmeasurable]),
            "undecided": plain([asdict(each) for each in self.undecided]),
            "history": plain([each.to_json() for each in self.history]),
            "forecast": asdict(self.forecast),
            "families": plain([_certified(each) for each in self.families]),
        }

    to_json = to_dict


def _certified(subset: CertifiedSubset) -> dict[str, Any]:
    """Return the fields of a subset, without the node if there is only one host."""
    return {key: value for key, value in asdict(subset).items() if key != "node" or value}
