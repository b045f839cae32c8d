"""Sentences and tables about causal models: what was found, what is undecided, why edges are missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import counted, listing, number

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.analysis.causal.derived_tables.curve_parameters import CurveParameters
    from unperturbed.analysis.causal.discovery.adjacency import Separation
    from unperturbed.analysis.causal.model.markov import CheckedClaims, Claim, MarkovCheck
    from unperturbed.analysis.causal.model.prediction import Forecast, ForecastVariable
    from unperturbed.analysis.causal.model.result import CausalModel, Edge
    from unperturbed.analysis.causal.regression.mechanism import Mechanism

OFTEN = 0.5
"""A pair that is adjacent in at least this share of subsamples counts as stable."""
_LEAST_P = 1e-300
_ROUNDING = 1e-12
"""A deviation below this share of the mean is rounding error."""


def summary_sentence(model: CausalModel) -> str:
    """Return one sentence with the numbers of rows, variables and edges."""
    kinds = list(model.data.kinds.values())
    open_edges = sum(not edge.directed for edge in model.edges)
    left = f" ({open_edges} without a direction)" if open_edges else ""
    against = counted(len(model.contradictions), "dependence")
    denied = f"; the graph rules out {against} that the table shows" if model.contradictions else ""
    return (
        f"{model.data.rows:,} rows of {len(kinds)} variables ({kinds.count('discrete')} discrete, "
        f"{kinds.count('continuous')} continuous) give {counted(len(model.edges), 'edge')}{left}{denied}."
    )


def edge_remark(model: CausalModel, edge: Edge) -> str:
    """Return the remarks on an edge, separated by commas; empty if there are none."""
    sentences = []
    if edge.definitional:
        sentences.append("by definition")
    elif edge.required:
        sentences.append("required")
    if edge.conflicting:
        sentences.append("directed both ways by the data")
    elif not edge.directed:
        sentences.append("direction open")
    if edge.stability < OFTEN and not edge.required:
        sentences.append("unstable")
    if edge.p_value > model.settings.alpha and not edge.required:
        sentences.append("weak")
    if _is_unused(model, edge):
        sentences.append("not in the formula")
    return ", ".join(sentences)


def _is_unused(model: CausalModel, edge: Edge) -> bool:
    """Return whether the effect's formula omits the cause."""
    taken = edge.directed or (edge.source, edge.target) in model.assumed
    cause, effect = (edge.source, edge.target) if taken else (edge.target, edge.source)
    mechanism = model.mechanisms.get(effect)
    return mechanism is not None and cause not in mechanism.used


def separation_sentence(reason: Separation, alpha: float) -> str:
    """Return why two variables have no edge: determination by others, the test at `alpha`, or description length."""
    pair = f"{reason.one} and {reason.other}"
    if reason.determined:
        other = reason.other if reason.determined == reason.one else reason.one
        return (
            f"{listing(reason.given)} {'determine' if len(reason.given) > 1 else 'determines'} {reason.determined}, so "
            f"{other} adds no information about {reason.determined}"
        )
    given = f" given {listing(reason.given)}" if reason.given else ""
    p_value = f" (p = {p_text(reason.p_value)})" if not math.isnan(reason.p_value) else ""
    if reason.p_value < alpha:
        return (
            f"an edge between {pair} would not shorten the description of the data, although the test finds a "
            f"dependence{given}{p_value}"
        )
    return f"{pair} are independent{given}{p_value}"


def markov_sentences(check: MarkovCheck) -> tuple[str, ...]:
    """Return sentences on a Markov check: claims and refutations, permuted graphs, then each refuted claim."""
    trivial = sum(bool(claim.determined) for claim in check.claims)
    apart = f", {trivial} of them trivial, because the variables held fixed determine one of the two" if trivial else ""
    claims = len(check.claims)
    if not claims - trivial:
        return (f"The graph claims no independence that a test could refute ({claims} claims{apart}).",)
    refuted = f"{len(check.refuted)} are refuted" if check.refuted else "none is refuted"
    sentences = [
        f"The graph claims {claims} independences{apart}; {refuted} at a false-discovery rate of {check.alpha:.0%}."
    ]
    if check.permuted_shares:
        low, high, many = check.permuted_shares[0], check.permuted_shares[-1], len(check.permuted_shares)
        sentences.append(
            f"Single tests refute {check.refuted_share:.0%} of its claims; for {many} graphs of the same shape with "
            f"permuted variables, they refute {low:.0%} to {high:.0%}. The probability that such a graph does as well "
            f"by chance is p = {p_text(check.permutation_p_value)}."
        )
    sentences += [
        f"Refuted: {claim} ({claim.bits:.2g} bits per row, p = {p_text(claim.adjusted)})." for claim in check.refuted
    ]
    return tuple(sentences)


