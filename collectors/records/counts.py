"""Hardware counts of a run from its records: summed over threads, scaled if multiplexed, and checked.

The checks compare counts: in every program, the count of a part is at most the count of the whole. They reveal wrong
event tables, errata, speculative counts and multiplexing. Violations are reported, not corrected.

Intervals by work: if an event ends intervals of N counts, the kernel makes the event overflow at N, 2 N, 3 N, … counts
since it was enabled. The event's count in a record therefore shows how many periods have ended, and the number of
counts since the end of the last one, the skid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unperturbed.collectors.data.trace import Metric
from unperturbed.collectors.records.estimates import estimated_columns
from unperturbed.collectors.records.file import Mark, Records, deltas
from unperturbed.collectors.sources import Pass
from unperturbed.collectors.sources.limits import Shared
from unperturbed.collectors.sources.perf.sysfs import confinement
from unperturbed.errors import RunError

if TYPE_CHECKING:
    from numpy.typing import NDArray


_WHOLE = 0.999
"""Least share of time on a counter that is treated as all the time: enabled and running time are read in sequence."""
_FALL = 2**40
"""Decrease of a count that proves a misreading: a 48-bit counter was read while it was being reset."""


def main_thread(records: Records) -> NDArray[Any]:
    """Return the main thread's records, which bound the trace's intervals; from an observer, the whole program's."""
    return of_thread(records, 0)


def of_thread(records: Records, thread: int) -> NDArray[Any]:
    """Return the records of one thread, in time order."""
    rows: NDArray[Any] = records.rows[records.rows["thread"] == thread]
    return rows


def threads(records: Records) -> tuple[int, ...]:
    """Return the numbers of the sampled threads that have at least one interval, the main thread's (0) first."""
    numbers, count = np.unique(records.rows["thread"], return_counts=True)
    return tuple(int(number) for number in numbers[count > 1])


def hardware_columns(collected: Pass, records: Records) -> Iterator[tuple[Metric, NDArray[Any]]]:
    """Yield each hardware metric of a pass with its column over the main thread's intervals.

    Counts of other threads are added: each thread is read at its own times, so its cumulative counts are interpolated
    linearly at the main thread's times. A multiplexed count is estimated (see `estimates`); the columns from which it
    was follow. Scaled by the interval's ratio of enabled to running time, it is NaN if it was not counted there.
    """
    rows = main_thread(records)
    for thread in threads(records):
        counts = of_thread(records, thread)["hardware"]
        for index, metric in enumerate(collected.metrics):
            gained = deltas(counts[:, index])
            if (gained < -_FALL).any():
                fell = f"{metric.name} fell by {-int(gained.min()):,} between two readings"
                raise RunError(f"{fell}, but counts never fall: the counter was misread; repeat the run")
    if collected.multiplexed:
        shared = []
        for index, metric in enumerate(collected.metrics):
            times = (deltas(rows["times"][:, index, kind]) for kind in (0, 1))
            shared.append((metric, Shared(deltas(rows["hardware"][:, index]), *times)))
        yield from estimated_columns(shared, collected.estimate)
        return
    _check_complete(records)
    for index, metric in enumerate(collected.metrics):
        column = deltas(rows["hardware"][:, index])
        for thread in threads(records)[1:]:
            others = of_thread(records, thread)
            column = column + interpolated(others["hardware"][:, index], others["monotonic_ns"], rows["monotonic_ns"])
        yield metric, column


def _check_complete(records: Records) -> None:
    enabled_ns, running_ns = (records.rows[name].astype(np.float64) for name in ("enabled_ns", "running_ns"))
    if (running_ns < _WHOLE * enabled_ns).any():
        share = running_ns.max() / enabled_ns.max()
        if hybrid := confinement():
            raise RunError(f"the events were counted only {share:.1%} of the time: {hybrid}")
        raise RunError(
            f"the events were counted only {share:.1%} of the time: another user of this host's counters (a profiler, "
            "the NMI watchdog) is active. Stop it, request fewer metrics, or set `multiplex: true`"
        )


