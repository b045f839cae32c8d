"""What PAPI can count on this host: its presets and native events, each tried.

Its refusals are explained: an old library, a missing permission or a missing PMU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from unperturbed.collectors.sources.catalogue import PRESETS, preset_unit
from unperturbed.collectors.sources.papi.events import metric, observer_library
from unperturbed.collectors.sources.perf.events import PREFIX
from unperturbed.collectors.sources.perf.listing import (
    MOST_TOGETHER,
    NO_PMU,
    REFUSED,
    Host,
    KernelAnswers,
    KernelSurvey,
    survey_kernel,
)
from unperturbed.collectors.sources.perf.names import GENERIC
from unperturbed.collectors.sources.source import (
    Answer,
    CatalogueEntry,
    SourceCatalogue,
    SourceState,
    SourceSupport,
    Trials,
)

_FIT_PRESETS = (  # as a rule one counter each; others may take several
    "PAPI_TOT_INS",
    "PAPI_TOT_CYC",
    "PAPI_BR_INS",
    "PAPI_BR_MSP",
    "PAPI_LD_INS",
    "PAPI_SR_INS",
    "PAPI_L1_ICM",
    "PAPI_L2_DCM",
    "PAPI_TLB_DM",
    "PAPI_TLB_IM",
)


@dataclass(frozen=True)
class PapiAnswers:
    """PAPI's answers."""

    version: str = ""  # Of the library; empty when there is none
    problem: str = ""  # Why it could not be asked, or not to the end; empty when it was
    # presets, natives: As PAPI enumerates them, by name.
    presets: Mapping[str, Answer] = field(default_factory=dict)
    natives: Mapping[str, Answer] = field(default_factory=dict)
    named: Mapping[str, Answer] = field(default_factory=dict)  # Other names that PAPI was asked for
    components: Mapping[str, str] = field(default_factory=dict)  # Each component that is off, with PAPI's own reason
    fit: Answer | None = None  # How many presets ran together; None when none can be counted

    def refusal(self, answer: Answer | None, host: Host, kernel: KernelAnswers) -> str:
        """Return why PAPI does not count an event and what to do; empty when it does.

        A library that knows no processor as new as this one is told apart from a missing permission and from a missing
        PMU.
        """
        if answer is None:
            return self.problem or "this PAPI has no such event"
        if answer.good:
            return ""
        if "perf_event" in self.components and "disabled" in answer.reason:
            off = f"PAPI {self.version} has its perf_event component off ({self.components['perf_event']})"
            return f"{off}; {self._why_off(host, kernel)}"
        return f"PAPI {self.version}: {answer.reason}"

    def _why_off(self, host: Host, kernel: KernelAnswers) -> str:
        if (
            "paranoid" in self.components["perf_event"]
        ):  # PAPI reads the level itself, and gives up even where root may count
            return "allow counting with: sysctl kernel.perf_event_paranoid=1"
        if not host.core_pmus:
            return NO_PMU
        if not kernel.fit.good and kernel.fit.code in REFUSED:
            return host.forbidden()
        return "the kernel has counters, so this PAPI is older than the processor: source perf_event counts without it"


def ask_papi(trials: Trials, names: Sequence[str], library: str = "") -> PapiAnswers:
    """Let PAPI enumerate and try its events, try further names, and try how many presets run together."""
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
    """Return what PAPI counts on this host."""
    survey = survey_kernel(trials)
    library = ask_papi(trials, [PREFIX + name for name in GENERIC], observer_library())
    entries = [*_presets(library, survey), *_natives(library, survey), *_perf_names(library, survey)]
    return SourceCatalogue(_state(library, survey), entries)


def _presets(library: PapiAnswers, survey: KernelSurvey) -> Iterator[CatalogueEntry]:
    for name in dict.fromkeys([*PRESETS, *library.presets]):
        answer = library.presets.get(name)
        meaning = PRESETS.get(name) or (answer.description if answer else "")
        problem = library.refusal(answer, survey.host, survey.answers)
        way = SourceSupport(_SOURCE, "hardware", preset_unit(name), meaning, problem)
        yield CatalogueEntry(name, "PAPI preset", (way,))


def _natives(library: PapiAnswers, survey: KernelSurvey) -> Iterator[CatalogueEntry]:
    for name, answer in library.natives.items():
        described = metric(name)
        meaning, unit = answer.description or described.meaning, answer.unit or described.unit
        problem = library.refusal(answer, survey.host, survey.answers)
        way = SourceSupport(_SOURCE, described.kind, unit, meaning, problem)
        yield CatalogueEntry(name, "PAPI native event", (way,))


def _perf_names(library: PapiAnswers, survey: KernelSurvey) -> Iterator[CatalogueEntry]:
    """Yield perf's names that PAPI counts too; that it does not count the others is not news."""
    for short, item in survey.events.items():
        answer, event = library.named.get(PREFIX + short), item.event
        if answer is not None and answer.good and event is not None:
            way = SourceSupport(_SOURCE, event.kind, event.unit, event.meaning)
            yield CatalogueEntry(PREFIX + short, item.family, (way,), item.aliases)


def _state(library: PapiAnswers, survey: KernelSurvey) -> SourceState:
    if not library.version:
        return SourceState(_SOURCE, problem=library.problem)
    tried = {**library.presets, **library.natives}
    if not any(answer.good for answer in tried.values()):
        problem = library.refusal(library.presets.get("PAPI_TOT_INS"), survey.host, survey.answers)
        return SourceState(_SOURCE, library.version, problem, None, "nothing could be opened")
    if library.fit is None or not library.fit.good:
        return SourceState(_SOURCE, library.version, "", None, "no preset could be opened")
    note = f"presets in one event set; {library.fit.description}"
    return SourceState(_SOURCE, library.version, "", library.fit.code, note)
