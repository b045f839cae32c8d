"""Open the requested metrics that this process can count of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from unperturbed.collectors.runtime.build import load_counters
from unperturbed.collectors.self_counting.process import ProcessCounters, ThreadCounters
from unperturbed.collectors.sources.catalogue import OS_GROUPS, OS_METRICS, PRESETS, is_native
from unperturbed.collectors.sources.perf.events import PREFIX, describe
from unperturbed.collectors.sources.perf.names import ALIASES, GENERIC, PerfCode
from unperturbed.collectors.sources.perf.topdown import leader
from unperturbed.common.wording import did_you_mean
from unperturbed.errors import HostError, SpecError, UnperturbedError

_NO_ROOM = "does not fit the counters together with those before it"
_SIMULATED = "callgrind::"


@dataclass(frozen=True)
class Chosen:
    """The requested metrics that this process can count."""

    thread: tuple[ThreadCounters, ...]  # Opened counters of the calling thread
    process: tuple[ProcessCounters, ...]  # Opened counters of the operating system
    refused: Mapping[str, str]  # Metrics that cannot be counted, and why


def choose(names: Sequence[str], *, compiler: str = "cc", children: bool = False) -> Chosen:
    """Open each metric with the first source that can count it: PAPI, then perf_event, beside the system's counters.

    `names`: As in a spec: PAPI presets, native names such as `perf::page-faults`, operating-system counters.
    `children`: The processes that this thread starts count too; PAPI is then left out.

    Notes
    -----
    Nothing is multiplexed: of metrics that do not fit the counters together, those named first are counted.
    """
    for name in names:
        _check_known(name)
    left = [name for name in names if name not in OS_METRICS]
    if left:
        load_counters(compiler)
    why: dict[str, list[str]] = {name: [] for name in names}
    thread: list[ThreadCounters] = []
    for source, candidates in (("papi", _papi), ("perf_event", _perf_event)):
        events, refused = candidates(left, children)
        opened, more = _as_many_as_fit(events, source, compiler=compiler, children=children)
        thread += opened
        for name, reason in {**refused, **more}.items():
            why[name].append(f"{source}: {reason}")
        left = [name for name in left if not any(name in counters.totals for counters in opened)]
    process, closed = _process([name for name in names if name in OS_METRICS], children=children)
    return Chosen(tuple(thread), process, {name: "; ".join(why[name]) for name in left} | closed)


def _check_known(name: str) -> None:
    if name.startswith(PREFIX):
        with suppress(HostError):  # a name like this may be right on another host
            describe(name)
    elif name not in PRESETS and name not in OS_METRICS and not is_native(name):
        raise SpecError(f"there is no metric {name!r}; {_proposal(name)}")


def _proposal(name: str) -> str:
    known = [*PRESETS, *OS_METRICS, *(PREFIX + event for event in (*GENERIC, *ALIASES))]
    return did_you_mean(name, known) or "`unperturbed metrics` lists those that there are"


_Candidates = tuple[dict[str, PerfCode], dict[str, str]]


def _papi(names: Sequence[str], children: bool) -> _Candidates:
    """Return the events that PAPI shall try; perf's own names go to perf_event, which records how long it counted."""
    own = [name for name in names if not name.startswith((PREFIX, _SIMULATED))]
    if children:
        return {}, dict.fromkeys(own, "not asked, for it would not count what other processes do")
    return dict.fromkeys(own, PerfCode(0, 0)), {}


def _perf_event(names: Sequence[str], _children: bool) -> _Candidates:
    events: dict[str, PerfCode] = {}
    refused: dict[str, str] = {}
    for name in names:
        if name.startswith(_SIMULATED):
            refused[name] = "it has no simulated events; campaigns have"
            continue
        try:
            code = describe(name).code
        except UnperturbedError as error:
            refused[name] = str(error)
            continue
        if leader(code.as_event(name)) is None:
            events[name] = code
        else:
            refused[name] = "a topdown event needs a group that perf::slots leads; campaigns have one"
    return events, refused


def _as_many_as_fit(
    events: Mapping[str, PerfCode], source: str, *, compiler: str, children: bool
) -> tuple[list[ThreadCounters], dict[str, str]]:
    """Open the events together if they fit, else as many as fit, in order; return why the rest cannot be counted."""

    def attempt(some: Mapping[str, PerfCode], *, keep: bool = False) -> tuple[list[ThreadCounters], str]:
        counters = ThreadCounters(some, source, compiler=compiler, children=children)
        try:
            counters.open()
        except HostError as error:
            return [], str(error)
        runs = counters.runs()
        if keep and runs:
            return [counters], ""
        counters.close()
        return [], "" if runs else _NO_ROOM

    if not events:
        return [], {}
    opened, reason = attempt(events, keep=True)
    if opened:
        return opened, {}
    if reason.startswith(("libpapi: ", "PAPI_library_init: ")):  # it is not about an event
        return [], dict.fromkeys(events, reason)
    kept: dict[str, PerfCode] = {}
    refused: dict[str, str] = {}
    for name, code in events.items():
        _, reason = attempt({name: code})
        if not reason and kept and attempt({**kept, name: code})[1]:
            reason = _NO_ROOM
        if reason:
            refused[name] = reason.removeprefix(f"{name}: ").replace(f" of {name}", "")
        else:
            kept[name] = code
    if not kept:
        return [], refused
    opened, reason = attempt(kept, keep=True)
    return opened, refused if opened else {**refused, **dict.fromkeys(kept, reason)}


def _process(names: Sequence[str], *, children: bool) -> tuple[tuple[ProcessCounters, ...], dict[str, str]]:
    """Open the operating system's counters group by group: a closed file of /proc costs its own group alone."""
    opened = []
    closed: dict[str, str] = {}
    for group in OS_GROUPS:
        wanted = [name for name in names if name in group.metrics]
        if not wanted:
            continue
        if children and group.source == "schedstat":
            closed.update(dict.fromkeys(wanted, f"{group.source}: of the main thread alone, not of other processes"))
            continue
        counters = ProcessCounters(group, wanted, children=children)
        try:
            counters.open()
        except HostError as error:
            closed.update(dict.fromkeys(wanted, f"{group.source}: {error}"))
        else:
            opened.append(counters)
    return tuple(opened), closed
