"""perf's tables for this processor, as listed by the installed perf: metrics, and the events in their formulas.

`perf list --json` (perf 6.2 and later) describes both. In older versions, the text of `perf list --details` contains
the same. perf chooses the tables by processor; the environment variable PERF_CPUID selects a different processor.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from unperturbed.common import supervision

_SECONDS = 60.0
_UNIT = re.compile(r"[.\s]*\bUnit: (?P<pmu>[\w\-]+)\s*$")
_ENCODED = re.compile(r"(?P<pmu>[A-Za-z_][\w\-]*)/(?P<terms>[^/]*)/")
_ONLY_CORE = ("cpu", "default_core")
"""perf's words for the cores' PMU if all cores are alike."""
_NOT_ENCODING = ("period=", "name=")


@dataclass(frozen=True)
class PerfMetric:
    """Metric in perf's tables."""

    name: str  # The metric's name for `perf stat -M`
    formula: str  # The metric's `MetricExpr`
    groups: tuple[str, ...] = ()  # perf's groups with this metric, such as `TopdownL1`
    meaning: str = ""  # perf's description, one line
    pmu: str = ""  # PMU of the metric's kind of core on a hybrid processor; otherwise empty
    scale_unit: str = ""  # perf's factor for the value, and the resulting unit, such as `100%`

    @property
    def asked(self) -> str:
        """Return the metric's name in a spec, including its kind of core on a hybrid processor."""
        return f"{self.pmu}/{self.name}/" if self.pmu else self.name


@dataclass(frozen=True)
class TableEvent:
    """Event in perf's tables."""

    name: str  # perf's name of the event, in lower case
    pmu: str  # The PMU that counts the event
    terms: tuple[str, ...]  # The event's encoding, such as `event=0xc4`, `umask=0x20`


@dataclass(frozen=True)
class PerfTables:
    """Metrics and events that the installed perf lists."""

    version: str = ""  # perf's version
    problem: str = ""  # Why perf lists no metrics; empty if it lists any
    # The metrics in perf's order; on a hybrid processor, two metrics may have the same name.
    metrics: tuple[PerfMetric, ...] = ()
    events: Mapping[str, tuple[TableEvent, ...]] = field(default_factory=dict)  # The events by name in lower case

    def named(self, name: str) -> tuple[PerfMetric, ...]:
        """Return the metrics with the given name; case is ignored only if no name matches exactly."""
        exact = tuple(metric for metric in self.metrics if metric.name == name)
        return exact or tuple(metric for metric in self.metrics if metric.name.casefold() == name.casefold())


@cache
def read_tables() -> PerfTables:
    """Read the tables from the installed perf, once for each process."""
    perf = shutil.which("perf")
    if perf is None:
        return PerfTables(problem="perf is not installed (on Debian: apt-get install linux-perf)")
    version = _ask([perf, "--version"]).removeprefix("perf version").strip()
    listed = _ask([perf, "list", "--json"])
    tables = parse_json(listed) if listed.lstrip().startswith("[") else parse_text(_ask([perf, "list", "--details"]))
    problem = (
        "" if tables.metrics else f"perf {version} has no metrics for this processor; a newer version may have some"
    )
    return replace(tables, version=version, problem=problem)


def _ask(command: Sequence[str]) -> str:
    """Return the output of a command; empty if the command fails."""
    environment = {**os.environ, "LC_ALL": "C", "PAGER": "cat"}
    try:
        done = supervision.run(command, capture_output=True, timeout=_SECONDS, env=environment)
    except (subprocess.TimeoutExpired, OSError):
        return ""
    return str(done.stdout.decode(errors="replace"))


def parse_json(text: str) -> PerfTables:
    """Parse the output of `perf list --json`; return empty tables if it is damaged."""
    try:
        entries = json.loads(text, strict=False)
    except ValueError:
        return PerfTables()
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    metrics = (_metric(entry) for entry in entries if entry.get("MetricName") and entry.get("MetricExpr"))
    named = ((str(entry["EventName"]), str(entry.get("Encoding", ""))) for entry in entries if entry.get("EventName"))
    events = [event for name, encoding in named for event in _event(name, encoding)]
    return PerfTables(metrics=_merged(metrics), events=_by_name(events))


