"""What a campaign shows in the terminal: progress between runs, the plan, the verdicts."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unperturbed.analysis.perturbation import Change, Verdict
from unperturbed.harness.check import Checked
from unperturbed.harness.plan import BASELINE, PlannedRun, configurations
from unperturbed.harness.progress import Estimate
from unperturbed.harness.spec import Campaign

__all__ = ["TerminalProgress", "duration", "show_failures", "show_verdicts"]

_STYLES = {"unperturbed": "green", "perturbed": "bold red", "undecided": "yellow"}
_SIGNS = {"unperturbed": "✓", "perturbed": "✗", "undecided": "?"}


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
        self._console = Console(stderr=True, highlight=False)
        self._open_line = False

    def step(self, what: str) -> None:
        """Tell that a step of the preparation begins."""
        self._line(f"[dim]{escape(what)} …[/dim]")

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
            self._line(f"[yellow]note:[/yellow] {escape(note)}")
        each = ", ".join(f"{name} {count}" for name, count in estimate.configurations.items())
        self._line(f"[bold]{estimate.runs} runs[/bold] ({each})")
        if estimate.done:
            self._line(f"{estimate.done} of them are done already")
        if estimate.done < estimate.runs:
            self._line(f"about [bold]{duration(estimate.seconds)}[/bold] to go")

    def starting(self, run: PlannedRun, *, done: int, total: int, seconds_left: float) -> None:
        """Tell that a run begins."""
        text = (
            f"run {done + 1} of {total}: {run.configuration} {run.repetition} ({run.pass_name}), {duration(seconds_left)} left"
        )
        if self._console.is_terminal:
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()
            self._open_line = True
        elif done % 10 == 0:
            self._line(text)

    def failed(self, run: PlannedRun, attempt: int, error: str) -> None:
        """Tell that an attempt failed."""
        self._line(f"[red]run {run.id} ({run.configuration}), attempt {attempt}, failed:[/red] {escape(error)}")

    def end(self) -> None:
        """End the line of the last run."""
        if self._open_line:
            sys.stderr.write("\r\x1b[2K")
            self._open_line = False

    def _line(self, markup: str) -> None:
        self.end()
        self._console.print(markup, soft_wrap=True)


def show_verdicts(campaign: Campaign, checked: Checked) -> None:
    """Print one row a configuration and pass, then what each perturbed pair did, then the notes."""
    console = Console(highlight=False)
    several = len(checked.traces) > 1
    table = Table(title=f"{campaign.name}: was it perturbed?", title_justify="left", header_style="bold")
    table.add_column("configuration")
    if several:
        table.add_column("pass")
    for header in ("verdict", "instructions", "pairs and metrics", "largest change of ρ"):
        table.add_column(header, overflow="fold")
    per_configuration: dict[str, int] = {}
    for verdict in checked.verdicts:
        number = per_configuration.get(verdict.configuration, 0)
        per_configuration[verdict.configuration] = number + 1
        row = [verdict.configuration]
        if several:
            row.append(list(checked.traces)[number] if number < len(checked.traces) else "")
        style = _STYLES[verdict.verdict]
        row.append(f"[{style}]{_SIGNS[verdict.verdict]} {verdict.verdict}[/{style}]")
        row += [_percent(verdict.overhead.instructions), _counts(verdict), _worst(verdict)]
        table.add_row(*row)
    console.print(table)
    software = {item.name: item.software for item in configurations(campaign) if item.name != BASELINE}
    for name, metrics in software.items():
        console.print(f"[dim]{name} counts {', '.join(metrics)}[/dim]", soft_wrap=True)
    for note in checked.notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}", soft_wrap=True)


def show_failures(failures: Sequence[str], missing: Sequence[str]) -> None:
    """Name the runs that failed for good, and those that were never made."""
    console = Console(stderr=True, highlight=False)
    for failure in failures:
        console.print(f"[red]failed:[/red] {escape(failure)}", soft_wrap=True)
    if missing:
        console.print(f"[red]not made:[/red] runs {', '.join(missing)}; the same run command goes on with them", soft_wrap=True)


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:+.2%}"


def _counts(verdict: Verdict) -> str:
    parts = []
    for name, style in _STYLES.items():
        count = sum(change.verdict == name for change in verdict.changes)
        if count:
            parts.append(f"[{style}]{count} {name}[/{style}]")
    return ", ".join(parts) or "; ".join(reason for _, reason in verdict.excluded)


def _worst(verdict: Verdict) -> str:
    def weight(change: Change) -> tuple[bool, bool, float]:
        return change.verdict == "perturbed", change.verdict == "undecided", abs(change.effect)

    if not verdict.changes:
        return ""
    change = max(verdict.changes, key=weight)
    more = f"; {change.runs_to_decide} runs would decide" if change.runs_to_decide else ""
    return f"{change.check} {change.label}: {change.effect:+.3f} [{change.low:+.3f}, {change.high:+.3f}]{more}".replace(
        "[", "\\["
    )
