"""Log formats with named parts on each line, as structured loggers write them: JSON objects, and logfmt's key=value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NoReturn

from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.reading.formats import LineParser, LogSample, ReadOptions
from unperturbed.analysis.diagnosis.reading.formats.dated import FreeTextFormat, kind_of_request, kind_of_text
from unperturbed.analysis.diagnosis.reading.stamps import Clock, exact_time, stamp_of
from unperturbed.common.wording import first_of
from unperturbed.errors import DataError

_KEYS: Mapping[str, tuple[str, ...]] = {
    "time": (
        *("@timestamp", "timestamp", "time", "ts", "@t", "datetime", "asctime", "date", "t", "__realtime_timestamp"),
        *(
            "time_iso8601",
            "time_local",
            "timeunixnano",
            "observedtimeunixnano",
            "timemillis",
            "eventtime",
            "msec",
            "t.$date",
        ),
    ),
    "message": (
        *("event", "message", "msg", "fields.message", "short_message", "@mt", "messagetemplate", "@m"),
        *("renderedmessage", "body.stringvalue", "body", "name", "log", "text", "attributes.message"),
    ),
    "plugin": (
        *("logger", "module", "component", "category", "plugin", "syslog_identifier", "_comm", "service", "target"),
        *("log.logger", "loggername", "sourcecontext", "properties.sourcecontext"),
    ),
    "level": ("level", "levelname", "severity", "loglevel", "priority", "lvl", "@l", "severitytext", "log.level"),
}
"""Parts of an event, and the usual keys, in lower case; a dot leads into a nested object."""
_REQUESTS = ("request", "request_uri", "uri", "url", "path")
"""Keys of a request, which stands for a message where there is none."""
_METHODS = ("request_method", "method", "verb")
_SECONDS_UNTIL = 10**11
_PRIORITIES = ("ERROR", "ERROR", "ERROR", "ERROR", "WARN", "NOTICE", "INFO", "DEBUG")
_DEPTH, _DIGITS, _FIRST = 3, 20, 5
_MOST = 0.5
"""Share of lines with named parts above which a log has them."""
_PAIR = r'[\w.@/-]+=(?:"(?:[^"\\]|\\.)*"|[^\s"]*)'
_LOGFMT = re.compile(rf"{_PAIR}(?: +{_PAIR})+\s*")
_PART = re.compile(r'([\w.@/-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*))')

_DECODER = json.JSONDecoder(parse_float=Decimal)

Fields = dict[str, Any]


def _object(line: str) -> Fields | None:
    """Return the object on a line, with keys in lower case, and those of nested objects; None for anything else."""
    try:
        found = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    return _flat(found) if isinstance(found, dict) else None


def _flat(found: Mapping[str, Any], before: str = "", depth: int = _DEPTH) -> Fields:
    fields: Fields = {}
    for key, value in found.items():
        name = before + key.lower()
        if isinstance(value, str):
            # Escapes such as \ud800 stand for no character, and could not be printed.
            fields[name] = value if value.isascii() else _printable(value)
        elif isinstance(value, dict) and depth:
            fields |= _flat(value, f"{name}.", depth - 1)
        else:
            fields[name] = value
    return fields


def _pairs(line: str) -> Fields | None:
    """Return the pairs on a line of logfmt; None for anything else."""
    if not _LOGFMT.fullmatch(line):
        return None
    return {key.lower(): quoted or plain for key, quoted, plain in _PART.findall(line)}


def _printable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _keys(objects: Sequence[Fields]) -> dict[str, str]:
    """Return the key of each part: the first of the usual ones with a value in most objects; a message is text."""

    def usable(value: object, part: str) -> bool:
        return isinstance(value, str) if part == "message" else isinstance(value, (str, int, Decimal))

    def first_of_most(part: str, usual: Sequence[str]) -> str:
        most = (key for key in usual if sum(usable(each.get(key), part) for each in objects) * 2 > len(objects))
        return next(most, "")

    keys = {part: first_of_most(part, usual) for part, usual in _KEYS.items()}
    if not keys["message"]:
        keys["request"] = first_of_most("message", _REQUESTS)
        keys["method"] = first_of_most("message", _METHODS)
    return keys


def _epoch(number: str) -> int:
    """Return a number of seconds, ms, us or ns since 1970, whichever its size shows, in nanoseconds."""
    whole, _, decimals = number.partition(".")
    if not whole.isascii() or not whole.isdigit() or len(whole) > 19 or (decimals and not decimals.isdigit()):
        raise ValueError(f"time {number[:40]!r} is neither a date-time nor a number of seconds, ms, us or ns")
    scale = 9
    for limit in (_SECONDS_UNTIL, _SECONDS_UNTIL * 1000, _SECONDS_UNTIL * 1_000_000):
        scale -= 3 * (int(whole) >= limit)
    return int(whole) * int(10**scale) + int(decimals[:scale].ljust(scale, "0") or 0)


@dataclass(frozen=True, kw_only=True)
class _FieldsFormat(FreeTextFormat):
    """Format of lines with named parts; `fields` returns those of a line, or None."""

    fields: Callable[[str], Fields | None]
    what: str

    def recognise(self, sample: LogSample, options: ReadOptions) -> float:  # noqa: ARG002  as all formats
        """Return the share of lines that have named parts; refuse those without a time and a message."""
        if not any(map(self.fields, sample.lines[:_FIRST])):
            return 0.0
        objects = [each for each in map(self.fields, sample.lines) if each]
        share = len(objects) / len(sample.lines)
        if share < _MOST or not self._lacking(_keys(objects)):
            return share
        if self.fields is _object:
            self._refuse(sample, objects)
        return 0.0

    def _lacking(self, keys: Mapping[str, str]) -> list[str]:
        found = {**keys, "message": keys["message"] or keys["request"]} if "request" in keys else keys
        return [part for part in ("time", "message") if not found[part]]

    def _refuse(self, sample: LogSample, objects: Sequence[Fields]) -> NoReturn:
        lacking = " and ".join(f"a {part} ({', '.join(_KEYS[part][:4])}, …)" for part in self._lacking(_keys(objects)))
        keys = f"; the keys are {first_of(list(objects[0]))}" if objects else ""
        raise DataError(
            f"{sample.source}:1: the lines are no {self.what} with {lacking}{keys}: rename the keys, or give a regular "
            "expression with the groups `time` and `name` as `pattern`"
        )

    def log_parser(self, sample: LogSample) -> tuple[LineParser, Callable[[], str]]:
        """Return a parser of one log's lines, and a function that returns what it assumed."""
        objects = [each for each in map(self.fields, sample.lines) if each]
        keys = _keys(objects)
        if self._lacking(keys):
            self._refuse(sample, objects)
        clock: Clock | None = None

        def parse(line: str) -> tuple[int, EventType]:
            nonlocal clock
            found = self.fields(line)
            if found is None:
                raise ValueError(f"the line has no {self.what}")
            stamp, kind = found.get(keys["time"]), _kind(found, keys)
            if isinstance(stamp, str) and clock:
                return exact_time(stamp, clock), kind
            if isinstance(stamp, bool) or not isinstance(stamp, (str, int, Decimal)):
                raise ValueError(f"no time in {keys['time']!r}")  # noqa: TRY004  a line's fault
            if isinstance(stamp, str) and (name := stamp_of(stamp)):
                clock = Clock(name)
                return exact_time(stamp, clock), kind
            if isinstance(stamp, Decimal) and not abs(stamp.adjusted()) < _DIGITS:
                raise ValueError(f"the time {stamp} is too large, or no number")
            return _epoch(f"{stamp:f}" if isinstance(stamp, Decimal) else str(stamp)), kind

        return parse, lambda: clock.note if clock else ""


