"""Events that perf_event can count on this host: each event is tried, but only one tracepoint, on behalf of all.

Closing a tracepoint waits for every processor, about 40 ms, and there are thousands of tracepoints. The kernel's
refusals are explained: what forbids counting, and which command allows it.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from unperturbed.collectors.sources.catalogue import PRESETS, preset_unit
from unperturbed.collectors.sources.perf.events import NEAREST_GENERIC, PREFIX, own_events
from unperturbed.collectors.sources.perf.names import ALIASES, GENERIC, PerfCode, PerfEvent, of_pmus, parse
from unperturbed.collectors.sources.perf.sysfs import leader, pmus, tracepoints
from unperturbed.collectors.sources.source import (
    Answer,
    CatalogueEntry,
    SourceCatalogue,
    SourceState,
    SourceSupport,
    Trials,
)
from unperturbed.errors import HostError, SpecError

_ABSENT = frozenset({errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP})
REFUSED = frozenset({errno.EACCES, errno.EPERM})
NO_PMU = "no PMU: the kernel provides no processor counters, as in most virtual machines"
MOST_TOGETHER = 16
_FIT = (
    *("instructions", "cycles", "branches", "branch-misses", "cache-references", "cache-misses"),
    *("L1-dcache-loads", "L1-dcache-load-misses", "dTLB-loads", "dTLB-load-misses", "iTLB-load-misses"),
)


@dataclass(frozen=True)
class Host:
    """Properties of this host that explain the kernel's refusals."""

    core_pmus: tuple[str, ...]  # Names of the core PMUs
    paranoid: str  # The level in perf_event_paranoid; empty if there is no such file

    @classmethod
    def read(cls, root: Path = Path("/")) -> Host:
        """Read the properties from sysfs and procfs below `root`."""
        paranoid = root / "proc/sys/kernel/perf_event_paranoid"
        level = paranoid.read_text().strip() if paranoid.exists() else ""
        return cls(tuple(name for name, pmu in pmus(root).items() if pmu.core), level)

    def refusal(self, answer: Answer) -> str:
        """Return why the kernel refused an event, and what to do; empty if it did not."""
        if answer.good:
            return ""
        if answer.code in _ABSENT:
            return "the processor has no such event" if self.core_pmus else NO_PMU
        if answer.code in REFUSED:
            return self.forbidden()
        if answer.code == errno.ENOSYS:
            return "the kernel does not support perf_event_open, or a container blocks it"
        return f"the kernel refuses this event: {answer.reason}"

    def forbidden(self) -> str:
        """Return what forbids counting and, if there is one, the command that allows it."""
        level = self.paranoid
        if level.removeprefix("-").isdigit() and int(level) <= 1:
            why = "a container's seccomp profile or a security module forbids it"
            return f"counting is not permitted although perf_event_paranoid is {level}: {why}"
        allow = "allow counting with: sysctl kernel.perf_event_paranoid=1"
        return f"counting is not permitted: perf_event_paranoid is {level or 'unknown'}; {allow}"


@dataclass(frozen=True)
class KernelAnswers:
    """Results of trying events with the kernel."""

    events: Mapping[str, Answer]  # Results of perf_event_open(2), by metric name
    fit: Answer  # How many hardware events could be counted together


def ask_kernel(trials: Trials, codes: Mapping[str, PerfCode]) -> KernelAnswers:
    """Try each event alone, and find how many hardware events can be counted together all the time."""
    tries = [_question(name, code, trials.root) for name, code in codes.items()]
    # A repeated event takes a further counter: this fills all counters even on processors that lack many of the events.
    together = [parse(name, trials.root).code for name in (*_FIT, *("instructions",) * MOST_TOGETHER)]
    fit = " ".join(f"{code.type} {code.config}" for code in together)
    answers, problem = trials.ask([*tries, f"fit {fit}"], "")
    unanswered = Answer("", problem or "no answer", errno.EIO)
    events = {answer.name: answer for what, answer in answers if what == "perf"}
    return KernelAnswers(
        {name: events.get(name, unanswered) for name in codes},
        next((answer for what, answer in answers if what == "fit"), unanswered),
    )


def _question(name: str, code: PerfCode, root: Path) -> str:
    """Return the trial program's question for an event: opened alone, or in a group with its required leader."""
    asked = f"{code.type} {code.config} {code.config1} {code.config2} {code.user:d} {code.kernel:d} {name}"
    lead = leader(code.as_event(name), root)
    return f"perf {asked}" if lead is None else f"perf-led {lead.config} {asked}"


_SOURCE = "perf_event"
_PROBED_TRACEPOINT = "sched:sched_switch"


@dataclass(frozen=True)
class NamedEvent:
    """Event with a perf name."""

    family: str  # The group under which the event is listed
    event: PerfEvent | None  # The event; None if it cannot be encoded on this host
    problem: str = ""  # Why the event cannot be encoded
    aliases: tuple[str, ...] = ()  # Other names of the event


