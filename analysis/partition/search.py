"""Search for a partition: all metrics at once, else a strategy; then certification. No step depends on traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from unperturbed.analysis.partition.certify import Certification, best_choice
from unperturbed.analysis.partition.evaluation import (
    Ahead,
    CandidateEvaluator,
    Judge,
    Limits,
    Observer,
    SearchSettings,
    Stop,
)
from unperturbed.analysis.partition.judging import Baselines, Measure, TraceJudge
from unperturbed.analysis.partition.plan import (
    CertifiedSubset,
    Plan,
    Subset,
    UndecidedMetrics,
    UnmeasurableMetric,
)
from unperturbed.analysis.partition.strategies import Strategy, find_strategy, forecast

_ADVICE = (
    "use a longer interval, use the outside sampler if the host has hardware counters, or count a rarer event with the "
    "same information; a sham build shows whether the counting causes the change"
)


def search(
    metrics: Sequence[str],
    judge: Judge,
    settings: SearchSettings,
    *,
    strategy: str | Strategy = "first-fit",
    tolerance: float | None = None,
    observer: Observer | None = None,
    clock: Callable[[], float] = time.monotonic,
    ahead: Ahead | None = None,
    limits: Limits | None = None,
    explored: Iterable[Subset] = (),
    fits: Callable[[Subset], bool] | None = None,
) -> Plan:
    """Partition metrics into few subsets, each certified to be unperturbed.

    Parameters
    ----------
    metrics : sequence of str
        Names of the metrics, each once.
    judge : Judge
        Makes runs of subsets and judges them.
    settings : SearchSettings
        Repetitions, level, limits, seed.
    strategy : str or Strategy, default "first-fit"
        Name of a strategy, or your own strategy.
    tolerance : float, optional
        Recorded in the plan.
    observer : Observer, optional
        Called with each measurement when it is done.
    clock : callable, default time.monotonic
        Monotonic clock in seconds, for `max_hours`.
    ahead : Ahead, optional
        Makes runs in advance, if several subsets can be measured at the same time.
    limits : Limits, optional
        Runs and hours that several searches share; by default, the limits of the settings for this search alone.
    explored : iterable of tuple of str, default ()
        Subsets that the judge already has runs of.
    fits : callable, optional
        Returns whether one run can count a subset of several metrics. Subsets that it refuses are never measured.

    Returns
    -------
    Plan
        After a limit or an interruption (KeyboardInterrupt), the best plan so far, with the subsets that were certified
        by then.

    Raises
    ------
    ValueError
        There is no metric, a metric is given twice, or no strategy has this name.

    Notes
    -----
    Open problem 1 of Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 4. The
    search depends only on outcomes and arguments, except for `max_hours`: an interrupted search that is restarted with
    a judge that uses recorded runs repeats the same steps, then continues.
    """
    names = tuple(metrics)
    if not names or len(set(names)) < len(names):
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        wrong = f"metrics are given more than once ({', '.join(twice)})" if names else "no metric is given"
        raise ValueError(f"{wrong}: give at least one metric, and each only once")
    chosen = find_strategy(strategy)
    limits = limits or Limits(settings, clock)
    predicted = forecast(
        len(names), chosen, settings, passes=judge.runs_per_repetition, baseline_runs=judge.baseline_runs
    )
    evaluator = CandidateEvaluator(names, judge, settings, limits, observer or (lambda _: None), ahead, fits)
    for subset in explored:
        evaluator.take(subset)
    certification = Certification(evaluator, chosen)
    stopped = ""
    try:
        try:
            candidates = [names] if evaluator.accepts(names) else chosen.search(evaluator, names)
        except Stop as stop:
            certification.stopped = str(stop)
            candidates = evaluator.cover(names)
        certification.run(candidates)
        stopped = certification.stopped
    except KeyboardInterrupt:
        stopped = "interrupted"
    subsets = _certified(certification)
    placed = {metric for subset in subsets for metric in subset.metrics}
    unmeasurable = _unmeasurable(evaluator, [metric for metric in names if metric not in placed])
    placed |= {each.metric for each in unmeasurable}
    return Plan(
        subsets=subsets,
        unmeasurable=unmeasurable,
        undecided=_undecided(evaluator, certification, [metric for metric in names if metric not in placed], stopped),
        complete=not stopped,
        stopped=stopped,
        runs_used=limits.runs,
        hours=limits.hours,
        history=tuple(evaluator.history),
        strategy=chosen.name,
        seed=settings.seed,
        alpha=settings.alpha,
        tolerance=tolerance,
        forecast=predicted,
    )


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
            node=each.outcome.node,
        )
        for number, each in enumerate(largest_first, 1)
    )


def _unmeasurable(evaluator: CandidateEvaluator, metrics: Sequence[str]) -> tuple[UnmeasurableMetric, ...]:
    unmeasurable = []
    for metric in metrics:
        outcome = evaluator.known((metric,))
        if outcome is not None and outcome.verdict == "perturbed":
            shown = "; ".join(outcome.carried[:3])
            where = (f" on {outcome.node}" if outcome.node else "") + (": " if shown else "")
            reason = f"perturbs the program when measured alone, in {outcome.repetitions} repetitions{where}{shown}"
            unmeasurable.append(
                UnmeasurableMetric(
                    metric, reason, _ADVICE, outcome.repetitions, outcome.runs, outcome.evidence, outcome.cost
                )
            )
    return tuple(unmeasurable)


def _undecided(
    evaluator: CandidateEvaluator, certification: Certification, metrics: Sequence[str], stopped: str
) -> tuple[UndecidedMetrics, ...]:
    """Return metrics without a certificate, with reasons: pending subsets, then failed ones, then single metrics."""
    left = set(metrics)
    undecided: list[UndecidedMetrics] = []

    def add(subset: Subset, reason: str) -> None:
        if left.issuperset(subset):
            left.difference_update(subset)
            outcome = evaluator.known(subset)
            undecided.append(UndecidedMetrics(subset, reason, outcome.evidence if outcome else None))

    for subset in (*certification.pending, *evaluator.cover(metrics)):
        if subset not in certification.failed:
            add(subset, "; ".join(filter(None, ("unperturbed in the search, but not certified", stopped))))
    for subset, reason in reversed(certification.failed.items()):
        add(subset, f"not certified: {reason}")
    for metric in metrics:
        add((metric,), "; ".join(filter(None, (_in_no_subset(evaluator, metric), stopped))))
    return tuple(undecided)


def _in_no_subset(evaluator: CandidateEvaluator, metric: str) -> str:
    outcome = evaluator.known((metric,))
    if outcome is None:
        return "in no certified subset, and not measured alone"
    alone = f"in no certified subset; measured alone, {outcome.verdict} after {outcome.repetitions} repetitions"
    return ": ".join(filter(None, (alone, "; ".join(outcome.carried[:3]))))


def partition(
    metrics: Sequence[str],
    measure: Measure,
    baseline: Baselines,
    *,
    strategy: str | Strategy = "first-fit",
    repetitions: int = 3,
    max_repetitions: int = 20,
    alpha: float = 0.05,
    max_runs: int | None = None,
    max_hours: float | None = None,
    seconds_per_run: float | None = None,
    seed: int = 1,
    fresh_baseline: Callable[[], Baselines] | None = None,
    observer: Observer | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Plan:
    """Partition software metrics into few subsets, each certified to leave the program unperturbed.

    Parameters
    ----------
    metrics : sequence of str
        Names of the software metrics, each once.
    measure : Measure
        `measure(subset, repetitions)` makes that many fresh runs and returns their traces; with several passes, that
        many of each pass, which `attributes["pass"]` names. A second call for the same subset makes further runs.
    baseline : Baselines
        Runs without software metrics; with several passes, a mapping from each pass to its baseline. A `Reference`
        instead of a baseline also defines the alignment. The baseline's tolerance is the largest |Δρ| that counts as no
        perturbation.
    strategy : str or Strategy, default "first-fit"
        `first-fit`, `restarts`, `halving`, `costly-alone`, or your own strategy (see `strategies`).
    repetitions : int, default 3
        First repetitions of each candidate, in each pass; at least 3.
    max_repetitions : int, default 20
        Maximum repetitions of an undecided candidate, and of a certification.
    alpha : float, default 0.05
        Upper bound on the probability that the plan contains any invalid certificate; see `certify`. Also the level of
        the search.
    max_runs : int, optional
        Limit on runs; runs of the given baseline are not counted.
    max_hours : float, optional
        Limit on hours; no measurement starts that would probably exceed it.
    seconds_per_run : float, optional
        Expected time of a run, for the forecast, and for `max_hours` until runs have been timed.
    seed : int, default 1
        Seed of the strategy's random choices.
    fresh_baseline : callable, optional
        Makes a new baseline of the same size before each round of certification: the level then holds exactly, and
        drift of the host since the first baseline does no harm. None certifies against `baseline`.
    observer : Observer, optional
        Called with each `Measurement` when it is done.
    clock : callable, default time.monotonic
        Monotonic clock in seconds.

    Returns
    -------
    Plan
        Every metric is certified in one subset, unmeasurable (it perturbs the program when measured
        alone), or undecided. After a
        limit or an interruption (KeyboardInterrupt), the best plan so far.

    Raises
    ------
    DataError
        Runs cannot be compared with the baseline, are not as many as requested, or were already used.
    ValueError
        An argument is out of range.

    Notes
    -----
    Open problem 1 of Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 4. A
    subset is shown to be unperturbed if the inner and outer changes of all passes lie within the tolerance
    (`Baseline.inner`, `.outer`). Its validity is never inferred from its parts, and the runs that found it do not
    certify it. The search depends only on the arguments and on what `measure` returns, except for `max_hours`: an
    interrupted search that is restarted with a `measure` that returns recorded runs repeats the same steps, then
    continues.
    """
    settings = SearchSettings(repetitions, max_repetitions, alpha, max_runs, max_hours, seconds_per_run, seed)
    judge = TraceJudge(measure, baseline, alpha=alpha, fresh_baseline=fresh_baseline)
    return search(
        metrics, judge, settings, strategy=strategy, tolerance=judge.tolerance, observer=observer, clock=clock
    )
