"""What a causal model shows in the terminal: edges, formulas, what carries the same information, what was left out and left open."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unperturbed.analysis.causal import CausalModel, CurveParameters, Exclusion, ForecastVariable
from unperturbed.analysis.causal.prediction import causal_order
from unperturbed.analysis.causal.telling import (
    edge_remark,
    markov_sentences,
    p_text,
    separation_sentence,
    share_text,
    summary_sentence,
    undecided,
)
from unperturbed.harness.model_checks import Checks
from unperturbed.harness.model_forecast import Told
from unperturbed.harness.modelling import Ready

__all__ = ["show_model"]

_CELLS_SHOWN = 12
"""Lines of a formula that has one for each value of discrete causes."""
_SEPARATIONS_SHOWN = 10
_ROUNDING = 1e-12
_PIPE_COLUMNS = 160
"""Where nobody says how wide the reader is: an edge a line, for grep."""


def show_model(ready: Ready, model: CausalModel, forecast: Told | None, checks: Checks) -> None:
    """Print a model, what it says of variables that are set, and how it stood the checks that were asked for."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE_COLUMNS
    console.print(escape(f"{ready.name}: {summary_sentence(model)}"), soft_wrap=True)
    dropped = len(model.data.dropped_rows)
    if dropped:
        told = ", ".join(f"{name} ({count})" for name, count in model.data.missing.items())
        console.print(f"{dropped:,} rows are dropped for a missing value: {escape(told)}", soft_wrap=True)
    for curves in ready.curves:
        console.print(_curves(curves))
    console.print(_variables(model))
    console.print(_edges(model))
    _formulas(console, model)
    _listed(console, "the same information", map(str, model.equivalences))
    _listed(console, "no edge", _separations(model))
    _listed(console, "left out", _left_out((*model.exclusions, *ready.left_out)))
    _listed(console, "not decided", undecided(model), style="yellow")
    _listed(console, "note", ready.notes, style="yellow")
    if checks.markov is not None:
        _listed(console, "Markov check", markov_sentences(checks.markov))
    _listed(console, "screening off", map(str, checks.screenings))
    if forecast is not None:
        _forecast(console, model, forecast)


def _listed(console: Console, heading: str, sentences: Iterable[str], style: str = "bold") -> None:
    for number, sentence in enumerate(sentences):
        if not number:
            console.print(f"\n[{style}]{heading}[/{style}]")
        console.print(f"  {escape(sentence)}", soft_wrap=True)


def _left_out(excluded: Iterable[Exclusion]) -> Iterable[str]:
    """Yield a line for each reason, with all columns that it holds for."""
    names: dict[str, list[str]] = {}
    for one in excluded:
        names.setdefault(one.why, []).append(one.name)
    yield from (f"{', '.join(columns)}: {why}" for why, columns in names.items())


def _variables(model: CausalModel) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    for header in ("variable", "kind", "because", "values"):
        table.add_column(header, overflow="fold")
    for one in model.variables:
        table.add_row(escape(one.name), one.kind, escape(one.why), f"{one.distinct:,}")
    return table


def _curves(found: CurveParameters) -> Table:
    """Return the parameters of a curve in each cell, with their intervals."""
    cells = found.intervals.columns[: found.intervals.columns.index("runs")]
    table = Table(
        box=SIMPLE_HEAD, header_style="bold", title=escape(f"{found.target} over {', '.join(found.over)}"), title_justify="left"
    )
    for header in cells:
        table.add_column(escape(header), overflow="fold")
    table.add_column("runs", justify="right")
    table.add_column("parameter", overflow="fold")
    for header in ("value", "95% confidence"):
        table.add_column(header, justify="right")
    for row in found.intervals.to_dicts():
        interval = f"{row['low']:.4g} … {row['high']:.4g}"
        table.add_row(
            *(escape(str(row[name])) for name in cells),
            f"{row['runs']}",
            escape(row["parameter"]),
            f"{row['value']:.4g}",
            interval,
        )
    return table


def _edges(model: CausalModel) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("edge", overflow="fold")
    for header in ("bits a row", "p", "stability"):
        table.add_column(header, justify="right")
    table.add_column("")
    for edge in model.edges:
        style = "" if edge.directed else "yellow"
        table.add_row(
            escape(str(edge)),
            f"{edge.strength:.2f}",
            p_text(edge.p_value),
            share_text(edge.stability),
            edge_remark(model, edge),
            style=style,
        )
    return table


def _formulas(console: Console, model: CausalModel) -> None:
    order = causal_order({name: mechanism.parents for name, mechanism in model.mechanisms.items()})
    told = [name for name in order if model.mechanisms[name].parents]
    if told:
        console.print("[bold]formulas[/bold]")
    for name in told:
        lines = model.mechanisms[name].formula.splitlines()
        for line in lines[:_CELLS_SHOWN]:
            console.print(f"  {escape(line)}", soft_wrap=True)
        if len(lines) > _CELLS_SHOWN:
            console.print(f"  and {len(lines) - _CELLS_SHOWN} more lines of {escape(name)}; --html and --json have all")


def _separations(model: CausalModel) -> Iterable[str]:
    alpha = model.settings.alpha
    yield from (separation_sentence(found, alpha) for found in model.separations[:_SEPARATIONS_SHOWN])
    more = len(model.separations) - _SEPARATIONS_SHOWN
    if more > 0:
        yield f"and {more} more pairs; --html and --json have all"


def _forecast(console: Console, model: CausalModel, told: Told) -> None:
    forecast = told.forecast
    given = ", ".join(
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}" for name, value in told.given().items()
    )
    console.print(f"\n[bold]setting {escape(given)}[/bold] ({forecast.runs:,} random runs, seed {forecast.seed})")
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("variable", overflow="fold")
    for header in ("mean", "± deviation", f"{forecast.level:.0%} of runs lie between"):
        table.add_column(header, justify="right")
    for one in forecast.variables.values():
        if not one.given and model.mechanisms[one.name].parents:
            table.add_row(escape(one.name), *_outcome(one))
            if one.name in told.columns:
                column = told.columns[one.name]
                table.add_row(escape(column.name), *_outcome(column))
    console.print(table)
    for sentence in told.outside:
        console.print(f"  [yellow]{escape(sentence)}[/yellow]", soft_wrap=True)


def _outcome(one: ForecastVariable) -> tuple[str, str, str]:
    if one.probabilities:
        likely = sorted(one.probabilities.items(), key=lambda item: -item[1])
        return escape(", ".join(f"{value}: {share:.0%}" for value, share in likely)), "", ""
    if math.isnan(one.mean):
        return "–", "", ""
    # What only rounding spreads is exact.
    deviation = one.standard_deviation if one.standard_deviation > _ROUNDING * abs(one.mean) else 0.0
    return f"{one.mean:.5g}", f"{deviation:.2g}", f"{one.low:.5g} … {one.high:.5g}"
