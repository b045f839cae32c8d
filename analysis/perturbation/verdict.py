"""Results of a check: one `Change` per pair (inner) or metric (outer), one `Verdict` per configuration.

Plain, frozen data with a JSON form, so that the terminal, the report and other programs read the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from unperturbed.analysis.perturbation import describe
from unperturbed.analysis.perturbation.compare import Comparison
from unperturbed.analysis.perturbation.correlation import FloatArray
from unperturbed.collectors.data import Trace
from unperturbed.common.frames import Framed
from unperturbed.common.result import Result

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.common.table import Table

VerdictName = Literal["unperturbed", "perturbed", "shifted", "undecided"]
"""*unperturbed*: shown to lie within the tolerance (an equivalence test). *perturbed*: shown to lie beyond it (a
minimum-effect test). *shifted*: a change is shown, and neither that it lies within the tolerance nor that it lies
beyond. *undecided*: nothing is shown. More runs decide the last two."""

OPEN: tuple[VerdictName, ...] = ("shifted", "undecided")
"""Verdicts that more runs may decide."""

SHOWN: tuple[VerdictName, ...] = ("perturbed", "shifted")
"""Verdicts by which a change is shown."""

SEVERITY: tuple[VerdictName, ...] = ("perturbed", "shifted", "undecided", "unperturbed")
"""The most serious verdict first: what was shown weighs more than what was not."""

CheckName = Literal["inner", "outer", "across", "software"]
"""*inner*: two metrics of one run. *outer*: a metric of one run with itself in another run, aligned. *across*: a
metric of one run with another metric of another run, aligned. *software*: as inner, a pair that holds a software
metric, against runs that count fewer."""

MethodName = Literal["runs", "paper", "bootstrap"]
"""How a verdict was reached: by the variation between runs (see `compare`), by the paper's own rule
(`decide.compare_as_paper`), or within single runs, where there are too few for the first (`bootstrap`: weaker)."""

OriginName = Literal["counting", "layout", "both", "unclear"]
"""The origin of a change, by a sham build: see `layout`."""


@dataclass(frozen=True)
class Change:
    """How one correlation changed between the reference runs and the checked runs.

    Attributes
    ----------
    check : CheckName
        Which correlation, see `CheckName`.
    first, second : str
        The metrics; equal for an outer change. Of an *across* change, the first is the reference run's.
    reference, observed : tuple of float
        Spearman's ρ of each reference run and each checked run, in run order. For an outer change a run's value is its
        mean (on Fisher's scale) correlation with the other runs of the reference.
    reference_runs, observed_runs : tuple of str
        The runs' names, same order.
    effect : float
        Change of ρ, observed minus reference (means on Fisher's scale, shown as ρ).
    low, high : float
        Confidence interval of the effect at level 1 − 2α: each one-sided bound holds with 1 − α, as equivalence testing
        wants. Of an outer change the bound that is farther from 0 holds with 1 − α/2.
    p : float
        Two-sided p-value of "no change".
    p_corrected : float
        The same, family-wise over all changes of the verdict that holds it.
    p_beyond, p_beyond_corrected : float
        Of "no change beyond the tolerance", as it is and family-wise.
    p_discovery : float
        As `p`, corrected for the false-discovery rate (Benjamini and Hochberg 1995): of the changes with at most α, α
        are false on average. The view beside the family-wise one that decides: it finds more, and each finding is worth
        less.
    smallest_visible : float
        The smallest |Δρ| that these runs would have shown with power 80 %.
    tolerance : float
        |Δρ| that counts as no perturbation.
    verdict : VerdictName
        See `VerdictName`.
    runs_to_decide : int or None
        For *shifted* and *undecided*, the runs of each configuration (of the reference too, when it has fewer) that
        would probably show the change within the tolerance or beyond it; None when decided or out of reach.
    aligned_on : bool
        The metric was used to align the runs, so its outer correlation is flattered.
    note : str
        What a reader must know besides, one sentence; empty mostly.
    standard_error : float
        Of the change of means on Fisher's scale, from the spread of both kinds of run taken together; `freedom` are its
        degrees of freedom.
    more_runs_help : bool
        Whether it falls with the number of runs as `compare.runs_to_decide` takes it.
    against : str
        Configuration of the reference runs.
    origin : OriginName or None
        What it comes from, where sham runs tell.
    designs : int
        Comparisons that this was chosen from: of independent runs, and within rounds.
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

    @property
    def label(self) -> str:
        """Return the metrics' names as one label."""
        return self.first if self.first == self.second else f"{self.first} – {self.second}"

    @property
    def is_open(self) -> bool:
        """Return whether it is neither shown to lie within the tolerance nor beyond it."""
        return self.verdict in OPEN


@dataclass(frozen=True)
class Overhead:
    """Overhead of measuring, relative to the reference.

    Attributes
    ----------
    instructions, cycles, time : float, optional
        Ratio of the means over runs, minus one: 0.03 is 3 % more. None when unknown.
    """

    instructions: float | None = None
    cycles: float | None = None
    time: float | None = None


@dataclass(frozen=True, repr=False)
class Verdict(Framed, Result):
    """The verdict on one configuration (or on one check of it).

    Attributes
    ----------
    configuration : str
        Name of the checked configuration.
    reference : str
        Name of the one it is held against.
    verdict : VerdictName
        *unperturbed* only when every change is, and nothing was lost; else the most serious of its changes'.
    changes : tuple of Change
        Every pair and metric that was checked.
    excluded : tuple of tuple of str
        Pairs or metrics left out, name and reason (constant, correlated by construction, …).
    lost : tuple of tuple of str
        Those of them that the reference has and the checked runs cannot show. They keep a verdict from *unperturbed*.
    overhead : Overhead
        What measuring added.
    alpha : float
        Level of the family of tests.
    tolerance : float
        |Δρ| that counts as no perturbation.
    method : MethodName
        How it was reached.
    notes : tuple of str
        What a reader must know of that, one sentence each.
    simulated : bool
        A simulator counted hardware metrics of these runs, not a processor.
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

    @property
    def runs_to_decide(self) -> int | None:
        """Return how many runs a configuration would probably decide all that is shifted or undecided.

        None when nothing is, or it is out of reach.
        """
        needed = [change.runs_to_decide for change in self.changes if change.is_open]
        return None if None in needed else max((count for count in needed if count is not None), default=None)

    @property
    def smallest_visible(self) -> float:
        """Return the smallest |Δρ| that every change would have shown with power 80 %; infinite without changes."""
        return max((change.smallest_visible for change in self.changes), default=float("inf"))

    def of(self, check: CheckName) -> tuple[Change, ...]:
        """Return the changes of one check."""
        return tuple(change for change in self.changes if change.check == check)

    _page: ClassVar[str] = "unperturbed.analysis.report.campaign.page:render_verdict"

    def headline(self) -> str:
        """Return the verdict in one line, with the number of changes of each kind."""
        return describe.verdict_headline(self)

    def tables(self) -> tuple[Table, ...]:
        """Return the changes as a table, the one that weighs most first."""
        return (describe.change_table([(self.configuration, change) for change in ranked_changes(self.changes)]),)

    def to_frame(self) -> pl.DataFrame:
        """Return one row a change, with a column for each of its fields."""
        import polars as pl  # noqa: PLC0415  slow to load, and not every check makes a frame

        rows = [{"configuration": self.configuration, **asdict(change)} for change in self.changes]
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON types."""
        # Changes are flat; `asdict` would copy each run's name and coefficient by itself, a hundred times as slowly.
        changes = tuple(dict(vars(change)) for change in self.changes)
        return {**vars(self), "changes": changes, "overhead": asdict(self.overhead)}

    to_json = to_dict


def combine(verdicts: Iterable[VerdictName], *, lost: bool = False) -> VerdictName:
    """Join verdicts to one: the most serious decides.

    *unperturbed* needs one at least, all of them, and nothing lost.
    """
    found = {*verdicts, *(["undecided"] if lost else [])}
    return next((name for name in SEVERITY if name in found), "undecided")


@dataclass(frozen=True)
class RunGroup:
    """Runs of one configuration, and a coefficient of each: `rho` has shape (runs, changes)."""

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
    """Make the changes of a comparison; `decide` fills in the fields that depend on the family of changes."""
    p_beyond = compared.p_beyond(tolerance)
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
        )
        for at, (first, second) in enumerate(labels)
    )


