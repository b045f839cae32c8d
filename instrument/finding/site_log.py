"""Site log: one file for each wrapper run with the sites found, and a report on the whole build."""

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
"""States of a source: it has counters; it contains no site; it may contain sites that could not be counted."""

_CHECKS = re.compile(
    r"/CMakeFiles/(?:CMakeScratch|CMakeTmp|[\d.]+[^/]*/CompilerId\w+|ShowIncludes)(?:/|$)|/meson-private/(?:tmp[^/]*|sanity[^/]*)(?:/|$)"
)
"""Folders where CMake and meson compile only to test the compiler."""

_CONFTEST = re.compile(r"(?:.*/)?conftest\.[a-z+]+")


class LoggedSite(NamedTuple):
    """Logged site of a metric."""

    metric: str  # The metric's name
    slot: int  # Index among the counters of its source
    file: str  # File, as in the line markers
    line: int
    text: str  # Source text of the line


class SourceRecord(NamedTuple):
    """Log of one wrapper run on one source."""

    source: str  # Path, as in the command
    output: str  # Path, as in the command
    folder: str  # Working folder of the command
    state: str  # `instrumented`, `passed over` or `not instrumented`
    reason: str = ""  # Why a source is not instrumented
    sites: tuple[LoggedSite, ...] = ()  # Where metrics count
    # Where a metric's event may happen uncounted; `text` is the reason.
    uncounted: tuple[LoggedSite, ...] = ()
    # Names found by parsing that targets could have, by category. All other names are read from the source when needed.
    # Categories in addition to those of `FoundSites`: `overload`, with parameters, and `lambda`, both for targets
    # without a site in the source.
    names: Mapping[str, tuple[str, ...]] = {}
    include_folders: tuple[str, ...] = ()  # Folders where the command searches for the build's headers


class SiteReport:
    """Site log of one build, without the sources that configure, CMake or meson compiled to test the compiler."""

    def __init__(self, records: list[SourceRecord]) -> None:
        records = [record for record in records if not _is_check(record)]
        self._records = records
        # Metric → its sites, and metric → lines where its event may happen uncounted; each line once, sorted.
        self.sites = _by_metric(site for record in records for site in record.sites)
        self.uncounted = _by_metric(site for record in records for site in record.uncounted)
        # Source → why it is compiled without counters although it may contain sites.
        self.skipped = {record.source: record.reason for record in records if record.state == NOT_INSTRUMENTED}
        # Metrics whose `add` does not compile, so that these sources have no counters of any metric.
        self.faulty = {
            place.metric for record in records if record.state == NOT_INSTRUMENTED for place in record.uncounted
        }
        # Every compiled source, including sources without a site whose compilation failed.
        self.sources = tuple(dict.fromkeys(record.source for record in records))

    def parsed_names(self, part: str) -> set[str]:
        """Return the names in one category that parsing found; see `SourceRecord`."""
        return set().union(*(record.names.get(part, ()) for record in self._records))

    @property
    def origins(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Return, for each source, its compiler's working folder, its path, and its header folders."""
        return [(record.folder, record.source, record.include_folders) for record in self._records]


def write_log(folder: str, records: list[SourceRecord]) -> None:
    """Write the log of one wrapper run to a separate file, atomically."""
    sources = [
        record._asdict() | {key: [site._asdict() for site in getattr(record, key)] for key in ("sites", "uncounted")}
        for record in records
    ]
    described = {"time_ns": time.time_ns(), "sources": sources}
    name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}.json"
    write_whole(os.path.join(folder, name), json.dumps(described).encode())


def read_sites(folder: Path) -> SiteReport:
    """Read a toolchain's site log; if a source was compiled repeatedly into one output, use only the last run."""
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


def count_records(folder: Path) -> int:
    """Return how many compilations a toolchain's site log has so far: the build may still run."""
    passed = folder / "sites" / "passed"
    records = passed.read_bytes().count(b"\0\0") if passed.is_file() else 0
    return records + sum(1 for _ in (folder / "sites").glob("*.json"))


def _read_passed(log: bytes) -> Iterator[tuple[int, SourceRecord]]:
    """Read the launcher's log: records of NUL-terminated fields (letter and value), each ended by an empty field."""
    fields: dict[bytes, list[str]] = {}
    for field in log.split(b"\0"):
        if field[:1] == b"t":
            fields = {}  # the previous record was cut off
        if field:
            fields.setdefault(field[:1], []).append(field[1:].decode("utf-8", "surrogateescape"))
        elif {b"t", b"f", b"s", b"o"} <= fields.keys():
            source, output, folder = (fields[name][0] for name in (b"s", b"o", b"f"))
            folders = tuple(fields.get(b"i", ()))
            yield int(fields[b"t"][0]), SourceRecord(source, output, folder, PASSED_OVER, include_folders=folders)
            fields = {}


def is_check_folder(folder: str) -> bool:
    """Return whether CMake or meson compiles in a folder only to test the compiler."""
    return _CHECKS.search(folder) is not None


def _is_check(record: SourceRecord) -> bool:
    """Return whether a source only tests the compiler. An existing conftest.c is real: autoconf deletes its own."""
    path = os.path.join(record.folder, record.source)
    if is_check_folder(path) or is_check_folder(record.folder):
        return True
    return _CONFTEST.fullmatch(record.source) is not None and not os.path.exists(path)


def _by_metric(sites: Any) -> dict[str, tuple[LoggedSite, ...]]:
    by_metric: dict[str, dict[tuple[str, int, str], LoggedSite]] = {}
    for site in sites:
        by_metric.setdefault(site.metric, {}).setdefault((site.file, site.line, site.text), site)
    return {metric: tuple(sorted(places.values(), key=lambda site: site[2:])) for metric, places in by_metric.items()}


def _read(described: dict[str, Any]) -> SourceRecord:
    sites = {key: tuple(LoggedSite(**site) for site in described[key]) for key in ("sites", "uncounted")}
    names = {kind: tuple(names) for kind, names in described["names"].items()}
    folders = tuple(described["include_folders"])
    return SourceRecord(**{**described, **sites, "names": names, "include_folders": folders})
