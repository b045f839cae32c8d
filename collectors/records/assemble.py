"""Assembly of a run's trace from its records and, if simulated, from callgrind's dumps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.collectors.data.trace import PROGRAM_CLOCK, Metric, Semantics, Trace
from unperturbed.collectors.records.counts import (
    describe_overflows,
    hardware_columns,
    implausible,
    main_thread,
    missed_overflows,
    of_thread,
    threads,
    throttling,
)
from unperturbed.collectors.records.file import Mark, Records, deltas
from unperturbed.collectors.sources import Pass, find_source
from unperturbed.collectors.sources.catalogue import OS_GROUPS, OS_METRICS
from unperturbed.collectors.sources.source import NONE
from unperturbed.common.expressions.metrics import MetricExpression
from unperturbed.errors import RunError, SpecError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def assemble(
    records: Records,
    collected: Pass,
    *,
    software: Sequence[Metric | None],
    os_metrics: Sequence[str],
    derived: Mapping[str, MetricExpression],
    dumps: Path,
    attributes: Mapping[str, Any],
    whole: bool = False,
    window: tuple[int, int] | None = None,
) -> Trace:
    """Make the trace of one run; interval i is between records i and i + 1.

    `software`: The software metrics, ordered by their index in the run; `milestone` makes such a metric. None: the
    counts of this index are left out.
    `derived`: Metrics computed from others; left out if this pass lacks one of the others.
    `dumps`: Path of callgrind's dump files without the process id; read only for simulated metrics.
    `attributes`: Attributes of the trace; `clock` selects the records' timestamps. With `interval_event`, `interval_ns`
    is the number of counts of that event after which an interval ends.
    `whole`: The run may consist of one interval, and must have been recorded to its end.
    `window`: The part of the run to keep, in ns of CLOCK_MONOTONIC; with `whole`, as one interval.
    """
    _check(
        records, software, whole=whole and window is None, fewest=1 if whole or attributes.get("interval_metric") else 2
    )
    rows = main_thread(records)
    intervals = len(rows) - 1
    metrics: list[Metric] = []
    columns: dict[str, NDArray[Any]] = {}

    for metric, column in _counted(collected, records, dumps, intervals):
        metrics.append(metric)
        columns[metric.name] = column

    is_simulated = collected.source != NONE and find_source(collected.source).simulated
    for name in os_metrics:
        meaning = OS_METRICS[name] + (" of the simulator's process" if is_simulated else "")
        if records.wall_ns and name in ("user_time_us", "system_time_us"):
            meaning += " (an observer reads it in ticks of 10 ms)"
        group = next(group for group in OS_GROUPS if name in group.metrics)
        metrics.append(Metric(name, "os", source=group.source, meaning=meaning))
        columns[name] = deltas(rows["os"][:, records.os_columns.index(name)])
    before: dict[str, int] = {}
    for index, milestone_metric in enumerate(software):
        if milestone_metric is None:
            continue
        metrics.append(milestone_metric)
        values = rows["software"][:, index]
        if milestone_metric.semantics != "gauge" and values[0] > 0:  # by constructors, before the first record
            before[milestone_metric.name] = int(values[0])
        columns[milestone_metric.name] = values[1:] if milestone_metric.semantics == "gauge" else deltas(values)
    by_wall = attributes.get("clock", "monotonic") in ("monotonic", PROGRAM_CLOCK)
    counts, period = _paced(rows, collected, attributes) if attributes.get("interval_event") else (None, 0)
    lost = rows["overruns"][1:].astype("i8")
    if window is not None:
        outward = by_wall and counts is None and not attributes.get("interval_metric")
        kept, before = _kept(records, window, outward=outward), {}
        rows, counts = rows[kept], None if counts is None else counts[kept]
        lost = lost[kept][: len(rows) - 1]
        columns = {name: column[kept][: len(rows) - 1] for name, column in columns.items()}
    if window is not None and whole:
        rows, lost = rows[[0, -1]], lost.sum(keepdims=True)
        columns = {metric.name: _joined(metric, columns[metric.name]) for metric in metrics}
    for name, expression in derived.items():
        if all(part in columns for part in expression.names):
            metrics.append(derived_metric(name, expression, {metric.name: metric for metric in metrics}))
            columns[name] = expression.evaluate(columns)

    stamps = rows["monotonic_ns" if by_wall else "cpu_ns"]
    missed, work = lost, {}
    if counts is not None:
        _check_throttling(records, _paced(main_thread(records), collected, attributes)[0], attributes)
        missed, work = missed_overflows(counts, period), describe_overflows(counts, period)
    return Trace.from_columns(
        metrics,
        columns,
        begin_ns=stamps[:-1] - stamps[0],
        end_ns=stamps[1:] - stamps[0],
        overruns=missed,
        attributes={
            **attributes,
            **_facts(records, rows, missed),
            **work,
            **({"counted_before": before} if before else {}),
            "implausible": implausible(columns),
        },
    )


def _counted(collected: Pass, records: Records, dumps: Path, intervals: int) -> Iterator[tuple[Metric, NDArray[Any]]]:
    """Yield each metric of a pass with its column, from the source's own files or from the records."""
    source = None if collected.source == NONE else find_source(collected.source)
    if source is None or source.columns is None:
        yield from hardware_columns(collected, records)
    else:
        yield from source.columns(collected, dumps.with_name(f"{dumps.name}.{records.owner}"), intervals)


