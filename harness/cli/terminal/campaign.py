"""What a campaign shows in the terminal: progress between runs, the plan, the verdicts."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from rich.markup import escape
from rich.text import Text

from unperturbed.analysis.perturbation import VerdictName, decisive_change, level_table, verdict_cell, verdict_table
from unperturbed.analysis.report import to_json
from unperturbed.common.table import Column, Table, style_of
from unperturbed.common.wording import duration
from unperturbed.harness.campaign import Configuration, Estimate, PlannedRun, Watch, configurations
from unperturbed.harness.cli.events import print_event
from unperturbed.harness.cli.streams import drawing
from unperturbed.harness.cli.terminal.console import terminal
from unperturbed.harness.results.check import CampaignVerdicts
from unperturbed.harness.results.judge import Judgement, Total
from unperturbed.harness.spec import BASELINE, CampaignSpec

_RUNS_FAILED, _NEGATIVE = 1, 4
_LINE_EVERY_S = 10.0


Show = Literal["lines", "all", "none", "json"]
"""What is shown of a campaign's progress: a line a step, a line a run too, nothing, or a line of JSON an event."""


def chosen_progress(arguments: argparse.Namespace) -> Show:
    """Return what the options `--progress`, `--quiet` and `-v` ask for."""
    if getattr(arguments, "progress", "") == "json":
        return "json"
    return "none" if arguments.quiet else "all" if arguments.verbose else "lines"


class TerminalProgress:
    """Show a campaign's progress on stderr, one line a step, drawn between runs only.

    On a terminal the line of a run is written over the one before; elsewhere every tenth run has a line. As JSON, each
    event is an object in a line of its own: `event`, `time` (seconds since 1970), and what
    docs/reference/command_line.md lists.

    Parameters
    ----------
    show : {"lines", "all", "none", "json"}, default "lines"
        What is shown.
    """

    def __init__(self, show: Show = "lines") -> None:
        self._console = terminal(stderr=True)
        self._open_line = False
        self._show = show
        self._next_line = time.monotonic() + _LINE_EVERY_S

    def step(self, what: str) -> None:
        """Show that a step of the preparation begins."""
        self._line(f"[dim]{escape(what)} …[/dim]", "step", what=what)

    def note(self, what: str) -> None:
        """Show what the user should know before anything takes its time."""
        self._line(f"[yellow]note:[/yellow] {escape(what)}", "note", what=what)

    def planned(self, estimate: Estimate) -> None:
        """Show what is about to happen."""
        if self._show == "json":
            self._event("planned", **_described(estimate))
            return
        for item in estimate.passes.passes:
            names = ", ".join(metric.name for metric in item.metrics)
            kind = "[bold yellow]simulated[/bold yellow] by callgrind" if item.source == "simulated" else item.source
            if names:
                self._line(f"pass {item.name}: {names} — {kind}")
        if self._show == "all":
            for source, why in estimate.passes.reasons.items():
                self._line(f"[dim]not {source}: {escape(why)}[/dim]")
        elif estimate.passes.passed_over:
            self._line(f"[dim]{escape(estimate.passes.passed_over)}[/dim]")
        for note in estimate.notes:
            self.note(note)
        each = ", ".join(f"{name} {count}" for name, count in estimate.configurations.items())
        self._line(f"[bold]{estimate.runs} runs[/bold] ({each})")
        if estimate.done:
            self._line(f"{estimate.done} of them are done already")
        if estimate.done < estimate.runs and estimate.seconds:
            self._line(f"about [bold]{duration(estimate.seconds, whole=True)}[/bold] to go")

    def starting(self, run: PlannedRun, *, done: int, total: int, seconds_left: float) -> None:
        """Show that a run begins."""
        left = f", {duration(seconds_left, whole=True)} left" if seconds_left else ""
        text = f"run {done + 1} of {total}: {self.named(run)}{left}"
        if self._show == "json":
            self._event("run", **_described_run(run), done=done, total=total, seconds_left=seconds_left)
        elif self._show == "lines" and self._console.is_terminal:
            self._overwrite(text)
        elif self._show == "all" or done % 10 == 0:
            self._line(escape(text))

    def watch(self, what: str, done: int, total: int) -> None:
        """Show a step of a long analysis: on a terminal each one, elsewhere where no line was for ten seconds."""
        text = f"{what}: {done + 1} of {total}"
        if self._show not in ("none", "json") and self._console.is_terminal:
            self._overwrite(text)
        elif time.monotonic() >= self._next_line:
            self.step(text)

    def failed(self, run: PlannedRun, attempt: int, error: str) -> None:
        """Show that an attempt failed."""
        named = f"run {run.id} ({escape(self.named(run))}), attempt {attempt}"
        self._line(
            f"[red]{named}, failed:[/red] {escape(error)}",
            "failed",
            **_described_run(run),
            attempt=attempt,
            error=error,
        )

    def named(self, run: PlannedRun) -> str:
        """Return which run it is."""
        return f"{run.configuration} {run.repetition} ({run.pass_name})"

    def _overwrite(self, text: str) -> None:
        """Show a line in place of the one before."""
        _erase_line()
        sys.stderr.write(text)
        sys.stderr.flush()
        self._open_line = True

    def end(self) -> None:
        """End the line of the last run."""
        if self._open_line:
            _erase_line()
            self._open_line = False

    def result(self, exit_code: int, **facts: object) -> None:
        """Report how the command ends, to programs that read its events."""
        if self._show == "json":
            self._event("result", exit_code=exit_code, **facts)

    def _line(self, markup: str, event: str = "", **facts: object) -> None:
        """Show a line; as JSON, the event that it is of, if it is one."""
        self.end()
        self._next_line = time.monotonic() + _LINE_EVERY_S
        if self._show == "json":
            if event:
                self._event(event, **facts)
        elif self._show != "none":
            self._console.print(markup, soft_wrap=True)

    def _event(self, event: str, **facts: object) -> None:
        print_event(event, **facts)


