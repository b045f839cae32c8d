"""Totals for tools that run benchmarks: JSON of hyperfine, and the log that ReBench reads.

Both are about times: a run of a simulated campaign has the time of its program without the simulator.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.errors import DataError
from unperturbed.harness.exports import Format, run_writers, title_of, unique_name
from unperturbed.harness.exports.content.totals import by_configuration

if TYPE_CHECKING:
    from unperturbed.harness.exports.content.runs import ExportedRun, ExportedRuns

_LONGEST_CRITERION = 30  # Characters that ReBench's expression accepts; it ends at the first colon
_US = 1e6


def _write_hyperfine(runs: ExportedRuns, path: Path) -> None:
    """Write what `hyperfine --export-json` writes: a result for each configuration.

    `user` and `system` are null if they are not known of each run.
    """
    results = []
    for configuration, members in by_configuration(runs).items():
        times = [_time(run) for run in members]
        facts = [run.trace.attributes for run in members]
        has_parts = all("cpu_s" in fact and "system_s" in fact for fact in facts)
        memory = [_peak(run) for run in members]
        results.append(
            {
                "command": configuration,
                "mean": statistics.fmean(times),
                "stddev": statistics.stdev(times) if len(times) > 1 else None,
                "median": statistics.median(times),
                "user": statistics.fmean(fact["cpu_s"] - fact["system_s"] for fact in facts) if has_parts else None,
                "system": statistics.fmean(fact["system_s"] for fact in facts) if has_parts else None,
                "min": min(times),
                "max": max(times),
                "times": times,
                **({} if None in memory else {"memory_usage_byte": memory}),
                "exit_codes": [fact.get("exit_code", 0) for fact in facts],
            }
        )
    path.write_text(json.dumps({"results": results}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _peak(run: ExportedRun) -> int | None:
    """Return the peak memory [bytes] of a run that was read from hyperfine's own file; None of another."""
    metric = run.trace.metrics.get("memory")
    if metric is None or metric.unit != "B" or len(run.trace) != 1:
        return None
    value = float(run.trace["memory"][0])
    return round(value) if math.isfinite(value) else None


def _write_rebench(runs: ExportedRuns, path: Path) -> None:
    """Write lines for `gauge_adapter: RebenchLog`: a run's totals, then its time, which ends a data point."""
    lines = []
    for configuration, members in by_configuration(runs).items():
        benchmark = _harmless(re.sub(r"\s", "_", configuration))
        for run in members:
            taken = {"total"}
            for name, total in run.totals().items():
                if not math.isfinite(total) or total < 0:
                    continue  # ReBench's expression knows no sign
                metric = run.trace.metrics[name]
                criterion = _criterion(title_of(metric), taken)
                lines.append(f"{benchmark}: {criterion}: {total!r}{_unit(metric.unit)}")
            lines.append(f"{benchmark}: iterations=1 runtime: {_time(run) * _US!r}us")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _criterion(title: str, taken: set[str]) -> str:
    """Return a name that ReBench accepts and no other metric of the run has."""
    plain = _harmless(re.sub(r"\s", " ", title)).replace("::", ".").replace(":", ".")
    return unique_name(plain, taken, longest=_LONGEST_CRITERION)


def _harmless(name: str) -> str:
    """Return a name in which ReBench sees no failure of the benchmark."""
    for word in ("Error", "Segmentation fault", "Bus error", "Failed", "incorrect"):
        name = name.replace(word, word[0].swapcase() + word[1:])
    return name


def _unit(unit: str) -> str:
    """Return a unit of letters alone, as ReBench's expression wants."""
    word = unit.replace("µ", "u").replace("μ", "u").replace("/", "per")
    return word if re.fullmatch("[a-zA-Z]+", word) else "units" if word.strip("1") else "events"


def _time(run: ExportedRun) -> float:
    if run.time_s is None:
        raise DataError(
            f"run {run.id}{f' ({run.configuration})' if run.configuration else ''} has no time, which this "
            "format needs: the spec gives its length, or it is simulated and a preloaded library counts its software "
            "metrics. Select other configurations by --configuration"
        )
    return run.time_s


HYPERFINE = Format("hyperfine", (".hyperfine.json",), run_writers(_write_hyperfine))
REBENCH = Format("rebench", (".rebench.log",), run_writers(_write_rebench))
