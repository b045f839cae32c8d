"""Assignment of metrics to sources on this host, and division of the metrics into passes.

A pass is a set of metrics that one run can count: metrics of one source and, if simulated, of one machine. Trials show
which events fit: the sampler opens the events around a small program. Events that a source cannot open are left to the
next source. Events that would not be counted all the time go to a further pass, together with the metrics that every
pass shares.

If metrics must meet in a pass, the fewest passes are looked for in which they do, see `sources.covering`.

Some events can be counted only in a group led by another event (Intel's topdown events need `slots`). The leader is
added if it was not requested, and events that share a leader are put into one pass if they fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from unperturbed.collectors.records.file import (
    MOST_EVENTS,
    OVERFLOW_SIGNAL,
    SIGNAL,
    Setup,
    create_record_file,
    read_record_file,
)
from unperturbed.collectors.runtime import build_empty_program, build_observer
from unperturbed.collectors.sources import Event, Pass, Planned, Request, Source, find_source, find_sources
from unperturbed.collectors.sources.callgrind import Machine
from unperturbed.collectors.sources.covering import Covering, cover
from unperturbed.collectors.sources.perf.events import PREFIX, describe
from unperturbed.collectors.sources.perf.sysfs import confinement
from unperturbed.collectors.sources.source import NONE
from unperturbed.common import supervision
from unperturbed.common.scratch import scratch_folder
from unperturbed.common.table import Column, Table
from unperturbed.errors import HostError, SpecError

Trial = Callable[[Sequence[Event]], str | None]
"""Function that opens arranged events and returns why they cannot be counted together, or None if they can."""


def _led(events: Sequence[Event], leaders: Mapping[str, Event]) -> dict[tuple[object, ...], list[Event]]:
    """Return, by what a leader counts, the leader (under its requested name, if any) and its followers."""
    groups: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        if lead := leaders.get(event.name):
            asked = next((candidate for candidate in events if candidate.counted == lead.counted), lead)
            groups.setdefault(lead.counted, [asked]).append(event)
    return groups


def _arranged(events: Sequence[Event], leaders: Mapping[str, Event], *, turns: bool = False) -> list[Event]:
    """Return events and leaders in opening order; with `turns`, each event without a leader gets its own group."""
    placed: list[Event] = []
    for lead, *followers in _led(events, leaders).values():
        placed += [lead, *(replace(event, follows=True) if turns else event for event in followers)]
    names = {event.name for event in placed}
    return [*placed, *(event for event in events if event.name not in names)]


def pack(
    events: Sequence[Event], shared_names: frozenset[str], together: Sequence[frozenset[str]], trial: Trial
) -> tuple[list[list[Event]], dict[str, str]]:
    """Group events by first fit so that each group, with the shared events, can be counted together all the time.

    `shared_names`: Names of the events in every group: as many as fit together, in their order.
    `together`: Sets of names to keep in one group, divided if they do not fit; an event may then be in several groups.
    Result: The groups, and for each event in no group, the reason: it does not fit together with the shared events.
    """
    shared = _fitting(events, shared_names, trial)
    groups: list[list[Event]] = [[*shared]] if shared else []
    refused = {}
    # Place whole sets first, larger sets before smaller ones, then single events.
    sets = [[event for event in events if event.name in names] for names in sorted(together, key=len, reverse=True)]
    for unit in (*(events for events in sets if len(events) > 1), *([event] for event in events)):
        if any(all(event in group for event in unit) for group in groups):
            continue
        problem = _place(unit, groups, shared, trial)
        if problem and len(unit) == 1:
            refused[unit[0].name] = _without_room(problem, shared)
    return groups, refused


def _fitting(events: Sequence[Event], shared_names: Collection[str], trial: Trial) -> list[Event]:
    """Return the shared events, as many as fit together."""
    shared = [event for event in events if event.name in shared_names]
    while shared and trial(shared):
        shared.pop()
    return shared


def _without_room(problem: str, shared: Sequence[Event]) -> str:
    return f"{problem} (together with {', '.join(event.name for event in shared)}, which every pass shares)"


def _meeting(
    events: Sequence[Event], sets: Iterable[frozenset[str]], trial: Trial, request: Request
) -> tuple[list[list[Event]], dict[str, str], Covering]:
    """Group events, as `pack` does, into the fewest groups in which each set is whole that fits."""
    shared = _fitting(events, request.shared, trial)
    others = [event for event in events if event not in shared]
    problems: dict[frozenset[str], str] = {}

    def grouped(names: Collection[str]) -> list[Event]:
        return [*shared, *(event for event in others if event.name in names)]

    def fits(names: frozenset[str]) -> bool:
        problem = trial(grouped(names))
        if problem is not None:
            problems[names] = problem
        return problem is None

    free = {event.name for event in others}
    wanted = [rest for names in sets if (rest := names & free)]
    found = cover([event.name for event in others], wanted, fits, trials=_TRIALS_OF_GROUPS, known=request.known)
    refused = {
        event.name: _without_room(problems.get(frozenset({event.name}), _NO_ROOM), shared)
        for event in others
        if frozenset({event.name}) in found.unmet
    }
    return [grouped(group) for group in found.groups] or ([shared] if shared else []), refused, found


def _place(unit: list[Event], groups: list[list[Event]], shared: Sequence[Event], trial: Trial) -> str | None:
    """Add a set of events to the first group with room, or to a new group; return why neither is possible, or None."""
    for group in groups:
        more = [event for event in unit if event not in group]
        if trial([*group, *more]) is None:
            group.extend(more)
            return None
    new = [*shared, *(event for event in unit if event not in shared)]
    problem = trial(new)
    if problem is None:
        groups.append(new)
    return problem


_UNKNOWN = "has no such event"
_NOT_GENERIC = "the kernel has no generic event for this metric"
_NO_ROOM = "the events need more counters than the processor has: they would be multiplexed"
_TRIALS_OF_GROUPS = 600  # as many take seconds, and show all groups of ten events on four counters
_TRIALS = 2  # a trial is repeated if its program was killed, which gives no information about the host


def passes_table(metrics: Mapping[str, Sequence[str]], order: Sequence[str], division: str = "") -> Table | None:
    """Return the metrics of each pass as a table of metrics by passes; None for a single pass.

    `order`: Metrics in the order of the rows; others follow.
    `division`: How the passes were found.
    """
    if len(metrics) < 2:
        return None
    held = [frozenset(names) for names in metrics.values()]
    each = sorted({name for names in held for name in names}, key=lambda name: ((*order, name).index(name), name))
    columns = [Column("metric", whole=True)]
    columns += [Column(str(number), meaning=f"pass {name}") for number, name in enumerate(metrics, 1)]
    columns.append(Column("meets", "right", "number of other metrics that it shares a pass with"))
    rows = []
    for name in each:
        met = frozenset[str]().union(*(names for names in held if name in names))
        rows.append([name, *("●" if name in names else "" for names in held), f"{len(met) - 1} of {len(each) - 1}"])
    return Table(columns, rows, f"Metrics by pass{f': {division}' if division else ''}")


@dataclass(frozen=True)
class Passes:
    """The passes of a campaign."""

    passes: tuple[Pass, ...]  # The pass with most metrics first, called `main`
    reasons: Mapping[str, str]  # Each source that is not used, and why

    @property
    def passed_over(self) -> str:
        """Return one line with the sources that are not used, and the reasons; empty if all sources are used."""
        advice: dict[str, list[str]] = {}
        for source, why in self.reasons.items():
            advice.setdefault(" ".join(_hints(why)) or why, []).append(source)
        lines = []
        for text, sources in advice.items():
            said = f"{text[0].lower()}{text[1:]}" if text[1:2].islower() else text
            lines.append(f"not used: {', '.join(sources)} ({said.rstrip('.')}).")
        return " ".join(lines)

    @property
    def division(self) -> str:
        """Return how passes in which metrics meet were found; empty if no metrics had to meet."""
        return "; ".join(dict.fromkeys(item.division for item in self.passes if item.division))


def plan_passes(
    names: Sequence[str],
    *,
    source: str,
    machine: Machine,
    compiler: str,
    shared: Iterable[str] = (),
    sampler: Literal["inside", "outside"] = "inside",
    multiplex: bool = False,
    overflow: tuple[str, int] | None = None,
    together: Iterable[frozenset[str]] = (),
    meet: Iterable[frozenset[str]] = (),
    known: Iterable[frozenset[str]] = (),
) -> Passes:
    """Assign each hardware metric to the first source that can count it here; for the arguments see `Request`.

    Result: Every metric is in a pass; shared metrics are in every pass, except those that do not fit together (see
    `pack`). A pass may contain a metric that was not requested: the event that must lead a group.
    """
    if not names:
        return Passes((Pass("main", NONE, ()),), {})
    request = Request(
        machine, compiler, frozenset(shared), sampler, multiplex, overflow, tuple(together), tuple(meet), tuple(known)
    )
    assigned = _assign(names, source, request)
    if assigned.left and request.together:
        # Metrics that were to be counted together were left to sources that cannot count them: allow several passes.
        assigned = _assign(names, source, replace(request, together=()))
    if assigned.left:
        lines = list(_refusals({name: "; ".join(assigned.refused[name]) for name in assigned.left}))
        raise HostError("\n".join([*lines, *_hints(" ".join(lines))]))
    reasons = {name: ". ".join([why, *_hints(why)]) for name, why in assigned.reasons.items()}
    return Passes(tuple(_name(assigned.passes)), reasons)


@dataclass
class _Assigned:
    """Metrics assigned to sources so far."""

    left: list[str]  # Metrics that no source has taken
    passes: list[Pass]  # The passes that the sources have planned
    refused: dict[str, list[str]]  # For each metric, why sources have not taken it
    reasons: dict[str, str]  # Each source that is not used, and why


def _assign(names: Sequence[str], source: str, request: Request) -> _Assigned:
    """Let each source, in order of preference, take the metrics that it can count."""
    assigned = _Assigned(list(names), [], {name: [] for name in names}, {})
    for candidate, record in find_sources().items():
        if source not in ("auto", candidate) or not assigned.left:
            continue
        again = [name for name in names if name in request.shared and name not in assigned.left]
        counted, why = _offer(record, again, assigned.left, request)
        if source == "auto" and (split := _split_sets(counted, assigned.left, request)):
            kept = [name for name in assigned.left if name not in split]
            counted, why = _offer(record, again, kept, request) if kept else ([], {})
            why = {**why, **dict.fromkeys(split, "left to a source that can count all metrics of the same formula")}
        assigned.passes += counted
        taken = {metric.name for item in counted for metric in item.metrics}
        missed = [name for name in assigned.left if name not in taken]
        others = tuple(other.prefix for other in find_sources().values() if other.prefix and other is not record)
        for name in missed:
            if source != "auto" or name.startswith(record.yields_to) or not name.startswith(others):
                assigned.refused[name].append(f"{candidate}: {why[name]}")
        missed_own = [name for name in missed if not name.startswith((*record.yields_to, *others))]
        if missed_own and not taken:
            assigned.reasons[candidate] = _commonest(why[name] for name in missed_own)
        assigned.left = missed
    return assigned


def _offer(record: Source, again: Sequence[str], left: Sequence[str], request: Request) -> Planned:
    """Let a source plan the metrics that are left; keep its passes that contain any of these metrics."""
    counted, why = (record.plan or partial(_plan_by_opening, record))([*again, *left], request)
    return [item for item in counted if any(metric.name in left for metric in item.metrics)], why


def _split_sets(counted: Sequence[Pass], left: Sequence[str], request: Request) -> frozenset[str]:
    """Return the metrics of each set in `request.together` that a source took only in part: a set needs one source."""
    taken = {metric.name for item in counted for metric in item.metrics}
    split: frozenset[str] = frozenset()
    for names in request.together:
        own = names.intersection(left) - request.shared
        if own & taken and own - taken:
            split |= own
    return split


def _refusals(reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield one line for each reason and its metrics; reasons that differ only in the metric's name count as one."""
    alike: dict[str, list[str]] = {}
    for name, why in reasons.items():
        alike.setdefault(why.replace(name, "NAME"), []).append(name)
    for why, names in alike.items():
        said = why if len(names) > 1 else reasons[names[0]]
        yield f"{', '.join(names)} cannot be counted on this host ({said})"


