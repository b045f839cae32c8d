"""What a search for a partition shows in the terminal: what it will take, each measurement, the plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unperturbed.analysis.partition import CertifiedSubset, Forecast, Measurement, Plan
from unperturbed.analysis.report.words_partition import STAGES
from unperturbed.harness.progress import Estimate
from unperturbed.harness.terminal import TerminalProgress, duration

__all__ = ["PartitionProgress", "show_plan"]

_STYLES = {"unperturbed": "green", "perturbed": "red", "undecided": "yellow"}


class PartitionProgress(TerminalProgress):
    """Tells of a search on stderr: a line a measurement in place of one a batch of runs."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = False

    def planned(self, estimate: Estimate) -> None:
        """Tell once what counts; later batches are told by their measurements."""
        if not self._begun:
            super().planned(estimate)
        self._begun = True

    def forecast(self, predicted: Forecast) -> None:
        """Tell what the search will probably take."""
        self._line(
            f"[bold]about {predicted.expected} runs[/bold]{_hours(predicted.hours_expected)} after the baseline: {predicted.low}"
            f"{_hours(predicted.hours_low)} if all metrics go together, {predicted.high}{_hours(predicted.hours_high)} if no two do"
        )

    def measured(self, measurement: Measurement) -> None:
        """Tell of one measurement."""
        subset = escape(", ".join(measurement.subset)) or "no software metric"
        stage = STAGES[measurement.stage]
        outcome = measurement.outcome
        if outcome is None:
            self._line(f"{measurement.runs_used:5} runs  {stage}: {measurement.repetitions} a pass")
            return
        style = _STYLES[outcome.verdict]
        carried = f" ({escape(outcome.carried[0])})" if outcome.carried and outcome.verdict != "unperturbed" else ""
        self._line(f"{measurement.runs_used:5} runs  {stage}: {subset}: [{style}]{outcome.verdict}[/{style}]{carried}")


def show_plan(plan: Plan, folder: Path, notes: Sequence[str] = ()) -> None:
    """Print the certified subsets with what they rest on, then what is in none, and where the plan stands."""
    console = Console(highlight=False, emoji=False)
    table = Table(
        title="Subsets certified to leave the program unperturbed", title_justify="left", header_style="bold", box=SIMPLE_HEAD
    )
    table.add_column("subset")
    table.add_column("metrics")
    for header in ("runs", "instructions", "largest change"):
        table.add_column(header, justify="right")
    for subset in plan.subsets:
        table.add_row(
            subset.name,
            escape(", ".join(subset.metrics)),
            str(len(subset.runs)),
            "" if subset.cost.instructions is None else f"{subset.cost.instructions:+.2%}",
            _largest(subset),
        )
    if plan.subsets:
        console.print(table)
    else:
        console.print("No subset could be certified.")
    for one in plan.unmeasurable:
        console.print(
            f"[red]✗ {escape(one.metric)}[/red] cannot be measured at this interval: {escape(one.reason)}. What may help: {escape(one.advice)}",
            soft_wrap=True,
        )
    for left in plan.undecided:
        console.print(f"[yellow]? {escape(', '.join(left.metrics))}[/yellow]: {escape(left.reason)}", soft_wrap=True)
    if not plan.complete:
        go_on = ", with a higher limit" if plan.stopped.startswith("max_") else ""
        console.print(f"[yellow]not finished:[/yellow] {escape(plan.stopped)}; the same command goes on{go_on}", soft_wrap=True)
    for note in notes:
        console.print(f"[dim]note:[/dim] {escape(note)}", soft_wrap=True)
    certificates = (
        f" With a chance of at most {plan.alpha:g} any of these certificates is wrong (a correlation changed by more than "
        f"{plan.tolerance:g})."
    )
    console.print(f"{plan.runs_used} runs after the first baseline.{certificates if plan.subsets else ''}", soft_wrap=True)
    console.print(f"plan: {folder / 'plan.yaml'} (for unperturbed run), evidence: {folder / 'plan.json'}", soft_wrap=True)
    console.print(f"picture: {folder / 'partition.html'}", soft_wrap=True)


def _largest(subset: CertifiedSubset) -> str:
    changes = subset.verdict.changes if subset.verdict is not None else ()
    if not changes:
        return ""
    widest = max(changes, key=lambda change: max(-change.low, change.high))
    return f"{widest.effect:+.3f} ({widest.low:+.3f} … {widest.high:+.3f})"


def _hours(hours: float | None) -> str:
    return "" if hours is None else f" ({duration(3600 * hours)})"
