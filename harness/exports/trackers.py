"""Totals for services that track benchmarks over commits: Bencher, github-action-benchmark and Apache Otava.

Each configuration and metric has one value: the mean of the totals of its runs, with the lowest and the highest run
where the format has a place for them. Gauges and formulas over intervals have no total and are left out. A metric whose
name is taken, as that of the wall time is, gets a number.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.harness.exports import Format, run_writers, unique_name
from unperturbed.harness.exports.content.totals import WALL_TIME, Totals, totals_of

if TYPE_CHECKING:
    from unperturbed.harness.exports.content.runs import ExportedRuns

_NS = 1e9
_LATENCY = "latency"
"""Bencher's own measure of time, in nanoseconds."""
_LONGEST_MEASURE = 64
"""Characters of the longest name of a measure that Bencher accepts."""
_OTAVA_COLUMNS = ("time", "campaign", "configuration")


class _Names:
    """Names of totals in a file: unique, and of one metric the same in each configuration."""

    def __init__(self, wall_time: str = WALL_TIME, *, taken: Sequence[str] = (), longest: int | None = None) -> None:
        self._wall_time, self._longest = wall_time, longest
        self._taken = {wall_time, *taken}
        self._names: dict[str, str] = {}

    def of(self, totals: Totals) -> str:
        """Return the name of a metric, or of the wall time."""
        if totals.metric is None:
            return self._wall_time
        if totals.title not in self._names:
            self._names[totals.title] = unique_name(totals.title, self._taken, longest=self._longest)
        return self._names[totals.title]


def _write_bencher(runs: ExportedRuns, path: Path) -> None:
    """Write the Bencher Metric Format: a benchmark for each configuration, a measure for each metric."""
    names = _Names(_LATENCY, longest=_LONGEST_MEASURE)
    written: dict[str, dict[str, dict[str, float]]] = {}
    for each in totals_of(runs):
        measures = written.setdefault(f"{runs.name}/{each.configuration}", {})
        scale = _NS if each.metric is None else 1.0
        limits = {"lower_value": min(each.values), "upper_value": max(each.values)}
        measures[names.of(each)] = {key: value * scale for key, value in {"value": each.mean, **limits}.items()}
    _write_json(path, written)


def _write_github(runs: ExportedRuns, path: Path) -> None:
    """Write the array that github-action-benchmark reads with `tool: customSmallerIsBetter`."""
    names, taken = _Names(), set[str]()
    written = []
    for each in totals_of(runs):
        extra = [f"mean of {len(each.values)} runs"] if len(each.values) > 1 else ["1 run"]
        extra += [] if each.metric is None or not each.metric.source else [f"counted by {each.metric.source}"]
        name = unique_name(f"{each.configuration}: {names.of(each)}", taken)
        item: dict[str, Any] = {"name": name, "unit": each.unit, "value": each.mean}
        if len(each.values) > 1:
            item["range"] = f"{min(each.values):.10g} … {max(each.values):.10g}"
        written.append({**item, "extra": "\n".join(extra)})
    _write_json(path, written)


def _write_otava(runs: ExportedRuns, path: Path) -> None:
    """Write a table that Otava reads as `type: csv`: a row for each configuration, to append to those before it."""
    names = _Names(taken=_OTAVA_COLUMNS)
    rows: dict[str, dict[str, str]] = {}
    for each in totals_of(runs):
        row = rows.setdefault(
            each.configuration,
            dict(zip(_OTAVA_COLUMNS, (each.started, runs.name, each.configuration), strict=True)),
        )
        row[names.of(each)] = repr(each.mean)
    heads = list(dict.fromkeys(head for row in rows.values() for head in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, heads, restval="", lineterminator="\n")
        table.writeheader()
        table.writerows(rows.values())


def _write_json(path: Path, written: Any) -> None:
    path.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


BENCHER = Format("bencher", (".bmf.json",), run_writers(_write_bencher))
GITHUB = Format("github-action-benchmark", (".benchmark.json",), run_writers(_write_github))
OTAVA = Format("otava", (".otava.csv",), run_writers(_write_otava))
