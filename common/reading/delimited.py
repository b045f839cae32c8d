"""Text tables whose fields are separated by commas, semicolons, tabs, bars or spaces, with and without a heading."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from io import BytesIO
from itertools import islice, pairwise
from pathlib import Path

import polars as pl

from unperturbed.common.packed import plain_name
from unperturbed.common.reading.cells import UNITS, is_mark, is_value, kind_of_value
from unperturbed.common.wording import counted, first_of
from unperturbed.errors import DataError

_HEAD = 200_000
"""Bytes from which separator and heading are inferred."""
_SAMPLE = 200
_SEPARATORS = "\t;|,"
"""In order of trust: prose and decimals contain commas, but few cells a tab."""
_ROWS_INFERRED = 10_000
_SHARE = 0.9
_MOST_HEADINGS = 3
_MOST_LINES = 100
"""Lines of a quoted field; a quote that none of them closes is a letter."""
_FEWEST_LINES = 3
"""Lines from which separator and heading are inferred, however long they are."""
_WORDS_OF_TEXT = 5
"""Words of a line, at least, that is a title although it has as many fields as the names."""
_MOST_UNIT = 12
"""Characters of a unit in a line of units."""
_MARKS_OF_ORDER = (
    *((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32")),
    *((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")),
)
_EXPECTED = "expected one row per run, and names of columns in the first line"
_WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "spaces"}


@dataclass(frozen=True)
class TextTable:
    """A table of a text file, with columns of the types that polars infers, and text where it infers none."""

    frame: pl.DataFrame
    separator: str
    units: dict[str, str]  # Units that a line below the names gives
    notes: tuple[str, ...]  # How the file was read
    text: bytes
    begin: int  # Offset of the first row

    def place(self, row: int, column: int) -> str:
        """Return line and column, counted from 1, of a cell whose row and column are counted from 0: `7:12`."""
        first = self.text[: self.begin].count(b"\n") + 1
        lines = self.text[self.begin :].decode().split("\n")
        rows = (line for line, fields in _records(lines, self.separator) if any(fields))
        line = next(islice(rows, row, None), 0)
        return f"{first + line}:{_character(lines[line], column, self.separator)}"


@dataclass(frozen=True)
class _Heading:
    names: list[str]
    lines: list[int]  # Indices of the lines that were read as heading
    units: list[str]
    end: int  # Index of the first line after it
    is_guessed: bool  # Whether the columns have no names
    start: int = 0  # Offset in bytes of the first line after it

    @property
    def first(self) -> int:
        """Number of the first line after the heading, from 1."""
        return self.end + 1


def find_heading(lines: Sequence[str], path: Path) -> tuple[str, _Heading, list[int]]:
    """Return the separator of a table's first lines, its heading, and the numbers of the lines of titles above."""
    begin, commented = _first_line(lines)
    sample = [line for line in lines[begin:] if line.strip() and not line.startswith("#")][: 2 * _SAMPLE]
    separator = _separator(sample, path)
    rows = _records(lines, separator, begin)
    records, titles = _without_titles(list(islice((record for record in rows if any(record[1])), _SAMPLE)))
    records = _without_first_again(records)
    return separator, _heading(records, _comment_names(commented, lines, separator, records)), titles


