"""Log format "jsonl": one JSON object on each line, as structured loggers and `journalctl -o json` write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.reading.formats import LineParser, LogSample, ReadOptions
from unperturbed.analysis.diagnosis.reading.formats.dated import FreeTextFormat, kind_of_text
from unperturbed.analysis.diagnosis.reading.stamps import Clock, exact_time, stamp_of
from unperturbed.errors import DataError

_KEYS: Mapping[str, tuple[str, ...]] = {
    "time": ("@timestamp", "timestamp", "time", "ts", "datetime", "asctime", "date", "t", "__realtime_timestamp"),
    "message": ("event", "message", "msg", "name", "log", "text"),
    "plugin": ("logger", "module", "component", "category", "plugin", "syslog_identifier", "_comm", "service"),
    "level": ("level", "levelname", "severity", "loglevel", "priority"),
}
"""Parts of an event, and the usual keys, in lower case."""
_SECONDS_UNTIL = 10**11
_PRIORITIES = ("ERROR", "ERROR", "ERROR", "ERROR", "WARN", "NOTICE", "INFO", "DEBUG")


def _object(line: str) -> dict[str, Any] | None:
    """Return the object on a line, with keys in lower case; None for anything else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    # Escapes such as \ud800 stand for no character, and could not be printed.
    return {key.lower(): _printable(value) if isinstance(value, str) else value for key, value in found.items()}


def _printable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _keys(objects: list[dict[str, Any]]) -> dict[str, str]:
    """Return the key of each part: the first of the usual ones that most objects have."""
    return {
        part: next((key for key in usual if sum(key in each for each in objects) * 2 > len(objects)), "")
        for part, usual in _KEYS.items()
    }


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
class _JsonFormat(FreeTextFormat):
    def recognise(self, sample: LogSample, options: ReadOptions) -> float:  # noqa: ARG002  as all formats
        """Return the share of lines that are objects with a time and a message."""
        if not sample.lines[0].lstrip().startswith("{"):
            return 0.0
        objects = [each for each in map(_object, sample.lines) if each]
        keys = _keys(objects)
        return len(objects) / len(sample.lines) if keys["time"] and keys["message"] else 0.0

    def log_parser(self, sample: LogSample) -> tuple[LineParser, Callable[[], str]]:
        """Return a parser of one log's lines, and a function that returns what it assumed."""
        keys = _keys([each for each in map(_object, sample.lines) if each])
        lacking = " and ".join(
            f"a {part} ({', '.join(_KEYS[part][:4])}, …)" for part in ("time", "message") if not keys[part]
        )
        if lacking:
            raise DataError(
                f"{sample.source}:1: the lines are no JSON objects with {lacking}: rename the keys, or give a "
                "regular expression with the groups `time` and `name` as `pattern`"
            )
        clock: Clock | None = None

        def parse(line: str) -> tuple[int, EventType]:
            nonlocal clock
            found = _object(line)
            if found is None:
                raise ValueError("the line is no JSON object")
            stamp, message = found.get(keys["time"]), found.get(keys["message"])
            has_time = isinstance(stamp, (str, int, float)) and not isinstance(stamp, bool)
            if not (has_time and isinstance(message, str)):
                raise ValueError(f"no time in {keys['time']!r} or no text in {keys['message']!r}")
            level = str(found.get(keys["level"]) or "")
            if level.isdigit() and len(level) == 1 and int(level) < len(_PRIORITIES):
                level = _PRIORITIES[int(level)]
            plugin = found.get(keys["plugin"])
            kind = kind_of_text(
                {"message": message, "level": level, "plugin": plugin if isinstance(plugin, str) else ""}
            )
            if isinstance(stamp, str) and (name := clock.stamp if clock else stamp_of(stamp)):
                clock = clock or Clock(name)
                return exact_time(stamp, clock), kind
            return _epoch(f"{stamp:.9f}" if isinstance(stamp, float) else str(stamp)), kind

        return parse, lambda: clock.note if clock else ""


FORMAT = _JsonFormat(name="jsonl", meaning="JSON objects with a time and a message", rank=3)
