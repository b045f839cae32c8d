"""What pydantic finds wrong with a spec, said to its author: where, what, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.fields import (
    DIGEST_PATTERN,
    ENVIRONMENT_PATTERN,
    FILE_NAME_PATTERN,
    METRIC_PATTERN,
    PACKAGE_PATTERN,
    UNION_TAGS,
)
from unperturbed.harness.spec.models import REASONS, Campaign, model_at
from unperturbed.harness.spec.parameters import PARAMETER_PATTERN
from unperturbed.harness.spec.yamlpos import YamlPath

__all__ = ["check_structure"]

_PATTERNS: Mapping[str, str] = {
    METRIC_PATTERN: "a metric's name has letters, digits and `_`, does not begin with a digit, and is at most 64 long",
    PARAMETER_PATTERN: "a parameter's name has letters, digits and `_`, does not begin with a digit, and is at most 40 long",
    FILE_NAME_PATTERN: "it names a folder: letters, digits, `_`, `-` and `.`, beginning with a letter or digit, at most 64 in all",
    ENVIRONMENT_PATTERN: "an environment variable's name has letters, digits and `_`, and does not begin with a digit",
    DIGEST_PATTERN: "write `sha256:` and 64 hexadecimal digits, as `sha256sum` prints them",
    PACKAGE_PATTERN: "a Debian source package's name has lower-case letters, digits, `+`, `-` and `.`, and may follow `upstream:`",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def check_structure(draft: Draft) -> Campaign | None:
    """Validate a draft against the model: note every fault in the draft, or return the campaign.

    Values that are missing after their key (`stdin:`) are faults, as no field means anything by them.
    """
    blamed: set[YamlPath] = set()
    campaign = None
    try:
        campaign = Campaign.model_validate(draft.document.data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            path, missing = _locate(draft, detail["loc"])
            known = detail["type"] != "extra_forbidden"
            if known and any(_kind(draft, path[:length]) in ("null", "refused") for length in range(len(path) + 1)):
                continue  # said below, or by the reader
            blamed.add(path)
            _note(draft, path, missing, detail)
    for path, place in draft.document.places.items():
        above = {path[:length] for length in range(len(path) + 1)}
        if place.kind == "null" and not above & blamed:
            draft.blame_key(path, f"`{path[-1]}` has no value: give it one, or remove it")
        if place.kind == "odd number" and not above & blamed:
            draft.blame(
                path,
                f'`{place.text}` is a number to some readers of YAML and text to others: quote it ("{place.text}"), '
                "or write it as a plain decimal number",
            )
    return campaign


def _locate(draft: Draft, location: tuple[int | str, ...]) -> tuple[YamlPath, str | None]:
    """Return the path that the document has, and the key that it lacks there."""
    path: YamlPath = ()
    for part in location:
        if part in UNION_TAGS and not draft.has(*path, part):
            continue
        if part == "[key]":
            break
        if not draft.has(*path, part):
            return path, str(part)
        path = (*path, part)
    return path, None


def _kind(draft: Draft, path: YamlPath) -> str | None:
    place = draft.document.places.get(path)
    return place.kind if place else None


def _note(draft: Draft, path: YamlPath, missing: str | None, detail: ErrorDetails) -> None:
    if detail["type"] == "missing":
        model = model_at(path)
        field = _fields(model).get(missing or "") if model else None
        meaning = f" ({_first_sentence(field)})" if field else ""
        where = f" in `{path[-1]}`" if path else ""
        draft.blame_key(path, f"`{missing}` is missing{where}{meaning}")
    elif detail["type"] == "extra_forbidden":
        draft.blame_key(path, _unknown_key(draft, path))
    elif detail["loc"][-1] == "[key]":
        draft.blame_key(path, _sentence(draft, path, detail))
    else:
        draft.blame(path, _sentence(draft, path, detail))


def _unknown_key(draft: Draft, path: YamlPath) -> str:
    key = str(path[-1])
    if ":" in key:
        return f"unknown key `{key}`: a space is missing after the `:`"
    home = _home(key) if len(path) <= 2 else None
    if home is not None:
        return home
    model = model_at(path[:-1])
    known = _fields(model) if model else {}
    present = draft.keys(*path[:-1])
    meant = draft.nearest(key, (name for name in known if name not in present))
    if meant is not None:
        return f"unknown key `{key}`; did you mean `{meant}`?"
    return f"unknown key `{key}`; " + (
        f"the keys here are {', '.join(known)}" if len(known) > 1 else f"`{next(iter(known))}` is the only one"
    )


def _home(key: str) -> str | None:
    """Say where a key belongs that is right, but in the wrong place."""
    for section in _fields(Campaign):
        if key == section:
            return f"`{key}` belongs at the left margin, beside the other sections: check its indentation"
        model = model_at((section,))
        if model is not None and key in _fields(model):
            return f"`{key}` belongs under `{section}:`"
    return None


def _sentence(draft: Draft, path: YamlPath, detail: ErrorDetails) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        reason = REASONS.get(tuple(str(part) for part in path))
        return f"`{path[-1]}` is {value}, and must be {words} {context[key]:g}{f': {reason}' if reason else ''}"
    if kind == "string_pattern_mismatch":
        return f"`{_shown(value)}`: {_PATTERNS[context['pattern']]}" if value.strip() else "this text is empty"
    if kind == "literal_error":
        return _not_one_of(draft, value, context["expected"])
    return _WANTED[kind](draft, path, value) if kind in _WANTED else detail["msg"]


def _not_one_of(draft: Draft, value: object, expected: str) -> str:
    choices = expected.replace(" or ", ", ").replace("'", "").split(", ")
    meant = draft.nearest(value, choices) if isinstance(value, str) else None
    hint = f"; did you mean `{meant}`?" if meant else ""
    only = "only `{}` is possible here" if len(choices) == 1 else "one of {} is wanted here"
    return f"`{_shown(value)}`: {only.format(', '.join(choices))}{hint}"


def _text_wanted(draft: Draft, path: YamlPath, value: object) -> str:
    written = draft.document.places[path].text
    if isinstance(value, bool):
        return f'unquoted `{written}` is a truth value in YAML, and text is wanted here: quote it ("{written}")'
    if isinstance(value, int | float):
        return f'`{written}` is a number, and text is wanted here: quote it ("{written}")'
    if isinstance(value, dict) and len(value) == 1 and None in value.values():
        inner = next(iter(value))
        return f'unquoted `{{{inner}}}` is a mapping in YAML, and text is wanted here: quote the whole text ("{{{inner}}}")'
    return f"text is wanted here, not {_what(value)}"


def _list_wanted(_draft: Draft, _path: YamlPath, value: object) -> str:
    if isinstance(value, str):
        return f"a list is wanted here: write `[{_shown(value)}]`"
    return f"a list is wanted here, not {_what(value)}"


def _mapping_wanted(_draft: Draft, path: YamlPath, value: object) -> str:
    if len(path) == 3 and path[:2] == ("measure", "software") and isinstance(value, str):
        return f"an event is wanted here: write `{{enter: {_shown(value)}}}` to count the entries of a function"
    model = model_at(path)
    known = f" with {', '.join(_fields(model))}" if model else " (`name: value`)"
    return f"a mapping{known} is wanted here, not {_what(value)}"


def _number_wanted(words: str) -> Callable[[Draft, YamlPath, object], str]:
    def sentence(draft: Draft, path: YamlPath, value: object) -> str:
        place = draft.document.places[path]
        if place.kind == "odd number":
            return f"{words} is wanted here: write `{place.text}` as a plain decimal number"
        if isinstance(value, str) and value.strip().lstrip("+-").replace(".", "", 1).isdecimal():
            return f"{words} is wanted here: write `{value.strip()}` without quotes"
        return f"{words} is wanted here, not {_what(value)}"

    return sentence


_WANTED: Mapping[str, Callable[[Draft, YamlPath, Any], str]] = {
    "string_type": _text_wanted,
    "tuple_type": _list_wanted,
    "dict_type": _mapping_wanted,
    "mapping_type": _mapping_wanted,
    "model_type": _mapping_wanted,
    "int_type": _number_wanted("a whole number"),
    "float_type": _number_wanted("a number"),
    "finite_number": lambda _draft, _path, _value: "a finite number is wanted here",
    "bool_type": lambda _draft, _path, value: f"`true` or `false` is wanted here, not {_what(value)}",
}


def _what(value: object) -> str:
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, str):
        return f"the text `{_shown(value)}`"
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a mapping"


def _shown(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:60]}…"


def _first_sentence(field: Any) -> str:
    text = str(field.description).split(". ", maxsplit=1)[0].rstrip(".")
    return text[:1].lower() + text[1:]


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}
