"""Settings of a compiler wrapper, in a JSON file: the metrics, the runtime to link, and the wrapper's folders."""

# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH100, PTH110, PTH118, PTH120, PTH123

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from unperturbed.errors import SpecError
from unperturbed.instrument.events.targets import Need, Selected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unperturbed.instrument.events.event import Event
    from unperturbed.instrument.finding.rewrite import Form

_FORMAT = 8
LAYOUT_FILE = "layout"
"""File in a toolchain's folder, with the text from which layouts are drawn."""

PLAIN_FILE = "plain"
"""File in a toolchain's folder while its links are those of the build's commands, without the runtime."""


class ToolchainSettings(NamedTuple):
    """Settings of one toolchain."""

    metrics: tuple[Selected, ...]  # The software metrics that are compiled in
    runtime: tuple[str, ...]  # C sources compiled and linked into every program
    bounds: tuple[str, ...]  # C sources of the first and last object of every link; the counters are between them
    form: Form  # What the statement at a site does; see `finding.rewrite`
    layouts: bool  # Record every link, to repeat it in other layouts
    folder: str  # Folder of settings, site log, cache and temporary files
    # Folder in which toolchains share the runtime's objects; empty: they are only in this toolchain's cache.
    objects: str = ""
    doses: int = 1  # Number of increments that a place of a patchable build can hold
    layout: str = ""  # Text from which the layout of every link is drawn; empty: the layout of the build's commands

    def place(self, *names: str) -> str:
        """Return a path in the toolchain's folder.

        The folder has `sites` (the site log; the launcher appends sources without a site to `sites/passed`), `links`,
        `noted` (marks of printed notes, to print each once), `cache` and `passing` (temporary files of a wrapper run).
        """
        return os.path.join(self.folder, *names)


def settings_text(
    software: Mapping[str, Event],
    runtime: Sequence[Path],
    bounds: Sequence[Path],
    *,
    form: Form = "counting",
    layouts: bool = False,
    objects: Path | None = None,
    ends_intervals: str = "",
    doses: int = 1,
) -> str:
    """Return the JSON text of the settings file; metrics are numbered in the order of `software`.

    `ends_intervals`: The metric whose events end intervals; '' if none does.
    """
    from unperturbed.instrument.events.event import select  # noqa: PLC0415  the wrapper reads settings only

    metrics = [
        {
            **(metric := select(name, number, event, ends_intervals=name == ends_intervals))._asdict(),
            "need": metric.need._asdict(),
        }
        for number, (name, event) in enumerate(software.items())
        if event.means == "compiled"
    ]
    described = {
        "format": _FORMAT,
        "metrics": metrics,
        "runtime": [str(path.absolute()) for path in runtime],
        "bounds": [str(path.absolute()) for path in bounds],
        "form": form,
        "layouts": layouts,
        "objects": "" if objects is None else str(objects.absolute()),
        **({"doses": doses} if doses > 1 else {}),
    }
    return json.dumps(described, indent=1) + "\n"


def read_settings(path: str) -> ToolchainSettings:
    """Read a settings file."""
    try:
        with open(path, encoding="utf-8") as file:
            described: dict[str, Any] = json.load(file)
        if described["format"] != _FORMAT:
            other = f"another version of Unperturbed wrote these settings (format {described['format']})"
            raise SpecError(f"{path}: {other}; create the compilers `cc` and `cxx` again with this version")
        folder = os.path.dirname(os.path.abspath(path))
        plain = described["layouts"] and os.path.exists(os.path.join(folder, PLAIN_FILE))
        return ToolchainSettings(
            tuple(Selected(**{**metric, "need": Need.from_json(metric["need"])}) for metric in described["metrics"]),
            () if plain else tuple(described["runtime"]),
            () if plain else tuple(described["bounds"]),
            described["form"],
            bool(described["layouts"]),
            folder,
            str(described["objects"]),
            int(described.get("doses", 1)),
            _layout(os.path.join(folder, LAYOUT_FILE)) if described["layouts"] else "",
        )
    except OSError as error:
        raise SpecError(f"{path}: cannot read the settings file ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SpecError(f"{path}: this is not a settings file of the instrumenting compiler") from None


def _layout(path: str) -> str:
    """Read the text from which layouts are drawn; it is in a file, because a build may drop environment variables."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
