"""The fields of a software metric's event in a spec: one for each kind of event, and the filters.

The kinds are those of `instrument.events.kinds` and of other distributions, so that a new kind is read, checked and in
the JSON Schema without a line here.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from unperturbed.errors import SpecError
from unperturbed.harness.spec.model import Section, reading
from unperturbed.harness.spec.text import Text
from unperturbed.instrument.events import DEFAULT_MAX_RATE, GROUPS, Event, EventKind, event_kinds, parse_event


def _to_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_TextOrNumber = Annotated[Text, BeforeValidator(_to_text), WithJsonSchema({"type": ["string", "integer"]})]


class _Filters(Section):
    in_: Text | None = Field(
        default=None,
        alias="in",
        description="Only inside functions of this name (with call and write); globs too.",
        examples=["sort_*"],
    )
    file: Text | None = Field(
        default=None, description="Only in source files of this name; globs too.", examples=["*.c"]
    )
    add: _TextOrNumber | None = Field(
        default=None,
        description="Add the value of this C expression, taken just before the event, instead of 1.",
        examples=["n"],
    )
    threads: Literal["plain", "exact"] = Field(
        default="plain",
        description="How an event is counted if several threads reach its place at the same time. `plain` loses some "
        "counts. `exact` loses none, at about ten times the cost per event.",
    )


class _Rate(Section):
    max_rate: int = Field(
        default=DEFAULT_MAX_RATE,
        ge=1,
        description="Most hits per second. A rehearsal counts them, and the campaign is refused if there are more. At "
        "a microsecond per hit, 10000 take 1 % of the run's time. If a hit costs more on this host, the default is "
        "lower in proportion.",
    )


_GROUP_DOCUMENTS = {
    "probe": "A probe of the kernel, in a binary that need not be built here. One hit costs the program about a "
    "microsecond.",
    "python": "An event of a program that is written in Python.",
}


def _field(kind: type[EventKind], *, required: bool) -> tuple[str, Any]:
    """Return name and definition of the field that has a kind's target."""
    key = kind.keys[-1]
    meaning = f"{kind.meaning[:1].upper()}{kind.meaning[1:]}."
    if required:
        return key, (Text, Field(description=meaning, examples=[kind.example]))
    name, alias = (f"{key}_", key) if iskeyword(key) else (key, None)
    return name, (Text | None, Field(default=None, alias=alias, description=meaning, examples=[kind.example]))


def _group_section(group: str) -> type[Section]:
    kinds = [kind for kind in event_kinds().values() if kind.keys[0] == group]
    has_rate = any(kind.means == "kernel" for kind in kinds)
    fields: dict[str, Any] = dict(_field(kind, required=len(kinds) == 1 and not has_rate) for kind in kinds)
    if has_rate:
        fields["max_rate"] = (int, _Rate.model_fields["max_rate"])
    return create_model(
        f"{group.capitalize()}Fields", __base__=Section, __doc__=_GROUP_DOCUMENTS[group], __module__=__name__, **fields
    )


EVENT_GROUPS: dict[str, type[Section]] = {group: _group_section(group) for group in GROUPS}
"""Key of a group of kinds → the section below it."""


def _event_fields() -> type[Section]:
    fields: dict[str, Any] = {}
    for kind in event_kinds().values():
        group = kind.keys[0]
        if group in EVENT_GROUPS:
            fields[group] = (EVENT_GROUPS[group] | None, Field(default=None, description=GROUPS[group]))
        else:
            name, definition = _field(kind, required=False)
            fields[name] = definition
    count = len(fields)
    fields |= {name: (field.annotation, field) for name, field in _Filters.model_fields.items()}
    document = (
        f"What a software metric counts: the event that one of the first {count} keys names. The other keys narrow "
        "or weight it."
    )
    return create_model("EventFields", __base__=Section, __doc__=document, __module__=__name__, **fields)


EventFields = _event_fields()


def _to_event(fields: Section) -> Event:
    try:
        return parse_event(fields.model_dump(by_alias=True, exclude_none=True, exclude_unset=True))
    except SpecError as error:
        raise ValueError(str(error)) from None


def _refuse_text(value: Any) -> Any:
    if isinstance(value, str):
        text = " ".join(value.split())[:60]
        raise ValueError(  # noqa: TRY004  pydantic turns it into a message
            f"an event is expected here: write `{{enter: {text}}}` to count the entries of a function"
        )
    return value


SoftwareMetric = Annotated[Event, reading(EventFields, _to_event), BeforeValidator(_refuse_text)]

PRELOADED = frozenset({"preload", "python"})
"""Means of counting that the dynamic linker loads into the program."""


def means_of(event: object) -> set[str]:
    """Return by what means the kinds count whose keys an event in a draft has; none where its kind is unknown."""
    return {kind.means for kind in event_kinds().values() if isinstance(event, dict) and kind.keys[0] in event}
