"""Events that the kernel describes: the events of PMUs in sysfs, and the tracepoints in tracefs.

Functions take the root of the file system, so the recorded description of another host can be read too.

These events include Intel's topdown events, which the kernel counts only in a group led by their PMU's `slots`. From
Ice Lake on, a fixed counter counts the issue slots (`slots`), and one register divides them among retiring, bad
speculation, front end and back end (`topdown-retiring`, …; from Sapphire Rapids on, four more). They need no general
counter. Efficiency cores of hybrid processors have ordinary events with the same names: the criterion is the event's
code, and whether its PMU has `slots` (arch/x86/events/intel/core.c; tools/perf/Documentation/topdown.txt).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from unperturbed.collectors.sources.source import Event
from unperturbed.errors import HostError, SpecError

_DEVICES = "sys/bus/event_source/devices"
_TRACING = ("sys/kernel/tracing", "sys/kernel/debug/tracing")
_NOT_EVENTS = (".unit", ".scale", ".snapshot", ".per-pkg")
_CONFIGS = ("config", "config1", "config2")
_FORMAT = re.compile(r"(config[0-9]?):([0-9,\-]+)")
_TERM = re.compile(r"([A-Za-z0-9_.\-]+)(?:=(0x[0-9A-Fa-f]+|[0-9]+|\?))?")
_RAW_TERM = re.compile(r"r[0-9A-Fa-f]{1,16}")
_LABEL = re.compile(r"name=([\w.:\-]+)")


@dataclass(frozen=True)
class Pmu:
    """Performance monitoring unit as described by the kernel."""

    name: str  # The folder's name, such as `cpu`, `armv8_pmuv3_0`, `msr`
    type: int  # The PMU's type number for perf_event_open(2)
    folder: Path  # The PMU's folder in sysfs

    @property
    def core(self) -> bool:
        """Return whether this is a core PMU: its name is `cpu`, or the kernel lists its cores."""
        return self.name == "cpu" or (self.folder / "cpus").exists()

    @property
    def cpus(self) -> frozenset[int]:
        """Processors with this PMU's kind of core; empty if the kernel does not list them."""
        file = self.folder / "cpus"
        return cpu_list(file.read_text()) if file.exists() else frozenset()

    @property
    def whole_package(self) -> bool:
        """Return whether the PMU counts for a whole processor or package, and so cannot count one program."""
        return (self.folder / "cpumask").exists()

    @cached_property
    def events(self) -> Mapping[str, str]:
        """Name and terms of each event, such as `event=0x2e,umask=0x41`."""
        return {
            file.name: file.read_text().strip()
            for file in _files(self.folder / "events")
            if not file.name.endswith(_NOT_EVENTS)
        }

    @cached_property
    def formats(self) -> Mapping[str, str]:
        """Name and bit ranges of each term, such as `config:0-7,32-35`."""
        return {file.name: file.read_text().strip() for file in _files(self.folder / "format")}

    def unit(self, event: str) -> str:
        """Return the unit of an event's counts, with its scale, from sysfs, or else from the event's name."""
        scale, unit = (self.folder / "events" / f"{event}{suffix}" for suffix in (".scale", ".unit"))
        if unit.exists():
            return " ".join(file.read_text().strip() for file in (scale, unit) if file.exists())
        return "cycles" if re.search(r"(^|[-_.])cycles$", event) else "events"


def _files(folder: Path) -> Iterator[Path]:
    """Yield a folder's files, sorted by name; nothing if the folder does not exist."""
    if folder.is_dir():
        yield from sorted(folder.iterdir())


def pmus(root: Path = Path("/")) -> dict[str, Pmu]:
    """Return the PMUs of the host by name, the core PMUs first."""
    devices = [
        Pmu(folder.name, int((folder / "type").read_text()), folder)
        for folder in _files(root / _DEVICES)
        if (folder / "type").exists()
    ]
    return {pmu.name: pmu for pmu in sorted(devices, key=lambda pmu: (not pmu.core, pmu.name))}


def own_core(root: Path = Path("/")) -> Pmu | None:
    """Return the core PMU of the kind of core that this process is confined to; None if not confined to one kind."""
    kinds = _kinds(root)
    if len(kinds) < 2:
        return None
    status = root / "proc/self/status"
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", status.read_text() if status.exists() else "", re.MULTILINE)
    own = cpu_list(allowed[1]) if allowed else frozenset()
    return next((pmu for pmu in kinds if own and own <= pmu.cpus), None)


