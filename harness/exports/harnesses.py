"""Totals for tools that run benchmarks: JSON of hyperfine, and the log that ReBench reads.

Both are about times: a run of a simulated campaign has the time of its program without the simulator.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.errors import DataError
from unperturbed.harness.exports import Format, run_writers, title_of
from unperturbed.harness.exports.content.totals import by_configuration

if TYPE_CHECKING:
    from unperturbed.harness.exports.content.runs import ExportedRun, ExportedRuns

_LONGEST_CRITERION = 30  # Characters that ReBench's expression accepts; it ends at the first colon
_US = 1e6


def _write_hyperfine(runs: ExportedRuns, path: Path) -> None:
    """Write what `hyperfine --export-json` writes: a result for each configuration.

    `user` and `system` are null, because only their sum is recorded.
    """
    results = []
    for configuration, members in by_configuration(runs).items():
        times = list(_times(members))
        memory = [total["memory"] for run in members if "memory" in (total := run.totals())]
        result: dict[str, Any] = {
            "command": configuration,
            "mean": statistics.fmean(times),
            "stddev": statistics.stdev(times) if len(times) > 1 else None,
            "median": statistics.median(times),
            "user": None,
            "system": None,
            "min": min(times),
            "max": max(times),
            "times": times,
            "exit_codes": [0] * len(times),
        }
        if len(memory) == len(times):
            result["memory_usage_byte"] = [round(value) for value in memory]
        results.append(result)
    path.write_text(json.dumps({"results": results}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_rebench(runs: ExportedRuns, path: Path) -> None:
    """Write lines for `gauge_adapter: RebenchLog`: a run's totals, then its time, which ends a data point."""
    lines = []
    for configuration, members in by_configuration(runs).items():
        benchmark = re.sub(r"\s", "_", configuration)
        for run, time in zip(members, _times(members), strict=True):
            taken = {"total"}
            for name, total in run.totals().items():
                if total < 0:
                    continue  # ReBench's expression knows no sign
                metric = run.trace.metrics[name]
                criterion = _criterion(title_of(metric), taken)
                unit = re.sub(r"[^a-zA-Z]", "", metric.unit) or "events"
                lines.append(f"{benchmark}: {criterion}: {total!r}{unit}")
            lines.append(f"{benchmark}: iterations=1 runtime: {time * _US!r}us")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _criterion(title: str, taken: set[str]) -> str:
    """Return a name that ReBench accepts and no other metric of the run has."""
    word = plain = title.replace("::", ".").replace(":", ".")[:_LONGEST_CRITERION]
    number = 1
    while word in taken:
        number += 1
        word = f"{plain[: _LONGEST_CRITERION - 4]} {number}"
    taken.add(word)
    return word


def _times(members: list[ExportedRun]) -> Iterator[float]:
    for run in members:
        if run.time_s is None:
            raise DataError(f"run {run.id} has no time, which every run of this format needs")
        yield run.time_s


HYPERFINE = Format("hyperfine", (".hyperfine.json",), run_writers(_write_hyperfine))
REBENCH = Format("rebench", (".rebench.log",), run_writers(_write_rebench))
