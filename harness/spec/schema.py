"""The JSON Schema of the spec, made from the model: editors complete and check a spec with it."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from unperturbed.harness.spec.models import MAPPINGS, Campaign

__all__ = ["json_schema"]


class _Generator(GenerateJsonSchema):
    """Says of an optional field that it may be left out, not that it may be null; and lets no unknown keys through."""

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

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  the base class's signature
        return False


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a spec.

    What it accepts is what `load_spec` accepts, but for rules that no schema can express: files that must exist, names that must be
    known elsewhere in the spec, quantities out of range.
    """
    made = Campaign.model_json_schema(schema_generator=_Generator)
    for definition in made["$defs"].values():
        del definition["title"]
    for model in MAPPINGS.values():
        # pydantic drops the description of an optional field that refers to another model.
        for name, field in model.model_fields.items():
            described = made if model is Campaign else made["$defs"][model.__name__]
            described["properties"][field.alias or name].setdefault("description", field.description)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **made,
        "title": "Unperturbed campaign",
        "description": "A measurement campaign: a program, what is measured of it, how often, and how it is judged.",
        # A sweep has no intervals, everything else has.
        "if": {"not": {"required": ["parameters"]}},
        "then": {"properties": {"measure": {"required": ["interval"]}}},
    }
