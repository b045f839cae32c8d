"""Validation of a spec by its models: their JSON Schema, and messages in plain language for faults.

Messages and the reference are generated from the JSON Schema, so the texts of a field are only in its model.
"""

from __future__ import annotations

import ast
import copy
import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, core_schema

from unperturbed.collectors.sources.callgrind import Cache
from unperturbed.common.wording import listing
from unperturbed.harness.spec.campaign_spec import CURRENT, CampaignSpec, spec_model
from unperturbed.harness.spec.model import UNION_TAGS, Because, Draft
from unperturbed.harness.spec.quantities import Duration, format_cache
from unperturbed.harness.spec.text import FORMS
from unperturbed.harness.spec.yaml import YamlPath

Schema = Mapping[str, Any]


class _Generator(GenerateJsonSchema):
    """Generator of JSON Schemas: an optional field may be omitted but not null, and unknown keys are not allowed."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        if made.get("default", ...) is None:
            del made["default"]
        return made

    def tuple_schema(self, schema: core_schema.TupleSchema) -> JsonSchemaValue:
        # Every list in a spec is a list of names, and a duplicate is a fault.
        return {**super().tuple_schema(schema), "uniqueItems": True}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        made = super().dict_schema(schema)
        return {**made, "additionalProperties": False} if "patternProperties" in made else made

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        model = schema["cls"]
        for name, field in model.model_fields.items():
            described = made["properties"][field.alias or name]
            # pydantic drops the description of an optional field that refers to another model.
            described.setdefault("description", field.description or _text_below(model, name))
            reasons = [mark.reason for mark in field.metadata if isinstance(mark, Because)]
            described |= {"$comment": reasons[0]} if reasons else {}
            if field.default_factory is not None:
                described["default"] = _written(field.get_default(call_default_factory=True, validated_data={}))
        if not issubclass(model, CampaignSpec):
            made.pop("title", None)
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  the base class's signature
        return False


def _written(default: object) -> object:
    """Return a default value as written in a spec; empty for a section, because its fields have their own defaults."""
    if isinstance(default, Cache):
        return format_cache(default)
    if isinstance(default, Mapping):
        return dict(default)
    return default if isinstance(default, int | str) else str(default) if isinstance(default, Duration) else {}


def _text_below(model: type[BaseModel], name: str) -> str:
    """Return a field's docstring from the source of its model, on one line."""
    owner = next(base for base in model.__mro__ if name in base.__annotations__)
    return _texts_below_fields(owner.__module__).get(f"{owner.__name__}.{name}", "")


@cache
def _texts_below_fields(module: str) -> Mapping[str, str]:
    """Return the docstring of each field of a module's classes; pydantic would take 50 ms for this at each import."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):  # a distribution without source code
        return {}
    classes = [statement for statement in ast.parse(source).body if isinstance(statement, ast.ClassDef)]
    return {
        f"{class_.name}.{ast.unparse(field.target)}": " ".join(str(text.value.value).split())
        for class_ in classes
        for field, text in pairwise(class_.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a spec.

    The schema accepts every spec that `load_spec` accepts. It lacks rules that no schema can express: files that must
    exist, names that other parts of the spec must define, ranges of quantities. A `$comment` is the reason for a
    number's bounds.
    """
    return copy.deepcopy(_schema(spec_model()))


def definition_at(path: YamlPath, keys: Collection[str] = ()) -> Schema | None:
    """Return the definition of the mapping at a path; None if its keys are free or the value is not a mapping.

    `keys`: Keys of the mapping, by which one of several forms is chosen.
    """
    nodes: list[Schema] = [_schema(spec_model())]
    for part in path:
        nodes = [inner for node in nodes for key, inner in _children(node) if key in (part, "*")]
    forms = [node for schema in nodes for node in _alternatives(schema) if "properties" in node]
    return max(forms, key=lambda form: len(form["properties"].keys() & set(keys)), default=None)


