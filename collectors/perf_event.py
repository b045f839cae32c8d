"""perf_event as a source: kernel events by name, and the kernel's generic event that is nearest to a PAPI preset."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from unperturbed.collectors.catalogue import PRESETS
from unperturbed.collectors.record import Event
from unperturbed.collectors.trace import Metric

__all__ = ["KERNEL_EVENTS", "event", "metric"]

_HARDWARE, _SOFTWARE, _CACHE = 0, 1, 3


def _cache(cache: int, operation: int, *, miss: bool) -> tuple[int, int]:
    """Return type and configuration of a generic cache event, as perf_event_open(2) composes them."""
    return _CACHE, cache | operation << 8 | int(miss) << 16


_L1D, _L1I, _LL, _DTLB, _ITLB = 0, 1, 2, 3, 4
_READ, _WRITE = 0, 1

_GENERIC: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "PAPI_TOT_CYC": (_HARDWARE, 0),
        "PAPI_TOT_INS": (_HARDWARE, 1),
        "PAPI_BR_INS": (_HARDWARE, 4),
        "PAPI_BR_MSP": (_HARDWARE, 5),
        "PAPI_REF_CYC": (_HARDWARE, 9),
        "PAPI_L1_LDM": _cache(_L1D, _READ, miss=True),
        "PAPI_L1_STM": _cache(_L1D, _WRITE, miss=True),
        # Most processors count loads only: what perf calls L1-dcache-load-misses stands for all data misses.
        "PAPI_L1_DCM": _cache(_L1D, _READ, miss=True),
        "PAPI_L1_DCR": _cache(_L1D, _READ, miss=False),
        "PAPI_L1_ICM": _cache(_L1I, _READ, miss=True),
        "PAPI_L3_TCM": (_HARDWARE, 3),
        "PAPI_L3_TCA": (_HARDWARE, 2),
        "PAPI_L3_LDM": _cache(_LL, _READ, miss=True),
        "PAPI_TLB_DM": _cache(_DTLB, _READ, miss=True),
        "PAPI_TLB_IM": _cache(_ITLB, _READ, miss=True),
    }
)

KERNEL_EVENTS: Mapping[str, tuple[int, str, str]] = MappingProxyType(
    {
        "perf::cpu-clock": (0, "processor time by the high-resolution timer", "ns"),
        "perf::task-clock": (1, "processor time of the thread", "ns"),
        "perf::page-faults": (2, "page faults", "events"),
        "perf::context-switches": (3, "context switches", "events"),
        "perf::cpu-migrations": (4, "moves to another processor", "events"),
        "perf::minor-faults": (5, "page faults served without a disk", "events"),
        "perf::major-faults": (6, "page faults that read a disk", "events"),
        "perf::alignment-faults": (7, "unaligned accesses that the kernel mended", "events"),
        "perf::emulation-faults": (8, "instructions that the kernel emulated", "events"),
    }
)
"""The kernel's own software events: configuration, meaning, unit."""


def event(name: str) -> Event | None:
    """Return how perf_event_open(2) is asked for a metric, or None when it knows no such event."""
    if name in _GENERIC:
        return Event(name, *_GENERIC[name])
    if name in KERNEL_EVENTS:
        return Event(name, _SOFTWARE, KERNEL_EVENTS[name][0], kernel=True)
    return None


def metric(name: str) -> Metric:
    """Return the description of a metric read through perf_event. The kernel's own events are of kind `os`."""
    if name in KERNEL_EVENTS:
        _, meaning, unit = KERNEL_EVENTS[name]
        return Metric(name, "os", unit=unit, source="perf_event", meaning=meaning)
    unit = "cycles" if name.endswith("_CYC") else "events"
    return Metric(
        name, "hardware", unit=unit, source="perf_event", meaning=f"{PRESETS[name]} (the kernel's nearest generic event)"
    )
