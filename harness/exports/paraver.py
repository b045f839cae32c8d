"""Paraver, the trace browser of the Barcelona Supercomputing Center: one task per run, one event type per metric.

Three text files: records (.prv), names of event types and values (.pcf), names of tasks (.row). As in Extrae's traces,
an interval's counts are recorded at its end. PAPI presets have Extrae's event types, so Paraver's own configurations
work; names of simulated metrics contain "simulated". Fractional values are written as whole thousandths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.harness.exports import Format, run_writers, title_of

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.collectors.data import Metric
    from unperturbed.harness.exports.content.runs import ExportedRun, ExportedRuns

_PRESETS = 42_000_000  # Extrae's event type of a PAPI preset is this plus the preset's number

_PRESET_NUMBERS = {
    **{name: number for number, name in enumerate(("L1_DCM", "L1_ICM", "L2_DCM", "L2_ICM", "L3_DCM", "L3_ICM"))},
    **{"L1_TCM": 6, "L2_TCM": 7, "L3_TCM": 8, "TLB_DM": 20, "TLB_IM": 21, "BR_MSP": 46, "TOT_INS": 50},
    **{"FP_INS": 52, "LD_INS": 53, "SR_INS": 54, "BR_INS": 55, "TOT_CYC": 59},
}

_PHASES = 71_000_000
_FURTHER = 71_000_001  # First event type of the metrics that are not in `_PRESET_NUMBERS`
_RUNNING = 1
_EPOCH = "1970-01-01T00:00:00"

_OPTIONS = """DEFAULT_OPTIONS

LEVEL               THREAD
UNITS               NANOSEC
LOOK_BACK           100
SPEED               1
FLAG_ICONS          ENABLED
NUM_OF_STATE_COLORS 1000
YMAX_SCALE          37

DEFAULT_SEMANTIC

THREAD_FUNC         State As Is

STATES
0    Idle
1    Running
"""


def _write_runs(runs: ExportedRuns, path: Path) -> None:
    types = _event_types(runs)
    words = {name: at for at, name in enumerate(dict.fromkeys(span.name for run in runs for span in run.slices), 1)}
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(_header(runs))
        file.writelines(f"{line}\n" for line in _records(runs, types, words))
    path.with_suffix(".pcf").write_text(_names(types, words), encoding="utf-8")
    rows = [run.title for run in runs]
    levels = {"CPU": rows, "NODE": [runs.name], "TASK": rows, "THREAD": rows}
    text = "\n".join("\n".join((f"LEVEL {level} SIZE {len(held)}", *held, "")) for level, held in levels.items())
    path.with_suffix(".row").write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class _EventType:
    """Event type of a metric: its number, its unit, and whether values are written as thousandths."""

    number: int
    unit: str
    thousandths: bool


def _event_types(runs: ExportedRuns) -> dict[str, _EventType]:
    """Return each metric's event type, by title: titles distinguish simulated from counted metrics."""
    titles: dict[str, Metric] = {}
    fractions: set[str] = set()
    for run in runs:
        for name, metric in run.trace.metrics.items():
            titles.setdefault(title_of(metric), metric)
            if run.trace[name].dtype.kind == "f":
                fractions.add(title_of(metric))
    further, taken = count(_FURTHER), set()
    event_types = {}
    for title, metric in titles.items():
        preset = _PRESET_NUMBERS.get(metric.name.removeprefix("PAPI_")) if metric.name.startswith("PAPI_") else None
        known = preset is not None and preset not in taken
        taken.add(preset)
        number = _PRESETS + preset if preset is not None and known else next(further)
        unit = "" if metric.unit == "events" else metric.unit
        if title in fractions:
            unit = f"thousandths of {unit}" if unit else "thousandths"
        event_types[title] = _EventType(number, f" [{unit}]" if unit else "", title in fractions)
    return event_types


def _header(runs: ExportedRuns) -> str:
    began = datetime.fromisoformat(next((run.started for run in runs if run.started), _EPOCH))
    last = max((int(run.trace.end_ns[-1]) for run in runs if len(run.trace)), default=0)
    tasks = ",".join(["1:1"] * len(runs))
    return f"#Paraver ({began:%d/%m/%Y at %H:%M}):{last}_ns:1({len(runs)}):1:{len(runs)}({tasks})\n"


def _records(runs: ExportedRuns, types: Mapping[str, _EventType], words: Mapping[str, int]) -> Iterator[str]:
    """Yield all records in time order."""
    import polars as pl  # noqa: PLC0415  slow to load

    frames = [frame for task, run in enumerate(runs, 1) for frame in _records_of(run, task, types, words)]
    if frames:
        yield from pl.concat(frames).sort("time", maintain_order=True)["line"]


def _records_of(
    run: ExportedRun, task: int, types: Mapping[str, _EventType], words: Mapping[str, int]
) -> Iterator[pl.DataFrame]:
    import polars as pl  # noqa: PLC0415

    where = f"{task}:1:{task}:1"
    frame = run.trace.to_polars()
    state = pl.format(f"1:{where}:{{}}:{{}}:{_RUNNING}", "begin_ns", "end_ns")
    yield frame.select(time="begin_ns", line=state)
    if run.slices:
        marks = {end: 0 for span in run.slices for end in run.bounds(span)[1:]}
        marks |= {run.bounds(span)[0]: words[span.name] for span in run.slices}
        lines = [f"2:{where}:{time}:{_PHASES}:{word}" for time, word in marks.items()]
        yield pl.DataFrame({"time": list(marks), "line": lines}, schema={"time": pl.Int64, "line": pl.String})
    counted = []
    for name, metric in run.trace.metrics.items():
        kind, value = types[title_of(metric)], pl.col(name)
        known = value.is_finite() if frame.schema[name].is_float() else value.is_not_null()
        if kind.thousandths:
            value = (value * 1000).round().cast(pl.Int64, strict=False)
        counted.append(pl.when(known).then(pl.format(f":{kind.number}:{{}}", value)))
    if counted:
        event = pl.concat_str(pl.format(f"2:{where}:{{}}", "end_ns"), *counted, ignore_nulls=True)
        anything = pl.any_horizontal(expression.is_not_null() for expression in counted)
        yield frame.filter(anything).select(time="end_ns", line=event)


def _names(types: Mapping[str, _EventType], words: Mapping[str, int]) -> str:
    sections = [_OPTIONS]
    sections += [f"EVENT_TYPE\n7    {kind.number}    {title}{kind.unit}\n" for title, kind in types.items()]
    if words:
        values = "\n".join(f"{number}    {name}" for name, number in {"end": 0, **words}.items())
        sections.append(f"EVENT_TYPE\n0    {_PHASES}    phases\nVALUES\n{values}\n")
    return "\n".join(sections)


FORMAT = Format("paraver", (".prv",), run_writers(_write_runs), timeline=True)
