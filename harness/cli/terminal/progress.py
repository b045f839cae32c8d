"""Progress in the terminal: a line a step, an event a line of JSON. Loads none of the analyses: runs wait for it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from rich.markup import escape

from unperturbed.common.wording import duration
from unperturbed.harness.cli.events import print_event
from unperturbed.harness.cli.streams import drawing
from unperturbed.harness.cli.terminal.console import terminal

if TYPE_CHECKING:
    from unperturbed.harness.campaign.plan import PlannedRun
    from unperturbed.harness.campaign.progress import Estimate, Watch

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