def _kind(found: Fields, keys: Mapping[str, str]) -> EventType:
    """Return the type of a line's event."""
    level = str(found.get(keys["level"]) or "")
    if level.isdigit() and len(level) == 1 and int(level) < len(_PRIORITIES):
        level = _PRIORITIES[int(level)]
    plugin = found.get(keys["plugin"])
    plugin = plugin if isinstance(plugin, str) else ""
    if not keys["message"]:
        words = [found[key] for key in (keys["method"], keys["request"]) if isinstance(found.get(key), str)]
        request = re.fullmatch(r"(?:([A-Z]+) )?(\S*)(?: HTTP/\S+)?", " ".join(words))
        if not request:
            raise ValueError(f"no request in {keys['request']!r}")
        status = str(found.get("status") or found.get("status_code") or "")
        kind = kind_of_request(request[1] or "", request[2], status)
        return replace(kind, level=kind_of_text({"message": "", "level": level}).level)
    message = found.get(keys["message"])
    if not isinstance(message, str):
        raise ValueError(f"no text in {keys['message']!r}")  # noqa: TRY004  a line's fault
    return kind_of_text({"message": message, "level": level, "plugin": plugin})


JSON_LINES = _FieldsFormat(
    name="jsonl", meaning="JSON objects with a time and a message", rank=3, fields=_object, what="JSON object"
)
LOGFMT = _FieldsFormat(
    name="logfmt", meaning="key=value with a time and a message", rank=3, fields=_pairs, what="pairs key=value"
)
