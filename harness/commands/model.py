"""`unperturbed model`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.harness.places import require_place

if TYPE_CHECKING:
    from unperturbed.analysis.causal import CausalModel
    from unperturbed.harness.model_checks import Checks
    from unperturbed.harness.model_forecast import Told
    from unperturbed.harness.model_options import Said
    from unperturbed.harness.modelling import Ready


class Command:
    """Say what causes what in a table of runs, by which formula, and what happens when something is set."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the table, what is known of it beforehand, and where results go."""
        parser.add_argument(
            "table",
            type=Path,
            metavar="TABLE_OR_CAMPAIGN",
            help="a CSV or Parquet file, one row a run; or the folder of a sweep",
        )
        columns = parser.add_argument_group("columns")
        columns.add_argument("--variables", metavar="NAMES", help="analyse these columns alone, separated by commas (all)")
        columns.add_argument(
            "--derive",
            action="append",
            default=[],
            metavar="'NAME = EXPRESSION'",
            help="a derived variable; give it several times",
        )
        columns.add_argument(
            "--log", metavar="NAMES", help="analyse the logarithms of these columns in place of them, as log_NAME"
        )
        columns.add_argument(
            "--derivative",
            action="append",
            default=[],
            metavar="'NAME = d COLUMN / d PARAMETER'",
            help="a partial derivative; a row is then a step of the parameter, all others held fixed",
        )
        columns.add_argument(
            "--curve",
            action="append",
            default=[],
            metavar="'TARGET over NUMBERS in DISCRETE'",
            help="the parameters of a curve; a row is then a cell of the discrete variables",
        )
        columns.add_argument("--kinds", metavar="NAME=KIND,…", help="discrete or continuous, where what is inferred is wrong")
        columns.add_argument(
            "--missing",
            choices=("error", "drop"),
            default="error",
            help="rows that lack a value: refuse the table, or drop them",
        )
        known = parser.add_argument_group("what is known beforehand")
        known.add_argument("--knowledge", type=Path, metavar="FILE", help="a YAML file that says the same as these options")
        known.add_argument(
            "--tiers",
            metavar="'A,B / C / D'",
            help="the order of causes: no column is caused by one that stands in a later tier",
        )
        known.add_argument("--inputs", metavar="NAMES", help="parameters that were varied: nothing causes them")
        known.add_argument("--outputs", metavar="NAMES", help="columns that cause nothing")
        known.add_argument(
            "--require", action="append", default=[], metavar="'A->B'", help="an edge that is there; several by commas"
        )
        known.add_argument("--forbid", action="append", default=[], metavar="'A->B'", help="an edge that is not there")
        learning = parser.add_argument_group("learning")
        learning.add_argument(
            "--paper", action="store_true", help="the paper's thresholds on mutual information, for reproduction"
        )
        learning.add_argument(
            "--alpha", type=float, default=0.01, metavar="P", help="chance of a dependence where there is none (0.01)"
        )
        learning.add_argument(
            "--subsamples",
            type=int,
            default=10,
            metavar="N",
            help="parts of the table that stability is judged by (10); 0: none",
        )
        learning.add_argument("--seed", type=int, default=0, metavar="N", help="of all that is drawn at random (0)")
        asked = parser.add_argument_group("what is asked of the model")
        asked.add_argument("--do", metavar="NAME=VALUE,…", help="say what happens when these are set")
        asked.add_argument(
            "--check-markov",
            action="store_true",
            help="test each independence that the graph claims, and graphs with exchanged variables for comparison",
        )
        asked.add_argument(
            "--screens-off",
            action="append",
            default=[],
            metavar="'A,B | C,D | E'",
            help="test whether C and D carry all that A and B do to E",
        )
        parser.add_argument("--json", action="store_true", help="print all as JSON")
        for name, what in (("html", "a page with the graph, formulas and data"), ("dot", "Graphviz"), ("graphml", "GraphML")):
            parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write {what}")

    def run(self, arguments: argparse.Namespace) -> int:
        """Learn, write what was asked for, print."""
        _refuse(arguments)
        from unperturbed.analysis.causal import learn
        from unperturbed.harness.model_checks import check, read_screening
        from unperturbed.harness.model_forecast import forecast
        from unperturbed.harness.model_words import named_values
        from unperturbed.harness.modelling import made_ready

        asked = named_values(arguments.do, "--do", "n=100,datatype=int") if arguments.do else {}
        screenings = [read_screening(text, "--screens-off") for text in arguments.screens_off]
        said = _said(arguments)
        ready = made_ready(arguments.table, said, missing=arguments.missing)
        model = learn(
            ready.data,
            ready.knowledge,
            test="paper" if arguments.paper else "auto",
            alpha=arguments.alpha,
            subsamples=arguments.subsamples,
            seed=arguments.seed,
        )
        found = forecast(model, asked, logged=said.logarithms, seed=arguments.seed) if asked else None
        checks = check(model, screenings, markov=arguments.check_markov, logged=said.logarithms, seed=arguments.seed)
        _write(arguments, ready, model, checks)
        if arguments.json:
            print(json.dumps(_told(ready, model, found, checks), indent=2, ensure_ascii=False))
        else:
            from unperturbed.harness.terminal_model import show_model

            show_model(ready, model, found, checks)
        return 0


