"""Validation by the JSON Schema (2020-12) of the spec, or by a part of it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator


def accepts(schema: dict[str, Any], value: object, root: dict[str, Any] | None = None) -> bool:
    """Return whether a value is valid; `root` has the definitions that the schema refers to."""
    definitions = {"$defs": (schema if root is None else root)["$defs"]}
    _check(json.dumps(definitions))
    _check(json.dumps({name: field for name, field in schema.items() if name != "$defs"}))
    return bool(Draft202012Validator({**schema, **definitions}).is_valid(value))


@cache
def _check(schema: str) -> None:
    """Raise what is wrong with a schema itself; the same definitions stand beside each part, and are checked once."""
    Draft202012Validator.check_schema(json.loads(schema))
