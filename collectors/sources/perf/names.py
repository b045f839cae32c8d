"""Events by perf's names: names that `perf stat -e NAME` accepts, encoded for perf_event_open(2).

Supported: generic hardware, software and cache events with their aliases, raw events (`r1a8`), a PMU's events in sysfs
(`cpu/event=0x3c,umask=0/`, `msr/tsc/`, or the event's name alone if only one PMU has it), and tracepoints
(`sched:sched_switch`); each with `:u`, `:k` or `:uk`. Not supported: perf's own tables of vendors' events, breakpoints,
and names that are not counts (`dummy`, `bpf-output`, `duration_time`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from unperturbed.collectors.sources.perf.sysfs import (
    SLOTS,
    TOPDOWN_NAMES,
    Pmu,
    encode,
    label,
    own_core,
    pmus,
    topdown_absence,
    tracepoint_id,
    tracepoints,
)
from unperturbed.collectors.sources.source import Event
from unperturbed.errors import HostError, SpecError

_HARDWARE, _SOFTWARE, _TRACEPOINT, _CACHE, _RAW = range(5)
_PMU_TYPE_SHIFT = 32  # position of the PMU's type in a generic event's config (linux/perf_event.h)


@dataclass(frozen=True)
class PerfCode:
    """Encoding of an event for perf_event_open(2), and whether it counts in user space, in the kernel, or both."""

    type: int
    config: int
    config1: int = 0
    config2: int = 0
    user: bool = True
    kernel: bool = False

    def as_event(self, name: str) -> Event:
        """Return the event that a sampler opens for a metric with the given name."""
        return Event(
            name, self.type, self.config, config1=self.config1, config2=self.config2, user=self.user, kernel=self.kernel
        )


@dataclass(frozen=True)
class PerfEvent:
    """Event with a perf name: its encoding, meaning, unit and kind."""

    code: PerfCode
    meaning: str
    unit: str = "events"
    kind: Literal["hardware", "os"] = "hardware"


_HARDWARE_EVENTS: Mapping[str, tuple[int, str, str]] = {
    "cycles": (0, "cycles of the processor", "cycles"),
    "instructions": (1, "instructions completed", "events"),
    "cache-references": (2, "cache accesses, usually to the last-level cache", "events"),
    "cache-misses": (3, "cache misses, usually in the last-level cache", "events"),
    "branches": (4, "branch instructions completed", "events"),
    "branch-misses": (5, "mispredicted branches", "events"),
    "bus-cycles": (6, "cycles of the bus", "cycles"),
    "stalled-cycles-frontend": (7, "cycles in which no instruction could be fetched or decoded", "cycles"),
    "stalled-cycles-backend": (8, "cycles in which no instruction could be executed", "cycles"),
    "ref-cycles": (9, "cycles at the clock's nominal rate", "cycles"),
}
_SOFTWARE_EVENTS: Mapping[str, tuple[int, str, str]] = {
    "cpu-clock": (0, "CPU time measured by the high-resolution timer", "ns"),
    "task-clock": (1, "CPU time of the thread", "ns"),
    "page-faults": (2, "page faults", "events"),
    "context-switches": (3, "context switches", "events"),
    "cpu-migrations": (4, "migrations to another processor", "events"),
    "minor-faults": (5, "page faults served without reading from disk", "events"),
    "major-faults": (6, "page faults that read from disk", "events"),
    "alignment-faults": (7, "unaligned accesses that the kernel fixed up", "events"),
    "emulation-faults": (8, "instructions that the kernel emulated", "events"),
    "cgroup-switches": (11, "context switches to a task of a different control group", "events"),
}

# perf's words for caches, operations and results; perf prints the first of each (tools/perf/util/evsel.c, Linux 6.1).
_CACHES: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...] = (
    ("level 1 data cache", ("L1-dcache", "l1-d", "l1d", "L1-data"), (0, 1, 2)),
    ("level 1 instruction cache", ("L1-icache", "l1-i", "l1i", "L1-instruction"), (0, 2)),
    ("last-level cache", ("LLC", "L2"), (0, 1, 2)),
    ("data translation lookaside buffer", ("dTLB", "d-tlb", "Data-TLB"), (0, 1, 2)),
    ("instruction translation lookaside buffer", ("iTLB", "i-tlb", "Instruction-TLB"), (0,)),
    ("branch prediction unit", ("branch", "bpu", "btb", "bpc"), (0,)),
    ("local memory node", ("node",), (0, 1, 2)),
)
_OPERATIONS = (
    ("load", "loads", "read"),
    ("store", "stores", "write"),
    ("prefetch", "prefetches", "speculative-read", "speculative-load"),
)
_RESULTS = (("refs", "Reference", "ops", "access"), ("misses", "miss"))


def _words(words: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    return {word: index for index, alike in enumerate(words) for word in alike}


_CACHE_WORDS = _words(tuple(names for _, names, _ in _CACHES))
_OPERATION_WORDS = _words(_OPERATIONS)
_RESULT_WORDS = _words(_RESULTS)


def _cache_event(cache: int, operation: int, result: int) -> PerfEvent:
    """Return a generic cache event, encoded as perf_event_open(2) describes."""
    verb = ("loads", "stores", "prefetches")[operation]
    meaning = f"{verb} {('of', 'that missed')[result]} the {_CACHES[cache][0]}"
    return PerfEvent(PerfCode(_CACHE, cache | operation << 8 | result << 16), meaning)


def _cache_events() -> Iterator[tuple[str, PerfEvent]]:
    for cache, (_, names, operations) in enumerate(_CACHES):
        for operation in operations:
            singular, plural = _OPERATIONS[operation][:2]
            yield f"{names[0]}-{plural}", _cache_event(cache, operation, 0)
            yield f"{names[0]}-{singular}-misses", _cache_event(cache, operation, 1)


GENERIC: Mapping[str, PerfEvent] = MappingProxyType(
    {
        **{
            name: PerfEvent(PerfCode(_HARDWARE, config), said, unit)
            for name, (config, said, unit) in _HARDWARE_EVENTS.items()
        },
        **dict(_cache_events()),
        **{
            name: PerfEvent(PerfCode(_SOFTWARE, config, kernel=True), said, unit, "os")
            for name, (config, said, unit) in _SOFTWARE_EVENTS.items()
        },
    }
)
"""Events with the same perf name on every host. Only a trial shows whether a processor has them."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "cpu-cycles": "cycles",
        "branch-instructions": "branches",
        "idle-cycles-frontend": "stalled-cycles-frontend",
        "idle-cycles-backend": "stalled-cycles-backend",
        "faults": "page-faults",
        "cs": "context-switches",
        "migrations": "cpu-migrations",
    }
)
"""Alternative names of generic events."""

