"""Console for styled output, and progress on stderr. Imports no analysis module: runs would wait for the import."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Self

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.markup import escape
from rich.segment import Segment

from unperturbed.common.wording import duration, visible
from unperturbed.harness.cli.streams import drawing, print_event

if TYPE_CHECKING:
    from unperturbed.collectors.passes import Passes
    from unperturbed.harness.campaign.plan import PlannedRun
    from unperturbed.harness.campaign.progress import Estimate
    from unperturbed.harness.spec.sections.parameters import Value


_LINE_EVERY_S = 10.0
_PIPE_COLUMNS = 1000
_LONG_S, _FEW, _MUCH_LESS = 600, 5, 0.7
"""A plan that takes longer is long; runs of each configuration in a shorter plan, and its share of the runs at most."""


class Terminal(Console):
    """A console on a standard stream."""

    def say(self, *parts: RenderableType, sep: str = " ") -> None:
        """Print one line without wrapping it."""
        self.print(*parts, sep=sep, soft_wrap=True)


def terminal(*, stderr: bool = False, whole_rows: bool = False) -> Terminal:
    """Return a console on stdout or stderr; `whole_rows`: in a pipe, one line for each table row (for grep and awk)."""
    console = Terminal(file=drawing(sys.stderr if stderr else sys.stdout), highlight=False, emoji=False)
    if whole_rows and not console.is_terminal:
        console.width = _PIPE_COLUMNS
    console.push_render_hook(_AllVisible())
    return console


def print_note(console: Console, text: str) -> None:
    """Print a note on a result."""
    console.print(f"[yellow]note:[/yellow] {escape(text)}", soft_wrap=True)


class _AllVisible(RenderHook):
    """Hook that escapes control characters in everything passed to rich, before rich adds its own."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Wrap each renderable in one that escapes control characters."""
        return [_Visible(renderable) for renderable in renderables]


class _Visible:
    def __init__(self, renderable: ConsoleRenderable) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


Show = Literal["lines", "all", "none", "json"]
"""How to show progress: one line per step, also one line per run, nothing, or one line of JSON per event."""


