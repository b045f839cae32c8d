"""Exports for other tools. Each module in this folder defines its formats as records of class `Format`.

Other packages add formats through entry points of the group `unperturbed.exports`, each naming a `Format` record.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.metric_names import is_simulated
from unperturbed.common.extensions import loaders, records_in
from unperturbed.common.scratch import naming, scratch_folder
from unperturbed.common.wording import did_you_mean, listing
from unperturbed.errors import SpecError

if TYPE_CHECKING:
    from unperturbed.collectors.data import Metric, Trace
    from unperturbed.harness.exports.content.runs import ExportedRuns

__all__ = ["Format", "Kind", "choose_format", "export", "formats"]

Kind = str
"""Kind of content that can be exported: `trace`, `campaign`, `table`, or the kind of an analysis method.

`trace`: a `Trace` of one run, or of several merged runs (it then has the attribute `merged`). `campaign`: all or
selected runs of a recorded campaign (`exports.content.ExportedRuns`). `table`: a `SweepTable`. An analysis method adds
the kind of its result by an entry point of the group `unperturbed.export_kinds`, which has the kind's name and refers
to the class of the result.
"""

_OWN_KINDS = ("trace", "campaign", "table")

GROUP = "unperturbed.exports"


@dataclass(frozen=True, slots=True)
class Format:
    """File format for exported data."""

    name: str  # Value of `--format`
    suffixes: tuple[str, ...]  # File-name suffixes that select the format, such as `.csv`
    # For each kind of content, a function that writes the content to a path. The path is in an empty folder: a
    # format with several files writes the others beside the path, with names that begin with its stem. If the format
    # is a folder, the function creates the folder at the path.
    writers: Mapping[Kind, Callable[[Any, Path], None]]
    timeline: bool = False  # The format has a time axis for each run: runs can be aligned and their phases shown
    shows_kinds: bool = True  # The format marks simulated metrics, as `title_of` does; otherwise the command lists them

    def __post_init__(self) -> None:
        if set(self.writers) <= set(_OWN_KINDS):
            return
        known = (*_OWN_KINDS, *loaders("unperturbed.export_kinds", type))
        if unknown := set(self.writers) - set(known):
            raise ValueError(
                f"export format {self.name}: the keys of `writers` must be kinds of content ({listing(known, 'or')}), "
                f"not {listing(sorted(unknown))}"
            )


def run_writers(write: Callable[[ExportedRuns, Path], None]) -> Mapping[Kind, Callable[[Any, Path], None]]:
    """Return the writers of a format for campaign runs; a single trace is written as a campaign with one run."""

    def write_trace(trace: Trace, path: Path) -> None:
        from unperturbed.harness.exports.content.runs import single_run  # noqa: PLC0415  slow to load

        write(single_run(trace, path.stem), path)

    return {"trace": write_trace, "campaign": write}


def title_of(metric: Metric) -> str:
    """Return a metric's name, marked "simulated" or "scaled" if the metric is."""
    simulated = metric.kind in ("simulated", "software") and is_simulated(metric)
    marks = [*(["simulated"] if simulated else []), *(["scaled"] if metric.scaled else [])]
    return f"{metric.name} ({', '.join(marks)})" if marks else metric.name


def unique_word(name: str, taken: set[str], suffixes: Sequence[str] = ("",)) -> str:
    """Return a unique name of letters, digits and `_`, and reserve it with each of the suffixes."""
    return unique_name(re.sub(r"[^a-zA-Z0-9_]", "_", name), taken, mark="_", suffixes=suffixes)


def unique_name(
    name: str, taken: set[str], *, mark: str = " ", longest: int | None = None, suffixes: Sequence[str] = ("",)
) -> str:
    """Return a unique name of at most `longest` characters (`name 2`), and reserve it with each of the suffixes."""
    chosen, number = name[:longest], 1
    while not taken.isdisjoint(f"{chosen}{suffix}" for suffix in suffixes):
        number += 1
        ending = f"{mark}{number}"
        chosen = f"{name if longest is None else name[: longest - len(ending)].rstrip()}{ending}"
    taken.update(f"{chosen}{suffix}" for suffix in suffixes)
    return chosen


def formats(kind: Kind) -> dict[str, Format]:
    """Return the formats that can contain a kind of content, by name."""
    registered = records_in(__name__, Format, group=GROUP)
    return {name: export_format for name, export_format in registered.items() if kind in export_format.writers}


def choose_format(kind: Kind, path: Path, name: str | None = None) -> Format:
    """Return the format for a file to write.

    Parameters
    ----------
    kind : Kind
        The kind of content to write.
    path : Path
        The file. If no format is named, the file's suffix selects the format.
    name : str, optional
        The format's name.

    Returns
    -------
    Format
        A format with a writer for this kind.

    Raises
    ------
    SpecError
        No format has this name or suffix, or the file's folder does not exist.
    """
    known = formats(kind)
    if path.is_dir():
        raise SpecError(f"{path} is a folder: give the name of a file in it")
    if not path.parent.is_dir():
        raise SpecError(f"{path}: the folder {path.parent} does not exist; create it, or give a different path")
    if name is not None:
        if name not in known:
            meant = did_you_mean(name, known) or f"use {listing(known, 'or')}"
            raise SpecError(f"cannot export a {kind} in format {name!r}; {meant}")
        return known[name]
    fitting = [(suffix, each) for each in known.values() for suffix in each.suffixes if path.name.endswith(suffix)]
    if fitting:
        return max(fitting, key=lambda pair: len(pair[0]))[1]
    suffixes = listing(
        dict.fromkeys(suffix for export_format in known.values() for suffix in export_format.suffixes), "or"
    )
    advice = f"use a name that ends in {suffixes}, or set --format to {listing(known, 'or')}"
    raise SpecError(f"{path}: no format matches the file's name; {advice}")


def export(content: Any, kind: Kind, path: Path, *, name: str | None = None) -> None:
    """Write content in the format selected by name or by the file's suffix; replace each file atomically.

    Parameters
    ----------
    content : object
        The content; `Kind` describes the types.
    kind : Kind
        The kind of content.
    path : Path
        The file.
    name : str, optional
        The format's name; the default is the format of the file's suffix.

    Raises
    ------
    SpecError
        As for `choose_format`.
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