def mappings() -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Yield the path and definition of every mapping with fixed keys, each definition once, in key order."""
    definitions: dict[int, tuple[Schema, list[tuple[str, ...]]]] = {}

    def walk(node: Schema, path: tuple[str, ...]) -> None:
        for schema in _alternatives(node):
            if "properties" in schema:
                definitions.setdefault(id(schema), (schema, []))[1].append(path)
        for key, inner in _children(node):
            walk(inner, (*path, key))

    walk(_schema(spec_model()), ())
    for definition, paths in definitions.values():
        highest = min(map(len, paths))  # a mapping at several depths is described at the least depth
        parts = map(set, zip(*(path for path in paths if len(path) == highest), strict=True))
        yield tuple(part.pop() if len(part) == 1 else "*" for part in parts), definition


@cache
def _schema(model: type[CampaignSpec]) -> dict[str, Any]:
    made = model.model_json_schema(schema_generator=_Generator)
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": f"urn:unperturbed:schema:spec:{CURRENT}", **made}


def _alternatives(node: Schema) -> Iterator[Schema]:
    """Yield the schemas that a value may match, with references resolved."""
    if "$ref" in node:
        node = _schema(spec_model())["$defs"][node["$ref"].rpartition("/")[2]]
    choices = node.get("anyOf") or node.get("oneOf")
    if not choices:
        yield node
    for choice in choices or ():
        yield from _alternatives(choice)


def _children(node: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the key and schema of each value below a value; the key is `*` for free keys and items of lists."""
    for schema in _alternatives(node):
        yield from schema.get("properties", {}).items()
        yield from (("*", inner) for inner in schema.get("patternProperties", {}).values())
        yield from (
            ("*", schema[key]) for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)
        )


