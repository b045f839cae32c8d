"""Hardware counts of a run from its records: of the main thread or summed over all, and scaled where events took turns on the counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.collectors.passes import Pass
from unperturbed.collectors.record import Records, deltas
from unperturbed.collectors.trace import Metric
from unperturbed.errors import RunError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["hardware_columns", "main_thread", "of_thread", "threads"]

_WHOLE = 0.999
"""Share of time on the counters that counts as all of it: enabled and running time are read one after the other."""
_FALL = 2**40
"""No count falls by so much from one record to the next, nor does the difference of two counts: a counter of 48 bits was read as it was set anew."""


def main_thread(records: Records) -> NDArray[Any]:
    """Return the records of the main thread (outside: of the whole program), whose bounds are the trace's."""
    return of_thread(records, 0)


def of_thread(records: Records, thread: int) -> NDArray[Any]:
    """Return the records of one thread, in the order of time."""
    of_this = records.rows["thread"] == thread
    rows: NDArray[Any] = records.rows[of_this]
    return rows


def threads(records: Records) -> tuple[int, ...]:
    """Return the numbers of the sampled threads that have an interval, the main thread's (0) first."""
    numbers, count = np.unique(records.rows["thread"], return_counts=True)
    return tuple(int(number) for number in numbers[count > 1])


def hardware_columns(collected: Pass, records: Records) -> Iterator[tuple[Metric, NDArray[Any]]]:
    """Yield each hardware metric of a pass with its column over the main thread's intervals.

    Counts of further threads are added: each thread is read at moments of its own, so its cumulative count is interpolated linearly to the main
    thread's. A multiplexed count is scaled by enabled ÷ running time of its own interval, NaN where the event never ran in it; the
    two times follow as columns of their own.

    Raises
    ------
    RunError
        Events that were not to take turns had to, so that their counts are partial; or a counter was misread.
    """
    rows = main_thread(records)
    _check_rising(collected, records)
    if not collected.multiplexed:
        _check_complete(records)
    for index, metric in enumerate(collected.metrics):
        if collected.multiplexed:
            yield from _scaled(
                metric, deltas(rows["hardware"][:, index]), *(deltas(rows["times"][:, index, k]) for k in (0, 1))
            )
        else:
            column = deltas(rows["hardware"][:, index])
            for thread in threads(records)[1:]:
                column = column + _interpolated(of_thread(records, thread), index, rows["monotonic_ns"])
            yield metric, column


def _check_complete(records: Records) -> None:
    enabled_ns, running_ns = (records.rows[name].astype(np.float64) for name in ("enabled_ns", "running_ns"))
    if (running_ns < _WHOLE * enabled_ns).any():
        share = running_ns.max() / enabled_ns.max()
        raise RunError(
            f"the events were on the counters in {share:.1%} of the time only: somebody else counts on this host too (another profiler, the NMI "
            "watchdog). End that, ask for fewer metrics, or set multiplex: true"
        )


def _check_rising(collected: Pass, records: Records) -> None:
    for thread in threads(records):
        counts = of_thread(records, thread)["hardware"]
        for index, metric in enumerate(collected.metrics):
            gained = deltas(counts[:, index])
            if (gained < -_FALL).any():
                raise RunError(
                    f"{metric.name} fell by {-int(gained.min()):,} between two readings, and a count never falls: the counter was misread"
                )


def _scaled(
    metric: Metric, counts: NDArray[np.int64], enabled_ns: NDArray[np.int64], running_ns: NDArray[np.int64]
) -> Iterator[tuple[Metric, NDArray[Any]]]:
    share = np.divide(running_ns, enabled_ns, out=np.ones(len(counts)), where=enabled_ns > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        column = np.where(running_ns > 0, counts / share, np.where(enabled_ns > 0, np.nan, 0.0))
    whole = running_ns.sum() / max(1, enabled_ns.sum())
    scaled = bool((running_ns < enabled_ns).any())
    said = f"{metric.meaning} (multiplexed: scaled from {whole:.0%} of the time)" if scaled else metric.meaning
    yield replace(metric, scaled=scaled, meaning=said), column
    for name, times in (("enabled", enabled_ns), ("running", running_ns)):
        meaning = f"time in which {metric.name} was {'wanted' if name == 'enabled' else 'on a counter'}"
        yield Metric(f"{metric.name}.{name}_ns", "os", unit="ns", source=metric.source, meaning=meaning), times


def _interpolated(rows: NDArray[Any], index: int, moments_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what a thread counted between the given moments, shape (moments − 1,); what lies before its first record counts from there."""
    counts = rows["hardware"][:, index].astype(np.float64)
    cumulative = np.interp(moments_ns, rows["monotonic_ns"], counts, left=0.0, right=counts[-1])
    return deltas(np.rint(cumulative).astype(np.int64))
