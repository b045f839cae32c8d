"""Export formats of a causal model: its graph for Graphviz, GraphML and GML, and the model as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.harness.exports import Format

if TYPE_CHECKING:
    from unperturbed.analysis.causal import CausalModel


def _format(name: str, suffixes: tuple[str, ...]) -> Format:
    """Return the export format that the function `to_NAME` of `analysis.causal` writes."""

    def write(model: CausalModel, path: Path) -> None:
        from unperturbed.analysis import causal

        text: Callable[[CausalModel], str] = getattr(causal, f"to_{name}")
        path.write_text(text(model), encoding="utf-8")

    return Format(name, suffixes, {"model": write})


def _write_json(model: CausalModel, path: Path) -> None:
    path.write_text(f"{model.to_json()}\n", encoding="utf-8")


DOT = _format("dot", (".dot", ".gv"))
GRAPHML = _format("graphml", (".graphml",))
GML = _format("gml", (".gml",))
JSON = Format("json", (".json",), {"model": _write_json})
