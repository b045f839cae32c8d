"""Learn a causal model from a table of runs: causes, formulas, and forecasts of interventions."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.harness.cli.parser import RegisteredNames
from unperturbed.harness.cli.paths import require_writable_path
from unperturbed.harness.exports import choose_format, export

if TYPE_CHECKING:
    from unperturbed.analysis.causal import CausalModel
    from unperturbed.harness.methods.causal.checks import Checks
    from unperturbed.harness.methods.causal.forecast import InterventionForecast
    from unperturbed.harness.methods.causal.knowledge import PriorKnowledge
    from unperturbed.harness.methods.causal.table import ModelInput


_MOST_SUBSAMPLES = 10_000


class Command:
    """Learn what causes what in a table of runs, by which formula, and what happens when something is set."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the table, what is known of it beforehand, and where results go."""
        parser.add_argument(
            "table",
            type=Path,
            metavar="TABLE_OR_CAMPAIGN",
            help="a CSV or Parquet file with one row per run, or the folder of a campaign",
        )
        columns = parser.add_argument_group("columns")
        columns.add_argument("--variables", metavar="NAMES", help="comma-separated columns to analyse (default: all)")
        columns.add_argument(
            "--derive",
            action="append",
            default=[],
            metavar="'NAME = EXPRESSION'",
            help="a derived variable; may be given again",
        )
        columns.add_argument(
            "--log", metavar="NAMES", help="comma-separated columns to replace by their logarithms, as log_NAME"
        )
        columns.add_argument(
            "--derivative",
            action="append",
            default=[],
            metavar="'NAME = d COLUMN / d PARAMETER'",
            help="a partial derivative; each row is then a step of the parameter with all others held fixed",
        )
        columns.add_argument(
            "--curve",
            action="append",
            default=[],
            metavar="'TARGET over NUMBERS in DISCRETE'",
            help="the parameters of a curve; each row is then a cell of the discrete variables",
        )
        columns.add_argument(
            "--kinds", metavar="NAME=KIND,…", help="discrete or continuous, where the inferred kind is wrong"
        )
        columns.add_argument(
            "--missing",
            choices=("error", "drop"),
            default="error",
            help="rows that lack a value: refuse the table, or drop them",
        )
        known = parser.add_argument_group("background knowledge")
        known.add_argument(
            "--knowledge", type=Path, metavar="FILE", help="a YAML file with the same information as these options"
        )
        known.add_argument(
            "--tiers",
            metavar="'A,B / C / D'",
            help="order of causes: a column of a later tier never causes one of an earlier tier",
        )
        known.add_argument("--inputs", metavar="NAMES", help="parameters that were varied: nothing causes them")
        known.add_argument("--outputs", metavar="NAMES", help="columns that cause nothing")
        known.add_argument(
            "--require",
            action="append",
            default=[],
            metavar="'A->B'",
            help=("comma-separated edges that the graph must have"),
        )
        known.add_argument(
            "--forbid",
            action="append",
            default=[],
            metavar="'A->B'",
            help=("comma-separated edges that the graph must not have"),
        )
        learning = parser.add_argument_group("learning")
        learning.add_argument(
            "--test",
            "--method",
            dest="test",
            default="auto",
            choices=RegisteredNames(_tests),
            metavar="NAME",
            help="the independence test: %(choices)s (default: auto; paper: the paper's thresholds, for reproduction)",
        )
        learning.add_argument(
            "--alpha",
            type=float,
            default=0.01,
            metavar="P",
            help=("false-alarm rate of the independence test (default: 0.01)"),
        )
        learning.add_argument(
            "--subsamples",
            type=int,
            default=10,
            metavar="N",
            help="number of subsamples that measure the stability of edges (default: 10; 0: none)",
        )
        learning.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")
        asked = parser.add_argument_group("questions to the model")
        asked.add_argument("--do", metavar="NAME=VALUE,…", help="forecast the effect of setting these variables")
        asked.add_argument(
            "--check-markov",
            action="store_true",
            help="test each independence that the graph implies, and compare with graphs whose variables are permuted",
        )
        asked.add_argument(
            "--screens-off",
            action="append",
            default=[],
            metavar="'A,B | C,D | E'",
            help="test whether C and D carry every effect of A and B on E",
        )
        asked.add_argument(
            "--separated",
            action="append",
            default=[],
            metavar="'A | B | C,D'",
            help="tell whether the graph implies that A and B are independent given C and D (nothing is tested)",
        )
        parser.add_argument("--json", action="store_true", help="print everything as JSON")
        for name, what in (
            ("html", "an HTML page with the graph, formulas and data"),
            ("dot", "Graphviz"),
            ("graphml", "GraphML"),
            ("gml", "GML (DoWhy reads it)"),
        ):
            parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write {what}")
        parser.add_argument(
            "-o", "--out", type=Path, metavar="FILE", help="write the model: .dot, .gml, .graphml or .json"
        )
        parser.add_argument("--format", metavar="NAME", help="format of --out (default: by its suffix)")

    def run(self, arguments: argparse.Namespace) -> int:
        """Learn the model, write the requested files, print the result."""
        _check(arguments)
        from unperturbed.analysis.causal import learn
        from unperturbed.harness.cli.warming import warm_once
        from unperturbed.harness.methods.causal.checks import check, read_independence, read_screening
        from unperturbed.harness.methods.causal.forecast import forecast
        from unperturbed.harness.methods.causal.option_syntax import named_values
        from unperturbed.harness.methods.causal.table import prepare_table

        asked = named_values(arguments.do, "--do", "n=100,datatype=int") if arguments.do else {}
        screenings = [read_screening(text, "--screens-off") for text in arguments.screens_off]
        independences = [read_independence(text, "--separated") for text in arguments.separated]
        prior = _prior_knowledge(arguments)
        table = prepare_table(arguments.table, prior, missing=arguments.missing)
        warm_once("model")
        model = learn(
            table.data,
            table.knowledge,
            test=arguments.test,
            alpha=arguments.alpha,
            subsamples=arguments.subsamples,
            seed=arguments.seed,
        )
        found = forecast(model, asked, logged=prior.log, seed=arguments.seed) if asked else None
        checks = check(
            model, screenings, independences, markov=arguments.check_markov, logged=prior.log, seed=arguments.seed
        )
        _write(arguments, table, model, checks)
        if arguments.json:
            print(json.dumps(_json(table, model, found, checks), indent=2, ensure_ascii=False))
        else:
            from unperturbed.harness.methods.causal.terminal import show_model

            show_model(table, model, found, checks)
        return 0


