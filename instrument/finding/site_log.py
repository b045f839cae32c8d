"""The site log: what each run of the wrapper found, one file a run, and the report of a whole build."""

# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH110, PTH118

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from unperturbed.instrument.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path


INSTRUMENTED, PASSED_OVER, NOT_INSTRUMENTED = "instrumented", "passed over", "not instrumented"
"""States of a source: it has counters; it holds no site; it may hold sites that could not be counted."""

_CHECKS = re.compile(
    r"/CMakeFiles/(?:CMakeScratch|CMakeTmp|[\d.]+[^/]*/CompilerId\w+|ShowIncludes)(?:/|$)|/meson-private/(?:tmp[^/]*|sanity[^/]*)(?:/|$)"
)
"""Where CMake and meson compile what only asks the compiler something."""

_CONFTEST = re.compile(r"(?:.*/)?conftest\.[a-z+]+")


class LoggedSite(NamedTuple):
    """A place where a metric counts."""

    metric: str  # The metric's name
    slot: int  # Index among the counters of its source
    file: str  # As in the line markers
    line: int
    text: str  # What is written there


class SourceRecord(NamedTuple):
    """The log of one run of the wrapper on one source."""

    source: str  # As the command named it
    output: str  # As the command named it
    folder: str  # Where the command ran
    state: str  # `instrumented`, `passed over` or `not instrumented`
    reason: str = ""  # Of the last of these
    sites: tuple[LoggedSite, ...] = ()  # Where metrics count
    # Where a metric's event may happen uncounted; `text` is the reason.
    uncounted: tuple[LoggedSite, ...] = ()
    # Names that could have been targets, by kind of name, as a parse found them. All others are read from the source
    # when needed. Beside `FoundSites`: `overload`, with parameters, and `lambda`, for targets that have no site
    # there.
    names: Mapping[str, tuple[str, ...]] = {}
    include_folders: tuple[str, ...] = ()  # Where the command looks for the build's own headers


class SiteReport:
    """The site log of one build, without what configure, CMake or meson compiled to query the compiler."""

    def __init__(self, records: list[SourceRecord]) -> None:
        records = [record for record in records if not _is_check(record)]
        self._records = records
        # Metric → its sites, and places where its event may happen uncounted; each file, line and text once, in order.
        self.sites = _by_metric(site for record in records for site in record.sites)
        self.uncounted = _by_metric(site for record in records for site in record.uncounted)
        # Source → why it is compiled without counters though it may hold sites.
        self.skipped = {record.source: record.reason for record in records if record.state == NOT_INSTRUMENTED}
        # Every source that was compiled; of those without a site also such whose compilation then failed.
        self.sources = tuple(dict.fromkeys(record.source for record in records))

    def parsed_names(self, part: str) -> set[str]:
        """Return names of one kind that parses found, see `SourceRecord`."""
        return set().union(*(record.names.get(part, ()) for record in self._records))

    @property
    def origins(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return, for each source, the folder where its compiler ran, its path, and the folders of headers."""
        return [(record.folder, record.source, record.include_folders) for record in self._records]


def write_log(folder: str, records: list[SourceRecord]) -> None:
    """Write the log of one run of the wrapper, as a file of its own that appears whole."""
    sources = [
        record._asdict() | {key: [site._asdict() for site in getattr(record, key)] for key in ("sites", "uncounted")}
        for record in records
    ]
    described = {"time_ns": time.time_ns(), "sources": sources}
    name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}.json"
    write_whole(os.path.join(folder, name), json.dumps(described).encode())


def read_sites(folder: Path) -> SiteReport:
    """Read the site log of a toolchain; of a source compiled more than once into one output, the last run counts."""
    records = []
    for path in (folder / "sites").glob("*.json"):
        described = json.loads(path.read_bytes())
        records += [(described["time_ns"], _read(source)) for source in described["sources"]]
    passed = folder / "sites" / "passed"
    if passed.is_file():
        records += _read_passed(passed.read_bytes())
    latest: dict[tuple[str, str, str], SourceRecord] = {}
    for _, record in sorted(records, key=lambda timed: timed[0]):
        key = (record.folder, record.source, record.output)
        latest.pop(key, None)
        latest[key] = record
    return SiteReport(list(latest.values()))


def _read_passed(log: bytes) -> Iterator[tuple[int, SourceRecord]]:
    """Read the launcher's notes: records of zero-ended fields (a letter and a value), an empty field after each."""
    fields: dict[bytes, list[str]] = {}
    for field in log.split(b"\0"):
        if field[:1] == b"t":
            fields = {}  # the record before this one was cut off
        if field:
            fields.setdefault(field[:1], []).append(field[1:].decode("utf-8", "surrogateescape"))
        elif {b"t", b"f", b"s", b"o"} <= fields.keys():
            source, output, folder = (fields[name][0] for name in (b"s", b"o", b"f"))
            folders = tuple(fields.get(b"i", ()))
            yield int(fields[b"t"][0]), SourceRecord(source, output, folder, PASSED_OVER, include_folders=folders)
            fields = {}


def is_check_folder(folder: str) -> bool:
    """Return whether what is compiled in a folder only asks the compiler something, for CMake or meson."""
    return _CHECKS.search(folder) is not None


def _is_check(record: SourceRecord) -> bool:
    """Return whether a source is no part of the program. autoconf removes its conftest.c; one that remains is real."""
    path = os.path.join(record.folder, record.source)
    if is_check_folder(path) or is_check_folder(record.folder):
        return True
    return _CONFTEST.fullmatch(record.source) is not None and not os.path.exists(path)


def _by_metric(sites: Any) -> dict[str, tuple[LoggedSite, ...]]:
    found: dict[str, dict[tuple[str, int, str], LoggedSite]] = {}
    for site in sites:
        found.setdefault(site.metric, {}).setdefault((site.file, site.line, site.text), site)
    return {metric: tuple(sorted(places.values(), key=lambda site: site[2:])) for metric, places in found.items()}


def _read(described: dict[str, Any]) -> SourceRecord:
    sites = {key: tuple(LoggedSite(**site) for site in described[key]) for key in ("sites", "uncounted")}
    names = {kind: tuple(names) for kind, names in described["names"].items()}
    folders = tuple(described["include_folders"])
    return SourceRecord(**{**described, **sites, "names": names, "include_folders": folders})