@contextmanager
def watching(arguments: argparse.Namespace) -> Iterator[Watch]:
    """Yield what shows the steps of an analysis, as a command's options ask for."""
    progress = TerminalProgress(chosen_progress(arguments))
    try:
        yield progress.watch
    finally:
        progress.end()


def _erase_line() -> None:
    drawing(sys.stderr).write("\r\x1b[2K")


def _described_run(run: PlannedRun) -> dict[str, object]:
    return {
        "run": run.id,
        "configuration": run.configuration,
        "pass": run.pass_name,
        "repetition": run.repetition,
        **({"point": run.point} if run.point else {}),
    }


def _described(estimate: Estimate) -> dict[str, object]:
    return {
        "runs": estimate.runs,
        "done": estimate.done,
        "seconds": estimate.seconds,
        "configurations": dict(estimate.configurations),
        "passes": [
            {"name": item.name, "source": item.source, "metrics": [metric.name for metric in item.metrics]}
            for item in estimate.passes.passes
        ],
        "notes": list(estimate.notes),
    }


def show_judgement(
    campaign: CampaignSpec,
    judgement: Judgement,
    report: Path | None,
    *,
    as_json: bool,
    fail_on: VerdictName | None = None,
) -> int:
    """Print what a campaign showed; return the exit code.

    Parameters
    ----------
    campaign : CampaignSpec
        The spec that was run.
    judgement : Judgement
        Its verdicts.
    report : Path, optional
        The report that was written.
    as_json : bool
        Print the verdicts as JSON in place of tables.
    fail_on : VerdictName, optional
        The mildest verdict that counts as failure; by default that of the spec.

    Returns
    -------
    int
        1 when runs failed or are missing, which outranks 4; 4 when a configuration has that verdict or a more serious
        one; else 0.
    """
    if as_json:
        print(json.dumps(to_json(judgement.content), indent=2, ensure_ascii=False))
    else:
        show_verdicts(campaign, judgement.verdicts)
        show_totals(judgement.totals)
        show_failures(judgement.content.failures, judgement.missing)
        if report is not None and not judgement.unwritten:
            print(f"report: {report}")
    if judgement.unwritten:
        print(f"unperturbed: report and verdicts.json are not written: {judgement.unwritten}", file=sys.stderr)
    if not judgement.complete:
        return _RUNS_FAILED
    return _NEGATIVE if judgement.verdicts.at_least(fail_on or campaign.analysis.fail_on) else 0


