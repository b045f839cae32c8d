"""From a campaign's runs to verdicts, alignments, merged traces and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

_FOLDER = Path(__file__).parent / "json_schemas"


def result_schema(name: Literal["verdicts", "plan"]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of such a file; its `$id` ends with the file's `schema_version`."""
    found: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found
