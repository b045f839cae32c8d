"""perf_event, the kernel's interface: events of the processor, of other PMUs and of the kernel, under perf's names."""

from __future__ import annotations

from pathlib import Path

from unperturbed.collectors.sources.perf.events import PREFIX, event, metric, refusal
from unperturbed.collectors.sources.perf.listing import catalogue
from unperturbed.collectors.sources.perf.sysfs import leader
from unperturbed.collectors.sources.source import Source

PERF_EVENT = Source(
    name="perf_event",
    title="perf_event",
    sentence="Counted by the processor or the kernel, read through perf_event {place}.",
    order=20,
    event=event,
    metric=metric,
    catalogue=catalogue,
    refusal=refusal,
    leader=leader,
    prefix=PREFIX,
    c_file=Path(__file__).with_name("group.c"),
    c_name="unperturbed_perf",
    number=2,
    timed=True,
)
