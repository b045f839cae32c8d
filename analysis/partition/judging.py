"""A judge by traces: makes runs by the caller's `measure`, and holds them against the baseline of each pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from unperturbed.analysis.partition import power
from unperturbed.analysis.partition.outcome import Cost, Outcome, Subset
from unperturbed.analysis.perturbation import Baseline, Change, Verdict, combine_checks
from unperturbed.analysis.perturbation.correlation import fisher
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError

__all__ = ["Baselines", "Measure", "Reference", "TraceJudge"]

Measure: TypeAlias = Callable[[Subset, int], Sequence[Trace]]
"""`measure(subset, repetitions)`: fresh runs each time, `repetitions` in each pass, a trace each."""


@dataclass(frozen=True)
class Reference:
    """What the runs of one pass are held against.

    Attributes
    ----------
    baseline : runs without software metrics, for the inner check.
    outer : runs to align to, where these are others: those of the anchor alone. None for the baseline.
    align_on : metrics to align on; None for IPC where the pass has it, else all that the baseline compares.
    anchor : milestone to align through, which every subset counts too.
    """

    baseline: Baseline
    outer: Baseline | None = None
    align_on: Sequence[str] | None = None
    anchor: str | None = None

    def check(self, traces: Sequence[Trace], level: float) -> tuple[Verdict, Verdict]:
        """Return the verdicts of the inner and the outer check, made at a level."""
        on = self.align_on
        if on is None:
            on = ("IPC",) if "IPC" in traces[0].metrics else self.baseline.metrics
        outer = _at_level(self.outer or self.baseline, level)
        return _at_level(self.baseline, level).inner(traces), outer.outer(traces, align_on=on, anchor=self.anchor)

    @property
    def runs(self) -> int:
        """Return how many runs it is made of."""
        return len(self.baseline.traces) + (len(self.outer.traces) if self.outer else 0)


Baselines: TypeAlias = Baseline | Reference | Mapping[str, Baseline | Reference]
"""One baseline, or one for each pass by the pass's name."""


class TraceJudge:
    """Judges subsets by the inner and outer checks of all passes together.

    Parameters
    ----------
    measure : makes runs. Traces say their pass in `attributes["pass"]` where there are several.
    baseline : what they are held against.
    alpha : level of each one-sided bound in the search.
    fresh_baseline : makes a baseline anew, of as many runs, for each round of certification; None to certify against `baseline`.

    Raises
    ------
    DataError
        No baseline, or baselines with different tolerances.
    """

    def __init__(
        self,
        measure: Measure,
        baseline: Baselines,
        *,
        alpha: float = 0.05,
        fresh_baseline: Callable[[], Baselines] | None = None,
    ) -> None:
        self._measure, self._alpha, self._fresh_baseline = measure, alpha, fresh_baseline
        self._by_pass = isinstance(baseline, Mapping)
        self._searching = self._certifying = _references(baseline)
        self.tolerance = _tolerance(self._searching)
        self._pool: dict[Subset, dict[str, list[Trace]]] = {}
        self._found: dict[Subset, Verdict] = {}
        self._seen = {run for each in self._searching.values() for run in _named(each.baseline.traces)}

    @property
    def runs_per_repetition(self) -> int:
        """Return the number of passes."""
        return len(self._searching)

    @property
    def baseline_runs(self) -> int:
        """Return how many runs a fresh baseline takes."""
        return sum(each.runs for each in self._searching.values()) if self._fresh_baseline else 0

    def explore(self, subset: Subset, repetitions: int) -> Outcome:
        """Make so many further runs of a subset (none is possible) and judge it by its whole pool.

        Raises
        ------
        DataError
            The runs do not fit the baseline, are not as many as asked, or were given before.
        """
        if repetitions:
            self._keep(subset, self._made(subset, repetitions))
        verdict = self._found[subset] = self._verdict(subset, self._pool[subset], self._searching, self._alpha)
        return self._outcome(subset, self._pool[subset], verdict)

    def certify(self, subset: Subset, repetitions: int, level: float) -> Outcome:
        """Make so many runs of a subset and judge it by these alone, each one-sided bound at `level`.

        Raises
        ------
        DataError
            As `explore`.
        """
        made = self._made(subset, repetitions)
        verdict = self._verdict(subset, made, self._certifying, level)
        self._keep(subset, made)
        return self._outcome(subset, made, verdict)

    def repetitions_to_certify(self, subset: Subset, level: float, maximum: int) -> int | None:
        """Return how many repetitions will probably certify an explored subset at a level; None when `maximum` will hardly do."""
        verdict = self._found[subset]
        if verdict.lost:
            return None
        return power.repetitions_to_certify(_seen(verdict.changes), level=level, tolerance=self.tolerance, maximum=maximum)

    def renew_baseline(self) -> None:
        """Make a fresh baseline, and hold the certificates that follow against it.

        Raises
        ------
        DataError
            It has other passes, or another tolerance, or runs that were given before.
        """
        if self._fresh_baseline is None:
            return
        fresh = _references(self._fresh_baseline())
        if fresh.keys() != self._searching.keys() or _tolerance(fresh) != self.tolerance:
            raise DataError("the fresh baseline has other passes or another tolerance than the first: make it in the same way")
        for each in fresh.values():
            self._once(_named(each.baseline.traces), "the fresh baseline")
        self._certifying = fresh

    def _made(self, subset: Subset, repetitions: int) -> dict[str, list[Trace]]:
        traces = self._measure(subset, repetitions)
        what = f"measure(({', '.join(subset)}), {repetitions})"
        made: dict[str, list[Trace]] = defaultdict(list)
        for trace in traces:
            made[str(trace.attributes.get("pass", "")) if self._by_pass else ""].append(trace)
        expected = dict.fromkeys(self._searching, repetitions)
        given = {name: len(found) for name, found in made.items()}
        if given != expected:
            raise DataError(f"{what} gave {_counts(given)}, and {_counts(expected)} are needed: make every run in every pass")
        self._once(_named(traces), what)
        return made

    def _once(self, runs: Sequence[str], what: str) -> None:
        twice = sorted(self._seen.intersection(runs)) or sorted({run for run in runs if runs.count(run) > 1})
        if twice:
            raise DataError(f"{what} gave run {', '.join(twice)}, which was given before: every run must be made afresh")
        self._seen.update(runs)

    def _keep(self, subset: Subset, made: Mapping[str, Sequence[Trace]]) -> None:
        pool = self._pool.setdefault(subset, {name: [] for name in self._searching})
        for name, traces in made.items():
            pool[name] += traces

    def _outcome(self, subset: Subset, traces: Mapping[str, Sequence[Trace]], verdict: Verdict) -> Outcome:
        first = next(iter(traces.values()))
        wanted = None
        if verdict.verdict != "unperturbed" and not verdict.lost:
            wanted = power.repetitions_to_accept(_seen(verdict.changes), level=verdict.alpha, tolerance=self.tolerance)
        return Outcome(
            verdict.verdict,
            len(first),
            wanted,
            _carried(verdict),
            _cost(subset, verdict, first),
            tuple(run for made in traces.values() for run in _named(made)),
            verdict,
        )

    def _verdict(
        self, subset: Subset, traces: Mapping[str, Sequence[Trace]], references: Mapping[str, Reference], level: float
    ) -> Verdict:
        checks = [verdict for name, reference in references.items() for verdict in reference.check(traces[name], level)]
        return combine_checks(" + ".join(subset), *checks)


