"""Log formats whose lines begin with a date-time and end with free text: one record for each, as data.

::

    Jun 14 15:16:01 combo sshd(pam_unix)[19939]: check pass; user unknown               syslog, journald
    03-17 16:13:38.811  1702  2395 D WindowManager: app wtoken = 9f4ef63                 logcat
    2015-10-18 18:01:47,978 INFO [main] org.apache.hadoop.mapreduce.AM: Created          log4j
    [Sun Dec 04 04:47:44 2005] [notice] workerEnv.init() ok                              apache
    [    0.004000] pci 0000:00:01.0: reg 0x10                                            dmesg
    [13:15:26.442106204] (+0.000001234) host sched_switch: { cpu_id = 0 }, { … }         lttng
    [pid 123] 12:34:56.789012 openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3              strace
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from unperturbed.analysis.diagnosis.events import EventType, Unit
from unperturbed.analysis.diagnosis.reading.formats import (
    LineParser,
    LogSample,
    PlainFormat,
    ReadOptions,
    ScannedLog,
    share_of,
)
from unperturbed.analysis.diagnosis.reading.sources import Blocks
from unperturbed.analysis.diagnosis.reading.stamps import SAYS, STAMPS, Clock, date_beside
from unperturbed.analysis.diagnosis.reading.templates import template_of
from unperturbed.errors import DataError

Parts = Mapping[str, str | None]

_LEVELS: Mapping[str, str] = {
    **dict.fromkeys(("E", "ERR", "F", "FATAL", "CRIT", "CRITICAL", "SEVERE", "ALERT", "EMERG", "A", "PANIC"), "ERROR"),
    **{"W": "WARN", "WARNING": "WARN", "I": "INFO", "INFORMATION": "INFO", "D": "DEBUG", "V": "TRACE"},
}
_WORDS = (
    "(?i:trace|verbose|debug|info(?:rmation)?|notice|warn(?:ing)?|err(?:or)?|severe|fatal|crit(?:ical)?|alert|emerg"
    "|panic)"
)
_LEVEL = f"(?P<level>{_WORDS})"
_HOST = rf"(?!{_WORDS}\b)[^\s\[]+"
_COMPONENT = re.compile(
    r"(?:\[(?:[^\[\]]|\[[^\]]*\])*\] +)?(?:- +)?"
    r"(?:(?P<plugin>[A-Za-z_][\w.$/-]*)(?:: +| {2,}| (?=\[)))?(?P<rest>.*)"
)
_MESSAGE = re.compile(r'(?:^| )msg=(?:"((?:[^"\\]|\\.)*)"|([^\s"\']+))(?= |$)')
_LEVEL_PAIR = re.compile(r"\b(?:level|lvl)=(\w+)")
"""Parts of logfmt behind another log's prefix."""
_GSTREAMER = re.compile(
    r"\d+:\d\d:\d\d\.\d{9} +\S+ +(?P<file>[^ :]+):\d+:(?P<function>[^ :]+):(?P<object><[^>]*>)? *(?P<word>\S*)"
)
_CALL = re.compile(r"(?P<call>\w+)\(.*?(?:= -1 (?P<fault>E\w+).*)?$")
_RESUMED = re.compile(r"<\.\.\. (?P<call>\w+) resumed>.*?(?:= -1 (?P<fault>E\w+).*)?$")
_SIGNAL = re.compile(r"--- (?P<signal>SIG\w+)")
_EXIT = re.compile(r"\+\+\+ (?P<how>exited|killed)(?: with| by)? (?P<what>\w+)")


def kind_of_text(parts: Parts) -> EventType:
    """Return the type of a message: its template, plugin and level."""
    message, level = parts["message"] or "", (parts.get("level") or "").upper()
    if "msg=" in message and (found := _MESSAGE.search(message)) and (found[1] or _LEVEL_PAIR.search(message)):
        named = _LEVEL_PAIR.search(message)
        message, level = found[1] or found[2], level or (named[1].upper() if named else "")
    return EventType(template_of(message), parts.get("plugin") or "", _LEVELS.get(level, level))


