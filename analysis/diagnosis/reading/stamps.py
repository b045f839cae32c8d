"""Date-times in event logs: a table of the ways to write them, and their conversion to nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date

_SECOND = 10**9
_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
_NAMES = "JanFebMarAprMayJunJulAugSepOctNovDec"
_MONTHS = {_NAMES[at : at + 3]: 1 + at // 3 for at in range(0, len(_NAMES), 3)}
_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_HALF = r"(?: ?(?P<half>[AaPp])\.?[Mm]\b\.?)?"
_CLOCK = rf"(?P<hour>\d\d?):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,:](?P<fraction>\d{{1,9}}))?(?!\d){_HALF}"
_WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?"
_ANY_MONTH = f"(?P<month>(?i:{'|'.join(_MONTHS)}))(?i:[a-z]{{0,6}})\\.?"
_ZONE = r"(?: ?(?P<zone>Z|[+-]\d\d:?\d\d)(?![\w:]))?"
_WITHOUT_YEAR = 2000
"""Year of dates without one: a leap year, so that every date exists."""

STAMPS: Mapping[str, str] = {
    "iso": r"(?P<year>[12]\d{3})(?P<_>[-/.])(?P<month>\d\d)(?P=_)(?P<day>\d\d)(?:[T ] *|-)(?P<hour>\d\d?)[:.]"
    rf"(?P<minute>\d\d)[:.](?P<second>\d\d)(?:[.,:](?P<fraction>\d{{1,9}}))?(?!\d){_HALF}{_ZONE}",
    "compact": r"(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)(?:[T -]|, )?(?:(?=\d{6}(?!\d))|(?=\d\d?:\d))"
    r"(?P<hour>\d\d?):?(?P<minute>\d\d?):?"
    rf"(?P<second>\d\d?)(?:(?P<mark>[.,:])(?P<fraction>\d{{1,9}}))?(?!\d){_ZONE}",
    "short": r"(?P<year>\d\d)(?P<_>/?)(?P<month>\d\d)(?P=_)(?P<day>\d\d) (?P<hour>\d\d?):?(?P<minute>\d\d):?"
    rf"(?P<second>\d\d)(?:[.,](?P<fraction>\d{{1,9}}))?(?!\d){_HALF}",
    "ctime": rf"(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat) {_MONTH} +(?P<day>\d\d?) {_CLOCK}(?: [A-Z]{{3,4}})? (?P<year>\d{{4}})"
    r"(?!\d)",
    "named": rf"{_WEEKDAY}(?P<day>\d\d?)(?P<_>[-/. ]){_ANY_MONTH}(?P=_)(?P<year>\d{{4}}|\d\d)(?:,? +|T){_CLOCK}{_ZONE}",
    "worded": rf"{_WEEKDAY}{_ANY_MONTH} +(?P<day>\d\d?),? +(?P<year>\d{{4}}),?[ T]+{_CLOCK}{_ZONE}",
    "dotted": rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{{4}}|\d\d),?[ T]+{_CLOCK}{_ZONE}",
    "slashed": rf"(?P<month>\d\d?)(?P<_>[-/])(?P<day>\d\d?)(?P=_)(?P<year>\d{{4}}),?[ T]+{_CLOCK}{_ZONE}",
    "syslog": rf"{_MONTH} +(?P<day>\d\d?) {_CLOCK}",
    "common": rf"(?P<day>\d\d)/{_MONTH}/(?P<year>\d{{4}}):{_CLOCK}{_ZONE}",
    "day": rf"(?P<month>\d\d)[-.](?P<day>\d\d) {_CLOCK}",
    "glog": rf"[IWEF](?P<month>\d\d)(?P<day>\d\d) {_CLOCK}",
    "clock": _CLOCK,
    "epoch": r"(?P<epoch>1\d{9}(?:\d{3}|\d{6}|\d{9})?)(?:\.(?P<fraction>\d{1,9}))?(?![\d.])",
    "seconds": r"(?P<epoch>\d{1,9})\.(?P<fraction>\d{1,9})(?![\d.])",
}
"""Regular expressions of date-times by name, most complete ones first."""

SAYS: Mapping[str, str] = {
    "iso": "ISO 8601",
    "compact": "date and time without separators",
    "short": "date with a year of two digits",
    "ctime": "ctime",
    "named": "day, name of the month and year",
    "worded": "name of the month, day and year",
    "dotted": "day, month and year",
    "slashed": "date with the year last",
    "syslog": "month, day and time without a year",
    "common": "the common log format's date",
    "day": "month, day and time without a year",
    "glog": "month, day and time without a year",
    "clock": "time of day without a date",
    "epoch": "seconds since 1970, or ms, us or ns by the number of digits",
    "seconds": "seconds with decimals",
}
"""What the date-times are called in messages."""
_ORDERS: Mapping[str, Mapping[str, tuple[str, str, str]]] = {
    "slashed": {"month": ("year", "month", "day"), "day": ("year", "day", "month")},
    "short": {
        "year": ("year", "month", "day"),
        "month": ("day", "year", "month"),
        "day": ("day", "month", "year"),
    },
}
"""Dates that can be read in several ways: what stands first, and the groups that then are year, month and day."""


@dataclass
class Clock:
    """Converter of one log's matched date-times to nanoseconds; it remembers the day and the zone."""

    stamp: str
    days: int = 0  # days, or years, that were added because time fell back
    falls: int = 0  # how often
    _latest: int = -1

    def __post_init__(self) -> None:
        self._dates: dict[tuple[str, str, str], int] = {}
        self._orders = dict(_ORDERS.get(self.stamp, {}))  # Those that all dates allow
        self._firsts: dict[str, int] = {}  # The days of the first date, by order
        self._choice = ""  # Why one of several orders was chosen

    def nanoseconds(self, parts: Mapping[str, str | None]) -> int:
        """Return the time of a match of the stamp's expression; raise ValueError for a date that does not exist."""
        fraction = parts.get("fraction") or ""
        if parts.get("mark") == ":":  # milliseconds, perhaps without leading zeros
            fraction = fraction.zfill(3)
        decimals = int(fraction.ljust(9, "0"))
        if epoch := parts.get("epoch"):
            scale = 10 ** max(0, 19 - len(epoch)) if self.stamp == "epoch" else _SECOND
            return int(epoch) * scale + (decimals if scale == _SECOND else 0)
        hour, minute, second = int(parts["hour"] or 0), int(parts["minute"] or 0), int(parts["second"] or 0)
        if (half := parts.get("half")) and hour <= 12:
            hour = hour % 12 + 12 * (half in "Pp")
        if hour > 23 or minute > 59 or second > 60:  # 60 is a leap second
            raise ValueError(f"{hour}:{minute:02}:{second:02} is no time of day")
        at = self._day(parts) * _DAY + (hour * 60 + minute) * 60 + second
        zone = parts.get("zone")
        if zone and zone != "Z":
            east = int(zone[1:3]) * 60 + int(zone[-2:])
            at -= (-east if zone[0] == "-" else east) * 60
        moved = at if parts.get("year") else self.forward(at, has_date=bool(parts.get("month")))
        return moved * _SECOND + decimals

    def _day(self, parts: Mapping[str, str | None]) -> int:
        """Return a date's number of days since 1970; 0 without a date."""
        month, day = parts.get("month"), parts.get("day")
        if not month or not day:
            return 0
        year = parts.get("year") or str(_WITHOUT_YEAR)
        key = (year, month, day)
        known = self._dates.get(key)
        if known is None:
            known = self._ordered(parts) if self._orders and parts.get("_") else _days(year, month, day)
            self._dates[key] = known
        return known

    def _ordered(self, parts: Mapping[str, str | None]) -> int:
        """Return the days of a date whose order is unknown until its dates show it.

        The first date has any order that it allows. If a later date shows another one, the time that passed between
        both is that of this order: so it does not matter what the first was read as.
        """
        possible: dict[str, int] = {}
        for first, names in self._orders.items():
            with suppress(ValueError):
                possible[first] = _days(*(parts[name] or "" for name in names))
        if not possible:
            raise ValueError("the date has day and month in another order than the dates before")
        if not self._dates:
            self._firsts = possible
            self._choice = "no other order is possible" if len(possible) == 1 else ""
            self._orders = {first: self._orders[first] for first in possible}
            return next(iter(possible.values()))
        passed = {first: days - self._firsts[first] for first, days in possible.items()}
        if len(set(passed.values())) > 1:
            chosen = min(passed, key=lambda first: (passed[first] < 0, abs(passed[first])))
            self._choice = "they would be further apart otherwise"
        else:
            chosen = next(iter(passed))
            if len(possible) == 1 < len(self._orders):
                self._choice = "no other order is possible"
        if self._choice:
            self._orders = {chosen: self._orders[chosen]}
        return next(iter(self._firsts.values())) + passed[chosen]

    def forward(self, at: int, *, has_date: bool = False) -> int:
        """Add a day, or a year of 366 days, each time that a stamp without them falls back by more than half of one."""
        cycle = 366 * _DAY if has_date else _DAY
        moved = at + self.days * _DAY
        if moved < self._latest - cycle // 2:
            self.days += cycle // _DAY
            self.falls += 1
            moved += cycle
        elif moved > self._latest + cycle // 2 and self.falls and moved - cycle >= 0:
            moved -= cycle  # a late event of the time before the fall
            return moved
        self._latest = max(self._latest, moved)
        return moved

    @property
    def note(self) -> str:
        """What was assumed about this log's dates; empty if nothing was."""
        if self._choice:
            return f"its dates were read with the {next(iter(self._orders))} first, because {self._choice}"
        if not self.falls:
            return ""
        times = "once" if self.falls == 1 else f"{self.falls} times"
        lacks, cycle = ("date", "day") if self.stamp == "clock" else ("year", "year")
        return f"its times, which have no {lacks}, fall back {times}, which was read as the next {cycle}"