class TerminalProgress:
    """Progress of a campaign on stderr: one line per step, written only between runs.

    On a terminal, a run's line overwrites the line of the run before; elsewhere, every tenth run has a line. In JSON
    mode, each event is a JSON object on its own line (docs/reference/command_line.md). As a context manager, it ends
    the last line.

    `points`: The points of a sweep: runs are named by their point.
    `plan_once`: Show only the first plan: a search makes one plan per batch, and shows each measurement instead.
    """

    def __init__(
        self, show: Show = "lines", *, points: Sequence[Mapping[str, Value]] = (), plan_once: bool = False
    ) -> None:
        self._points, self._plan_once, self._planned = points, plan_once, False
        self._console = terminal(stderr=True)
        self._open_line = False
        self._show = show
        self._state = ""
        self._next_line = time.monotonic() + _LINE_EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def step(self, what: str) -> None:
        """Show that a preparation step starts."""
        self.line(f"[dim]{escape(what)} …[/dim]", "step", what=what)

    def note(self, what: str) -> None:
        """Show a note before long work."""
        self.line(f"[yellow]note:[/yellow] {escape(what)}", "note", what=what)

    def planned(self, estimate: Estimate) -> None:
        """Show the plan."""
        if self._planned and self._plan_once:
            return
        first, self._planned = not self._planned, True
        if self._show == "json":
            print_event("planned", **_described(estimate))
            return
        if first:  # a campaign that runs until decided is planned look by look
            self._counting(estimate)
        each = ", ".join(f"{name} {count}" for name, count in estimate.configurations.items())
        self.line(f"[bold]{estimate.runs} runs[/bold] ({each})")
        if estimate.done:
            self.line(f"{estimate.done} runs are already done")
        if estimate.done < estimate.runs and estimate.seconds:
            self.line(f"about [bold]{duration(estimate.seconds, whole=True)}[/bold] to go")
            self._offer_less(estimate)

    def _counting(self, estimate: Estimate) -> None:
        """Show what is counted in each pass, and by what."""
        for item in estimate.passes.passes:
            names = ", ".join(metric.name for metric in item.metrics)
            kind = "[bold yellow]simulated[/bold yellow] by callgrind" if item.source == "simulated" else item.source
            if names:
                self.line(f"pass {item.name}: {names} — {kind}")
        if self._show == "all":
            for source, why in estimate.passes.reasons.items():
                self.line(f"[dim]source {source} is not used: {escape(why)}[/dim]")
        elif estimate.passes.passed_over:
            self.line(f"[dim]{escape(estimate.passes.passed_over)}[/dim]")
        for note in estimate.notes:
            self.note(note)

    def _offer_less(self, estimate: Estimate) -> None:
        """Offer a shorter plan before a long one starts."""
        passes = max(1, len(estimate.passes.passes))
        few = sum(min(count, _FEW * passes) for count in estimate.configurations.values())
        if estimate.done or estimate.seconds < _LONG_S or few > _MUCH_LESS * estimate.runs:
            return
        seconds = estimate.seconds * few / estimate.runs
        self.note(
            f"a first answer takes about {duration(seconds, whole=True)}, with {_FEW} runs of each configuration. To "
            f"get it, set `baseline_runs` and `runs` to {_FEW} in the spec; if you typed the program after --, add "
            f"--runs {_FEW} before -- (for `unperturbed run`, also --baseline-runs {_FEW}). The smallest changes that "
            f"{_FEW} runs can show are about twice as large as those that 10 runs can show"
        )

    def starting(self, run: PlannedRun, *, done: int, total: int, seconds_left: float) -> None:
        """Show that a run starts."""
        left = f", {duration(seconds_left, whole=True)} left" if seconds_left else ""
        text = f"run {done + 1} of {total}: {self.named(run)}{left}"
        if self._show == "json":
            print_event("run", **_described_run(run), done=done, total=total, seconds_left=seconds_left)
        elif self._show == "lines" and self._console.is_terminal:
            self._overwrite(text)
        elif self._show == "all" or done % 10 == 0:
            self.line(escape(text))

    def watch(self, what: str, done: int, total: int) -> None:
        """Show a step of a long analysis: every step on a terminal, elsewhere only after ten seconds without a line."""
        text = f"{what}: {done + 1} of {total}"
        if self._show not in ("none", "json") and self._console.is_terminal:
            self._overwrite(text)
        elif time.monotonic() >= self._next_line:
            self.step(text)

    def failed(self, run: PlannedRun, attempt: int, error: str) -> None:
        """Show that an attempt at a run failed."""
        named = f"run {run.id} ({escape(self.named(run))}), attempt {attempt}"
        self.line(
            f"[red]{named} failed:[/red] {escape(error)}",
            "failed",
            state="",
            **_described_run(run),
            attempt=attempt,
            error=error,
        )

    def named(self, run: PlannedRun) -> str:
        """Return a run's name in messages: its point or configuration, pass and repetition."""
        if self._points:
            return f"{point_text(self._points[run.point - 1])} ({run.pass_name}, repetition {run.repetition})"
        return f"{run.configuration} {run.repetition} ({run.pass_name})"

    def _overwrite(self, text: str) -> None:
        """Overwrite the previous line."""
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
        """Report the command's exit code and results to programs that read its events."""
        if self._show == "json":
            print_event("result", exit_code=exit_code, **facts)

    def line(self, markup: str, event: str = "", *, state: str = "", **facts: object) -> None:
        """Show a line; in JSON mode, print its event, if any, instead.

        `state`: What the line reports; without `-v`, a line that reports the same as the one before is left out.
        """
        if state and state == self._state and self._show == "lines":
            return
        self._state = state
        self.end()
        self._next_line = time.monotonic() + _LINE_EVERY_S
        if self._show == "json":
            if event:
                print_event(event, **facts)
        elif self._show != "none":
            self._console.say(markup)


def chosen_progress(
    arguments: argparse.Namespace, *, points: Sequence[Mapping[str, Value]] = (), plan_once: bool = False
) -> TerminalProgress:
    """Return the progress display that `--progress`, `--quiet` and `-v` select."""
    show: Show = "none" if arguments.quiet else "all" if arguments.verbose else "lines"
    if getattr(arguments, "progress", "") == "json":
        show = "json"
    return TerminalProgress(show, points=points, plan_once=plan_once)


def describe_passes(passes: Passes) -> list[dict[str, object]]:
    """Return the name, source and metrics of each pass as JSON types."""
    return [
        {"name": item.name, "source": item.source, "metrics": [metric.name for metric in item.metrics]}
        for item in passes.passes
    ]


def point_text(point: Mapping[str, Value]) -> str:
    """Return a point's parameter values as text."""
    return ", ".join(f"{name}={value}" for name, value in point.items())


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
        "passes": describe_passes(estimate.passes),
        "notes": list(estimate.notes),
    }
