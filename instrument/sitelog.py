"""The site log: what each run of the wrapper found, one file a run, and what they say together."""

# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH118

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from unperturbed.instrument.settings import write_aside
from unperturbed.instrument.targets import file_matches, split_line

if TYPE_CHECKING:
    from pathlib import Path

    from unperturbed.instrument.events import Event

__all__ = [
    "INSTRUMENTED",
    "NOT_INSTRUMENTED",
    "PASSED_OVER",
    "Site",
    "SiteReport",
    "SourceRecord",
    "missing_metrics",
    "read_sites",
    "write_log",
]

INSTRUMENTED, PASSED_OVER, NOT_INSTRUMENTED = "instrumented", "passed over", "not instrumented"
"""States of a source: it has counters; it holds no site; it may hold sites that could not be counted."""

_SHOWN_FILES = 8
_SHOWN_NAMES = 3


class Site(NamedTuple):
    """A place where a metric counts: metric, slot in its source's counters, file and line as in the line markers, text."""

    metric: str
    slot: int
    file: str
    line: int
    text: str


class SourceRecord(NamedTuple):
    """What one run of the wrapper did with one source.

    Attributes
    ----------
    source, output, folder : as the command named them; the folder where it ran.
    state : `instrumented`, `passed over` or `not instrumented`; the reason of the last.
    sites : where metrics count.
    unseen : where a metric's event may happen uncounted; `text` says why.
    names : names that could have been targets, by kind of name.
    """

    source: str
    output: str
    folder: str
    state: str
    reason: str = ""
    sites: tuple[Site, ...] = ()
    unseen: tuple[Site, ...] = ()
    names: Mapping[str, tuple[str, ...]] = {}


class SiteReport:
    """What the site log of one build says.

    Attributes
    ----------
    sites : metric → its sites, each file, line and text once, in order.
    unseen : metric → places where its event may happen uncounted.
    skipped : source → why it is compiled without counters though it may hold sites.
    sources : every source that was compiled.
    """

    def __init__(self, records: list[SourceRecord]) -> None:
        self._records = records
        self.sites = _by_metric(site for record in records for site in record.sites)
        self.unseen = _by_metric(site for record in records for site in record.unseen)
        self.skipped = {record.source: record.reason for record in records if record.state == NOT_INSTRUMENTED}
        self.sources = tuple(dict.fromkeys(record.source for record in records))

    def names(self, kind: str) -> set[str]:
        """Return names seen in the sources that a target of this kind of event could have."""
        kinds = {
            "enter": ("function",),
            "return": ("function",),
            "call": ("function",),
            "write": ("variable", "field"),
            "loop": ("function", "loop", "line"),
            "line": ("line",),
            "label": ("label",),
        }[kind]
        return {name for part in kinds for name in self._named(part)}

    def files(self) -> set[str]:
        """Return the files, headers too, that were seen in the sources."""
        return self._named("file")

    def _named(self, part: str) -> set[str]:
        return {name for record in self._records for name in record.names.get(part, ())}


def write_log(folder: str, records: list[SourceRecord]) -> None:
    """Write the log of one run of the wrapper, as a file of its own that appears whole."""
    described = {"time_ns": time.time_ns(), "sources": [_described(record) for record in records]}
    name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}.json"
    write_aside(os.path.join(folder, name), json.dumps(described).encode())


def read_sites(folder: Path) -> SiteReport:
    """Read the site log of a toolchain's folder. Of a source compiled more than once into one output, the last run counts."""
    latest: dict[tuple[str, str, str], SourceRecord] = {}
    for path in sorted((folder / "sites").glob("*.json")):
        for described in json.loads(path.read_bytes())["sources"]:
            record = _read(described)
            latest[record.folder, record.source, record.output] = record
    return SiteReport(list(latest.values()))


def missing_metrics(report: SiteReport, software: Mapping[str, Event]) -> list[str]:
    """Return one message for each metric without a site: what was looked for, where, and the nearest names of the right kind."""
    return [_missing(name, event, report) for name, event in software.items() if not report.sites.get(name)]


def _missing(name: str, event: Event, report: SiteReport) -> str:
    message = f"software metric {name!r}: no place in the program matches {event.kind}: {event.target}"
    message += "".join(f", {key}: {value}" for key, value in event.to_json().items() if key in ("in", "file"))
    if not report.sources:
        return f"{message}; no source was compiled by the instrumenting compiler: does the build command use {{cc}} or {{cxx}}?"
    unseen = report.unseen.get(name)
    if unseen:
        return f"{message} that can be counted; {unseen[0].file}:{unseen[0].line}: {unseen[0].text}"
    nearest = _nearest(event, report)
    message += f"; nearest names: {', '.join(nearest)}" if nearest else "; no name is near it"
    shown = ", ".join(report.sources[:_SHOWN_FILES])
    more = len(report.sources) - _SHOWN_FILES
    message += f"; looked at {shown}" + (f" and {more} more" if more > 0 else "")
    reasons = "; ".join(f"{source} ({reason})" for source, reason in list(report.skipped.items())[:_SHOWN_NAMES])
    return message + (f"; could not look into {reasons}" if reasons else "")


def _nearest(event: Event, report: SiteReport) -> list[str]:
    from rapidfuzz import fuzz, process  # noqa: PLC0415  only an error needs it

    names = report.names(event.kind)
    place = split_line(event.target) if event.kind in ("line", "loop") else None
    if place is not None:
        lines = sorted(
            (line for line in names if split_line(line)), key=lambda name: abs(int(name.rpartition(":")[2]) - place[1])
        )
        files = process.extract(place[0], sorted(report.files()), scorer=fuzz.ratio, limit=_SHOWN_NAMES, score_cutoff=50)
        return lines[:_SHOWN_NAMES] or [f"{file}:…" for file, _, _ in files if not file_matches(file, place[0])]
    candidates = set(names)
    for mark in (".", "::"):
        scope, found, last = event.target.rpartition(mark)
        if found and event.kind in ("write", "label"):
            # Names of files passed over are known without what they belong to.
            near = process.extract(
                last, {name for name in names if mark not in name}, scorer=fuzz.ratio, limit=3, score_cutoff=60
            )
            candidates |= {f"{scope}{mark}{name}" for name, _, _ in near}
    ranked = process.extract(
        event.target, sorted(candidates - {event.target}), scorer=fuzz.ratio, limit=_SHOWN_NAMES, score_cutoff=50
    )
    return [name for name, _, _ in ranked]


def _by_metric(sites: Any) -> dict[str, tuple[Site, ...]]:
    found: dict[str, dict[tuple[str, int, str], Site]] = {}
    for site in sites:
        found.setdefault(site.metric, {}).setdefault((site.file, site.line, site.text), site)
    return {metric: tuple(sorted(places.values(), key=lambda site: site[2:])) for metric, places in found.items()}


def _described(record: SourceRecord) -> dict[str, Any]:
    sites = {"sites": [site._asdict() for site in record.sites], "unseen": [site._asdict() for site in record.unseen]}
    return {**record._asdict(), **sites}


def _read(described: dict[str, Any]) -> SourceRecord:
    sites = {key: tuple(Site(**site) for site in described[key]) for key in ("sites", "unseen")}
    names = {kind: tuple(names) for kind, names in described["names"].items()}
    return SourceRecord(**{**described, **sites, "names": names})