def _days(year: str, month: str, day: str) -> int:
    """Return the number of days since 1970 of a date."""
    number = int(year) if len(year) == 4 else 2000 + int(year) - (100 if int(year) >= 70 else 0)
    known = date(number, _MONTHS.get(month[:3].title()) or int(month), int(day)).toordinal()
    if known < _EPOCH:
        raise ValueError(f"the date {year}-{month}-{day} is before 1970")
    return known - _EPOCH


_YEAR, _MONTH_NAME = r"(?:19|20)\d\d", f"(?i:{'|'.join(_MONTHS)})"
_DATE = re.compile(
    rf"(?<![\w.])(?:{_YEAR}[-/.](?:\d{{3}}|\d{{1,2}}[-/.]\d{{1,2}})"
    rf"|\d{{1,2}}[-/. ](?:\d{{1,2}}|[^\W\d]{{3,9}}\.?)[-/. ]{_YEAR}|\d\d(?P<_>[-/.])\d\d(?P=_)\d\d"
    rf"|{_MONTH_NAME}[a-z]* \d{{1,2}}|\d{{1,2}} {_MONTH_NAME}|\d\d/\d\d)(?![\w./])"
)
_BESIDE = 24
"""Characters before or behind a time of day in which its date can stand."""


def date_beside(line: str, begin: int, end: int) -> str:
    """Return what looks like a date right before or behind the time of day at a place of a line; empty if nothing."""
    before, behind = line[max(0, begin - _BESIDE) : begin], line[end : end + _BESIDE].lstrip(" ,")
    last = next((found for found in _DATE.finditer(before) if not before[found.end() :].strip(" ,:T[]|-_")), None)
    found = last or _DATE.match(behind)
    return found[0] if found else ""


_EXACT = {name: re.compile(pattern) for name, pattern in STAMPS.items() if name != "seconds"}


def stamp_of(text: str) -> str:
    """Return the name of the stamp that is the whole text, except numbers; empty if there is none."""
    return next((name for name, each in _EXACT.items() if name != "epoch" and each.fullmatch(text.strip())), "")


def stamp_of_line(line: str) -> str:
    """Return the name of the stamp, except numbers, with which a line begins; empty if there is none."""
    return next((name for name, each in _EXACT.items() if name != "epoch" and each.match(line.lstrip(" ["))), "")


def exact_time(text: str, clock: Clock) -> int:
    """Return the nanoseconds of a text that is one stamp of the clock's kind; raise ValueError otherwise."""
    match = _EXACT[clock.stamp].fullmatch(text.strip())
    if not match:
        raise ValueError(f"time {text[:40]!r} is not {SAYS[clock.stamp]}, as the first event's time is")
    return clock.nanoseconds(match.groupdict())