def _with_component(parts: Parts) -> EventType:
    """Return the type of a message that begins with a thread in brackets and a component."""
    found = _COMPONENT.match(parts["message"] or "")
    if not found or parts.get("plugin"):
        return kind_of_text(parts)
    return kind_of_text({"level": parts.get("level"), "plugin": found["plugin"], "message": found["rest"]})


def _with_gstreamer(parts: Parts) -> EventType:
    """Return the type of an Android event; one of GStreamer has the identity that it has in GStreamer's own log."""
    tag = parts.get("plugin") or ""
    found = _GSTREAMER.match(parts["message"] or "") if tag.startswith("GStreamer+") else None
    kind = kind_of_text(parts)
    if not found:
        return kind
    name = " ".join(
        each for each in (kind.level, found["function"], found["object"], template_of(found["word"])) if each
    )
    return EventType(
        name, tag.removeprefix("GStreamer+"), kind.level, (found["object"] or "").strip("<>").split(":")[0]
    )


def kind_of_request(method: str, path: str, status: str) -> EventType:
    """Return the type of a request: its method, the path without its query, and the status."""
    path = template_of(path.partition("?")[0].replace("/", " ")).replace(" ", "/")
    return EventType(" ".join(filter(None, (method, f"/{path}", status))), "access", "")


def _request(parts: Parts) -> EventType:
    return kind_of_request(parts["plugin"] or "", parts["message"] or "", parts["status"] or "")


def _kernel_event(parts: Parts) -> EventType:
    name = parts["message"] or ""
    return EventType(name, name.partition(":")[0] if ":" in name else name.partition("_")[0])


def _call(parts: Parts) -> EventType | None:
    """Return the type of a system call, with its error; None for the first half of an interrupted call's two lines."""
    text = parts["message"] or ""
    if text.endswith("<unfinished ...>"):
        return None
    found = _RESUMED.match(text) or _CALL.match(text)
    if found:
        return EventType(" ".join(filter(None, (found["call"], found["fault"]))), "strace")
    if found := _SIGNAL.match(text):
        return EventType(found["signal"], "signal")
    if found := _EXIT.match(text):
        return EventType(f"{found['how']} {template_of(found['what'])}", "exit")
    raise ValueError("neither a call, a signal nor an exit after the time")


_MANY, _FEW_TYPES, _OFTEN, _TEXTS = 50, 2, 3, 4
"""Events, types, recurrences of a line's words, and different words, from which a log has more types than were read."""
_WORD = re.compile(r"(?<![\w./:-])[A-Za-z]{3,}(?![\w./:-])")


@dataclass(frozen=True, kw_only=True)
class FreeTextFormat(PlainFormat):
    """Format whose events are free text with a date-time; `late_ns` is by how much an event may be late."""

    unit: Unit = "ns"
    late_ns: int = 2_000_000_000

    @property
    def names_texts(self) -> bool:
        """Whether an event type is a text of the program, so that different texts are of different types."""
        return True

    @abstractmethod
    def log_parser(self, sample: LogSample) -> tuple[LineParser, Callable[[], str]]:
        """Return a parser of one log's lines, and a function that returns what it assumed."""

    def read(self, blocks: Blocks, sample: LogSample, options: ReadOptions) -> ScannedLog:
        """Read all lines of a log, one at a time."""
        return self.read_dated(blocks, sample, options)

    def read_dated(self, blocks: Blocks, sample: LogSample, options: ReadOptions) -> ScannedLog:
        """Read all lines of a log by its parser."""
        parse, note = self.log_parser(sample)
        most_late = self.late_ns if options.most_late is None else options.most_late
        log = self.read_lines(parse, lambda: self.unit, blocks, sample, replace(options, most_late=most_late))
        collapsed = _collapse(sample, log) if self.names_texts else ""
        return replace(log, reading=replace(log.reading, assumed=note(), collapsed=collapsed))


