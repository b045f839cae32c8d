"""Files of a causal model's graph for other tools: Graphviz, GraphML, GML; and the model as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.harness.exports import Format

if TYPE_CHECKING:
    from unperturbed.analysis.causal import CausalModel


def _write_dot(model: CausalModel, path: Path) -> None:
    from unperturbed.analysis.causal import to_dot

    path.write_text(to_dot(model), encoding="utf-8")


def _write_graphml(model: CausalModel, path: Path) -> None:
    from unperturbed.analysis.causal import to_graphml

    path.write_text(to_graphml(model), encoding="utf-8")


def _write_gml(model: CausalModel, path: Path) -> None:
    from unperturbed.analysis.causal import to_gml

    path.write_text(to_gml(model), encoding="utf-8")


def _write_json(model: CausalModel, path: Path) -> None:
    path.write_text(f"{model.to_json()}\n", encoding="utf-8")


DOT = Format("dot", (".dot", ".gv"), {"model": _write_dot})
GRAPHML = Format("graphml", (".graphml",), {"model": _write_graphml})
GML = Format("gml", (".gml",), {"model": _write_gml})
JSON = Format("json", (".json",), {"model": _write_json})
