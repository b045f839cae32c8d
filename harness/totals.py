"""What the software metrics counted in whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from unperturbed.harness.check import Traces
from unperturbed.harness.spec import Campaign

__all__ = ["Total", "software_totals"]


@dataclass(frozen=True)
class Total:
    """One software metric over all runs that have it.

    Attributes
    ----------
    name : of the metric. runs : that have it.
    counted : median of the events a run; None for a gauge.
    least, most : events of the runs that had fewest and most; a gauge's least and greatest value at a sample.
    rate : events a second of the untouched program's time; None for a gauge.
    """

    name: str
    runs: int
    counted: float | None
    least: int
    most: int
    rate: float | None


def software_totals(campaign: Campaign, traces: Traces, *, native_seconds: float) -> Sequence[Total]:
    """Return what each software metric counted, in the order of the spec; metrics of which there is no run are left out.

    Parameters
    ----------
    native_seconds : that the untouched program took. Runs themselves may be slowed down by a simulator.
    """
    every = [trace for by_configuration in traces.values() for found in by_configuration.values() for trace in found]
    totals = []
    for name, event in campaign.measure.software.items():
        columns = [trace[name] for trace in every if name in trace.metrics and len(trace)]
        if not columns:
            continue
        if event.semantics == "gauge":
            least, most = min(int(column.min()) for column in columns), max(int(column.max()) for column in columns)
            totals.append(Total(name, len(columns), None, least, most, None))
        else:
            counts = [int(column.sum()) for column in columns]
            counted = median(counts)
            totals.append(Total(name, len(counts), counted, min(counts), max(counts), counted / native_seconds))
    return tuple(totals)