@dataclass(frozen=True, kw_only=True)
class DatedFormat(FreeTextFormat):
    """Format of lines with a date-time.

    `layouts`: Regular expressions of a line; `@` is the place of the stamp, and groups are message, plugin, level.
    `stamps`: Names of the stamps that it can have. `kind`: Returns the event's type, or None for no event.
    `adds_up`: Whether seconds without a date are since the preceding line, as those of `strace -r`.
    """

    layouts: tuple[str, ...]
    stamps: tuple[str, ...] = tuple(name for name in STAMPS if name not in ("common", "epoch", "seconds"))
    kind: Callable[[Parts], EventType | None] = kind_of_text
    adds_up: bool = False
    follow: Callable[[Parts, int, EventType | None], None] | None = None  # Called for each event, and each None

    @property
    def names_texts(self) -> bool:
        """Whether an event type is a text of the program: calls and requests are none."""
        return self.kind not in (_request, _kernel_event, _call)

    def line_of(self, sample: LogSample) -> tuple[str, re.Pattern[str], float]:
        """Return the stamp and the expression that match most of a sample's lines, and their share."""
        lines = [line for line in sample.lines if not line.startswith(self.remarks)]
        lines = [line for line in lines if not line[0].isspace()] or lines
        best: tuple[str, re.Pattern[str], float] | None = None
        for layout in self.layouts:
            for stamp in self.stamps:
                line = _line(layout, stamp)
                share = share_of(line, lines)
                if best is None or share > best[2]:
                    best = stamp, line, share
                if share == 1.0:
                    return best
        if best is None:
            raise TypeError(f"log format {self.name} has no layout or no stamp")
        return best

    def recognise(self, sample: LogSample, options: ReadOptions) -> float:  # noqa: ARG002  as all formats
        """Return the share of a log's lines that match this format, from 0 to 1."""
        return self.line_of(sample)[2]

    def log_parser(self, sample: LogSample) -> tuple[LineParser, Callable[[], str]]:
        """Return a parser of one log's lines, and a function that returns what it assumed."""
        stamp, line, share = self.line_of(sample)
        if not share:
            raise DataError(
                f"{sample.source}:1: no line has the format {self.name}; the first begins with {sample.lines[0][:60]!r}"
                ": leave out the format to have it detected, or name another one"
            )
        if stamp == "clock":
            _refuse_unknown_dates(line, sample)
        clock, kind, begun = Clock(stamp), self.kind, False
        adds_up, total = self.adds_up and stamp == "seconds", 0

        def parse(text: str) -> tuple[int, EventType] | None:
            nonlocal begun, total
            found = line.match(text)
            if not found:
                if begun or text.startswith(self.remarks):
                    return None  # the line continues a message
                raise ValueError(f"no {SAYS[stamp]} where the log's other lines have one")
            parts = found.groupdict()
            time, event = clock.nanoseconds(parts), kind(parts)
            if adds_up:
                time = total = total + time
            begun = True
            if self.follow:
                self.follow(parts, time, event)
            return None if event is None else (time, event)

        return parse, lambda: clock.note


def _collapse(sample: LogSample, log: ScannedLog) -> str:
    """Return why the events are probably of more types than were read: their lines have other words."""
    if len(log.times) < _MANY or len(set(log.types)) > _FEW_TYPES:
        return ""
    words = Counter(tuple(_WORD.findall(line)) for line in sample.lines)
    often = [found for found, times in words.items() if times >= _OFTEN]
    if len(often) < _TEXTS:
        return ""
    types = "a single type" if len(set(log.types)) == 1 else "two types"
    return (
        f"{sample.source}: all {len(log.times):,} events are of {types}, but their lines have at least {len(often)} "
        "different texts: name the part that differs by the group `name` of a `pattern` (--pattern)"
    )


