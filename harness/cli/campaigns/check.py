"""Judge a campaign again: baseline, inner and outer verdicts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.errors import SpecError
from unperturbed.harness.cli.options import (
    add_fail_on,
    add_jobs,
    add_judging_of_imports,
    format_options,
    judging,
    parse_tolerances,
)
from unperturbed.harness.cli.paths import CAMPAIGN_OR_SPEC, campaign_folder, is_on_nodes, open_page
from unperturbed.harness.cli.warming import warm_once

if TYPE_CHECKING:
    from unperturbed.harness.results.judge import Judgement
    from unperturbed.harness.spec.campaign_spec import CampaignSpec


class Command:
    """Compute the verdicts and the report of a campaign again, without running anything."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: a campaign or other tools' files, and options."""
        parser.description = (
            "Judge a campaign again: baseline, inner and outer verdicts. Write report.html and verdicts.json into the "
            "campaign's folder, unless --no-write or --method paper is given."
        )
        parser.usage = (
            "unperturbed check CAMPAIGN|SPEC [options]\n"
            "       unperturbed check --from FORMAT --baseline FILES --checked FILES [options]"
        )
        add = parser.add_argument
        add("campaign", type=Path, nargs="?", metavar="CAMPAIGN|SPEC", help=CAMPAIGN_OR_SPEC)
        imported = parser.add_argument_group("runs that other tools recorded")
        imported.add_argument(
            "--from",
            dest="format",
            metavar="FORMAT",
            help="format of the files, such as perf-stat, or hyperfine for totals of whole runs (`unperturbed import "
            "list` lists all formats)",
        )
        imported.add_argument(
            "--baseline", nargs="+", default=[], metavar="FILES", help="files with the baseline's runs"
        )
        imported.add_argument(
            "--checked",
            nargs="+",
            action="append",
            default=[],
            metavar="FILES",
            help="files with runs to compare with the baseline; repeat for each further configuration",
        )
        imported.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="an option of the format, such as time=COLUMN; for totals also baseline=NAME and checked=NAME, to "
            "compare two benchmarks of different names",
        )
        add_judging_of_imports(imported.add_argument)
        imported.add_argument(
            "-o",
            "--out",
            type=Path,
            metavar="FOLDER",
            help="for totals of whole runs: write report.html and verdicts.json into this folder",
        )
        add("--no-write", action="store_true", help="show the verdicts and write nothing")
        add("--open", action="store_true", help="open the report in a browser")
        add(
            "--method",
            choices=("runs", "paper"),
            default="runs",
            help="runs (default): judge by the variation between runs; paper: judge by the paper's rule (a "
            "correlation is perturbed if it is farther from the baseline's mean than in any baseline run); this leaves "
            "the report unchanged",
        )
        add(
            "--across",
            action="store_true",
            help="also judge the correlations of each metric in one run with every other metric in an aligned run",
        )
        add(
            "--without", action="append", default=[], metavar="RUN", help="leave out this run, such as 0007; repeatable"
        )
        add_jobs(parser)
        add_fail_on(parser)
        add("--json", action="store_true", help="print the verdicts as JSON instead of a table")

    def run(self, arguments: argparse.Namespace) -> int:
        """Judge the campaign; return 1 if runs failed or are missing, 4 if a verdict reaches `--fail-on`, else 0."""
        from unperturbed.harness.cli.verdicts import show_judgement
        from unperturbed.harness.results.recorded import recorded_campaign

        if arguments.format is not None or arguments.baseline or arguments.checked:
            return _check_imported(arguments)
        if arguments.tolerance or arguments.out is not None or arguments.after != "start":
            raise SpecError(
                "--tolerance, --after and --out are for runs that other tools recorded, with --from FORMAT. A "
                "campaign's spec sets its tolerances; for an imported campaign, give them to `unperturbed import`"
            )
        if arguments.campaign is None:
            raise SpecError(
                "missing arguments: give a campaign's folder or spec, or --from FORMAT --baseline FILES --checked FILES"
            )
        folder = campaign_folder(arguments.campaign)
        if is_on_nodes(folder):
            return _check_nodes(folder, arguments)
        spec = recorded_campaign(folder)
        warm_once("alignment")
        judgement = _judge(folder, spec, arguments, write=not arguments.no_write)
        written = folder / "report.html" if arguments.method == "runs" and not arguments.no_write else None
        if arguments.open:
            open_page(folder / "report.html")
        return show_judgement(spec, judgement, written, as_json=arguments.json, fail_on=arguments.fail_on)


def _judge(folder: Path, spec: CampaignSpec, arguments: argparse.Namespace, *, write: bool) -> Judgement:
    """Judge a campaign with the options that the user gave, and show progress."""
    from unperturbed.harness.results.judge import judge

    options = {"method": arguments.method, "across": arguments.across, "without": arguments.without}
    with judging(arguments) as watch:
        return judge(folder, spec, **options, write=write, watch=watch)


