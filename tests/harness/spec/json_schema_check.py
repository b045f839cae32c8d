"""Validation by the JSON Schema (2020-12) of the spec, or by a part of it."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator


def accepts(schema: dict[str, Any], value: object, root: dict[str, Any] | None = None) -> bool:
    """Return whether a value is valid; `root` has the definitions that the schema refers to."""
    whole = {**schema, "$defs": (schema if root is None else root)["$defs"]}
    Draft202012Validator.check_schema(whole)
    return bool(Draft202012Validator(whole).is_valid(value))
