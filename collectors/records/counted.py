"""Counts of one process over its own intervals, from its records or from callgrind's dumps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.collectors.data.trace import PROGRAM_CLOCK, Metric
from unperturbed.collectors.records.counts import (
    hardware_columns,
    interpolated,
    main_thread,
    missed_overflows,
    of_thread,
    threads,
    throttling,
)
from unperturbed.collectors.records.estimates import estimated_columns
from unperturbed.collectors.records.file import Records, deltas
from unperturbed.collectors.records.ranks import WAITS
from unperturbed.collectors.records.threads import simulated_by_thread
from unperturbed.collectors.sources import Pass, find_source
from unperturbed.collectors.sources.callgrind import combine
from unperturbed.collectors.sources.catalogue import OS_GROUPS, OS_METRICS
from unperturbed.collectors.sources.dumps import executable, lifetime, read_dumps
from unperturbed.collectors.sources.limits import Turns, begins, simulated_time, take_turns
from unperturbed.collectors.sources.source import NONE
from unperturbed.errors import RunError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Counted:
    """Metrics of one process over its own intervals."""

    image: str  # File name of its executable
    pid: int
    parent: int  # The process that created it
    metrics: Mapping[str, Metric]
    columns: Mapping[str, NDArray[Any]]  # Each of shape (intervals,)
    moments_ns: NDArray[np.int64]  # Monotonic time at the bounds of the intervals, shape (intervals + 1,)
    stamps_ns: NDArray[np.int64]  # The same on the clock that ends intervals
    missed: NDArray[np.int64]  # Ticks without a record, shape (intervals,)
    rank: int | None = None  # Its MPI rank, or that of the process that started it
    processes: int = 1  # Number of processes whose counts these are

    @property
    def intervals(self) -> int:
        """Return the number of intervals."""
        return len(self.moments_ns) - 1

    def summary(self, origin_ns: int) -> dict[str, Any]:
        """Return who the process is, when it ran (seconds from `origin_ns`), and its total of each counter."""
        begin_ns, end_ns = int(self.moments_ns[0]), int(self.moments_ns[-1])
        counters = [name for name, metric in self.metrics.items() if metric.semantics != "gauge"]
        return {
            "image": self.image,
            "pid": self.pid,
            "parent": self.parent,
            "begin_s": (begin_ns - origin_ns) / 1e9,
            "seconds": (end_ns - begin_ns) / 1e9,
            "intervals": self.intervals,
            "totals": {name: np.nansum(self.columns[name]).item() for name in counters},
            **({} if self.rank is None else {"rank": self.rank, "processes": self.processes}),
        }


@dataclass(frozen=True)
class Collection:
    """What a run collects in each of its processes."""

    collected: Pass
    software: Sequence[Metric | None]
    os_metrics: Sequence[str]
    dumps: Path
    attributes: Mapping[str, Any]
    turns: Turns | None = None  # If the metrics take turns on a simulated processor's counters; records are of slices
    each: bool = False  # Each thread counts software metrics for itself, and the simulator separates threads
    # Software metric that counts within a function → the hardware metric that it counts there
    regions: Mapping[str, str] = field(default_factory=dict)

    def counted(self, records: Records, ended: Sequence[Records] = ()) -> Counted:
        """Return a process's counts over its intervals.

        `ended`: Records of earlier images of the process, whose simulated counts are lost. Their software counts are
        added to the first interval.
        """
        slices = main_thread(records)
        firsts = np.arange(len(slices) - 1) if self.turns is None else begins(len(slices) - 1, self.turns)
        rows = slices[[*firsts, -1]]
        metrics: dict[str, Metric] = {}
        columns: dict[str, NDArray[Any]] = {}
        for metric, column in [*self._hardware(records, len(slices) - 1), *self._of_the_system(records, rows)]:
            metrics[metric.name], columns[metric.name] = metric, column
        for index, milestone_metric in enumerate(self.software):
            if milestone_metric is None:
                continue
            if milestone_metric.name in self.regions and self._is_simulated:
                metrics[milestone_metric.name] = milestone_metric
                columns[milestone_metric.name] = self._simulated_region(records, index, milestone_metric.name)
                continue
            values = rows["software"][:, index]
            column = values[1:] if milestone_metric.semantics == "gauge" else deltas(values)
            for thread in threads(records)[1:] if self.each else ():
                others = of_thread(records, thread)
                column = column + interpolated(
                    others["software"][:, index], others["monotonic_ns"], rows["monotonic_ns"]
                )
            if milestone_metric.semantics != "gauge" and len(column):
                column[0] += sum(int(main_thread(image)["software"][-1, index]) for image in ended)
            metrics[milestone_metric.name], columns[milestone_metric.name] = milestone_metric, column
        by_wall = self.attributes.get("clock", "monotonic") in ("monotonic", PROGRAM_CLOCK)
        missed = np.add.reduceat(slices["overruns"][1:].astype("i8"), firsts)
        if self.attributes.get("interval_event"):
            counts, period = paced(rows, self.collected, self.attributes)
            check_throttling(records, counts, self.attributes)
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
            records.rank,
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
        elif self.each and source.thread_columns is not None:
            yield from self._simulated_sums(records)
        else:
            dump = self.dumps.with_name(f"{self.dumps.name}.{records.owner}")
            counted = source.columns(self.collected, dump, intervals)
            yield from counted if self.turns is None else self._multiplexed(list(counted))

    @property
    def _is_simulated(self) -> bool:
        return self.collected.source != NONE and find_source(self.collected.source).simulated

    def _simulated_region(self, records: Records, number: int, name: str) -> NDArray[np.int64]:
        """Return what a metric counted within a function, in the region with the metric's number."""
        dump = self.dumps.with_name(f"{self.dumps.name}.{records.owner}")
        return combine(self.regions[name], read_dumps(dump, len(main_thread(records)) - 1, region=number))

    def _multiplexed(
        self, counted: Sequence[tuple[Metric, NDArray[np.int64]]]
    ) -> Iterator[tuple[Metric, NDArray[Any]]]:
        """Yield what metrics count that take turns on the counters of the simulated processor."""
        assert self.turns is not None
        assert self.collected.limits is not None
        metrics, columns = {one.name: one for one, _ in counted}, {one.name: column for one, column in counted}
        firsts = begins(len(counted[0][1]), self.turns)
        time_ns = simulated_time(columns)
        asked = {one.name: columns.pop(one.name) for one in self.collected.metrics}
        taken = take_turns(asked, self.collected.limits, self.turns, time_ns)
        yield from estimated_columns([(metrics[name], shared) for name, shared in taken], self.collected.estimate)
        for name, column in columns.items():
            yield metrics[name], np.add.reduceat(column, firsts)

    def _simulated_sums(self, records: Records) -> Iterator[tuple[Metric, NDArray[Any]]]:
        own, *others = simulated_by_thread(records, self.collected, self.dumps).items()
        moments_ns = main_thread(records)["monotonic_ns"]
        for metric, column in own[1].items():
            total = column
            for thread, columns in others:
                counts = np.concatenate([[0], np.cumsum(columns[metric])])
                total = total + interpolated(counts, of_thread(records, thread)["monotonic_ns"], moments_ns)
            yield metric, total

    def _of_the_system(self, records: Records, rows: NDArray[Any]) -> Iterator[tuple[Metric, NDArray[Any]]]:
        for name in self.os_metrics:
            meaning = OS_METRICS[name] + (" of the simulator's process" if self._is_simulated else "")
            if records.wall_ns and name in ("user_time_us", "system_time_us"):
                meaning += " (an observer reads it in ticks of 10 ms)"
            group = next(group for group in OS_GROUPS if name in group.metrics)
            column = deltas(rows["os"][:, records.os_columns.index(name)])
            yield Metric(name, "os", source=group.source, meaning=meaning), column
        for name, metric in WAITS.items():
            if name in records.os_columns:
                yield metric, deltas(rows["os"][:, records.os_columns.index(name)])


def paced(rows: NDArray[Any], collected: Pass, attributes: Mapping[str, Any]) -> tuple[NDArray[np.int64], int]:
    """Return the interval event's count at each record, and the number of counts after which an interval ends."""
    index = [metric.name for metric in collected.metrics].index(attributes["interval_event"])
    return rows["hardware"][:, index], int(attributes["interval_ns"])


def check_throttling(records: Records, counts: NDArray[np.int64], attributes: Mapping[str, Any]) -> None:
    """Raise RunError if the kernel stopped the event that ends intervals."""
    event, period = attributes["interval_event"], int(attributes["interval_ns"])
    certainty = throttling(records, counts, period)
    if certainty:
        are = "are" if certainty == "has" else "may be"
        raise RunError(
            f"the kernel {certainty} throttled {event} because it caused too many interrupts (an interval ends every "
            f"{period:,} counts): counts {are} missing. Use a longer interval, or raise "
            "kernel.perf_event_max_sample_rate, which the kernel lowers by itself if interrupts take too long"
        )