def misspelt(names: Iterable[str]) -> Mapping[str, str]:
    """Return the `perf::` names that perf does not have, each with a message that suggests similar names."""
    faults = {}
    for name in names:
        if name.startswith(PREFIX):
            try:
                with suppress(HostError):  # perf has the name, but this host lacks the PMU
                    describe(name)
            except SpecError as error:
                faults[name] = str(error)
    return faults


def _commonest(reasons: Iterable[str]) -> str:
    """Return the most common reason; reasons that differ only in the metric's name count as one."""
    kinds: dict[str, list[str]] = {}
    known = [reason for reason in reasons if reason not in (_UNKNOWN, _NOT_GENERIC)]
    for reason in known or [_UNKNOWN]:
        kinds.setdefault(re.sub(r"\bPAPI_\w+", "", reason), []).append(reason)
    return max(kinds.values(), key=len)[0]


def _name(passes: Sequence[Pass]) -> list[Pass]:
    """Put the pass with most metrics first, name it `main`, and give the other passes unique names."""
    named: list[Pass] = []
    for index, item in enumerate(sorted(passes, key=lambda item: -len(item.metrics))):
        name = "main" if index == 0 else item.name
        if name in {other.name for other in named}:
            name = f"{name}-{index}"
        named.append(replace(item, name=name))
    return named