def _tests() -> Iterable[str]:
    from unperturbed.analysis.causal import independence_tests

    return independence_tests()


def _check(arguments: argparse.Namespace) -> None:
    from unperturbed.errors import SpecError

    if not 0 < arguments.alpha < 1:
        raise SpecError(f"--alpha {arguments.alpha:g}: give a chance between 0 and 1")
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

    options = parse_options(
        derive=arguments.derive,
        log=arguments.log,
        kinds=arguments.kinds,
        tiers=arguments.tiers,
        require=arguments.require,
        forbid=arguments.forbid,
        inputs=arguments.inputs,
        outputs=arguments.outputs,
        variables=arguments.variables,
        derivative=arguments.derivative,
        curve=arguments.curve,
    )
    return read_knowledge(arguments.knowledge).joined(options) if arguments.knowledge else options


def _write(arguments: argparse.Namespace, table: ModelInput, model: CausalModel, checks: Checks) -> None:
    if arguments.html:
        from unperturbed.analysis.report import render_model, write_page

        page = render_model(
            model,
            name=table.name,
            left_out=table.left_out,
            notes=table.notes,
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


def _json(table: ModelInput, model: CausalModel, found: InterventionForecast | None, checks: Checks) -> dict[str, Any]:
    from unperturbed.analysis.causal.describe import undecided
    from unperturbed.harness.methods.causal.checks import checks_json
    from unperturbed.harness.methods.causal.forecast import forecast_json

    written: dict[str, Any] = {"table": table.name, **model.to_dict()}
    written["left_out"] = [{"name": one.name, "why": one.why} for one in table.left_out]
    written["derived"] = dict(table.derived)
    written["undecided"] = list(undecided(model))
    written["notes"] = list(table.notes)
    if table.curves:
        written["curves"] = [one.to_dict() for one in table.curves]
    written |= checks_json(checks)
    if found is not None:
        written["forecast"] = forecast_json(found)
    return written