def undecided(model: CausalModel) -> tuple[str, ...]:
    """Return a sentence for each contradiction with the data and each point that data and knowledge leave undecided."""
    sentences = [f"The graph contradicts the data: {contradiction}." for contradiction in model.contradictions]
    for edge in model.edges:
        if edge.directed:
            continue
        why = "v-structures direct it both ways" if edge.conflicting else "knowledge and data leave it undirected"
        taken = next((pair for pair in model.assumed if set(pair) == {edge.source, edge.target}), None)
        ways = f"; formulas assume {taken[0]} → {taken[1]}; other choices make the same predictions" if taken else ""
        sentences.append(f"{edge}: {why}{ways}.")
    sentences += [
        f"{edge} was found in only {edge.stability:.0%} of the subsamples."
        for edge in model.edges
        if edge.stability < OFTEN and not edge.required
    ]
    weak = [edge for edge in model.edges if edge.p_value > model.settings.alpha and not edge.required]
    if weak:
        sentences.append(
            f"Weak edges: {', '.join(map(str, weak))}. A test finds the dependence, or it shortens the description; "
            f"with this many tests, it may be chance (p above {model.settings.alpha:g})."
        )
    unused = [edge for edge in model.edges if _is_unused(model, edge)]
    if unused:
        sentences.append(
            f"Edges not in the formula: {', '.join(map(str, unused))}. Tests find the dependence, but no formula with "
            "it takes fewer bits: it is weak, has a form that formulas cannot express, or affects only the spread. "
            "Forecasts ignore it."
        )
    inputs = set(model.knowledge.inputs)
    sentences += dict.fromkeys(
        f"{tie.target} is described equally well by {listing(tie.kept)} and by {listing(tie.left_out)}: the data do "
        f"not show which of them act on {tie.target}."
        for tie in model.equivalences
        if tie.is_open and inputs.issuperset(tie.kept) and inputs.isdisjoint(tie.left_out)
    )
    place = model.data.names.index
    for pair, share in model.stabilities.items():
        name, other = sorted(pair, key=place)
        if share >= OFTEN and model.edge(name, other) is None:
            sentences.append(f"{name} and {other} have no edge, but were adjacent in {share:.0%} of the subsamples.")
    sentences += [
        f"No edge: {separation_sentence(separation, model.settings.alpha)}."
        for separation in model.separations
        if not separation.determined and separation.p_value < model.settings.alpha
    ]
    tested = {frozenset((separation.one, separation.other)) for separation in model.separations}
    untested = [
        edge
        for edge in model.edges
        if edge.required
        and not edge.definitional
        and math.isnan(edge.p_value)
        and frozenset((edge.source, edge.target)) not in tested
    ]
    if untested:
        sentences.append(f"Required edges that were not tested: {', '.join(map(str, untested))}.")
    return tuple(sentences)


def p_text(p_value: float) -> str:
    """Return a p-value with two significant digits; a dash if there is none."""
    if math.isnan(p_value):
        return "–"
    if p_value < _LEAST_P:
        return "0"
    return f"{p_value:.2g}"


def share_text(share: float) -> str:
    """Return a share as a percentage; a dash if there is none."""
    return "–" if math.isnan(share) else f"{share:.0%}"


def edges_table(model: CausalModel, *, link: str = "") -> Table:
    """Return the table of edges with their evidence; `link` is the part of a link before the effect's number."""
    columns = (
        Column("edge", meaning="cause and effect"),
        Column("bits per row", "right", "mutual information of cause and effect, given the effect's other causes"),
        Column("p", "right", "p-value, corrected for false discoveries over all pairs"),
        Column("stability", "right", "share of subsamples in which the edge was found"),
        Column("remark"),
    )
    rows = [
        (
            Cell(
                str(edge),
                "" if edge.directed else "undecided",
                str(edge),
                f"{link}{model.data.names.index(edge.target)}" if link else "",
            ),
            Cell(f"{edge.strength:.2f}", key=edge.strength),
            Cell(p_text(edge.p_value), key=edge.p_value),
            Cell(share_text(edge.stability), key=edge.stability),
            edge_remark(model, edge),
        )
        for edge in model.edges
    ]
    return Table(columns, rows, "Direct relations")


def variables_table(model: CausalModel, derived: Mapping[str, str] | None = None) -> Table:
    """Return the table of variables and their kinds; `derived` has the expressions of derived variables."""
    columns = [Column("variable"), Column("kind"), Column("reason"), Column("values", "right", "distinct values")]
    rows: list[list[Cell | str]] = [
        [variable.name, variable.kind, variable.why, Cell(f"{variable.distinct:,}", key=variable.distinct)]
        for variable in model.variables
    ]
    if derived:
        columns.append(Column("computed as"))
        rows = [[*row, derived.get(variable.name, "")] for row, variable in zip(rows, model.variables, strict=True)]
    return Table(columns, rows, "Variables")


