"""Faults of a file of results by its published JSON Schema, which the tests close: every key must be described."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from unperturbed.harness.results import result_schema


def schema_faults(name: str, data: Any) -> list[str]:
    """Return what of the data, as JSON has it, the schema does not allow or does not describe."""
    schema = _closed(result_schema(name))  # type: ignore[arg-type]
    Draft202012Validator.check_schema(schema)
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(data)]


def file_faults(path: Path) -> list[str]:
    """Return the faults of `verdicts.json` or `plan.json`; a number that is not JSON is one."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{path}: {word} is not JSON")

    return schema_faults(path.stem, json.loads(path.read_text(), parse_constant=refuse))


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    return {**closed, "additionalProperties": False} if isinstance(node.get("properties"), dict) else closed
