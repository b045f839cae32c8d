"""Sources of hardware counts. Each module or package here that defines a `source.Source` is found automatically."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from unperturbed.collectors.sources.catalogue import OS_GROUPS
from unperturbed.collectors.sources.source import (
    NONE,
    Answer,
    CatalogueEntry,
    Event,
    Pass,
    Planned,
    Request,
    Source,
    SourceCatalogue,
    SourceState,
    SourceSupport,
    Trials,
)
from unperturbed.common.extensions import records_in
from unperturbed.common.faces import lazy_names
from unperturbed.errors import HostError, SpecError

__all__ = [
    "Answer",
    "CatalogueEntry",
    "Event",
    "Pass",
    "Planned",
    "Request",
    "Source",
    "SourceCatalogue",
    "SourceState",
    "SourceSupport",
    "Trials",
    "find_source",
    "find_sources",
    "source_names",
    "source_number",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    former={
        "unperturbed.collectors.sources.callgrind": "Cache Machine valgrind_command",
        "unperturbed.collectors.sources.catalogue": "OS_METRICS PERF_WORDS PRESETS is_native",
    },
)


@cache
def find_sources() -> Mapping[str, Source]:
    """Return every source by name, in the order in which `source: auto` tries the sources.

    Raises
    ------
    HostError
        Two sources share a name or a number, or another package's source cannot be loaded.
    """
    records = records_in(__name__, Source, group="unperturbed.sources")
    ordered = sorted(records.values(), key=lambda source: (source.order, source.name))
    numbers: dict[int, str] = {}
    for source in ordered:
        if (other := numbers.setdefault(source.number, source.name)) != source.name:
            number = f"the number {source.number}: change `number` of one source, or uninstall its package"
            raise HostError(f"sources {other} and {source.name} both have {number}")
    return MappingProxyType({source.name: source for source in ordered})


def find_source(name: str) -> Source:
    """Return the source with the given name.

    Raises
    ------
    SpecError
        No source has this name; the message lists all sources.
    """
    try:
        return find_sources()[name]
    except KeyError:
        raise SpecError(f"unknown source {name!r}; use one of {', '.join(find_sources())}") from None


def source_names() -> tuple[str, ...]:
    """Return the names of hardware sources in `source: auto`'s order, then those of operating-system sources."""
    return (*find_sources(), *(group.source for group in OS_GROUPS))


def source_number(name: str) -> int:
    """Return a source's number in record files; 0 for `none`."""
    return 0 if name == NONE else find_source(name).number