def formulas_table(model: CausalModel) -> Table:
    """Return the formula of each variable that has causes."""
    rows = [
        (name, mechanism.formula, Cell(number(mechanism.bits, 4), key=mechanism.bits))
        for name, mechanism in model.mechanisms.items()
        if mechanism.parents
    ]
    return Table((Column("variable"), Column("formula"), Column("bits", "right")), rows, "Formulas")


def parameters_table(mechanism: Mechanism, *, most: int | None = None, places: int | None = None) -> Table:
    """Return the first `most` fitted numbers with their intervals, each with the first `places` cells that have it."""
    heads = (Column("number"), *(Column(head, "right") for head in ("value", "from", "to")), Column("where"))
    rows: list[Sequence[Cell | str]] = []
    for parameter in mechanism.parameters[:most]:
        where = [", ".join(f"{name}={value}" for name, value in place.items()) for place in parameter.where[:places]]
        if len(where) < len(parameter.where):
            where.append(f"and {len(parameter.where) - len(where)} more")
        numbers = (Cell(number(value, 5), key=value) for value in (parameter.value, parameter.low, parameter.high))
        rows.append((parameter.name, *numbers, "; ".join(where) or "everywhere"))
    hidden = len(mechanism.parameters) - len(rows)
    more = f"; the JSON output has {hidden} more" if hidden else ""
    return Table(heads, rows, f"Fitted numbers with 95% confidence intervals{more}")


def frame_table(frame: pl.DataFrame, caption: str, *, most: int = 20) -> Table:
    """Return the first rows of a table, with their number in the caption."""
    columns = [Column(name, "right" if dtype.is_numeric() else "left") for name, dtype in frame.schema.items()]
    rows = [
        [number(value) if isinstance(value, float) else str(value) for value in row]
        for row in frame.head(most).iter_rows()
    ]
    more = f"; the first {most} of {frame.height:,} rows" if frame.height > most else ""
    return Table(columns, rows, f"{caption}{more}")


def curve_table(curve: CurveParameters) -> Table:
    """Return the parameters of a curve in each cell, with their intervals."""
    cells = curve.intervals.columns[: curve.intervals.columns.index("runs")]
    columns = [*(Column(name) for name in cells), Column("runs", "right"), Column("parameter")]
    columns += [Column(head, "right") for head in ("value", "from", "to")]
    rows = [
        (
            *(str(row[name]) for name in cells),
            f"{row['runs']:,}",
            row["parameter"],
            *(Cell(number(row[end], 4), key=row[end]) for end in ("value", "low", "high")),
        )
        for row in curve.intervals.to_dicts()
    ]
    over = listing(curve.over)
    return Table(
        columns, rows, f"{curve.target} over {over}: curve parameters in each cell, with 95% confidence intervals"
    )


def claims_table(check: CheckedClaims) -> Table:
    """Return the table of tested independences, refuted ones first."""
    columns = (
        Column("pair"),
        Column("held fixed"),
        Column("bits per row", "right"),
        Column("p", "right", "p-value, corrected for the number of claims"),
        Column("remark"),
    )
    claims = sorted(check.claims, key=lambda claim: (not claim.refuted, bool(claim.determined)))
    rows = [
        (
            f"{claim.one}, {claim.other}",
            ", ".join(claim.given) or "nothing",
            Cell(f"{claim.bits:.2g}", key=claim.bits),
            Cell(p_text(claim.adjusted), key=claim.adjusted),
            Cell(_claim_remark(claim), "bad" if claim.refuted else ""),
        )
        for claim in claims
    ]
    return Table(columns, rows, "Independences that the graph claims, with test results")


def _claim_remark(claim: Claim) -> str:
    if claim.determined:
        return f"trivial: the variables held fixed determine {claim.determined}"
    return "refuted" if claim.refuted else ""


def forecast_table(forecast: Forecast, variables: Mapping[str, ForecastVariable] | None = None) -> Table:
    """Return a table with the forecast of some variables; by default, of all variables that were not given."""
    shown = variables or {name: variable for name, variable in forecast.variables.items() if not variable.given}
    columns = (
        Column("variable"),
        Column("mean", "right"),
        Column("± standard deviation", "right"),
        Column(f"{forecast.level:.0%} of runs lie between", "right"),
    )
    return Table(columns, [(variable.name, *_forecast_cells(variable)) for variable in shown.values()])


def _forecast_cells(variable: ForecastVariable) -> tuple[str, str, str]:
    if variable.probabilities:
        likely = sorted(variable.probabilities.items(), key=lambda item: -item[1])
        return ", ".join(f"{value}: {share:.0%}" for value, share in likely), "", ""
    if math.isnan(variable.mean):
        return "–", "", ""
    deviation = variable.standard_deviation if variable.standard_deviation > _ROUNDING * abs(variable.mean) else 0.0
    return f"{variable.mean:.5g}", f"{deviation:.2g}", f"{variable.low:.5g} … {variable.high:.5g}"