_ALTERNATIVES = "|".join(sorted(map(re.escape, {**_OPERATION_WORDS, **_RESULT_WORDS}), key=len, reverse=True))
_CACHE_NAME = re.compile(
    rf"({'|'.join(sorted(map(re.escape, _CACHE_WORDS), key=len, reverse=True))})"
    rf"(?:-({_ALTERNATIVES}))?(?:-({_ALTERNATIVES}))?"
)
_PMU_NAME = re.compile(r"([A-Za-z_][\w.\-]*)/([^/]*)/(?::?([a-zA-Z]+))?")
_RAW_NAME = re.compile(r"r([0-9A-Fa-f]{1,16})")


def parse(name: str, root: Path = Path("/")) -> PerfEvent:
    """Return the event with a perf name.

    Without a modifier, the cores' events count only in user space, as in PAPI; perf would also count the kernel
    (`:uk`). Other events count in both: most of them cannot distinguish the two.

    On a hybrid processor, an event without a PMU counts on the kind of core that this process is confined to. If the
    process may run on all kinds, generic events count on performance cores, which is the kernel's choice, and topdown
    events on cores with `slots`; other events must name a PMU.
    """
    if match := _PMU_NAME.fullmatch(name):
        event = _of_pmu(match[1], match[2], root)
        return _in_mode(event, match[3], name) if match[3] else event
    stem, colon, modifier = name.partition(":")
    event_or_none = _without_colon(stem, root)
    if event_or_none is not None:
        return _in_mode(event_or_none, modifier, name) if colon else event_or_none
    if colon and re.fullmatch(r"[\w\-]+", stem):
        point, colon, modifier = modifier.partition(":")
        code = PerfCode(_TRACEPOINT, tracepoint_id(stem, point, root), kernel=True)
        event = PerfEvent(code, f"hits of the kernel's tracepoint {point} ({stem})", kind="os")
        return _in_mode(event, modifier, name) if colon else event
    raise SpecError(f"perf has no event {name!r}")


