"""A partition found by runs that a caller makes: `partition`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from unperturbed.analysis.partition.bench import Observer
from unperturbed.analysis.partition.judging import Baselines, Measure, TraceJudge
from unperturbed.analysis.partition.limits import Settings
from unperturbed.analysis.partition.plan import Plan
from unperturbed.analysis.partition.search import search
from unperturbed.analysis.partition.strategies import Strategy

__all__ = ["partition"]


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
    metrics : names of the software metrics, each once.
    measure : `measure(subset, repetitions)` makes fresh runs and returns their traces: so many, or so many of each pass, which
        `attributes["pass"]` then names. Called again for the same subset it makes further runs.
    baseline : runs without software metrics; with several passes, a mapping from each pass to its own. A `Reference` in place of a
        baseline says how to align. Its tolerance is what counts as no perturbation.
    strategy : `first-fit`, `restarts`, `halving`, `costly-alone`, or one of your own (see `strategies`).
    repetitions : runs of each candidate at first, in each pass; at least 3.
    max_repetitions : of a candidate that is undecided, and of a certification.
    alpha : the chance that the plan holds any invalid certificate is at most this; see `certify`. Also the level of the search.
    max_runs, max_hours : limits, kept; runs of the given baseline are not counted.
    seconds_per_run : expected, for the forecast and for `max_hours` until runs have been timed.
    seed : of what is drawn by a strategy.
    fresh_baseline : makes the baseline anew, as large, before each round of certification; then the level holds as it stands, and drift of the
        host since the first baseline does no harm. None certifies against `baseline`.
    observer : is told of each `Measurement` when it is done.
    clock : seconds, monotone.

    Returns
    -------
    Plan
        Every metric is certified in one subset, or unmeasurable (perturbs alone), or undecided. The best so far where a limit was reached or where
        the search was interrupted (KeyboardInterrupt).

    Raises
    ------
    DataError
        The runs do not fit the baseline, are not as many as asked, or were given before.
    ValueError
        An argument is out of range.

    Notes
    -----
    Open problem 1 of Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 4. A subset is shown unperturbed when
    the inner and outer changes of all passes lie within the tolerance (`Baseline.inner`, `.outer`). Its validity is never concluded from its
    parts, and runs that found it do not certify it. The search depends on what `measure` returns and on the arguments alone (`max_hours`
    aside): interrupted, and started again with a `measure` that answers from recorded runs, it goes the same way and on.
    """
    settings = Settings(repetitions, max_repetitions, alpha, max_runs, max_hours, seconds_per_run, seed)
    judge = TraceJudge(measure, baseline, alpha=alpha, fresh_baseline=fresh_baseline)
    return search(metrics, judge, settings, strategy=strategy, tolerance=judge.tolerance, observer=observer, clock=clock)
