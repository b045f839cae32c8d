"""Error rates and power of outer verdicts over nodes: a part of the calibration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.calibration.common import ALPHA, METRICS, TOLERANCE, header, share
from experiments.calibration.outer import OUTER, Runs, draw
from experiments.calibration.rounds import Check, InRounds, draw_in_rounds
from unperturbed.analysis.nodes.combine import combine_nodes
from unperturbed.analysis.perturbation import SHOWN, Verdict
from unperturbed.analysis.perturbation.compare_outer import compare_outer_runs, pair_variance, reference_outer_rho
from unperturbed.analysis.perturbation.correlation import FloatArray, from_fisher
from unperturbed.analysis.perturbation.verdict import RunGroup, changes_from_comparison


@dataclass(frozen=True)
class Nodes:
    """Nodes that run a program of their own each, with as many runs."""

    rho: tuple[float, ...]  # Of two runs of a node, by design: an entry a node
    spread: float
    k: int = 10
    r: int = 3

    def runs(self) -> list[Runs]:
        """The runs of each node."""
        return [Runs(rho, self.spread, k=self.k) for rho in self.rho]


NODES = [
    *(Nodes((rho,) * 4, spread) for rho in (0.9, 0.97, 0.999) for spread in (0.15, 0.3, 0.6)),
    *(Nodes((rho,) * 4, 0.3, 5, 2) for rho in (0.9, 0.999)),
    Nodes((0.97,) * 8, 0.3),
    Nodes((0.95, 0.97, 0.98, 0.99), 0.3),
]


def nodes_header() -> Iterator[str]:
    """The header of the table of nodes."""
    heads = ["nodes", "k", "r", "ρ", "spread of the noise", "verdict on", "fall", "found", "false alarms", "accepted"]
    yield from header([*heads, "called perturbed", "at a tolerance of Δρ"])


def nodes_cell(campaigns: int, seed: int, of: Nodes) -> Iterator[str]:
    """Two rows: the verdict on these nodes and on their type, where one metric of five falls, all by the tolerance, or
    none."""
    rng = np.random.default_rng([seed, 7, of.k, of.r, *(number for runs in of.runs() for number in runs.seeds())])
    nodes = [draw(rng, campaigns, runs, of.r) for runs in of.runs()]
    before = np.mean([node["none"].mean(axis=(0, 1, 2)) for node in nodes], axis=0)
    fallen = {name: np.mean([node[name].mean(axis=(0, 1, 2)) for node in nodes], axis=0) for name in nodes[0]}
    falls = {name: from_fisher(before) - from_fisher(after) for name, after in fallen.items()}
    scopes = ("these nodes", "this type")
    outcomes: dict[str, list[list[float]]] = {
        name: [[] for _ in scopes] for name in ("goal", "none", "accepted", "edge")
    }
    for at in range(campaigns):
        usual = np.full(METRICS, TOLERANCE)
        for which, verdict in enumerate(judged(nodes, at, ("none",) * METRICS, usual)):
            outcomes["none"][which].append(any(change.verdict in SHOWN for change in verdict.changes))
        for which, verdict in enumerate(judged(nodes, at, ("goal", *("none",) * (METRICS - 1)), usual)):
            outcomes["goal"][which].append(verdict.changes[0].verdict == "perturbed")
        for which, verdict in enumerate(judged(nodes, at, ("tolerance",) * METRICS, falls["tolerance"])):
            outcomes["edge"][which].append(any(change.verdict == "perturbed" for change in verdict.changes))
            accepted = [change.verdict == "unperturbed" for change in verdict.changes]
            outcomes["accepted"][which].append(float(np.mean(accepted)))
    alike = from_fisher(np.array([node["none"].mean() for node in nodes]))
    levels = " to ".join(dict.fromkeys(f"{level:.3f}" for level in (alike.min(), alike.max())))
    for which, scope in enumerate(scopes):
        cells = [share(outcomes[name][which]) for name in ("goal", "none", "accepted", "edge")]
        yield (
            f"| {len(of.rho)} | {of.k} | {of.r} | {levels} | {of.spread} | {scope} | {falls['goal'][0]:.2f} | "
            f"**{cells[0]}** | {' | '.join(cells[1:])} | {falls['tolerance'].mean():.3f} |"
        )


def judged(
    nodes: Sequence[dict[str, FloatArray]], at: int, names: Sequence[str], tolerances: FloatArray
) -> tuple[Verdict, Verdict]:
    """Return the verdicts on these nodes and on their type of one campaign, by the name of each metric's fall."""
    verdicts = {}
    for number, node in enumerate(nodes):
        matrix = node["reference"][:, :, at]
        z = np.stack([node[name][:, :, at, metric] for metric, name in enumerate(names)], axis=-1)
        reference, observed = reference_outer_rho(matrix), from_fisher(z.mean(axis=0))
        compared = compare_outer_runs(
            reference, observed, pair_variance(matrix), intervals=OUTER["intervals"], alpha=ALPHA
        )
        baseline = RunGroup("a", ("",) * len(reference), reference)
        checked = RunGroup("b", ("",) * len(observed), observed)
        labels = [(f"M{metric}", f"M{metric}") for metric in range(len(names))]
        changes = changes_from_comparison("outer", labels, baseline, checked, compared, tolerance=0.0)
        changes = tuple(replace(each, tolerance=float(edge)) for each, edge in zip(changes, tolerances, strict=True))
        verdicts[str(number)] = Verdict("b", "a", "undecided", changes, alpha=ALPHA, tolerance=TOLERANCE)
    combined = combine_nodes(verdicts)
    if combined.type is None:
        raise ValueError("a claim about a type of node needs four nodes")
    return combined.these, combined.type


