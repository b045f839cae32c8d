"""Metrics in a spec: the events of software metrics, and rules on metrics' names and expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from unperturbed.collectors.data import INTERVAL_COLUMNS
from unperturbed.collectors.sources import find_sources
from unperturbed.collectors.sources.callgrind import FORMULAS
from unperturbed.collectors.sources.catalogue import OS_METRICS, PERF_WORDS, PRESETS, is_native
from unperturbed.common.expressions.metrics import parse_metric_expression
from unperturbed.errors import SpecError
from unperturbed.harness.spec.model import Draft, Section, reading
from unperturbed.harness.spec.text import Text
from unperturbed.harness.spec.yaml import YamlPath
from unperturbed.instrument.events import DEFAULT_MAX_RATE, GROUPS, Event, EventKind, event_kinds, parse_event

PERF_METRIC = "perf-metric:"  # Prefix, under `derived`, of the name of a metric from perf's tables
NATIVE_PATTERN = r"^[^\s:]+::\S+$"
KINDS = {"hardware": "a hardware metric", "os": "an operating-system metric", "software": "a software metric"}
"""Key under `measure` → what messages call its metrics."""


@dataclass(frozen=True)
class Metrics:
    """Metrics in a draft of a spec."""

    measured: Mapping[str, str]  # The key of `measure` under which each metric is listed
    derived: Mapping[str, tuple[str, ...]]  # The metrics that each derived metric is computed from

    @classmethod
    def named_in(cls, draft: Draft) -> Metrics:
        """Collect the metrics of a draft; if two metrics share a name, the first counts."""
        measured = {name: key for key in ("hardware", "os") for _, name in draft.texts("measure", key)}
        software = [name for name in draft.keys("measure", "software") if not name_fault(name, measured)]
        measured |= dict.fromkeys(software, "software")
        derived = draft.keys("measure", "derived").items()
        return cls(measured, {name: parts_of(draft, path) for name, path in derived if not name_fault(name, measured)})

    @property
    def software(self) -> list[str]:
        """Return the names of the software metrics."""
        return [name for name, key in self.measured.items() if key == "software"]

    @property
    def in_baseline(self) -> list[str]:
        """Return the names of the metrics that every configuration measures."""
        return [name for name in (*self.measured, *self.derived) if not self.software_in(name)]

    def software_in(self, name: str) -> set[str]:
        """Return the software metrics that a metric needs: itself, or those it is computed from."""
        return {part for part in self.derived.get(name, (name,)) if self.measured.get(part) == "software"}

    def not_software(self, draft: Draft, name: str) -> str:
        """Return the message for a name that should be a software metric but is not."""
        kind = KINDS.get(self.measured.get(name, ""), "a derived metric" if name in self.derived else "")
        if kind:
            return f"`{name}` is {kind}; use a software metric"
        if not self.software:
            return f"unknown software metric `{name}`: define it under `software` in `measure:`"
        return (
            f"unknown software metric `{name}`; "
            f"{draft.did_you_mean(name, self.software) or 'software metrics: ' + ', '.join(self.software)}"
        )


def check_metrics(draft: Draft) -> None:
    """Check the metrics under `measure`, and report faults that involve several fields."""
    for key in ("hardware", "os"):
        _check_listed(draft, key)
    metrics = Metrics.named_in(draft)
    for key in ("software", "derived"):
        measured = {name: home for name, home in metrics.measured.items() if key == "derived" or home != "software"}
        for name, path in draft.keys("measure", key).items():
            if fault := name_fault(name, measured):
                draft.report_key(path, fault)
    listed = (draft.has("measure", key) and draft.value("measure", key) != [] for key in ("hardware", "os"))
    if isinstance(draft.value("measure"), dict) and not any(listed) and not draft.has("parameters"):
        what = "list at least one under `hardware` or `os`"
        draft.report_key(("measure",), f"the baseline needs a metric that is not a software metric: {what}")
    for name, path in draft.keys("measure", "derived").items():
        _check_derived(draft, metrics, name, path)


def _check_listed(draft: Draft, key: str) -> None:
    """Check a list of hardware or operating-system metrics."""
    for path, name in draft.distinct_texts("measure", key):
        home = key_of(name)
        if home is None:
            draft.report(path, f"unknown metric `{name}`; {_hint(draft, key, name)}")
        elif home != key:
            draft.report(path, f"`{name}` is {KINDS[home]}: list it under `{home}`")


def _hint(draft: Draft, key: str, name: str) -> str:
    """Return a suggestion for an unknown hardware or operating-system metric."""
    if name.startswith(PERF_METRIC):
        return f"list a metric from perf's tables under `derived`, as in `mine: {name}`"
    if name in PERF_WORDS:
        return f"this is perf's name; use `{PERF_WORDS[name]}`{'' if key == 'hardware' else ' (under `hardware`)'}"
    known = [*PRESETS, *OS_METRICS, *(PERF_WORDS if key == "hardware" else ())]
    meant = draft.nearest(name, known, tuple(FORMULAS))  # what every host can simulate, misses before accesses
    if meant is not None and meant in PERF_WORDS:
        return f"did you mean perf's `{meant}`? Its name here is `{PERF_WORDS[meant]}`"
    if meant is not None:
        return f"did you mean `{meant}`{'' if key_of(meant) == key else f' (under `{key_of(meant)}`)'}?"
    if key == "hardware":
        own = ", ".join(f"{source.prefix}…" for source in find_sources().values() if source.prefix)
        return f"use a PAPI preset such as PAPI_TOT_INS, or a native event ({own}, or PAPI's pfm::RETIRED_INSTRUCTIONS)"
    return f"known metrics: {', '.join(OS_METRICS)}"


def _check_derived(draft: Draft, metrics: Metrics, name: str, path: YamlPath) -> None:
    parts = parts_of(draft, path)
    for part in parts:
        home = key_of(part)
        if part in metrics.measured:
            continue
        if part == name:
            draft.report(path, f"`{part}` appears in its own expression: use only measured metrics")
        elif part in metrics.derived:
            draft.report(path, f"`{part}` is itself a derived metric: write its expression instead")
        elif home is not None:
            draft.report(path, f"`{part}` is not measured: add it to `{home}`")
        else:
            known = list(metrics.measured)
            draft.report(path, f"unknown metric `{part}`; {draft.did_you_mean(part, known) or measured_are(known)}")
    needed = {part for part in parts if metrics.measured.get(part) == "software"}
    if needed and not any(needed <= subset for subset in _measured_together(draft, metrics)):
        together = " and ".join(f"`{each}`" for each in sorted(needed))
        what = f"no subset contains {together}, so no run could compute this metric: add a subset with {together}"
        draft.report(path, what)


def _measured_together(draft: Draft, metrics: Metrics) -> list[set[str]]:
    """Return the software metrics of each configuration."""
    anchor = draft.text("analysis", "anchor")
    always = {name for name in (anchor, draft.text("measure", "interval", "of")) if name is not None}
    subsets = draft.keys("campaign", "subsets")
    if not subsets:
        return [set(metrics.software)]
    return [always, *({name for _, name in draft.texts(*path)} | always for path in subsets.values())]


def name_fault(name: str, measured: Mapping[str, str]) -> str:
    """Return the message for a metric's name that is already taken; '' if the name is free."""
    key = measured.get(name)
    if name in INTERVAL_COLUMNS:
        return f"`{name}` is a column of every trace: choose another name"
    if key is not None:
        return f"`{name}` is already {KINDS[key]}: choose another name"
    key = key_of(name)
    return f"`{name}` is the name of {KINDS[key]}: choose another name" if key is not None else ""


