"""Learn a causal model from a table of runs: causes, formulas, and forecasts of interventions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.harness.cli.parser import RegisteredNames
from unperturbed.harness.cli.paths import require_writable_path
from unperturbed.harness.exports import choose_format, export

if TYPE_CHECKING:
    from unperturbed.analysis.causal import CausalModel
    from unperturbed.harness.methods.causal.knowledge import PriorKnowledge
    from unperturbed.harness.methods.causal.questions import Checks, InterventionForecast
    from unperturbed.harness.methods.causal.table import ModelInput


_MOST_SUBSAMPLES = 10_000
_MANY: dict[str, Any] = {"action": "append", "default": []}
"""An option that may be given several times."""


class Command:
    """Learn what causes what in a table of runs, with formulas, and forecast the effect of setting variables."""

    foreign: Mapping[str, str] = dict.fromkeys(("causal", "learn"), "model TABLE")

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the argument for the table, and the options for knowledge, learning, questions and outputs."""
        parser.add_argument(
            "table",
            type=Path,
            metavar="TABLE_OR_CAMPAIGN",
            help="a CSV, TSV, JSON or Parquet file with one row per run, or the folder of a campaign",
        )
        add = parser.add_argument_group("columns").add_argument
        add("--variables", metavar="NAMES", help="comma-separated columns to analyse (default: all)")
        add("--derive", **_MANY, metavar="'NAME = EXPRESSION'", help="add a derived variable; repeatable")
        add("--log", metavar="NAMES", help="comma-separated columns; each is replaced by its logarithm, log_NAME")
        steps = "add a partial derivative; each row is then a step of PARAMETER with all other parameters held fixed"
        add("--derivative", **_MANY, metavar="'NAME = d COLUMN / d PARAMETER'", help=steps)
        cells = "add the parameters of a curve; each row is then a cell of the DISCRETE variables"
        add("--curve", **_MANY, metavar="'TARGET over NUMBERS in DISCRETE'", help=cells)
        kinds = "kinds (discrete or continuous) of columns whose inferred kind is wrong"
        add("--kinds", metavar="NAME=KIND,…", help=kinds)
        lacking = "what to do if rows lack a value: reject the table (error, the default), or drop these rows"
        add("--missing", choices=("error", "drop"), default="error", help=lacking)
        add = parser.add_argument_group("background knowledge").add_argument
        add(
            "--knowledge",
            type=Path,
            metavar="FILE",
            help="a YAML file of prior knowledge, in place of options or in addition to them",
        )
        order = "causal order: a column of a later tier never causes a column of an earlier tier"
        add("--tiers", metavar="'A,B / C / D'", help=order)
        inputs = "input parameters of the experiment (columns that nothing else in the table can cause)"
        add("--inputs", metavar="NAMES", help=inputs)
        add("--outputs", metavar="NAMES", help="columns that cause nothing else in the table")
        add("--require", **_MANY, metavar="'A->B'", help="comma-separated edges that the graph must have")
        add("--forbid", **_MANY, metavar="'A->B'", help="comma-separated edges that the graph must not have")
        add = parser.add_argument_group("learning").add_argument
        add(
            "--test",
            "--method",
            dest="test",
            default="auto",
            choices=RegisteredNames(_tests),
            metavar="NAME",
            help="the independence test: %(choices)s (default: auto; `paper` uses the paper's thresholds)",
        )
        chance = "false-alarm rate of the independence test (default: 0.01)"
        add("--alpha", type=float, default=0.01, metavar="P", help=chance)
        parts = "number of subsamples that measure the stability of edges (default: 10; 0: none)"
        add("--subsamples", type=int, default=10, metavar="N", help=parts)
        add("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")
        add = parser.add_argument_group("questions to the model").add_argument
        add("--do", metavar="NAME=VALUE,…", help="forecast the effect of setting variables to these values")
        check = "test each independence that the graph implies, and compare with graphs with permuted variables"
        add("--check-markov", action="store_true", help=check)
        carried = "test whether C and D carry every effect of A and B on E"
        add("--screens-off", **_MANY, metavar="'A,B | C,D | E'", help=carried)
        implied = "show whether the graph implies that A and B are independent given C and D, without a test"
        add("--separated", **_MANY, metavar="'A | B | C,D'", help=implied)
        parser.add_argument("--json", action="store_true", help="print everything as JSON")
        for name, what in (
            ("html", "an HTML page with the graph, formulas and data"),
            ("dot", "the graph for Graphviz"),
            ("graphml", "the graph as GraphML"),
            ("gml", "the graph as GML, which DoWhy reads"),
        ):
            parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write {what}")
        parser.add_argument(
            "-o", "--out", type=Path, metavar="FILE", help="write the model as .dot, .gml, .graphml or .json"
        )
        parser.add_argument("--format", metavar="NAME", help="format of --out (default: by its suffix)")

    def run(self, arguments: argparse.Namespace) -> int:
        """Learn the model, write the requested files, print the result."""
        _check(arguments)
        from unperturbed.analysis.causal import learn
        from unperturbed.harness.cli.warming import warm_once
        from unperturbed.harness.methods.causal.knowledge import named_values
        from unperturbed.harness.methods.causal.questions import check, forecast, read_independence, read_screening
        from unperturbed.harness.methods.causal.table import prepare_table
        from unperturbed.harness.methods.causal.terminal import show_model, show_reading

        asked = named_values(arguments.do, "--do", "n=100,datatype=int") if arguments.do else {}
        screenings = [read_screening(text, "--screens-off") for text in arguments.screens_off]
        independences = [read_independence(text, "--separated") for text in arguments.separated]
        prior = _prior_knowledge(arguments)
        table = prepare_table(arguments.table, prior, missing=arguments.missing)
        # Learning can take minutes: who waits can see before whether the columns were read as they are meant.
        is_shown = not arguments.json and sys.stdout.isatty()
        if is_shown:
            show_reading(table)
        warm_once("model")
        model = learn(
            table.data,
            table.knowledge,
            test=arguments.test,
            alpha=arguments.alpha,
            subsamples=arguments.subsamples,
            seed=arguments.seed,
        )
        intervention = forecast(model, asked, logged=prior.log, seed=arguments.seed) if asked else None
        checks = check(
            model, screenings, independences, markov=arguments.check_markov, logged=prior.log, seed=arguments.seed
        )
        _write(arguments, table, model, checks)
        if arguments.json:
            print(json.dumps(_json(table, model, intervention, checks), indent=2, ensure_ascii=False))
        else:
            if not is_shown:
                show_reading(table)
            show_model(table, model, intervention, checks)
        return 0


