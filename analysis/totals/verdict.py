"""Verdicts on totals: did a metric's total over a run, or a gauge's mean, change by more than a tolerance?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from unperturbed.analysis.multiple_testing import holm
from unperturbed.analysis.perturbation.comparable import run_names
from unperturbed.analysis.perturbation.decide import classify_change
from unperturbed.analysis.perturbation.rounds import find_partners
from unperturbed.analysis.perturbation.verdict import OPEN, VerdictName, combine
from unperturbed.analysis.planned_runs import Noise, runs_to_decide
from unperturbed.analysis.totals.compare import (
    change_of,
    compare_totals,
    effect_of,
    holm_beyond,
    mean_comparison,
    smallest_visible,
)
from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.trace import SCALING, counts_after_last
from unperturbed.common.wording import LEAST_RATIO, number, percent

TIMES = ("time_s", "cpu_s")
"""Names of the totals for wall-clock and CPU time; for a simulated run, times of the native run beside it."""

TOLERANCES: Mapping[str, float] = {"default": 0.01, "time": 0.02}
"""Largest relative changes that count as none: `time` for both times, `default` for other totals."""

FEWEST = 2
"""Runs of the reference that give a spread, and so an interval."""


@dataclass(frozen=True)
class TotalChange:
    """Change of one metric's total over a run, or of a gauge's mean, between reference runs and checked runs.

    Attributes
    ----------
    metric : str
        The metric's name; `time_s` and `cpu_s` are wall-clock and CPU time in seconds.
    reference, observed : tuple of float
        Totals of the reference runs and of the checked runs, in run order.
    reference_runs, observed_runs : tuple of str
        Names of the runs, in the same order.
    change : float
        Relative change of the geometric mean: 0.03 is 3 % more.
    low, high : float
        Confidence interval of the change at level `level`: 1 − 2α, so that each one-sided bound has level 1 − α.
    p, p_corrected : float
        Two-sided p-value of "no change", uncorrected and corrected family-wise over the configuration's totals (Holm).
    p_beyond, p_beyond_corrected : float
        p-value of "no change beyond the tolerance", uncorrected and corrected family-wise.
    smallest_visible : float
        The smallest relative change that these runs would have shown with power 80 %.
    tolerance : float
        Largest relative change that counts as none: a ratio from 1 / (1 + tolerance) to 1 + tolerance.
    verdict : VerdictName
        As for correlations.
    runs_to_decide : int or None
        For *shifted* and *undecided*, the runs per configuration (for means over nodes: on each node) that decide with
        a power of 80 %, the mean over what these runs leave open about the change and the spread. Where the interval
        holds 0, so many runs also show that there is no change, if there is none. None if decided or out of reach.
    standard_error, freedom : float
        Standard error of the change of mean logarithms, with its degrees of freedom.
    observed_error : float
        The standard error that these runs show. Within rounds, `standard_error` has a minimum, because another round
        may differ.
    designs : int
        Number of comparisons that this was chosen from: independent runs, and runs within rounds.
    simulated : bool
        Whether a simulator counted the metric.
    note : str
        Remark for the reader, one sentence; mostly empty.
    level : float
        Level of the confidence interval: 1 − 2α, or 1 − 2 times the share of α of the look that made this verdict.
    equal_in_rounds : bool
        Whether the two runs of each round have exactly the same total, though rounds differ.
    nodes : tuple of TotalChange
        For means over nodes, the change on each node.
    partners : tuple of int
        For each value of `observed`, the index in `reference` of the run of the same round; empty if runs are not
        compared within rounds.
    mean : bool
        Whether the metric is a gauge, whose mean over the time of a run is compared in place of its total.
    """

    metric: str
    reference: tuple[float, ...]
    observed: tuple[float, ...]
    reference_runs: tuple[str, ...]
    observed_runs: tuple[str, ...]
    change: float
    low: float
    high: float
    p: float = 1.0
    p_corrected: float = 1.0
    p_beyond: float = 1.0
    p_beyond_corrected: float = 1.0
    tolerance: float = TOLERANCES["default"]
    smallest_visible: float = float("inf")
    verdict: VerdictName = "undecided"
    runs_to_decide: int | None = None
    standard_error: float = 0.0
    observed_error: float = 0.0
    freedom: float = math.inf
    designs: int = 1
    simulated: bool = False
    note: str = ""
    level: float = 0.9
    equal_in_rounds: bool = False
    nodes: tuple[TotalChange, ...] = ()
    partners: tuple[int, ...] = ()
    mean: bool = False

    @property
    def before(self) -> float:
        """Return the mean total of the reference runs that are compared: within rounds, those of the same rounds."""
        return float(np.mean([self.reference[at] for at in self.partners] or self.reference))

    @property
    def after(self) -> float:
        """Return the mean total of the checked runs."""
        return float(np.mean(self.observed))

    @property
    def equal(self) -> bool:
        """Return whether all runs on both sides have exactly the same total."""
        # Means over nodes may agree though runs do not.
        same = all(change.equal for change in self.nodes)
        return same and len({*self.reference, *self.observed}) == 1

    @property
    def interval(self) -> str:
        """Return the interval as text: one number if both bounds are written alike."""
        if not math.isfinite(self.high):
            return "–"
        if not self.low == self.high == 0 and max(abs(self.low), abs(self.high)) < LEAST_RATIO:
            return f"within\u00a0±{number(100 * LEAST_RATIO)}\u00a0%"
        low, high = percent(self.low), percent(self.high)
        return low if low == high else f"{low.removesuffix('%').rstrip()} … {high}"

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON types."""
        written = {**asdict(replace(self, nodes=())), "equal": self.equal}
        del written["nodes"]
        return written


