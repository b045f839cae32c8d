"""Processes of a run: the counts of each, and their sums on one time axis.

Each process ends intervals by itself. If time ends them, the axis is that of the first process, continued by that of a
process which outlives it: counts of the others are interpolated linearly between their records, as those of threads
are. Otherwise (by work, by CPU time, by events), intervals of all processes follow each other in the order of their
ends: an interval is one process's, which keeps the amount of work in it, and a process that waits has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.collectors.data.trace import Metric
from unperturbed.collectors.records.counted import Counted
from unperturbed.collectors.records.counts import main_thread
from unperturbed.collectors.records.file import Records, deltas
from unperturbed.collectors.sources.dumps import has_intervals

if TYPE_CHECKING:
    from numpy.typing import NDArray


def join(processes: Sequence[Counted], *, by_time: bool, whole: bool = False) -> Counted:
    """Add the counts of a run's processes, the first process first; gauges are those of the first.

    `by_time`: Time ends intervals, in all processes at once. `whole`: The result has one interval.
    """
    if len(processes) == 1 and not whole:
        return processes[0]
    metrics: dict[str, Metric] = {}
    for process in processes:
        for name, metric in process.metrics.items():
            known = metrics.setdefault(name, metric)
            metrics[name] = replace(known, scaled=known.scaled or metric.scaled)
    if whole:
        return _at(processes, metrics, np.array(_bounds(processes)))
    return _at(processes, metrics, _axis(processes)) if by_time else _in_sequence(processes, metrics)


def of_rank(processes: Sequence[Counted], *, by_time: bool) -> Counted:
    """Add the counts of a rank's processes: its first, and those that this one started."""
    return replace(join(processes, by_time=by_time), processes=len(processes))


def divide(
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


def replaced(processes: Sequence[Records]) -> Records | None:
    """Return a process that has ended and whose number another one got, if there is one: callgrind lost its counts."""
    last = {one.owner: one for one in processes}
    return next((one for one in processes if one.state == "finished" and last[one.owner] is not one), None)


def is_sampled_to_the_end(dumps: Path, records: Records) -> bool:
    """Return whether callgrind's counts of a process are by interval: its last image has a sampler."""
    dump = dumps.with_name(f"{dumps.name}.{records.owner}")
    return not dump.is_file() or has_intervals(dump)


def unsampled(dumps: Path, known: Sequence[Records]) -> list[Path]:
    """Return callgrind's dumps of processes without records, in the order of process numbers."""
    pids = {one.owner for one in known}
    found = {int(file.suffix[1:]): file for file in dumps.parent.glob(f"{dumps.name}.*") if file.suffix[1:].isdigit()}
    return [found[pid] for pid in sorted(found.keys() - pids) if found[pid].stat().st_size]


def images(processes: Sequence[Mapping[str, Any]], metric: str) -> dict[str, dict[str, Any]]:
    """Return how many processes each executable had, how long they ran, and their share of a metric's total.

    `processes`: As `Counted.summary` describes them. `metric`: Empty if there is none; the share is then one of time.
    """

    def amount(process: Mapping[str, Any]) -> float:
        return float(process["totals"].get(metric, 0.0)) if metric else float(process["seconds"])

    everything = sum(map(amount, processes)) or 1.0
    found: dict[str, dict[str, Any]] = {}
    for process in processes:
        entry = found.setdefault(process["image"], {"processes": 0, "seconds": 0.0, "intervals": 0, "share": 0.0})
        entry["processes"] += 1
        entry["seconds"] += process["seconds"]
        entry["intervals"] += process["intervals"]
        entry["share"] += amount(process) / everything
    return dict(sorted(found.items(), key=lambda item: -item[1]["share"]))


def _bounds(processes: Sequence[Counted]) -> tuple[int, int]:
    return (
        min(int(process.moments_ns[0]) for process in processes),
        max(int(process.moments_ns[-1]) for process in processes),
    )


def _axis(processes: Sequence[Counted]) -> NDArray[np.int64]:
    """Return the first process's moments, continued by those of the process that ends last."""
    own, last = processes[0].moments_ns, max(processes, key=lambda process: int(process.moments_ns[-1]))
    return np.concatenate([own, last.moments_ns[last.moments_ns > own[-1]]])


def _at(processes: Sequence[Counted], metrics: Mapping[str, Metric], axis: NDArray[np.int64]) -> Counted:
    """Return the sums between the moments of an axis."""
    columns: dict[str, NDArray[Any]] = {}
    for name, metric in metrics.items():
        if metric.semantics == "gauge":
            columns[name] = _last_known(processes[0], name, axis[1:])
            continue
        parts = [_between(process, process.columns[name], axis) for process in processes if name in process.columns]
        columns[name] = np.sum(parts, axis=0)
    missed = np.rint(np.sum([_between(process, process.missed, axis) for process in processes], axis=0))
    return replace(
        processes[0], metrics=metrics, columns=columns, moments_ns=axis, stamps_ns=axis, missed=missed.astype(np.int64)
    )


def _between(process: Counted, column: NDArray[Any], axis: NDArray[np.int64]) -> NDArray[Any]:
    """Return a process's counts between the moments of an axis."""
    own = process.intervals
    if len(axis) > own and np.array_equal(axis[: own + 1], process.moments_ns):
        return np.concatenate([column, np.zeros(len(axis) - own - 1, column.dtype)])
    sums = np.concatenate([[0.0], np.cumsum(np.nan_to_num(column.astype(np.float64)))])
    at = np.interp(axis, process.moments_ns, sums, left=0.0, right=sums[-1])
    return deltas(np.rint(at).astype(np.int64))


def _last_known(process: Counted, name: str, moments_ns: NDArray[np.int64]) -> NDArray[Any]:
    """Return a gauge's value at each moment: that at the end of the interval, or the nearest known."""
    at = np.searchsorted(process.moments_ns[1:], moments_ns, side="right") - 1
    values: NDArray[Any] = process.columns[name][np.clip(at, 0, process.intervals - 1)]
    return values


def _in_sequence(processes: Sequence[Counted], metrics: Mapping[str, Metric]) -> Counted:
    """Return all intervals, in the order of their ends."""
    ends = np.concatenate([process.moments_ns[1:] for process in processes])
    order = np.argsort(ends, kind="stable")
    lengths = np.concatenate([np.diff(process.stamps_ns) for process in processes])[order]
    columns: dict[str, NDArray[Any]] = {}
    for name, metric in metrics.items():
        if metric.semantics == "gauge":
            columns[name] = _last_known(processes[0], name, ends[order])
            continue
        parts = [
            process.columns[name] if name in process.columns else np.zeros(process.intervals, np.int64)
            for process in processes
        ]
        columns[name] = np.concatenate(parts)[order]
    begin_ns, _ = _bounds(processes)
    return replace(
        processes[0],
        metrics=metrics,
        columns=columns,
        moments_ns=np.concatenate([[begin_ns], ends[order]]),
        stamps_ns=np.concatenate([[0], np.cumsum(lengths)]),
        missed=np.concatenate([process.missed for process in processes])[order],
    )
