"""Totals for services that track benchmarks over commits: Bencher, github-action-benchmark and Apache Otava.

Each configuration and metric has one value: the mean of the totals of its runs, with the lowest and the highest run
where the format has a place for them. Gauges and formulas over intervals have no total and are left out.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.harness.exports import Format, run_writers
from unperturbed.harness.exports.content.totals import totals_of

if TYPE_CHECKING:
    from unperturbed.harness.exports.content.runs import ExportedRuns

_NS = 1e9
_LONGEST_MEASURE = 64
"""Characters of the longest name of a measure that Bencher accepts."""


def _write_bencher(runs: ExportedRuns, path: Path) -> None:
    """Write the Bencher Metric Format: a benchmark for each configuration, a measure for each metric."""
    written: dict[str, dict[str, dict[str, float]]] = {}
    for each in totals_of(runs):
        measures = written.setdefault(f"{runs.name}/{each.configuration}", {})
        # Bencher's own measure of time is `latency`, in nanoseconds.
        name, scale = ("latency", _NS) if each.metric is None else (each.title[:_LONGEST_MEASURE], 1.0)
        limits = {"lower_value": min(each.values), "upper_value": max(each.values)}
        measures[name] = {key: value * scale for key, value in {"value": each.mean, **limits}.items()}
    _write_json(path, written)


def _write_github(runs: ExportedRuns, path: Path) -> None:
    """Write the array that github-action-benchmark reads with `tool: customSmallerIsBetter`."""
    written = []
    for each in totals_of(runs):
        extra = [f"mean of {len(each.values)} runs"] if len(each.values) > 1 else ["1 run"]
        extra += [] if each.metric is None or not each.metric.source else [f"counted by {each.metric.source}"]
        item: dict[str, Any] = {"name": f"{each.configuration}: {each.title}", "unit": each.unit, "value": each.mean}
        if len(each.values) > 1:
            item["range"] = f"{min(each.values):.10g} … {max(each.values):.10g}"
        written.append({**item, "extra": "\n".join(extra)})
    _write_json(path, written)


def _write_otava(runs: ExportedRuns, path: Path) -> None:
    """Write a table that Otava reads as `type: csv`: a row for each configuration, to append to those before it."""
    rows: dict[str, dict[str, str]] = {}
    for each in totals_of(runs):
        row = rows.setdefault(
            each.configuration,
            {"time": each.started, "campaign": runs.name, "configuration": each.configuration},
        )
        row[each.title] = repr(each.mean)
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