def _joined(metric: Metric, column: NDArray[Any]) -> NDArray[Any]:
    """Return the value of a metric over all intervals as those of one interval."""
    return column[-1:] if metric.semantics == "gauge" else np.asarray(column.sum(keepdims=True))


def within(records: Records, window: tuple[int, int]) -> Records:
    """Return the records of the intervals that a window of time bounds, in all threads."""
    stamps = main_thread(records)["monotonic_ns"]
    kept = _kept(records, window, outward=True)
    first, last = stamps[kept][0], stamps[kept][-1]
    times = records.rows["monotonic_ns"]
    return replace(records, rows=records.rows[(times >= first) & (times <= last)])


def _kept(records: Records, window: tuple[int, int], *, outward: bool) -> slice:
    """Return which records of the main thread bound the intervals of a window, a service's load.

    `outward`: From the last record before the window to the first one after it, because the program is idle there;
    otherwise only the intervals inside.
    """
    stamps = main_thread(records)["monotonic_ns"]
    first, last = int(np.searchsorted(stamps, window[0], "left")), int(np.searchsorted(stamps, window[1], "right"))
    if outward:
        first, last = max(first - 1, 0), min(last + 1, len(stamps))
        if stamps[last - 1] < window[1] - _LATE_NS:
            raise RunError(
                f"the records end {(window[1] - int(stamps[-1])) / 1e9:.2g} s before the load ends: the service "
                "replaced itself with another program (exec), or blocked the sampler's signal. Use `sampler: outside`"
            )
    if last - first < 2:
        raise RunError(
            "the load has no whole interval: give it more requests or a longer `duration`, or use a shorter interval"
        )
    return slice(first, last)


_LATE_NS = 300_000_000
"""Tolerated lateness of the last record of a service's load."""


def thread_traces(records: Records, collected: Pass, attributes: Mapping[str, Any]) -> dict[int, Trace]:
    """For each thread that has its own sampler, make a trace: the hardware metrics over the thread's own intervals."""
    traces = {}
    for thread in threads(records):
        rows = of_thread(records, thread)
        stamps = rows["monotonic_ns"]
        missed = rows["overruns"][1:].astype("i8")
        if attributes.get("interval_event"):
            missed = missed_overflows(*_paced(rows, collected, attributes))
        began_ns = int(stamps[0] - records.rows["monotonic_ns"][0])
        traces[thread] = Trace.from_columns(
            collected.metrics,
            {metric.name: deltas(rows["hardware"][:, index]) for index, metric in enumerate(collected.metrics)},
            begin_ns=stamps[:-1] - stamps[0],
            end_ns=stamps[1:] - stamps[0],
            overruns=missed,
            attributes={**attributes, "thread": thread, "thread_begin_ns": began_ns},
        )
    return traces


