"""PAPI: presets and native events, opened by libpapi in the measured program or in the observer that attaches to it.

The library is the one that UNPERTURBED_PAPI names, or else the newest one on the system. If none is installed, the
observer uses the library in python-papi's wheel (PAPI 6.0, built for x86-64), which cannot be loaded into a program
other than Python. For the catalogue, each event is tried, and refusals are explained: an old library, a missing
permission or a missing PMU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from ctypes.util import find_library
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from unperturbed.collectors.data.trace import Metric
from unperturbed.collectors.sources.catalogue import PRESETS, preset_unit
from unperturbed.collectors.sources.perf.events import ANY, PREFIX
from unperturbed.collectors.sources.perf.listing import (
    MOST_TOGETHER,
    NO_PMU,
    REFUSED,
    Host,
    KernelAnswers,
    KernelSurvey,
    survey_kernel,
)
from unperturbed.collectors.sources.perf.names import ALIASES, GENERIC, parse
from unperturbed.collectors.sources.source import (
    Answer,
    CatalogueEntry,
    Event,
    Source,
    SourceCatalogue,
    SourceState,
    SourceSupport,
    Trials,
)
from unperturbed.errors import HostError, UnperturbedError

LIBRARY_VARIABLE = "UNPERTURBED_PAPI"  # selects the library if several are installed
_LONGEST = 255  # bytes of a path in a record file
_GENERIC = {name.upper(): known for name, known in GENERIC.items()}
_ALIASES = {alias.upper(): name.upper() for alias, name in ALIASES.items()}


def chosen_library() -> str:
    """Return the value of UNPERTURBED_PAPI: a PAPI library's absolute path, or a name for the linker; may be empty."""
    named = os.environ.get(LIBRARY_VARIABLE, "")
    if "/" not in named:
        return named
    path = Path(named).absolute()
    if not path.is_file():
        raise HostError(f"{LIBRARY_VARIABLE} is {named}: no such file; set the variable to a PAPI library, or unset it")
    if len(os.fsencode(path)) > _LONGEST:
        too_long = f"the path is longer than {_LONGEST} bytes"
        raise HostError(f"{LIBRARY_VARIABLE} is {path}: {too_long}; use a symbolic link with a shorter path")
    return str(path)


def observer_library() -> str:
    """Return the observer's PAPI library: the chosen one (may be empty), or the wheel's if the system has none."""
    chosen = chosen_library()
    return chosen if chosen or find_library("papi") is not None else wheel_library()


def wheel_library() -> str:
    """Return the path of the PAPI library in python-papi's wheel, without importing it; empty if not installed."""
    spec = find_spec("pypapi")
    folders = spec.submodule_search_locations if spec is not None else None
    files = [file for folder in folders or () for file in Path(folder).glob("_papi*.so")]
    return str(files[0]) if files else ""


def event(name: str) -> Event | None:
    """Return the event to add to the event set, under the given name; None for names that are not PAPI's.

    Kernel events are counted in the kernel, as perf does; PAPI would count in user space only, where there are none.
    """
    if name.startswith(("callgrind::", ANY)):
        return None
    if not name.startswith(PREFIX):
        return Event(name)
    try:
        code = parse(name.removeprefix(PREFIX)).code
    except UnperturbedError:  # a libpfm name
        return Event(name)
    return Event(name, kernel=code.kernel, user=code.user)


def metric(name: str) -> Metric:
    """Return the description of a metric read through PAPI; perf's software events are of kind `os`."""
    event_name = name.removeprefix(PREFIX).partition(":")[0].upper()
    generic = _GENERIC.get(_ALIASES.get(event_name, event_name)) if name.startswith(PREFIX) else None
    is_software = event_name.startswith("PERF_COUNT_SW_")
    by_kernel = name.startswith(PREFIX) and (is_software or (generic is not None and generic.kind == "os"))
    unit = generic.unit if generic is not None else preset_unit(event_name)
    if is_software and event_name.endswith("_CLOCK"):
        unit = "ns"
    meaning = PRESETS.get(name, "native event")
    return Metric(name, "os" if by_kernel else "hardware", unit=unit, source="papi", meaning=meaning)


_FIT_PRESETS = (  # usually one counter each; others may need several
    *("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_BR_INS", "PAPI_BR_MSP", "PAPI_LD_INS", "PAPI_SR_INS"),
    *("PAPI_L1_ICM", "PAPI_L2_DCM", "PAPI_TLB_DM", "PAPI_TLB_IM"),
)