def _refuse_unknown_dates(line: re.Pattern[str], sample: LogSample) -> None:
    """Raise DataError if a date in an unknown form is beside the times of day of most lines: days would be lost."""
    found = list(filter(None, map(line.match, sample.lines)))
    dates = list(filter(None, (date_beside(one.string, one.start("hour"), one.end("second")) for one in found)))
    if 2 * len(dates) > len(found):
        raise DataError(
            f"{sample.source}:1: a date in an unknown form is beside the time of day, such as {dates[0]!r}: write "
            "date and time as 2024-05-01 12:00:00; if it is no date, give a regular expression as `pattern` (--pattern)"
        )


def _line(layout: str, stamp: str) -> re.Pattern[str]:
    before, _, behind = layout.partition("@")
    return re.compile(f"{before}{STAMPS[stamp]}{behind}")


SYSLOG = DatedFormat(
    name="syslog",
    meaning="syslog, or journald's text",
    layouts=(
        rf"(?:<\d+>)?(?:[A-Z][a-z]{{2}} )?@(?: [A-Z]{{3,4}})? {_HOST} (?P<plugin>[A-Za-z_/][^\s:\[(]*)(?:\([^)]*\))?"
        r"(?:\[[^\]]*\])?: (?P<message>.*)",
        r"<\d+>1 @ \S+ (?P<plugin>\S+) \S+ \S+ (?:-|\[(?:[^\]\\]|\\.)*\]) ?(?P<message>.*)",
        rf"(?:<\d+>)?@ {_HOST} (?P<plugin>[A-Za-z_/][^\s:\[(]*(?: [^\s:\[(]+){{0,3}})(?:\([^)]*\))?(?:\[[^\]]*\])?"
        r"(?: \([^)]*\))?: (?P<message>.*)",
    ),
    stamps=("syslog", "iso"),
    remarks=("--",),
    late_ns=10_000_000_000,  # programs send their messages through a socket, some over a network
)
LOGCAT = DatedFormat(
    name="logcat",
    meaning="Android's logcat -v threadtime",
    layouts=(
        r"@(?: +\w+)?? +\d+ +\d+ (?P<level>[VDIWEFAS]) (?P<plugin>.*?) *: ?(?P<message>.*)",
        r"@ +\d+-\d+ +(?P<plugin>\S+(?: \S+)*) +\S+ +(?P<level>[VDIWEFA]) +(?P<message>.*)",  # Android Studio's
    ),
    stamps=("day", "iso", "epoch"),
    remarks=("---------",),
    kind=_with_gstreamer,
)
LOG4J = DatedFormat(
    name="log4j",
    meaning="date, level, component and text, as log4j and Python's logging write them",
    layouts=(
        rf"\[?@\]?,?(?: +-)? +(?:\d+ +)?\[?{_LEVEL}\]?\b:? +(?P<message>.*)",
        rf"\[?@\]?,?(?: +-)? +(?P<plugin>[\w.$-]+) +(?:- +)?\[?{_LEVEL}\]?\b:? +(?:- +)?(?P<message>.*)",
        rf"\[?@\]?,?(?: +-)? +\[[^\]]*\] +\[?{_LEVEL}\]?\b:? +(?P<message>.*)",
        rf"\S+ @(?: +\d+)? +{_LEVEL}\b +(?P<message>.*)",
    ),
    kind=_with_component,
)
APACHE = DatedFormat(
    name="apache",
    meaning="error logs of Apache and nginx",
    layouts=(
        r"\[@\] \[(?:(?P<plugin>\w+):)?(?P<level>\w+)\] (?:\[[^\]]*\] )*(?P<message>.*)",
        r"@ \[(?P<level>\w+)\] \d+#\d+: (?:\*\d+ )?(?P<message>.*)",
    ),
    stamps=("ctime", "iso", "named"),
)
ACCESS = DatedFormat(
    name="access",
    meaning="access logs of Apache and nginx",
    layouts=(r'\S+ \S+ .*?\[@\] "(?P<plugin>[A-Z]+) (?P<message>[^" ]*)[^"]*" (?P<status>\d{3})\b',),
    stamps=("common", "iso"),
    kind=_request,
    late_ns=60_000_000_000,  # the time is that of the request's arrival, and the line is written at its end
)
DMESG = DatedFormat(
    name="dmesg",
    meaning="the kernel's messages",
    layouts=(r"(?:<\d+>)?\[ *@\](?:\[[ \w]+\])? (?:(?P<plugin>[A-Za-z][\w.-]*)(?: [\w:.-]+)?: )?(?P<message>.*)",),
    stamps=("seconds", "ctime", "iso"),
)
LTTNG = DatedFormat(
    name="lttng",
    meaning="the text of babeltrace",
    layouts=(r"\[@\] \(\+?[\d.?]+\) (?:(?!\{)\S+ ){0,2}(?P<message>[\w:]+): \{",),
    stamps=("clock", "iso", "epoch", "seconds"),
    kind=_kernel_event,
    rank=3,
)


