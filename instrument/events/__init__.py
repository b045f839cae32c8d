"""Events that software metrics count: their kinds and their targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unperturbed.instrument.events.event import (
        DEFAULT_MAX_RATE,
        Event,
        compiled_kind,
        event_keys,
        event_kinds,
        parse_event,
    )
    from unperturbed.instrument.events.kind import GROUPS, CompiledKind, EventKind, Means, ProbeKind

__all__ = [
    "DEFAULT_MAX_RATE",
    "GROUPS",
    "CompiledKind",
    "Event",
    "EventKind",
    "Means",
    "ProbeKind",
    "compiled_kind",
    "event_keys",
    "event_kinds",
    "parse_event",
]

_MODULES = ("kind", "event")
"""Modules that define the names; `event` takes longer to load (dataclasses), and kinds need only `kind`."""


def __getattr__(name: str) -> Any:
    """Load the module that defines a name on first use: the compiler commands of a build need few names."""
    from importlib import import_module  # noqa: PLC0415  0.4 ms, which most commands of a build save

    for module in _MODULES if name in __all__ else ():
        if hasattr(imported := import_module(f"{__name__}.{module}"), name):
            return getattr(imported, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
