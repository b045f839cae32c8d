"""Results of a check: one `Change` per pair (inner) or metric (outer), one `Verdict` per configuration.

Plain, frozen data with a JSON form: the terminal, the report and other programs read the same data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from unperturbed.analysis.perturbation import verdict_text
from unperturbed.analysis.perturbation.compare import Comparison
from unperturbed.analysis.perturbation.correlation import FloatArray
from unperturbed.analysis.perturbation.rounds import find_partners
from unperturbed.collectors.data import Trace
from unperturbed.common.frames import Framed
from unperturbed.common.result import Result

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.common.table import Table

VerdictName = Literal["unperturbed", "perturbed", "shifted", "undecided"]
"""*unperturbed*: the change is shown to lie within the tolerance (an equivalence test). *perturbed*: the change is
shown to lie beyond the tolerance (a minimum-effect test). *shifted*: a change is shown, which may lie within or beyond
the tolerance. *undecided*: none of these is shown. More runs may decide the last two."""

OPEN: tuple[VerdictName, ...] = ("shifted", "undecided")
"""Verdicts that more runs may decide."""

SHOWN: tuple[VerdictName, ...] = ("perturbed", "shifted")
"""Verdicts that show a change."""

SEVERITY: tuple[VerdictName, ...] = ("perturbed", "shifted", "undecided", "unperturbed")
"""All verdicts, most serious first; verdicts that show a change come first."""

CheckName = Literal["inner", "outer", "across", "software"]
"""*inner*: two metrics of one run. *outer*: a metric of one run with itself in another run, aligned. *across*: a
metric of one run with another metric of another run, aligned. *software*: like inner, for a pair with a software
metric; the reference runs count fewer software metrics."""

MethodName = Literal["runs", "paper", "bootstrap"]
"""How a verdict was reached: by the variation between runs (see `compare`), by the paper's own rule
(`decide.compare_as_paper`), or, with too few runs, by the variation within runs (`bootstrap`; weaker evidence)."""

OriginName = Literal["counting", "layout", "both", "unclear"]
"""Origin of a change, from a comparison with a sham build; see `decide`."""


@dataclass(frozen=True)
class Change:
    """Change of one correlation between the reference runs and the checked runs.

    Attributes
    ----------
    check : CheckName
        Kind of correlation, see `CheckName`.
    first, second : str
        The two metrics; equal for an outer change. In an *across* change, `first` is the reference run's metric.
    reference, observed : tuple of float
        Spearman's ρ of each reference run and each checked run, in run order. For an outer change, a run's value is its
        mean correlation (on Fisher's scale) with the other reference runs; where runs share something within rounds, a
        checked run's with the reference runs of other rounds.
    reference_runs, observed_runs : tuple of str
        Names of the runs, in the same order.
    effect : float
        Change of ρ, observed minus reference (means on Fisher's scale, shown as ρ).
    low, high : float
        Confidence interval of the effect at level 1 − 2α: each one-sided bound has level 1 − α, as equivalence tests
        need. For an outer change, the bound that is farther from 0 has level 1 − α/2.
    p : float
        Two-sided p-value of "no change".
    p_corrected : float
        `p`, corrected family-wise over all changes of the verdict.
    p_beyond, p_beyond_corrected : float
        p-value of "no change beyond the tolerance", uncorrected and corrected family-wise.
    p_discovery : float
        `p`, corrected for the false-discovery rate (Benjamini and Hochberg 1995): among the changes with a value of at
        most α, on average a share α is false. It supplements the family-wise value, which decides: it finds more
        changes, and each finding is less certain.
    smallest_visible : float
        The smallest |Δρ| that these runs would have shown with power 80 %.
    tolerance : float
        Largest |Δρ| that counts as no perturbation.
    verdict : VerdictName
        See `VerdictName`.
    runs_to_decide : int or None
        For *shifted* and *undecided*, the runs per configuration (also of the reference, if it has fewer) that show
        the change within the tolerance or beyond it with a power of 80 %, the mean over what these runs leave open
        about the change and the spread. Where the interval holds 0, so many runs also show that there is no change, if
        there is none. None if decided or out of reach.
    aligned_on : bool
        Whether the metric was used to align the runs, which inflates its outer correlation.
    note : str
        Remark for the reader, one sentence; mostly empty.
    standard_error : float
        Standard error of the change of means on Fisher's scale, from the pooled spread of reference and checked runs;
        `freedom` is its degrees of freedom.
    more_runs_help : bool
        Whether the standard error falls with the number of runs as `planned_runs` assumes.
    against : str
        Configuration of the reference runs.
    origin : OriginName or None
        Origin of the change, if sham runs show it.
    designs : int
        Number of comparisons that this one was chosen from: of independent runs, and within rounds.
    partners : tuple of int
        For each value of `observed`, the index in `reference` of the run of the same round; empty if runs are not
        compared within rounds.
    independent_error : float
        Standard error like `standard_error`, but of independent runs: the same number if these were compared.
    """

    check: CheckName
    first: str
    second: str
    reference: tuple[float, ...]
    observed: tuple[float, ...]
    reference_runs: tuple[str, ...]
    observed_runs: tuple[str, ...]
    effect: float
    low: float
    high: float
    p: float
    p_corrected: float
    smallest_visible: float
    tolerance: float
    verdict: VerdictName
    runs_to_decide: int | None = None
    aligned_on: bool = False
    note: str = ""
    standard_error: float = 0.0
    freedom: float = float("inf")
    more_runs_help: bool = True
    p_discovery: float = 1.0
    p_beyond: float = 1.0
    p_beyond_corrected: float = 1.0
    against: str = ""
    origin: OriginName | None = None
    designs: int = 1
    partners: tuple[int, ...] = ()
    independent_error: float = 0.0

    @property
    def label(self) -> str:
        """Return the names of both metrics as one label."""
        return self.first if self.first == self.second else f"{self.first} – {self.second}"

    @property
    def is_open(self) -> bool:
        """Return whether the change is *shifted* or *undecided*, so more runs may decide it."""
        return self.verdict in OPEN


@dataclass(frozen=True)
class Overhead:
    """Overhead of measuring, relative to the reference.

    Attributes
    ----------
    instructions, cycles, time : float, optional
        Ratio of the geometric means over runs, as for totals, minus one: 0.03 is 3 % more. None if unknown.
    """

    instructions: float | None = None
    cycles: float | None = None
    time: float | None = None


@dataclass(frozen=True, repr=False)
class Verdict(Framed, Result):
    """Verdict on one configuration, or on one check of a configuration.

    Attributes
    ----------
    configuration : str
        Name of the checked configuration.
    reference : str
        Name of the configuration that it is compared with.
    verdict : VerdictName
        *unperturbed* only if every change is, and nothing was lost; otherwise the most serious verdict of the changes.
    changes : tuple of Change
        Changes of all pairs and metrics that were checked.
    excluded : tuple of tuple of str
        Excluded pairs and metrics, each with the reason (constant, correlated by construction, …).
    lost : tuple of tuple of str
        Excluded metrics that vary in the reference but not in the checked runs; they rule out *unperturbed*.
    overhead : Overhead
        Overhead of measuring.
    alpha : float
        Level of the family of tests.
    level : float
        Level of the confidence intervals: 1 − 2α, or 1 − 2 times the share of α of the look that made this verdict.
    tolerance : float
        Largest |Δρ| that counts as no perturbation.
    method : MethodName
        How the verdict was reached.
    notes : tuple of str
        Remarks on the method, one sentence each.
    simulated : bool
        Whether a simulator, not a processor, counted the hardware metrics of these runs.
    """

    configuration: str
    reference: str
    verdict: VerdictName
    changes: tuple[Change, ...]
    excluded: tuple[tuple[str, str], ...] = ()
    overhead: Overhead = Overhead()
    alpha: float = 0.05
    tolerance: float = 0.1
    lost: tuple[tuple[str, str], ...] = ()
    method: MethodName = "runs"
    notes: tuple[str, ...] = ()
    simulated: bool = False
    level: float = 0.9

    @property
    def bound_alpha(self) -> float:
        """Return the error probability of each bound of the confidence intervals."""
        return (1 - self.level) / 2

    @property
    def runs_to_decide(self) -> int | None:
        """Return the runs per configuration that would probably decide all shifted and undecided changes.

        None if there is no such change, or if one is out of reach.
        """
        needed = [change.runs_to_decide for change in self.changes if change.is_open]
        return None if None in needed else max((count for count in needed if count is not None), default=None)

    @property
    def smallest_visible(self) -> float:
        """Return the smallest |Δρ| that every comparison would show with power 80 %; infinite without comparisons."""
        return max((change.smallest_visible for change in self.changes), default=float("inf"))

    def of(self, check: CheckName) -> tuple[Change, ...]:
        """Return the changes of one check."""
        return tuple(change for change in self.changes if change.check == check)

    _page: ClassVar[str] = "unperturbed.analysis.report.campaign.page:render_verdict"

    def headline(self) -> str:
        """Return the verdict in one line, with the number of changes of each kind."""
        return verdict_text.verdict_headline(self)

    def tables(self) -> tuple[Table, ...]:
        """Return the changes as a table, the most serious change first."""
        return (verdict_text.change_table([(self.configuration, change) for change in ranked_changes(self.changes)]),)

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row for each change and one column for each field."""
        import polars as pl  # noqa: PLC0415  slow to load, and not every check makes a frame

        rows = [{"configuration": self.configuration, **asdict(change)} for change in self.changes]
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON types."""
        # Changes are flat; `asdict` would copy each run's name and coefficient, which takes a hundred times as long.
        changes = tuple(dict(vars(change)) for change in self.changes)
        return {**vars(self), "changes": changes, "overhead": asdict(self.overhead)}

    to_json = to_dict


def combine(verdicts: Iterable[VerdictName], *, lost: bool = False) -> VerdictName:
    """Combine verdicts into one: the most serious decides.

    *unperturbed* requires at least one verdict, all of them *unperturbed*, and nothing lost.
    """
    present = {*verdicts, *(["undecided"] if lost else [])}
    return next((name for name in SEVERITY if name in present), "undecided")


@dataclass(frozen=True)
class RunGroup:
    """Runs of one configuration, with their coefficients `rho`, shape (runs, changes)."""

    configuration: str
    runs: tuple[str, ...]
    rho: FloatArray


def changes_from_comparison(
    check: CheckName,
    labels: Sequence[tuple[str, str]],
    reference: RunGroup,
    observed: RunGroup,
    compared: Comparison,
    *,
    tolerance: float,
    align_on: Sequence[str] = (),
    note: Callable[[str], str] = lambda _: "",
    more_runs_help: bool = True,
) -> tuple[Change, ...]:
    """Return the changes of a comparison; `decide` sets the fields that depend on the family of changes."""
    p_beyond = compared.p_beyond(tolerance)
    independent = compared.standard_error if compared.independent_error is None else compared.independent_error
    return tuple(
        Change(
            check="across" if check == "outer" and first != second else check,
            first=first,
            second=second,
            reference=tuple(reference.rho[:, at].tolist()),
            observed=tuple(observed.rho[:, at].tolist()),
            reference_runs=reference.runs,
            observed_runs=observed.runs,
            effect=float(compared.effect[at]),
            low=float(compared.low[at]),
            high=float(compared.high[at]),
            p=float(compared.p[at]),
            p_corrected=float(compared.p[at]),
            smallest_visible=float("inf"),
            tolerance=tolerance,
            verdict="undecided",
            aligned_on=first in align_on or second in align_on,
            note="; ".join(dict.fromkeys(filter(None, (compared.notes[at], note(first), note(second))))),
            standard_error=float(compared.standard_error[at]),
            freedom=float(compared.freedom[at]),
            more_runs_help=more_runs_help,
            p_discovery=float(compared.p[at]),
            p_beyond=float(p_beyond[at]),
            against=reference.configuration,
            designs=compared.designs,
            partners=compared.partners,
            independent_error=float(independent[at]),
        )
        for at, (first, second) in enumerate(labels)
    )


_INSTRUCTIONS, _CYCLES = "PAPI_TOT_INS", "PAPI_TOT_CYC"


def overhead(reference_traces: Sequence[Trace], traces: Sequence[Trace]) -> Overhead:
    """Return the relative change of geometric mean totals: 0.03 is 3 % more; None for uncounted totals.

    Runs that share rounds with runs of the reference are compared with these.

    Parameters
    ----------
    reference_traces, traces : sequence of Trace
        Runs of the reference and of the checked configuration.

    Returns
    -------
    Overhead
        `instructions` from PAPI_TOT_INS, `cycles` from PAPI_TOT_CYC (simulated in simulated traces), `time` from the
        begin of the first interval to the end of the last; None for simulated runs, because it is the simulator's time.
    """

    def added(reference: float | None, observed: float | None) -> float | None:
        return None if not reference or observed is None else observed / reference - 1

    partners = find_partners(reference_traces, traces)
    if partners is not None:
        reference_traces = [reference_traces[at] for at in partners]
    return Overhead(
        instructions=added(_mean_total(reference_traces, _INSTRUCTIONS), _mean_total(traces, _INSTRUCTIONS)),
        cycles=added(_mean_total(reference_traces, _CYCLES), _mean_total(traces, _CYCLES)),
        time=added(_mean_duration_ns(reference_traces), _mean_duration_ns(traces)),
    )


def _mean_total(traces: Sequence[Trace], name: str) -> float | None:
    if not traces or any(name not in trace.metrics for trace in traces):
        return None
    return _geometric_mean([float(trace[name].sum()) for trace in traces])


def _mean_duration_ns(traces: Sequence[Trace]) -> float | None:
    if not traces or any(len(trace) == 0 or trace.names("simulated") for trace in traces):
        return None
    return _geometric_mean([float(trace.end_ns[-1] - trace.begin_ns[0]) for trace in traces])


def _geometric_mean(values: Sequence[float]) -> float | None:
    return float(np.exp(np.mean(np.log(values)))) if min(values) > 0 else None


def change_weight(change: Change) -> tuple[int, float]:
    """Return the sort key of a change: severity, then size, or largest possible size if no change is shown."""
    shown = change.verdict in SHOWN
    reach = abs(change.effect) if shown else max(abs(change.low), abs(change.high))
    return -SEVERITY.index(change.verdict), reach


def ranked_changes(changes: Iterable[Change]) -> list[Change]:
    """Sort changes, the most serious and largest first."""
    return sorted(changes, key=change_weight, reverse=True)