def tolerance_of(metric: str, tolerances: Mapping[str, float]) -> float:
    """Return the tolerance of a metric's total: the metric's own, that of times, or the default."""
    fallback = "time" if metric in TIMES else "default"
    return tolerances.get(metric, tolerances.get(fallback, TOLERANCES[fallback]))


def check_totals(
    reference: Sequence[Trace],
    observed: Sequence[Trace],
    metrics: Sequence[str],
    *,
    alpha: float = 0.05,
    tolerances: Mapping[str, float] = TOLERANCES,
) -> tuple[TotalChange, ...]:
    """Compare the totals of metrics between the runs of two configurations.

    Parameters
    ----------
    reference, observed : sequence of Trace
        Runs of the reference and of the configuration. Runs of one round (their attribute `block`) are compared with
        each other if at least five rounds have runs of both.
    metrics : sequence of str
        Metrics of all runs, or `time_s` and `cpu_s`. A metric that some run lacks is left out.
    alpha : float, default 0.05
        Family-wise level over these metrics.
    tolerances : mapping of str to float
        Largest relative change that counts as none, by metric; `default` for all others, `time` for both times.

    Returns
    -------
    tuple of TotalChange
        One for each metric. Empty if the reference has fewer than two runs, or the configuration none.
    """
    return decide_totals(compare_runs(reference, observed, metrics, alpha=alpha, tolerances=tolerances), alpha=alpha)


def compare_runs(
    reference: Sequence[Trace],
    observed: Sequence[Trace],
    metrics: Sequence[str],
    *,
    alpha: float,
    tolerances: Mapping[str, float],
) -> tuple[TotalChange, ...]:
    """Return the changes of totals like `check_totals`, without the fields that depend on the family of changes."""
    if len(reference) < FEWEST or not observed:
        return ()
    totals = {metric: (_totals(reference, metric), _totals(observed, metric)) for metric in metrics}
    known = {metric: sides for metric, sides in totals.items() if sides[0] and sides[1]}
    if not known:
        return ()
    before, after = (np.array([sides[at] for sides in known.values()], np.float64).T for at in (0, 1))
    positive = (before.min(axis=0) > 0) & (after.min(axis=0) > 0)
    partners = find_partners(reference, observed)
    compared = compare_totals(np.where(positive, before, 1), np.where(positive, after, 1), partners, alpha=alpha)
    in_rounds = np.zeros(len(known), bool) if partners is None else (before[partners] == after).all(axis=0)
    tolerance = np.array([tolerance_of(metric, tolerances) for metric in known])
    p_beyond = np.where(tolerance > 0, compared.p_beyond(np.log1p(tolerance)), compared.p)
    simulated = reference[0].names("simulated")
    made = [
        TotalChange(
            metric,
            *known[metric],
            reference_runs=run_names(reference, "reference"),
            observed_runs=run_names(observed, "checked"),
            change=change_of(compared.effect[at]),
            low=change_of(compared.low[at]),
            high=change_of(compared.high[at]),
            p=float(compared.p[at]),
            p_beyond=float(p_beyond[at]),
            tolerance=float(tolerance[at]),
            standard_error=float(compared.error[at]),
            observed_error=float(compared.observed_error[at]),
            freedom=float(compared.freedom[at]),
            designs=compared.designs,
            simulated=metric in simulated,
            level=1 - 2 * alpha,
            partners=tuple(partners.tolist()) if partners is not None and compared.within[at] else (),
            mean=_is_gauge(reference[0], metric),
        )
        for at, metric in enumerate(known)
    ]
    made = [replace(change, equal_in_rounds=bool(in_rounds[at]) and not change.equal) for at, change in enumerate(made)]
    return tuple(change if positive[at] or change.equal else _without_ratio(change) for at, change in enumerate(made))


