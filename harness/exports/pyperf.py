"""pyperf's JSON: one benchmark for each configuration and metric, with the runs' totals as values.

The first benchmark of a configuration is the wall time of its runs. If all runs have the same configuration, the
benchmark's name is the metric's name, so `pyperf compare_to` can compare two such files. Metrics with a total of 0 in
any run are left out because pyperf does not accept the value 0; gauges and formulas over intervals have no total. A
name that is taken gets a number, as pyperf refuses two benchmarks of one name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.harness.exports import Format, run_writers, unique_name

if TYPE_CHECKING:
    import pyperf

    from unperturbed.collectors.data import Metric
    from unperturbed.harness.exports.content.runs import ExportedRun, ExportedRuns

WALL_TIME = "wall time"

_SECONDS = {"ns": 1e9, "us": 1e6, "µs": 1e6, "ms": 1e3, "s": 1}
"""Units of time, and how many of each make a second: pyperf's unit of time is the second."""


def _write_runs(runs: ExportedRuns, path: Path) -> None:
    import pyperf  # noqa: PLC0415  slow to load

    from unperturbed.errors import DataError  # noqa: PLC0415

    benchmarks = list(_benchmarks(runs))
    if not benchmarks:
        raise DataError(
            "nothing to export: pyperf requires values above 0, but no run has a wall time or total above 0"
        )
    pyperf.BenchmarkSuite(benchmarks).dump(str(path), compact=False)


def _benchmarks(runs: ExportedRuns) -> Iterator[pyperf.Benchmark]:
    groups: dict[tuple[str, str], list[ExportedRun]] = {}
    for run in runs:
        groups.setdefault((run.configuration, run.pass_name), []).append(run)
    taken: set[str] = set()
    first_pass = next(iter(groups))[1]
    for (configuration, pass_name), members in groups.items():
        title = configuration if len({name for name, _ in groups}) > 1 else ""
        if pass_name != first_pass:
            title = f"{title} (pass {pass_name})".strip()
        lead = f"{title}: " if title else ""
        wall = unique_name(f"{lead}{WALL_TIME}", taken)
        seconds = [run.seconds or 0.0 for run in members]
        if all(seconds):
            yield _benchmark(runs, members, wall, seconds, {"unit": "second", **_wall_facts(members)})
        totals = [run.totals() for run in members]
        for name in dict.fromkeys(name for total in totals for name in total):
            title = unique_name(f"{lead}{name}", taken)
            values = [total.get(name, 0) for total in totals]
            if all(value > 0 and math.isfinite(value) for value in values):
                metric = members[0].trace.metrics[name]
                in_second = _SECONDS.get(metric.unit)
                scaled: Sequence[float] = values if in_second is None else [value / in_second for value in values]
                yield _benchmark(runs, members, title, scaled, _metric_facts(metric))


def _benchmark(
    runs: ExportedRuns, members: Sequence[ExportedRun], name: str, values: Sequence[float], facts: dict[str, str]
) -> pyperf.Benchmark:
    import pyperf  # noqa: PLC0415

    pyperf_runs = []
    for run, value in zip(members, values, strict=True):
        known: dict[str, Any] = {
            "name": name,
            **facts,
            "unperturbed_campaign": runs.name,
            "unperturbed_configuration": run.configuration,
            "unperturbed_pass": run.pass_name,
            "unperturbed_run": run.id,
            "unperturbed_host": str(run.trace.attributes.get("host") or ""),
            "unperturbed_program": str(run.trace.attributes.get("program") or ""),
            "duration": run.seconds,
        }
        metadata = {key: held for key, held in known.items() if held}
        pyperf_runs.append(pyperf.Run([value], metadata=metadata, collect_metadata=False))
    return pyperf.Benchmark(pyperf_runs)


def _wall_facts(members: Sequence[ExportedRun]) -> dict[str, str]:
    simulated = any(metric.kind == "simulated" for metric in members[0].trace.metrics.values())
    about = "of the program in a simulator, which is many times slower" if simulated else "of the program"
    return {"description": f"wall time {about}", **({"unperturbed_simulated": "yes"} if simulated else {})}


def _metric_facts(metric: Metric) -> dict[str, str]:
    about = f"total for the run: {metric.kind} metric" + (f" from {metric.source}" if metric.source else "")
    unit = "second" if metric.unit in _SECONDS else "byte" if metric.unit == "bytes" else "integer"
    return {
        "unit": unit,
        "description": f"{about}; {metric.meaning}" if metric.meaning else about,
        **({"unperturbed_simulated": "yes"} if metric.kind == "simulated" else {}),
        **({"unperturbed_scaled": "yes"} if metric.scaled else {}),
    }


FORMAT = Format("pyperf", (".json",), run_writers(_write_runs))
