"""Events that software metrics count: each has a kind, a target and optional filters.

A spec's `software:` mapping gives each event the name of a metric::

    blocks:   {enter: BZ2_compressBlock}
    compares: {call: mainGtU, in: mainSimpleSort}
    nblock:   {write: EState.nblock}
    gtu_iter: {loop: "mainGtU#1"}
    out_bits: {enter: bsW, add: n}
    backlog:  {gauge: "server.c::queue.length"}
    decoded:  {probe: {uprobe: "liblzma.so.5:lzma_code"}}
    thrown:   {probe: {usdt: "libstdc++.so.6:libstdcxx:throw"}}
    allocs:   {preload: malloc}
    parsed:   {python: {enter: json.decoder.JSONDecoder.decode}}
    grown:    {jvm: {enter: java.util.HashMap.resize}}
    pauses:   {jvm: {event: collections}}
    misses:   {within: BZ2_blockSort, of: PAPI_L1_DCM}

Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 3.1, counts "every update of a
particular variable or every call to a particular function"; the other kinds follow the same idea.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

from unperturbed.common.extensions import classes_in
from unperturbed.common.wording import listing, nearest
from unperturbed.errors import SpecError
from unperturbed.instrument.events.kind import FUNCTION, GROUPS, CompiledKind, EventKind, Means, loader_of, matches_form
from unperturbed.instrument.events.targets import Selected

DEFAULT_MAX_RATE = 10_000
"""Default limit on the hits per second of a kernel probe: at 1 us per hit, 1 % of the run time."""

MOST_DOSES = 8
"""Maximum number of increments at a place: local labels have one digit for it, and an asm statement 30 operands."""

_FILTERS: Mapping[str, str] = MappingProxyType(
    {"in": "within", "file": "file", "add": "add", "threads": "threads", "of": "of"}
)
_THREADS = ("plain", "exact")


@lru_cache(maxsize=1)
def event_kinds() -> Mapping[str, type[EventKind]]:
    """Return all event kinds by name, sorted by `order`: those of `events.kinds` and of other distributions."""
    kinds = classes_in("unperturbed.instrument.events.kinds", EventKind, group="unperturbed.event_kinds")
    return MappingProxyType(dict(sorted(kinds.items(), key=lambda item: item[1].order)))


@lru_cache(maxsize=1)
def event_keys() -> tuple[str, ...]:
    """Return the keys by which a spec selects a kind; an event has exactly one of them."""
    return tuple(dict.fromkeys(kind.keys[0] for kind in event_kinds().values()))


def compiled_kind(name: str) -> type[CompiledKind]:
    """Return the kind with the given name; it must be a kind that is compiled into the program."""
    kind = event_kinds()[name]
    assert issubclass(kind, CompiledKind), "callers pass only compiled kinds"
    return kind


@dataclass(frozen=True)
class Event:
    """Event that one software metric counts.

    Attributes
    ----------
    kind : str
        Name of a kind in `event_kinds`.
    target : str
        Target in the form that the kind requires; globs follow fnmatch and are case-sensitive.
    within : str, optional
        Glob that the enclosing function's name must match (`call` and `write`).
    file : str, optional
        Glob that the source file must match, as line markers name it; `x.c` also matches `src/x.c`.
    add : str, optional
        C expression whose value is added instead of 1, evaluated at the site just before the event. Macros in the
        expression are not expanded; its value is converted to a 64-bit integer.
    threads : {"plain", "exact", "each"}, default "plain"
        `plain`: one instruction per event; counts are lost if several threads count at one site at once.
        `exact`: an atomic addition, which loses no counts and costs ten times as much.
        `each`: every thread has a counter of its own (`measure: threads: each` in a spec, for all metrics).
    max_rate : int, default 10000
        Hits per second above which a kernel probe is rejected.
    of : str, optional
        The hardware metric that is counted in a function (`within`).
    """

    kind: str
    target: str
    within: str | None = None
    file: str | None = None
    add: str | None = None
    threads: str = "plain"
    max_rate: int = DEFAULT_MAX_RATE
    of: str | None = None

    @property
    def means(self) -> Means:
        """What counts the event: `compiled` code, a `kernel` probe, a `preload`ed library, the `python` hook or
        the library in a `jvm`."""
        return event_kinds()[self.kind].means

    @property
    def semantics(self) -> Literal["counter", "gauge"]:
        """Whether the metric counts events, or reads a value at the end of each interval."""
        return event_kinds()[self.kind].semantics

    def to_json(self) -> dict[str, object]:
        """Return the event as a mapping that `parse_event` can read."""
        *outer, key = event_kinds()[self.kind].keys
        described: dict[str, object] = {key: self.target}
        if self.max_rate != DEFAULT_MAX_RATE:
            described["max_rate"] = self.max_rate
        if outer:
            described = {outer[0]: described}
        filters = {key: getattr(self, name) for key, name in _FILTERS.items()}
        return described | {key: value for key, value in filters.items() if value not in (None, "plain")}


def select(name: str, number: int, event: Event, *, ends_intervals: bool = False) -> Selected:
    """Return a compiled metric in the form that the compiler wrapper reads."""
    kind = compiled_kind(event.kind)
    parts = (event.kind, event.target, event.within, event.file, event.add, event.threads)
    return Selected(name, number, *parts, kind.need(event), *loader_of(kind), ends_intervals=ends_intervals)


def parse_event(mapping: Mapping[str, object]) -> Event:
    """Parse one event of a `software:` mapping.

    Parameters
    ----------
    mapping : mapping of str to object
        Exactly one kind with its target, and optionally `in`, `file`, `add`, `threads` and `of`. A kind of a group is
        in a nested mapping, `probe: {uprobe: …}`, which may also contain `max_rate` for a kernel probe.

    Returns
    -------
    Event
        The event.

    Raises
    ------
    SpecError
        A key is unknown, the mapping has no kind or more than one, a target has the wrong form, or the kind does not
        support a filter. The message lists every fault, and suggests the nearest key for an unknown one.
    """
    keys = event_keys()
    if not isinstance(mapping, Mapping) or not mapping:
        raise SpecError(f"expected a mapping such as `{{enter: FUNCTION}}`, with exactly one of the keys {_keys(keys)}")
    faults = [_unknown_key(str(key)) for key in mapping if key not in keys and key not in _FILTERS]
    chosen = [key for key in mapping if key in keys]
    if len(chosen) != 1:
        given = f"found {' and '.join(f'`{key}`' for key in chosen)}" if chosen else "found none"
        # An unknown key may be a misspelt kind.
        faults += [f"an event needs exactly one of the keys {_keys(keys)}; {given}"] if chosen or not faults else []
        raise SpecError("; ".join(faults))
    try:
        event = _read(chosen[0], mapping)
    except SpecError as error:
        raise SpecError("; ".join([*faults, str(error)])) from None
    faults += [*_useless_filters(event, chosen[0], mapping), *_wrong_forms(event)]
    if faults:
        raise SpecError("; ".join(faults))
    return event


def _read(key: str, mapping: Mapping[str, object]) -> Event:
    filters: dict[str, Any] = {name: _text(key, mapping[key]) for key, name in _FILTERS.items() if key in mapping}
    if key in GROUPS:
        return replace(_read_group(key, mapping[key]), **filters)
    kind = next(kind for kind in event_kinds().values() if kind.keys == (key,))
    return Event(kind.name, _text(key, mapping[key]), **filters)


def _read_group(key: str, value: object) -> Event:
    """Parse the mapping below a group's key: `{uprobe: …}` below `probe`, `{enter: …}` below `python`."""
    kinds = {kind.keys[1]: kind for kind in event_kinds().values() if kind.keys[0] == key}
    first = next(iter(kinds))
    target = re.split(", | or ", kinds[first].form)[0]
    form = f"`{key}`: expected a mapping such as `{{{first}: {target}}}`"
    if not isinstance(value, Mapping):
        raise SpecError(form)
    has_rate = any(kind.means == "kernel" for kind in kinds.values())
    unknown = [name for name in value if name not in kinds and not (has_rate and name == "max_rate")]
    chosen = [name for name in kinds if name in value]
    if unknown or len(chosen) != 1:
        fault = f"; unknown key `{unknown[0]}`" if unknown else ""
        raise SpecError(f"{form}, with exactly one of the keys {_keys(kinds)}{fault}")
    rate = value.get("max_rate", DEFAULT_MAX_RATE)
    if not isinstance(rate, int) or isinstance(rate, bool) or rate < 1:
        raise SpecError(f"`max_rate`: {rate!r} is not a positive integer (hits per second), such as {DEFAULT_MAX_RATE}")
    return Event(kinds[chosen[0]].name, _text(chosen[0], value[chosen[0]]), max_rate=rate)


