"""Show a program's noise floor: the smallest change that n runs can show here, and how long they take."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from unperturbed.common.wording import number
from unperturbed.errors import SpecError
from unperturbed.harness.cli.drafting import draft, refuse_program_options, typed
from unperturbed.harness.cli.options import add_program_options, add_progress_option
from unperturbed.harness.cli.paths import CAMPAIGN_OR_SPEC, campaign_folder, is_on_nodes, open_page
from unperturbed.harness.cli.running import run_and_judge, show_plan
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import chosen_progress, terminal
from unperturbed.harness.cli.warming import warm_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unperturbed.analysis.floor.causes import Cause
    from unperturbed.analysis.floor.noise_floor import NoiseFloor
    from unperturbed.harness.cli.terminal import TerminalProgress
    from unperturbed.harness.host.doctor import Finding
    from unperturbed.harness.results.judge import Judgement
    from unperturbed.harness.spec.campaign_spec import CampaignSpec

_EPILOG = """\
  unperturbed floor -- ./sort data                measure the program against itself
  unperturbed floor campaigns/sort-floor          show that floor again
  unperturbed floor campaigns/sort                show the floor of any campaign that was run

The command measures the program as two groups of runs, A and A, in shuffled order: any difference between them is
noise. From the variation between runs, it computes the smallest change of each total and correlation that n runs in
each group can show (power 80 %). The report of every campaign also shows the campaign's noise floor.
`unperturbed run --dry-run` uses the newest floor of the same program, metrics and intervals."""

_RUNS_FAILED = 1
_ROWS = 12
_SHOWN = (3, 10, 20, 100)
"""Numbers of runs that are shown; a terminal has room for them and for `_ROWS` rows of each kind."""
_ADVICE = 3
_COUNTING = "Perf event"  # How pyperf's advice on the interrupts of perf events begins


class Command:
    """`unperturbed floor [options] -- PROGRAM …`, or `unperturbed floor CAMPAIGN`."""

    resumable = True
    takes_program = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: a campaign, or the options of `run -- PROGRAM`."""
        parser.usage = "unperturbed floor [options] -- PROGRAM its arguments\n       unperturbed floor CAMPAIGN|SPEC"
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = _EPILOG
        add = parser.add_argument
        add("recorded", type=Path, nargs="?", metavar="CAMPAIGN|SPEC", help=CAMPAIGN_OR_SPEC)
        add(
            "--campaign",
            type=Path,
            metavar="FOLDER",
            help="folder of the campaign (default: campaigns/PROGRAM-floor)",
        )
        add("--json", action="store_true", help="print the floor as JSON")
        add("--dry-run", action="store_true", help="show the plan without running or writing anything")
        add_progress_option(parser)
        add("--open", action="store_true", help="open the report in a browser at the end")
        add_program_options(parser, comparing=True, until=False)

    def run(self, arguments: argparse.Namespace) -> int:
        """Measure the program against itself, or read a campaign; print the floor; return 1 if runs failed."""
        if bool(arguments.program) == (arguments.recorded is not None):
            raise SpecError(
                "give either a campaign or a program after --: unperturbed floor CAMPAIGN, or unperturbed floor -- "
                "./program its arguments"
            )
        if arguments.program:
            return _measure(arguments)
        refuse_program_options(arguments)
        return _of_campaign(arguments)


def _measure(arguments: argparse.Namespace) -> int:
    """Measure the program against itself, and show the floor."""
    from unperturbed.harness.drafts.command import describe_floor
    from unperturbed.harness.host.checks.load import disturbing_load

    progress = chosen_progress(arguments)
    load = disturbing_load()  # before the campaign, which is a load itself
    drafted = draft(
        lambda choices: describe_floor(arguments.program, choices), typed("floor", arguments), arguments, progress
    )
    spec, folder = drafted.load(), drafted.campaign.absolute()
    if arguments.dry_run:
        return show_plan(spec, folder, as_json=arguments.json)
    warm_once("alignment", progress.step)
    with drafted.removed_unless_run():
        judgement = run_and_judge(spec, folder, progress)
    return _show(spec, folder, judgement, arguments, progress, load)


def _of_campaign(arguments: argparse.Namespace) -> int:
    """Judge a recorded campaign, and show its noise floor."""
    from unperturbed.harness.results.judge import judge
    from unperturbed.harness.results.recorded import recorded_campaign

    folder = campaign_folder(arguments.recorded)
    if is_on_nodes(folder):
        raise SpecError(
            "each node of this campaign has its own noise floor: give one node's part, such as "
            f"{folder / 'nodes' / '01'}"
        )
    spec = recorded_campaign(folder)
    warm_once("alignment")
    progress = chosen_progress(arguments)
    with progress:
        judgement = judge(folder, spec, write=False, watch=progress.watch)
    return _show(spec, folder, judgement, arguments, progress, None)


