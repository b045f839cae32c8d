"""What a wrapper must know, in one JSON file: the metrics, the runtime to link, and the folders it writes to."""

# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH100, PTH101, PTH103, PTH105, PTH108, PTH110, PTH118, PTH120, PTH123

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from unperturbed.errors import SpecError
from unperturbed.instrument.prefilter import Need, need_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from unperturbed.instrument.events import Event

__all__ = ["Selected", "Settings", "read_settings", "settings_text", "write_aside"]

_FORMAT = 2


class Selected(NamedTuple):
    """One software metric as the wrapper knows it: its name, its event's parts (as in `Event`), and its prefilter."""

    name: str
    kind: str
    target: str
    within: str | None
    file: str | None
    add: str | None
    need: Need


class Settings(NamedTuple):
    """Settings of one toolchain.

    Attributes
    ----------
    metrics : the software metrics, in the order that gives their indices.
    runtime : C sources compiled and linked into every program.
    bounds : C sources compiled and linked first and last into every program and shared library: between them lie its counters.
    folder : where settings, site log, cache and passing files stand.
    """

    metrics: tuple[Selected, ...]
    runtime: tuple[str, ...]
    bounds: tuple[str, ...]
    folder: str

    @property
    def site_folder(self) -> str:
        """Return the folder of the site log."""
        return os.path.join(self.folder, "sites")

    @property
    def cache_folder(self) -> str:
        """Return the folder of what is made once: the runtime's objects, answers of the compiler."""
        return os.path.join(self.folder, "cache")

    @property
    def passing_folder(self) -> str:
        """Return the folder of files that live as long as one wrapper run."""
        return os.path.join(self.folder, "passing")


def settings_text(software: Mapping[str, Event], runtime: Sequence[Path], bounds: Sequence[Path]) -> str:
    """Return the JSON text of the settings file."""
    metrics = [
        {
            "name": name,
            "kind": event.kind,
            "target": event.target,
            "within": event.within,
            "file": event.file,
            "add": event.add,
            "need": need_of(event)._asdict(),
        }
        for name, event in software.items()
    ]
    described = {
        "format": _FORMAT,
        "metrics": metrics,
        "runtime": [str(path.absolute()) for path in runtime],
        "bounds": [str(path.absolute()) for path in bounds],
    }
    return json.dumps(described, indent=1) + "\n"


def read_settings(path: str) -> Settings:
    """Read a settings file.

    Raises
    ------
    SpecError
        The file is missing, is no settings file, or another version wrote it.
    """
    try:
        with open(path, encoding="utf-8") as file:
            described: dict[str, Any] = json.load(file)
        if described["format"] != _FORMAT:
            raise SpecError(f"{path}: written by another version (format {described['format']}); write the toolchain anew")
        return Settings(
            tuple(Selected(**{**metric, "need": Need.from_json(metric["need"])}) for metric in described["metrics"]),
            tuple(described["runtime"]),
            tuple(described["bounds"]),
            os.path.dirname(os.path.abspath(path)),
        )
    except OSError as error:
        raise SpecError(f"{path}: the settings file cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SpecError(f"{path}: this is no settings file of the instrumenting compiler") from None


def write_aside(path: str, content: bytes, *, executable: bool = False) -> None:
    """Write a file that appears whole or not at all, however many processes write it at once."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    aside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        with open(aside, "wb") as file:
            file.write(content)
        if executable:
            os.chmod(aside, 0o755)
        os.replace(aside, path)
    except BaseException:
        if os.path.exists(aside):
            os.unlink(aside)
        raise
