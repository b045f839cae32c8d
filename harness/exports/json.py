"""JSON: a causal model without its data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.harness.exports import Format

if TYPE_CHECKING:
    from unperturbed.analysis.causal import CausalModel


def _write_model(model: CausalModel, path: Path) -> None:
    path.write_text(f"{model.to_json()}\n", encoding="utf-8")


FORMAT = Format("json", (".json",), {"model": _write_model})
