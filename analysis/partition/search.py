"""The search: all metrics at once, else a strategy; then certification. It knows nothing of traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from unperturbed.analysis.partition.bench import Bench, Measurement, Observer
from unperturbed.analysis.partition.certify import Certification, best_choice
from unperturbed.analysis.partition.forecast import forecast
from unperturbed.analysis.partition.limits import Limits, Settings, Stop
from unperturbed.analysis.partition.outcome import Judge, Subset
from unperturbed.analysis.partition.plan import CertifiedSubset, Plan, UndecidedMetrics, UnmeasurableMetric
from unperturbed.analysis.partition.strategies import STRATEGIES, Strategy

__all__ = ["chosen_strategy", "search"]

_ADVICE = (
    "measure it at a larger interval, with the outside sampler where the processor counts, or count a rarer event that tells the same; a sham "
    "build tells whether it is the counting at all"
)


def search(
    metrics: Sequence[str],
    judge: Judge,
    settings: Settings,
    *,
    strategy: str | Strategy = "first-fit",
    tolerance: float | None = None,
    observer: Observer | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Plan:
    """Partition metrics into few subsets, each certified to be unperturbed.

    Parameters
    ----------
    metrics : names, each once.
    judge : makes runs of subsets and judges them.
    settings : repetitions, level, limits, seed.
    strategy : its name, or one of your own.
    tolerance : written into the plan.
    observer : is told of every measurement when it is done.
    clock : seconds, monotone; for `max_hours`.

    Returns
    -------
    Plan
        The best so far where a limit was reached, or where it was interrupted (KeyboardInterrupt): certified is what was certified by then.

    Raises
    ------
    ValueError
        A metric is given twice, or none; or no strategy has that name.

    Notes
    -----
    Open problem 1 of Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 4. What happens depends on the
    outcomes and the arguments alone, `max_hours` aside: a search that was interrupted and is started again, with a judge that
    answers from recorded runs, goes the same way and on.
    """
    names = tuple(metrics)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"metrics: {', '.join(names) or 'none'}: give at least one, and each once")
    chosen = chosen_strategy(strategy)
    limits = Limits(settings, clock)
    predicted = forecast(len(names), chosen, settings, passes=judge.runs_per_repetition, baseline_runs=judge.baseline_runs)
    bench = Bench(names, judge, settings, limits, observer or _nobody)
    certification = Certification(bench, chosen)
    stopped = ""
    try:
        try:
            found = [names] if bench.accepts(names) else chosen.search(bench, names)
        except Stop as stop:
            certification.stopped = str(stop)
            found = bench.cover(names)
        certification.run(found)
        stopped = certification.stopped
    except KeyboardInterrupt:
        stopped = "interrupted"
    subsets = _certified(certification)
    held = {metric for subset in subsets for metric in subset.metrics}
    unmeasurable = _unmeasurable(bench, [metric for metric in names if metric not in held])
    held |= {each.metric for each in unmeasurable}
    return Plan(
        subsets=subsets,
        unmeasurable=unmeasurable,
        undecided=_undecided(bench, certification, [metric for metric in names if metric not in held], stopped),
        complete=not stopped,
        stopped=stopped,
        runs_used=limits.runs,
        hours=limits.hours,
        history=tuple(bench.history),
        strategy=chosen.name,
        seed=settings.seed,
        alpha=settings.alpha,
        tolerance=tolerance,
        forecast=predicted,
    )


def chosen_strategy(strategy: str | Strategy) -> Strategy:
    """Return the strategy of that name, or the one given.

    Raises
    ------
    ValueError
        No strategy has that name.
    """
    if not isinstance(strategy, str):
        return strategy
    if strategy not in STRATEGIES:
        raise ValueError(f"there is no strategy {strategy!r}; there are {', '.join(STRATEGIES)}")
    return STRATEGIES[strategy]


def _nobody(_: Measurement) -> None:
    """Observe nothing."""


def _certified(certification: Certification) -> tuple[CertifiedSubset, ...]:
    largest_first = sorted(best_choice(certification.certificates.values()), key=lambda each: -len(each.subset))
    return tuple(
        CertifiedSubset(
            name=f"subset-{number}",
            metrics=each.subset,
            level=each.level,
            repetitions=each.outcome.repetitions,
            runs=each.outcome.runs,
            verdict=each.outcome.evidence,
            cost=each.outcome.cost,
        )
        for number, each in enumerate(largest_first, 1)
    )


def _unmeasurable(bench: Bench, metrics: Sequence[str]) -> tuple[UnmeasurableMetric, ...]:
    found = []
    for metric in metrics:
        outcome = bench.known((metric,))
        if outcome is not None and outcome.verdict == "perturbed":
            shown = "; ".join(outcome.carried[:3])
            reason = f"perturbs alone, in {outcome.repetitions} repetitions{': ' if shown else ''}{shown}"
            found.append(
                UnmeasurableMetric(metric, reason, _ADVICE, outcome.repetitions, outcome.runs, outcome.evidence, outcome.cost)
            )
    return tuple(found)


def _undecided(
    bench: Bench, certification: Certification, metrics: Sequence[str], stopped: str
) -> tuple[UndecidedMetrics, ...]:
    """Say of every metric that is left why it has no certificate: subsets that still wait for one, then what failed, then the rest."""
    left = set(metrics)
    found: list[UndecidedMetrics] = []

    def add(subset: Subset, reason: str) -> None:
        if left.issuperset(subset):
            left.difference_update(subset)
            outcome = bench.known(subset)
            found.append(UndecidedMetrics(subset, reason, outcome.evidence if outcome else None))

    for subset in (*certification.pending, *bench.cover(metrics)):
        if subset not in certification.failed:
            add(subset, "; ".join(filter(None, ("unperturbed in the search, but not certified", stopped))))
    for subset, reason in reversed(certification.failed.items()):
        add(subset, f"not certified: {reason}")
    for metric in metrics:
        add((metric,), "; ".join(filter(None, (_in_no_subset(bench, metric), stopped))))
    return tuple(found)


def _in_no_subset(bench: Bench, metric: str) -> str:
    outcome = bench.known((metric,))
    if outcome is None:
        return "in no subset that was certified, and not measured alone"
    alone = f"in no subset that was certified; {outcome.verdict} alone after {outcome.repetitions} repetitions"
    return ": ".join(filter(None, (alone, "; ".join(outcome.carried[:3]))))
