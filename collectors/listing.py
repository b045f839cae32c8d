"""The catalogue of this host: every metric, which source can count it here, and why the others cannot.

Events are tried, hundreds in a fraction of a second (`unperturbed.collectors.trials`). Nothing is changed on the host. Tracepoints are
thousands, and closing one waits for every processor, about 40 ms: one is tried, and its answer stands for all.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from unperturbed.collectors import papi, simulated
from unperturbed.collectors.catalogue import OS_GROUPS, PRESETS
from unperturbed.collectors.perf_event import NEAREST_GENERIC, PREFIX
from unperturbed.collectors.perf_names import ALIASES, GENERIC, PerfEvent, of_pmus, parse
from unperturbed.collectors.perf_sysfs import tracepoints
from unperturbed.collectors.trace import Kind
from unperturbed.collectors.trials import Answer, Host, KernelAnswers, PapiAnswers, ask_kernel, ask_papi
from unperturbed.errors import HostError, SpecError

__all__ = ["SOURCES", "Listed", "Listing", "SourceState", "Way", "list_metrics", "nearest"]

SOURCES = ("papi", "perf_event", "simulated", *(group.source for group in OS_GROUPS))
"""Those of hardware metrics in the order in which `source: auto` prefers them, then those of the operating system's counters."""

_TRIED_TRACEPOINT = "sched:sched_switch"


@dataclass(frozen=True)
class Way:
    """How one source counts a metric, or why it cannot here (`problem`, empty when it can)."""

    source: str
    kind: Kind
    unit: str
    meaning: str
    problem: str = ""

    @property
    def available(self) -> bool:
        """Tell whether the source counts the metric on this host."""
        return not self.problem


@dataclass(frozen=True)
class Listed:
    """A metric of the catalogue.

    Attributes
    ----------
    name : as a spec has it.
    family : what it belongs to: `PAPI preset`, `PAPI native event`, `hardware event`, `software event`, `PMU event`, `tracepoint`, `simulator event`,
        `process counter`.
    ways : what each source says of it, the preferred first; never empty.
    aliases : other names of the same event.
    """

    name: str
    family: str
    ways: tuple[Way, ...]
    aliases: tuple[str, ...] = ()

    @property
    def best(self) -> Way:
        """Return the way that `source: auto` takes; when none works, the first."""
        return next((way for way in self.ways if way.available), self.ways[0])


@dataclass(frozen=True)
class SourceState:
    """A source on this host.

    Attributes
    ----------
    name : one of `SOURCES`.
    version : of the library behind it; empty when it has none.
    problem : why it counts nothing here; empty when it does.
    fits : how many hardware (or simulated) metrics one run held when it was tried; None when nothing could be tried, or nothing limits it.
    note : one line on that number.
    """

    name: str
    version: str = ""
    problem: str = ""
    fits: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Listing:
    """The catalogue.

    Attributes
    ----------
    sources : one a source, in the order of preference.
    metrics : family by family. Tracepoints are among them only where a pattern selects them.
    tracepoints : subsystem to the number of its tracepoints.
    tracepoint_problem : why tracepoints cannot be counted here; empty when they can.
    """

    sources: tuple[SourceState, ...]
    metrics: tuple[Listed, ...]
    tracepoints: Mapping[str, int] = field(default_factory=dict)
    tracepoint_problem: str = ""


@dataclass(frozen=True)
class _Perf:
    """An event that perf names: its code, or why it has none here."""

    family: str
    event: PerfEvent | None
    problem: str = ""
    aliases: tuple[str, ...] = ()


def list_metrics(
    compiler: str = "gcc", *, pattern: str | None = None, source: str | None = None, root: Path = Path("/")
) -> Listing:
    """List every metric of this host.

    Parameters
    ----------
    compiler : C compiler for the program that tries the events.
    pattern : only metrics that match: a glob on names, or a part of a name or meaning; case does not matter.
    source : only metrics that this source might count, and only what it says of them.
    root : where sysfs and tracefs are looked for.

    Raises
    ------
    HostError
        No C compiler.
    """
    host = Host.read(root)
    perf = dict(_perf_events(root))
    points, point_problem = _tracepoints(root)
    tried = _TRIED_TRACEPOINT if _TRIED_TRACEPOINT in points else next(iter(points), None)
    codes = {PREFIX + name: item.event.code for name, item in perf.items() if item.event is not None}
    if tried is not None:
        codes[PREFIX + tried] = parse(tried, root).code
    kernel = ask_kernel(compiler, codes)
    if tried is not None:
        point_problem = host.refusal(kernel.events[PREFIX + tried])
    library = ask_papi(compiler, [PREFIX + name for name in GENERIC], papi.bundled_library())
    metrics = [
        *_presets(host, kernel, library),
        *_natives(host, kernel, library),
        *_perf_metrics(perf, host, kernel, library),
        *(_point(name, point_problem) for name in points if pattern is not None and _matches(pattern, PREFIX + name)),
        *_simulator_events(),
        *_process_counters(root),
    ]
    states = (_papi_state(library, host, kernel), _perf_state(host, kernel), _simulated_state(), *_process_states(root))
    by_perf = source in (None, "perf_event")
    return Listing(
        tuple(state for state in states if source in (None, state.name)),
        tuple(_selected(metrics, pattern, source)),
        Counter(name.partition(":")[0] for name in points if by_perf),
        point_problem if by_perf else "",
    )


