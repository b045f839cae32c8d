"""From what a run left behind (records, dumps) to its trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.collectors import simulated
from unperturbed.collectors.catalogue import OS_METRICS
from unperturbed.collectors.expressions import Expression
from unperturbed.collectors.passes import Pass
from unperturbed.collectors.record import Records, deltas
from unperturbed.collectors.trace import Metric, Trace
from unperturbed.errors import RunError, SpecError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["assemble"]

_ALWAYS_SIMULATED = ("PAPI_TOT_INS", "PAPI_TOT_CYC")
"""Callgrind counts all its events in every run, so what measuring added is known even when nobody asked for instructions."""


def assemble(
    records: Records,
    collected: Pass,
    *,
    software: Sequence[str],
    os_metrics: Sequence[str],
    derived: Mapping[str, Expression],
    dumps: Path,
    attributes: Mapping[str, Any],
) -> Trace:
    """Make the trace of one run.

    Parameters
    ----------
    records : what the runtime committed; interval i lies between records i and i + 1.
    collected : the pass that the run was made for.
    software : names of the software metrics, in the order in which the build numbered them.
    os_metrics : names from `OS_METRICS` to keep.
    derived : metrics computed from others; one whose parts this pass lacks is left out.
    dumps : callgrind's dump files without their process number; not read unless simulated.
    attributes : facts about the run, kept with the trace.

    Raises
    ------
    RunError
        No program attached, it ended before the first interval, or counts are missing.
    SpecError
        Software metrics are asked for, and the program loaded none of the code that counts them.
    """
    _check(records)
    if software and records.tables == 0:
        raise SpecError(
            f"{', '.join(software)}: none of the code that counts was loaded by the program. Does it use a library of the system instead of the "
            'one that was built here? Then set, in the spec, environment: {LD_LIBRARY_PATH: "{build}"}, or link it statically'
        )
    rows = records.rows
    intervals = len(rows) - 1
    metrics: list[Metric] = []
    columns: dict[str, NDArray[Any]] = {}

    if collected.source == "simulated":
        events = simulated.read_dumps(dumps.with_name(f"{dumps.name}.{records.owner}"), intervals)
        wanted = {metric.name: metric for metric in collected.metrics}
        paged = any(map(simulated.needs_page_cache, wanted))
        for name in _ALWAYS_SIMULATED:
            # In a pass with page-sized lines the cycle estimate would be another machine's.
            if name not in wanted and (not paged or simulated.fits_page_cache(name)):
                wanted[name] = simulated.metric(name)
        for name, metric in wanted.items():
            metrics.append(metric)
            columns[name] = simulated.combine(name, events)
    else:
        scaled = bool((rows["running_ns"] < rows["enabled_ns"]).any())
        for index, metric in enumerate(collected.metrics):
            metrics.append(Metric(**{**vars(metric), "scaled": scaled}))
            columns[metric.name] = deltas(rows["hardware"][:, index])

    for name in os_metrics:
        whose = " of the simulator's process" if collected.source == "simulated" else ""
        metrics.append(Metric(name, "os", source="getrusage", meaning=OS_METRICS[name] + whose))
        columns[name] = deltas(rows["os"][:, list(OS_METRICS).index(name)])
    for index, name in enumerate(software):
        metrics.append(Metric(name, "software", source="instrumentation", meaning="milestone compiled into the program"))
        columns[name] = deltas(rows["software"][:, index])
    for name, expression in derived.items():
        if all(part in columns for part in expression.names):
            metrics.append(_derived(name, expression, {metric.name: metric for metric in metrics}))
            columns[name] = expression.evaluate(columns)

    stamps = rows["cpu_ns" if attributes.get("clock") == "process-cpu" else "monotonic_ns"]
    wall_s = int(rows["monotonic_ns"][-1] - rows["monotonic_ns"][0]) / 1e9
    facts = {**attributes, "wall_seconds": wall_s, "nested_ticks": records.nested, "ended_cleanly": records.state == "finished"}
    return Trace.from_columns(
        metrics,
        columns,
        begin_ns=stamps[:-1] - stamps[0],
        end_ns=stamps[1:] - stamps[0],
        overruns=rows["overruns"][1:].astype("i8"),
        attributes=facts,
    )


def _derived(name: str, expression: Expression, known: Mapping[str, Metric]) -> Metric:
    parts = [known[part] for part in expression.names]
    simulated_part = any(part.kind == "simulated" or part.meaning.startswith("simulated") for part in parts)
    meaning = f"{'simulated: ' if simulated_part else ''}{expression.text}"
    components = tuple(dict.fromkeys(component for part in parts for component in part.components))
    return Metric(name, "derived", unit="", source="formula", meaning=meaning, components=components)


def _check(records: Records) -> None:
    if records.state == "waiting":
        raise RunError(
            "the sampler did not start in the measured program: is the program that runs the one that was built, linked by {cc} or {cxx}, "
            "and does it get the environment it was started with?"
        )
    if records.state == "failed":
        raise RunError(f"the sampler could not start: {records.message}")
    if records.lost:
        raise RunError(f"the record file was full: {records.lost} intervals lost. Use a longer interval")
    if records.unread:
        raise RunError(f"the hardware counters could not be read in {records.unread} of {len(records.rows)} records")
    if len(records.rows) < 3:
        raise RunError("the program ended before the first interval: give it more work, or use a shorter interval")