@dataclass(frozen=True, kw_only=True)
class _StraceFormat(DatedFormat):
    """Format of strace, where a call that others interrupt is one event, at the time of its first line."""

    def read(self, blocks: Blocks, sample: LogSample, options: ReadOptions) -> ScannedLog:
        """Read all lines of a log, one at a time; the lines are in order of time, and the calls are sorted later."""
        begun: dict[tuple[str, str], int] = {}
        starts: dict[int, int] = {}
        events = 0

        def follow(parts: Parts, time: int, event: EventType | None) -> None:
            nonlocal events
            text = parts["message"] or ""
            if event is None:
                begun[parts["pid"] or parts["number"] or "", text.partition("(")[0]] = time
                return
            if text.startswith("<") and (resumed := _RESUMED.match(text)):
                # Before there are others, strace names no process.
                process = parts["pid"] or parts["number"] or ""
                keys = (process, resumed["call"]), ("", resumed["call"])
                if (start := next((begun.pop(key) for key in keys if key in begun), None)) is not None:
                    starts[events] = start
            events += 1

        log = replace(self, follow=follow).read_dated(blocks, sample, options)
        if not starts:
            return log
        log.times[list(starts)] = list(starts.values())
        late = int((np.maximum.accumulate(log.times) > log.times).sum())
        return replace(log, reading=replace(log.reading, out_of_order=log.reading.out_of_order + late))


STRACE = _StraceFormat(
    name="strace",
    meaning="strace -t, -tt, -ttt or -r, with or without -f",
    layouts=(r" *(?:\[pid +(?P<pid>\d+)\] +|(?P<number>\d+) +)?@ (?P<message>(?:\w+\(|<\.\.\. |--- SIG|\+\+\+ ).*)",),
    stamps=("clock", "epoch", "seconds"),
    remarks=("strace: ",),
    kind=_call,
    adds_up=True,
)


def _with_before(parts: Parts) -> EventType:
    """Return the type of free text, with what is before the date-time."""
    before = template_of((parts.get("before") or "").replace("-", " ")).replace("#", "").strip(" -[]|,:")
    return _with_component({"plugin": parts.get("plugin"), "message": f"{before} {parts['message'] or ''}".strip()})


TEXT = DatedFormat(
    name="text",
    meaning="any text with a date-time",
    layouts=(
        r"[\[(]?@\|(?P<plugin>\w+)\|(?:\d+\|)?(?P<message>.*)",
        r"[\[(]?@[\])]?[|,:]? *(?P<message>.*)",
        r"(?P<before>.{1,80}?)(?<![\w.:-])@(?P<message>.*)",
    ),
    stamps=tuple(name for name in STAMPS if name != "seconds"),
    kind=_with_before,
    rank=0,
)
