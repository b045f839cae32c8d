"""Find subsets of the software or hardware metrics that leave the program unperturbed."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from unperturbed.common.table import style_of
from unperturbed.common.wording import BAD, UNDECIDED, counted, duration
from unperturbed.harness.campaign.summary import HOME
from unperturbed.harness.cli.options import add_progress_option
from unperturbed.harness.cli.paths import open_page
from unperturbed.harness.cli.running import cancel_jobs
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import TerminalProgress, chosen_progress, terminal
from unperturbed.harness.cli.warming import warm_once

if TYPE_CHECKING:
    from unperturbed.analysis.partition import Forecast, Measurement, Plan
    from unperturbed.harness.studies.partition.software import Partitioned

_FAILED, _NEGATIVE, _INTERRUPTED = 1, 4, 130


class Command:
    """Find subsets of the software or hardware metrics that leave the program unperturbed; write the plan and page."""

    resumable = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the spec, the folder, and how to search."""
        add = parser.add_argument
        add("spec", type=Path, metavar="SPEC", help="the experiment's YAML file; its `subsets` are ignored")
        add(
            "--hardware",
            action="store_true",
            help="divide the hardware metrics into passes, judged by the metrics that every pass counts",
        )
        add(
            "--campaign",
            type=Path,
            metavar="FOLDER",
            help="folder of the search (default: campaigns/<name of the spec>-partition, with --hardware -passes)",
        )
        add(
            "--strategy",
            default="",
            choices=("first-fit", "restarts", "halving", "costly-alone"),
            help="how to choose candidate subsets (default: restarts with one build, otherwise first-fit)",
        )
        add("--repetitions", type=int, default=3, metavar="N", help="initial runs per candidate and pass (default: 3)")
        add(
            "--max-repetitions",
            type=int,
            default=20,
            metavar="N",
            help="maximum runs per candidate and pass while the verdict is undecided (default: 20)",
        )
        add(
            "--max-runs",
            type=int,
            metavar="N",
            help="stop after N runs and keep the best plan so far; runs of the first baseline do not count "
            "(default: the spec's `max_runs`)",
        )
        add(
            "--max-hours",
            type=float,
            metavar="H",
            help="stop after H hours and keep the best plan so far; builds and the first baseline do not count "
            "(default: the spec's `max_hours`)",
        )
        add("--json", action="store_true", help="print the plan and its evidence as JSON")
        add_progress_option(parser)
        add("--cancel", action="store_true", help="cancel the jobs of a search on nodes; finished runs are kept")
        add("--open", action="store_true", help="open the plan's page in a browser at the end")

    def run(self, arguments: argparse.Namespace) -> int:
        """Search and write the plan.

        Result: 0 if every metric is in a certified subset, 4 if some metric is not, 1 if a run failed, 130 if
        interrupted.
        """
        from unperturbed.harness.spec.load import load_spec
        from unperturbed.harness.studies.partition.hardware import partition_hardware
        from unperturbed.harness.studies.partition.on_nodes import partition_on_nodes
        from unperturbed.harness.studies.partition.software import SearchOptions, partition_campaign

        spec = load_spec(arguments.spec)
        kind = "passes" if arguments.hardware else "partition"
        folder = (arguments.campaign or HOME / f"{spec.name}-{kind}").absolute()
        if arguments.cancel:
            return cancel_jobs(spec, folder, "partition")
        search = SearchOptions(
            arguments.strategy,
            arguments.repetitions,
            arguments.max_repetitions,
            arguments.max_runs,
            arguments.max_hours,
        )
        progress = chosen_progress(arguments, plan_once=True)
        warm_once("alignment", progress.step)
        find = partition_campaign if spec.nodes is None else partition_on_nodes
        if arguments.hardware:
            find = partition_hardware
        with progress:
            outcome = find(
                spec,
                folder,
                search,
                progress,
                announce=partial(_show_forecast, progress),
                observer=partial(_show_measurement, progress),
            )
        plan = outcome.plan
        if arguments.json:
            print_json(plan.to_json())
        else:
            _show_plan(plan, folder, outcome)
        if arguments.open:
            open_page(folder / "partition.html")
        if plan.stopped == "interrupted":
            return _INTERRUPTED
        if outcome.failed:
            return _FAILED
        return _NEGATIVE if plan.unmeasurable or plan.undecided else 0