def show_verdicts(campaign: CampaignSpec, checked: CampaignVerdicts) -> None:
    """Print one row a configuration, then what weighs most in each, then how steady the baseline is, then the notes."""
    console = terminal()
    comparing = bool(campaign.programs) and {one.configuration for one in checked.verdicts} <= set(campaign.programs)
    if checked.verdicts:
        heading = "verdicts per set-up" if comparing else "verdicts per configuration"
        if comparing:
            console.print(f"baseline (A): {escape(campaign.program.run)}", soft_wrap=True)
        console.print(verdict_table(checked.verdicts, f"{campaign.name}: {heading}").to_rich())
        over = f", over {len(checked.traces)} passes" if len(checked.traces) > 1 else ""
        console.print(
            f"Pairs and metrics: ✓ unperturbed, ✗ changed beyond ±{campaign.analysis.tolerance:g}, ~ changed, perhaps "
            f"within it, ? undecided{over}.",
            soft_wrap=True,
        )
        console.print(_kinds_of_rho(checked), soft_wrap=True)
        if checked.verdicts[0].method == "paper":
            console.print(
                "The paper's rule calls perturbed what deviates more than any baseline run. Its error rate is unknown."
            )
    for item in configurations(campaign):
        if item.name == BASELINE:
            continue
        console.print(f"{item.name} {escape(_what_it_is(item, campaign))}", soft_wrap=True)
        found = checked.of(item.name)
        if found is not None and found.verdict != "unperturbed":
            shown = verdict_cell(found.verdict)
            console.print(
                Text(f"  {shown.text}", style_of(shown)),
                f": {escape(decisive_change(found))}",
                sep="",
                soft_wrap=True,
            )
    if checked.simulated:
        console.print(
            "Hardware metrics are [bold yellow]simulated[/bold yellow], not counted by a processor.", soft_wrap=True
        )
    levels = checked.levels(campaign)
    if levels:
        caption = f"Totals: means over the runs, and by how much {'B' if set(levels) == {'B'} else 'each'} differs"
        console.print(level_table(levels, campaign.analysis.alpha, caption).to_rich())
    for said in checked.steadiness:
        console.print(
            said if said.startswith("The baseline is steady") else f"[yellow]note:[/yellow] {escape(said)}",
            soft_wrap=True,
        )
    for note in checked.notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}", soft_wrap=True)


def _kinds_of_rho(checked: CampaignVerdicts) -> str:
    """Return what the kinds of ρ are that were looked at, in one line."""
    known = {change.check for verdict in checked.verdicts for change in verdict.changes}
    meanings = {
        "inner": "inner, of two hardware metrics within a run",
        "outer": "outer, of one metric in two aligned runs",
        "software": "software, as inner with a software metric",
        "across": "across, of two metrics in two aligned runs",
    }
    return f"ρ (Spearman's): {'; '.join(meaning for kind, meaning in meanings.items() if kind in known)}."


def _what_it_is(item: Configuration, campaign: CampaignSpec) -> str:
    if item.program:
        return f"is another set-up of the program ({campaign.programs[item.program].difference()})"
    if item.sham_of is not None:
        return f"is {item.sham_of} without the counting"
    if not item.software:
        return "was imported"
    return f"counts {', '.join(item.software)}"


def show_totals(totals: Sequence[Total]) -> None:
    """Print one row a software metric: what it counted in a run, and how often that is a second."""
    if not totals:
        return
    columns = (Column("metric"), *(Column(head, "right") for head in ("runs", "median", "range", "per second")))
    rows = []
    for total in totals:
        spread = f"{total.least:,} … {total.most:,}" if total.least != total.most else "always"
        if total.counted is None or total.rate is None:
            values = ["gauge", spread if total.least != total.most else f"{total.least:,}", ""]
        else:
            values = [
                f"{total.counted:,.0f}",
                spread,
                f"{total.rate:,.0f}" if total.rate >= 10 else f"{total.rate:.2g}",
            ]
        rows.append([total.name, str(total.runs), *values])
    table = Table(columns, rows, "Software metrics: events per run, and per second of the untouched program")
    terminal().print(table.to_rich())


def show_failures(failures: Sequence[str], missing: Sequence[str]) -> None:
    """Name the runs that failed for good, and those that were never made."""
    console = terminal(stderr=True)
    for failure in failures:
        console.print(f"[red]failed:[/red] {escape(failure)}", soft_wrap=True)
    if missing:
        console.print(
            f"[red]not made:[/red] runs {', '.join(missing)}; repeat the run command to make them", soft_wrap=True
        )