@dataclass(frozen=True)
class KernelSurvey:
    """All events of this host, with the results of trying them with the kernel."""

    host: Host  # Properties that explain refusals
    events: Mapping[str, NamedEvent]  # Events by perf's names
    points: tuple[str, ...]  # Names of all tracepoints
    point_problem: str  # Why tracepoints cannot be counted; empty if they can
    answers: KernelAnswers  # The results of the trials
    vendors: Mapping[str, PerfEvent] = field(default_factory=dict)  # The processor's own events, by libpfm4's names


@lru_cache(maxsize=1)
def survey_kernel(trials: Trials) -> KernelSurvey:
    """Try every event of this host with the kernel; keep the answers for the next call with the same `Trials`."""
    host = Host.read(trials.root)
    events = dict(_named_events(trials.root))
    points: tuple[str, ...] = ()
    problem = ""
    try:
        points = tracepoints(trials.root)
    except HostError as error:
        problem = str(error)
    tracepoint = _PROBED_TRACEPOINT if _PROBED_TRACEPOINT in points else next(iter(points), None)
    # libpfm4 can only examine this host.
    vendors = dict(own_events()) if trials.root == Path("/") else {}
    codes = {PREFIX + name: item.event.code for name, item in events.items() if item.event is not None}
    codes |= {name: event.code for name, event in vendors.items()}
    if tracepoint is not None:
        codes[PREFIX + tracepoint] = parse(tracepoint, trials.root).code
    answers = ask_kernel(trials, codes)
    if tracepoint is not None:
        problem = host.refusal(answers.events[PREFIX + tracepoint])
    return KernelSurvey(host, events, points, problem, answers, vendors)


def catalogue(trials: Trials) -> SourceCatalogue:
    """Return the catalogue of the metrics that perf_event can count on this host."""
    survey = survey_kernel(trials)
    systems = Counter(name.partition(":")[0] for name in survey.points)
    return SourceCatalogue(_state(survey), list(_entries(survey)), systems, survey.point_problem)


def _named_events(root: Path) -> Iterator[tuple[str, NamedEvent]]:
    for name in GENERIC:
        event = parse(name, root)  # on a hybrid processor, for the kind of core that this process is confined to
        others = tuple(PREFIX + alias for alias, target in ALIASES.items() if target == name)
        yield name, NamedEvent("software event" if event.kind == "os" else "hardware event", event, aliases=others)
    for name, pmu, _ in of_pmus(root):
        if pmu.whole_package:
            problem = "the event's PMU counts for a whole processor or package, not for one program"
            yield name, NamedEvent("PMU event", None, problem)
            continue
        try:
            yield name, NamedEvent("PMU event", parse(name, root))
        except SpecError as error:
            yield name, NamedEvent("PMU event", None, str(error))


def _entries(survey: KernelSurvey) -> Iterator[CatalogueEntry]:
    refusal, answers = survey.host.refusal, survey.answers.events
    for name, generic in NEAREST_GENERIC.items():
        meaning = f"{PRESETS[name]} (the kernel's {generic})"
        way = SourceSupport(_SOURCE, "hardware", preset_unit(name), meaning, refusal(answers[PREFIX + generic]))
        yield CatalogueEntry(name, "PAPI preset", (way,))
    for short, item in survey.events.items():
        name, event = PREFIX + short, item.event
        if event is None:
            way = SourceSupport(_SOURCE, "hardware", "events", f"event {short}", item.problem)
        else:
            way = SourceSupport(_SOURCE, event.kind, event.unit, event.meaning, refusal(answers[name]))
        yield CatalogueEntry(name, item.family, (way,), item.aliases)
    # PAPI may be able to count the processor's own events too.
    for name, event in survey.vendors.items():
        way = SourceSupport(_SOURCE, event.kind, event.unit, event.meaning, refusal(answers[name]))
        yield CatalogueEntry(name, "processor's own event", (way,), searched_only=True)
    for name in survey.points:
        system, _, point = name.partition(":")
        meaning = f"hits of the kernel's tracepoint {point} ({system})"
        way = SourceSupport(_SOURCE, "os", "events", meaning, survey.point_problem)
        yield CatalogueEntry(PREFIX + name, "tracepoint", (way,), searched_only=True)


def _state(survey: KernelSurvey) -> SourceState:
    host, answers = survey.host, survey.answers
    first = next(iter(answers.events.values()), Answer("", "no event", 0))
    problem = "" if any(answer.good for answer in answers.events.values()) else host.refusal(first)
    if answers.fit.good:
        note = f"hardware events in one group; {answers.fit.description}"
        return SourceState(_SOURCE, "", problem, answers.fit.code, note)
    note = f"no hardware event could be opened ({host.refusal(answers.fit)})"
    return SourceState(_SOURCE, "", problem, None, note if problem else f"{note}; software events do not need counters")
