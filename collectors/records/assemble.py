"""Assembly of a run's trace from its records and, if simulated, from callgrind's dumps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from unperturbed.collectors.records.processes import Counted, join
from unperturbed.collectors.sources import Pass, find_source
from unperturbed.collectors.sources.callgrind import executable, has_intervals, lifetime
from unperturbed.collectors.sources.catalogue import OS_GROUPS, OS_METRICS
from unperturbed.collectors.sources.source import NONE
from unperturbed.common.expressions.metrics import MetricExpression
from unperturbed.errors import RunError, SpecError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def assemble(records: Records, collected: Pass, **kwargs: Any) -> Trace:
    """Make the trace of one run, as `assemble_processes` does, without those of its processes."""
    return assemble_processes(records, collected, **kwargs)[0]


def assemble_processes(
    records: Records,
    collected: Pass,
    *,
    software: Sequence[Metric | None],
    os_metrics: Sequence[str],
    derived: Mapping[str, MetricExpression],
    dumps: Path,
    attributes: Mapping[str, Any],
    whole: bool = False,
    further: Sequence[Records] = (),
    window: tuple[int, int] | None = None,
) -> tuple[Trace, list[Trace]]:
    """Make the trace of one run, and one of each process if it has several; interval i is between records i and i + 1.

    `software`: The software metrics, ordered by their index in the run; `milestone` makes such a metric. None: the
    counts of this index are left out.
    `derived`: Metrics computed from others; left out if this pass lacks one of the others.
    `dumps`: Path of callgrind's dump files without the process id; read only for simulated metrics.
    `attributes`: Attributes of the trace; `clock` selects the records' timestamps. With `interval_event`, `interval_ns`
    is the number of counts of that event after which an interval ends.
    `whole`: The run may consist of one interval, and must have been recorded to its end.
    `further`: Records of the run's other processes, each in its own file.
    `window`: The part of the run to keep, in ns of CLOCK_MONOTONIC; with `whole`, as one interval.
    """
    source = None if collected.source == NONE else find_source(collected.source)
    simulated = source is not None and source.simulated
    alone = not further and not (simulated and _others(dumps, [records]))
    fewest = 1 if whole or attributes.get("interval_metric") else 2
    _check(records, software, whole=whole and window is None, fewest=fewest if alone else 0, alone=alone)
    for other in further:
        _check_further(other)
    run = _Run(collected, software, os_metrics, dumps, attributes)
    if simulated:
        further = [one for one in further if _is_sampled_to_the_end(dumps, one)]
    with_counts, ended = _divide([records, *further], by_last_image=simulated)
    processes = [run.counted(one, ended.get(one.owner, ())) for one in with_counts]
    if simulated and not alone:
        processes += [run.simulated_only(file) for file in _others(dumps, [records, *further])]
    clock = attributes.get("clock", "monotonic")
    by_time = clock == "monotonic" and "interval_event" not in attributes
    if window is not None:
        outward = clock in ("monotonic", PROGRAM_CLOCK) and not {"interval_event", "interval_metric"} & {*attributes}
        processes = _in_window(processes, window, outward=outward)
    as_one = whole and not (alone and window is None)
    joined = join(processes, by_time=by_time, whole=as_one) if processes else None
    if joined is None or joined.intervals < fewest:
        raise RunError(_TOO_SHORT)
    described = {**attributes, **_facts(records, joined), **_overflows(records, collected, attributes)}
    if window is None and (before := _counted_before(records, software)):
        described["counted_before"] = before
    if len(processes) == 1:
        return _trace(joined, derived, described), []
    origin_ns = int(joined.moments_ns[0])
    told = [process.summary(origin_ns) for process in processes]
    each = [
        _trace(process, derived, {**attributes, "processes": [summary]})
        for process, summary in zip(processes, told, strict=True)
    ]
    return _trace(joined, derived, {**described, "processes": told}), each


@dataclass(frozen=True)
class _Run:
    """What a run collected, in each of its processes."""

    collected: Pass
    software: Sequence[Metric | None]
    os_metrics: Sequence[str]
    dumps: Path
    attributes: Mapping[str, Any]

    def counted(self, records: Records, ended: Sequence[Records] = ()) -> Counted:
        """Return a process's counts over its intervals.

        `ended`: Records of earlier images of the process, whose simulated counts are lost. Their software counts are
        added to the first interval.
        """
        rows = main_thread(records)
        metrics: dict[str, Metric] = {}
        columns: dict[str, NDArray[Any]] = {}
        for metric, column in [*self._hardware(records, len(rows) - 1), *self._of_the_system(records, rows)]:
            metrics[metric.name], columns[metric.name] = metric, column
        for index, milestone_metric in enumerate(self.software):
            if milestone_metric is None:
                continue
            values = rows["software"][:, index]
            column = values[1:] if milestone_metric.semantics == "gauge" else deltas(values)
            if milestone_metric.semantics != "gauge" and len(column):
                column[0] += sum(int(main_thread(image)["software"][-1, index]) for image in ended)
            metrics[milestone_metric.name], columns[milestone_metric.name] = milestone_metric, column
        by_wall = self.attributes.get("clock", "monotonic") in ("monotonic", PROGRAM_CLOCK)
        missed = rows["overruns"][1:].astype("i8")
        if self.attributes.get("interval_event"):
            counts, period = _paced(rows, self.collected, self.attributes)
            _check_throttling(records, counts, self.attributes)
            missed = missed_overflows(counts, period)
        return Counted(
            records.image,
            records.owner,
            records.parent,
            metrics,
            columns,
            rows["monotonic_ns"],
            rows["monotonic_ns" if by_wall else "cpu_ns"],
            missed,
        )

    def simulated_only(self, dump: Path) -> Counted:
        """Return the counts of a process without a sampler, as one interval: callgrind counted it as a whole."""
        source = find_source(self.collected.source)
        assert source.columns is not None
        begin_ns, end_ns = lifetime(dump)
        counted = list(source.columns(self.collected, dump, None))
        moments = np.array([begin_ns, end_ns])
        return Counted(
            executable(dump),
            int(dump.suffix[1:]),
            0,
            {metric.name: metric for metric, _ in counted},
            {metric.name: column for metric, column in counted},
            moments,
            moments,
            np.zeros(1, np.int64),
        )

    def _hardware(self, records: Records, intervals: int) -> Iterator[tuple[Metric, NDArray[Any]]]:
        source = None if self.collected.source == NONE else find_source(self.collected.source)
        if source is None or source.columns is None:
            yield from hardware_columns(self.collected, records)
        else:
            dump = self.dumps.with_name(f"{self.dumps.name}.{records.owner}")
            yield from source.columns(self.collected, dump, intervals)

    def _of_the_system(self, records: Records, rows: NDArray[Any]) -> Iterator[tuple[Metric, NDArray[Any]]]:
        simulated = self.collected.source != NONE and find_source(self.collected.source).simulated
        for name in self.os_metrics:
            meaning = OS_METRICS[name] + (" of the simulator's process" if simulated else "")
            if records.wall_ns and name in ("user_time_us", "system_time_us"):
                meaning += " (an observer reads it in ticks of 10 ms)"
            group = next(group for group in OS_GROUPS if name in group.metrics)
            column = deltas(rows["os"][:, records.os_columns.index(name)])
            yield Metric(name, "os", source=group.source, meaning=meaning), column


def _divide(
    processes: Sequence[Records], *, by_last_image: bool
) -> tuple[list[Records], dict[int, tuple[Records, ...]]]:
    """Return the records that have intervals, and for each process those of its earlier images without counts.

    A process that executes another program has records of each. Callgrind keeps only the counts of the last.
    """
    last = {one.owner: one for one in processes}
    kept = [one for one in processes if not by_last_image or last[one.owner] is one]
    ended = {
        pid: tuple(one for one in processes if one.owner == pid and one is not last[pid] and len(main_thread(one)))
        for pid in (last if by_last_image else ())
    }
    return [one for one in kept if len(main_thread(one)) > 1], ended


def _is_sampled_to_the_end(dumps: Path, records: Records) -> bool:
    """Return whether callgrind's counts of a process are by interval: its last image has a sampler."""
    dump = dumps.with_name(f"{dumps.name}.{records.owner}")
    return not dump.is_file() or has_intervals(dump)