def _check_nodes(folder: Path, arguments: argparse.Namespace) -> int:
    """Judge again a campaign that ran on nodes."""
    from unperturbed.harness.cli.verdicts import show_nodes
    from unperturbed.harness.nodes.shares import whole_campaign
    from unperturbed.harness.results.judge import judge_nodes

    if arguments.without or arguments.across or arguments.method != "runs":
        raise SpecError(
            "this campaign ran on nodes, and --without, --across and --method paper work only on one node's part: "
            "check a part, such as "
            f"{folder / 'nodes' / '01'}"
        )
    warm_once("alignment")
    spec = whole_campaign(folder)
    with judging(arguments) as watch:
        judgement = judge_nodes(folder, spec, write=not arguments.no_write, watch=watch)
    written = None if arguments.no_write else folder / "report.html"
    if arguments.open:
        open_page(folder / "report.html")
    return show_nodes(spec, judgement, written, as_json=arguments.json, fail_on=arguments.fail_on)


def _check_imported(arguments: argparse.Namespace) -> int:
    """Import runs into a temporary folder and judge them; `unperturbed import` creates a permanent one."""
    from unperturbed.collectors.imports import find_format
    from unperturbed.common.scratch import scratch_folder
    from unperturbed.harness.campaign.importing import Group, import_campaign
    from unperturbed.harness.cli.verdicts import show_judgement
    from unperturbed.harness.results.recorded import recorded_campaign

    if arguments.format is None or not arguments.baseline or not arguments.checked:
        benchmarks = arguments.format is not None and find_format(arguments.format).whole_runs
        of_one = (
            "; two benchmarks of one file: give it twice, with --option baseline=NAME --option checked=NAME"
            if benchmarks
            else ""
        )
        raise SpecError(
            "runs that other tools recorded need three options: --from FORMAT --baseline FILES --checked FILES" + of_one
        )
    if arguments.campaign is not None or arguments.open:
        what = "--open" if arguments.campaign is None else str(arguments.campaign)
        raise SpecError(
            f"{what} cannot be used with --from; to keep these runs as a campaign, use `unperturbed import`"
        )
    if find_format(arguments.format).whole_runs:
        return _check_benchmarks(arguments)
    if arguments.out is not None:
        raise SpecError(
            f"--out is for totals of whole runs, and {arguments.format} has intervals: to keep a report, use "
            "`unperturbed import`"
        )
    tolerance, totals = parse_tolerances(arguments.tolerance)
    warm_once("alignment")
    several = len(arguments.checked) > 1
    groups = [Group("baseline", arguments.baseline)]
    groups += [Group(f"checked-{at}" if several else "checked", files) for at, files in enumerate(arguments.checked, 1)]
    with scratch_folder("check") as place:
        folder = place / arguments.format
        import_campaign(
            arguments.format,
            groups,
            folder,
            options=format_options(arguments.option),
            tolerance=tolerance,
            totals=totals,
            after=arguments.after,
        )
        spec = recorded_campaign(folder)
        judgement = _judge(folder, spec, arguments, write=False)
    return show_judgement(spec, judgement, None, as_json=arguments.json, fail_on=arguments.fail_on)


def _check_benchmarks(arguments: argparse.Namespace) -> int:
    """Judge the totals of whole runs that another harness recorded."""
    from unperturbed.collectors.imports import find_format, read_traces
    from unperturbed.harness.cli.verdicts import show_benchmarks
    from unperturbed.harness.studies.benchmarks import compare_benchmarks, of_benchmark, require_files_once

    for name, given in (
        ("--method paper", arguments.method != "runs"),
        ("--across", arguments.across),
        ("--without", arguments.without),
        ("--after steady", arguments.after != "start"),
    ):
        if given:
            raise SpecError(f"{name} works on intervals, and {arguments.format} has totals of whole runs: leave it out")
    options = format_options(arguments.option)
    chosen = {role: options.pop(role) for role in ("baseline", "checked") if role in options}
    of_correlations, tolerances = parse_tolerances(arguments.tolerance)
    if of_correlations is not None:
        raise SpecError(f"--tolerance {of_correlations:g}: totals need a percentage, such as `5 %`")
    sides = [read_traces(files, arguments.format, **options) for files in (arguments.baseline, *arguments.checked)]
    require_files_once(sides, several_names=len(chosen) == 2)
    roles = ("baseline", *["checked"] * len(arguments.checked))
    sides = [
        of_benchmark(side, chosen[role], role) if role in chosen else side
        for role, side in zip(roles, sides, strict=True)
    ]
    verdicts = compare_benchmarks(find_format(arguments.format).title, sides[0], sides[1:], tolerances=tolerances)
    return show_benchmarks(verdicts, arguments.out, as_json=arguments.json, fail_on=arguments.fail_on)