def _show_forecast(progress: TerminalProgress, predicted: Forecast) -> None:
    """Show how many runs and hours the search will probably need."""
    progress.line(
        f"[bold]about {predicted.expected} runs[/bold]{_hours(predicted.hours_expected)} after the baseline: "
        f"{predicted.low}{_hours(predicted.hours_low)} if all metrics can be collected together, "
        f"{predicted.high}{_hours(predicted.hours_high)} if no two can"
        + (f"; the limit allows {predicted.limit}" if predicted.limit is not None else ""),
        "forecast",
        expected=predicted.expected,
        low=predicted.low,
        high=predicted.high,
        hours=predicted.hours_expected,
    )


def _show_measurement(progress: TerminalProgress, measurement: Measurement) -> None:
    """Show one measurement of the search."""
    from unperturbed.analysis.partition import STAGES
    from unperturbed.analysis.partition.plan_text import TOO_CLOSE
    from unperturbed.analysis.perturbation import verdict_cell

    outcome, runs = measurement.outcome, measurement.runs_used
    facts: dict[str, object] = {"stage": measurement.stage, "subset": list(measurement.subset), "runs": runs}
    line = f"{runs:5} {'run ' if runs == 1 else 'runs'}  {STAGES[measurement.stage]}: "
    state = ""
    if outcome is None:
        line += f"{counted(measurement.repetitions, 'run')} per pass"
    else:
        subset = escape(", ".join(measurement.subset)) or "the baseline"
        style = style_of(verdict_cell(outcome.verdict))
        carried = f" ({escape(outcome.carried[0])})" if outcome.carried and outcome.verdict != "unperturbed" else ""
        where = f" on {escape(outcome.node)}" if outcome.node else ""
        close = "" if measurement.certifiable else f", {TOO_CLOSE}"
        line += f"{subset}: [{style}]{outcome.verdict}[/{style}]{where}{carried}{close}"
        state = f"{measurement.stage} {subset} {outcome.verdict}{where}{close}"
        facts |= {**({"node": outcome.node} if outcome.node else {}), "verdict": outcome.verdict}
    progress.line(line, "measured", state=state, **facts)


def _show_plan(plan: Plan, folder: Path, outcome: Partitioned) -> None:
    """Print the certified subsets, the metrics in no certified subset, and the path of the plan."""
    from unperturbed.analysis.partition import plan_table
    from unperturbed.analysis.partition.plan_text import families_table, validity

    console = terminal()
    if plan.subsets:
        console.print(plan_table(plan).to_rich())
    else:
        console.print("No subset could be certified.")
    if plan.families:
        console.print(families_table(plan).to_rich())
    for unmeasurable in plan.unmeasurable:
        console.say(
            f"[red]{BAD} {escape(unmeasurable.metric)}[/red] cannot be measured at this interval: "
            f"it {escape(unmeasurable.reason)}. Suggestion: {escape(unmeasurable.advice)}"
        )
    for left in plan.undecided:
        console.say(f"[yellow]{UNDECIDED} {escape(', '.join(left.metrics))}[/yellow]: {escape(left.reason)}")
    if not plan.complete:
        go_on = ", with a higher limit" if plan.stopped.startswith("`max_runs`") else ""
        console.say(f"[yellow]not finished:[/yellow] {escape(plan.stopped)}; repeat the command to continue{go_on}")
    for note in outcome.notes:
        console.say(f"[dim]note:[/dim] {escape(note)}")
    certificates = (
        " The chance that at least one of these certificates is wrong (a correlation changed by more than "
        f"{plan.tolerance:g}) is at most {plan.alpha:g}. {validity(plan)}"
    )
    made = f"The search made {counted(plan.runs_used, 'run')} after the first baseline."
    console.say(f"{made}{certificates if plan.subsets else ''}")
    console.say(f"plan: {folder / 'plan.yaml'} (for `unperturbed run`), evidence: {folder / 'plan.json'}")
    console.say(f"picture: {folder / 'partition.html'}")


def _hours(hours: float | None) -> str:
    return "" if hours is None else f" ({duration(3600 * hours, whole=True)})"