@dataclass(frozen=True)
class PapiAnswers:
    """Results of trying PAPI's events on this host."""

    version: str = ""  # The library's version; empty if there is no library
    problem: str = ""  # Why the events could not all be tried; empty if they were
    # presets, natives: The events that PAPI enumerates, by name.
    presets: Mapping[str, Answer] = field(default_factory=dict)
    natives: Mapping[str, Answer] = field(default_factory=dict)
    named: Mapping[str, Answer] = field(default_factory=dict)  # Other names that were tried
    components: Mapping[str, str] = field(default_factory=dict)  # Each disabled component, with PAPI's reason
    fit: Answer | None = None  # How many presets could be counted together; None if none can be counted

    def refusal(self, answer: Answer | None, host: Host, kernel: KernelAnswers) -> str:
        """Return why PAPI cannot count an event, and what to do; empty if it can."""
        if answer is None:
            return self.problem or "this version of PAPI has no such event"
        if answer.good:
            return ""
        if "perf_event" in self.components and "disabled" in answer.reason:
            off = f"PAPI {self.version} has disabled its perf_event component ({self.components['perf_event']})"
            return f"{off}; {self._why_off(host, kernel)}"
        return f"PAPI {self.version}: {answer.reason}"

    def _why_off(self, host: Host, kernel: KernelAnswers) -> str:
        # PAPI checks the level itself, and refuses even if the user is root.
        if "paranoid" in self.components["perf_event"]:
            return "allow counting with: sysctl kernel.perf_event_paranoid=1"
        if not host.core_pmus:
            return NO_PMU
        if not kernel.fit.good and kernel.fit.code in REFUSED:
            return host.forbidden()
        return (
            "the kernel supports this processor's counters, so this version of PAPI is probably older than the "
            "processor: use `source: perf_event`"
        )


def ask_papi(trials: Trials, names: Sequence[str], library: str = "") -> PapiAnswers:
    """Let PAPI enumerate and try its events, try further names, and find how many presets can be counted together."""
    answers, problem = trials.ask(["papi-enumerate", *(f"papi {name}" for name in names)], library)

    def of(what: str) -> dict[str, Answer]:
        return {answer.name: answer for kind, answer in answers if kind == what}

    version, loaded = next(iter(of("library").items()), ("", Answer("", problem or "no answer", -1)))
    if not loaded.good:
        return PapiAnswers(problem=loaded.reason)
    good = [name for name, answer in of("preset").items() if answer.good]
    together = [name for name in _FIT_PRESETS if name in good] + [name for name in good if name not in _FIT_PRESETS]
    fit = trials.ask([f"papi-fit {' '.join(together[:MOST_TOGETHER])}"], library)[0] if together else []
    return PapiAnswers(
        version,
        f"PAPI {version}: {problem}" if problem else "",
        of("preset"),
        of("native"),
        of("papi"),
        {name: answer.reason for name, answer in of("component").items() if not answer.good},
        next((answer for what, answer in fit if what == "papi-fit"), None),
    )


_SOURCE = "papi"


def catalogue(trials: Trials) -> SourceCatalogue:
    """Return the catalogue of the metrics that PAPI can count on this host."""
    survey = survey_kernel(trials)
    library = ask_papi(trials, [PREFIX + name for name in GENERIC], observer_library())
    return SourceCatalogue(_state(library, survey), list(_entries(library, survey)))


def _entries(library: PapiAnswers, survey: KernelSurvey) -> Iterator[CatalogueEntry]:
    for name in dict.fromkeys([*PRESETS, *library.presets]):
        answer = library.presets.get(name)
        meaning = PRESETS.get(name) or (answer.description if answer else "")
        problem = library.refusal(answer, survey.host, survey.answers)
        way = SourceSupport(_SOURCE, "hardware", preset_unit(name), meaning, problem)
        yield CatalogueEntry(name, "PAPI preset", (way,))
    for name, answer in library.natives.items():
        described = metric(name)
        meaning, unit = answer.description or described.meaning, answer.unit or described.unit
        problem = library.refusal(answer, survey.host, survey.answers)
        way = SourceSupport(_SOURCE, described.kind, unit, meaning, problem)
        yield CatalogueEntry(name, "PAPI native event", (way,))
    # perf's names that PAPI can count too; the others need no note.
    for short, item in survey.events.items():
        answer, event = library.named.get(PREFIX + short), item.event
        if answer is not None and answer.good and event is not None:
            way = SourceSupport(_SOURCE, event.kind, event.unit, event.meaning)
            yield CatalogueEntry(PREFIX + short, item.family, (way,), item.aliases)


def _state(library: PapiAnswers, survey: KernelSurvey) -> SourceState:
    if not library.version:
        return SourceState(_SOURCE, problem=library.problem)
    answers = {**library.presets, **library.natives}
    if not any(answer.good for answer in answers.values()):
        problem = library.refusal(library.presets.get("PAPI_TOT_INS"), survey.host, survey.answers)
        return SourceState(_SOURCE, library.version, problem, None, "no event could be opened")
    if library.fit is None or not library.fit.good:
        return SourceState(_SOURCE, library.version, "", None, "no preset could be opened")
    note = f"presets in one event set; {library.fit.description}"
    return SourceState(_SOURCE, library.version, "", library.fit.code, note)


PAPI = Source(
    name="papi",
    title="PAPI",
    sentence="Counted by the processor or the kernel, read through PAPI {place}.",
    order=10,
    event=event,
    metric=metric,
    catalogue=catalogue,
    yields_to=(PREFIX,),
    c_file=Path(__file__).with_name("event_set.c"),
    c_name="unperturbed_papi",
    number=3,
    library=chosen_library,
    observer_library=observer_library,
)