def nearest(pattern: str, listing: Listing, *, limit: int = 5) -> tuple[str, ...]:
    """Return the names of a full listing that are most like a pattern that selected nothing."""
    from rapidfuzz import fuzz, process  # noqa: PLC0415  only a mistake needs it

    names = [name for metric in listing.metrics for name in (metric.name, *metric.aliases)]
    plain = re.sub(r"[*?\[\]]", "", pattern)
    found = process.extract(plain, names, scorer=fuzz.WRatio, processor=str.casefold, limit=None, score_cutoff=55)
    # Of names that hold what was meant equally well the shortest says it best; sources spell some of them in capitals too.
    found.sort(key=lambda hit: (-round(hit[1]), len(hit[0]), hit[0] != hit[0].casefold()))
    return tuple({name.casefold(): name for name, _, _ in reversed(found)}.values())[::-1][:limit]


def _selected(metrics: Iterable[Listed], pattern: str | None, source: str | None) -> Iterator[Listed]:
    for metric in metrics:
        ways = tuple(way for way in metric.ways if source in (None, way.source))
        if ways and (pattern is None or _matches(pattern, metric.name, ways[0].meaning, metric.aliases)):
            yield replace(metric, ways=ways)


def _matches(pattern: str, name: str, meaning: str = "", aliases: tuple[str, ...] = ()) -> bool:
    wanted = pattern.casefold()
    names = [text.casefold() for text in (name, *aliases)]
    if re.search(r"[*?\[]", pattern):
        # A source's prefix may be left out: `L1-*` is `perf::L1-*`.
        return any(fnmatch.fnmatchcase(form, wanted) for text in names for form in (text, text.partition("::")[2]))
    return any(wanted in text for text in (*names, meaning.casefold()))


def _perf_events(root: Path) -> Iterator[tuple[str, _Perf]]:
    for name, event in GENERIC.items():
        others = tuple(PREFIX + alias for alias, target in ALIASES.items() if target == name)
        yield name, _Perf("software event" if event.kind == "os" else "hardware event", event, aliases=others)
    for name, pmu, _ in of_pmus(root):
        if pmu.whole_package:
            yield name, _Perf("PMU event", None, "its PMU counts for a whole processor or package, not for one program")
            continue
        try:
            yield name, _Perf("PMU event", parse(name, root))
        except SpecError as error:
            yield name, _Perf("PMU event", None, str(error))


def _tracepoints(root: Path) -> tuple[tuple[str, ...], str]:
    """Return the names of all tracepoints, or none and why."""
    try:
        return tracepoints(root), ""
    except HostError as error:
        return (), str(error)


def _point(name: str, problem: str) -> Listed:
    system, _, event = name.partition(":")
    meaning = f"times the kernel passed its tracepoint {event} ({system})"
    return Listed(PREFIX + name, "tracepoint", (Way("perf_event", "os", "events", meaning, problem),))


def _presets(host: Host, kernel: KernelAnswers, library: PapiAnswers) -> Iterator[Listed]:
    for name in dict.fromkeys([*PRESETS, *library.presets]):
        answer = library.presets.get(name)
        meaning = PRESETS.get(name) or (answer.description if answer else "")
        unit = papi.metric(name).unit
        ways = [Way("papi", "hardware", unit, meaning, library.refusal(answer, host, kernel))]
        if name in NEAREST_GENERIC:
            generic = f"{meaning} (the kernel's {NEAREST_GENERIC[name]})"
            answer = kernel.events[PREFIX + NEAREST_GENERIC[name]]
            ways.append(Way("perf_event", "hardware", unit, generic, host.refusal(answer)))
        if name in simulated.FORMULAS:
            ways.append(_simulated(name))
        yield Listed(name, "PAPI preset", tuple(ways))


