"""Judge that makes runs by the caller's `measure` and compares their traces with the baseline of each pass.

The number of runs that will probably show a subset to be unperturbed is estimated from its runs so far. Only the number
of further runs depends on this estimate, never a verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np

from unperturbed.analysis.partition.plan import Cost, Subset, SubsetOutcome
from unperturbed.analysis.perturbation import (
    Baseline,
    Change,
    Verdict,
    combine_checks,
    fisher,
    from_fisher,
    ranked_changes,
)
from unperturbed.analysis.perturbation.correlation import FloatArray
from unperturbed.collectors.data import Trace
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.wording import counted
from unperturbed.errors import DataError

special = LazyLibrary("scipy.special")

Measure: TypeAlias = Callable[[Subset, int], Sequence[Trace]]
"""`measure(subset, repetitions)` makes fresh runs, `repetitions` in each pass, and returns a trace for each run."""

_CERTIFY = 0.9
"""Probability of success by which the number of certifying runs is chosen."""

_HARDLY = 0.7
"""Minimum probability of success, by any number of runs, for a subset to get more runs."""

_BENEFIT = 1.5
"""Standard errors that are subtracted from every change before the search gives up a subset. The largest of many
observed changes is partly chance: for 66 unchanged pairs, it is 2.5 standard errors, and good subsets would be given up
after three runs. Certifications get no such benefit, so few of them fail."""

_MOST = 30
"""Maximum number of repetitions to consider for one subset."""

_NO_SPREAD = 1e-300
"""Standard error if all runs are equal: a change within the tolerance is then certain to be shown."""


@dataclass(frozen=True)
class Reference:
    """Baseline of one pass, with the settings of the alignment to it.

    Attributes
    ----------
    baseline : Baseline
        Runs without software metrics, for the inner check.
    outer : Baseline or None
        Runs to align to, if they differ from `baseline`: runs that count only the anchor. None for `baseline`. If they
        are perturbed themselves, runs are aligned to `baseline`, without the anchor.
    align_on : sequence of str or None
        Metrics to align on; None for IPC if the pass has it, else all metrics that the baseline compares.
    anchor : str or None
        Software metric for the milestones of the alignment; every subset counts it too.
    """

    baseline: Baseline
    outer: Baseline | None = None
    align_on: Sequence[str] | None = None
    anchor: str | None = None

    def check(self, traces: Sequence[Trace], level: float) -> tuple[Verdict, Verdict]:
        """Return the verdicts of the inner and the outer check at a level."""
        reference, anchor = (None, None) if self.anchor_perturbs else (self.outer, self.anchor)
        outer = _at_level(reference or self.baseline, level)
        found = outer.outer(traces, align_on=self._on(traces[0]), anchor=anchor)
        return _at_level(self.baseline, level).inner(traces), found

    @cached_property
    def anchor_perturbs(self) -> bool:
        """Whether the anchor's runs are perturbed between runs: runs are then aligned to `baseline`, without anchor."""
        if self.outer is None:
            return False
        return self.baseline.outer(self.outer.traces, align_on=self._on(self.outer.traces[0])).verdict == "perturbed"

    def _on(self, trace: Trace) -> Sequence[str]:
        if self.align_on is not None:
            return self.align_on
        return ("IPC",) if "IPC" in trace.metrics else self.baseline.metrics

    @property
    def runs(self) -> int:
        """Return the number of baseline runs, including those to align to."""
        return len(self.baseline.traces) + (len(self.outer.traces) if self.outer else 0)


Baselines: TypeAlias = Baseline | Reference | Mapping[str, Baseline | Reference]
"""One baseline, or a mapping from the name of each pass to its baseline."""


