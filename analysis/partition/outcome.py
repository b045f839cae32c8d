"""What is known of a subset of metrics once it was measured, and who finds that out.

The search knows nothing of traces: it asks a `Judge` and gets an `Outcome`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeAlias

from unperturbed.analysis.perturbation import Verdict, VerdictName

__all__ = ["Cost", "Judge", "Outcome", "Subset", "by_cost"]

Subset: TypeAlias = tuple[str, ...]
"""Metrics that are measured together, in the order in which the caller gave all metrics."""


@dataclass(frozen=True)
class Cost:
    """What measuring a subset added.

    Attributes
    ----------
    instructions, cycles, time : ratios to the baseline minus one (0.03 is 3 % more); None when unknown.
    events : what the subset's software metrics counted in a run, on average; None when they are not in the traces.
    """

    instructions: float | None = None
    cycles: float | None = None
    time: float | None = None
    events: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What the runs of one subset say.

    Attributes
    ----------
    verdict : over all passes; *unperturbed* only where every pass is.
    repetitions : runs of each pass that it was judged by.
    repetitions_to_accept : so many repetitions have a fair chance to show the subset unperturbed; None where it is shown, or where no
        number has.
    carried : what is not shown to be unchanged, the largest change first.
    cost : what measuring added.
    runs : names of the runs.
    evidence : the verdict itself, over all passes and both checks; None where the judge has none.
    """

    verdict: VerdictName
    repetitions: int
    repetitions_to_accept: int | None = None
    carried: tuple[str, ...] = ()
    cost: Cost = Cost()
    runs: tuple[str, ...] = ()
    evidence: Verdict | None = None

    @property
    def unperturbed(self) -> bool:
        """Return whether the subset is shown to be unperturbed."""
        return self.verdict == "unperturbed"

    def to_json(self) -> dict[str, Any]:
        """Return JSON types only, without the evidence."""
        return {
            "verdict": self.verdict,
            "repetitions": self.repetitions,
            "repetitions_to_accept": self.repetitions_to_accept,
            "carried": list(self.carried),
            "cost": asdict(self.cost),
            "runs": list(self.runs),
        }


class Judge(Protocol):
    """Runs subsets and judges them: `judging.TraceJudge` by traces, a simulation by anything.

    Explored runs of a subset are pooled. A certification's runs are judged alone, and belong to the pool afterwards: they certify
    once, and what they taught is not lost.
    """

    @property
    def runs_per_repetition(self) -> int:
        """Return how many runs one repetition takes: one for each pass."""

    @property
    def baseline_runs(self) -> int:
        """Return how many runs `renew_baseline` takes; 0 where certificates are held against the search's baseline."""

    def explore(self, subset: Subset, repetitions: int) -> Outcome:
        """Make so many further runs of a subset (none is possible) and judge it by its whole pool."""

    def certify(self, subset: Subset, repetitions: int, level: float) -> Outcome:
        """Make so many runs of a subset and judge it by these alone, each one-sided bound at `level`."""

    def repetitions_to_certify(self, subset: Subset, level: float, maximum: int) -> int | None:
        """Return how many repetitions will probably certify an explored subset at a level; None when `maximum` will hardly do."""

    def renew_baseline(self) -> None:
        """Make fresh baseline runs, and hold the certificates that follow against these."""


def by_cost(costs: Mapping[str, Cost], metrics: Sequence[str]) -> Subset:
    """Return metrics by falling cost: added instructions, else cycles, else time, else events, whichever is known of all of them.

    Equal costs stay in the order given; so do all metrics where no cost is known.
    """
    for kind in ("instructions", "cycles", "time", "events"):
        values = {metric: getattr(costs[metric], kind) for metric in metrics}
        if all(value is not None for value in values.values()):
            return tuple(sorted(metrics, key=lambda metric: -values[metric]))
    return tuple(metrics)
