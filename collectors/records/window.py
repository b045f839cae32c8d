"""Window of a run: the intervals of a service's load, in each process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.collectors.records.counted import Counted
from unperturbed.collectors.records.counts import main_thread
from unperturbed.collectors.records.file import Records
from unperturbed.errors import RunError

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LATE_NS = 300_000_000
"""Tolerated lateness of the last record of a service's load."""


def in_window(processes: Sequence[Counted], window: tuple[int, int], *, outward: bool) -> list[Counted]:
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