def decide_totals(changes: Sequence[TotalChange], *, alpha: float) -> tuple[TotalChange, ...]:
    """Correct the p-values of a family of changes; add verdicts, the smallest visible change and runs needed."""
    corrected = holm([change.p for change in changes])
    designs = np.array([change.designs for change in changes], np.float64)
    beyond = holm_beyond(np.array([change.p_beyond for change in changes]), designs)
    family = max(1, len(changes))
    return tuple(
        _decided(
            replace(
                change,
                p_corrected=float(corrected[at]),
                p_beyond_corrected=float(beyond[at] if change.tolerance else corrected[at]),
            ),
            alpha=alpha,
            family=family,
        )
        for at, change in enumerate(changes)
    )


def joint_verdict(changes: Sequence[TotalChange]) -> VerdictName:
    """Return the most serious verdict on totals; undecided times do not count.

    On most hosts, times vary too much to be decided by tens of runs, and would leave every configuration undecided.
    """
    return combine(change.verdict for change in changes if change.metric not in TIMES or change.verdict != "undecided")


def combine_totals(by_node: Mapping[str, Sequence[TotalChange]], *, alpha: float) -> tuple[TotalChange, ...]:
    """Return the mean change of each total over nodes, with its verdict on these nodes.

    All nodes have the same weight. `reference` and `observed` are the nodes' means.
    """
    changes = {node: {change.metric: change for change in node_changes} for node, node_changes in by_node.items()}
    common = [metric for metric in next(iter(changes.values()), {}) if all(metric in own for own in changes.values())]
    return decide_totals(
        [_over_nodes({node: own[metric] for node, own in changes.items()}, alpha) for metric in common], alpha=alpha
    )


def _over_nodes(changes: Mapping[str, TotalChange], alpha: float) -> TotalChange:
    every = tuple(changes.values())
    first, nodes = every[0], tuple(changes)
    designs = max(change.designs for change in every)
    made = replace(
        first,
        reference=tuple(change.before for change in every),
        observed=tuple(change.after for change in every),
        reference_runs=nodes,
        observed_runs=nodes,
        designs=designs,
        level=1 - 2 * alpha,
        nodes=every,
    )
    in_rounds = all(change.equal or change.equal_in_rounds for change in every)
    made = replace(made, equal_in_rounds=in_rounds and not made.equal)
    if any(math.isnan(change.change) for change in every):
        return _without_ratio(made)
    effect = float(np.mean([_effect(change) for change in every]))
    # By the spread pooled over both sides, which the tests use, and by that of each side, as on one host.
    pooled = _joint_error([(change.standard_error**2, change.freedom) for change in every], len(every))
    welch = _joint_error([part for change in every for part in _by_side(change)], len(every))
    joint, wider = (mean_comparison(effect, *error, alpha=alpha, designs=designs) for error in (pooled, welch))
    bound = np.array([math.log1p(first.tolerance)])
    return replace(
        made,
        change=change_of(joint.effect[0]),
        low=change_of(min(joint.low[0], wider.low[0])),
        high=change_of(max(joint.high[0], wider.high[0])),
        p=float(joint.p[0]),
        p_beyond=float(joint.p_beyond(bound)[0]) if first.tolerance else float(joint.p[0]),
        standard_error=pooled[0],
        observed_error=math.sqrt(sum((change.observed_error / len(every)) ** 2 for change in every)),
        freedom=float(joint.freedom[0]),
    )


def _effect(change: TotalChange) -> float:
    """Return the change of the mean logarithm; from the totals if the relative change is rounded to −100 % or to ∞."""
    if -1 < change.change < math.inf:
        return effect_of(change.change)
    if change.nodes:
        return float(np.mean([_effect(of_node) for of_node in change.nodes]))
    before = [change.reference[at] for at in change.partners] or change.reference
    return float(np.log(np.array(change.observed)).mean() - np.log(np.array(before)).mean())


def _joint_error(parts: Sequence[tuple[float, float]], nodes: int) -> tuple[float, float]:
    """Return the error of a mean over nodes and its degrees of freedom (Satterthwaite), from variances with theirs."""
    variances, freedoms = (np.array(column) for column in zip(*parts, strict=True))
    total = float(variances.sum())
    return math.sqrt(total) / nodes, total**2 / float((variances**2 / freedoms).sum()) if total else 1.0