def _named(traces: Sequence[Trace]) -> list[str]:
    """Return the names of the runs that have one; traces from anywhere need none."""
    return [str(trace.attributes["run"]) for trace in traces if "run" in trace.attributes]


def _references(baseline: Baselines) -> dict[str, Reference]:
    """Return the references by pass; a single one is for runs of no named pass."""
    given = baseline if isinstance(baseline, Mapping) else {"": baseline}
    return {name: each if isinstance(each, Reference) else Reference(each) for name, each in given.items()}


def _tolerance(references: Mapping[str, Reference]) -> float:
    found = {each.tolerance for one in references.values() for each in (one.baseline, one.outer) if each is not None}
    if len(found) != 1:
        what = f"tolerances {', '.join(map(str, sorted(found)))}" if found else "no pass"
        raise DataError(f"the baselines have {what}: give at least one pass, and all the same tolerance")
    return found.pop()


def _at_level(baseline: Baseline, level: float) -> Baseline:
    """Return the same baseline, judging at another level; what it has computed of its runs is shared."""
    if level == baseline.alpha:
        return baseline
    other = copy(baseline)
    other.alpha = level
    return other


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} traces{f' of pass {name}' if name else ''}" for name, count in counts.items()) or "no trace"


def _seen(changes: Sequence[Change]) -> power.Seen:
    reference = np.array([fisher(change.reference).mean() for change in changes])
    observed = np.array([fisher(change.observed).mean() for change in changes])
    errors = np.array([change.standard_error for change in changes])
    return power.Seen(reference, observed - reference, errors, len(changes[0].reference), len(changes[0].observed))


def _carried(verdict: Verdict) -> tuple[str, ...]:
    open_ones = [change for change in verdict.changes if change.verdict != "unperturbed"]
    open_ones.sort(key=lambda change: (change.verdict != "perturbed", -abs(change.effect)))
    lost = [f"{name}: {why}" for name, why in verdict.lost]
    return (
        *(
            f"{each.check} {each.label} {each.effect:+.2f} [{each.low:+.2f}, {each.high:+.2f}]{f' ({each.note})' if each.note else ''}"
            for each in open_ones
        ),
        *lost,
    )


def _cost(subset: Subset, verdict: Verdict, traces: Sequence[Trace]) -> Cost:
    added = verdict.overhead
    counted = all(metric in trace.metrics for metric in subset for trace in traces)
    events = float(np.mean([sum(trace[metric].sum() for metric in subset) for trace in traces])) if counted else None
    return Cost(added.instructions, added.cycles, added.time, events)