class TraceJudge:
    """Judge of subsets by the inner and outer checks of all passes together.

    Parameters
    ----------
    measure : Measure
        Makes runs. With several passes, `attributes["pass"]` of a trace is the name of its pass.
    baseline : Baselines
        Baseline that the runs are compared with.
    alpha : float, default 0.05
        Level of each one-sided bound in the search.
    fresh_baseline : callable, optional
        Makes a new baseline with as many runs for each round of certification; None to certify against `baseline`.
    explored : mapping, optional
        Runs of subsets that were made before the search, which is to know of them (`explored` of `search`). They
        certify nothing.

    Raises
    ------
    DataError
        There is no baseline, or baselines have different tolerances. Methods raise it if runs cannot be compared with
        the baseline, are not as many as requested or were already used, or if a fresh baseline has different passes or
        a different tolerance.
    """

    def __init__(
        self,
        measure: Measure,
        baseline: Baselines,
        *,
        alpha: float = 0.05,
        fresh_baseline: Callable[[], Baselines] | None = None,
        explored: Mapping[Subset, Sequence[Trace]] | None = None,
    ) -> None:
        self._measure, self._alpha, self._fresh_baseline = measure, alpha, fresh_baseline
        self._by_pass = isinstance(baseline, Mapping)
        self._searching = self._certifying = _references(baseline)
        self.tolerance = _tolerance(self._searching)
        self._pool: dict[Subset, dict[str, list[Trace]]] = {}
        self._found: dict[Subset, Verdict] = {}
        self._seen = {run for each in self._searching.values() for run in _named(each.baseline.traces)}
        for subset, traces in (explored or {}).items():
            self._once(_named(traces), "explored")
            self._keep(subset, self._grouped(traces))

    @property
    def runs_per_repetition(self) -> int:
        """Return the number of passes."""
        return len(self._searching)

    @property
    def baseline_runs(self) -> int:
        """Return the number of runs in a fresh baseline; 0 without one."""
        return sum(each.runs for each in self._searching.values()) if self._fresh_baseline else 0

    def explore(self, subset: Subset, repetitions: int) -> SubsetOutcome:
        """Make further runs of a subset, possibly none, and judge the subset by its whole pool."""
        if repetitions:
            self._keep(subset, self._made(subset, repetitions))
        verdict = self._found[subset] = self._verdict(subset, self._pool[subset], self._searching, self._alpha)
        return self._outcome(subset, self._pool[subset], verdict)

    def certify(self, subset: Subset, repetitions: int, level: float) -> SubsetOutcome:
        """Make fresh runs of a subset and judge it by these alone, with every one-sided confidence bound at `level`."""
        made = self._made(subset, repetitions)
        verdict = self._verdict(subset, made, self._certifying, level)
        self._keep(subset, made)
        return self._outcome(subset, made, verdict)

    def repetitions_to_certify(self, subset: Subset, level: float, maximum: int) -> int | None:
        """Return the repetitions that will probably certify an explored subset; None if `maximum` is unlikely to."""
        verdict = self._found[subset]
        if verdict.lost:
            return None
        return repetitions_to_certify(_seen(verdict.changes), level=level, tolerance=self.tolerance, maximum=maximum)

    def renew_baseline(self) -> None:
        """Make a fresh baseline, and compare all later certifications with it."""
        if self._fresh_baseline is None:
            return
        fresh = _references(self._fresh_baseline())
        if fresh.keys() != self._searching.keys() or _tolerance(fresh) != self.tolerance:
            raise DataError(
                "the fresh baseline differs from the first in its passes or tolerance: give both baselines the same "
                "passes and tolerance"
            )
        for each in fresh.values():
            self._once(_named(each.baseline.traces), "fresh_baseline()")
        self._certifying = fresh

    def _made(self, subset: Subset, repetitions: int) -> dict[str, list[Trace]]:
        traces = self._measure(subset, repetitions)
        what = f"measure(({', '.join(subset)}), {repetitions})"
        made = self._grouped(traces)
        expected = dict.fromkeys(self._searching, repetitions)
        given = {name: len(runs) for name, runs in made.items()}
        if given != expected:
            raise DataError(
                f"{what} returned {_counts(given)} instead of {_counts(expected)}: "
                f"return {counted(repetitions, 'run')}{' of every pass' if self._by_pass else ''}"
            )
        self._once(_named(traces), what)
        return made

    def _grouped(self, traces: Sequence[Trace]) -> dict[str, list[Trace]]:
        """Return the traces by pass."""
        made: dict[str, list[Trace]] = defaultdict(list)
        for trace in traces:
            made[str(trace.attributes.get("pass", "")) if self._by_pass else ""].append(trace)
        return made

    def _once(self, runs: Sequence[str], what: str) -> None:
        used = sorted(self._seen.intersection(runs))
        twice = used or sorted({run for run in runs if runs.count(run) > 1})
        if twice:
            fault = "runs that were used before" if used else "runs more than once"
            raise DataError(f"{what} returned {fault} ({', '.join(twice)}): make fresh runs each time")
        self._seen.update(runs)

    def _keep(self, subset: Subset, made: Mapping[str, Sequence[Trace]]) -> None:
        pool = self._pool.setdefault(subset, {name: [] for name in self._searching})
        for name, traces in made.items():
            pool[name] += traces

    def _outcome(self, subset: Subset, traces: Mapping[str, Sequence[Trace]], verdict: Verdict) -> SubsetOutcome:
        first = next(iter(traces.values()))
        wanted = None
        if verdict.verdict != "unperturbed" and not verdict.lost:
            wanted = repetitions_to_accept(_seen(verdict.changes), level=verdict.alpha, tolerance=self.tolerance)
        return SubsetOutcome(
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
    """Return the names of all runs with a name; traces of other tools may have none."""
    return [str(trace.attributes["run"]) for trace in traces if "run" in trace.attributes]


def _references(baseline: Baselines) -> dict[str, Reference]:
    """Return the references by pass; a single baseline is for runs without a named pass."""
    given = baseline if isinstance(baseline, Mapping) else {"": baseline}
    return {name: each if isinstance(each, Reference) else Reference(each) for name, each in given.items()}


def _tolerance(references: Mapping[str, Reference]) -> float:
    tolerances = {
        each.tolerance
        for reference in references.values()
        for each in (reference.baseline, reference.outer)
        if each is not None
    }
    if len(tolerances) != 1:
        several = (
            f"the baselines have tolerances {', '.join(map(str, sorted(tolerances)))}: use the same tolerance for all"
        )
        raise DataError(several if tolerances else "no pass has a baseline: give the baseline of at least one pass")
    return tolerances.pop()


def _at_level(baseline: Baseline, level: float) -> Baseline:
    """Return a copy of a baseline with a different level; results that are already computed are shared."""
    if level == baseline.alpha:
        return baseline
    other = copy(baseline)
    other.alpha = level
    return other


def _counts(counts: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{counted(count, 'trace')}{f' of pass {name}' if name else ''}" for name, count in counts.items())
        or "no trace"
    )


def _seen(changes: Sequence[Change]) -> ObservedChanges:
    reference, observed = (
        np.array([fisher(getattr(change, side)).mean() for change in changes]) for side in ("reference", "observed")
    )
    errors = np.array([change.standard_error for change in changes])
    return ObservedChanges(reference, observed - reference, errors, len(changes[0].reference), len(changes[0].observed))


def _carried(verdict: Verdict) -> tuple[str, ...]:
    open_ones = ranked_changes(change for change in verdict.changes if change.verdict != "unperturbed")
    lost = [f"{name}: {why}" for name, why in verdict.lost]
    return (
        *(
            f"{each.check} {each.label} {each.effect:+.2f} [{each.low:+.2f}, "
            f"{each.high:+.2f}]{f' ({each.note})' if each.note else ''}"
            for each in open_ones
        ),
        *lost,
    )


def _cost(subset: Subset, verdict: Verdict, traces: Sequence[Trace]) -> Cost:
    added = verdict.overhead
    counted = all(metric in trace.metrics for metric in subset for trace in traces)
    events = float(np.mean([sum(trace[metric].sum() for metric in subset) for trace in traces])) if counted else None
    return Cost(added.instructions, added.cycles, added.time, events)


@dataclass(frozen=True)
class ObservedChanges:
    """Observed changes in the runs of a subset, on Fisher's scale."""

    # reference_z, effect_z, standard_error: Mean of the reference runs, change, and its standard error; (changes,).
    reference_z: FloatArray
    effect_z: FloatArray
    standard_error: FloatArray
    # references, repetitions: Numbers of runs of the baseline, and of the subset.
    references: int
    repetitions: int


def repetitions_to_accept(seen: ObservedChanges, *, level: float, tolerance: float) -> int | None:
    """Return the fewest repetitions, more than so far, likely to show a subset unperturbed; None above `_MOST`."""
    chances = chance_to_show(seen, level=level, tolerance=tolerance, maximum=_MOST, benefit=_BENEFIT)
    enough = np.flatnonzero(chances >= _HARDLY)
    return max(int(enough[0]) + 1, seen.repetitions + 1) if len(enough) else None


def repetitions_to_certify(seen: ObservedChanges, *, level: float, tolerance: float, maximum: int) -> int | None:
    """Return the fewest repetitions that will probably certify a subset; None if `maximum` is unlikely to."""
    chances = chance_to_show(seen, level=level, tolerance=tolerance, maximum=maximum)
    enough = np.flatnonzero(chances >= _CERTIFY)
    if len(enough):
        return int(enough[0]) + 1
    return maximum if chances[-1] >= _HARDLY else None


def chance_to_show(
    seen: ObservedChanges, *, level: float, tolerance: float, maximum: int, benefit: float = 0.0
) -> FloatArray:
    """Estimate the probability that 1, 2, …, `maximum` repetitions show all changes to lie within the tolerance.

    `benefit`: Standard errors that are subtracted from each observed change.
    Result: shape (maximum,).

    Changes are assumed to be independent and normal with the observed spread, and the bounds to be Welch's, the wider
    ones with few repetitions. The probability that a bound t·s stays below the tolerance is that of a noncentral t, by
    the normal approximation 26.7.10 of Abramowitz and Stegun. One repetition has no spread of its own and is never
    enough.
    """
    counts = np.arange(1, maximum + 1, dtype=np.float64)[:, None]
    spread = seen.standard_error / np.sqrt(1 / seen.references + 1 / seen.repetitions)
    effect_z = np.sign(seen.effect_z) * np.maximum(np.abs(seen.effect_z) - benefit * seen.standard_error, 0)
    before, after = from_fisher(seen.reference_z), from_fisher(seen.reference_z + effect_z)
    # The slope of Fisher's transformation converts both errors to the scale of ρ.
    error = spread * np.hypot((1 - before**2) / np.sqrt(seen.references), (1 - after**2) / np.sqrt(counts))
    error = np.maximum(error, _NO_SPREAD)
    mean, deviation = _bounds(seen.references, maximum, level)
    change = after - before
    inside = special.ndtr(((tolerance - change) / error - mean) / deviation)
    inside = inside + special.ndtr(((tolerance + change) / error - mean) / deviation) - 1
    chances = np.maximum(inside, 0).prod(axis=1)
    chances[0] = 0
    return np.asarray(np.maximum.accumulate(chances), np.float64)


@lru_cache(maxsize=64)
def _bounds(references: int, maximum: int, level: float) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of a bound for 1, 2, … repetitions, in standard errors, shape (maximum, 1)."""
    repetitions = np.arange(1, maximum + 1, dtype=np.float64)[:, None]
    repetitions[0] = 2
    share = 1 / references + 1 / repetitions
    freedom = share**2 / (1 / (references**2 * (references - 1)) + 1 / (repetitions**2 * (repetitions - 1)))
    quantile = special.stdtrit(freedom, 1 - level)
    return quantile * (1 - 1 / (4 * freedom)), np.sqrt(1 + quantile**2 / (2 * freedom))
