"""PAPI: presets and native names, opened by libpapi in the measured program, or by the observer that attaches to it."""

from __future__ import annotations

from pathlib import Path

from unperturbed.collectors.sources.papi.events import chosen_library, event, metric, observer_library
from unperturbed.collectors.sources.papi.listing import catalogue
from unperturbed.collectors.sources.perf.events import PREFIX
from unperturbed.collectors.sources.source import Source

PAPI = Source(
    name="papi",
    title="PAPI",
    sentence="Counted by the processor or the kernel, read through PAPI {place}.",
    order=10,
    event=event,
    metric=metric,
    catalogue=catalogue,
    yields_to=(PREFIX,),
    c_file=Path(__file__).with_name("event_set.c"),
    c_name="unperturbed_papi",
    number=3,
    library=chosen_library,
    observer_library=observer_library,
)