def _by_side(change: TotalChange) -> Sequence[tuple[float, float]]:
    """Return the variances of both means, with degrees of freedom; of runs within rounds, that of their differences."""
    if change.equal or len(change.observed) < FEWEST or noise_of_total(change).within:
        return [(change.standard_error**2, change.freedom)]
    sides = (np.log(np.array(side)) for side in (change.reference, change.observed))
    return [(float(side.var(ddof=1)) / len(side), len(side) - 1) for side in sides]


def total_of(trace: Trace, metric: str) -> float | None:
    """Return the total of a metric over a run, a gauge's mean, or a time of the run; None if the run lacks it.

    An interval that an import left out, because the run's end made it short, is part of the total.
    """
    if metric in TIMES:
        value = trace.attributes.get(metric)
        return None if value is None else float(value)
    if metric not in trace.metrics:
        return None
    if _is_gauge(trace, metric):
        values, lengths = trace[metric].astype(np.float64), (trace.end_ns - trace.begin_ns).astype(np.float64)
        known = ~np.isnan(values)
        return float(np.average(values[known], weights=lengths[known])) if known.any() else None
    total = float(trace[metric].sum()) + counts_after_last(trace).get(metric, 0)
    return _whole_run(trace, metric) if trace.metrics[metric].scaled and math.isnan(total) else total


def _is_gauge(trace: Trace, metric: str) -> bool:
    return metric in trace.metrics and trace.metrics[metric].semantics == "gauge"


def _whole_run(trace: Trace, metric: str) -> float:
    """Return the total of a multiplexed metric without a value in some intervals: its share of the run, scaled."""
    enabled, running = (trace[f"{metric}{suffix}"].astype(np.float64) for suffix in SCALING[:2])
    share = np.divide(running, enabled, out=np.zeros(len(trace)), where=enabled > 0)
    seen = float(np.sum(np.nan_to_num(trace[metric]) * share))
    return seen * float(enabled.sum()) / float(running.sum()) if running.any() else math.nan


def _totals(runs: Sequence[Trace], metric: str) -> tuple[float, ...]:
    """Return the total of each run; empty if a run lacks it."""
    totals = [total_of(trace, metric) for trace in runs]
    return () if None in totals else tuple(total for total in totals if total is not None)


def _decided(change: TotalChange, *, alpha: float, family: int) -> TotalChange:
    """Add the fields that depend on the size of the family."""
    if change.equal:
        return replace(change, verdict="unperturbed", smallest_visible=0.0)
    bound = math.log1p(change.tolerance)
    if not math.isfinite(change.high):
        return replace(change, verdict="undecided")
    low, high = effect_of(change.low), effect_of(change.high)
    verdict = classify_change(change.p_corrected, change.p_beyond_corrected, low, high, alpha=alpha, tolerance=bound)
    runs = None
    if verdict in OPEN:
        noise = noise_of_total(change)
        runs = runs_to_decide(
            noise,
            _effect(change),
            alpha=alpha,
            family=family,
            unchanged=noise if low <= 0 <= high else None,
        )
    visible = smallest_visible(change.standard_error, change.freedom, alpha=alpha / change.designs, family=family)
    return replace(change, verdict=verdict, smallest_visible=change_of(visible), runs_to_decide=runs)


def noise_of_total(change: TotalChange) -> Noise:
    """Return the noise of a change of a total's logarithm."""
    bound = math.log1p(change.tolerance)
    each = [noise_of_total(of_node) for of_node in change.nodes]
    k = min((noise.k for noise in each), default=len(change.reference))
    r = min((noise.r for noise in each), default=len(change.observed))
    within = all(noise.within for noise in each) if each else change.designs > 1 and change.freedom == r - 1
    apart = 0.0
    if within:
        apart = math.sqrt(sum(noise.apart**2 for noise in each)) / len(each) if each else _deviation(change)
    return Noise(
        change.standard_error,
        change.freedom,
        k,
        r,
        (bound, bound),
        nodes=max(1, len(each)),
        designs=change.designs,
        within=within,
        apart=apart,
        observed_error=change.observed_error if within else None,
    )


def _deviation(change: TotalChange) -> float:
    """Return the standard deviation of one run's logarithm, pooled over both sides."""
    sides = [np.log(np.array(side)) for side in (change.reference, change.observed)]
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in sides)
    return math.sqrt(squares / max(1, sum(len(side) - 1 for side in sides)))


def _without_ratio(change: TotalChange) -> TotalChange:
    """Return the change without a ratio, for a total that is 0 in some runs but not in all."""
    why = "the total is 0 in some runs, so no relative change can be computed"
    if change.mean:
        why = "the mean is 0 or less in some runs, so no relative change can be computed"
    return replace(change, change=math.nan, low=-1.0, high=math.inf, p=1.0, p_beyond=1.0, note=why)
