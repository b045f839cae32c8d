"""The console that everything styled is drawn on: the controls in texts of others are written out."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment

from unperturbed.common.wording import visible
from unperturbed.harness.cli.streams import drawing


def terminal(*, stderr: bool = False, **options: Any) -> Console:
    """Return a console on a standard stream."""
    stream = drawing(sys.stderr if stderr else sys.stdout)
    console = Console(file=stream, highlight=False, emoji=False, **options)
    console.push_render_hook(_AllVisible())
    return console


class _AllVisible(RenderHook):
    """Writes out the controls in all that rich is given, before rich adds its own."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return what is drawn in place of these."""
        return [_Visible(renderable) for renderable in renderables]


class _Visible:
    def __init__(self, renderable: ConsoleRenderable) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