def _show(
    spec: CampaignSpec,
    folder: Path,
    judgement: Judgement,
    arguments: argparse.Namespace,
    progress: TerminalProgress,
    load: Finding | None,
) -> int:
    """Print the floor, the causes of noise, and what to quiet first; return 1 if runs failed or are missing.

    `load`: The load before the campaign if that leaves no processor idle.
    """
    from unperturbed.harness.campaign.manifest import Manifest
    from unperturbed.harness.cli.verdicts import show_failures
    from unperturbed.harness.results.floor import causes_of, floor_of_baseline

    traces = judgement.verdicts.traces
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        states = manifest.runs()
    if missing := judgement.missing:
        are = "is" if len(missing) == 1 else "are"
        raise SpecError(
            f"{folder}: of {len(states)} runs, {len(missing)} {are} missing: repeat the command that runs this campaign"
        )
    floor = judgement.content.floor or floor_of_baseline(spec, traces, states)
    causes = causes_of(spec, traces, states)
    report = folder / "report.html"
    code = 0 if judgement.complete else _RUNS_FAILED
    if arguments.json:
        print_json({"campaign": str(folder), **floor.to_dict(), "causes": [cause._asdict() for cause in causes]})
    else:
        _print_floor(spec, floor, causes, judgement, load, recorded=arguments.recorded is not None)
        show_failures(judgement.content.failures, judgement.missing)
        if report.is_file():
            print(f"report: {report}")
    progress.result(code, campaign=str(folder), report=str(report))
    if arguments.open:
        open_page(report)
    return code


def _print_floor(
    spec: CampaignSpec,
    floor: NoiseFloor,
    causes: Sequence[Cause],
    judgement: Judgement,
    load: Finding | None,
    *,
    recorded: bool,
) -> None:
    from unperturbed.analysis.floor.resolution_text import floor_table, headline, sentences
    from unperturbed.analysis.totals.total_text import total_name
    from unperturbed.harness.results.floor import same_programs

    console = terminal()
    console.print(floor_table(floor, most=_ROWS, shown=_SHOWN).to_rich(console.width), crop=False)
    console.say(f"[bold]{escape(spec.name)}[/bold]: {escape(headline(floor))}.")
    for text in sentences(floor):
        console.say(escape(text))
    if judgement.verdicts.simulated:
        console.say(
            "Hardware metrics are [bold yellow]simulated[/bold yellow], not counted by a processor: only times show "
            "this host's noise."
        )
    verdicts = [judgement.verdicts.by_configuration.get(name) for name in same_programs(spec)]
    itself = [change for verdict in verdicts if verdict is not None for change in verdict.changes]
    if beyond := sum(change.verdict == "perturbed" for change in itself):
        console.say(
            f"Between the two groups, {beyond} of {len(itself)} correlations changed by more than the tolerance. "
            "Both groups are runs of the same program, so either the host changed between runs, or this is chance."
        )
    for cause in causes:
        direction = "rises" if cause.rho > 0 else "falls"
        title = escape(total_name(cause.total))
        console.say(f"{title}: the total of a run {direction} with {cause.property} (ρ {number(cause.rho, 2)}).")
    if spec.imported:
        return  # what this host shows is not what made them vary
    from unperturbed.harness.host.doctor import examine

    for finding in noisiest(examine().noise, load, simulated=judgement.verdicts.simulated, recorded=recorded):
        mend = f"; to fix it, type: {finding.mend}" if finding.mend else f". {finding.why}" if finding.why else ""
        console.say(f"source of noise to fix first: {escape(finding.what)}{escape(mend)}")


def noisiest(
    found: Sequence[Finding], load: Finding | None, *, simulated: bool, recorded: bool = False
) -> Sequence[Finding]:
    """Return the doctor's findings on what disturbs measurements most, with the given load in place of the present one.

    `simulated`: Leave out what disturbs only counting, as simulated counts are not disturbed, only times.
    `recorded`: Leave out what is busy now, as the campaign was measured before.
    """
    left_out = ("load", "processes") if recorded else ("load",)
    others = [finding for finding in found if finding.subject not in left_out]
    noise = [
        finding
        for finding in ([] if load is None else [load]) + others
        if (finding is load or finding.mend or finding.status == "bad")
        and not (simulated and finding.what.startswith(_COUNTING))
    ]
    return sorted(noise, key=lambda finding: finding.status != "bad")[:_ADVICE]
