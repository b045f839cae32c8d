"""Signals without counting: what each interval would hold at dose 0, extrapolated from the runs of a round.

Counting adds to each interval in proportion to the dose. A coefficient does not follow the dose in a line: where an
increment is a store, the stores of an interval become a mixture of the program's own and of counted events, and their
rank correlations saturate within the first increments. So the signals are extrapolated, interval by interval, and the
coefficient is computed from what they give. This needs runs whose intervals are the same work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unperturbed.analysis.doses.fit import line_weights
from unperturbed.analysis.perturbation.rounds import round_of
from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.trace import WORK_CLOCKS

_MOST_UNEQUAL = 0.02
"""Largest share by which the numbers of intervals of a round's runs may differ; one interval may differ anyway."""


def runs_at_zero(by_dose: Mapping[int, Sequence[Trace]], degree: int) -> tuple[Trace, ...]:
    """Return a run at dose 0 for each round with a run at each dose; none if intervals are not the same work.

    `degree`: 1 for a line through the doses above 0, 2 for a parabola.
    """
    doses = sorted(by_dose)
    weights = line_weights(doses, degree)
    rounds = {dose: {round_of(run): run for run in by_dose[dose]} for dose in doses}
    complete = [key for key in rounds[1] if all(key in each for each in rounds.values())]
    of_rounds = [[rounds[dose][key] for dose in doses] for key in complete]
    if not all(map(_are_the_same_work, of_rounds)):
        return ()
    return tuple(_at_zero(runs, weights, rounds[1][key]) for key, runs in zip(complete, of_rounds, strict=True))


def _are_the_same_work(runs: Sequence[Trace]) -> bool:
    lengths = [len(run) for run in runs]
    unequal = max(lengths) - min(lengths)
    return all(run.attributes.get("clock") in WORK_CLOCKS for run in runs) and unequal <= max(
        1, _MOST_UNEQUAL * max(lengths)
    )


def _at_zero(runs: Sequence[Trace], weights: np.ndarray, first: Trace) -> Trace:
    """Return a weighted sum of the signals; counts are whole and not negative, as counted ones are."""
    intervals = min(map(len, runs))
    shared = [metric for name, metric in first.metrics.items() if all(name in run.metrics for run in runs)]
    columns = {}
    for metric in shared:
        signal = sum(
            weight * np.asarray(run[metric.name][:intervals], np.float64)
            for weight, run in zip(weights, runs, strict=True)
        )
        is_count = metric.semantics == "counter" and metric.kind != "derived"
        columns[metric.name] = np.maximum(0, np.rint(signal)).astype(np.int64) if is_count else signal
    return Trace.from_columns(
        shared,
        columns,
        begin_ns=first.begin_ns[:intervals],
        end_ns=first.end_ns[:intervals],
        attributes=first.attributes,
    )
