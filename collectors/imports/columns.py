"""Tables with one row per interval and one column per metric: CSV with a header row, and Apache Parquet.

If this tool wrote a Parquet file, the file describes its metrics; the import uses these descriptions.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

import numpy as np

from unperturbed.collectors.data.files import decode_parquet
from unperturbed.collectors.data.trace import INTERVAL_COLUMNS, Kind, Metric, Semantics, Trace
from unperturbed.collectors.imports.format import (
    ImportFormat,
    IntArray,
    common_options,
    decode,
    known_kind,
    make_counted_trace,
    refuse,
    with_attributes,
)
from unperturbed.collectors.imports.table import UNITS, Table, date_of, is_numeric
from unperturbed.common.packed import plain_name
from unperturbed.common.wording import counted, listing, no_such_column

if TYPE_CHECKING:
    import polars as pl

_OPTIONS: Mapping[str, str] = {
    "time": "column with the end of each interval (default: time, timestamp, end_ns or similar)",
    "begin": "column with the beginning of each interval (default: the end of the previous row's interval)",
    "unit": "unit of both columns: s, ms, us, ns, min or h (default: that of a line below the names, or the suffix of "
    "the time column's name, or else s)",
    "run": "column that identifies runs (default: run if it exists; otherwise each file is one run)",
    "configuration": "column with the configuration of each run (default: configuration if it exists)",
    "metrics": "columns with metrics, separated by commas (default: all other numeric columns)",
    "values": "counts: each row has the counts of its interval; cumulative: counts since the start; gauge: values that "
    "are no counts, such as rates and sizes (default: counts)",
    "gauges": "columns with levels or rates, separated by commas, beside columns with counts (default: none)",
    "kind": "kind of metrics with unknown names: hardware, simulated, os, software or derived (default: os)",
}

_SEMANTICS: tuple[tuple[str, Semantics], ...] = (("events", "counter"), ("1", "gauge"))
_OF_LEVELS = frozenset({"%", "°C", "degC", "C", "V", "A", "W", "mW", "kW", "Hz", "kHz", "MHz", "GHz"})
"""Units of what is no count."""
_LEVEL = re.compile(
    r"temp(erature)?(?![a-z])|[_ ](percent|pct|degc|celsius|watts?|volts?|[kmg]?hz)$"
    r"|(?<![a-z])(latency|heap|rss|free|usage|utili[sz]ation|ratio|rate|average|avg|mean|median|p[5-9]\d|load|depth)"
    r"(?![a-z])",
    re.IGNORECASE,
)
"""Names of levels and rates, such as temperatures."""
_ROLES = ("time", "begin", "run", "configuration")
_TIMES = ("end_ns", "time", "timestamp", "datetime", "seconds", "time_s", "time_ms", "time_us", "time_ns", "t")
_OF_EXPORTS = ("pass", "repetition", "interval", "start", "duration", *INTERVAL_COLUMNS)
"""Columns of this tool's own tables that are not metrics."""


