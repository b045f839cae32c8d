"""GML, which DoWhy takes: the graph of a causal model, its nodes labelled by the variables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.harness.exports import Format

if TYPE_CHECKING:
    from unperturbed.analysis.causal import CausalModel


def _write_model(model: CausalModel, path: Path) -> None:
    from unperturbed.analysis.causal import to_gml  # noqa: PLC0415  slow to load

    path.write_text(to_gml(model), encoding="utf-8")


FORMAT = Format("gml", (".gml",), {"model": _write_model})