def _natives(host: Host, kernel: KernelAnswers, library: PapiAnswers) -> Iterator[Listed]:
    for name, answer in library.natives.items():
        described = papi.metric(name)
        meaning = answer.description or described.meaning
        way = Way("papi", described.kind, answer.unit or described.unit, meaning, library.refusal(answer, host, kernel))
        yield Listed(name, "PAPI native event", (way,))


def _perf_metrics(perf: Mapping[str, _Perf], host: Host, kernel: KernelAnswers, library: PapiAnswers) -> Iterator[Listed]:
    for short, item in perf.items():
        name = PREFIX + short
        if item.event is None:
            way = Way("perf_event", "hardware", "events", f"event {short}", item.problem)
            yield Listed(name, item.family, (way,))
            continue
        event = item.event
        ways = [Way("perf_event", event.kind, event.unit, event.meaning, host.refusal(kernel.events[name]))]
        by_papi = library.named.get(name)
        if by_papi is not None and by_papi.good:
            ways.insert(0, Way("papi", event.kind, event.unit, event.meaning))
        yield Listed(name, item.family, tuple(ways), item.aliases)


def _simulated(name: str) -> Way:
    metric = simulated.metric(name)
    return Way("simulated", metric.kind, metric.unit, metric.meaning, simulated.missing_tool() or "")


def _simulator_events() -> Iterator[Listed]:
    for name in simulated.FORMULAS:
        if name not in PRESETS:
            yield Listed(name, "simulator event", (_simulated(name),))


def _process_counters(root: Path) -> Iterator[Listed]:
    for group in OS_GROUPS:
        problem = _missing_group(group.source, root)
        for name, meaning in group.metrics.items():
            yield Listed(name, "process counter", (Way(group.source, "os", _os_unit(name), meaning, problem),))


def _os_unit(name: str) -> str:
    if name.endswith(("_us", "_ns")):
        return name[-2:]
    if name.startswith(("bytes_", "chars_")):
        return "bytes"
    return "blocks" if name.startswith("blocks_") else "events"


def _missing_group(source: str, root: Path) -> str:
    """Return why a group of the operating system's counters cannot be read; getrusage(2) is everywhere."""
    file = {"schedstat": "proc/self/schedstat", "procio": "proc/self/io"}.get(source)
    return f"this kernel has no /{file}" if file is not None and not (root / file).exists() else ""


def _papi_state(library: PapiAnswers, host: Host, kernel: KernelAnswers) -> SourceState:
    if not library.version:
        return SourceState("papi", problem=library.problem)
    tried = {**library.presets, **library.natives}
    if not any(answer.good for answer in tried.values()):
        problem = library.refusal(library.presets.get("PAPI_TOT_INS"), host, kernel)
        return SourceState("papi", library.version, problem, None, "nothing could be opened")
    if library.fit is None or not library.fit.good:
        return SourceState("papi", library.version, "", None, "no preset could be opened")
    return SourceState("papi", library.version, "", library.fit.code, f"presets in one event set; {library.fit.description}")


def _perf_state(host: Host, kernel: KernelAnswers) -> SourceState:
    problem = "" if any(answer.good for answer in kernel.events.values()) else _first_refusal(host, kernel)
    if kernel.fit.good:
        note = f"hardware events in one group; {kernel.fit.description}"
        return SourceState("perf_event", "", problem, kernel.fit.code, note)
    note = f"no hardware event could be opened ({host.refusal(kernel.fit)})"
    return SourceState("perf_event", "", problem, None, note if problem else f"{note}; software events need no counter")


def _first_refusal(host: Host, kernel: KernelAnswers) -> str:
    return host.refusal(next(iter(kernel.events.values()), Answer("", "no event", 0)))


def _simulated_state() -> SourceState:
    # A run simulates one last-level cache: it stands for level 2 or for level 3.
    together = [name for name in simulated.FORMULAS if not simulated.needs_page_cache(name) and not name.startswith("PAPI_L3_")]
    problem = simulated.missing_tool() or ""
    note = "one last-level cache a run, as level 2 or as level 3; PAPI_TLB_DM has a run of its own"
    return SourceState("simulated", "", problem, None if problem else len(together), note)


def _process_states(root: Path) -> Iterator[SourceState]:
    for group in OS_GROUPS:
        yield SourceState(group.source, problem=_missing_group(group.source, root), note="all of them in every run")
