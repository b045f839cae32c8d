"""The inner check where there are too few baseline runs for a `Baseline`: weaker, and labelled so."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from unperturbed.analysis.perturbation import runs as fit
from unperturbed.analysis.perturbation.bootstrap import bootstrap_error, compare_by_bootstrap
from unperturbed.analysis.perturbation.changes import Side, changes_of
from unperturbed.analysis.perturbation.correlation import FloatArray, correlate_ranks, standard_ranks
from unperturbed.analysis.perturbation.decide import decide
from unperturbed.analysis.perturbation.overhead import overhead
from unperturbed.analysis.perturbation.verdict import Verdict, combine
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError

__all__ = ["inner_of_few"]


def inner_of_few(
    reference: Trace | Sequence[Trace],
    traces: Trace | Sequence[Trace],
    *,
    metrics: Sequence[str] | None = None,
    focus: Sequence[str] | None = None,
    alpha: float = 0.05,
    tolerance: float = 0.1,
    name: str = "baseline",
    seed: int = 1,
) -> Verdict:
    """Check whether correlations within a run changed, with as little as one baseline run.

    Parameters
    ----------
    reference : the baseline's runs; from 5 on, `Baseline` is the better way.
    traces : one run or more of one configuration.
    metrics, focus, alpha, tolerance, name : as for `Baseline`.
    seed : of the bootstrap.

    Returns
    -------
    Verdict
        `method` is "bootstrap" and `notes` say that it is weaker: the variation between runs is guessed from within them, and known
        from few runs besides. More runs of the baseline are what helps.

    Raises
    ------
    DataError
        No run, runs that do not fit together, no metric that varies, a value that is not finite.
    """
    before = (reference,) if isinstance(reference, Trace) else tuple(reference)
    after = (traces,) if isinstance(traces, Trace) else tuple(traces)
    if not before or not after:
        raise DataError(f"{name}: a run of the baseline and a run to check are needed at least")
    before_runs, after_runs = fit.run_names(before, name), fit.run_names(after, "checked")
    names, excluded = fit.compared_metrics(before[0], metrics)
    fit.require_alike(before[0], (*before, *after), (*before_runs, *after_runs), names)
    values = [
        fit.metric_values(trace, run, names) for trace, run in zip((*before, *after), (*before_runs, *after_runs), strict=True)
    ]
    flat: dict[str, str] = {}
    for run, rows in zip((*before_runs, *after_runs), values, strict=True):
        flat = fit.constant_metrics(rows, run, names) | flat
    kept = [at for at, metric in enumerate(names) if metric not in flat]
    varying = [names[at] for at in kept]
    pairs, built_in = fit.compared_pairs([before[0].metrics[metric] for metric in varying], varying if focus is None else focus)
    if not pairs:
        raise DataError(f"{name}: no pair of metrics that vary and share no event; measure more hardware metrics")
    column = {metric: at for at, metric in enumerate(varying)}
    first, second = [column[one] for one, _ in pairs], [column[other] for _, other in pairs]
    rng = np.random.default_rng(seed)
    rho, errors = [], []
    for rows in values:
        ranks = standard_ranks(rows[:, kept])
        rho.append(correlate_ranks(ranks, ranks)[first, second])
        errors.append(bootstrap_error(ranks, first, second, rng))
    sides = [np.array(found) for found in (rho[: len(before)], rho[len(before) :])]
    spread: list[FloatArray] = [np.array(found) for found in (errors[: len(before)], errors[len(before) :])]
    configuration = str(after[0].attributes.get("configuration", "checked"))
    changes = decide(
        changes_of(
            "inner",
            pairs,
            Side(name, before_runs, sides[0]),
            Side(configuration, after_runs, sides[1]),
            compare_by_bootstrap(sides[0], sides[1], (spread[0], spread[1]), alpha=alpha),
            tolerance=tolerance,
            more_runs_help=False,
        ),
        alpha=alpha,
    )
    count = "one baseline run" if len(before) == 1 else f"{len(before)} baseline runs"
    return Verdict(
        configuration=configuration,
        reference=name,
        verdict=combine((change.verdict for change in changes), lost=bool(flat)),
        changes=changes,
        excluded=tuple(chain(excluded, flat.items(), built_in)),
        overhead=overhead(before, after),
        alpha=alpha,
        tolerance=tolerance,
        lost=tuple(flat.items()),
        method="bootstrap",
        notes=(
            f"{count}: how much correlations vary from run to run was guessed from within the runs, by a block bootstrap. That is weaker "
            "evidence than 5 runs or more",
        ),
    )
