"""The reference of the spec for its users, docs/reference/spec.md, from reference.md and the models of the sections."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from unperturbed.collectors.sources.catalogue import OS_METRICS
from unperturbed.harness.spec import quantities
from unperturbed.harness.spec.campaign_spec import CampaignSpec, spec_keys, spec_model
from unperturbed.harness.spec.model import MAY_CHANGE, Section
from unperturbed.harness.spec.text import OF_PARAMETERS, PARAMETER, PLACEHOLDERS
from unperturbed.harness.spec.validation import mappings

_MADE = "<!-- Made by unperturbed.harness.spec.docs from the models of the spec; change the descriptions there. -->\n\n"
_PAGE = Path(__file__).with_name("reference.md").read_text(encoding="utf-8")
"""The page's own text. Comments in it stand for what is made from the models."""

_MOST_LISTED = 12
"""Choices that the page lists; the catalogue of metrics has hundreds."""


def spec_markdown() -> str:
    """Return the reference of the spec, as Markdown."""
    others = [key for name, key in spec_keys().items() if name not in CampaignSpec.model_fields]
    parameter = (f"`{{{PARAMETER}NAME}}`", OF_PARAMETERS.meaning, _code(sorted(OF_PARAMETERS.fields)))
    placeholders = [(f"`{{{name}}}`", one.meaning, _code(sorted(one.fields))) for name, one in PLACEHOLDERS.items()]
    made = {
        "examples of other keys": "".join(key.sample for key in others),
        "a section for each mapping": "\n\n".join(_mapping(path, definition) for path, definition in mappings()),
        "table of placeholders": _table("placeholder | stands for | in", [*placeholders, parameter]),
        "units of durations": _code(quantities.DURATION_UNITS),
        "units of sizes": _code(quantities.SIZE_UNITS),
        "table of operating-system metrics": _table("metric | meaning", ((f"`{k}`", v) for k, v in OS_METRICS.items())),
        "rules of other keys": "".join(f"\n{key.notes.rstrip()}" for key in others if key.notes),
        "keys that may change": "\n".join(_keys_that_may_change()),
    }
    return _MADE + re.sub(r"<!-- (.+?) -->", lambda place: made[place[1]], _PAGE)


def _keys_that_may_change() -> Iterator[str]:
    """Yield an item for each section with keys whose change a campaign survives, as `load` compares specs."""
    for section, field in spec_model().model_fields.items():
        for model in (field.annotation, *get_args(field.annotation)):
            if isinstance(model, type) and issubclass(model, Section):
                keys = [one.alias or name for name, one in model.model_fields.items() if MAY_CHANGE in one.metadata]
                if keys:
                    yield f"- under `{field.alias or section}`: {_code(keys)};"
    yield "- `max_rate` of kernel probes."


def _mapping(path: tuple[str, ...], definition: Mapping[str, Any]) -> str:
    """Return the section on one mapping: its keys, what each holds, its default and its meaning."""
    where = ".".join("NAME" if part == "*" else part for part in path)
    rows = [
        (f"`{key}`", _form(field), _default(definition, key, field), _meaning(key, field))
        for key, field in definition["properties"].items()
    ]
    table = _table("key | value | default | meaning", rows)
    return f"## {f'`{where}`' if path else 'Sections'}\n\n{definition['description']}\n\n{table}"


def _default(definition: Mapping[str, Any], key: str, field: Mapping[str, Any]) -> str:
    if key in definition.get("required", []):
        return "**required**"
    return f"`{_yaml(field['default'])}`" if "default" in field else "–"


def _meaning(key: str, field: Mapping[str, Any]) -> str:
    reason = field.get("$comment")
    examples = " or ".join(f"`{key}: {_yaml(example)}`" for example in field.get("examples", [])[:2])
    parts = [
        field["description"],
        f"Why these bounds: {reason}." if reason else "",
        f"Example: {examples}." if examples else "",
    ]
    return " ".join(filter(None, parts))


def _form(field: Mapping[str, Any]) -> str:
    """Return in a few words what a value looks like."""
    match field:
        case {"oneOf": choices} | {"anyOf": choices}:
            form = " or ".join(dict.fromkeys(map(_form, choices)))
        case {"$ref": _}:
            form = "mapping, see below"
        case {"const": only}:
            form = f"`{only}`"
        case {"enum": names}:
            form = _code(names) if len(names) <= _MOST_LISTED else "name of a known metric"
        case {"type": "array"}:
            form = f"list of {_form(field['items'])}"
        case {"type": "object", "patternProperties": named}:
            form = f"mapping of names to: {_form({'oneOf': list(named.values())})}"
        case {"type": "object"}:
            form = "mapping"
        case {"type": "boolean"}:
            form = "`true` or `false`"
        case {"type": "integer" | "number"}:
            form = _number(field)
        case {"type": "string"}:
            forms = {
                quantities.DURATION_PATTERN: "duration",
                quantities.SIZE_PATTERN: "size",
                quantities.CACHE_PATTERN: "cache",
                quantities.COUNT_PATTERN: "number of counts",
            }
            form = forms.get(field.get("pattern", ""), "text")
        case _:
            form = " or ".join(_form({"type": kind}) for kind in field["type"])
    return form


def _number(field: Mapping[str, Any]) -> str:
    kind = {"integer": "whole number", "number": "number"}[field["type"]]
    if "minimum" in field and "maximum" in field:
        return f"{kind} from {field['minimum']:,} to {field['maximum']:,}"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {field[key]:,}" for key, sign in signs.items() if abs(field.get(key, 2**53)) < 2**53]
    return f"{kind} {' and '.join(bounds)}".rstrip()


def _yaml(value: object) -> str:
    """Return a value in YAML's flow form, quoted only where YAML needs it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_yaml(item) for item in value) + "]"
    if isinstance(value, str) and not value.startswith(("{", "*", "[")) and ": " not in value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _table(heads: str, rows: Iterable[Iterable[str]]) -> str:
    lines = [f"| {heads} |", f"|{'---|' * len(heads.split('|'))}"]
    escaped = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    lines += [f"| {' | '.join(row)} |" for row in escaped]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(spec_markdown())