def _paced(rows: NDArray[Any], collected: Pass, attributes: Mapping[str, Any]) -> tuple[NDArray[np.int64], int]:
    """Return the interval event's count at each record, and the number of counts after which an interval ends."""
    index = [metric.name for metric in collected.metrics].index(attributes["interval_event"])
    return rows["hardware"][:, index], int(attributes["interval_ns"])


def _check_throttling(records: Records, counts: NDArray[np.int64], attributes: Mapping[str, Any]) -> None:
    event, period = attributes["interval_event"], int(attributes["interval_ns"])
    certainty = throttling(records, counts, period)
    if certainty:
        are = "are" if certainty == "has" else "may be"
        raise RunError(
            f"the kernel {certainty} throttled {event} because it caused too many interrupts (an interval ends every "
            f"{period:,} counts): counts {are} missing. Use a longer interval, or raise "
            "kernel.perf_event_max_sample_rate, which the kernel lowers by itself if interrupts take too long"
        )


def _facts(records: Records, rows: NDArray[Any], missed: NDArray[np.int64]) -> dict[str, Any]:
    """Return facts about the sampling, for the trace's attributes."""
    lengths = np.diff(rows["monotonic_ns"]) / 1e6
    facts: dict[str, Any] = {
        "wall_seconds": int(rows["monotonic_ns"][-1] - rows["monotonic_ns"][0]) / 1e9,
        "nested_ticks": records.nested,
        "ended_cleanly": records.state == "finished",
        "missed_ticks": int(missed.sum()),
        "unread_ticks": records.unread,
        "longest_gap_ms": float(lengths.max()),
        "reading_us": float(np.median(rows["read_ns"]) / 1e3),
    }
    if records.papi_version:
        facts["papi_version"] = records.papi_version
    if records.wall_ns:
        return facts | {
            "interrupts_per_record": records.interrupts / len(rows),
            "observer_processor": records.observer_cpu if Mark.PINNED in records.marks else None,
            "real_time": Mark.REAL_TIME in records.marks,
        }
    return facts | {
        "read_in_user_space": Mark.USER_READ in records.marks,
        "made_threads": Mark.THREADS in records.marks,
        "sampled_threads": max(1, records.threads),
        "uneven_work": Mark.UNEVEN in records.marks,
    }


def derived_metric(name: str, expression: MetricExpression, known: Mapping[str, Metric]) -> Metric:
    """Describe a metric computed from others."""
    parts = [known[part] for part in expression.names]
    simulated_part = any(part.kind == "simulated" or part.meaning.startswith("simulated") for part in parts)
    meaning = f"{'simulated: ' if simulated_part else ''}{expression.text}"
    components = tuple(dict.fromkeys(component for part in parts for component in part.components))
    return Metric(name, "derived", unit="", source="formula", meaning=meaning, components=components)


def milestone(name: str, means: str = "compiled", *, semantics: Semantics = "counter") -> Metric:
    """Describe a software metric; `means` is a key of `_MEANS`, the way of counting."""
    source, meaning = _MEANS[means]
    if semantics == "gauge":
        meaning = "value of a program variable at the end of the interval"
    unit = "" if semantics == "gauge" else "events"
    return Metric(name, "software", unit=unit, semantics=semantics, source=source, meaning=meaning)


_MEANS: Mapping[str, tuple[str, str]] = {
    "compiled": ("instrumentation", "milestone compiled into the program"),
    "kernel": ("kernel probe", "hits of a probe, counted by the kernel"),
    "preload": ("interposition", "calls from outside a library to its function, counted by interposition"),
    "python": ("import hook", "entries of Python functions"),
}


