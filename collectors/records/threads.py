"""Counts of each thread over its own intervals, from its records or from callgrind's dumps.

With real counters, every thread has a sampler, and its records bound its intervals. The simulator runs one thread at a
time: the main thread's tick then ends the interval of all, and each thread's beginning and end bound its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.collectors.data.trace import Metric, Trace
from unperturbed.collectors.records.counts import missed_overflows, of_thread, threads
from unperturbed.collectors.records.file import Records, deltas
from unperturbed.collectors.sources import Pass, find_source
from unperturbed.collectors.sources.source import NONE

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from unperturbed.collectors.records.roles import Birth


def thread_traces(
    records: Records,
    collected: Pass,
    attributes: Mapping[str, Any],
    *,
    software: Sequence[Metric | None] = (),
    dumps: Path | None = None,
    roles: Mapping[int, str] | None = None,
    whole: bool = True,
) -> dict[int, Trace]:
    """For each thread that has its own records, make a trace over the thread's own intervals.

    `software`: The software metrics, if each thread counts them for itself.
    `dumps`: Path of callgrind's dump files without the process id; needed for simulated metrics.
    `roles`: The role of each thread, for the attributes.
    `whole`: The records are those of the whole run, not of a window.
    """
    simulated = simulated_by_thread(records, collected, dumps) if dumps is not None else {}
    traces = {}
    for thread in threads(records):
        rows = of_thread(records, thread)
        stamps = rows["monotonic_ns"]
        missed = rows["overruns"][1:].astype("i8")
        if attributes.get("interval_event"):
            index = [metric.name for metric in collected.metrics].index(attributes["interval_event"])
            missed = missed_overflows(rows["hardware"][:, index], int(attributes["interval_ns"]))
        columns = dict(simulated.get(thread, {}))
        if not simulated:
            columns = {metric: deltas(rows["hardware"][:, at]) for at, metric in enumerate(collected.metrics)}
            if roles is not None and thread and whole:  # as in the sum over threads
                for at, column in enumerate(columns.values()):
                    column[0] += rows["hardware"][0, at]
        counted = ((at, metric) for at, metric in enumerate(software) if metric is not None)
        columns |= {metric: deltas(rows["software"][:, at]) for at, metric in counted}
        began_ns = int(stamps[0] - records.rows["monotonic_ns"][0])
        own = {**attributes, "thread": thread, "thread_begin_ns": began_ns}
        if roles is not None:
            own["role"] = roles.get(thread, f"thread {thread}")
        traces[thread] = Trace.from_columns(
            list(columns),
            {metric.name: column for metric, column in columns.items()},
            begin_ns=stamps[:-1] - stamps[0],
            end_ns=stamps[1:] - stamps[0],
            overruns=missed,
            attributes=own,
        )
    return traces


def described(traces: Mapping[int, Trace], births: Mapping[int, Birth]) -> list[dict[str, Any]]:
    """Return who each thread is, when it ran (seconds from its process's first record), and its counters' totals."""
    told = []
    for number, trace in traces.items():
        birth = births.get(number)
        begin_s = trace.attributes["thread_begin_ns"] / 1e9
        seconds = int(trace.end_ns[-1] - trace.begin_ns[0]) / 1e9
        told.append(
            {
                "role": trace.attributes["role"],
                "number": number,
                "tid": birth.tid if birth is not None else 0,
                "name": birth.name if birth is not None else None,
                "begin_s": begin_s,
                "end_s": begin_s + seconds,
                "intervals": len(trace),
                "totals": {name: np.nansum(trace[name]).item() for name in trace.metrics},
            }
        )
    return told


def simulated_by_thread(records: Records, collected: Pass, dumps: Path) -> dict[int, dict[Metric, NDArray[np.int64]]]:
    """Return the simulated counts of each thread over its own intervals; none if nothing is simulated."""
    source = None if collected.source == NONE else find_source(collected.source)
    if source is None or source.thread_columns is None:
        return {}
    bounds = {}
    for thread in threads(records):
        rows = of_thread(records, thread)
        # A record that the main thread's tick wrote ends an interval at the dump of that tick.
        tick, own = rows["tick"].astype(np.int64), rows["whole"].astype(np.int64)
        bounds[thread] = (np.where(tick > 0, tick, own) - 1).tolist()
    return source.thread_columns(collected, dumps.with_name(f"{dumps.name}.{records.owner}"), bounds)
