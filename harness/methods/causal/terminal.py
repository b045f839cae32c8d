"""Terminal view of a causal model: edges, formulas, equivalent variables, excluded columns, undecided points."""

from __future__ import annotations

import os
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape

from unperturbed.analysis.causal import CausalModel, Exclusion, ForecastVariable, causal_order
from unperturbed.analysis.causal.model_text import (
    curve_table,
    edges_table,
    forecast_table,
    markov_sentences,
    separation_sentence,
    summary_sentence,
    undecided,
    variables_table,
)
from unperturbed.common.wording import counted
from unperturbed.harness.cli.terminal import terminal
from unperturbed.harness.methods.causal.questions import Checks, InterventionForecast
from unperturbed.harness.methods.causal.table import ModelInput

_CELLS_SHOWN = 12
"""Maximum number of lines shown of a formula with one line for each value of discrete causes."""
_SEPARATIONS_SHOWN = 10
_PIPE_COLUMNS = 160
"""Width if the output is not a terminal and COLUMNS is not set: each edge is on one line, for grep."""


def show_reading(table: ModelInput) -> None:
    """Print what the columns of a table were read as."""
    console = terminal()
    for line in table.reading.lines if table.reading else ():
        console.print(escape(line), soft_wrap=True)


def show_model(table: ModelInput, model: CausalModel, forecast: InterventionForecast | None, checks: Checks) -> None:
    """Print a model, the forecast of an intervention, and the results of its checks."""
    console = terminal()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE_COLUMNS
    console.print(escape(f"{table.name}: {summary_sentence(model)}"), soft_wrap=True)
    dropped = len(model.data.dropped_rows)
    if dropped:
        missing = ", ".join(f"{name} ({count})" for name, count in model.data.missing.items())
        console.print(f"{counted(dropped, 'row')} dropped because of missing values: {escape(missing)}", soft_wrap=True)
    for curves in table.curves:
        console.print(curve_table(curves).to_rich())
    console.print(variables_table(model).to_rich())
    console.print(edges_table(model).to_rich())
    _formulas(console, model)
    _print_list(console, "equivalent variables", map(str, model.equivalences))
    _print_list(console, "no edge", _separations(model))
    _print_list(console, "excluded columns", _left_out((*model.exclusions, *table.left_out)))
    _print_list(console, "undecided", undecided(model), style="yellow")
    _print_list(console, "notes", table.notes, style="yellow")
    if checks.markov is not None:
        _print_list(console, "Markov check", markov_sentences(checks.markov))
    _print_list(console, "screening off", map(str, checks.screenings))
    _print_list(console, "implied independence", map(str, checks.independences))
    if forecast is not None:
        _forecast(console, model, forecast)


def _print_list(console: Console, heading: str, sentences: Iterable[str], style: str = "bold") -> None:
    for number, sentence in enumerate(sentences):
        if not number:
            console.print(f"\n[{style}]{heading}[/{style}]")
        console.print(f"  {escape(sentence)}", soft_wrap=True)


def _left_out(excluded: Iterable[Exclusion]) -> Iterable[str]:
    """Yield one line for each reason why columns are excluded, with all these columns."""
    names: dict[str, list[str]] = {}
    for exclusion in excluded:
        names.setdefault(exclusion.why, []).append(exclusion.name)
    yield from (f"{', '.join(columns)}: {why}" for why, columns in names.items())


def _formulas(console: Console, model: CausalModel) -> None:
    order = causal_order({name: mechanism.parents for name, mechanism in model.mechanisms.items()})
    shown = [name for name in order if model.mechanisms[name].parents]
    if shown:
        console.print("[bold]formulas[/bold]")
    for name in shown:
        lines = model.mechanisms[name].formula.splitlines()
        for line in lines[:_CELLS_SHOWN]:
            console.print(f"  {escape(line)}", soft_wrap=True)
        if len(lines) > _CELLS_SHOWN:
            more = f"{counted(len(lines) - _CELLS_SHOWN, 'more line')} of {escape(name)}"
            console.print(f"  and {more}; --html and --json show all lines")


def _separations(model: CausalModel) -> Iterable[str]:
    alpha = model.settings.alpha
    yield from (separation_sentence(separation, alpha) for separation in model.separations[:_SEPARATIONS_SHOWN])
    more = len(model.separations) - _SEPARATIONS_SHOWN
    if more > 0:
        yield f"and {counted(more, 'more pair')}; --html and --json show all pairs"


def _forecast(console: Console, model: CausalModel, intervention: InterventionForecast) -> None:
    forecast = intervention.forecast
    given = ", ".join(
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in intervention.given().items()
    )
    console.print(
        f"\n[bold]setting {escape(given)}[/bold] ({forecast.runs:,} runs drawn from the model, seed {forecast.seed})"
    )
    shown: dict[str, ForecastVariable] = {}
    for name, variable in forecast.variables.items():
        if not variable.given and model.mechanisms[name].parents:
            shown |= {
                name: variable,
                **({f"{name} itself": intervention.columns[name]} if name in intervention.columns else {}),
            }
    console.print(forecast_table(forecast, shown).to_rich())
    for sentence in intervention.outside:
        console.print(f"  [yellow]{escape(sentence)}[/yellow]", soft_wrap=True)