_INSTRUCTIONS, _CYCLES = "PAPI_TOT_INS", "PAPI_TOT_CYC"


def overhead(reference_traces: Sequence[Trace], traces: Sequence[Trace]) -> Overhead:
    """Compare mean totals over runs: 0.03 is 3 % more than the reference; None for totals that were not counted.

    Parameters
    ----------
    reference_traces, traces : sequence of Trace
        Runs of the reference and of the checked configuration.

    Returns
    -------
    Overhead
        `instructions` from PAPI_TOT_INS, `cycles` from PAPI_TOT_CYC (simulated ones where the trace says so), `time`
        from the first interval's begin to the last one's end; None for simulated runs, whose time is the simulator's.
    """

    def added(reference: float | None, observed: float | None) -> float | None:
        return None if not reference or observed is None else observed / reference - 1

    return Overhead(
        instructions=added(_mean_total(reference_traces, _INSTRUCTIONS), _mean_total(traces, _INSTRUCTIONS)),
        cycles=added(_mean_total(reference_traces, _CYCLES), _mean_total(traces, _CYCLES)),
        time=added(_mean_duration_ns(reference_traces), _mean_duration_ns(traces)),
    )


def _mean_total(traces: Sequence[Trace], name: str) -> float | None:
    if not traces or any(name not in trace.metrics for trace in traces):
        return None
    return float(np.mean([trace[name].sum() for trace in traces]))


def _mean_duration_ns(traces: Sequence[Trace]) -> float | None:
    if not traces or any(len(trace) == 0 or trace.names("simulated") for trace in traces):
        return None
    return float(np.mean([trace.end_ns[-1] - trace.begin_ns[0] for trace in traces]))


def change_weight(change: Change) -> tuple[int, float]:
    """Return the sort key of a change: its seriousness, then how large it is, or may still be if not shown."""
    shown = change.verdict in SHOWN
    reach = abs(change.effect) if shown else max(abs(change.low), abs(change.high))
    return -SEVERITY.index(change.verdict), reach


def ranked_changes(changes: Iterable[Change]) -> list[Change]:
    """Sort changes, the one that weighs most first."""
    return sorted(changes, key=change_weight, reverse=True)
