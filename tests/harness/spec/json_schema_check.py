"""A small validator for the parts of JSON Schema (2020-12) that the spec's schema uses; any other part is an error."""

from __future__ import annotations

import re
from typing import Any

_IGNORED = {"$comment", "$schema", "$defs", "title", "description", "default", "examples"}
_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def accepts(schema: dict[str, Any], value: object, root: dict[str, Any] | None = None) -> bool:
    """Tell whether a value is valid."""
    root = schema if root is None else root
    return all(_holds(key, schema, value, root) for key in schema if key not in _IGNORED)


def _is(kind: str, value: object) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _holds(key: str, schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    rule = schema[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match key:
        case "type":
            return any(_is(kind, value) for kind in ([rule] if isinstance(rule, str) else rule))
        case "$ref":
            return accepts(root["$defs"][rule.removeprefix("#/$defs/")], value, root)
        case "enum":
            return value in rule
        case "const":
            return bool(value == rule)
        case "pattern":
            return not isinstance(value, str) or re.search(rule, value) is not None
        case "minimum":
            return not number or value >= rule
        case "maximum":
            return not number or value <= rule
        case "exclusiveMinimum":
            return not number or value > rule
        case "exclusiveMaximum":
            return not number or value < rule
        case "items":
            return not isinstance(value, list) or all(accepts(rule, item, root) for item in value)
        case "minItems":
            return not isinstance(value, list) or len(value) >= rule
        case "maxItems":
            return not isinstance(value, list) or len(value) <= rule
        case "uniqueItems":
            return not isinstance(value, list) or not any(item in value[:index] for index, item in enumerate(value))
        case "required":
            return not isinstance(value, dict) or set(rule) <= set(value)
        case "properties":
            return not isinstance(value, dict) or all(
                accepts(rule[name], value[name], root) for name in rule if name in value
            )
        case "patternProperties":
            return not isinstance(value, dict) or all(
                accepts(inner, item, root)
                for pattern, inner in rule.items()
                for name, item in value.items()
                if re.search(pattern, name)
            )
        case "additionalProperties":
            assert rule is False
            named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
            return not isinstance(value, dict) or all(
                name in named or any(re.search(pattern, name) for pattern in patterns) for name in value
            )
        case "not":
            return not accepts(rule, value, root)
        case "if":
            return not accepts(rule, value, root) or accepts(schema["then"], value, root)
        case "then":
            return True
        case "anyOf":
            return any(accepts(choice, value, root) for choice in rule)
        case "oneOf":
            return sum(accepts(choice, value, root) for choice in rule) == 1
        case _:
            raise AssertionError(f"the validator does not know {key!r}")
