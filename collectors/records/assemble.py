"""Assembly of a run's trace from its records and, if simulated, from callgrind's dumps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.collectors.data.trace import PROGRAM_CLOCK, Metric, Semantics, Trace
from unperturbed.collectors.records.counted import Collection, Counted, paced
from unperturbed.collectors.records.counts import (
    describe_overflows,
    implausible,
    main_thread,
)
from unperturbed.collectors.records.file import Mark, Records
from unperturbed.collectors.records.processes import (
    divide,
    is_sampled_to_the_end,
    join,
    of_rank,
    replaced,
    unsampled,
)
from unperturbed.collectors.records.ranks import by_rank
from unperturbed.collectors.records.window import in_window
from unperturbed.collectors.sources import Pass, find_source
from unperturbed.collectors.sources.limits import Turns
from unperturbed.collectors.sources.source import NONE
from unperturbed.common.expressions.metrics import MetricExpression
from unperturbed.errors import RunError, SpecError

if TYPE_CHECKING:
    pass


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
    turns: Turns | None = None,
    each_thread: bool = False,
    regions: Mapping[str, str] = MappingProxyType({}),
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
    `each_thread`: Each thread counted software metrics for itself, and the simulator separated threads.
    `regions`: Software metrics that count within a function, with the hardware metric that each counts there.
    `window`: The part of the run to keep, in ns of CLOCK_MONOTONIC; with `whole`, as one interval.
    `turns`: If simulated metrics take turns on the counters: records are of slices, several of which are an interval.
    """
    source = None if collected.source == NONE else find_source(collected.source)
    simulated = source is not None and source.simulated
    alone = not further and not (simulated and unsampled(dumps, [records]))
    fewest = 1 if whole or attributes.get("interval_metric") else 2
    _check(records, software, whole=whole and window is None, fewest=fewest if alone else 0, alone=alone)
    for other in further:
        _check_further(other)
    run = Collection(collected, software, os_metrics, dumps, attributes, turns, each_thread, regions)
    if simulated:
        if first := replaced([records, *further]):
            raise RunError(
                f"two processes of the run had the number {first.owner} (the first one was {first.image}), and the "
                "simulator keeps only the counts of the last: do not give processes PID namespaces of their own "
                "(`unshare --pid`, containers), or use `sampler: outside`, with metrics that are not simulated"
            )
        further = [one for one in further if is_sampled_to_the_end(dumps, one)]
    with_counts, ended = divide([records, *further], by_last_image=simulated)
    processes = [run.counted(one, ended.get(one.owner, ())) for one in with_counts]
    if simulated and not alone:
        processes += [run.simulated_only(file) for file in unsampled(dumps, [records, *further])]
    clock = attributes.get("clock", "monotonic")
    by_time = clock == "monotonic" and "interval_event" not in attributes
    groups, launchers = by_rank(processes)
    if any(process.rank is not None for process in processes):
        processes = [of_rank(group, by_time=by_time) for group in groups]
    if window is not None:
        outward = clock in ("monotonic", PROGRAM_CLOCK) and not {"interval_event", "interval_metric"} & {*attributes}
        processes = in_window(processes, window, outward=outward)
    as_one = whole and not (alone and window is None)
    joined = join(processes, by_time=by_time, whole=as_one) if processes else None
    if joined is None or joined.intervals < fewest:
        raise RunError(_TOO_SHORT if window is None else _SHORT_LOAD)
    described = {**attributes, **_facts(records, joined), **_overflows(records, collected, attributes)}
    if window is None and (before := _counted_before(records, software)):
        described["counted_before"] = before
    if len(processes) == 1:
        return _trace(joined, derived, described), []
    origin_ns = int(joined.moments_ns[0])
    if launchers:
        described["launchers"] = [launcher.summary(origin_ns) for launcher in launchers]
    told = [process.summary(origin_ns) for process in processes]
    each = [
        _trace(process, derived, {**attributes, "processes": [summary]})
        for process, summary in zip(processes, told, strict=True)
    ]
    return _trace(joined, derived, {**described, "processes": told}), each


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
    return describe_overflows(*paced(main_thread(records), collected, attributes))


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


def region_metric(name: str, function: str, counted: Metric) -> Metric:
    """Describe a software metric that counts a hardware metric within a function."""
    simulated = "simulated: " if counted.kind == "simulated" else ""
    meaning = f"{simulated}{counted.name} from the entry of {function} until it is left"
    components = tuple(f"{component} within {function}" for component in counted.components)
    return Metric(name, "software", counted.unit, source="instrumentation", meaning=meaning, components=components)


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
            "program, nor in mpirun and other programs that start ranks: a rank that is not built here must be linked "
            "dynamically"
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
            raise RunError(f"{counted}{sentence}", recurs=mark not in _BY_CHANCE)
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


_SHORT_LOAD = "the load ended within the first interval: give it more requests, or use a shorter interval"
_TOO_SHORT = "the program ended within the first interval: give it more work, or use a shorter interval"


def _check_further(records: Records) -> None:
    """Reject a run if the counts of another than its first process are invalid."""
    who = f"process {records.owner} ({records.image}), which the program started: "
    if records.state == "failed":
        raise RunError(f"{who}the sampler failed: {records.message}")
    for mark, sentence in _FATAL.items():
        if mark in records.marks:
            raise RunError(f"{who}{sentence}", recurs=mark not in _BY_CHANCE)
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
_BY_CHANCE = Mark.UNCOUNTED | Mark.SIGNAL_BLOCKED | Mark.FROZEN
"""Marks that the next attempt may not have."""
_FATAL: Mapping[Mark, str] = {
    Mark.EXEC: "the program replaced itself with another program (exec), which ended its counters. Measure that other "
    "program directly",
    Mark.SHARED_FORK: "a child process created by a direct system call incremented the program's own counters; use "
    "`sampler: inside`",
    Mark.UNSHARED: "counters of a part of the program could not be shared with the observer: that part was not linked "
    "with {cc} or {cxx}, or the linker moved the counters; use `sampler: inside`",
    Mark.UNCOUNTED: "a process that the program started could not create its record file beside that of the run (is "
    "the disk full, or has the program limited the size of its files, changed its root folder or its user?). Use "
    "`sampler: outside`, or `processes: first` to count the first process alone",
    Mark.NODES: "the ranks of the run are on several nodes, whose clocks and process numbers differ, so their counts "
    "cannot be joined: start them on one node (`srun --nodes=1`, or `mpirun` without other hosts)",
    Mark.SEPARATE: "a library of the program counts down a variable of its own, so its events could not end intervals: "
    "link it without -Bsymbolic, and keep the symbol unperturbed_remaining global in its version script",
    Mark.SIGNAL_TAKEN: "the program installed its own handler for the sampler's signal: choose another signal with "
    "`signal:`, or use `sampler: outside`",
    Mark.SIGNAL_BLOCKED: "the program blocked the sampler's signal: choose another signal with `signal:`, or use "
    "`sampler: outside`",
    Mark.LEFT: "the program left a function that a metric counts `within` by longjmp, or ran it on several stacks "
    "(coroutines), so its end is unknown: count within a function that always returns",
    Mark.CROSSINGS: "the simulated program entered and left functions that metrics count `within` more than 200,000 "
    "times, each of which takes the simulator 1 ms: count within a function that is called less often",
    Mark.FROZEN: "the kernel stopped counting while the program was running, as it does when a set-uid program "
    "starts: measure as the user that the set-uid program runs as",
}
"""Marks of runs with invalid counts, and the message for each."""