def _merged(metrics: Iterable[PerfMetric]) -> tuple[PerfMetric, ...]:
    """Return each metric once, with all the groups that perf lists it under."""
    merged: dict[tuple[str, str, str], PerfMetric] = {}
    for metric in metrics:
        key = (metric.name, metric.pmu, metric.formula)
        before = merged.get(key)
        groups = dict.fromkeys((*before.groups, *metric.groups)) if before else metric.groups
        merged[key] = replace(before or metric, groups=tuple(groups))
    return tuple(merged.values())


def _metric(entry: Mapping[str, Any]) -> PerfMetric:
    meaning, pmu = _without_unit(str(entry.get("BriefDescription", "")))
    groups = tuple(filter(None, str(entry.get("MetricGroup", "")).split(";")))
    unit = str(entry.get("Unit", "")) or pmu
    own = "" if unit in _ONLY_CORE else unit
    name, formula, scale = str(entry["MetricName"]), str(entry["MetricExpr"]), str(entry.get("ScaleUnit", ""))
    return PerfMetric(name, formula, groups, meaning, own, scale)


def _without_unit(meaning: str) -> tuple[str, str]:
    """Split a description from the PMU that perf appends to it."""
    match = _UNIT.search(meaning)
    return (meaning[: match.start()].strip(), match["pmu"]) if match else (meaning.strip(), "")


def _event(name: str, encoding: str) -> Iterator[TableEvent]:
    """Yield the event if it has an encoding; aliases of other events have none."""
    if match := _ENCODED.fullmatch(encoding.strip()):
        terms = tuple(term for term in match["terms"].split(",") if term and not term.startswith(_NOT_ENCODING))
        if all("=" in term for term in terms) and terms:
            yield TableEvent(name.casefold(), match["pmu"], terms)


def _by_name(events: Iterable[TableEvent]) -> dict[str, tuple[TableEvent, ...]]:
    by_name: dict[str, dict[TableEvent, None]] = {}
    for event in events:
        by_name.setdefault(event.name, {})[event] = None
    return {name: tuple(alike) for name, alike in by_name.items()}


def parse_text(text: str) -> PerfTables:
    """Parse the output of `perf list --details`: events with encodings, then groups of metrics with formulas."""
    events: list[TableEvent] = []
    metrics: list[PerfMetric] = []
    group, within_metrics = "", False
    for head, body in _paragraphs(text):
        if head in ("Metric Groups:", "Metrics:"):
            within_metrics, group = True, ""
        elif not head.startswith(" "):
            group = head.partition(":")[0].strip()
        elif within_metrics:
            metric = _metric_of_text(head.strip(), body)
            metrics += [replace(metric, groups=(group,) if group else ())] if metric else []
        elif body:
            events += _event(head.split()[0], body[-1])
    return PerfTables(metrics=_merged(metrics), events=_by_name(events))


def _paragraphs(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each line indented by fewer than five spaces, with the lines below it that are indented more."""
    head, body = "", list[str]()
    for line in text.splitlines():
        if line.startswith("     "):
            body.append(line.strip())
        elif line.strip():
            if head:
                yield head, body
            head, body = line.rstrip(), []
    if head:
        yield head, body


def _metric_of_text(name: str, body: Sequence[str]) -> PerfMetric | None:
    """Parse a metric's optional description and its formula, each in brackets; None if there is no formula."""
    parts = [part[1:-1].strip() for part in body if part.startswith("[") and part.endswith("]")]
    if not parts or " " in name:
        return None
    meaning, pmu = _without_unit(parts[0]) if len(parts) > 1 else ("", "")
    return PerfMetric(name, parts[-1], meaning=meaning, pmu=pmu)