def _others(dumps: Path, known: Sequence[Records]) -> list[Path]:
    """Return callgrind's dumps of processes without records, in the order of process numbers."""
    pids = {one.owner for one in known}
    found = {int(file.suffix[1:]): file for file in dumps.parent.glob(f"{dumps.name}.*") if file.suffix[1:].isdigit()}
    return [found[pid] for pid in sorted(found.keys() - pids) if found[pid].stat().st_size]


def _counted_before(records: Records, software: Sequence[Metric | None]) -> dict[str, int]:
    """Return the events of each software metric before the first record, in constructors."""
    rows = main_thread(records)
    return {
        metric.name: int(rows["software"][0, index])
        for index, metric in enumerate(software)
        if metric is not None and metric.semantics != "gauge" and len(rows) and rows["software"][0, index] > 0
    }


def _trace(counted: Counted, derived: Mapping[str, MetricExpression], attributes: Mapping[str, Any]) -> Trace:
    metrics, columns = dict(counted.metrics), dict(counted.columns)
    for name, expression in derived.items():
        if all(part in columns for part in expression.names):
            metrics[name] = derived_metric(name, expression, metrics)
            columns[name] = expression.evaluate(columns)
    stamps = counted.stamps_ns
    return Trace.from_columns(
        list(metrics.values()),
        columns,
        begin_ns=stamps[:-1] - stamps[0],
        end_ns=stamps[1:] - stamps[0],
        overruns=counted.missed,
        attributes={**attributes, "implausible": implausible(columns)},
    )


