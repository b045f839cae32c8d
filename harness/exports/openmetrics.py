"""OpenMetrics text: the totals of each run, as Prometheus and its relatives read them.

A metric's name is `unperturbed_` and its own, with `_` for what OpenMetrics does not allow; its help has the name as it
was. Gauges and formulas over intervals have no total and are left out.
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
"""Ends of names that types of metrics add: names must differ with these too."""


def _write_runs(runs: ExportedRuns, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in _lines(runs))


def _lines(runs: ExportedRuns) -> Iterator[str]:
    totals = {run: run.totals() for run in runs}
    timed = [run for run in runs if run.seconds is not None]
    if timed:
        yield f"# TYPE {_WALL} gauge"
        yield f"# UNIT {_WALL} seconds"
        yield f"# HELP {_WALL} Wall time of the run; of a simulated run, the simulator's."
        yield from (f"{_WALL}{_labels(runs, run)} {run.seconds!r}" for run in timed)
    taken = {_WALL}
    for name, metric in runs.metrics.items():
        found = {run: total[name] for run, total in totals.items() if name in total and math.isfinite(total[name])}
        if not found:
            continue
        # Colons are for recording rules, and a counter's samples have `_total` behind its name.
        allowed = re.sub(r"[^a-zA-Z0-9_]", "_", name).removesuffix("_total")
        written = unique_word(f"unperturbed_{allowed}", taken, _SUFFIXES)
        # A counter cannot be negative; what can be is not a counter to OpenMetrics.
        counts = min(found.values()) >= 0
        yield f"# TYPE {written} {'counter' if counts else 'gauge'}"
        yield f"# HELP {written} {_escaped(_help(metric))}"
        for run, total in found.items():
            kind = run.trace.metrics[name].kind
            yield f"{written}{'_total' if counts else ''}{_labels(runs, run, kind=kind)} {total!r}"
    yield "# EOF"


def _help(metric: Metric) -> str:
    source = f"{metric.kind}" + (f", by {metric.source}" if metric.source else "")
    scaled = ", scaled up from the share of time that it was counted" if metric.scaled else ""
    unit = f" [{metric.unit}]" if metric.unit else ""
    return f"{metric.name}{unit}, total of a run ({source}{scaled})" + (f": {metric.meaning}" if metric.meaning else "")


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