def _plan_by_opening(source: Source, names: Sequence[str], request: Request) -> Planned:
    """Try to open each metric's event with a source, and group the events that open into passes."""
    events_by_name = {name: source.event(name) for name in names}
    why = {name: source.refusal(name) or _UNKNOWN for name, event in events_by_name.items() if event is None}
    possible = [event for event in events_by_name.values() if event is not None]
    leaders = {event.name: lead for event in possible if (lead := source.leader(event)) is not None}

    def together(events: Sequence[Event]) -> str | None:
        led = _led(events, leaders)
        if len(led) > 1:
            names = ", ".join(group[0].name for group in led.values())
            return f"the events need several group leaders ({names}), but a run has only one group"
        return _trial(source.name, _arranged(events, leaders), request)

    problem = together(possible[:1]) if len(possible) > 1 else None
    if problem and (problem.startswith("libpapi: ") or "PAPI_library_init" in problem):  # not about an event
        return [], {**why, **{event.name: problem for event in possible}}
    problems = {event: together([event]) for event in possible}
    why |= {event.name: problem for event, problem in problems.items() if problem is not None}
    single = [event for event, problem in problems.items() if problem is None]
    division = ""
    multiplexed = request.multiplex and len(single) > 1 and together(single) is not None
    if multiplexed:
        groups, refused = _take_turns(single, leaders, source, request)
    else:
        alike = (
            frozenset(event.name for event in single if event.counted == counted or event in group)
            for counted, group in _led(single, leaders).items()
        )
        sets = (*request.together, *alike)
        if request.meet and together(single) is not None:
            groups, refused, found = _meeting(single, (*request.meet, *sets), together, request)
            division = found.sentence
        else:
            groups, refused = pack(single, request.shared, sets, together)
        groups = [_arranged(group, leaders) for group in groups]
    passes = []
    for group in groups:
        metrics = tuple(source.metric(event.name) for event in group)
        passes.append(Pass(source.name, source.name, metrics, tuple(group), multiplexed=multiplexed, division=division))
    return passes, {**why, **refused}


