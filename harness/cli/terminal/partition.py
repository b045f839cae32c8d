"""What a search for a partition shows in the terminal: what it will take, each measurement, the plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from unperturbed.analysis.partition import STAGES, Forecast, Measurement, Plan, plan_table
from unperturbed.analysis.perturbation import verdict_cell
from unperturbed.common.table import style_of
from unperturbed.common.wording import BAD, UNDECIDED, counted, duration
from unperturbed.harness.campaign.progress import Estimate
from unperturbed.harness.cli.terminal.console import terminal
from unperturbed.harness.cli.terminal.progress import Show, TerminalProgress


class PartitionProgress(TerminalProgress):
    """Show a search on stderr: a line a measurement in place of one a batch of runs."""

    def __init__(self, show: Show = "lines") -> None:
        super().__init__(show)
        self._begun = False

    def planned(self, estimate: Estimate) -> None:
        """Show once what counts; later batches are shown by their measurements."""
        if not self._begun:
            super().planned(estimate)
        self._begun = True

    def forecast(self, predicted: Forecast) -> None:
        """Show what the search will probably take."""
        self._line(
            f"[bold]about {predicted.expected} runs[/bold]{_hours(predicted.hours_expected)} after the baseline: "
            f"{predicted.low}"
            f"{_hours(predicted.hours_low)} if all metrics go together, "
            f"{predicted.high}{_hours(predicted.hours_high)} if no two do",
            "forecast",
            expected=predicted.expected,
            low=predicted.low,
            high=predicted.high,
            hours=predicted.hours_expected,
        )

    def measured(self, measurement: Measurement) -> None:
        """Show one measurement."""
        subset = escape(", ".join(measurement.subset)) or "no software metric"
        stage = STAGES[measurement.stage]
        outcome = measurement.outcome
        facts: dict[str, object] = {
            "stage": measurement.stage,
            "subset": list(measurement.subset),
            "runs": measurement.runs_used,
        }
        if outcome is None:
            self._line(
                f"{measurement.runs_used:5} runs  {stage}: {counted(measurement.repetitions, 'run')} per pass",
                "measured",
                **facts,
            )
            return
        style = style_of(verdict_cell(outcome.verdict))
        carried = f" ({escape(outcome.carried[0])})" if outcome.carried and outcome.verdict != "unperturbed" else ""
        where = f" on {escape(outcome.node)}" if outcome.node else ""
        facts |= {"node": outcome.node} if outcome.node else {}
        self._line(
            f"{measurement.runs_used:5} runs  {stage}: {subset}: [{style}]{outcome.verdict}[/{style}]{where}{carried}",
            "measured",
            **facts,
            verdict=outcome.verdict,
        )


def show_plan(plan: Plan, folder: Path, notes: Sequence[str] = ()) -> None:
    """Print the certified subsets, then what is in none, and where the plan is."""
    console = terminal()
    if plan.subsets:
        console.print(plan_table(plan).to_rich())
    else:
        console.print("No subset could be certified.")
    for one in plan.unmeasurable:
        console.print(
            f"[red]{BAD} {escape(one.metric)}[/red] cannot be measured at this interval: {escape(one.reason)}. "
            f"Suggestion: {escape(one.advice)}",
            soft_wrap=True,
        )
    for left in plan.undecided:
        console.print(
            f"[yellow]{UNDECIDED} {escape(', '.join(left.metrics))}[/yellow]: {escape(left.reason)}", soft_wrap=True
        )
    if not plan.complete:
        go_on = ", with a higher limit" if plan.stopped.startswith("max_") else ""
        console.print(
            (f"[yellow]not finished:[/yellow] {escape(plan.stopped)}; repeat the command to continue{go_on}"),
            soft_wrap=True,
        )
    for note in notes:
        console.print(f"[dim]note:[/dim] {escape(note)}", soft_wrap=True)
    certificates = (
        " The chance that any of these certificates is wrong (a correlation changed by more than "
        f"{plan.tolerance:g}) is at most {plan.alpha:g}."
    )
    console.print(
        f"{plan.runs_used} runs after the first baseline.{certificates if plan.subsets else ''}", soft_wrap=True
    )
    console.print(
        f"plan: {folder / 'plan.yaml'} (for unperturbed run), evidence: {folder / 'plan.json'}", soft_wrap=True
    )
    console.print(f"picture: {folder / 'partition.html'}", soft_wrap=True)


def _hours(hours: float | None) -> str:
    return "" if hours is None else f" ({duration(3600 * hours, whole=True)})"