def _without_colon(name: str, root: Path) -> PerfEvent | None:
    """Return a generic, raw or PMU event by its name without a modifier."""
    if generic := _generic(name):
        home = own_core(root) if generic.kind == "hardware" else None
        # Kernels for Arm before 6.8 reject a generic event that names a PMU.
        return _generic_on(home, generic) if home is not None and home.name.startswith("cpu_") else generic
    if match := _RAW_NAME.fullmatch(name):
        return PerfEvent(PerfCode(_RAW, int(match[1], 16)), f"raw event 0x{match[1].lower()} of the processor")
    holders = [pmu for pmu in pmus(root).values() if name in pmu.events]
    chosen = [pmu for pmu in holders if pmu.core] or holders
    if len(chosen) > 1 and (home := own_core(root)) in chosen:
        chosen = [pmu for pmu in chosen if pmu == home]
    elif len(chosen) > 1 and name in TOPDOWN_NAMES:
        chosen = [pmu for pmu in chosen if SLOTS in pmu.events]
    if not chosen and (absence := topdown_absence(name, root)):
        raise absence
    if len(chosen) > 1:
        there = ", ".join(f"perf::{pmu.name}/{name}/" for pmu in chosen[:4])
        raise SpecError(f"several PMUs have an event {name!r}; use one of {there}")
    return _described(chosen[0], name) if chosen else None


def _generic(name: str) -> PerfEvent | None:
    event = GENERIC.get(ALIASES.get(name, name))
    match = _CACHE_NAME.fullmatch(name)
    if event is not None or match is None:
        return event
    words = [word for word in match.groups()[1:] if word]
    operations = [_OPERATION_WORDS[word] for word in words if word in _OPERATION_WORDS]
    results = [_RESULT_WORDS[word] for word in words if word in _RESULT_WORDS]
    if len(operations) > 1 or len(results) > 1:
        return None
    cache, operation, result = _CACHE_WORDS[match[1]], *(operations or [0]), *(results or [0])
    return _cache_event(cache, operation, result) if operation in _CACHES[cache][2] else None


def _of_pmu(pmu_name: str, terms: str, root: Path) -> PerfEvent:
    units = pmus(root)
    pmu = units.get(pmu_name)
    if pmu is None:
        known = ", ".join(name for name, unit in units.items() if unit.formats) or "none"
        raise HostError(f"this host has no PMU {pmu_name!r}; PMUs for names of the form `perf::PMU/EVENT/`: {known}")
    generic = _generic(terms)
    if pmu.core and terms not in pmu.events and generic is not None and generic.kind == "hardware":
        several = sum(unit.core for unit in units.values()) > 1
        return _generic_on(pmu, generic) if several else replace(generic, meaning=f"{generic.meaning}, on {pmu.name}")
    if terms not in pmu.events and pmu.core and (absence := topdown_absence(terms, root)):
        raise absence
    return _described(pmu, terms)


def _generic_on(pmu: Pmu, generic: PerfEvent) -> PerfEvent:
    """Return a generic event restricted to one of several kinds of core."""
    config = generic.code.config | pmu.type << _PMU_TYPE_SHIFT
    return replace(generic, code=replace(generic.code, config=config), meaning=f"{generic.meaning}, on {pmu.name}")


def _described(pmu: Pmu, terms: str) -> PerfEvent:
    config, config1, config2 = encode(pmu, terms)
    code = PerfCode(pmu.type, config, config1, config2, kernel=not pmu.core)
    called = label(terms)
    encoding = f" ({pmu.events[terms]})" if terms in pmu.events else f" ({terms})" if called else ""
    return PerfEvent(code, f"{called or terms or 'event 0'} of the PMU {pmu.name}{encoding}", pmu.unit(called or terms))


def _in_mode(event: PerfEvent, modifier: str, name: str) -> PerfEvent:
    if modifier not in ("u", "k", "uk", "ku"):
        raise SpecError(
            f"{name}: unsupported modifier {modifier!r}; `:u` counts user space, `:k` the kernel, `:uk` both"
        )
    place = {"u": "in user space", "k": "in the kernel"}.get(modifier, "in user space and in the kernel")
    code = replace(event.code, user="u" in modifier, kernel="k" in modifier)
    return replace(event, code=code, meaning=f"{event.meaning}, {place}")


def of_pmus(root: Path = Path("/")) -> Iterator[tuple[str, Pmu, str]]:
    """Yield perf's name, the PMU and the PMU's own name of every event that sysfs describes."""
    for pmu in pmus(root).values():
        for event in pmu.events:
            yield f"{pmu.name}/{event}/", pmu, event


def nearest(name: str, root: Path = Path("/"), *, limit: int = 3) -> tuple[str, ...]:
    """Return the known names most similar to an unknown name, the most similar first; may be empty."""
    from rapidfuzz import process  # noqa: PLC0415  only a mistake needs it

    known = [*GENERIC, *ALIASES, *(event for event, _, _ in of_pmus(root))]
    with suppress(HostError):  # tracepoints that cannot be read cannot be suggested
        known += tracepoints(root) if ":" in name else ()
    return tuple(match for match, _, _ in process.extract(name, known, limit=limit, score_cutoff=70))