def confinement(root: Path = Path("/")) -> str:
    """Return advice on confining a program to one kind of core; empty if it is confined, or there is only one kind."""
    kinds = _kinds(root)
    if len(kinds) < 2 or own_core(root) is not None:
        return ""
    first = next((pmu for pmu in kinds if pmu.name == "cpu_core"), kinds[0])
    file, named = first.folder / "cpus", ", ".join(pmu.name for pmu in kinds)
    chosen = file.read_text().strip() if file.exists() else "CPUS"
    hybrid = f"this processor is hybrid, and an event counts on only one kind of core ({named})"
    return f"{hybrid}; confine the campaign to one kind of core with taskset -c {chosen}"


def _kinds(root: Path) -> list[Pmu]:
    return [pmu for pmu in pmus(root).values() if pmu.core]


def cpu_list(text: str) -> frozenset[int]:
    """Return the processor numbers in a list such as `0-3,8`."""
    ranges = (part.partition("-") for part in text.strip().split(",") if part)
    return frozenset(cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1))


def encode(pmu: Pmu, terms: str) -> tuple[int, int, int]:
    """Return perf_event's config, config1 and config2 for the terms of an event.

    `terms`: The text between perf's slashes: names of the PMU's events, `term=number` with the PMU's terms or
    `config=number`, `rNNN`, and `name=NAME`; separated by commas. The bits of a number fill the ranges of the term's
    format, starting with the least significant bit, as in perf's `pmu_format_value`; terms are combined by OR.
    """
    pairs = list(_pairs(pmu, terms))
    given = {key: value for key, value in pairs if value != "?"}
    configs = dict.fromkeys(_CONFIGS, 0)
    for key, value in pairs:
        if value == "?" and key not in given:
            write = f"write `perf::{pmu.name}/{terms},{key}=N/`"
            raise SpecError(f"this event of {pmu.name} needs a number for `{key}`: {write}")
        number = int(given[key], 0)
        if key in pmu.formats:
            field, bits = _scatter(pmu, key, number)
        elif key in _CONFIGS:
            field, bits = key, number
        else:
            raise SpecError(
                f"PMU {pmu.name} has no term {key!r}; it has these terms: {', '.join(sorted(pmu.formats)) or 'none'}"
            )
        if bits >> 64:
            raise SpecError(f"{pmu.name}: {key}={number:#x} is too large for its field, which has 64 bits")
        configs[field] |= bits
    return configs["config"], configs["config1"], configs["config2"]


def label(terms: str) -> str:
    """Return an event's label, the value of the term `name=NAME`; empty if there is none."""
    return next((match[1] for text in terms.split(",") if (match := _LABEL.fullmatch(text))), "")


def _pairs(pmu: Pmu, terms: str) -> Iterator[tuple[str, str]]:
    """Yield each term and its number, with names of events replaced by their terms."""
    for text in filter(None, terms.split(",")):
        if _LABEL.fullmatch(text):
            continue
        match = _TERM.fullmatch(text)
        if match is None:
            raise SpecError(f"{pmu.name}: {text!r} is not a term; write terms as `name=0x1f`, separated by commas")
        key, value = match.groups()
        if value is None and key in pmu.events:
            for term in filter(None, pmu.events[key].split(",")):
                name, _, own = term.partition("=")
                yield name, _number(own)
        elif value is None and key not in pmu.formats and _RAW_TERM.fullmatch(key):
            yield "config", f"0x{key[1:]}"
        elif value is None and key not in pmu.formats:
            raise SpecError(f"PMU {pmu.name} has no event or term {key!r}")
        else:
            yield key, _number(value)


def _number(value: str | None) -> str:
    """Return a number in a form for `int(…, 0)`: a missing number means 1, and perf treats 010 as decimal."""
    if not value:
        return "1"
    return value if value.startswith(("0x", "?")) else str(int(value))


def _scatter(pmu: Pmu, term: str, number: int) -> tuple[str, int]:
    """Distribute a number's bits over the ranges of a term's format; return the config field's name and the bits."""
    match = _FORMAT.fullmatch(pmu.formats[term])
    if match is None or match[1] not in _CONFIGS:
        raise SpecError(f"{pmu.name}: the format of {term!r} is {pmu.formats[term]!r}, which is not supported")
    bits = 0
    left = number
    for part in match[2].split(","):
        first, _, last = part.partition("-")
        width = int(last or first) - int(first) + 1
        bits |= (left & ((1 << width) - 1)) << int(first)
        left >>= width
    if left:
        raise SpecError(f"{pmu.name}: {term}={number:#x} does not fit into this term's bits ({pmu.formats[term]})")
    return match[1], bits