def read_delimited(content: bytes, path: Path) -> TextTable:
    """Read a text table: infer its encoding, separator and heading, and refuse lines of another number of fields."""
    text, notes = _utf8(content, path)
    lines = text[:_HEAD].decode("utf-8", "ignore").split("\n")
    if len(text) > _HEAD:
        lines.pop()
        if len(lines) < _FEWEST_LINES:
            lines = text.decode("utf-8", "ignore").split("\n", _FEWEST_LINES)[:_FEWEST_LINES]
    begin, commented = _first_line(lines)
    sample = [(at, line) for at, line in enumerate(lines) if at >= begin and line.strip()][: 2 * _SAMPLE]
    comments = sum(line.startswith("#") for _, line in sample)
    has_comments = 2 * comments <= len(sample)
    if not sample:
        raise DataError(f"{path}: the file has no rows: {_EXPECTED}")
    separator = _separator([line for _, line in sample if not (has_comments and line.startswith("#"))], path)
    rows = _records(lines, separator, begin, has_comments=has_comments)
    records = list(islice((record for record in rows if any(record[1])), _SAMPLE))
    if not records:
        raise DataError(f"{path}: all cells are blank: {_EXPECTED}")
    records, titles = _without_titles(records)
    records = _without_first_again(records)
    heading = _heading(records, _comment_names(commented, lines, separator, records))
    start = len("\n".join(lines[: heading.end]).encode()) + (1 if heading.end else 0)
    heading = replace(heading, start=min(start, len(text)))
    if not heading.is_guessed:
        text, again = _without_names_again(text, heading, [lines[at] for at in heading.lines])
        notes += again
    frame = _frame(text[heading.start :], separator, len(heading.names), has_comments=has_comments)
    frame, units, more = _named(frame, heading, text, separator, path)
    notes += more
    if has_comments:
        notes += _commented_rows(text[heading.start :], separator, len(heading.names), heading.first)
    if titles:
        notes.append(f"{counted(len(titles), 'line')} above the names left out (line {', '.join(map(str, titles))})")
    how = (
        "the first line has values, so columns are named column_1, column_2, …; to name them, add a line of names"
        if heading.is_guessed
        else f"names in line {' and '.join(str(line + 1) for line in heading.lines)}"
    )
    if units:
        how += f", units in line {heading.end}"
    if separator not in (",", ""):
        how = f"separated by {_WORDS[separator]}; {how}"
    return TextTable(frame, separator, units, (how, *notes), text, heading.start)


def _utf8(content: bytes, path: Path) -> tuple[bytes, list[str]]:
    """Return text as UTF-8 with ends of line as in Unix, and notes about other encodings."""
    notes: list[str] = []
    encoding = next((name for mark, name in _MARKS_OF_ORDER if content.startswith(mark)), "")
    head = content[:_HEAD]
    if not encoding and b"\0" in head:
        # In UTF-16 without a mark, one byte of each ASCII character is zero.
        zeros = (head[::2].count(0), head[1::2].count(0))
        encoding = "utf-16-be" if zeros[0] > len(head) // 5 else "utf-16-le" if zeros[1] > len(head) // 5 else ""
    if not encoding and content.isascii() and b"\r" not in content and b"\0" not in content:
        return content, notes
    try:
        text = content.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        if encoding:
            raise DataError(f"{path}: the file is not whole {encoding} text: {error.reason}") from None
        text = content.decode("latin-1")
        notes.append("read as Latin-1, because it is not UTF-8")
    if "\0" in text:
        at = text.index("\0")
        line = text.count("\n", 0, at) + 1
        raise DataError(f"{path}:{line}: the line has a zero byte, so this is no text table: expected CSV or Parquet")
    if encoding.startswith(("utf-16", "utf-32")):
        notes.append(f"read as {encoding[:6].upper()}")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.encode(), notes


def _first_line(lines: Sequence[str]) -> tuple[int, int | None]:
    """Return the first line that is neither blank nor a comment, and the last comment above it."""
    comment = None
    for at, line in enumerate(lines):
        if at == 0 and re.fullmatch(r"sep=.", line.strip()):  # Excel's own
            continue
        if line.startswith("#") and any(other.strip() and not other.startswith("#") for other in lines[at + 1 :]):
            comment = at
        elif line.strip():
            return at, comment
    return 0, None


def _fields(line: str, separator: str) -> list[str]:
    if separator == " ":
        line = re.sub(r"[ \t]+", " ", line.strip())
    return next(csv.reader(line.splitlines(keepends=True), delimiter=separator or "\t"), [])


def _separator(lines: Sequence[str], path: Path) -> str:
    """Return the separator that gives nearly all lines the same number of fields; empty for a single column."""
    first = lines[0]
    # The names may be fewer than the fields, and titles may stand above.
    lines = lines[1:_SAMPLE] if len(lines) > 2 else lines[:_SAMPLE]
    best, most, shares = "", 0.0, {}
    for separator in ("\t", *_SEPARATORS[1:], " "):
        try:
            counts = Counter(len(_fields(line, separator)) for line in lines)
        except csv.Error:
            continue
        fields, rows = max(counts.items(), key=lambda item: (item[1], item[0]))
        if fields < 2:
            continue
        shares[separator] = (rows / len(lines), fields)
        if separator != " " and rows / len(lines) > most:
            best, most = separator, rows / len(lines)
    spaced = shares.get(" ", (0.0, 0))
    if " " in shares and len(_fields(first, " ")) < max(
        2, spaced[1] - 1
    ):  # words of a text, which the first line does not have
        spaced = (0.0, 0)
    # A tab before the last column of a table of spaces: its first field then has several numbers.
    joined = best and any(re.search(r"\d +-?[\d.]", field) and "  " in field for field in _fields(lines[-1], best))
    if spaced[0] >= _SHARE and (not best or most < _SHARE or (joined and spaced[1] > shares[best][1])):
        return " "
    if plain_name(path).suffix.lower() == ".tsv" and "\t" in shares:
        return "\t"
    return best