@dataclass(frozen=True)
class _Columns(Table):
    """Table with the intervals of one or more runs, whose columns have the roles that options or names give."""

    options: Mapping[str, str] = field(default_factory=dict)
    described: Mapping[str, Metric] = field(default_factory=dict)  # Metrics that the file describes
    notes: Sequence[str] = ()
    units: Mapping[str, str] = field(default_factory=dict)  # Of columns, from a line below the names

    def traces(self) -> list[Trace]:
        """Return the traces of the table's runs."""
        import polars as pl  # noqa: PLC0415

        roles = self._roles()
        if not len(self.frame):
            refuse(self.path, "the table has no rows below the header")
        if dated := self._with_dates(roles):
            return dated.traces()
        frame, path, options = self.frame, self.path, self.options
        names, left_out = self._metric_columns(roles)
        timed: list[str] = [role for role in ("time", "begin") if role in roles]
        factor = self._unit_of_times(roles["time"])
        times = {role: self.times(roles[role], role, factor, is_given="unit" in options) for role in timed}
        advice = "" if "metrics" in options else "; if the column is no metric, name those that are with metrics=A,B"
        numbers = {name: self.read(name, advice=advice) for name in names}
        columns = {name: read.values for name, read in numbers.items()}
        guesses = [f"{name} was read with {read.guess}" for name, read in numbers.items() if read.guess]
        marking = [role for role in ("configuration", "run") if role in roles]
        groups: dict[tuple[str, ...], IntArray] = {(): np.arange(len(frame))}
        if marking:
            keys = [roles[role] for role in marking]
            rows = frame.select(pl.col(keys).cast(pl.String).fill_null("")).with_row_index("row")
            parts = rows.group_by(keys, maintain_order=True).agg("row").rows()
            groups = {tuple(part[:-1]): np.asarray(part[-1], np.int64) for part in parts}
        meant = common_options(options, path, "values", ("counts", "cumulative", "gauge"), "counts")
        kind = cast(Kind, common_options(options, path, "kind", get_args(Kind), "os"))
        source = plain_name(path).suffix[1:]
        gauges = self._gauges(names, meant)
        metrics = []
        for name, read in numbers.items():
            unit, semantics = _SEMANTICS[name in gauges]
            unit = read.unit or self.units.get(name) or unit
            metrics.append(self.described.get(name) or Metric(name, known_kind(name) or kind, unit, semantics, source))
        levels = [
            each.name + (f" ({each.unit})" if each.unit in _OF_LEVELS else "")
            for each in metrics
            if each.semantics == "counter" and (each.unit in _OF_LEVELS or _LEVEL.search(each.name))
        ]
        if levels and meant == "counts":
            guesses.append(f"{listing(levels)}: read as counts; for levels and rates, import with gauges=NAME,NAME")
        traces = []
        for key, here in groups.items():
            bounds, values, notes = self.intervals(here, times, columns, cumulative=meant == "cumulative")
            trace = make_counted_trace(
                metrics, values, bounds, path, missing="missing", notes=[*self.notes, *left_out, *guesses, *notes]
            )
            started = date_of(times["begin" if "begin" in times else "time"][here])
            facts = {"started": started} if started else {}
            traces.append(with_attributes(trace, **facts, **dict(zip(marking, key, strict=False))))
        return traces

    def _gauges(self, names: Sequence[str], meant: str) -> frozenset[str]:
        """Return the metrics that are no counts."""
        asked = [name.strip() for name in self.options.get("gauges", "").split(",") if name.strip()]
        for name in asked:
            if name not in names:
                refuse(self.path, f"gauges: {no_such_column(name, names)}", 1)
        if asked and meant == "cumulative":
            refuse(self.path, "gauges with values=cumulative: import them apart from the counters that keep counting")
        return frozenset(names if meant == "gauge" else asked)

    def _unit_of_times(self, name: str) -> int:
        """Return the unit [ns] of a column of times: as asked, below its name, in its name, or a second."""
        from unperturbed.common.reading.cells import TIMES_NS  # noqa: PLC0415  loads polars

        ending = re.search(rf"[_\[( ]({'|'.join(UNITS)})[\])]?$", name)
        usual = ending[1] if ending else "s"
        below = self.units.get(name, "").strip("()[] ")
        if not below or "unit" in self.options:
            return UNITS[common_options(self.options, self.path, "unit", tuple(UNITS), usual)]
        if below not in TIMES_NS:
            refuse(
                self.path, f"the line below the names gives the times of {name} in {below!r}: name their unit: unit="
            )
        return TIMES_NS[below]

    def _roles(self) -> dict[str, str]:
        """Return the column for each role (`time`, `begin`, `run`, `configuration`) that the table has a column for."""
        options, names = self.options, self.frame.columns
        roles = {role: options[role] for role in _ROLES if role in options}
        for role, name in roles.items():
            if name not in names:
                refuse(self.path, f"{role}={name}: {no_such_column(name, names)}", 1)
        folded = {name.casefold().strip(): name for name in reversed(names)}
        if "time" not in roles:
            known = next((folded[name] for name in _TIMES if name in folded), None)
            if known is None:
                columns = listing(names[:12])
                refuse(
                    self.path, f"cannot find the time column: name it with time=COLUMN; the columns are {columns}", 1
                )
            roles["time"] = known
            if known == "end_ns" and "begin_ns" in folded:
                roles.setdefault("begin", "begin_ns")
        for role in ("run", "configuration"):
            if role in folded:
                roles.setdefault(role, folded[role])
        return roles

    def _with_dates(self, roles: Mapping[str, str]) -> _Columns | None:
        """Return the table with dates in its times of day, if a column of its own has the dates."""
        import polars as pl  # noqa: PLC0415

        from unperturbed.common.reading.cells import read_moments  # noqa: PLC0415  loads polars

        name = next((name for name in self.frame.columns if name.casefold().strip() == "date"), None)
        if name is None or name in roles.values() or "date" in self.options.get("metrics", "").split(","):
            return None
        dates = self.frame[name].cast(pl.String).str.replace(r"^((?:19|20)\d\d)(\d\d)(\d\d)$", "${1}-${2}-${3}")
        joined, first = {}, ""
        for role in ("time", "begin"):
            clock = self.frame[roles[role]].cast(pl.String) if role in roles else pl.Series([], dtype=pl.String)
            if not bool(clock.str.contains(r"^\s*\d{1,2}:\d{2}").any()) or role not in roles:
                continue
            both = pl.select(pl.concat_str(dates.str.strip_chars(), clock.str.strip_chars(), separator=" ")).to_series()
            first = first or str(both[0])
            if read_moments(both) is None:
                what = f"the columns {name} and {roles[role]} are no date and time together ({both[0]!r})"
                self.refuse(0, f"{what}: write both as 2024-05-01 12:00:00")
            joined[roles[role]] = both.alias(roles[role])
        if not joined:
            return None
        frame = self.frame.drop(name).with_columns(**joined)
        note = f"the times are those of {' and '.join(joined)} on the dates of {name}"
        return replace(self, frame=frame, notes=[*self.notes, note])

    def _metric_columns(self, roles: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """Return the metric columns, and a note about the columns that are left out."""
        columns = self.frame.columns
        if "metrics" in self.options:
            names = [name.strip() for name in self.options["metrics"].split(",") if name.strip()]
            for name in names:
                if name not in columns:
                    refuse(self.path, f"metrics: {no_such_column(name, columns)}", 1)
            return names, []
        others = [name for name in columns if name not in roles.values() and name not in _OF_EXPORTS]
        names = [name for name in others if is_numeric(self.frame[name])]
        texts = [name for name in others if name not in names]
        if not names:
            self.refuse(0, f"no metrics to import: no column except {listing(roles.values())} contains numbers")
        what = "column" if len(texts) == 1 else "columns"
        return names, [f"the import leaves out the non-numeric {what} {listing(texts)}"] if texts else []


_SEPARATORS = ",;\t"
_FIRST_LINES = 400
"""Lines among which the names are."""
_NUMBER = re.compile(r"\s*-?\d[\d.,eE+-]*\s*")


def _recognise_csv(head: bytes) -> bool:
    given = head.decode("utf-8-sig", "replace").splitlines()[:30]
    named = _names_in_comment(given)
    lines = [line for line in given if line.strip() and not line.startswith("#")]
    lines = [named, *lines] if named else lines
    if len(lines) < 2 or (not lines[0].isprintable() and "\t" not in lines[0]):
        return False
    separator = _separator(lines[0])
    try:
        names, values = (next(csv.reader([line], delimiter=separator)) for line in lines[:2])
    except csv.Error:  # a zero byte, or a field longer than any number
        return False
    if len(names) < 2 or len(values) != len(names) or lines[0].lstrip().startswith(("{", "[")):
        return False
    return not any(_NUMBER.fullmatch(name) for name in names) and any(_NUMBER.fullmatch(value) for value in values)


def _names_in_comment(lines: Sequence[str]) -> str:
    """Return the last comment above the first row, if it names a time and as many columns as the row has numbers."""
    first = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
    above = [line for line in lines[:first] if line.strip()]
    if not above or above[-1].startswith("#  "):  # perf aligns the names of its --metric-only
        return ""
    names, separator = above[-1].lstrip("#").strip(), _separator(lines[first])
    cells, parts = lines[first].split(separator), names.split(separator)
    fits = len(parts) == len(cells) > 1 and _all_numbers(cells)
    return names if fits and any(part.strip().casefold() in _TIMES for part in parts) else ""


def _separator(line: str) -> str:
    return max(_SEPARATORS, key=line.count)


def _read_csv(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    import polars as pl  # noqa: PLC0415  slow to load

    from unperturbed.common.reading.cells import usual_comma  # noqa: PLC0415  loads polars
    from unperturbed.common.reading.delimited import find_heading  # noqa: PLC0415  loads polars

    text = decode(content, path)
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if first is None:
        refuse(path, "no header: the first line must name the columns")
    separator = _separator(lines[first])
    named = _names_in_comment(lines)
    heading, begin = (named, first) if named else (lines[first], first + 1)
    names = [name.strip() for name in next(csv.reader([heading], delimiter=separator))]
    above, units = [], {}
    if not named and _is_followed_by_names(lines[first:]):
        sign, found, titles = find_heading(lines[:_FIRST_LINES], path)
        if (titles or found.units) and len(found.lines) == 1 and sign in _SEPARATORS:
            separator, names, begin = sign, found.names, found.end
            first, heading = found.lines[0], lines[found.lines[0]]
            units = {name: unit for name, unit in zip(names, found.units, strict=False) if unit.strip("-")}
            above = [f"{counted(len(titles), 'line')} above the names left out"] if titles else []
    _check_names(names, path, first + 1)
    rows = [number for number, line in enumerate(lines[begin:], begin) if line.strip() and line[0] != "#"]
    data = [number for number in rows if lines[number] != heading]
    columns = separator.join(f"column {at}" for at in range(len(names)))
    body = "\n".join((columns, *(lines[at] for at in data), ""))
    # polars fills short rows with nulls, and reports rows with too many fields without a line number.
    if '"' in body or body.count(separator) != (len(names) - 1) * (len(data) + 1):
        _refuse_ragged(lines, separator, len(names), path, begin)
    file = BytesIO(body.encode())
    try:
        frame = pl.read_csv(file, separator=separator, infer_schema=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        _refuse_ragged(lines, separator, len(names), path, begin)
        refuse(path, f"cannot read a table from this file ({str(error).strip().partition(chr(10))[0]})")
    frame, notes = _named(frame, names)
    if again := len(rows) - len(data):
        notes.append(f"the import leaves out {counted(again, 'line')} with the names again")
    comma = usual_comma(frame, separator) if separator != "," or '"' in body else "thousands"
    notes = [*above, *notes]
    return _Columns(frame, path, lambda row: data[row] + 1, comma, options, notes=notes, units=units).traces()


def _is_followed_by_names(lines: Sequence[str]) -> bool:
    """Return whether the first line may be a title, or be followed by units: the second is no row of its numbers."""
    filled = (line for line in lines if line.strip() and not line.startswith("#"))
    first, second = next(filled, ""), next(filled, "")
    separator = _separator(second)
    return first.count(separator) != second.count(separator) or not any(map(_NUMBER.match, second.split(separator)))


def _named(frame: pl.DataFrame, names: Sequence[str]) -> tuple[pl.DataFrame, list[str]]:
    """Return a table under its names, without a first column that has none and counts the rows, as pandas writes it."""
    import polars as pl  # noqa: PLC0415

    if not names[0]:
        counted_rows = frame.to_series(0).cast(pl.Int64, strict=False)
        if any((counted_rows == pl.int_range(first, len(frame) + first, eager=True)).all() for first in (0, 1)):
            frame, names = frame.drop(frame.columns[0]), names[1:]
            note = ["the import leaves out column 1, which has no name and counts the rows"]
            return frame.rename(dict(zip(frame.columns, _filled(names, 2), strict=True))), note
    return frame.rename(dict(zip(frame.columns, _filled(names, 1), strict=True))), []


def _filled(names: Sequence[str], first: int) -> list[str]:
    return [name or f"column_{at}" for at, name in enumerate(names, first)]


def _all_numbers(cells: Sequence[str]) -> bool:
    return all(map(_NUMBER.fullmatch, cells))


def _check_names(names: list[str], path: Path, line: int) -> None:
    if len(names) < 2:
        refuse(path, "only one column: the header must name a time column and metrics", line)
    if _all_numbers(names):
        refuse(path, "the header consists of numbers: add a line with the names of the columns", line)
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        refuse(path, f"two columns are named {twice!r}", line)


def _refuse_ragged(lines: list[str], separator: str, columns: int, path: Path, begin: int) -> None:
    for number, line in enumerate(lines[begin:], begin + 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = len(next(csv.reader([line], delimiter=separator)))
        if fields == columns:
            continue
        cut_off = ": the file is truncated" if number == len(lines) and fields < columns else ""
        commas = "; if numbers have decimal commas, separate the columns with semicolons" if fields > columns else ""
        advice = commas if separator == "," else ""
        refuse(path, f"the line has {fields} fields, but the header names {columns} columns{cut_off}{advice}", number)


CSV = ImportFormat(
    "csv", "a table (CSV)", (".csv", ".tsv", ".txt"), _recognise_csv, _read_csv, _OPTIONS, general=True, is_table=True
)


_OWN = ("unperturbed", "unperturbed.campaign")
"""Metadata keys under which this tool describes the metrics of a trace and of an exported campaign."""


def _read_parquet(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    frame, metadata = decode_parquet(content, path)
    described: dict[str, Metric] = {}
    try:
        for key in _OWN:
            for entry in json.loads(metadata[key])["metrics"] if key in metadata else ():
                described[entry["name"]] = Metric(**{**entry, "components": tuple(entry["components"])})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        refuse(path, f"the file's description of its metrics is damaged ({str(error) or type(error).__name__})")
    return _Columns(frame, path, lambda _row: 0, options=options, described=described).traces()


PARQUET = ImportFormat(
    "parquet",
    "a table (Parquet)",
    (".parquet",),
    lambda head: head.startswith(b"PAR1"),
    _read_parquet,
    _OPTIONS,
    is_table=True,
)
