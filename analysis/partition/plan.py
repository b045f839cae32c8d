"""Results of a search for a partition: outcomes of subsets, measurements, and the plan with all of its evidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from unperturbed.analysis.partition import describe
from unperturbed.analysis.perturbation import Verdict, VerdictName
from unperturbed.common.result import Result, plain

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.common.table import Table

_SCHEMA_VERSION = 1
"""Of plan.json; its JSON Schema is harness/results/json_schemas/plan.json."""

Subset: TypeAlias = tuple[str, ...]
"""Metrics that are measured together, in the order in which the caller gave all metrics."""

Stage = Literal["together", "alone", "search", "improve", "baseline", "certify"]
"""Why something is measured: all metrics at once, each alone, by the strategy, to save a subset, a fresh baseline to
certify against, to certify."""


@dataclass(frozen=True)
class Cost:
    """Overhead of measuring a subset.

    Attributes
    ----------
    instructions, cycles, time : float or None
        Ratios to the baseline minus one (0.03 is 3 % more); None when unknown.
    events : float or None
        What the subset's software metrics counted in a run, on average; None when they are not in the traces.
    """

    instructions: float | None = None
    cycles: float | None = None
    time: float | None = None
    events: float | None = None


@dataclass(frozen=True)
class SubsetOutcome:
    """The result of one subset's runs.

    Attributes
    ----------
    verdict : VerdictName
        Over all passes; *unperturbed* only where every pass is.
    repetitions : int
        Runs of each pass that it was judged by.
    repetitions_to_accept : int or None
        So many repetitions have a fair chance to show the subset unperturbed; None where it is shown, or where no
        number has.
    carried : tuple of str
        What is not shown to be unchanged, the largest change first.
    cost : Cost
        What measuring added.
    runs : tuple of str
        Names of the runs.
    evidence : Verdict or None
        The verdict itself, over all passes and both checks; None where the judge has none.
    node : str, default ""
        The node that made all of these runs, and the baseline runs that they are compared with; empty where there is
        but one host.
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
        """Return JSON types only, without the evidence."""
        left_out = {"evidence"} if self.node else {"evidence", "node"}
        kept = {name: value for name, value in vars(self).items() if name not in left_out}
        return {**kept, "carried": list(self.carried), "cost": asdict(self.cost), "runs": list(self.runs)}


@dataclass(frozen=True)
class Measurement:
    """One measurement, as the observer gets it and as it is kept in the plan's history.

    Attributes
    ----------
    number : int
        Counted from 1.
    stage : Stage
        Why it was made.
    subset : Subset
        What was measured; empty for baseline runs.
    repetitions : int
        New runs of each pass.
    outcome : SubsetOutcome or None
        What all runs say that the subset was judged by: in the search its whole pool, in a certification the new ones
        alone. None for baseline runs.
    runs_used : int
        Runs made so far, these included.
    level : float or None
        Of a certification, None else.
    """

    number: int
    stage: Stage
    subset: Subset
    repetitions: int
    outcome: SubsetOutcome | None
    runs_used: int
    level: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return JSON types only, without the evidence."""
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
        Hours for these; None where the time of a run is unknown.
    expected : int
        Runs if about five metrics go together.
    hours_expected : float or None
        Hours for these.
    high : int
        Runs if no two metrics go together.
    hours_high : float or None
        Hours for these.
    """

    low: int
    expected: int
    high: int
    hours_low: float | None = None
    hours_expected: float | None = None
    hours_high: float | None = None


@dataclass(frozen=True)
class CertifiedSubset:
    """Metrics that can be measured together: shown unperturbed by runs that had no part in finding them.

    Attributes
    ----------
    name : str
        `subset-1`, …, the largest first.
    metrics : Subset
        What it holds.
    level : float
        Of each one-sided bound at which it was certified.
    repetitions : int
        Certifying runs of each pass.
    runs : tuple of str
        Their names.
    verdict : Verdict or None
        The evidence, over all passes; None where the judge has none.
    cost : Cost
        What measuring it added in those runs.
    node : str, default ""
        The node that made them; empty where there is but one host.
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
    """A metric that perturbs alone, so that it cannot be measured at this interval.

    Attributes
    ----------
    metric : str
        Its name.
    reason : str
        What shows it.
    advice : str
        What to try.
    repetitions : int
        Runs of each pass that show it, of the search.
    runs : tuple of str
        Their names.
    verdict : Verdict or None
        The evidence, over all passes; None where the judge has none.
    cost : Cost
        What measuring it added in those runs.
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
    """Metrics of one subset, or one metric, without a certificate.

    Attributes
    ----------
    metrics : Subset
        The metrics.
    reason : str
        Why there is no certificate.
    verdict : Verdict, optional
        What the search found of them together.
    """

    metrics: Subset
    reason: str
    verdict: Verdict | None = None


@dataclass(frozen=True, repr=False)
class Plan(Result):
    """A partition of the metrics, and how it was found. Every metric is in exactly one place.

    Attributes
    ----------
    subsets : tuple of CertifiedSubset
        The subsets that are certified, the largest first.
    unmeasurable : tuple of UnmeasurableMetric
        Metrics that perturb alone.
    undecided : tuple of UndecidedMetrics
        Metrics that are neither.
    complete : bool
        Whether the search ended by itself.
    stopped : str
        Why it did not: the limit, or `interrupted`; empty where it did.
    runs_used : int
        Runs of the search, of certifications and of fresh baselines.
    hours : float
        Time that all of it took.
    history : tuple of Measurement
        Every measurement, in order.
    strategy : str
        Name of the strategy.
    seed : int
        Seed of what the strategy drew.
    alpha : float
        Chance at most that the plan holds any invalid certificate.
    tolerance : float or None
        |Δρ| that counts as no perturbation; None where the judge knows none.
    forecast : Forecast
        What was predicted before the search started.
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

    _page: ClassVar[str] = "unperturbed.analysis.report.partition:render_plan"

    def headline(self) -> str:
        """Return which metrics can be measured together, in one sentence."""
        return describe.plan_headline(self)

    def tables(self) -> tuple[Table, ...]:
        """Return the certified subsets, then what is left out; empty tables are omitted."""
        return tuple(table for table in (describe.plan_table(self), describe.left_out_table(self)) if table.rows)

    def to_frame(self) -> pl.DataFrame:
        """Return one row a metric: `metric`, `subset` (null where it is in none), `state`."""
        import polars as pl  # noqa: PLC0415  slow to load, and not every plan makes a frame

        rows: list[tuple[str, str | None, str]] = [
            (metric, subset.name, "certified") for subset in self.subsets for metric in subset.metrics
        ]
        rows += [(one.metric, None, "unmeasurable") for one in self.unmeasurable]
        rows += [(metric, None, "undecided") for each in self.undecided for metric in each.metrics]
        return pl.DataFrame(rows, {"metric": pl.String, "subset": pl.String, "state": pl.String}, orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types only: the evidence of every metric whole, the history without its own.

        A number that JSON cannot hold (NaN, ∞) becomes None.
        """
        return {
            "schema_version": _SCHEMA_VERSION,
            **vars(self),
            "subsets": plain([_certified(each) for each in self.subsets]),
            "unmeasurable": plain([asdict(each) for each in self.unmeasurable]),
            "undecided": plain([asdict(each) for each in self.undecided]),
            "history": plain([each.to_json() for each in self.history]),
            "forecast": asdict(self.forecast),
        }

    to_json = to_dict


def _certified(subset: CertifiedSubset) -> dict[str, Any]:
    """Return a subset without the node where there is but one host."""
    return {key: value for key, value in asdict(subset).items() if key != "node" or value}
