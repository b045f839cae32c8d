"""Reading of other tools' files: recognition of their formats, and their traces."""

from __future__ import annotations

import glob
import hashlib
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType

from unperturbed.collectors.data.files import try_parquet_files
from unperturbed.collectors.data.trace import Trace
from unperturbed.collectors.imports.format import ImportFormat
from unperturbed.collectors.imports.monitors import OPTIONS, read_recordings
from unperturbed.collectors.imports.recipe import SUFFIXES, Recipe, own_recipes, read_recipe, users_recipes
from unperturbed.common.extensions import records_in
from unperturbed.common.packed import as_utf8, open_file, plain_name, unpack
from unperturbed.common.wording import did_you_mean, listing, visible
from unperturbed.errors import DataError, UnperturbedError

_LOG = logging.getLogger(__name__)
_HEAD = 4096

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def import_formats() -> Mapping[str, ImportFormat]:
    """Return every import format by name; formats of other packages come after this tool's, and recipes last."""
    return formats_and_faults()[0]


def broken_recipes() -> Mapping[str, str]:
    """Return what is wrong with recipes of the user that cannot be read, by the name of their format."""
    return formats_and_faults()[1]


@cache
def formats_and_faults() -> tuple[Mapping[str, ImportFormat], Mapping[str, str]]:
    """Return the formats, and the faults of the user's recipes; a recipe that cannot be read is no format.

    Recipes of users come first, and replace this tool's of the same name: also if they are broken, because this tool's
    would read their files in another way.
    """
    room = __name__.rpartition(".")[0]
    coded = records_in(room, ImportFormat, group="unperturbed.imports", inside=("perf", "totals"))
    recipes: dict[str, ImportFormat] = {}
    faults: dict[str, str] = {}
    for path in users_recipes():
        if path.stem in coded:
            faults[path.stem] = f"{path}: the recipe has the name of another import format: rename the file"
        elif path.stem not in recipes:
            try:
                recipes[path.stem] = recipe_format(path)
            except DataError as error:
                faults[path.stem] = str(error)
    for path in own_recipes():
        if path.stem not in recipes and path.stem not in faults:
            recipes[path.stem] = recipe_format(path)
    return MappingProxyType({**coded, **recipes}), MappingProxyType(faults)


@cache
def _warn_of(fault: str) -> None:
    """Warn once of a recipe that is left out."""
    _LOG.warning("a recipe is wrong and left out: %s", fault)


def _warn_of_broken_recipes() -> None:
    for fault in broken_recipes().values():
        _warn_of(fault)


def or_broken_recipe(message: str) -> str:
    """Return a message about a file that no format reads, with the broken recipes that may describe the file."""
    faults = list(broken_recipes().values())
    several = "recipes that describe" if len(faults) > 1 else "a recipe that describes"
    return f"{message}; if you have {several} this file, correct: {'; '.join(faults)}" if faults else message


def recipe_format(path: Path) -> ImportFormat:
    """Return the format that a recipe describes."""
    recipe = read_recipe(path)
    has_devices = any(rule.meaning == "device" for rule in recipe.rules)
    return ImportFormat(
        recipe.name,
        recipe.title,
        tuple(recipe.suffixes),
        partial(_recognise, recipe),
        partial(read_recordings, recipe),
        OPTIONS if has_devices else {name: OPTIONS[name] for name in OPTIONS if name != "devices"},
        is_table=True,
    )


def _recognise(recipe: Recipe, head: bytes) -> bool:
    return recipe.recognise.search(head.decode("utf-8-sig", "replace").replace("\r\n", "\n")) is not None


def find_format(name: str) -> ImportFormat:
    """Return the import format with the given name, or the one that a recipe's file describes.

    Raises
    ------
    DataError
        No format has this name; the message suggests the format that was probably meant, or lists all. Or the recipe
        is wrong: the message has its file, line and column.
    """
    if name.endswith(SUFFIXES):
        return recipe_format(Path(name))
    known = import_formats()
    if name in broken_recipes():
        raise DataError(broken_recipes()[name])
    if name in known:
        _warn_of_broken_recipes()
        return known[name]
    path = Path(name)
    if path.exists():
        file_format = recognise(path)
        advice = f"put its format, {file_format.name}, before the files" if file_format else ""
        known_formats = or_broken_recipe(f"put a format before the files: {listing(known, 'or')}")
        raise DataError(f"{name!r} is a file, not an import format; {advice or known_formats}")
    meant = did_you_mean(name, known, limit=1) or f"use {listing(known, 'or')}"
    raise DataError(f"unknown import format {name!r}; {meant}")