def _check(records: Records, software: Sequence[Metric | None], *, whole: bool, fewest: int) -> None:
    """Reject a run whose counts are invalid, or that has fewer than `fewest` intervals."""
    within = [metric.name for metric in software if metric is not None and metric.source != _MEANS["kernel"][0]]
    counted = f"{', '.join(within)}: " if within else ""
    if records.state == "waiting":
        raise RunError(
            "the sampler did not start in the measured program: check that the executed program was built and linked "
            "with {cc} or {cxx}, and that the environment is passed on to it. The sampler never starts in a set-uid "
            "program"
        )
    if records.state == "failed":
        raise RunError(f"the sampler failed: {records.message}")
    if within and records.tables == 0:
        raise SpecError(
            f"{counted}the program loaded no instrumented code. If it loads a system library instead of the "
            'instrumented one in {build}, set `environment: {LD_LIBRARY_PATH: "{build}"}` in the spec, or link the '
            "library statically"
        )
    for mark, sentence in _FATAL.items():
        if mark in records.marks and (within or mark not in _SPOILS_SOFTWARE):
            raise RunError(f"{counted}{sentence}")
    if Mark.EXEC in records.marks and not records.wall_ns:
        raise RunError(
            "the program replaced itself with another program, or started itself again (exec), which ended its "
            "sampler: measure the command that it executes (`ps` shows it), or use `sampler: outside` without software "
            "metrics"
        )
    if records.lost:
        lost = "1 interval was lost" if records.lost == 1 else f"{records.lost:,} intervals were lost"
        raise RunError(f"the record file was full: {lost}. Use a longer interval")
    if records.unread > _UNREAD_SHARE * len(records.rows):
        failed = f"{records.unread:,} of {records.unread + len(records.rows):,} readings of the counters failed"
        closed = (
            "the program probably closed the sampler's file descriptors (a loop of close, or close_range). Use "
            "`sampler: outside` (unperturbed run --sampler outside -- …)"
        )
        raise RunError(f"{failed}: {'repeat the run' if records.wall_ns else closed}")
    if whole and records.state != "finished":
        raise RunError(
            "the program ended without running its exit handlers in its main thread (it called _exit or exec, or "
            "another thread ended it), so its last counts were not read: let the main thread end the program, by "
            "calling exit or by returning from main, or use `sampler: outside`"
        )
    if np.count_nonzero(records.rows["thread"] == 0) <= fewest:
        raise RunError("the program ended within the first interval: give it more work, or use a shorter interval")


_UNREAD_SHARE = 0.05
"""Tolerated share of failed readings: counts are cumulative, so a failed reading joins two intervals but loses none."""

_SPOILS_SOFTWARE = Mark.EXEC | Mark.SHARED_FORK | Mark.UNSHARED
_FATAL: Mapping[Mark, str] = {
    Mark.EXEC: "the program replaced itself with another program (exec), which ended its counters. Measure that other "
    "program directly",
    Mark.SHARED_FORK: "a child process created by a direct system call incremented the program's own counters; use "
    "`sampler: inside`",
    Mark.UNSHARED: "counters of a part of the program could not be shared with the observer: that part was not linked "
    "with {cc} or {cxx}, or the linker moved the counters; use `sampler: inside`",
    Mark.SEPARATE: "a library of the program counts down a variable of its own, so its events could not end intervals: "
    "link it without -Bsymbolic, and keep the symbol unperturbed_remaining global in its version script",
    Mark.SIGNAL_TAKEN: "the program installed its own handler for the sampler's signal: choose another signal with "
    "`signal:`, or use `sampler: outside`",
    Mark.SIGNAL_BLOCKED: "the program blocked the sampler's signal: choose another signal with `signal:`, or use "
    "`sampler: outside`",
    Mark.FROZEN: "the kernel stopped counting while the program was running, as it does when a set-uid program "
    "starts: measure as the user that the set-uid program runs as",
}
"""Marks of runs with invalid counts, and the message for each."""
