"""PAPI as a source: presets and native names, opened by the system's libpapi inside the measured program."""

from __future__ import annotations

from unperturbed.collectors.catalogue import PRESETS
from unperturbed.collectors.record import Event
from unperturbed.collectors.trace import Metric

__all__ = ["event", "metric"]


def event(name: str) -> Event | None:
    """Return the event to add to the event set: PAPI takes presets and native names as they are."""
    return None if name.startswith("callgrind::") else Event(name)


def metric(name: str) -> Metric:
    """Return the description of a metric read through PAPI. perf's software events, counted by the kernel, are of kind `os`."""
    unit = "cycles" if name.endswith("_CYC") else "events"
    kind = "os" if name.startswith("perf::") and "CACHE" not in name.upper() else "hardware"
    return Metric(name, kind, unit=unit, source="papi", meaning=PRESETS.get(name, "native event"))  # type: ignore[arg-type]