_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def validate(draft: Draft) -> CampaignSpec | None:
    """Return the spec that a draft describes; if there are faults, report each to the draft, and return None.

    A key without a value (`stdin:`) is a fault, because no field accepts null.
    """
    faulty: set[YamlPath] = set()
    spec, places = None, draft.document.places
    try:
        spec = spec_model().model_validate(draft.document.data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            path, missing = _locate(draft, detail["loc"])
            known, above = detail["type"] != "extra_forbidden", (path[:length] for length in range(len(path) + 1))
            if known and any(place in places and places[place].kind in ("null", "refused") for place in above):
                continue  # reported below, or by the reader
            faulty.add(path)
            _report(draft, path, missing, detail)
    for path, place in places.items():
        if faulty.intersection(path[:length] for length in range(len(path) + 1)):
            continue
        if place.kind == "null":
            draft.report_key(path, f"`{path[-1]}` has no value: add a value, or remove the key")
        elif place.kind == "odd number":
            what = "is a number for some YAML parsers and text for others"
            way_out = f'quote it ("{place.text}"), or write it as a plain decimal number'
            draft.report(path, f"`{place.text}` {what}: {way_out}")
    return spec


def _locate(draft: Draft, location: tuple[int | str, ...]) -> tuple[YamlPath, str | None]:
    """Return the part of a path that exists in the document, and the first missing key, or None."""
    path: YamlPath = ()
    for part in location:
        if part in UNION_TAGS and not draft.has(*path, part):
            continue
        if part == "[key]" and not draft.has(*path, part):
            break  # pydantic's mark for an invalid key of a mapping
        if not draft.has(*path, part):
            return path, str(part)
        path = (*path, part)
    return path, None


def _report(draft: Draft, path: YamlPath, missing: str | None, detail: ErrorDetails) -> None:
    if detail["type"] == "missing":
        first_sentence = (
            _properties(path, draft.keys(*path))
            .get(missing or "", {})
            .get("description", "")
            .split(". ")[0]
            .rstrip(".")
        )
        meaning = f" ({first_sentence[0].lower()}{first_sentence[1:]})" if first_sentence else ""
        where = f" from `{path[-1]}`" if path else ""
        draft.report_key(path, f"`{missing}` is missing{where}{meaning}")
    elif detail["type"] == "extra_forbidden":
        draft.report_key(path, _unknown_key(draft, path))
    else:
        report = draft.report_key if detail["loc"][-1] == "[key]" else draft.report
        report(path, _sentence(draft, path, detail))


def _properties(path: YamlPath, keys: Collection[str] = ()) -> Mapping[str, Any]:
    definition = definition_at(path, keys)
    return definition["properties"] if definition else {}


def _unknown_key(draft: Draft, path: YamlPath) -> str:
    present = draft.keys(*path[:-1])
    key, known = str(path[-1]), _properties(path[:-1], present)
    if ":" in key:
        return f"unknown key `{key}`: a space is missing after the `:`"
    home = _home(key) if len(path) <= 2 else None
    if home is not None:
        return home
    hint = draft.did_you_mean(key, (name for name in known if name not in present))
    keys = f"valid keys: {', '.join(known)}" if len(known) > 1 else f"the only valid key is `{next(iter(known))}`"
    return f"unknown key `{key}`; {hint or keys}"


def _home(key: str) -> str | None:
    """Return a message for a valid key in the wrong section; None for other keys."""
    for section in _properties(()):
        if key == section:
            return f"`{key}` is a top-level key: move it to the left margin"
        if key in _properties((section,)):
            return f"`{key}` belongs under `{section}:`"
    return None


def _sentence(draft: Draft, path: YamlPath, detail: ErrorDetails) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        reason = _properties(path[:-1], draft.keys(*path[:-1])).get(str(path[-1]), {}).get("$comment")
        named = f"`{path[-1]}`" if isinstance(path[-1], str) else f"a number in `{path[-2]}`"
        return f"{named} is {value}, but must be {words} {context[key]:g}{f': {reason}' if reason else ''}"
    if kind == "string_pattern_mismatch":
        form = FORMS.get(context["pattern"], f"the text must match `{context['pattern']}`")
        return f"`{_shown(value)}`: {form}" if value.strip() else "the text is empty: write a value"
    if kind == "literal_error":
        choices = context["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        hint = draft.did_you_mean(value, choices) if isinstance(value, str) else ""
        use = listing([f"`{choice}`" for choice in choices], "or")
        return f"unknown value `{_shown(value)}`: use {use}{f'; {hint}' if hint else ''}"
    return _WANTED[kind](draft, path, value) if kind in _WANTED else detail["msg"]


def _text_wanted(draft: Draft, path: YamlPath, value: object) -> str:
    written = draft.document.places[path].text
    if isinstance(value, bool):
        return f'unquoted `{written}` is a boolean in YAML: quote it ("{written}")'
    if isinstance(value, int | float):
        return f'`{written}` is a number, not text: quote it ("{written}")'
    if isinstance(value, dict) and len(value) == 1 and None in value.values():
        inner = f"{{{next(iter(value))}}}"
        return f'unquoted `{inner}` is a mapping in YAML: quote the whole text ("{inner}")'
    return f"expected text, not {_what(value)}"


def _list_wanted(_draft: Draft, _path: YamlPath, value: object) -> str:
    if isinstance(value, str):
        return f"expected a list: write `[{_shown(value)}]`"
    return f"expected a list, not {_what(value)}"


def _mapping_wanted(_draft: Draft, path: YamlPath, value: object) -> str:
    keys = _properties(path)
    form = "" if keys else " (`name: value`)"
    return f"expected a mapping{form}, not {_what(value)}" + (f"; valid keys: {', '.join(keys)}" if keys else "")


def _number_wanted(words: str) -> Callable[[Draft, YamlPath, object], str]:
    def sentence(draft: Draft, path: YamlPath, value: object) -> str:
        place = draft.document.places[path]
        if place.kind == "odd number":
            return f"expected {words}: write `{place.text}` as a plain decimal number"
        if isinstance(value, str) and value.strip().lstrip("+-").replace(".", "", 1).isdecimal():
            return f"expected {words}: write `{value.strip()}` without quotes"
        return f"expected {words}, not {_what(value)}"

    return sentence


_WANTED: Mapping[str, Callable[[Draft, YamlPath, Any], str]] = {
    "string_type": _text_wanted,
    "tuple_type": _list_wanted,
    "list_type": _list_wanted,
    "dict_type": _mapping_wanted,
    "mapping_type": _mapping_wanted,
    "model_type": _mapping_wanted,
    "int_type": _number_wanted("a whole number"),
    "float_type": _number_wanted("a number"),
    "finite_number": lambda _draft, _path, _value: "expected a finite number",
    "bool_type": lambda _draft, _path, value: f"expected `true` or `false`, not {_what(value)}",
}


def _what(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return f"the text `{_shown(value)}`"
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a mapping"


def _shown(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:60]}…"