def _tests() -> Iterable[str]:
    from unperturbed.analysis.causal import independence_tests

    return independence_tests()


def _check(arguments: argparse.Namespace) -> None:
    from unperturbed.errors import SpecError

    if not 0 < arguments.alpha < 1:
        raise SpecError(f"--alpha {arguments.alpha:g}: give a probability above 0 and below 1")
    if not 0 <= arguments.subsamples <= _MOST_SUBSAMPLES:
        raise SpecError(
            f"--subsamples {arguments.subsamples}: give a number of subsamples from 0 to {_MOST_SUBSAMPLES:,}"
        )
    if arguments.seed < 0:
        raise SpecError(f"--seed {arguments.seed}: give a whole number, 0 or more")
    for path in (arguments.html, arguments.dot, arguments.graphml, arguments.gml):
        if path:
            require_writable_path(path)
    if arguments.out:
        choose_format("model", arguments.out, arguments.format)


def _prior_knowledge(arguments: argparse.Namespace) -> PriorKnowledge:
    from unperturbed.harness.methods.causal.knowledge import parse_options, read_knowledge

    options = parse_options(arguments)
    return read_knowledge(arguments.knowledge).joined(options) if arguments.knowledge else options


def _write(arguments: argparse.Namespace, table: ModelInput, model: CausalModel, checks: Checks) -> None:
    if arguments.html:
        from unperturbed.analysis.report import render_model, write_page

        page = render_model(
            model,
            name=table.name,
            left_out=table.left_out,
            notes=(*(table.reading.lines if table.reading else ()), *table.notes),
            derived=table.derived,
            curves=table.curves,
            markov=checks.markov,
            screenings=checks.screenings,
        )
        write_page(arguments.html, page)
    for path, name in (
        *((arguments.dot, "dot"), (arguments.graphml, "graphml"), (arguments.gml, "gml")),
        (arguments.out, arguments.format),
    ):
        if path:
            export(model, "model", path, name=name)


def _json(
    table: ModelInput, model: CausalModel, intervention: InterventionForecast | None, checks: Checks
) -> dict[str, Any]:
    from unperturbed.analysis.causal.model_text import undecided
    from unperturbed.harness.methods.causal.questions import checks_json, forecast_json

    written: dict[str, Any] = {
        "table": table.name,
        "columns": [asdict(column) for column in table.reading.columns] if table.reading else [],
        **model.to_dict(),
        "left_out": [{"name": exclusion.name, "why": exclusion.why} for exclusion in table.left_out],
        "derived": dict(table.derived),
        "undecided": list(undecided(model)),
        "notes": list(table.notes),
    }
    if table.curves:
        written["curves"] = [curve.to_dict() for curve in table.curves]
    written |= checks_json(checks)
    if intervention is not None:
        written["forecast"] = forecast_json(intervention)
    return written


_SEED = 1


def warm() -> None:
    """Compile the loops of the independence tests and of the regressions."""
    import numpy as np
    import polars as pl

    from unperturbed.analysis.causal import Knowledge, independence_tests, learn

    chance = np.random.default_rng(_SEED)
    size, kind = chance.integers(1, 100, 80), chance.choice(["one", "two"], 80)
    misses = size**2 * (1 + 0.1 * chance.normal(size=80)) * np.where(kind == "one", 1, 2)
    seconds = 1e-6 * misses + 1e-3 * size + 0.01 * chance.normal(size=80)
    table = pl.DataFrame({"size": size, "kind": kind, "misses": misses, "seconds": seconds})
    for test in independence_tests():
        learn(table, Knowledge(), test=test)
