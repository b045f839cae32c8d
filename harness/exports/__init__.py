"""Write data for other tools. A format is one record `Format` in a module of this folder.

Another distribution adds one by an entry point of the group `unperturbed.exports` that names such a record.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from unperturbed.common.extensions import records_in
from unperturbed.common.scratch import naming, scratch_folder
from unperturbed.common.wording import did_you_mean, listing
from unperturbed.errors import SpecError

if TYPE_CHECKING:
    from unperturbed.collectors.data import Metric, Trace
    from unperturbed.harness.exports.content.runs import ExportedRuns

__all__ = ["Format", "Kind", "choose_format", "export", "formats"]

Kind = Literal["trace", "campaign", "table", "model", "diagnosis"]
"""Kinds of content that can be exported.

`trace`: a `Trace` of one run, or of several runs joined (`merged` is then among its attributes). `campaign`: runs of a
recorded campaign (`exports.content.ExportedRuns`), all or selected ones. `table`: a `SweepTable`. `model`: a
causal model. `diagnosis`: a diagnosis of an event log, with the logs that it compared.
"""

GROUP = "unperturbed.exports"


@dataclass(frozen=True, slots=True)
class Format:
    """A file format that data is written in."""

    name: str  # What `--format` calls it
    suffixes: tuple[str, ...]  # Ends of file names that choose it, as `.csv`
    # By what can be written (`Kind`), a function of the content and the path. The path is in an empty folder: a
    # format of several files writes the others beside it, under names that begin with the path's stem. A format that
    # is a folder makes one there.
    writers: Mapping[Kind, Callable[[Any, Path], None]]
    timeline: bool = False  # Runs have a time axis in it, so that they can be aligned and their phases shown
    shows_kinds: bool = True  # It shows which metrics are simulated, as `title_of` does; else the command notes them

    def __post_init__(self) -> None:
        if unknown := set(self.writers) - set(get_args(Kind)):
            raise ValueError(f"format {self.name}: unknown kind {listing(sorted(unknown))}")


def run_writers(write: Callable[[ExportedRuns, Path], None]) -> Mapping[Kind, Callable[[Any, Path], None]]:
    """Return the writers of a format that takes a campaign's runs, and one trace as the only run."""

    def write_trace(trace: Trace, path: Path) -> None:
        from unperturbed.harness.exports.content.runs import single_run  # noqa: PLC0415  slow to load

        write(single_run(trace, path.stem), path)

    return {"trace": write_trace, "campaign": write}


def title_of(metric: Metric) -> str:
    """Return a metric's name, and what a reader must not overlook of it."""
    marks = [*(["simulated"] if metric.kind == "simulated" else []), *(["scaled"] if metric.scaled else [])]
    return f"{metric.name} ({', '.join(marks)})" if marks else metric.name


def unique_word(name: str, taken: set[str], suffixes: Sequence[str] = ("",)) -> str:
    """Return a name in letters, digits and `_` that is not taken yet, with none of the suffixes, and take it."""
    word = plain = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    number = 1
    while not taken.isdisjoint(f"{word}{suffix}" for suffix in suffixes):
        number += 1
        word = f"{plain}_{number}"
    taken.update(f"{word}{suffix}" for suffix in suffixes)
    return word


def formats(kind: Kind) -> dict[str, Format]:
    """Return the formats that something of a kind can be written in, by name."""
    found = records_in(__name__, Format, group=GROUP)
    return {name: one for name, one in found.items() if kind in one.writers}


def choose_format(kind: Kind, path: Path, name: str | None = None) -> Format:
    """Return the format of a file to be written.

    Parameters
    ----------
    kind : Kind
        What is written.
    path : Path
        The file. Without a name of the format, its suffix decides.
    name : str, optional
        The format's name.

    Returns
    -------
    Format
        One that has a writer for this kind.

    Raises
    ------
    SpecError
        No format has this name or suffix, or the folder of the file does not exist.
    """
    known = formats(kind)
    if path.is_dir():
        raise SpecError(f"{path} is a folder: give the name of a file in it")
    if not path.parent.is_dir():
        raise SpecError(f"{path}: the folder {path.parent} does not exist")
    if name is not None:
        if name not in known:
            meant = did_you_mean(name, known) or f"use {listing(known, 'or')}"
            raise SpecError(f"no format {name!r} for a {kind}; {meant}")
        return known[name]
    for one in known.values():
        if path.name.endswith(one.suffixes):
            return one
    suffixes = listing(dict.fromkeys(suffix for one in known.values() for suffix in one.suffixes), "or")
    raise SpecError(f"{path}: give a name that ends in {suffixes}, or the format by --format ({listing(known, 'or')})")


def export(content: Any, kind: Kind, path: Path, *, name: str | None = None) -> None:
    """Write data in the format that a name or a file's suffix chooses. Every file appears whole or not at all.

    Parameters
    ----------
    content : object
        What is written; `Kind` describes the types.
    kind : Kind
        What it is.
    path : Path
        The file.
    name : str, optional
        The format's name, where the suffix does not decide.

    Raises
    ------
    SpecError
        As `choose_format`.
    """
    chosen = choose_format(kind, path, name)
    with naming(path), scratch_folder("export", path.parent) as aside:
        chosen.writers[kind](content, aside / path.name)
        for written in aside.rglob("*"):
            if written.is_file():
                with written.open("rb") as file:
                    os.fsync(file.fileno())
        for written in aside.iterdir():
            written.replace(path.with_name(written.name))
