"""Which source counts which metric on this host, and how many passes that takes.

A pass is what one run can hold: metrics of one source (and, simulated, of one machine). What fits is found by trying: the sampler opens the
events around a small program of its own, and what it cannot open is left to the next source; what does not run all the time goes to a further
pass, together with the metrics that every pass shares. Metrics take turns on the counters (multiplexing) only when that is asked for.
Adding a source means one module that turns names into events and metrics, one opener in the C runtime, and one entry in `_CANDIDATES`.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from unperturbed.collectors import papi, perf_event, simulated
from unperturbed.collectors.record import Event, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime_build import build_observer, build_probe
from unperturbed.collectors.simulated import Machine
from unperturbed.collectors.trace import Metric
from unperturbed.errors import HostError

__all__ = ["Pass", "Passes", "plan_passes"]


_UNKNOWN = "knows no such event"
_NOT_GENERIC = "the kernel has no generic event for it"
_NO_ROOM = "the events do not fit the counters together: they would be multiplexed"


@dataclass(frozen=True)
class Pass:
    """What one run counts.

    Attributes
    ----------
    name : `main`, or what sets the pass apart (`page-cache`, `perf_event`, …).
    source : `simulated`, `perf_event`, `papi`, or `none` when no hardware metric was asked for.
    metrics : the hardware (or simulated) metrics, in column order.
    events : what the sampler opens for them; none when simulated.
    machine : the simulated machine, when simulated.
    multiplexed : the events take turns on the counters, and their counts are scaled.
    """

    name: str
    source: str
    metrics: tuple[Metric, ...]
    events: tuple[Event, ...] = ()
    machine: Machine | None = None
    multiplexed: bool = False


@dataclass(frozen=True)
class Passes:
    """The passes of a campaign, and for each source that was passed over, why."""

    passes: tuple[Pass, ...]
    reasons: Mapping[str, str]


@dataclass(frozen=True)
class Request:
    """What is asked of the sources.

    Attributes
    ----------
    machine : caches of the simulated machine.
    compiler : C compiler for the sampler that tries events.
    shared : metrics that every pass holds (those that runs are aligned by).
    sampler : `inside` or `outside`.
    multiplex : metrics that do not fit together share the counters in turns instead of going to several passes.
    """

    machine: Machine
    compiler: str
    shared: frozenset[str] = frozenset()
    sampler: Literal["inside", "outside"] = "inside"
    multiplex: bool = False


def plan_passes(
    names: Sequence[str],
    *,
    source: str,
    machine: Machine,
    compiler: str,
    shared: Iterable[str] = (),
    sampler: Literal["inside", "outside"] = "inside",
    multiplex: bool = False,
) -> Passes:
    """Assign each hardware metric to the first source that can count it here.

    Parameters
    ----------
    names : PAPI presets or native names.
    source : `auto`, or the one source that is allowed.
    machine, compiler, shared, sampler, multiplex : as in `Request`.

    Raises
    ------
    HostError
        A metric that nothing here can count, with every source's reason.
    """
    if not names:
        return Passes((Pass("main", "none", ()),), {})
    request = Request(machine, compiler, frozenset(shared), sampler, multiplex)
    left = list(names)
    reasons: dict[str, str] = {}
    refused: dict[str, list[str]] = {name: [] for name in names}
    passes: list[Pass] = []
    for candidate, probe in _CANDIDATES.items():
        if source not in ("auto", candidate) or not left:
            continue
        again = [name for name in names if name in request.shared and name not in left]
        counted, why = probe([*again, *left], request)
        counted = [item for item in counted if any(metric.name in left for metric in item.metrics)]
        passes += counted
        taken = {metric.name for item in counted for metric in item.metrics}
        for name in left:
            if name not in taken:
                refused[name].append(f"{candidate}: {why[name]}")
        missed = [name for name in left if name not in taken]
        if why and not taken and not (candidate == "papi" and all(name.startswith(perf_event.PREFIX) for name in missed)):
            reasons[candidate] = _commonest(why.values())
        left = [name for name in left if name not in taken]
    if left:
        lines = [f"{name} cannot be counted on this host ({'; '.join(refused[name])})" for name in left]
        raise HostError("\n".join([*lines, *_hints(" ".join(lines))]))
    return Passes(tuple(_named(passes)), {name: ". ".join([why, *_hints(why)]) for name, why in reasons.items()})


def _commonest(reasons: Iterable[str]) -> str:
    """Return the reason that tells most about a source: that of most metrics, whatever metric each names."""
    kinds: dict[str, list[str]] = {}
    telling = [reason for reason in reasons if reason not in (_UNKNOWN, _NOT_GENERIC)]
    for reason in telling or [_UNKNOWN]:
        kinds.setdefault(re.sub(r"\bPAPI_\w+", "", reason), []).append(reason)
    return max(kinds.values(), key=len)[0]


def _named(passes: Sequence[Pass]) -> list[Pass]:
    """Put the fullest pass first, call it `main`, and keep the names of the rest apart."""
    named: list[Pass] = []
    for index, item in enumerate(sorted(passes, key=lambda item: -len(item.metrics))):
        name = "main" if index == 0 else item.name
        if name in {other.name for other in named}:
            name = f"{name}-{index}"
        named.append(replace(item, name=name))
    return named


_Counted = tuple[list[Pass], dict[str, str]]


def _opened(
    names: Sequence[str],
    source: str,
    describe: Callable[[str], Metric],
    find: Callable[[str], Event | None],
    request: Request,
    refuse: Callable[[str], str | None] = lambda _: None,
) -> _Counted:
    """Find which metrics a source can open here, and put them into passes. `refuse` says why a source knows no such event."""
    found = {name: find(name) for name in names}
    why = {name: refuse(name) or _UNKNOWN for name, event in found.items() if event is None}
    possible = [event for event in found.values() if event is not None]
    if possible and (problem := _trial(source, possible[:1], request)) and len(possible) > 1 and _same_everywhere(problem):
        return [], {**why, **{event.name: problem for event in possible}}
    problems = {event: _trial(source, [event], request) for event in possible}
    why |= {event.name: problem for event, problem in problems.items() if problem is not None}
    single = [event for event, problem in problems.items() if problem is None]
    if request.multiplex and len(single) > 1 and _trial(source, single, request) is not None:
        groups, refused = _in_turns(single, source, request)
        multiplexed = True
    else:
        groups, refused = _packed(single, source, request)
        multiplexed = False
    passes = [
        Pass(source, source, tuple(describe(event.name) for event in group), tuple(group), multiplexed=multiplexed)
        for group in groups
    ]
    return passes, {**why, **refused}


def _packed(events: Sequence[Event], source: str, request: Request) -> tuple[list[list[Event]], dict[str, str]]:
    """Group events by first fit into what can be counted together all the time, the shared ones in every group."""
    shared = [event for event in events if event.name in request.shared]
    while shared and _trial(source, shared, request):
        shared.pop()  # the first of them that fit together are what every pass can have
    named = ", ".join(event.name for event in shared)
    groups: list[list[Event]] = [[*shared]] if shared else []
    refused = {}
    for event in events:
        if event in shared:
            continue
        for group in groups:
            if _trial(source, [*group, event], request) is None:
                group.append(event)
                break
        else:
            problem = _trial(source, [*shared, event], request)
            if problem:
                refused[event.name] = f"{problem} (with {named}, which every pass shares)"
            else:
                groups.append([*shared, event])
    return groups, refused


def _in_turns(events: Sequence[Event], source: str, request: Request) -> tuple[list[list[Event]], dict[str, str]]:
    """Make one group of events that take turns. Only perf_event tells how long each was counted, and a count without that is worth nothing."""
    problem = (
        _trial(source, events, request, multiplexed=True)
        if source == "perf_event"
        else "multiplexed counts are read through perf_event, which tells how long each event ran"
    )
    return ([], {event.name: problem for event in events}) if problem else ([list(events)], {})


def _same_everywhere(problem: str) -> bool:
    """Tell whether a refusal concerns the source as a whole, so that its other events need not be tried."""
    return "not installed" in problem or "PAPI_library_init" in problem


def _trial(source: str, events: Sequence[Event], request: Request, *, multiplexed: bool = False) -> str | None:
    """Open the events around a small program; return why they cannot be counted together, or None."""
    setup = Setup(
        source,
        1_000_000,
        "monotonic",
        tuple(events),
        capacity=1024,
        sampler=request.sampler,
        multiplex=multiplexed,
        papi=papi.bundled_library() if request.sampler == "outside" else "",
    )
    with tempfile.TemporaryDirectory(prefix="unperturbed-probe-") as folder:
        file = Path(folder) / "record"
        create_record_file(file, setup)
        program = [str(build_probe(request.compiler))]
        if request.sampler == "outside":
            program = [str(build_observer(request.compiler)), str(file), *program]
        subprocess.run(program, env={"UNPERTURBED_RECORD": str(file)}, check=False, capture_output=True)
        records = read_record_file(file, setup)
    if records.state != "finished":
        return records.message or "the sampler did not start"
    last = records.rows[-1]
    if multiplexed:
        never = [event.name for event, times in zip(events, last["times"], strict=True) if times[1] == 0]
        return f"never on a counter: {', '.join(never)}" if never else None
    return _NO_ROOM if int(last["running_ns"]) < int(last["enabled_ns"]) else None


def _hints(text: str) -> list[str]:
    """Return what the bare reasons of the counter libraries mean on this host, and what to do."""
    hints = []
    permission = "Permission denied" in text or "Operation not permitted" in text or "paranoid" in text
    if permission:
        paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
        level = paranoid.read_text().strip() if paranoid.exists() else "unknown"
        user_only = "; at level 2 user space alone can be counted, as in perf::page-faults:u" if "perf::" in text else ""
        hints.append(f"perf_event_paranoid is {level}; allow counting with: sysctl kernel.perf_event_paranoid=1{user_only}")
    kernel_refuses = "No such file or directory" in text or "not supported" in text
    if not permission and (kernel_refuses or ("no PMU" in text and "perf_event:" not in text)):
        hints.append("The processor offers no such counter here: no PMU, as in most virtual machines, or an event it lacks.")
    return hints


def _papi(names: Sequence[str], request: Request) -> _Counted:
    return _opened(names, "papi", papi.metric, papi.event, request)


def _perf_event(names: Sequence[str], request: Request) -> _Counted:
    return _opened(names, "perf_event", perf_event.metric, perf_event.event, request, perf_event.refusal)


def _simulated(names: Sequence[str], request: Request) -> _Counted:
    if request.sampler == "outside":
        return [], dict.fromkeys(names, "the simulator ends its intervals from inside the program: take sampler: inside")
    if problem := simulated.missing_tool():
        return [], dict.fromkeys(names, problem)
    why = {name: "no event of callgrind stands for it" for name in names if name not in simulated.FORMULAS}
    possible = [name for name in names if name not in why]
    levels = (
        [name for name in possible if name.startswith("PAPI_L2_")],
        [name for name in possible if name.startswith("PAPI_L3_")],
    )
    if all(levels):
        problem = f"only one last-level cache is simulated, and {levels[0][0]} is asked for too: ask for one of the two levels"
        why |= dict.fromkeys(levels[1], problem)
        possible = [name for name in possible if name not in why]
    passes = []
    paged = (
        [name for name in possible if simulated.fits_page_cache(name)] if any(map(simulated.needs_page_cache, possible)) else []
    )
    # What means the same in both is counted in both; a pass that would count nothing else is not made.
    main = [name for name in possible if not simulated.needs_page_cache(name)]
    if not set(main) <= set(paged):
        passes.append(Pass("simulated", "simulated", tuple(map(simulated.metric, main)), machine=request.machine))
    if paged:
        passes.append(
            Pass("page-cache", "simulated", tuple(map(simulated.metric, paged)), machine=request.machine.with_page_cache())
        )
    return passes, why


_CANDIDATES: Mapping[str, Callable[[Sequence[str], Request], _Counted]] = {
    "papi": _papi,
    "perf_event": _perf_event,
    "simulated": _simulated,
}
