"""Events that perf_event can count on this host: each is tried, tracepoints by one that stands for all.

Closing a tracepoint waits for every processor, about 40 ms, and there are thousands. The kernel's refusals are
explained: what forbids counting here, and which command allows it.
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
NO_PMU = "no PMU: the kernel offers no counters of the processor, as in most virtual machines"
MOST_TOGETHER = 16
_FIT = (
    *("instructions", "cycles", "branches", "branch-misses", "cache-references", "cache-misses"),
    *("L1-dcache-loads", "L1-dcache-load-misses", "dTLB-loads", "dTLB-load-misses", "iTLB-load-misses"),
)


@dataclass(frozen=True)
class Host:
    """Explanations of the kernel's refusals on this host."""

    core_pmus: tuple[str, ...]  # Names of the PMUs of the processor's cores
    paranoid: str  # The level in perf_event_paranoid; empty where there is none

    @classmethod
    def read(cls, root: Path = Path("/")) -> Host:
        """Read both below `root`."""
        paranoid = root / "proc/sys/kernel/perf_event_paranoid"
        level = paranoid.read_text().strip() if paranoid.exists() else ""
        return cls(tuple(name for name, pmu in pmus(root).items() if pmu.core), level)

    def refusal(self, answer: Answer) -> str:
        """Return why the kernel refused an event and what to do; empty when it did not."""
        if answer.good:
            return ""
        if answer.code in _ABSENT:
            return "the processor has no such event" if self.core_pmus else NO_PMU
        if answer.code in REFUSED:
            return self.forbidden()
        if answer.code == errno.ENOSYS:
            return "the kernel has no perf_event_open, or a container hides it"
        return f"the kernel refuses it: {answer.reason}"

    def forbidden(self) -> str:
        """Return what forbids counting, and the command that allows it."""
        level = self.paranoid
        if level.removeprefix("-").isdigit() and int(level) <= 1:
            why = "a container's seccomp profile or a security module forbids it"
            return f"not permitted although perf_event_paranoid is {level}: {why}"
        allow = "allow counting with: sysctl kernel.perf_event_paranoid=1"
        return f"not permitted: perf_event_paranoid is {level or 'unknown'}; {allow}"


@dataclass(frozen=True)
class KernelAnswers:
    """The kernel's answers."""

    events: Mapping[str, Answer]  # Of perf_event_open(2), by metric name
    fit: Answer  # How many hardware events ran together


def ask_kernel(trials: Trials, codes: Mapping[str, PerfCode]) -> KernelAnswers:
    """Open each event alone, then as many hardware events together as run all the time."""
    tries = [_question(name, code, trials.root) for name, code in codes.items()]
    # Repeated, an event takes a further counter: the counters are filled on processors that have few of the events too.
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
    """Return the question whether the kernel opens an event: alone, or behind the one that must lead its group."""
    asked = f"{code.type} {code.config} {code.config1} {code.config2} {code.user:d} {code.kernel:d} {name}"
    lead = leader(code.as_event(name), root)
    return f"perf {asked}" if lead is None else f"perf-led {lead.config} {asked}"


_SOURCE = "perf_event"
_TRIED_TRACEPOINT = "sched:sched_switch"


@dataclass(frozen=True)
class NamedEvent:
    """An event that perf names."""

    family: str  # The group that it is listed in
    event: PerfEvent | None  # Its code; None where it has none here
    problem: str = ""  # Why it has none
    aliases: tuple[str, ...] = ()  # Other names of it


@dataclass(frozen=True)
class KernelSurvey:
    """Everything that was asked of the kernel for one catalogue."""

    host: Host  # What explains its refusals
    events: Mapping[str, NamedEvent]  # By perf's name
    points: tuple[str, ...]  # Names of all tracepoints
    point_problem: str  # Why tracepoints cannot be counted; empty when they can
    answers: KernelAnswers  # The kernel's answers
    vendors: Mapping[str, PerfEvent] = field(default_factory=dict)  # The processor's own events, by libpfm4's names


@lru_cache(maxsize=1)
def survey_kernel(trials: Trials) -> KernelSurvey:
    """Try every event of this host with the kernel, once for each `Trials`."""
    host = Host.read(trials.root)
    events = dict(_named_events(trials.root))
    points: tuple[str, ...] = ()
    problem = ""
    try:
        points = tracepoints(trials.root)
    except HostError as error:
        problem = str(error)
    tried = _TRIED_TRACEPOINT if _TRIED_TRACEPOINT in points else next(iter(points), None)
    # libpfm4 looks at this host alone.
    vendors = dict(own_events()) if trials.root == Path("/") else {}
    codes = {PREFIX + name: item.event.code for name, item in events.items() if item.event is not None}
    codes |= {name: event.code for name, event in vendors.items()}
    if tried is not None:
        codes[PREFIX + tried] = parse(tried, trials.root).code
    answers = ask_kernel(trials, codes)
    if tried is not None:
        problem = host.refusal(answers.events[PREFIX + tried])
    return KernelSurvey(host, events, points, problem, answers, vendors)


def catalogue(trials: Trials) -> SourceCatalogue:
    """Return what perf_event counts on this host."""
    survey = survey_kernel(trials)
    systems = Counter(name.partition(":")[0] for name in survey.points)
    return SourceCatalogue(_state(survey), list(_entries(survey)), systems, survey.point_problem)


def _named_events(root: Path) -> Iterator[tuple[str, NamedEvent]]:
    for name in GENERIC:
        event = parse(name, root)  # on a hybrid processor, of the kind of core that this process is confined to
        others = tuple(PREFIX + alias for alias, target in ALIASES.items() if target == name)
        yield name, NamedEvent("software event" if event.kind == "os" else "hardware event", event, aliases=others)
    for name, pmu, _ in of_pmus(root):
        if pmu.whole_package:
            problem = "its PMU counts for a whole processor or package, not for one program"
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
    # PAPI may have a way of counting the processor's own events too.
    for name, event in survey.vendors.items():
        way = SourceSupport(_SOURCE, event.kind, event.unit, event.meaning, refusal(answers[name]))
        yield CatalogueEntry(name, "processor's own event", (way,), searched_only=True)
    for name in survey.points:
        system, _, point = name.partition(":")
        meaning = f"times the kernel passed its tracepoint {point} ({system})"
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
    return SourceState(_SOURCE, "", problem, None, note if problem else f"{note}; software events need no counter")
