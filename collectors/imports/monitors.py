"""Tables of monitors, read by recipes: samples of gauges, rates and counts, of a host or of each of its devices."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import Metric, Trace
from unperturbed.collectors.imports.format import (
    IntArray,
    decode,
    from_ends,
    interval_ns,
    make_counted_trace,
    refuse,
    with_attributes,
)
from unperturbed.collectors.imports.recipe import BLANKS, SECONDS, Recipe, Rule
from unperturbed.collectors.imports.table import UNITS, Table, date_of, is_numeric
from unperturbed.common.wording import counted, first_of, listing

if TYPE_CHECKING:
    import polars as pl

OPTIONS: Mapping[str, str] = {
    "interval": "length of the intervals in ms, if the rows have no time, or one that is too coarse",
    "devices": "devices to import, separated by commas, such as 0,all (default: all devices)",
}
_REPEATED = "[...]"
"""End of the last name of columns that a row repeats for each device, as sadf -h writes it."""
_UNEVEN = 10
"""Ratio of long to short steps between rows above which rows of several devices may alternate."""
_FEWEST_STEPS, _SHARE_OF_STEPS, _REGULAR = 3, 0.05, 0.8
"""Steps of either length, at least, and the share of long ones that follow the last after the same number of rows."""
_MOST_DEVICES, _FEWEST_BURSTS, _RARE, _LONGER, _ROUNDED = 16, 5, 0.1, 1.25, 2
"""Rows of a burst at most, bursts at least, the share of steps that may be others, and by which factor, and by how many
units of the times, a step between bursts is longer."""
_ROW_A_DEVICE = "record without -h, which writes a row for each device"
_DAY_NS = 86_400 * 10**9


def read_recordings(recipe: Recipe, content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    """Return the traces of a file, as the recipe describes it."""
    lines = [line.removesuffix("\r") for line in decode(content, path).split("\n")]
    notes = []
    if lines.pop().strip():  # its last value may be cut off
        notes.append(f"the import leaves out the last line (line {len(lines) + 1}), which has no end")
    begins = [at for at, line in enumerate(lines) if at and recipe.recording and recipe.recording.search(line)]
    return [
        trace
        for begin, end in pairwise([0, *begins, len(lines)])
        for trace in _recording(recipe, lines[:end], begin, path, options, list(notes))
    ]


def _recording(
    recipe: Recipe, lines: Sequence[str], begin: int, path: Path, options: Mapping[str, str], notes: list[str]
) -> list[Trace]:
    """Return the traces of the recording that begins at a line and ends with the last one: one for each run."""
    blocks = _Splitter(recipe, path, notes).blocks(lines, begin)
    if not blocks:
        what = f"no rows are left: {notes[-1]}" if notes else "there are no rows below the heading"
        refuse(path, what, len(lines))
    return [
        with_attributes(_run(recipe, part, path, options, list(notes)), **({"run": run} if run else {}))
        for run, part in _by_run(recipe, blocks).items()
    ]


def _by_run(recipe: Recipe, blocks: Sequence[_Block]) -> dict[str, list[_Block]]:
    """Return the blocks of each run, in the order of the file; those without a column for runs have an empty name."""
    runs: dict[str, list[_Block]] = {}
    for block in blocks:
        column = next((name for name in block.names if recipe.means(name) == "run"), None)
        parts: dict[str, _Block] = {}
        for line, row in zip(block.lines, block.rows, strict=True):
            run = "" if column is None else row[block.names.index(column)]
            part = parts.setdefault(run, _Block(block.names, block.units))
            part.lines.append(line)
            part.rows.append(row)
        for run, part in parts.items():
            runs.setdefault(run, []).append(part)
    return runs


def _run(recipe: Recipe, blocks: Sequence[_Block], path: Path, options: Mapping[str, str], notes: list[str]) -> Trace:
    """Return the trace of one run, from its blocks."""
    series: dict[str, _Series] = {}
    started, repeated = "", []
    for block in blocks:
        samples = _Samples(recipe, path, block, options, notes)
        for name, one in samples.series():
            unique, number = name, 2
            while unique in series:
                unique, number = f"{name}_{number}", number + 1
            repeated += [name] if unique != name else []
            series[unique] = one
        started = started or samples.started
    if repeated:
        notes.append(f"several columns are named {first_of(repeated)}: the second is named {repeated[0]}_2")
    if not series:
        refuse(path, "no metrics to import: no column that the recipe describes contains numbers", blocks[0].lines[0])
    trace = _trace(recipe, path, series, notes)
    return with_attributes(trace, started=started) if started else trace


@dataclass
class _Block:
    """Rows below headings of the same names."""

    names: Sequence[str]
    units: Sequence[str] = ()
    lines: list[int] = field(default_factory=list)  # Line number of each row
    rows: list[list[str]] = field(default_factory=list)
    # Columns that each line repeats for several devices, where they begin, and the columns of the time before them
    repeated: _Block | None = None
    begin: int = 0
    timed: Sequence[int] = ()

    def add(self, fields: list[str], line: int) -> str:
        """Add the rows of a line; return what is wrong with it, or an empty text."""
        if self.repeated is not None:
            width = len(self.repeated.names) - len(self.timed)
            end = len(fields) - len(self.names) + self.begin
            if end < self.begin or (end - self.begin) % width:
                given = counted(len(fields), "field")
                return f"the line has {given}, which is not a whole number of devices with {width} columns each"
            for at in range(self.begin, end, width):
                row = [*(fields[column] for column in self.timed), *fields[at : at + width]]
                self.repeated.add(row, line)
            del fields[self.begin : end]
        while len(fields) > len(self.names) and not fields[-1]:
            fields.pop()
        if len(fields) != len(self.names):
            return f"the line has {counted(len(fields), 'field')}, but the heading names {len(self.names)} columns"
        self.lines.append(line)
        self.rows.append(fields)
        return ""


class _Splitter:
    """Division of a file into blocks of rows."""

    def __init__(self, recipe: Recipe, path: Path, notes: list[str]) -> None:
        self.recipe, self.path, self.notes = recipe, path, notes
        self.separator = ""

    def blocks(self, lines: Sequence[str], at: int) -> list[_Block]:
        """Return the blocks with rows, in the order of their headings; the first line is that with index `at`."""
        recipe = self.recipe
        blocks: dict[tuple[str, ...], _Block] = {}
        block: _Block | None = None
        found, skipped, first = False, [], at + 1
        while at < len(lines):
            line, number = lines[at], at + 1
            at += 1
            if not line.strip():
                continue
            if recipe.heading.search(line) if recipe.heading else not found:
                found, heading = True, [line]
                while len(heading) < len(recipe.lines) and at < len(lines):
                    heading += [lines[at]] if lines[at].strip() else []
                    at += 1
                if recipe.without and recipe.without.search(line):
                    block = None
                    self.notes.append(
                        f"the import leaves out the rows below line {number}, which have no fixed columns"
                    )
                    continue
                names, units = self._names(heading, number)
                block = blocks[names] = blocks.get(names) or self._block(names, units, number)
            elif block and recipe.skip and recipe.skip.search(line):
                skipped.append(number)
            elif block and (wrong := block.add(self._fields(line, number, len(block.names)), number)):
                refuse(self.path, wrong, number)
        if not found:
            refuse(self.path, "no line of this file is a heading as the recipe describes it", first)
        if skipped:
            lines_left = counted(len(skipped), "line")
            self.notes.append(f"the import leaves out {lines_left} that the recipe skips (first: line {skipped[0]})")
        parts = (part for block in blocks.values() for part in (block.repeated, block))
        return [part for part in parts if part is not None and part.rows]

    def _names(self, heading: Sequence[str], number: int) -> tuple[tuple[str, ...], Sequence[str]]:
        """Return the names of the columns, with their groups, and their units."""
        from unperturbed.common.reading.delimited import join_names  # noqa: PLC0415  loads polars

        kinds = self.recipe.lines
        if len(heading) < len(kinds):
            refuse(self.path, f"the heading has {counted(len(kinds), 'line')}, but the file ends", number)
        heading = [re.sub(r"^#\s*", "", line.strip()) for line in heading]
        if not self.separator:
            last = heading[kinds.index("names")]
            self.separator = max(self.recipe.separators, key=lambda sign: len(self._split(last, sign, number)))
        parts = {kind: self._split(line, self.separator, number) for kind, line in zip(kinds, heading, strict=True)}
        names, groups = parts["names"], parts.get("groups", [])
        while len(names) > 1 and not names[-1]:
            names.pop()
        if len(names) < 2:
            refuse(self.path, "the heading names only one column", number)
        groups = groups[: len(names)] + [""] * (len(names) - len(groups))
        joined = join_names(groups, names)
        whole = (name if name == group else both for name, group, both in zip(names, groups, joined, strict=True))
        return tuple(whole), parts.get("units", ())

    def _fields(self, line: str, number: int, width: int) -> list[str]:
        # The last column may contain blanks, as a date and a time do.
        return (
            line.strip().split(None, width - 1)
            if self.separator == BLANKS
            else self._split(line, self.separator, number)
        )

    def _split(self, line: str, separator: str, number: int) -> list[str]:
        if separator == BLANKS:
            return line.split()
        if '"' not in line:
            return [part.strip() for part in line.split(separator)]
        try:
            return [part.strip() for part in next(csv.reader([line], delimiter=separator, skipinitialspace=True))]
        except csv.Error as error:
            refuse(self.path, f"this line cannot be split into fields: {error}", number)

    def _block(self, names: Sequence[str], units: Sequence[str], number: int) -> _Block:
        """Return the block below a heading, with another one inside it if columns are repeated for each device."""
        from unperturbed.common.reading.delimited import unique_names  # noqa: PLC0415  loads polars

        ends = [at for at, name in enumerate(names) if name.endswith(_REPEATED)]
        if not ends:
            return _Block(unique_names(names), units)
        devices = [at for at in range(ends[0]) if self.recipe.means(names[at]) == "device"]
        if len(ends) > 1 or not devices:
            groups = counted(len(ends), "group")
            refuse(self.path, f"{groups} of columns repeated for each device ({_REPEATED}): {_ROW_A_DEVICE}", number)
        begin, end = devices[-1], ends[0] + 1
        timed = [at for at in range(begin) if self.recipe.is_of_time(names[at])]
        columns = [*(names[at] for at in timed), *names[begin:end]]
        columns[-1] = columns[-1].removesuffix(_REPEATED)
        others = unique_names([*names[:begin], *names[end:]])
        return _Block(others, repeated=_Block(unique_names(columns)), begin=begin, timed=timed)


@dataclass(frozen=True)
class _Series:
    """Values of one metric of one device, at the ends of the samples that have it."""

    rule: Rule
    unit: str
    ends: IntArray
    values: NDArray[Any]
    rows: IntArray  # Row of the table for each value
    table: Table


class _Samples:
    """Rows of a block as samples: a sample has the rows of all devices at one time."""

    def __init__(self, recipe: Recipe, path: Path, block: _Block, options: Mapping[str, str], notes: list[str]) -> None:
        import polars as pl  # noqa: PLC0415  slow to load

        self.recipe, self.path, self.block, self.options, self.notes = recipe, path, block, options, notes
        self.started = ""  # Date and time of the first row, if the file has both
        self.advice = f" ({recipe.advice})" if recipe.advice else ""
        absent = recipe.missing
        columns = (
            pl.Series(name, [None if absent and absent.fullmatch(cell) else cell for cell in cells], pl.String)
            for name, cells in zip(block.names, zip(*block.rows, strict=True), strict=True)
        )
        self.table = Table(pl.DataFrame(list(columns)), path, block.lines.__getitem__)

    def series(self) -> Iterator[tuple[str, _Series]]:
        """Yield the name and the values of each metric of each device."""
        found = {name: self.recipe.rule_of(name) for name in self.block.names if not self.recipe.is_of_time(name)}
        rules = {name: rule for name, rule in found.items() if rule}
        if unknown := [name for name in found if name not in rules]:
            self.notes.append(f"the import leaves out {first_of(unknown)}: the recipe has no rule for it")
        devices = self._devices(rules)
        times = self._times()
        samples = np.arange(len(self.block.rows)) if devices is None else _samples(times, devices)
        begins = np.flatnonzero(np.diff(samples, prepend=-1))
        ends = self._ends(begins, times, has_devices=devices is not None)
        numbers = {name: self.table.numbers(name) for name in self._metrics(rules)}
        kept = samples >= int(self.recipe.since_boot)
        for device in self._chosen(devices):
            rows = np.flatnonzero(kept if devices is None else kept & (devices == device))
            for name, values in numbers.items() if len(rows) else ():
                at, rule = self.block.names.index(name), rules[name]
                metric, unit = rule.words(name, self.block.units[at] if at < len(self.block.units) else "")
                one = _Series(rule, unit, ends[samples[rows]], values[rows], rows, self.table)
                yield f"{metric} {device}".rstrip(), one

    def _devices(self, rules: Mapping[str, Rule]) -> NDArray[Any] | None:
        """Return the device of each row, such as `CPU 0`; of several such columns, the first rule's counts."""
        for rule in self.recipe.rules:
            column = next((name for name, one in rules.items() if one is rule and rule.meaning == "device"), None)
            if column is not None:
                word, _ = rule.words(column)
                names = self.table.frame[column].fill_null("").to_list()
                return np.array([f"{word} {rule.devices.get(name, name)}" for name in names], object)
        return None

    def _chosen(self, devices: NDArray[Any] | None) -> list[str]:
        """Return the devices to import, in the order of the file; an empty name if the table has none."""
        found = [""] if devices is None else list(dict.fromkeys(devices.tolist()))
        if "devices" not in self.options or devices is None:
            return found
        wanted = {name.strip() for name in self.options["devices"].split(",")}
        chosen = [one for one in found if one in wanted or one.partition(" ")[2] in wanted]
        if not chosen:
            given = self.options["devices"]
            refuse(self.path, f"devices={given}: the devices are {first_of(found)}", self.block.lines[0])
        return chosen

    def _metrics(self, rules: Mapping[str, Rule]) -> list[str]:
        """Return the columns with numbers; note which others are left out."""
        wanted = [name for name, rule in rules.items() if rule.meaning not in ("device", "run", "nothing")]
        numeric = [name for name in wanted if is_numeric(self.table.frame[name])]
        if others := [name for name in wanted if name not in numeric]:
            self.notes.append(f"the import leaves out {first_of(others)}, without numbers")
        return numeric

    def _times(self) -> IntArray | None:
        """Return the time of each row [ns]; None if the option `interval` sets how far apart they are."""
        import polars as pl  # noqa: PLC0415

        if "interval" in self.options:
            return None
        for clock in self.recipe.clocks:
            found = [next((name for name in self.block.names if part.fullmatch(name)), None) for part in clock.columns]
            columns = [name for name in found if name is not None]
            if len(columns) < len(found):
                continue
            text = self.table.frame.select(pl.concat_str(pl.col(columns).fill_null(""), separator=" ")).to_series()
            unread = np.ones(len(text), np.bool_)
            for form in clock.formats:
                times, wrong = self._times_in(text, form)
                if times is not None:
                    return times
                unread = wrong if wrong.sum() < unread.sum() else unread
            row = int(np.flatnonzero(unread)[0])
            self.table.refuse(row, f"the time {text[row]!r} has another format than {listing(clock.formats, 'or')}")
        what = "no column has the time of the rows: give the length of the intervals with interval=MS"
        return refuse(self.path, f"{what}{self.advice}", self.block.lines[0])

    def _times_in(self, text: pl.Series, form: str) -> tuple[IntArray | None, NDArray[np.bool_]]:
        """Return the times [ns] if all have a format, and which of them do not."""
        import polars as pl  # noqa: PLC0415

        if form == SECONDS:
            wrong = ~text.str.contains(r"^\d{1,12}(\.\d+)?$").to_numpy()
            if wrong.any():
                return None, wrong
            times = Table(text.alias("time").to_frame(), self.path, self.table.line_of).times(
                "time", "time", UNITS["s"]
            )
            self.started = date_of(times)
            return times, wrong
        # A year or a day that the file does not give is one of a leap year.
        year, day = "%Y" not in form and "%y" not in form, "%d" not in form
        full = ("%Y " if year else "") + ("%d %m " if day else "") + form
        given = pl.Series([("2000 " if year else "") + ("01 01 " if day else "") + cell for cell in text.to_list()])
        try:
            moments = given.str.to_datetime(full, strict=False, time_unit="ns")
        except (
            pl.exceptions.PolarsError,
            pl.exceptions.PanicException,
        ) as error:  # an hour without minutes, for example
            refuse(self.recipe.path, f"the time format {form} cannot be used: {str(error).splitlines()[0]}")
        if moments.null_count():
            return None, moments.is_null().to_numpy()
        times = moments.cast(pl.Int64).to_numpy()
        if year:
            around = (1 if day else 366) * _DAY_NS
            times = times + around * np.cumsum(np.diff(times, prepend=times[0]) < -around // 2)
        elif "%Z" not in form:
            self.started = date_of(times)
        return times, np.zeros(len(times), np.bool_)

    def _ends(self, begins: IntArray, times: IntArray | None, *, has_devices: bool) -> IntArray:
        """Return the end of each sample [ns]; refuse times that are not in order, or of devices without a name."""
        if times is None:
            length = interval_ns(self.options["interval"], self.path)
            return np.arange(1, len(begins) + 1, dtype=np.int64) * length
        ends = times[begins]
        steps = np.diff(ends)
        wrong = np.flatnonzero(steps <= 0)
        if len(wrong):
            at = int(wrong[0]) + 1
            what = "this row has an earlier time than the previous one"
            if ends[at] == ends[at - 1]:
                what = (
                    "this row has the same time as the previous one: give the length of the intervals with interval=MS"
                    f"{self.advice}"
                )
            self.table.refuse(int(begins[at]), what)
        if not has_devices and _alternate(steps):
            what = "long and short times alternate from row to row, as for devices without a column that names them"
            self.table.refuse(int(begins[1]), f"{what}: record that column too{self.advice}")
        return ends


def _alternate(steps: IntArray) -> bool:
    """Return whether a long step follows each few short ones, always the same number; a pause now and then does not."""
    return _in_bursts(steps) or _with_far_longer(steps)


def _in_bursts(steps: IntArray) -> bool:
    """Return whether every n-th step is longer than nearly all others, and by more than the times are rounded."""
    if not len(steps):
        return False
    resolution = int(np.gcd.reduce(steps))
    for size in range(2, min(_MOST_DEVICES, len(steps) // _FEWEST_BURSTS) + 1):
        for first in range(size):
            is_long = np.arange(len(steps)) % size == first
            least, most = np.quantile(steps[is_long], _RARE), np.quantile(steps[~is_long], 1 - _RARE)
            if least > _LONGER * most and least - most > _ROUNDED * resolution:
                return True
    return False


def _with_far_longer(steps: IntArray) -> bool:
    """Return whether steps are of two lengths that differ by a factor, and the long ones are regular."""
    least = max(_FEWEST_STEPS, int(_SHARE_OF_STEPS * len(steps)))
    if len(steps) < 2 * least:
        return False
    order = np.sort(steps)
    rises = order[least : len(order) - least + 1] / order[least - 1 : len(order) - least]
    if rises.max() <= _UNEVEN:
        return False
    rows = np.diff(np.flatnonzero(steps > order[least - 1 + int(rises.argmax())]))
    return bool(np.unique(rows, return_counts=True)[1].max() >= _REGULAR * len(rows))


def _samples(times: IntArray | None, devices: NDArray[Any]) -> IntArray:
    """Return the sample of each row: a new one begins where a device comes again, or after a pause."""
    pause = float("inf")
    if times is not None:
        steps = np.concatenate([np.diff(times[devices == one]) for one in dict.fromkeys(devices.tolist())])
        pause = float(np.median(steps[steps > 0])) / 2 if (steps > 0).any() else pause
    moments = np.zeros(len(devices), np.int64) if times is None else times
    samples: list[int] = []
    seen: set[str] = set()
    at, begin = -1, 0
    for device, time in zip(devices.tolist(), moments.tolist(), strict=True):
        if at < 0 or device in seen or abs(time - begin) > pause:
            at, begin = at + 1, time
            seen.clear()
        seen.add(device)
        samples.append(at)
    return np.array(samples)


def _trace(recipe: Recipe, path: Path, series: Mapping[str, _Series], notes: Sequence[str]) -> Trace:
    metrics, placed = [], {}
    more: list[str] = []
    for name, one in series.items():
        ends, values = one.ends, one.values
        counts = one.rule.meaning in ("counts", "cumulative")
        if one.rule.meaning == "cumulative":
            values, wraps = one.table.increases(name, values, one.rows, "the recipe calls it cumulative")
            ends, more = ends[1:], [*more, *wraps]
        placed[name] = ends, values
        unit = one.unit or ("events" if counts else "1")
        meaning = f"{one.rule.meaning} in the table of {recipe.name}"
        metrics.append(Metric(name, recipe.kind, unit, "counter" if counts else "gauge", recipe.name, meaning))
    every = np.unique(np.concatenate([ends for ends, _ in placed.values()]))
    columns = {
        name: _spread(values, np.searchsorted(every, ends), len(every)) for name, (ends, values) in placed.items()
    }
    bounds = from_ends(every) if len(every) else (every, every)
    return make_counted_trace(metrics, columns, bounds, path, missing="missing", notes=[*notes, *more])


def _spread(values: NDArray[Any], places: IntArray, size: int) -> NDArray[Any]:
    """Return values at their places among `size` intervals; at all others they are missing."""
    if len(values) == size:
        return values
    if values.dtype.kind == "f":
        spread: NDArray[Any] = np.full(size, np.nan)
        spread[places] = values
        return spread
    absent, whole = np.ones(size, np.bool_), np.zeros(size, values.dtype)
    absent[places], whole[places] = np.ma.getmaskarray(values), np.ma.getdata(values)
    return np.ma.MaskedArray(whole, absent)
