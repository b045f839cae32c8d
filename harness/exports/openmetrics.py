"""OpenMetrics text: the totals of each run, for Prometheus and compatible tools.

An exported metric's name is `unperturbed_` and the original name, with `_` for each character that OpenMetrics does not
allow; its help text has the original name. Gauges and formulas over intervals have no total and are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.harness.exports import Format, run_writers, unique_word

if TYPE_CHECKING:
    from unperturbed.collectors.data import Metric
    from unperturbed.harness.exports.content.runs import ExportedRun, ExportedRuns

_WALL = "unperturbed_wall_seconds"
_SUFFIXES = ("", "_total", "_created", "_info", "_bucket", "_count", "_sum", "_gcount", "_gsum")
"""Suffixes that OpenMetrics adds to names, depending on the metric's type: names must also be unique with these."""


def _write_runs(runs: ExportedRuns, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in _lines(runs))


def _lines(runs: ExportedRuns) -> Iterator[str]:
    totals = {run: run.totals() for run in runs}
    timed = [run for run in runs if run.seconds is not None]
    if timed:
        yield f"# TYPE {_WALL} gauge"
        yield f"# UNIT {_WALL} seconds"
        yield f"# HELP {_WALL} Wall time of the run; for a simulated run, the simulator's wall time."
        yield from (f"{_WALL}{_labels(runs, run)} {run.seconds!r}" for run in timed)
    taken = {_WALL}
    for name, metric in runs.metrics.items():
        values = {run: total[name] for run, total in totals.items() if name in total and math.isfinite(total[name])}
        if not values:
            continue
        # Colons are reserved for recording rules, and a counter's samples have the suffix `_total`.
        allowed = re.sub(r"[^a-zA-Z0-9_]", "_", name).removesuffix("_total")
        written = unique_word(f"unperturbed_{allowed}", taken, _SUFFIXES)
        # OpenMetrics does not allow negative counters.
        counts = min(values.values()) >= 0
        yield f"# TYPE {written} {'counter' if counts else 'gauge'}"
        yield f"# HELP {written} {_escaped(_help(metric))}"
        for run, total in values.items():
            kind = run.trace.metrics[name].kind
            yield f"{written}{'_total' if counts else ''}{_labels(runs, run, kind=kind)} {total!r}"
    yield "# EOF"


def _help(metric: Metric) -> str:
    source = f"{metric.kind}" + (f", from {metric.source}" if metric.source else "")
    scaled = ", scaled up because the event was counted only part of the time" if metric.scaled else ""
    unit = f" [{metric.unit}]" if metric.unit else ""
    return f"{metric.name}{unit}, run total ({source}{scaled})" + (f": {metric.meaning}" if metric.meaning else "")


def _labels(runs: ExportedRuns, run: ExportedRun, **further: str) -> str:
    known = {
        "campaign": runs.name,
        "configuration": run.configuration,
        "pass": run.pass_name,
        "run": run.id,
        "repetition": "" if run.repetition is None else str(run.repetition),
        **further,
    }
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in known.items() if value) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


FORMAT = Format("openmetrics", (".om", ".openmetrics"), run_writers(_write_runs))