NODE_SHARES = {"normal": (5, 5), "three classes": (10, 5)}
"""Baseline runs and checked runs of each node whose runs are compared within rounds, by kind of rounds."""


def rounds_on_nodes(campaigns: int, seed: int, check: Check, kind: str) -> Iterator[str]:
    """Rows of verdicts within rounds over four nodes: all metrics unchanged, and all fallen by the tolerance.

    False alarms are counted at a tolerance of 0, where any change that is shown counts.
    """
    runs = NODE_SHARES[kind]
    for shared in (0.0, 0.9, 0.99):
        rng = np.random.default_rng([seed, 9, len(kind), round(100 * shared), *runs, check == "outer"])
        outcomes: dict[str, list[float]] = {}
        for _ in range(campaigns):
            for fall, tolerance in ((0.0, 0.0), (TOLERANCE, TOLERANCE)):
                nodes = [draw_in_rounds(rng, check, kind, shared, runs, fall) for _ in range(4)]
                for scope, verdict in zip(("these", "type"), verdicts_in_rounds(nodes, check, tolerance), strict=True):
                    names = [change.verdict for change in verdict.changes]
                    if not fall:
                        outcomes.setdefault(f"{scope}: alarms", []).append(any(name in SHOWN for name in names))
                        continue
                    accepted = float(np.mean([name == "unperturbed" for name in names]))
                    outcomes.setdefault(f"{scope}: accepted", []).append(accepted)
                    outcomes.setdefault(f"{scope}: perturbed", []).append("perturbed" in names)
        cells = [
            share(outcomes[f"{scope}: {name}"])
            for name in ("alarms", "accepted", "perturbed")
            for scope in ("these", "type")
        ]
        yield f"| {check} | {kind} | {shared} | {runs[0]} | {runs[1]} | {' | '.join(cells)} |"


def verdicts_in_rounds(nodes: Sequence[InRounds], check: Check, tolerance: float) -> tuple[Verdict, Verdict]:
    """Return the verdicts on these nodes and on their type of one campaign in rounds."""
    combined = combine_nodes({str(at): node_in_rounds(runs, check, tolerance) for at, runs in enumerate(nodes)})
    if combined.type is None:
        raise ValueError("a claim about a type of node needs four nodes")
    return combined.these, combined.type


def node_in_rounds(runs: InRounds, check: Check, tolerance: float) -> Verdict:
    """Return a node's changes between runs in rounds; `combine_nodes` does not read their verdicts."""
    labels = [(f"M{at}", f"M{at}" if check == "outer" else "other") for at in range(runs.reference.shape[1])]
    baseline, checked = (
        RunGroup(name, tuple(f"{name}{at}" for at in range(len(rho))), rho)
        for name, rho in (("a", runs.reference), ("b", runs.observed))
    )
    changes = changes_from_comparison(check, labels, baseline, checked, runs.chosen(), tolerance=tolerance)
    return Verdict("b", "a", "undecided", changes, alpha=ALPHA, tolerance=tolerance)
