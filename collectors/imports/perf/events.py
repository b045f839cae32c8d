"""Metrics of the events that perf names."""

from __future__ import annotations

import re

from unperturbed.collectors.data.trace import Kind, Metric
from unperturbed.collectors.imports.format import known_kind
from unperturbed.collectors.sources.perf.names import ALIASES, GENERIC

_MODIFIERS = re.compile(r":(?P<letters>[ukhGHpPIDWSe]+)$")
_CLOCKS = {"duration_time": "wall time", "user_time": "CPU time in user space", "system_time": "CPU time in the kernel"}
_UNITS = {"msec": "ms", "": "events"}


def describe_event(name: str, unit: str = "", *, source: str = "perf stat", scaled: bool = False) -> Metric:
    """Return the metric for a perf event name; the metrics for two names of one event have the same components.

    `unit`: The unit that perf writes; empty for counts.
    """
    modifiers = _MODIFIERS.search(name)
    letters = modifiers["letters"] if modifiers else ""
    base = name[: modifiers.start()] if modifiers else name
    base = ALIASES.get(base, base)
    known = GENERIC.get(base)
    places = [place for place, letter in (("user", "u"), ("kernel", "k")) if letter in letters] or ["user", "kernel"]
    counted_unit = known.unit if known is not None and not unit else _UNITS.get(unit, unit)
    return Metric(
        name,
        _kind(name, base),
        unit=counted_unit,
        source=source,
        meaning=known.meaning if known else _CLOCKS.get(base, ""),
        components=tuple(f"{source}:{base}:{place}" for place in places),
        scaled=scaled,
    )


def _kind(name: str, base: str) -> Kind:
    kind = known_kind(base)
    if kind is not None:
        return kind
    tracepoint = "/" not in name and re.fullmatch(r"[\w-]+:[\w-]+", base) is not None
    return "os" if tracepoint or base in _CLOCKS else "hardware"