def tracepoint_id(system: str, event: str, root: Path = Path("/")) -> int:
    """Return a tracepoint's id, which is perf_event's config for the tracepoint."""
    try:
        return int((_tracing(root) / "events" / system / event / "id").read_text())
    except PermissionError:
        raise HostError(_UNREADABLE) from None
    except FileNotFoundError:
        raise SpecError(f"the kernel has no tracepoint {system}:{event}") from None


def tracepoints(root: Path = Path("/")) -> tuple[str, ...]:
    """Return the sorted names of all tracepoints, `system:event`; there are thousands."""
    try:
        return tuple(sorted((_tracing(root) / "available_events").read_text().split()))
    except PermissionError:
        raise HostError(_UNREADABLE) from None


_UNREADABLE = "only root can read tracepoints (allow others with: mount -o remount,mode=755 /sys/kernel/tracing)"


def _tracing(root: Path) -> Path:
    """Return the folder of tracefs: its mount point, or the older location inside debugfs."""
    for place in _TRACING:
        try:
            (root / place / "available_events").stat()
        except FileNotFoundError:
            continue
        except PermissionError:
            raise HostError(_UNREADABLE) from None
        return root / place
    raise HostError("tracepoints need tracefs, which is not mounted; run: mount -t tracefs tracefs /sys/kernel/tracing")


SLOTS = "slots"
_DIVISIONS = ("retiring", "bad-spec", "fe-bound", "be-bound", "heavy-ops", "br-mispredict", "fetch-lat", "mem-bound")
TOPDOWN_NAMES = frozenset({SLOTS, *(f"topdown-{division}" for division in _DIVISIONS)})
"""The kernel's names of topdown events."""

_METRICS = frozenset(umask << 8 for umask in range(0x80, 0x88))
"""Codes of the events that divide the slots: event 0, unit masks from 0x80 on."""


def leader(event: Event, root: Path = Path("/")) -> Event | None:
    """Return the event that must lead a topdown event's group: its PMU's `slots`, in the same mode; None for others."""
    if event.config not in _METRICS or event.config1 or event.config2:
        return None
    for number, name, config in _slots(root):
        if number == event.type:
            mode = {(True, False): "", (False, True): ":k"}.get((event.user, event.kernel), ":uk")
            return Event(name + mode, type=number, config=config, user=event.user, kernel=event.kernel)
    return None


def topdown_absence(name: str, root: Path = Path("/")) -> HostError | None:
    """Return the error for a topdown event that no PMU has; None for other names."""
    if name not in TOPDOWN_NAMES:
        return None
    cores = [pmu.name for pmu in pmus(root).values() if pmu.core]
    if not cores:
        return HostError("this host has no topdown events: it has no core PMU")
    several = len(cores) > 1
    whose = f"the PMU{'s' if several else ''} {' and '.join(cores)} of this processor {'have' if several else 'has'}"
    if any(_has_slots(pmu) for pmu in pmus(root).values()):
        return HostError(
            f"{whose} no topdown event {name}: only performance cores from Sapphire Rapids and Alder Lake on have "
            "the events of the second level"
        )
    return HostError(
        f"{whose} no topdown events (slots, topdown-retiring, …): Intel's processors have them from Ice Lake on; "
        "perf's own metrics may provide the same (`unperturbed metrics frontend_bound`)"
    )


def _has_slots(pmu: Pmu) -> bool:
    return pmu.core and SLOTS in pmu.events


@cache
def _slots(root: Path) -> tuple[tuple[int, str, int], ...]:
    """Return for each PMU with `slots` its type number, the name of `slots` in a spec, and the code of `slots`."""
    holders = [pmu for pmu in pmus(root).values() if _has_slots(pmu)]
    names = [f"perf::{SLOTS}"] if len(holders) == 1 else [f"perf::{pmu.name}/{SLOTS}/" for pmu in holders]
    return tuple((pmu.type, name, encode(pmu, SLOTS)[0]) for pmu, name in zip(holders, names, strict=True))
