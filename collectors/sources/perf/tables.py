"""perf's own tables for this processor, as the installed perf lists them: metrics, and the events that they name.

`perf list --json` (perf 6.2 and later) describes both. Older versions have `perf list --details`, whose text holds the
same. perf chooses the tables by the processor; PERF_CPUID in the environment names another one.
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
"""perf's words for the cores' PMU where all cores are alike."""
_NOT_ENCODING = ("period=", "name=")


@dataclass(frozen=True)
class PerfMetric:
    """A metric of perf's tables."""

    name: str  # As `perf stat -M` takes it
    formula: str  # Its `MetricExpr`
    groups: tuple[str, ...] = ()  # Groups that perf lists it in, such as `TopdownL1`
    meaning: str = ""  # perf's description, one line
    pmu: str = ""  # The kind of core that it is for, on a hybrid processor; empty elsewhere
    scale_unit: str = ""  # What perf multiplies the value by, and the unit then, such as `100%`

    @property
    def asked(self) -> str:
        """Return the name by which a spec asks for this one of several kinds of core."""
        return f"{self.pmu}/{self.name}/" if self.pmu else self.name


@dataclass(frozen=True)
class TableEvent:
    """An event of perf's tables."""

    name: str  # As perf lists it, in small letters
    pmu: str  # What counts it
    terms: tuple[str, ...]  # Its encoding, such as `event=0xc4`, `umask=0x20`


@dataclass(frozen=True)
class PerfTables:
    """The listing of the installed perf."""

    version: str = ""  # Of perf
    problem: str = ""  # Why there is nothing; empty when there is something
    # In perf's order; on a hybrid processor, one name may stand for two.
    metrics: tuple[PerfMetric, ...] = ()
    events: Mapping[str, tuple[TableEvent, ...]] = field(default_factory=dict)  # By name in small letters

    def named(self, name: str) -> tuple[PerfMetric, ...]:
        """Return the metrics of a name; small and capital letters are alike only where nothing else fits."""
        exact = tuple(metric for metric in self.metrics if metric.name == name)
        return exact or tuple(metric for metric in self.metrics if metric.name.casefold() == name.casefold())


@cache
def read_tables() -> PerfTables:
    """Ask the installed perf for its tables, once in a process."""
    perf = shutil.which("perf")
    if perf is None:
        return PerfTables(problem="perf is not installed (in Debian: apt-get install linux-perf)")
    version = _ask([perf, "--version"]).removeprefix("perf version").strip()
    listed = _ask([perf, "list", "--json"])
    found = parse_json(listed) if listed.lstrip().startswith("[") else parse_text(_ask([perf, "list", "--details"]))
    problem = "" if found.metrics else f"perf {version} has no metrics for this processor; a newer perf may"
    return replace(found, version=version, problem=problem)


def _ask(command: Sequence[str]) -> str:
    """Return what a command prints; nothing where it fails."""
    environment = {**os.environ, "LC_ALL": "C", "PAGER": "cat"}
    try:
        done = supervision.run(command, capture_output=True, timeout=_SECONDS, env=environment)
    except (subprocess.TimeoutExpired, OSError):
        return ""
    return str(done.stdout.decode(errors="replace"))


def parse_json(text: str) -> PerfTables:
    """Read what `perf list --json` printed; tables without anything where it is damaged."""
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
    """Return each metric once, with all groups under which perf lists it."""
    found: dict[tuple[str, str, str], PerfMetric] = {}
    for metric in metrics:
        key = (metric.name, metric.pmu, metric.formula)
        before = found.get(key)
        groups = dict.fromkeys((*before.groups, *metric.groups)) if before else metric.groups
        found[key] = replace(before or metric, groups=tuple(groups))
    return tuple(found.values())


def _metric(entry: Mapping[str, Any]) -> PerfMetric:
    meaning, pmu = _without_unit(str(entry.get("BriefDescription", "")))
    groups = tuple(filter(None, str(entry.get("MetricGroup", "")).split(";")))
    unit = str(entry.get("Unit", "")) or pmu
    own = "" if unit in _ONLY_CORE else unit
    name, formula, scale = str(entry["MetricName"]), str(entry["MetricExpr"]), str(entry.get("ScaleUnit", ""))
    return PerfMetric(name, formula, groups, meaning, own, scale)


def _without_unit(meaning: str) -> tuple[str, str]:
    """Part a description from the PMU that perf puts behind it."""
    found = _UNIT.search(meaning)
    return (meaning[: found.start()].strip(), found["pmu"]) if found else (meaning.strip(), "")


def _event(name: str, encoding: str) -> Iterator[TableEvent]:
    """Yield an event of a PMU by its encoding; names that stand for another event have none."""
    if found := _ENCODED.fullmatch(encoding.strip()):
        terms = tuple(term for term in found["terms"].split(",") if term and not term.startswith(_NOT_ENCODING))
        if all("=" in term for term in terms) and terms:
            yield TableEvent(name.casefold(), found["pmu"], terms)


def _by_name(events: Iterable[TableEvent]) -> dict[str, tuple[TableEvent, ...]]:
    found: dict[str, dict[TableEvent, None]] = {}
    for event in events:
        found.setdefault(event.name, {})[event] = None
    return {name: tuple(alike) for name, alike in found.items()}


def parse_text(text: str) -> PerfTables:
    """Read what `perf list --details` printed: events with their encodings, then groups of metrics with formulas."""
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
    """Yield each line that is indented by two or less, and those below it that are indented more."""
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
    """Return a metric from its description and its formula, each in brackets; None where one is missing."""
    parts = [part[1:-1].strip() for part in body if part.startswith("[") and part.endswith("]")]
    if not parts or " " in name:
        return None
    meaning, pmu = _without_unit(parts[0]) if len(parts) > 1 else ("", "")
    return PerfMetric(name, parts[-1], meaning=meaning, pmu=pmu)
