"""GraphML, for graph editors and libraries: the graph of a causal model with everything known of nodes and edges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.harness.exports import Format

if TYPE_CHECKING:
    from unperturbed.analysis.causal import CausalModel


def _write_model(model: CausalModel, path: Path) -> None:
    from unperturbed.analysis.causal import to_graphml  # noqa: PLC0415  slow to load

    path.write_text(to_graphml(model), encoding="utf-8")


FORMAT = Format("graphml", (".graphml",), {"model": _write_model})
