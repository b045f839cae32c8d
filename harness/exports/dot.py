"""Graphviz: the graph of a causal model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.harness.exports import Format

if TYPE_CHECKING:
    from unperturbed.analysis.causal import CausalModel


def _write_model(model: CausalModel, path: Path) -> None:
    from unperturbed.analysis.causal import to_dot  # noqa: PLC0415  slow to load

    path.write_text(to_dot(model), encoding="utf-8")


FORMAT = Format("dot", (".dot", ".gv"), {"model": _write_model})
