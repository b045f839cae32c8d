"""Totals of exported runs: each configuration and metric with the totals of its runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from unperturbed.harness.exports import title_of

if TYPE_CHECKING:
    from unperturbed.collectors.data import Metric
    from unperturbed.harness.exports.content.runs import ExportedRun, ExportedRuns

WALL_TIME = "wall time"


class Totals(NamedTuple):
    """Totals of a metric, or of the wall time, in the runs of a configuration."""

    configuration: str
    metric: Metric | None  # None for the wall time [s]
    values: list[float]  # Of each run that has the metric
    started: str  # Start of the first of these runs, ISO 8601; '' if it is not known

    @property
    def title(self) -> str:
        """Name of the metric, marked if it is simulated or scaled."""
        return WALL_TIME if self.metric is None else title_of(self.metric)

    @property
    def unit(self) -> str:
        """Unit of the metric; `1` if it has none."""
        return "s" if self.metric is None else self.metric.unit or "1"

    @property
    def mean(self) -> float:
        """Mean over the runs."""
        return math.fsum(self.values) / len(self.values)


def by_configuration(runs: ExportedRuns) -> dict[str, list[ExportedRun]]:
    """Return the runs of each configuration; a run without one is its own."""
    groups: dict[str, list[ExportedRun]] = {}
    for run in runs:
        groups.setdefault(run.configuration or run.id, []).append(run)
    return groups


def totals_of(runs: ExportedRuns) -> Iterator[Totals]:
    """Yield the totals of each configuration and metric, in the order of the runs."""
    for configuration, members in by_configuration(runs).items():
        started = min((run.started for run in members if run.started), default="")
        metrics: dict[str, Metric] = {}
        totals = []
        for run in members:
            totals.append(run.totals())
            metrics |= {name: run.trace.metrics[name] for name in totals[-1] if name not in metrics}
        walls = [run.time_s for run in members if run.time_s is not None]
        if walls:
            yield Totals(configuration, None, walls, started)
        for name, metric in metrics.items():
            values = [float(total[name]) for total in totals if name in total]
            if all(map(math.isfinite, values)):
                yield Totals(configuration, metric, values, started)
