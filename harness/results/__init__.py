"""Evaluation of a campaign's runs: verdicts, alignments, merged traces and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal


def result_schema(name: Literal["verdicts", "plan"]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a result file; its `$id` ends with the file's `schema_version`."""
    file = Path(__file__).with_name("json_schemas") / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