def recognise(path: Path) -> ImportFormat | None:
    """Return the format that a file's beginning matches; None if no format matches or the file cannot be read."""
    try:
        with open_file(path) as file:
            head = as_utf8(file.read(_HEAD), str(path), "ignore")
    except (OSError, UnperturbedError):
        return None
    return _format_of(head)


def _format_of(head: bytes) -> ImportFormat | None:
    formats = sorted(import_formats().values(), key=lambda known: known.general)  # stable: general formats move last
    found = next((known for known in formats if head and known.recognise(head)), None)
    if found is not None:
        _warn_of_broken_recipes()
    return found


def find_files(paths: Paths) -> list[Path]:
    """Return the files given by paths, patterns and folders; files of a pattern or folder are in natural order.

    Parameters
    ----------
    paths : path-like or iterable of path-like
        Files, folders, and patterns such as `base/*.csv`.

    Returns
    -------
    list of Path
        At least one file; no file twice.

    Raises
    ------
    DataError
        A path or pattern matches no file, or a file is given twice.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    all_files: list[Path] = []
    for name in given:
        text = os.fspath(name)
        path = Path(text)
        if path.is_dir():
            files = (file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
            inside = sorted(files, key=_natural)
        elif path.exists():
            if not path.is_file():
                raise DataError(
                    f"{text} is a pipe, a socket or a device: write its content to a file, and give that file"
                )
            inside = [path]
        else:
            matching = map(Path, glob.glob(text))  # noqa: PTH207  Path.glob takes no absolute pattern
            inside = sorted((file for file in matching if file.is_file()), key=_natural)
        if not inside:
            raise DataError(f"{text}: {'the folder contains no files' if path.is_dir() else 'no such file'}")
        all_files += inside
    if not all_files:
        raise DataError("no file to import: give at least one file")
    if len(set(all_files)) < len(all_files):
        twice = next(file for file in all_files if all_files.count(file) > 1)
        raise DataError(f"{twice} is given more than once: give each file once")
    return all_files


def read_traces(paths: Paths, format: str | None = None, **mapping: str) -> list[Trace]:  # noqa: A002
    """Read traces that another tool recorded.

    Parameters
    ----------
    paths : path-like or iterable of path-like
        Files, folders, and patterns such as `base/*.csv`; the files of a pattern or folder are read in natural order.
        Files may be compressed by gzip, bzip2, zstd or xz.
    format : str, optional
        The name of the format, such as `perf-stat`, or the file of a recipe (`.yaml`). By default, each file's
        beginning determines its format.
    **mapping : str
        Options of the format, such as the roles of a table's columns: `time="seconds", run="id"`.

    Returns
    -------
    list of Trace
        One trace per run. Its attributes include `run` (a name), `file`, `sha256` (of the file), `imported` (the
        format's title) and `notes` (a list of sentences about omitted data).

    Raises
    ------
    DataError
        A file does not exist, has a different format, or is damaged. The message has the file and the line.
    """
    chosen = None if format is None else find_format(format)
    files = find_files(paths)
    names = [plain_name(file).stem for file in files]
    if len(set(names)) < len(names):
        names = [str(plain_name(file).with_suffix("")) for file in files]
    try_parquet_files(files)
    traces: list[Trace] = []
    for file, name in zip(files, names, strict=True):
        traces += read_file(file, chosen, mapping, name)
    if not traces:
        raise DataError(f"{files[0]}: this file describes results, but has none: give the files that have them")
    return traces


def read_perf_stat(paths: Paths) -> list[Trace]:
    """Read the output of `perf stat -I MS -x, …` or `perf stat -I MS -j …`.

    Parameters
    ----------
    paths : path-like or iterable of path-like
        Files, folders, and patterns such as `base/*.csv`.

    Returns
    -------
    list of Trace
        One trace per recording, as `read_traces` describes.

    Raises
    ------
    DataError
        As for `read_traces`.
    """
    return read_traces(paths, "perf-stat")


def _check_names(traces: Iterable[Trace], path: Path) -> None:
    """Refuse names that no file can contain: JSON can encode an unpaired surrogate."""
    names = {
        name
        for trace in traces
        for name in (*trace.metrics, *(str(trace.attributes.get(fact, "")) for fact in ("run", "benchmark")))
    }
    for name in sorted(names):
        if re.search("[\ud800-\udfff]", name):
            shown = f"{path}: the name {visible(name)!r}"
            raise DataError(f"{shown} is not valid Unicode: it contains an unpaired surrogate")


def read_file(path: Path, chosen: ImportFormat | None, options: Mapping[str, str], name: str) -> list[Trace]:
    """Read the runs of one file; if no format is chosen, the file's beginning determines it."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot read the file: {error.strerror}") from None
    content = as_utf8(unpack(packed, str(path)), str(path))
    head, recognised = content[:_HEAD], chosen is None
    if not content.strip():
        raise DataError(f"{path}: the file {'contains only white space' if content else 'is empty'}")
    if chosen is None:
        chosen = _format_of(head)
        if chosen is None:
            _refuse_others(path, head)
            message = f"{path}:1: unrecognised format; specify one of the formats {listing(import_formats())}"
            raise DataError(or_broken_recipe(message))
    elif not chosen.recognise(head):
        _refuse_others(path, head)
        if other := _format_of(head):
            advice = f"use the format {other.name}"
            raise DataError(f"{path}:1: this is {other.title}, not {chosen.title}; {advice}")
    chosen.check_options(options)
    try:
        traces = chosen.read(content, path, options)
    except DataError as error:
        if recognised and chosen.general and broken_recipes():
            raise DataError(or_broken_recipe(str(error))) from None
        other = _format_of(head)
        if other is None or other is chosen or other.general:
            raise
        raise DataError(f"{error}; the file is probably {other.title}: use the format {other.name}") from None
    _check_names(traces, path)
    digest = hashlib.sha256(packed).hexdigest()
    facts = {"file": str(path), "sha256": digest, "imported": chosen.title}
    names = [name] if len(traces) == 1 else [f"{name} #{number}" for number in range(1, 1 + len(traces))]
    return [
        replace(trace, attributes={"run": run, **trace.attributes, **facts})
        for run, trace in zip(names, traces, strict=True)
    ]


def _refuse_others(path: Path, head: bytes) -> None:
    """Refuse a file that is known to be of another kind, with the way to one that can be read."""
    for begin, what in _OTHER_FILES:
        if re.match(begin, head):
            raise DataError(f"{path}:1: this is {what}")


_PRINT_SADF = "print the recording of `sar -o FILE` by `sadf -d FILE`"
_OTHER_FILES: Sequence[tuple[bytes, str]] = (
    (rb"SQLite format 3\0", "an SQLite database; to check a campaign, use `unperturbed check FOLDER`"),
    (rb"PERFILE2", "a perf recording; convert it with `perf script`, then use `unperturbed import perf-script`"),
    (rb"PK\x03\x04", "a ZIP archive; extract it first"),
    (rb"\x7fELF", "a program (ELF); to measure it, use `unperturbed run -- PROGRAM`"),
    (
        rb"(?:#[^\n]*\n)*#Date[ ,;]Time[ ,;]PID[ ,;]",
        "a list of processes by collectl, which cannot be imported; record without -sZ",
    ),
    (rb"command,mean,stddev,", "a table of hyperfine, which lacks the single runs; record with --export-json"),
    (rb"\x96\xd5", f"a recording of sar; {_PRINT_SADF}"),
    (rb"Linux \d\S* \(", f"a report of sar, iostat, mpstat or pidstat; {_PRINT_SADF}"),
    (rb'\s*\{\s*"sysstat"', f"JSON of sadf or another tool of sysstat; {_PRINT_SADF}"),
    (rb"\S+\t-?\d+\t(?:\d{10}|\d{4}-\d\d-\d\d [^\t\n]*)\t[^\n]*\t", f"a list of sadf -p; {_PRINT_SADF}"),
    (rb"<\?xml[^>]*>\s*<!DOCTYPE[^>]*>\s*<sysstat", f"XML of sadf; {_PRINT_SADF}"),
    (rb"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, ", "a list of nvidia-smi without names; record it without noheader"),
    (
        rb"[^\n]*\n\+-{20,}\+\r?\n\| NVIDIA-SMI",
        "a table of nvidia-smi for people; record it with --query-gpu=… --format=csv",
    ),
    (
        rb"\S[^\n]*? +\d+(?:/\d+)? +[\w:-]+: *\n\s*[0-9a-f]{6,} \S",
        "a list of samples of perf without their time; print them by `perf script -F comm,tid,time,period,event`",
    ),
    (
        rb"[ \t]*(?:[-+\d.:/eE]+(?:[ \t]+|[ \t]*[,;][ \t]*)){2,}[-+\d.:/eE]+[ \t\r]*\n",
        "a table without names; add a line with the names of the columns above the rows",
    ),
)
"""Beginnings of files that no format reads."""


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """Return a sort key that puts `run9` before `run10`."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part.isdigit()), int(part) if part.isdigit() else 0, part) for part in parts]
