"""The readers again, slow and obvious: whole lines, str.split and regular expressions."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

COLOUR = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
ADDRESS_OR_NUMBER = re.compile(rb"(?<![0-9])0[xX][0-9a-fA-F]+|(?<![A-Za-z0-9_.\-])-?[0-9][0-9.:]*+(?![A-Za-z_])")
ADDRESS = re.compile(rb"(?<![0-9])0[xX][0-9a-fA-F]+")
GSTREAMER = re.compile(
    rb"(?P<time>\d{1,9}:\d\d:\d\d\.\d{9}) +(?P<pid>\d{1,18}) +(?:0x)?(?P<thread>[0-9a-fA-F]{1,16})"
    rb" +(?P<level>[A-Z]+) +(?P<category>[^ ]+)"
    rb" +(?P<file>[^ ]*?):(?P<line>\d+):(?P<function>[^ ]*?):"
    rb"(?:(?P<object><[^\n]*?>)(?= |$)|(?=[ <]|$))[ \t]*(?P<word>[^ \t]*).*",
    re.DOTALL,
)
BEGINS_WITH_TIME = re.compile(rb"\d{1,9}:\d\d(:|$)")
EVENT_WITH_TIME = re.compile(rb"(?P<time>\d+)(?:[ \t]+)(?P<name>[^ \t].*?)[ \t]*", re.DOTALL)


@dataclass
class Naive:
    """What a log holds: (time, name, plugin, level) an event, and counts of what is none."""

    events: list[tuple[int, str, str, str]] = field(default_factory=list)
    lines: int = 0
    bad: int = 0
    further: int = 0
    start_up: int = 0
    bad_numbers: list[int] = field(default_factory=list)

    def sort(self) -> Naive:
        self.events.sort(key=lambda event: event[0])
        return self


def text(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")


def normalised(word: bytes, numbers: bool = True) -> bytes:
    def shorter(found: re.Match[bytes]) -> bytes:
        return b"0x#" if found[0][:2] in (b"0x", b"0X") else b"#"

    return (ADDRESS_OR_NUMBER if numbers else ADDRESS).sub(shorter, word)


def lines_of(log: bytes) -> list[bytes]:
    lines = log.split(b"\n")
    return [line.removesuffix(b"\r") for line in (lines if lines[-1] else lines[:-1])]


def gstreamer(
    log: bytes,
    identity: Sequence[str] = ("level", "function", "word"),
    keep_start_up: bool = False,
    keep_numbers: bool = False,
) -> Naive:
    """One process and its registry's helpers, as the documentation says it."""
    found = Naive()
    opening: set[bytes] = set()
    helpers: set[bytes] = set()
    seen: set[bytes] = set()
    for number, coloured in enumerate(lines_of(log), 1):
        found.lines += 1
        line = COLOUR.sub(b"", coloured)
        if not line.strip(b" \t"):
            continue
        if not BEGINS_WITH_TIME.match(line):
            found.further += 1
            continue
        parts = GSTREAMER.fullmatch(line)
        if not parts or int(parts["time"].split(b":")[1]) > 59 or int(parts["time"].split(b":")[2][:2]) > 59:
            found.bad += 1
            found.bad_numbers.append(number)
            continue
        message = line[parts.start("word") :]
        category, thread = parts["category"], parts["pid"] + parts["thread"]
        if not keep_start_up:
            ready = category == b"GST_INIT" and message.startswith(b"initialized GStreamer successfully")
            seen.add(parts["pid"])
            if ready:
                found.start_up += len(found.events) + 1
                found.events.clear()
                helpers = seen - {parts["pid"]}
                continue
            if parts["pid"] in helpers:
                found.start_up += 1
                continue
            if category in (b"GST_REGISTRY", b"GST_PLUGIN_LOADING"):
                begins = category == b"GST_PLUGIN_LOADING" and message.startswith(b"attempt to load plugin")
                (opening.add if begins else opening.discard)(thread)
            if category in (b"GST_REGISTRY", b"GST_PLUGIN_LOADING") or thread in opening:
                found.start_up += 1
                continue
        hours, minutes, seconds = parts["time"].split(b":")
        time = (int(hours) * 60 + int(minutes)) * 60 * 10**9 + int(seconds.replace(b".", b""))
        fields = {**parts.groupdict(default=b""), "word": normalised(parts["word"], not keep_numbers)}
        fields["object"] = normalised(fields["object"], numbers=False)
        name = " ".join(text(fields[part]) for part in identity if fields[part])
        found.events.append((time, name, text(category), text(parts["level"]) if "level" in identity else ""))
    return found.sort()


def simple(log: bytes) -> Naive:
    found = Naive()
    for number, coloured in enumerate(lines_of(log), 1):
        found.lines += 1
        line = COLOUR.sub(b"", coloured).lstrip(b" \t")
        if not line:
            continue
        if line.startswith(b"#"):
            found.further += 1
            continue
        parts = EVENT_WITH_TIME.fullmatch(line)
        if not parts or int(parts["time"]) >= 2**63:
            found.bad += 1
            found.bad_numbers.append(number)
            continue
        name = text(parts["name"])
        found.events.append((int(parts["time"]), name, name.partition(":")[0] if ":" in name else "", ""))
    return found.sort()


def table(log: bytes, delimiter: str = ",") -> Naive:
    """Columns time, name, plugin, level, in any order; good lines only."""
    rows = csv.DictReader(io.StringIO(text(log)), delimiter=delimiter)
    found = Naive(lines=len(lines_of(log)))
    for row in rows:
        name = row["name"]
        plugin = row.get("plugin") or (name.partition(":")[0] if ":" in name else "")
        found.events.append((int(row["time"]), name, plugin, row.get("level") or ""))
    return found.sort()


def ftrace(log: bytes) -> Naive:
    found = Naive()
    for line in lines_of(log):
        found.lines += 1
        if line.startswith(b"#") or not line.strip():
            found.further += bool(line.strip())
            continue
        _, _, behind = line.partition(b"] ")
        words = behind.split()
        while not words[0].endswith(b":"):
            words.pop(0)
        seconds, micro = words[0][:-1].split(b".")
        time = int(seconds) * 10**9 + int(micro) * 1000
        if words[1] == b"tracing_mark_write:":
            name = text(normalised(words[2]))
            found.events.append((time, name, name.partition(":")[0] if ":" in name else "", ""))
        elif words[1].startswith(b"sys_") and (b"(" in words[1] or words[2:3] == [b"->"]):
            entry = "enter" if b"(" in words[1] else "exit"
            found.events.append((time, f"sys_{entry}_{text(words[1].partition(b'(')[0][4:])}", "syscalls", ""))
        else:
            found.events.append((time, text(words[1][:-1]), "kernel", ""))
    return found.sort()


def joined(lines: Iterable[bytes], end: bytes, is_closed: bool) -> bytes:
    return end.join(lines) + (end if is_closed else b"")
