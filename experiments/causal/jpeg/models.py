"""Causal models of JPEG 2000 compression: of runs, of partial derivatives, and both ways merged into one graph.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 8.5 and figure 14: "The data
for lossless and lossy compression were analyzed independently, after which both resulting models were merged into one."
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from experiments.causal.jpeg.tables import Runs, Way
from unperturbed.analysis.causal import CausalModel, Knowledge, learn, partial_derivative

DERIVATIVES = tuple(f"d{of}_d{over}" for of in ("T", "instr") for over in ("kernel", "block", "layers"))
"""Partial derivatives of time and instructions a pixel: over the kernel from 5/3 to 9/7, over numbers from least to
greatest."""
_MEASURED = ("bits_ppel", "instr_ppel", "L2M_ppel", "CPI", "T_ppel")


@dataclass(frozen=True, eq=False)
class Models:
    """What was learnt of one sweep."""

    runs: Runs  # The runs
    model: CausalModel  # Of parameters and per-pixel values
    # Of each of `DERIVATIVES`, by itself: what of the other parameters it depends on.
    derivatives: tuple[CausalModel, ...]

    def edges(self) -> tuple[tuple[str, str], ...]:
        """Return sources and targets of all edges."""
        return tuple((edge.source, edge.target) for model in (self.model, *self.derivatives) for edge in model.edges)

    def causes(self, name: str) -> tuple[str, ...]:
        """Return what has an edge to a variable."""
        return tuple(source for source, target in self.edges() if target == name)


@dataclass(frozen=True)
class Merged:
    """Both models in one graph."""

    tiers: tuple[tuple[str, ...], ...]  # Variables in the order of causes
    # With the ways of compression that have the edge.
    edges: tuple[tuple[str, str, frozenset[Way]], ...]


def learn_models(runs: Runs, *, test: str = "auto", subsamples: int = 10) -> Models:
    """Learn what causes what in the runs of one sweep, and what derivatives depend on."""
    measured = [name for name in _MEASURED if name not in runs.parameters]
    knowledge = Knowledge(tiers=[runs.parameters, *([name] for name in measured)], inputs=runs.parameters)
    table = runs.frame.select(*runs.parameters, *measured)
    model = learn(table, knowledge, test=test, subsamples=subsamples, quantify=False)
    found = [_derivative(runs, name, test, subsamples) for name in DERIVATIVES if _over(name) in runs.parameters]
    return Models(runs, model, tuple(found))


def merged(models: Iterable[Models]) -> Merged:
    """Merge models of several ways into one graph; of derivatives, as in the paper's, those of the time alone."""
    ways: dict[tuple[str, str], set[Way]] = {}
    for one in models:
        for edge in one.edges():
            if edge[1].startswith("dinstr"):
                continue
            ways.setdefault(edge, set()).add(one.runs.way)
    parameters = ("image", "width", "height", "kernel", "block", "layers")
    tiers: Sequence[Sequence[str]] = (parameters, *((name,) for name in _MEASURED), DERIVATIVES)
    met = {name for edge in ways for name in edge}
    kept = [tuple(name for name in tier if name in met or name in ("layers", "width", "height")) for tier in tiers]
    return Merged(
        tuple(tier for tier in kept if tier), tuple((*edge, frozenset(found)) for edge, found in ways.items())
    )


def _derivative(runs: Runs, name: str, test: str, subsamples: int) -> CausalModel:
    over, of = _over(name), f"{name.split('_', maxsplit=1)[0][1:]}_ppel"
    values = runs.frame[over].unique().sort().to_list()
    between = (values[0], values[-1])
    steps = partial_derivative(runs.frame, of, over, parameters=runs.parameters, between=between, name=name).steps
    others = [one for one in runs.parameters if one != over]
    knowledge = Knowledge(tiers=[others, [name]], inputs=others)
    return learn(steps.select(*others, pl.col(name)), knowledge, test=test, subsamples=subsamples, quantify=False)


def _over(name: str) -> str:
    """Return the parameter of a derivative."""
    return name.split("_d")[1]
