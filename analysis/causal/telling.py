"""A causal model in plain words: what was found, what was not decided, why edges are missing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unperturbed.analysis.causal.adjacency import Separation
from unperturbed.analysis.causal.markov import MarkovCheck
from unperturbed.analysis.causal.model import CausalModel, Edge

__all__ = [
    "OFTEN",
    "edge_remark",
    "markov_sentences",
    "p_text",
    "separation_sentence",
    "share_text",
    "summary_sentence",
    "undecided",
]

OFTEN = 0.5
"""Share of subsamples from which on a pair counts as found in most of them."""
_LEAST_P = 1e-300


def summary_sentence(model: CausalModel) -> str:
    """Return one sentence on how much was learnt from how much."""
    kinds = list(model.data.kinds.values())
    edges = len(model.edges)
    open_edges = sum(not edge.directed for edge in model.edges)
    left = f", {open_edges} of them without a direction" if open_edges else ""
    return (
        f"{model.data.rows:,} rows of {len(kinds)} variables ({kinds.count('discrete')} discrete, {kinds.count('continuous')} continuous) "
        f"make {edges} {'edge' if edges == 1 else 'edges'}{left}."
    )


def edge_remark(model: CausalModel, edge: Edge) -> str:
    """Return what is special about an edge of a model; empty where nothing is."""
    said = []
    if edge.definitional:
        said.append("by definition")
    elif edge.required:
        said.append("required")
    if edge.conflicting:
        said.append("directed both ways by the data")
    elif not edge.directed:
        said.append("direction open")
    if not math.isnan(edge.stability) and edge.stability < OFTEN and not edge.required:
        said.append("unstable")
    if edge.p_value > model.settings.alpha and not edge.required:
        said.append("weak")
    if _is_unused(model, edge):
        said.append("not in the formula")
    return ", ".join(said)


def _is_unused(model: CausalModel, edge: Edge) -> bool:
    """Tell whether the effect's formula does without the cause."""
    taken = edge.directed or (edge.source, edge.target) in model.assumed
    cause, effect = (edge.source, edge.target) if taken else (edge.target, edge.source)
    mechanism = model.mechanisms.get(effect)
    return mechanism is not None and cause not in mechanism.used


def separation_sentence(found: Separation, alpha: float) -> str:
    """Return why there is no edge: "T and n are independent given ops and C (p = 0.4)".

    Where the test alone, at the level `alpha`, would have kept the edge, the length of descriptions has decided against it.
    """
    pair = f"{found.one} and {found.other}"
    if found.determined:
        other = found.other if found.determined == found.one else found.one
        return f"{_listed(found.given)} {'determine' if len(found.given) > 1 else 'determines'} {found.determined}, so that {other} adds nothing"
    given = f" given {_listed(found.given)}" if found.given else ""
    p_value = f" (p = {p_text(found.p_value)})" if not math.isnan(found.p_value) else ""
    if found.p_value < alpha:
        return f"an edge of {pair} would not make descriptions shorter{given}, though the test finds a dependence{p_value}"
    return f"{pair} are independent{given}{p_value}"


def markov_sentences(found: MarkovCheck) -> tuple[str, ...]:
    """Return how a graph stood its Markov check: claims and refutations, graphs with exchanged variables, then a sentence a refuted claim."""
    trivial = sum(bool(one.determined) for one in found.claims)
    apart = f", {trivial} of them trivially, as what is held fixed determines one of the two" if trivial else ""
    claims = len(found.claims)
    if not claims - trivial:
        return (f"The graph claims no independence that could be refuted ({claims} claims{apart}).",)
    refuted = f"{len(found.refuted)} are refuted" if found.refuted else "none is refuted"
    said = [
        f"The graph claims {claims} independences{apart}; {refuted}, with false refutations controlled at {found.alpha:.0%} of all."
    ]
    if found.permuted_shares:
        low, high, many = found.permuted_shares[0], found.permuted_shares[-1], len(found.permuted_shares)
        said.append(
            f"Single tests refute {found.refuted_share:.0%} of its claims, and {low:.0%} to {high:.0%} of those of {many} graphs "
            f"of the same shape with exchanged variables: by chance one is as good with p = {p_text(found.permutation_p_value)}."
        )
    said += [f"Refuted: {one} ({one.bits:.2g} bits a row, p = {p_text(one.adjusted)})." for one in found.refuted]
    return tuple(said)


def undecided(model: CausalModel) -> tuple[str, ...]:
    """Return what the data, and what was said beforehand, leave open: a sentence each, none where all is decided."""
    said = []
    assumed = dict.fromkeys(model.assumed)
    for edge in model.edges:
        if edge.directed:
            continue
        why = "v-structures direct it both ways" if edge.conflicting else "knowledge and data leave its direction open"
        taken = next((pair for pair in assumed if set(pair) == {edge.source, edge.target}), None)
        ways = f"; formulas take {taken[0]} → {taken[1]}, and another choice predicts the same" if taken else ""
        said.append(f"{edge}: {why}{ways}.")
    said += [
        f"{edge} was found in only {edge.stability:.0%} of the subsamples."
        for edge in model.edges
        if not math.isnan(edge.stability) and edge.stability < OFTEN and not edge.required
    ]
    weak = [edge for edge in model.edges if edge.p_value > model.settings.alpha and not edge.required]
    if weak:
        said.append(
            f"Weak: {', '.join(map(str, weak))}. Tests find the dependence, or descriptions are shorter with it; among so many tests it may be "
            f"chance (p above {model.settings.alpha:g})."
        )
    unused = [edge for edge in model.edges if _is_unused(model, edge)]
    if unused:
        said.append(
            f"Not in the formula: {', '.join(map(str, unused))}. Tests find the dependence, and no formula with it takes fewer bits: it is slight, "
            "of another form, or of the spread alone. A forecast knows nothing of it."
        )
    place = model.data.names.index
    for pair, share in model.stabilities.items():
        one, other = sorted(pair, key=place)
        if share >= OFTEN and model.edge(one, other) is None:
            said.append(f"{one} and {other} have no edge, and were adjacent in {share:.0%} of the subsamples.")
    said += [
        f"No edge: {separation_sentence(found, model.settings.alpha)}."
        for found in model.separations
        if not found.determined and found.p_value < model.settings.alpha
    ]
    tested = {frozenset((found.one, found.other)) for found in model.separations}
    untold = [
        edge
        for edge in model.edges
        if edge.required
        and not edge.definitional
        and math.isnan(edge.p_value)
        and frozenset((edge.source, edge.target)) not in tested
    ]
    if untold:
        said.append(f"Required, and not tested: {', '.join(map(str, untold))}.")
    return tuple(said)


def p_text(p_value: float) -> str:
    """Return a p-value as people write it."""
    if math.isnan(p_value):
        return "–"
    if p_value < _LEAST_P:
        return "0"
    return f"{p_value:.2g}"


def share_text(share: float) -> str:
    """Return a share as a percentage; a dash where there is none."""
    return "–" if math.isnan(share) else f"{share:.0%}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