def _take_turns(
    events: Sequence[Event], leaders: Mapping[str, Event], source: Source, request: Request
) -> tuple[list[list[Event]], dict[str, str]]:
    """Return one group of events that share counters by multiplexing; counts are scaled by how long each event ran."""
    arranged = _arranged(events, leaders, turns=True)
    problem: str | None = "multiplexing needs the source perf_event, which reports how long each event was counted"
    if source.timed:
        problem = _trial(source.name, arranged, request, multiplexed=True)
    return ([], {event.name: problem for event in events}) if problem else ([arranged], {})


def _trial(source: str, events: Sequence[Event], request: Request, *, multiplexed: bool = False) -> str | None:
    """Open the events around a small program; return why they cannot be counted together, or None."""
    if len(events) > MOST_EVENTS:
        return f"{len(events)} hardware events are too many for one run: the maximum is {MOST_EVENTS}"
    known = find_source(source)
    ends, interval = "", 1_000_000
    if request.overflow and request.overflow[0] in {event.name for event in events}:
        ends, interval = request.overflow
    setup = Setup(
        source,
        interval,
        "event" if ends else "monotonic",
        tuple(events),
        capacity=1024,
        sampler=request.sampler,
        multiplex=multiplexed,
        papi=known.observer_library() if request.sampler == "outside" else known.library(),
        signal=OVERFLOW_SIGNAL if ends else SIGNAL,
        interval_event=ends,
    )
    for _attempt in range(_TRIALS):
        with scratch_folder("probe") as folder:
            file = folder / "record"
            create_record_file(file, setup)
            program = [str(build_empty_program(request.compiler))]
            if request.sampler == "outside":
                program = [str(build_observer(request.compiler)), str(file), *program]
            done = supervision.run(program, env={"UNPERTURBED_RECORD": str(file)}, capture_output=True)
            records = read_record_file(file, setup)
        if records.state == "finished" or records.message or done.returncode == 0:
            break
    if records.state != "finished":
        return records.message or "the sampler did not start"
    if not len(records.rows):
        return "the events could not be read in a trial run"
    last = records.rows[-1]
    if multiplexed:
        never = [event.name for event, times in zip(events, last["times"], strict=True) if times[1] == 0]
        return f"the kernel never scheduled {', '.join(never)} on a counter" if never else None
    return _NO_ROOM if int(last["running_ns"]) < int(last["enabled_ns"]) else None


def _hints(text: str) -> list[str]:
    """Return an explanation of each known reason in a text of refusals, with what to do."""
    hints = []
    permission = "Permission denied" in text or "Operation not permitted" in text or "paranoid" in text
    if permission:
        paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
        level = paranoid.read_text().strip() if paranoid.exists() else "unknown"
        hint = f"perf_event_paranoid is {level}; allow counting with: sysctl kernel.perf_event_paranoid=1"
        if "perf::" in text:
            hint += "; at level 2, only user space can be counted, for example with perf::page-faults:u"
        hints.append(hint)
    if _NO_ROOM in text and (hybrid := confinement()):
        hints.append(f"{hybrid[0].upper()}{hybrid[1:]}.")
    kernel_refuses = "No such file or directory" in text or "not supported" in text
    if not permission and (kernel_refuses or ("no PMU" in text and "perf_event:" not in text)):
        hints.append(
            "This host has no such hardware counter: it has no PMU, like most virtual machines, or lacks the event."
        )
    return hints
