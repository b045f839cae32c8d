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

__all__ = ["Selected", "Settings", "layout_file", "read_settings", "settings_text", "write_aside"]

_FORMAT = 4


class Selected(NamedTuple):
    """One metric that is compiled in: its name, its number among all software metrics, its event's parts (as in `Event`), its prefilter."""

    name: str
    number: int
    kind: str
    target: str
    within: str | None
    file: str | None
    add: str | None
    threads: str
    need: Need


class Settings(NamedTuple):
    """Settings of one toolchain.

    Attributes
    ----------
    metrics : the software metrics that are compiled in.
    runtime : C sources compiled and linked into every program.
    bounds : C sources compiled and linked first and last into every program and shared library: between them lie its counters.
    sham : put a no-op of the same length in the place of each increment: the layout without the counting.
    layouts : note every link, so that it can be made again in another layout.
    folder : where settings, site log, cache and passing files stand.
    layout : what the layout of every link is drawn from; empty: as the build's commands say.
    """

    metrics: tuple[Selected, ...]
    runtime: tuple[str, ...]
    bounds: tuple[str, ...]
    sham: bool
    layouts: bool
    folder: str
    layout: str = ""

    @property
    def site_folder(self) -> str:
        """Return the folder of the site log."""
        return os.path.join(self.folder, "sites")

    @property
    def passed_log(self) -> str:
        """Return the file to which sources are appended that hold no site."""
        return os.path.join(self.site_folder, "passed")

    @property
    def folders_prefix(self) -> str:
        """Return the beginning of the files in which the compiler's own folders are noted."""
        return os.path.join(self.cache_folder, "folders")

    @property
    def noted_folder(self) -> str:
        """Return the folder of marks: what has been said on standard error, to be said once."""
        return os.path.join(self.folder, "noted")

    @property
    def link_folder(self) -> str:
        """Return the folder of the links that were noted."""
        return os.path.join(self.folder, "links")

    @property
    def cache_folder(self) -> str:
        """Return the folder of what is made once: the runtime's objects, answers of the compiler."""
        return os.path.join(self.folder, "cache")

    @property
    def passing_folder(self) -> str:
        """Return the folder of files that live as long as one wrapper run."""
        return os.path.join(self.folder, "passing")


def layout_file(folder: str) -> str:
    """Return the file in a toolchain's folder that holds what layouts are drawn from."""
    return os.path.join(folder, "layout")


def settings_text(
    software: Mapping[str, Event], runtime: Sequence[Path], bounds: Sequence[Path], *, sham: bool = False, layouts: bool = False
) -> str:
    """Return the JSON text of the settings file; the order of `software` gives the metrics' numbers."""
    metrics = [
        {
            "name": name,
            "number": number,
            "kind": event.kind,
            "target": event.target,
            "within": event.within,
            "file": event.file,
            "add": event.add,
            "threads": event.threads,
            "need": need_of(event)._asdict(),
        }
        for number, (name, event) in enumerate(software.items())
        if event.means == "compiled"
    ]
    described = {
        "format": _FORMAT,
        "metrics": metrics,
        "runtime": [str(path.absolute()) for path in runtime],
        "bounds": [str(path.absolute()) for path in bounds],
        "sham": sham,
        "layouts": layouts,
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
        folder = os.path.dirname(os.path.abspath(path))
        return Settings(
            tuple(Selected(**{**metric, "need": Need.from_json(metric["need"])}) for metric in described["metrics"]),
            tuple(described["runtime"]),
            tuple(described["bounds"]),
            bool(described["sham"]),
            bool(described["layouts"]),
            folder,
            _layout(folder) if described["layouts"] else "",
        )
    except OSError as error:
        raise SpecError(f"{path}: the settings file cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SpecError(f"{path}: this is no settings file of the instrumenting compiler") from None


def _layout(folder: str) -> str:
    """Read what layouts are drawn from; it is in a file of its own, as a build may keep no variable of ours for its compilers."""
    try:
        with open(layout_file(folder), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def write_aside(path: str, content: bytes, *, executable: bool = False, changed_ns: int | None = None) -> None:
    """Write a file that appears whole or not at all, however many processes write it at once.

    Parameters
    ----------
    changed_ns : time of change that it shall have; None: the time when it is written.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    aside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        with open(aside, "wb") as file:
            file.write(content)
        if executable:
            os.chmod(aside, 0o755)
        if changed_ns is not None:
            os.utime(aside, ns=(changed_ns, changed_ns))
        os.replace(aside, path)
    except BaseException:
        if os.path.exists(aside):
            os.unlink(aside)
        raise