def _records(
    lines: Sequence[str], separator: str, begin: int = 0, *, has_comments: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Yield the index of the first line of each row, and its stripped fields; blank lines and comments are no rows."""
    at = begin
    while at < len(lines):
        line = lines[at]
        if not line.strip() or (has_comments and line.startswith("#")):
            at += 1
            continue
        last, is_open = at, line.count('"') % 2
        while is_open and last + 1 < min(len(lines), at + _MOST_LINES):  # the line ends inside quotes
            last += 1
            is_open ^= lines[last].count('"') % 2
        if is_open:
            last = at
        fields = _fields("\n".join(lines[at : last + 1]), separator)
        yield at, [field.strip() for field in fields]
        at = last + 1


def _without_titles(
    records: list[tuple[int, list[str]]],
) -> tuple[list[tuple[int, list[str]]], list[int]]:
    """Return the rows from the first with several cells on, and the numbers of the lines above."""
    usual = Counter(len(fields) for _, fields in records).most_common(1)[0][0]
    first = 0
    while first + 1 < len(records) and usual > 1 and _is_title(records, first, usual):
        first += 1
    return records[first:], [line + 1 for line, _ in records[:first]]


def _is_title(records: Sequence[tuple[int, list[str]]], at: int, usual: int) -> bool:
    """Return whether a row is a title: it has one cell, or is a text with separators, above a row of names."""
    fields, below = records[at][1], records[at + 1][1]
    if sum(map(bool, fields)) == 1 and (len(fields) > 1 or usual > 2):
        return not (len(below) < usual - 1 and sum(map(bool, below)) != 1)
    if any(map(is_value, fields)) and len(fields) == usual:
        return False
    names = at + 1
    while names + 1 < len(records) and len(records[names][1]) != usual and names <= at + _MOST_HEADINGS:
        names += 1
    cells = records[names][1]
    follow = names + 1 < len(records) and len(cells) == usual == len(set(cells)) and not any(map(is_value, cells))
    if not follow or not any(map(is_value, (cell for _, row in records[names + 1 : names + 3] for cell in row))):
        return False
    if len(fields) != usual or names > at + 1:
        return True
    words = sum(len(cell.split()) for cell in fields)
    return words >= max(_WORDS_OF_TEXT, 2 * usual) and not all(cell.strip("()[]") in UNITS for cell in cells)


def _without_first_again(records: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Return the rows without those equal to the first, if it has words above numbers: names that come again."""
    first = records[0][1]
    others = [record for record in records if record[1] != first]
    if len(others) + 1 >= len(records) or any(map(is_value, first)):
        return records
    numeric = _value_columns([fields for _, fields in others])
    named = any(at in numeric and not is_mark(cell) for at, cell in enumerate(first))
    return [records[0], *others] if named else records


def _comment_names(
    comment: int | None, lines: Sequence[str], separator: str, records: Sequence[tuple[int, list[str]]]
) -> tuple[int, list[str]] | None:
    """Return a comment that names as many columns as the first row has, as gnuplot's tables have it."""
    if comment is None:
        return None
    line = lines[comment].lstrip("#").strip()
    for sign in dict.fromkeys((separator, " ")):
        names = [name.strip() for name in _fields(line, sign)]
        if len(names) > 1 and len(names) == len(records[0][1]) and not any(map(is_value, names)):
            return comment, names
    return None


def _heading(records: Sequence[tuple[int, list[str]]], comment: tuple[int, list[str]] | None) -> _Heading:
    """Return the names and units above the first row of values."""
    rows = [fields for _, fields in records]
    width = max(len(rows[0]), Counter(map(len, rows)).most_common(1)[0][0])
    at = [line for line, _ in records]
    if depth := _depth_of_levels(rows):
        return _Heading(reduce(join_names, rows[:depth]), at[:depth], [], at[depth], is_guessed=False)
    if not _is_heading(rows):
        if comment is not None:
            return _Heading(comment[1], [comment[0]], [], records[0][0], is_guessed=False)
        return _Heading([""] * width, [], [], records[0][0], is_guessed=True)
    names, units = list(rows[0]), []
    count = 1
    while count < _MOST_HEADINGS and len(rows) > count + 1 and _is_second(rows, count):
        second = rows[count]
        if len(set(names)) == len(names) and all(names) and all(len(cell) <= _MOST_UNIT for cell in second):
            units = [cell.strip("()[]") for cell in second]
            count += 1
            break
        names = join_names(names, second)
        count += 1
    end = at[count] if len(at) > count else at[count - 1] + 1
    return _Heading(names, at[: count - bool(units)], units, end, is_guessed=False)


def join_names(names: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return names of two lines; a blank name of the first line continues the one left of it."""
    above, joined = "", []
    for name, part in zip(names, [*second, *[""] * len(names)], strict=False):
        above = name or above
        joined.append(" ".join(filter(None, (above, part))) if part else name)
    return joined


def _value_columns(rows: Sequence[Sequence[str]]) -> set[int]:
    """Return the columns nearly all of whose cells are numbers or dates, missing values apart."""
    found = set()
    for column in range(max(map(len, rows), default=0)):
        cells = [row[column] for row in rows if len(row) > column and not is_mark(row[column])]
        if cells and sum(map(is_value, cells)) >= _SHARE * len(cells):
            found.add(column)
    return found


def _is_heading(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has names, not values."""
    first, below = rows[0], rows[1:]
    values = [at for at, cell in enumerate(first) if is_value(cell)]
    if not below:
        return not values
    # 4KiB above 12.5 is a name.
    values = [
        at
        for at in values
        if not (kinds := {kind_of_value(row[at]) for row in below if len(row) > at and is_value(row[at])})
        or kind_of_value(first[at]) in kinds
        or kind_of_value(first[at]) == ""
    ]
    if _is_scale(first, below):
        return True
    numeric = _value_columns(below)
    named = sum(at in numeric and at not in values and not is_mark(cell) for at, cell in enumerate(first))
    like_data = sum(at in numeric for at in values)
    if not like_data:
        if named or values:
            return named > 0 or not values
        words = [at for at, cell in enumerate(first) if not is_mark(cell)]
        again = sum(any(len(row) > at and row[at] == first[at] for row in below) for at in words)
        return 2 * again < len(words) or not words
    return named >= like_data


def _is_scale(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether a row names columns by numbers with equal steps or ratios, as for 1, 2, 4 and 8 threads.

    Without a word beside them, only 0, 1, 2, … are names: pandas writes them where columns have none.
    """
    numbers = [float(cell) for cell in first if re.fullmatch(r"\d{1,9}(\.\d+)?", cell)]
    if len(numbers) < max(3, len(first) - 3) or any(late <= soon for soon, late in pairwise(numbers)):
        return False
    steps = {late - soon for soon, late in pairwise(numbers)}
    ratios = {late / soon if soon else 0.0 for soon, late in pairwise(numbers)}
    if not first[0] and all(row[:1] != [""] for row in below):  # the corner of a table of two parameters
        return True
    if len(numbers) == len(first):
        return steps == {1.0} and numbers[0] == 0
    return len(steps) == 1 or len(ratios) == 1


def _depth_of_levels(rows: Sequence[Sequence[str]]) -> int:
    """Return how many lines name the columns if some do so by numbers, as pandas writes columns of several levels.

    Each line begins with the name of its level, above the numbers of the first column; the last has no number.
    """
    for last in range(min(_MOST_HEADINGS, len(rows) - 1) - 1, 0, -1):
        lines, below = rows[: last + 1], rows[last + 1 :]
        levels = [line[0] for line in lines]
        if all(levels) and not any(is_value(level) or is_mark(level) for level in levels):
            numbered = any(is_value(cell) for line in lines for cell in line)
            if numbered and 0 in _value_columns(below) and _is_second(rows, last):
                return last + 1
    return 0


def _is_second(rows: Sequence[Sequence[str]], at: int) -> bool:
    """Return whether a row below the names has no value, although most columns below it have."""
    cells = rows[at]
    numeric = {column for column in _value_columns(rows[at + 1 :]) if column < len(cells)}
    words = sum(not is_mark(cells[column]) for column in numeric)
    return 2 * words >= len(numeric) > 0 < words and not any(map(is_value, cells))


def _frame(body: bytes, separator: str, width: int, *, has_comments: bool) -> pl.DataFrame:
    if separator == " ":
        lines = body.decode().split("\n")
        rows = (fields for _, fields in _records(lines, separator, has_comments=has_comments))
        body = "\n".join("\t".join(field.replace("\t", " ") for field in fields) for fields in rows).encode()
        has_comments = False
    if not re.search(rb"\S", body):
        return pl.DataFrame({f"column_{at}": [] for at in range(1, width + 1)})
    prefix = "#" if has_comments and (body.startswith(b"#") or b"\n#" in body) else None
    sign = "\t" if separator in (" ", "") else separator
    frame = _parse(body, sign, prefix)
    return frame.rename({name: f"column_{at}" for at, name in enumerate(frame.columns, 1)})


def _parse(body: bytes, separator: str, prefix: str | None) -> pl.DataFrame:
    """Return columns of the types that polars infers from the first rows, else from all rows, else text."""
    # Where no field begins with a quote, a quote is a letter, as in 5" (inches).
    opening = (b'"', b'\n"', separator.encode() + b'"')
    quoted = b'"' not in body or body.startswith(opening[0]) or any(sign in body for sign in opening[1:])
    quote = '"' if quoted else None
    for rows in (_ROWS_INFERRED, None, 0):
        file = BytesIO(body)
        try:
            return pl.read_csv(
                file,
                has_header=False,
                separator=separator,
                comment_prefix=prefix,
                quote_char=quote,
                infer_schema=rows != 0,
                infer_schema_length=rows,
            )
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            if rows == 0:
                raise
    raise AssertionError


def _without_names_again(text: bytes, heading: _Heading, names: Sequence[str]) -> tuple[bytes, list[str]]:
    """Return the text with a blank line for each line that repeats the names, and a note about these lines."""
    body = text[heading.start :]
    repeated = [line for name in names if name.strip() and (line := name.encode()) in body]
    if not repeated:
        return text, []
    lines = body.split(b"\n")
    found = [at for at, line in enumerate(lines) if line in repeated]
    for at in found:
        lines[at] = b""
    what = f"the names again in {counted(len(found), 'line')}, left out (the first is line {heading.first + found[0]})"
    return text[: heading.start] + b"\n".join(lines), [what]


def _named(
    frame: pl.DataFrame, heading: _Heading, text: bytes, separator: str, path: Path
) -> tuple[pl.DataFrame, dict[str, str], list[str]]:
    """Return the rows under unique names, the units of columns that have one, and notes about both."""
    names, notes = list(heading.names), []
    units = [*heading.units, *[""] * (len(names) - len(heading.units))]
    body = text[heading.start :]
    if frame.width and all(column.null_count() for column in frame):
        frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    extra = frame.columns[len(names) :]
    if extra and all(frame[name].null_count() == len(frame) for name in extra):
        frame = frame.drop(extra)
    elif len(extra) == 1 and not heading.is_guessed and _names_rows(frame):
        names, units = ["", *names], ["", *units]  # R's write.table has no name above the names of rows
    elif extra:
        place, fields = next(_lines_of_other_width(body, separator, len(names), more=True), (0, frame.width))
        column = _character(body.decode().split("\n")[place], len(names), separator)
        raise DataError(
            f"{path}:{heading.first + place}:{column}: the line has {counted(fields, 'field')}, but the table has "
            f"{counted(len(names), 'column')}: put fields that contain the separator into double quotes"
        )
    while len(names) > frame.width and not names[-1]:
        names.pop()
    frame = frame.with_columns(
        pl.lit(None, pl.String).alias(f"column_{at}") for at in range(frame.width + 1, len(names) + 1)
    )
    if frame.width > 1 and frame.to_series(-1).null_count() and _is_ragged(body, separator, len(names), len(frame)):
        short = [line for line, _ in _lines_of_other_width(body, separator, len(names), more=False)]
        if short:
            lines, first = counted(len(short), "line has", "lines have"), heading.first + short[0]
            notes.append(f"{lines} fewer than {len(names)} fields (the first is line {first}); the rest is blank")
    if not heading.is_guessed:  # a separator at the end of each line, or bars around a table
        blank = [not name and frame[f"column_{at}"].null_count() == len(frame) for at, name in enumerate(names, 1)]
        frame = frame.select(column for column, drop in zip(frame, blank, strict=True) if not drop)
        names, units = ([one for one, drop in zip(of, blank, strict=False) if not drop] for of in (names, units))
    unnamed = [f"column_{at}" for at, name in enumerate(names, 1) if not name]
    twice = [name for name, often in Counter(names).items() if name and often > 1]
    unique = unique_names(names)
    frame = frame.rename(dict(zip(frame.columns, unique, strict=True)))
    unit_of = {name: unit for name, unit in zip(unique, units, strict=False) if unit and not is_mark(unit)}
    if not heading.is_guessed and unnamed:
        if names[0] == "" and frame.width > 1 and _counts_rows(frame.to_series(0)):
            frame = frame.drop(frame.columns[0])
            notes.append("column 1 left out, because it has no name and counts the rows")
            unnamed = unnamed[1:]
        if unnamed:
            notes.append(f"columns without a name are named {first_of(unnamed)}")
    if twice:
        notes.append(f"several columns are named {first_of(twice)}: the second is named {twice[0]}_2")
    return frame, unit_of, notes


def _commented_rows(body: bytes, separator: str, width: int, first: int) -> list[str]:
    """Return a note about comments that have as many fields as a row; a text such as `#9 Dream` looks like one."""
    if not body.startswith(b"#") and b"\n#" not in body:
        return []
    lines = body.decode().split("\n")
    rows = [at for at, line in enumerate(lines) if line.startswith("#") and len(_fields(line, separator)) == width > 1]
    if not rows:
        return []
    what = f"{counted(len(rows), 'line')} with the fields of a row, but # at the beginning, left out as "
    return [f"{what}{'a comment' if len(rows) == 1 else 'comments'} (the first is line {first + rows[0]})"]


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names without repetition: a blank name becomes `column_3`, the second `time` becomes `time_2`."""
    taken = set(names)
    unique: dict[str, None] = {}  # a set in order
    seen: Counter[str] = Counter()
    for at, name in enumerate(names, 1):
        stem, number = (name, seen[name] + 1) if name else ("column", at)
        seen[name] += 1
        chosen = name if name and number == 1 else f"{stem}_{number}"
        while chosen in unique or (chosen != name and chosen in taken):
            number += 1
            chosen = f"{stem}_{number}"
        unique[chosen] = None
    return list(unique)


def _names_rows(frame: pl.DataFrame) -> bool:
    first, last = frame.to_series(0), frame.to_series(-1)
    return bool(not last.null_count() and (first.dtype == pl.String or _counts_rows(first)) and len(frame) > 1)


def _counts_rows(column: pl.Series) -> bool:
    """Return whether a column has whole numbers that rise by one from 0 or 1 in every row."""
    if not column.dtype.is_integer() or column.null_count() or not len(column):
        return False
    return column[0] in (0, 1) and bool((column == pl.int_range(column[0], column[0] + len(column), eager=True)).all())


def _is_ragged(body: bytes, separator: str, width: int, rows: int) -> bool:
    """Return whether lines may have another number of fields, without a look at each if nothing is quoted."""
    if separator in ("", " ") or b'"' in body or b"#" in body:
        return True
    return body.count(separator.encode()) != (width - 1) * rows


def _lines_of_other_width(body: bytes, separator: str, width: int, *, more: bool) -> Iterator[tuple[int, int]]:
    """Yield index and number of fields of the lines of the body with more, or fewer, fields than the table."""
    for line, fields in _records(body.decode().split("\n"), separator):
        if any(fields) and (len(fields) > width if more else len(fields) < width):
            yield line, len(fields)


def _character(line: str, column: int, separator: str) -> int:
    """Return at which character, from 1, a field of a line begins."""
    if separator == " ":
        begins = [match.start() + 1 for match in re.finditer(r'"[^"]*"|[^ \t]+', line)]
        return begins[min(column, len(begins) - 1)] if begins else 1
    at, quoted, begin = 0, False, 1
    for number, sign in enumerate(line, 1):
        if at == column:
            break
        quoted ^= sign == '"'
        if sign == separator and not quoted:
            at, begin = at + 1, number + 1
    return begin
