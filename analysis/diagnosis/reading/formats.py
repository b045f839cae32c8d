"""Which format a log has, told from its first lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from unperturbed.analysis.diagnosis.events import Unit
from unperturbed.analysis.diagnosis.reading.table import Header, read_header
from unperturbed.errors import DataError

__all__ = ["DECIMALS", "FORMATS", "Form", "Format", "recognise"]

Format = Literal["gstreamer", "ftrace", "simple", "csv", "pattern"]
FORMATS: tuple[Format, ...] = ("gstreamer", "ftrace", "simple", "csv", "pattern")

DECIMALS: Mapping[str, int] = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""Decimals of a unit down to nanoseconds."""

_LOOKED_AT = 200
"""Lines."""

_COLOURS = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_LINES: Mapping[Format, re.Pattern[str]] = {
    "gstreamer": re.compile(r"\d+:\d\d:\d\d\.\d{9} +\d+ +(?:0x)?[0-9a-fA-F]+ +[A-Z]+ +\S"),
    "ftrace": re.compile(r"(?:.*\s)?\[\d+\]\s+(?:\S+\s+)?(?P<time>\d+(?:\.\d+)?):\s+\S"),
    "simple": re.compile(r"\s*(?P<time>\d+(?:\.\d+)?)\s+\S"),
}


@dataclass(frozen=True)
class Form:
    """How a log is to be read.

    Attributes
    ----------
    format : Format
    unit : Unit
        Of the timestamps that result.
    decimals : int
        By which numbers of the log are multiplied, as a power of ten.
    header : Header or None
        Of a table.
    skipped_bytes, skipped_lines : int
        What stands before the first event: a byte order mark, a table's header.
    """

    format: Format
    unit: Unit
    decimals: int
    header: Header | None = None
    skipped_bytes: int = 0
    skipped_lines: int = 0


def recognise(sample: bytes, source: str, wanted: Format | None, unit: Unit | None, columns: Mapping[str, str]) -> Form:
    """Return how to read a log that begins with these bytes.

    Raises DataError where no format fits, or where the timestamps have decimals and no unit.
    """
    mark = 3 if sample.startswith(b"\xef\xbb\xbf") else 0
    body = sample[mark:]
    lines = [line.decode(errors="replace") for line in _COLOURS.sub(b"", body).splitlines()[: 2 * _LOOKED_AT] if line.strip()]
    if not lines:
        raise DataError(f"{source}: it is empty; was the program traced, and is this its log?")
    heading = body[: len(body) - len(body.lstrip())].count(b"\n")
    before = len(body) - len(body.lstrip(b"\r\n"))
    first, _, _ = body[before:].partition(b"\n")
    header = None
    if wanted in (None, "csv"):
        header = read_header(first.decode(errors="replace").rstrip("\r"), columns, source, heading + 1)
    chosen = wanted or _fitting(lines, header, source)
    if chosen == "pattern":
        return Form(chosen, unit or "ticks", 0, None, mark)
    if chosen == "gstreamer":
        return Form(chosen, "ns", 9, None, mark)
    if chosen == "csv":
        if header is None:
            raise DataError(
                f"{source}:{heading + 1}: no header with a column for the time and one for the name of the event;"
                " name them (columns: time and name)"
            )
        place = header.places[0]
        fields = lines[1].split(header.delimiter) if len(lines) > 1 else []
        time = fields[place] if place < len(fields) else ""
        skipped = mark + before + len(first) + 1
        return Form(chosen, *_unit(time, unit, source, heading + 2), header, min(skipped, len(sample)), heading + 1)
    found = next((match for line in lines if (match := _LINES[chosen].match(line))), None)
    time = found["time"] if found else ""
    if chosen == "ftrace":
        return Form(chosen, "ns" if "." in time or not time else "ticks", 9 if "." in time else 0, None, mark)
    return Form(chosen, *_unit(time, unit, source, 1), None, mark)


def _fitting(lines: list[str], header: Header | None, source: str) -> Format:
    if any(line.startswith("# tracer: function_graph") for line in lines):
        raise DataError(
            f"{source}:1: this is what ftrace's function_graph tracer prints: durations, and no moments. Record with the tracer `function` or "
            "with events alone (tracer `nop`)"
        )
    events = [line for line in lines if not line.startswith(("#", "cpus=", "CPU ", "version ="))][:_LOOKED_AT]
    fits = {form: sum(bool(line.match(text)) for text in events) for form, line in _LINES.items()}
    best = max(fits, key=fits.__getitem__)
    # A line of a table with tabs can be taken for a time and a name with blanks.
    is_table = header is not None and best == "simple" and not _LINES["simple"].match(lines[0])
    if fits[best] and 2 * fits[best] >= len(events) and not is_table:
        return best
    if header is not None:
        return "csv"
    if not events and lines[0].startswith("# tracer:"):
        return "ftrace"
    raise DataError(
        f"{source}:1: no format fits the first lines ({lines[0][:60]!r}); say the format (gstreamer, ftrace, simple or csv), or give a"
        " pattern, a regular expression with the groups time and name"
    )


def _unit(time: str, unit: Unit | None, source: str, line: int) -> tuple[Unit, int]:
    """Return the unit of the timestamps that result, and the decimals to read."""
    if "." not in time:
        return unit or "ticks", 0
    if unit is None or unit == "ticks":
        raise DataError(f"{source}:{line}: the timestamp {time.strip()} has decimals; say its unit: s, ms or us")
    return "ns", DECIMALS[unit]