def _refuse(arguments: argparse.Namespace) -> None:
    from unperturbed.errors import SpecError

    if not 0 < arguments.alpha < 1:
        raise SpecError(f"--alpha {arguments.alpha:g}: give a chance between 0 and 1")
    if arguments.subsamples < 0:
        raise SpecError(f"--subsamples {arguments.subsamples}: give a number of subsamples, 0 or more")
    if arguments.seed < 0:
        raise SpecError(f"--seed {arguments.seed}: give a whole number, 0 or more")
    for path in (arguments.html, arguments.dot, arguments.graphml):
        if path:
            require_place(path)


def _said(arguments: argparse.Namespace) -> Said:
    from unperturbed.harness.model_knowledge import read_knowledge
    from unperturbed.harness.model_options import Said, said_by_options

    options = said_by_options(
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
    return (read_knowledge(arguments.knowledge) if arguments.knowledge else Said()).joined(options)


def _write(arguments: argparse.Namespace, ready: Ready, model: CausalModel, checks: Checks) -> None:
    if arguments.html:
        from unperturbed.analysis.report import render_model, write_page

        page = render_model(
            model,
            name=ready.name,
            left_out=ready.left_out,
            notes=ready.notes,
            derived=ready.derived,
            curves=ready.curves,
            markov=checks.markov,
            screenings=checks.screenings,
        )
        write_page(arguments.html, page)
    if arguments.dot:
        from unperturbed.analysis.causal import to_dot

        arguments.dot.write_text(to_dot(model), encoding="utf-8")
    if arguments.graphml:
        from unperturbed.analysis.causal import to_graphml

        arguments.graphml.write_text(to_graphml(model), encoding="utf-8")


def _told(ready: Ready, model: CausalModel, found: Told | None, checks: Checks) -> dict[str, Any]:
    from unperturbed.analysis.causal.telling import undecided
    from unperturbed.harness.model_checks import checks_json
    from unperturbed.harness.model_forecast import forecast_json
    from unperturbed.harness.model_tables import curves_json

    told: dict[str, Any] = {"table": ready.name, **json.loads(model.to_json(indent=None))}
    told["left_out"] = [{"name": one.name, "why": one.why} for one in ready.left_out]
    told["derived"] = dict(ready.derived)
    told["undecided"] = list(undecided(model))
    told["notes"] = list(ready.notes)
    if ready.curves:
        told["curves"] = curves_json(ready.curves)
    told |= checks_json(checks)
    if found is not None:
        told["forecast"] = forecast_json(found)
    return told
