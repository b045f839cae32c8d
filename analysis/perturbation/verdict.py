"""What a check says: one `Change` a pair (inner) or metric (outer), one `Verdict` a configuration.

Plain, frozen data with a JSON form, so that the terminal, the report and other programs read the same thing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Change", "CheckName", "MethodName", "OriginName", "Overhead", "Verdict", "VerdictName", "combine"]

VerdictName = Literal["unperturbed", "perturbed", "undecided"]
"""*unperturbed*: shown to lie within the tolerance. *perturbed*: shown to differ, and not shown to stay within the tolerance.
*undecided*: neither; more runs would decide."""

CheckName = Literal["inner", "outer", "across", "software"]
"""*inner*: two metrics of one run. *outer*: a metric of one run with itself in another run, aligned. *across*: a metric of one run with
another metric of another run, aligned. *software*: as inner, a pair that holds a software metric, against runs that count fewer."""

MethodName = Literal["runs", "paper", "bootstrap"]
"""How a verdict was reached: by the variation between runs (see `compare`), by the paper's own rule (`paper_rule`), or within single
runs, where there are too few for the first (`bootstrap`: weaker)."""

OriginName = Literal["counting", "layout", "both", "unclear"]
"""What a change comes from, told by a sham build: see `layout`."""


@dataclass(frozen=True)
class Change:
    """How one correlation changed between the reference runs and the checked runs.

    Attributes
    ----------
    check : which correlation, see `CheckName`.
    first, second : the metrics; equal for an outer change. Of an *across* change, the first is the reference run's.
    reference, observed : Spearman's ρ of each reference run and each checked run, in run order. For an outer change a run's
        value is its mean (on Fisher's scale) correlation with the other runs of the reference.
    reference_runs, observed_runs : the runs' names, same order.
    effect : change of ρ, observed minus reference (means on Fisher's scale, shown as ρ).
    low, high : confidence interval of the effect at level 1 − 2α: each one-sided bound holds with 1 − α, as equivalence testing
        wants.
    p : two-sided p-value of "no change". p_corrected : the same, family-wise over all changes of the verdict that holds it.
    p_discovery : the same, corrected for the false-discovery rate (Benjamini and Hochberg 1995): of the changes with at most α, α are
        false on average. The view beside the family-wise one that decides: it finds more, and each finding is worth less.
    smallest_visible : the smallest |Δρ| that these runs would have shown with power 80 %.
    tolerance : |Δρ| that counts as no perturbation.
    verdict : see `VerdictName`.
    runs_to_decide : for *undecided*, the runs of each configuration (of the reference too, when it has fewer) that would probably
        decide; None when decided or out of reach.
    aligned_on : the metric was used to align the runs, so its outer correlation is flattered.
    note : what a reader must know besides, one sentence; empty mostly.
    standard_error : of the change of means on Fisher's scale, from the spread of both kinds of run taken together; `freedom` are its
        degrees of freedom. more_runs_help : whether it falls with the number of runs as `compare.runs_to_decide` takes it.
    against : configuration of the reference runs.
    origin : what it comes from, where sham runs tell.
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
    against: str = ""
    origin: OriginName | None = None

    @property
    def label(self) -> str:
        """Return the metrics' names as a reader would say them."""
        return self.first if self.first == self.second else f"{self.first} – {self.second}"


@dataclass(frozen=True)
class Overhead:
    """What measuring added, relative to the reference: ratios of means over runs minus one (0.03 is 3 % more), None when unknown."""

    instructions: float | None = None
    cycles: float | None = None
    time: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The verdict on one configuration (or on one check of it).

    Attributes
    ----------
    configuration : name of the checked configuration; reference : name of the one it is held against.
    verdict : *unperturbed* only when every change is, and nothing was lost; *perturbed* when one is; else *undecided*.
    changes : every pair and metric that was checked.
    excluded : pairs or metrics left out, name and reason (constant, correlated by construction, …).
    lost : those of them that the reference has and the checked runs cannot show. They keep a verdict from *unperturbed*.
    overhead : what measuring added.
    alpha, tolerance : as used.
    method : how it was reached. notes : what a reader must know of that, one sentence each.
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

    @property
    def runs_to_decide(self) -> int | None:
        """Return how many runs a configuration would probably decide all that is undecided; None when nothing is, or it is out of reach."""
        needed = [change.runs_to_decide for change in self.changes if change.verdict == "undecided"]
        return None if None in needed else max((count for count in needed if count is not None), default=None)

    @property
    def smallest_visible(self) -> float:
        """Return the smallest |Δρ| that every change of this verdict would have shown with power 80 %; infinite without changes."""
        return max((change.smallest_visible for change in self.changes), default=float("inf"))

    def of(self, check: CheckName) -> tuple[Change, ...]:
        """Return the changes of one check."""
        return tuple(change for change in self.changes if change.check == check)

    def to_json(self) -> dict[str, Any]:
        """Return JSON types only."""
        return asdict(self)


def combine(verdicts: Iterable[VerdictName], *, lost: bool = False) -> VerdictName:
    """Join verdicts: one *perturbed* makes all perturbed; *unperturbed* needs one at least, all of them, and nothing lost."""
    found = tuple(verdicts)
    if "perturbed" in found:
        return "perturbed"
    return "unperturbed" if found and not lost and all(verdict == "unperturbed" for verdict in found) else "undecided"