def interpolated(
    counts: NDArray[np.int64], stamps_ns: NDArray[np.int64], moments_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a thread's counts between given times, shape (times − 1,), interpolated linearly between its records.

    `counts`: Cumulative, at the times `stamps_ns`.
    """
    cumulative = np.interp(moments_ns, stamps_ns, counts.astype(np.float64), left=0.0, right=float(counts[-1]))
    return deltas(np.rint(cumulative).astype(np.int64))


_SLACK = 0.01
"""Tolerated excess of a part over its whole: the counters of a reading are read in sequence, not at the same time."""


def _cache_parts() -> Iterator[tuple[str, str]]:
    for level in (1, 2, 3):
        for side in "DIT":
            yield from ((f"PAPI_L{level}_{side}C{action}", f"PAPI_L{level}_{side}CA") for action in "MHRW")
        for side in "DI":
            yield from ((f"PAPI_L{level}_{side}C{action}", f"PAPI_L{level}_TC{action}") for action in "MA")
        yield from ((f"PAPI_L{level}_{kind}M", f"PAPI_L{level}_TCM") for kind in ("LD", "ST"))
    for level in (2, 3):
        yield from ((f"PAPI_L{level}_{kind}M", f"PAPI_L{level - 1}_{kind}M") for kind in ("DC", "IC", "TC", "LD", "ST"))


_PARTS_OF = {
    "PAPI_BR_INS": "PAPI_BR_MSP PAPI_BR_CN PAPI_BR_UCN",
    "PAPI_BR_CN": "PAPI_BR_TKN PAPI_BR_NTK PAPI_BR_PRC",
    "PAPI_TLB_TL": "PAPI_TLB_DM PAPI_TLB_IM",
    "PAPI_LST_INS": "PAPI_LD_INS PAPI_SR_INS",
    "PAPI_TOT_INS": "PAPI_BR_INS PAPI_FP_INS PAPI_INT_INS PAPI_VEC_INS",
    "PAPI_TOT_CYC": "PAPI_STL_ICY PAPI_STL_CCY PAPI_RES_STL PAPI_MEM_SCY",
    "perf::cache-references": "perf::cache-misses",
    "perf::branches": "perf::branch-misses",
    "perf::branch-instructions": "perf::branch-misses",
    "perf::L1-dcache-loads": "perf::L1-dcache-load-misses",
    "perf::LLC-loads": "perf::LLC-load-misses",
    "perf::dTLB-loads": "perf::dTLB-load-misses",
    "perf::iTLB-loads": "perf::iTLB-load-misses",
    "perf::page-faults": "perf::minor-faults perf::major-faults",
}
PARTS = (*_cache_parts(), *((part, whole) for whole, parts in _PARTS_OF.items() for part in parts.split()))
"""Pairs of metrics: the first counts a part of what the second counts."""


def implausible(columns: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return a sentence for each pair of `PARTS` whose part exceeds its whole by more than 1 %; NaN is left out."""
    sentences = []
    for part, whole in PARTS:
        if part not in columns or whole not in columns:
            continue
        both = np.isfinite(columns[part]) & np.isfinite(columns[whole])
        smaller, larger = (float(columns[name][both].sum()) for name in (part, whole))
        if smaller > larger * (1 + _SLACK):
            share = float(np.mean(columns[part][both] > columns[whole][both]))
            sums = f"the part {part} ({smaller:,.0f}) exceeds the whole {whole} ({larger:,.0f})"
            sentences.append(f"{sums}, in {share:.0%} of the intervals")
    return sentences


_INNER = slice(1, -1)
"""Records taken at an overflow: all but the first and last, taken at the program's beginning and end."""


def missed_overflows(counts: NDArray[np.int64], period: int) -> NDArray[np.int64]:
    """For each interval, return the number of overflows that have no record of their own, shape (records − 1,).

    `counts`: Cumulative count of the interval event at each record. The last interval ends with the program: every
    overflow within the last interval was missed.
    """
    over = np.diff(counts // period)
    over[:-1] -= 1
    return np.maximum(over, 0)


def skids(counts: NDArray[np.int64], period: int) -> NDArray[np.int64]:
    """Return the number of counts between each overflow and the reading of its record, shape (records − 2,)."""
    skid: NDArray[np.int64] = counts[_INNER] % period
    return skid


def throttling(records: Records, counts: NDArray[np.int64], period: int) -> Literal["", "has", "may have"]:
    """Return whether the kernel "has" or "may have" throttled the event, so that counts are missing; empty if not.

    Inside the program, the kernel reports throttling in the event's ring buffer. An event inherited by threads has no
    ring buffer: the kernel's rule is then applied to the records. The kernel stops an event until the next tick if it
    overflows within a tick more often than `kernel.perf_event_max_sample_rate` allows. Each of several threads may
    overflow that often, and a rescheduled event resumes immediately: the rule only shows that counts may be missing.
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
    """Return the skid attributes of a trace with intervals by work, in counts; NaN if no overflow ended an interval."""
    skid = skids(counts, period)
    median, p99 = np.quantile(skid, (0.5, 0.99)) if len(skid) else (np.nan, np.nan)
    return {"skid_median": float(median), "skid_p99": float(p99)}
