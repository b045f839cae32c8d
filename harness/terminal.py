"""What a campaign shows in the terminal: progress between runs, the plan, the verdicts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unperturbed.analysis.perturbation import Change, Verdict, VerdictName
from unperturbed.harness.check import Checked
from unperturbed.harness.plan import PlannedRun, configurations
from unperturbed.harness.progress import Estimate
from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.models import BASELINE
from unperturbed.harness.totals import Total

__all__ = ["TerminalProgress", "duration", "show_failures", "show_totals", "show_verdicts"]

_STYLES: dict[VerdictName, str] = {"unperturbed": "green", "perturbed": "bold red", "undecided": "yellow"}
_SIGNS: dict[VerdictName, str] = {"unperturbed": "✓", "perturbed": "✗", "undecided": "?"}


def duration(seconds: float) -> str:
    """Say a time span as people do: `8 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class TerminalProgress:
    """Tells a campaign's progress on stderr, one line a step, drawn between runs only.

    On a terminal the line of a run is written over the one before; elsewhere every tenth run has a line.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, emoji=False)
        self._open_line = False

    def step(self, what: str) -> None:
        """Tell that a step of the preparation begins."""
        self._line(f"[dim]{escape(what)} …[/dim]")

    def note(self, what: str) -> None:
        """Tell what the user should know before anything takes its time."""
        self._line(f"[yellow]note:[/yellow] {escape(what)}")

    def planned(self, estimate: Estimate) -> None:
        """Tell what is about to happen."""
        for item in estimate.passes.passes:
            names = ", ".join(metric.name for metric in item.metrics)
            kind = "[bold yellow]simulated[/bold yellow] by callgrind" if item.source == "simulated" else item.source
            if names:
                self._line(f"pass {item.name}: {names} — {kind}")
        for source, why in estimate.passes.reasons.items():
            self._line(f"[dim]not {source}: {escape(why)}[/dim]")
        for note in estimate.notes:
            self.note(note)
        each = ", ".join(f"{name} {count}" for name, count in estimate.configurations.items())
        self._line(f"[bold]{estimate.runs} runs[/bold] ({each})")
        if estimate.done:
            self._line(f"{estimate.done} of them are done already")
        if estimate.done < estimate.runs and estimate.seconds:
            self._line(f"about [bold]{duration(estimate.seconds)}[/bold] to go")

    def starting(self, run: PlannedRun, *, done: int, total: int, seconds_left: float) -> None:
        """Tell that a run begins."""
        left = f", {duration(seconds_left)} left" if seconds_left else ""
        text = f"run {done + 1} of {total}: {self.named(run)}{left}"
        if self._console.is_terminal:
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()
            self._open_line = True
        elif done % 10 == 0:
            self._line(text)

    def failed(self, run: PlannedRun, attempt: int, error: str) -> None:
        """Tell that an attempt failed."""
        self._line(f"[red]run {run.id} ({escape(self.named(run))}), attempt {attempt}, failed:[/red] {escape(error)}")

    def named(self, run: PlannedRun) -> str:
        """Say which run it is."""
        return f"{run.configuration} {run.repetition} ({run.pass_name})"

    def end(self) -> None:
        """End the line of the last run."""
        if self._open_line:
            sys.stderr.write("\r\x1b[2K")
            self._open_line = False

    def _line(self, markup: str) -> None:
        self.end()
        self._console.print(markup, soft_wrap=True)


def show_verdicts(campaign: Campaign, checked: Checked) -> None:
    """Print one row a configuration, then what weighs most in each, then how steady the baseline is, then the notes."""
    console = Console(highlight=False, emoji=False)
    table = Table(title=f"{campaign.name}: was it perturbed?", title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    table.add_column("configuration")
    table.add_column("verdict")
    for header in ("instructions", *_SIGNS.values()):
        table.add_column(header, justify="right")
    for verdict in checked.verdicts:
        counts = Counter(change.verdict for change in verdict.changes)
        row = [escape(verdict.configuration), _named(verdict.verdict), _percent(verdict.overhead.instructions)]
        table.add_row(*row, *(f"[{style}]{counts[name]}[/{style}]" if counts[name] else "·" for name, style in _STYLES.items()))
    if checked.verdicts:
        console.print(table)
        over = f", over {len(checked.traces)} passes" if len(checked.traces) > 1 else ""
        console.print(f"Pairs and metrics: ✓ shown unperturbed, ✗ shown perturbed, ? undecided{over}.")
        if checked.verdicts[0].method == "paper":
            console.print(
                "By the paper's rule: perturbed is what deviates more than any baseline run. It has no error rate to rely on."
            )
    for item in configurations(campaign):
        if item.name == BASELINE:
            continue
        counts_what = (
            f"counts {', '.join(item.software)}" if item.sham_of is None else f"is {item.sham_of} with nothing counted"
        )
        console.print(f"{item.name} {counts_what}", soft_wrap=True)
        found = checked.of(item.name)
        if found is not None and found.verdict != "unperturbed":
            console.print(f"  {_named(found.verdict)}: {_worst(found)}", soft_wrap=True)
    for said in checked.steadiness:
        console.print(
            said if said.startswith("The baseline is steady") else f"[yellow]note:[/yellow] {escape(said)}", soft_wrap=True
        )
    for note in checked.notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}", soft_wrap=True)


def show_totals(totals: Sequence[Total]) -> None:
    """Print one row a software metric: what it counted in a run, and how often that is a second."""
    if not totals:
        return
    table = Table(
        title="Software metrics: events a run, and a second of the untouched program",
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
    )
    table.add_column("metric")
    for header in ("runs", "median", "range", "a second"):
        table.add_column(header, justify="right")
    for total in totals:
        spread = f"{total.least:,} … {total.most:,}" if total.least != total.most else "always"
        if total.counted is None or total.rate is None:
            values = ["gauge", spread if total.least != total.most else f"{total.least:,}", ""]
        else:
            values = [f"{total.counted:,.0f}", spread, f"{total.rate:,.0f}" if total.rate >= 10 else f"{total.rate:.2g}"]
        table.add_row(escape(total.name), str(total.runs), *values)
    Console(highlight=False, emoji=False).print(table)


def show_failures(failures: Sequence[str], missing: Sequence[str]) -> None:
    """Name the runs that failed for good, and those that were never made."""
    console = Console(stderr=True, highlight=False, emoji=False)
    for failure in failures:
        console.print(f"[red]failed:[/red] {escape(failure)}", soft_wrap=True)
    if missing:
        console.print(f"[red]not made:[/red] runs {', '.join(missing)}; the same run command goes on with them", soft_wrap=True)


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:+.2%}"


def _named(verdict: VerdictName) -> str:
    return f"[{_STYLES[verdict]}]{_SIGNS[verdict]} {verdict}[/{_STYLES[verdict]}]"


def _worst(verdict: Verdict) -> str:
    """Say which change weighs most: a perturbed one before an undecided one, then the larger."""
    if not verdict.changes:
        return escape("; ".join(reason for _, reason in verdict.excluded))

    def weight(change: Change) -> tuple[bool, bool, float]:
        return change.verdict == "perturbed", change.verdict == "undecided", abs(change.effect)

    change = max(verdict.changes, key=weight)
    level = f"{1 - 2 * verdict.alpha:.0%}"
    text = (
        f"{change.check} ρ of {change.label} changed by {change.effect:+.3f}, {level} interval {change.low:+.3f} … {change.high:+.3f}, "
        f"tolerance ±{change.tolerance:g}"
    )
    if change.origin not in (None, "unclear"):
        text += {
            "layout": "; not by the counting: its sham shows it too",
            "counting": "; by the counting: its sham does not show it",
            "both": "; by the counting and by what its sham shows",
        }[str(change.origin)]
    undecided = sum(change.verdict == "undecided" for change in verdict.changes)
    if undecided and verdict.method == "runs":
        enough = "more than 200" if verdict.runs_to_decide is None else f"about {verdict.runs_to_decide}"
        text += f". {undecided} of {len(verdict.changes)} are undecided; {enough} runs a configuration would decide them all"
    if verdict.lost:
        text += f". Not compared: {'; '.join(f'{name} ({why})' for name, why in verdict.lost)}"
    if verdict.method == "bootstrap" and verdict.notes:
        text += f". {verdict.notes[0]}"
    return escape(text)