def key_of(name: str) -> str | None:
    """Return the key of `measure` that a metric of the catalogue belongs to; None for other names."""
    if name in OS_METRICS:
        return "os"
    native = is_native(name) and re.fullmatch(NATIVE_PATTERN, name)
    return "hardware" if name in PRESETS or native else None


def parts_of(draft: Draft, path: YamlPath) -> tuple[str, ...]:
    """Return the metrics in an expression; none if it is invalid, which its own field reports."""
    text = draft.text(*path)
    try:
        return parse_metric_expression(text).names if text is not None else ()
    except SpecError:
        return ()


def measured_are(names: list[str]) -> str:
    """Return the end of a message, which lists the measured metrics."""
    return f"measured metrics: {', '.join(names)}" if names else "no metric is measured"


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_TextOrNumber = Annotated[Text, BeforeValidator(_as_text), WithJsonSchema({"type": ["string", "integer"]})]


class _Filters(Section):
    in_: Text | None = Field(
        default=None,
        alias="in",
        description="Count only inside functions with this name (for `call` and `write`). Globs are allowed.",
        examples=["sort_*"],
    )
    file: Text | None = Field(
        default=None, description="Count only in source files with this name. Globs are allowed.", examples=["*.c"]
    )
    add: _TextOrNumber | None = Field(
        default=None,
        description="Add the value of this C expression instead of 1. It is evaluated just before the event.",
        examples=["n"],
    )
    threads: Literal["plain", "exact"] = Field(
        default="plain",
        description="How to count if several threads reach the event's site at the same time. `plain` loses some "
        "counts. `exact` loses none, at about three times the cost per event, and seven times with `preload`.",
    )
    of: Text | None = Field(
        default=None,
        description="The metric under `hardware` that `within` counts in a function.",
        examples=["PAPI_L1_DCM"],
    )


