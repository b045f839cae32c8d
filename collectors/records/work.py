"""Intervals by work: how far behind its overflow each record was read, overflows without a record, and throttling.

The kernel sets an event that ends intervals of N counts to overflow at N, 2 N, 3 N, … counts since it was enabled. Its
own count in a record therefore shows both numbers: the periods that are over, and the counts since the last of them,
which is the skid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unperturbed.collectors.records.counts import main_thread
from unperturbed.collectors.records.file import Mark, Records

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INNER = slice(1, -1)
"""The first and the last record are the program's beginning and end: no overflow ended them."""


def missed_overflows(counts: NDArray[np.int64], period: int) -> NDArray[np.int64]:
    """Return how many overflows had no record of their own, by interval.

    `counts`: array of int64, shape (records,). Cumulative count, at each record, of the event that ends intervals.
    Result: array of int64, shape (records − 1,). The last interval ends with the program: every overflow within it was
    missed.
    """
    over = np.diff(counts // period)
    over[:-1] -= 1
    return np.maximum(over, 0)


def skids(counts: NDArray[np.int64], period: int) -> NDArray[np.int64]:
    """Return how many counts after its overflow each record was read, shape (records − 2,).

    `counts`: array of int64, shape (records,). Cumulative count of the event that ends intervals.
    """
    skid: NDArray[np.int64] = counts[_INNER] % period
    return skid


def throttling(records: Records, counts: NDArray[np.int64], period: int) -> Literal["", "has", "may have"]:
    """Return whether the kernel stopped the event because it interrupted too often, so that counts are missing.

    Inside the program the kernel says so itself, in the event's ring buffer. An event that threads inherit has none:
    there the kernel's own rule is applied to the records. It stops an event that overflows more often within one of its
    ticks than `kernel.perf_event_max_sample_rate` allows, and lets it go on at the next tick. Several threads may have
    so many each, and an event that is scheduled anew goes on at once: by the rule, counts may be missing.

    `counts`: array of int64, shape (records,). Cumulative count of the event that ends intervals.
    """
    if Mark.THROTTLED in records.marks:
        return "has"
    if not (records.sample_rate and records.tick_ns):
        return ""
    allowed = max(1.0, records.sample_rate * records.tick_ns / 1e9)
    stamps = main_thread(records)["monotonic_ns"]
    before = np.searchsorted(stamps, stamps - records.tick_ns, side="left")
    over = counts // period
    return "may have" if (over - over[before] >= allowed).any() else ""


def describe_overflows(counts: NDArray[np.int64], period: int) -> dict[str, Any]:
    """Return what a trace keeps of its intervals by work.

    `counts`: array of int64, shape (records,). Cumulative count of the event that ends intervals.
    Result: `skid_median` and `skid_p99`, in counts; NaN where no overflow ended an interval.
    """
    skid = skids(counts, period)
    median, p99 = np.quantile(skid, (0.5, 0.99)) if len(skid) else (np.nan, np.nan)
    return {"skid_median": float(median), "skid_p99": float(p99)}