def _useless_filters(event: Event, key: str, mapping: Mapping[str, object]) -> Iterator[str]:
    allowed = event_kinds()[event.kind].filters
    useless = [name for name in mapping if name in _FILTERS and name not in allowed]
    takers = [name for name, kind in event_kinds().items() if "in" in kind.filters]
    if useless == ["in"] and len(allowed) > 2:
        supported = listing([f"`{name}`" for name in takers])
        yield f"`in`: only {supported} events support this filter, not `{event.kind}` events"
    elif useless == ["of"]:
        yield "`of`: only `within` counts a hardware metric"
    elif useless:
        yield f"`{key}` events do not support {listing([f'`{name}`' for name in useless], 'or')}"


def _keys(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _unknown_key(key: str) -> str:
    near = nearest(key, [*event_keys(), *_FILTERS], limit=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    known = f"use one of {_keys(event_keys())}, and optionally {_keys(_FILTERS)}"
    return f"unknown key `{key}` in an event: {known}{hint}"


def _text(key: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and key == "add":
        return str(value)
    if not isinstance(value, str) or not value.strip():
        is_empty = value is None or isinstance(value, str)
        raise SpecError(f"`{key}` has no value" if is_empty else f"`{key}`: expected text in quotes, not {value!r}")
    return value.strip()


def _wrong_forms(event: Event) -> Iterator[str]:
    kind = event_kinds()[event.kind]
    if not matches_form(kind, event.target):
        form = f"{kind.form}{kind.hint(event.target)}"
        yield f"`{event.kind}`: {event.target!r} is not a valid target: expected {form}"
    if event.within is not None and not re.fullmatch(FUNCTION, event.within):
        yield f"`in`: {event.within!r} is neither a function's name nor a glob"
    if event.of is None and "of" in kind.filters:
        yield f"`{event.kind}`: add the hardware metric that is counted there, as in `of: PAPI_TOT_INS`"
    if event.threads not in _THREADS:
        yield f"`threads`: {event.threads!r} is neither `plain` (fast, but threads may lose counts) nor `exact`"
    if event.add is not None and not _is_expression(event.add):
        form = "expected one C expression on one line, with balanced brackets and without `;`, `{`, `}` or `#`"
        yield f"`add`: {event.add!r} is not valid: {form}"


def _is_expression(text: str) -> bool:
    """Return whether a text can be one C expression on one line: balanced brackets, and no `;`, `{`, `}` or `#`."""
    depth = 0
    for sign in text:
        depth += (sign in "([") - (sign in ")]")
        if depth < 0 or sign in ";{}#\n":
            return False
    return depth == 0