_MAX_RATE = Field(
    default=DEFAULT_MAX_RATE,
    ge=1,
    description="Maximum number of hits per second. A rehearsal counts the hits, and the campaign is refused if there "
    "are more. At one microsecond per hit, a rate of 10000 takes 1 % of the run's time. If a hit costs more on this "
    "host, the default is proportionally lower.",
)


_GROUP_DOCUMENTS = {
    "probe": "An event in a binary, counted by the kernel; the source is not needed. One hit costs 0.3 to 0.5 µs where "
    "the function begins with a push or a no-op, else about 17 µs.",
    "python": "An event in a program that is written in Python.",
    "jvm": "An event in a program on the Java virtual machine, or of that machine itself. It needs `sampler: outside`.",
}


def _field_of(kind: type[EventKind], *, required: bool) -> tuple[str, Any]:
    """Return the name and definition of the field for an event kind's target."""
    key = kind.keys[-1]
    meaning = f"{kind.meaning[:1].upper()}{kind.meaning[1:]}."
    if required:
        return key, (Text, Field(description=meaning, examples=[kind.example]))
    name, alias = (f"{key}_", key) if iskeyword(key) else (key, None)
    return name, (Text | None, Field(default=None, alias=alias, description=meaning, examples=[kind.example]))


def _group_section(group: str) -> type[Section]:
    kinds = [kind for kind in event_kinds().values() if kind.keys[0] == group]
    has_rate = any(kind.means == "kernel" for kind in kinds)
    fields: dict[str, Any] = dict(_field_of(kind, required=len(kinds) == 1 and not has_rate) for kind in kinds)
    if has_rate:
        fields["max_rate"] = (int, _MAX_RATE)
    return create_model(
        f"{group.capitalize()}Fields", __base__=Section, __doc__=_GROUP_DOCUMENTS[group], __module__=__name__, **fields
    )


EVENT_GROUPS: dict[str, type[Section]] = {group: _group_section(group) for group in GROUPS}
"""Key of a group of event kinds → the section below that key."""


def _event_fields() -> type[Section]:
    # Kinds in `instrument.events.kinds` and in other distributions get their fields and JSON Schema from here.
    fields: dict[str, Any] = {}
    for kind in event_kinds().values():
        group = kind.keys[0]
        if group in EVENT_GROUPS:
            fields[group] = (EVENT_GROUPS[group] | None, Field(default=None, description=GROUPS[group]))
        else:
            name, definition = _field_of(kind, required=False)
            fields[name] = definition
    count = len(fields)
    fields |= {name: (field.annotation, field) for name, field in _Filters.model_fields.items()}
    document = (
        f"What a software metric counts: one of the first {count} keys names the event. The other keys restrict or "
        "weight its counts."
    )
    return create_model("EventFields", __base__=Section, __doc__=document, __module__=__name__, **fields)


EventFields = _event_fields()


def _refuse_text(value: Any) -> Any:
    if isinstance(value, str):
        text = " ".join(value.split())[:60]
        raise ValueError(  # noqa: TRY004  pydantic turns it into a message
            f"expected an event: write `{{enter: {text}}}` to count entries into a function"
        )
    return value


def _to_event(fields: Section) -> Event:
    return parse_event(fields.model_dump(by_alias=True, exclude_none=True, exclude_unset=True))


SoftwareMetric = Annotated[Event, reading(EventFields, _to_event), BeforeValidator(_refuse_text)]

PRELOADED = frozenset({"preload", "python", "jvm"})  # Means of counting that the dynamic linker loads into the program


def means_of(event: object) -> set[str]:
    """Return the means by which an event of a draft is counted, given its keys; none if its kind is unknown."""
    return {kind.means for kind in event_kinds().values() if isinstance(event, dict) and kind.keys[0] in event}


def check_jvm(draft: Draft) -> None:
    """Check that events of a Java virtual machine, if there are any, can be counted with these settings."""
    means = {name: means_of(draft.value(*path)) for name, path in draft.keys("measure", "software").items()}
    path = next((path for name, path in draft.keys("measure", "software").items() if "jvm" in means[name]), None)
    if path is None:
        return
    if draft.value("measure", "sampler") != "outside":
        simulates = draft.value("measure", "source") == "simulated"
        simulated = "simulated counters, which need `sampler: inside`, cannot measure it" if simulates else ""
        why = simulated or "the sampler inside would sample its idle first thread"
        draft.report_key(
            path,
            f"a Java virtual machine runs `main` in a thread that it creates, and {why}: set `sampler: outside`"
            + (", and remove `source: simulated`" if simulates else ""),
        )
    if draft.value("program", "shell") is True:
        draft.report_key(
            path,
            "the option that loads the counters goes behind `java` in `run`, not into a shell: remove `shell: true`",
        )
    others = [name for name, found in means.items() if "compiled" in found]
    if others:
        draft.report_key(
            path,
            f"one program cannot count by its Java virtual machine and by compiled-in code (`{others[0]}`): use two "
            "campaigns",
        )