def _overflows(records: Records, collected: Pass, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the skid of intervals that an event ends, in the first process."""
    if not attributes.get("interval_event"):
        return {}
    return describe_overflows(*_paced(main_thread(records), collected, attributes))


def _in_window(processes: Sequence[Counted], window: tuple[int, int], *, outward: bool) -> list[Counted]:
    """Return the processes' intervals in a window; those that have none are left out."""
    kept = []
    last_ns = max(int(process.moments_ns[-1]) for process in processes) if processes else 0
    for process in processes:
        bounds = _kept(process.moments_ns, window, outward=outward)
        if bounds.stop - bounds.start > 1:
            part = slice(bounds.start, bounds.stop - 1)
            columns = {name: column[part] for name, column in process.columns.items()}
            moments, stamps = process.moments_ns[bounds], process.stamps_ns[bounds]
            kept.append(
                replace(process, columns=columns, moments_ns=moments, stamps_ns=stamps, missed=process.missed[part])
            )
    _check_window(kept, window, last_ns, outward=outward)
    return kept


def within(records: Records, window: tuple[int, int]) -> Records:
    """Return the records of the intervals that a window of time bounds, in all threads."""
    stamps = main_thread(records)["monotonic_ns"]
    kept = stamps[_kept(stamps, window, outward=True)]
    times = records.rows["monotonic_ns"]
    return replace(records, rows=records.rows[(times >= kept[0]) & (times <= kept[-1])])


def _kept(stamps: NDArray[np.int64], window: tuple[int, int], *, outward: bool) -> slice:
    """Return which records of the main thread bound the intervals of a window, a service's load.

    `outward`: From the last record before the window to the first one after it, because the program is idle there;
    otherwise only the intervals inside.
    """
    first, last = int(np.searchsorted(stamps, window[0], "left")), int(np.searchsorted(stamps, window[1], "right"))
    return slice(max(first - 1, 0), min(last + 1, len(stamps))) if outward else slice(first, last)


def _check_window(kept: Sequence[Counted], window: tuple[int, int], last_ns: int, *, outward: bool) -> None:
    if outward and last_ns < window[1] - _LATE_NS:
        raise RunError(
            f"the records end {(window[1] - last_ns) / 1e9:.2g} s before the load ends: the service replaced itself "
            "with another program (exec), or blocked the sampler's signal. Use `sampler: outside`"
        )
    if not kept:
        raise RunError(
            "the load has no whole interval: give it more requests or a longer `duration`, or use a shorter interval"
        )


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


def _facts(records: Records, joined: Counted) -> dict[str, Any]:
    """Return facts about the sampling of the first process, and the length of the whole run, for the attributes."""
    rows = main_thread(records)
    lengths = np.diff(joined.moments_ns) / 1e6
    facts: dict[str, Any] = {
        "wall_seconds": int(joined.moments_ns[-1] - joined.moments_ns[0]) / 1e9,
        "nested_ticks": records.nested,
        "ended_cleanly": records.state == "finished",
        "missed_ticks": int(joined.missed.sum()),
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
    "jvm": ("JVM", "events of the Java virtual machine, or entries of methods, counted by a library in it"),
}


def _check(
    records: Records, software: Sequence[Metric | None], *, whole: bool, fewest: int, alone: bool = True
) -> None:
    """Reject a run whose counts are invalid, or that has fewer than `fewest` intervals.

    `alone`: No other process of the run has counts, such as one that the program replaced itself with.
    """
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
    if whole and alone and records.state != "finished":
        raise RunError(
            "the program ended without running its exit handlers in its main thread (it called _exit or exec, or "
            "another thread ended it), so its last counts were not read: let the main thread end the program, by "
            "calling exit or by returning from main, or use `sampler: outside`"
        )
    if np.count_nonzero(records.rows["thread"] == 0) <= fewest:
        raise RunError(_TOO_SHORT)


_TOO_SHORT = "the program ended within the first interval: give it more work, or use a shorter interval"


def _check_further(records: Records) -> None:
    """Reject a run if the counts of another than its first process are invalid."""
    who = f"process {records.owner} ({records.image}), which the program started: "
    if records.state == "failed":
        raise RunError(f"{who}the sampler failed: {records.message}")
    for mark, sentence in _FATAL.items():
        if mark in records.marks:
            raise RunError(f"{who}{sentence}")
    if records.lost:
        raise RunError(f"{who}the record file was full. Use a longer interval")
    if records.unread > _UNREAD_SHARE * len(records.rows) + 1:
        raise RunError(
            f"{who}{records.unread:,} of {records.unread + len(records.rows):,} readings of the counters failed, "
            f"because it closed the sampler's file descriptors, as daemons do. {_OUTSIDE}"
        )


_OUTSIDE = (
    "Use `sampler: outside` (unperturbed run --sampler outside -- …), or `processes: first` to count the first process "
    "alone"
)


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
    Mark.UNCOUNTED: "a process that the program started could not create its record file beside that of the run (is "
    "the disk full, or has the program changed its root folder or its user?). Use `sampler: outside`, or `processes: "
    "first` to count the first process alone",
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
