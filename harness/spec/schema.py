"""The JSON Schema of the spec, generated from its models: editors complete and check a spec with it.

Messages and the reference are made from it too, so that a field's words are in its model alone.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from unperturbed.harness.spec.campaign_spec import CampaignSpec, spec_model
from unperturbed.harness.spec.model import Because
from unperturbed.harness.spec.sections.version import CURRENT
from unperturbed.harness.spec.yaml.positions import YamlPath

Schema = Mapping[str, Any]


class _Generator(GenerateJsonSchema):
    """Generates schemas: an optional field may be left out but not null, and unknown keys are not allowed."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        if made.get("default", ...) is None:
            del made["default"]
        return made

    def tuple_schema(self, schema: core_schema.TupleSchema) -> JsonSchemaValue:
        # Every list of a spec names things, and naming one twice is a fault.
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
            described.setdefault("description", field.description)
            reasons = [mark.reason for mark in field.metadata if isinstance(mark, Because)]
            described |= {"$comment": reasons[0]} if reasons else {}
        if not issubclass(model, CampaignSpec):
            made.pop("title", None)
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  the base class's signature
        return False


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a spec.

    What it accepts is what `load_spec` accepts, but for rules that no schema can express: files that must exist, names
    that must be known elsewhere in the spec, quantities out of range. A `$comment` is the reason for a number's bounds.
    """
    return copy.deepcopy(_schema(spec_model()))


def definition_at(path: YamlPath) -> Schema | None:
    """Return the definition of the mapping at a path; None where its keys are free or nothing is a mapping.

    `path`: Keys and indices.
    """
    nodes: list[Schema] = [_schema(spec_model())]
    for part in path:
        nodes = [inner for node in nodes for key, inner in _children(node) if key in (part, "*")]
    return next((node for one in nodes for node in _alternatives(one) if "properties" in node), None)


def mappings() -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Yield path and definition of every mapping with fixed keys, each definition once, in the order of the keys."""
    found: dict[int, tuple[Schema, list[tuple[str, ...]]]] = {}

    def walk(node: Schema, path: tuple[str, ...]) -> None:
        for one in _alternatives(node):
            if "properties" in one:
                found.setdefault(id(one), (one, []))[1].append(path)
        for key, inner in _children(node):
            walk(inner, (*path, key))

    walk(_schema(spec_model()), ())
    for definition, paths in found.values():
        highest = min(map(len, paths))  # one that stands at several heights is described at the highest
        parts = map(set, zip(*(path for path in paths if len(path) == highest), strict=True))
        yield tuple(part.pop() if len(part) == 1 else "*" for part in parts), definition


@cache
def _schema(model: type[CampaignSpec]) -> dict[str, Any]:
    made = model.model_json_schema(schema_generator=_Generator)
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": f"urn:unperturbed:schema:spec:{CURRENT}", **made}


def _alternatives(node: Schema) -> Iterator[Schema]:
    """Yield what a value may be, with references followed."""
    if "$ref" in node:
        node = _schema(spec_model())["$defs"][node["$ref"].rpartition("/")[2]]
    choices = node.get("anyOf") or node.get("oneOf")
    if not choices:
        yield node
    for choice in choices or ():
        yield from _alternatives(choice)


def _children(node: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the values below a value, each with its key; `*` where keys are free or the value is a list."""
    for one in _alternatives(node):
        yield from one.get("properties", {}).items()
        yield from (("*", inner) for inner in one.get("patternProperties", {}).values())
        yield from (("*", one[key]) for key in ("items", "additionalProperties") if isinstance(one.get(key), dict))
