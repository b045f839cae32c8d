"""Perfetto, for ui.perfetto.dev and trace_processor: a process a run, a track a metric.

An interval's count stands at its begin and holds until the next one; the counter is 0 after the last interval, and
after one that others do not join. So the sum of a counter's values is the run's total. A gauge stands at the end of the
interval that it was read at. Counters of software that happen no more than once an interval on average have a track of
instants besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.harness.exports import Format

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unperturbed.collectors.data import Metric, Trace
    from unperturbed.harness.exports.content.runs import ExportedRun, ExportedRuns


def _write_trace(trace: Trace, path: Path) -> None:
    from unperturbed.harness.exports.content.runs import single_run  # noqa: PLC0415

    _write_runs(single_run(trace, path.stem), path)


def _write_runs(runs: ExportedRuns, path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(_packets(runs))


def _packets(runs: ExportedRuns) -> Iterator[bytes]:
    from unperturbed.harness.exports.content.runs import title_of  # noqa: PLC0415
    from unperturbed.harness.exports.perfetto import packets  # noqa: PLC0415  loads numpy

    names: dict[str, int] = {}
    for run in runs:
        for text in (*_milestones(run.trace), *(one.name for one in run.slices)):
            names.setdefault(text, len(names) + 1)
    yield packets.first_packet(names)
    uuid = 0
    for pid, run in enumerate(runs, 1):
        uuid += 1
        process = uuid
        yield packets.process_track(process, pid, run.title, _labels(runs, run))
        for track in dict.fromkeys(one.track for one in run.slices):
            uuid += 1
            yield packets.event_track(uuid, process, track)
            for one in run.slices:
                if one.track == track:
                    for kind, time in zip((packets.SLICE_BEGIN, packets.SLICE_END), run.bounds(one), strict=True):
                        yield packets.slice_event(kind, uuid, names[one.name], time)
        for name, times in _milestones(run.trace).items():
            uuid += 1
            described = f"each event of {name}, those of one interval evenly spread over it"
            yield packets.event_track(uuid, process, f"{name} (instants)", described)
            yield from packets.instant_events(uuid, names[name], times)
        for name, metric in run.trace.metrics.items():
            uuid += 1
            yield packets.counter_track(uuid, process, title_of(metric), metric.unit, _description(metric))
            yield from packets.counter_events(uuid, *_steps(run.trace, name))


def _labels(runs: ExportedRuns, run: ExportedRun) -> list[str]:
    facts = run.trace.attributes
    labels = [f"campaign {runs.name}"]
    if run.pass_name:
        labels.append(f"pass {run.pass_name}")
    if run.repetition is not None:
        labels.append(f"repetition {run.repetition}")
    if facts.get("clock"):
        labels.append(f"clock {facts['clock']}")
    if runs.aligned_to:
        labels.append(f"on the time axis of run {runs.aligned_to}")
    if any(metric.kind == "simulated" for metric in run.trace.metrics.values()):
        labels.append("simulated counters")
    return labels


def _description(metric: Metric) -> str:
    source = f"{metric.kind} metric" + (f" of {metric.source}" if metric.source else "")
    what = "an interval's count" if metric.semantics == "counter" else "its value at an interval's end"
    return "; ".join(text for text in (metric.meaning, source, what) if text)


def _milestones(trace: Trace) -> dict[str, NDArray[np.int64]]:
    """Return the times of the events of each counter that happens no more than once an interval on average."""
    import numpy as np  # noqa: PLC0415

    found = {}
    for name, metric in trace.metrics.items():
        counts = trace[name]
        if metric.kind != "software" or metric.semantics != "counter" or counts.dtype.kind != "i" or not len(counts):
            continue
        if not 0 < counts.sum() <= len(counts) or counts.min() < 0:
            continue
        where = np.repeat(np.arange(len(counts)), counts)
        rank = np.arange(len(where)) - np.repeat(np.cumsum(counts) - counts, counts)
        length = (trace.end_ns - trace.begin_ns)[where]
        found[name] = trace.begin_ns[where] + (2 * rank + 1) * length // (2 * counts[where])
    return found


def _steps(trace: Trace, name: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return when a counter takes which value."""
    import numpy as np  # noqa: PLC0415

    values = trace[name]
    known = np.isfinite(values) if values.dtype.kind == "f" else np.ones(len(values), np.bool_)
    if trace.metrics[name].semantics == "gauge":
        return trace.end_ns[known], values[known]
    begin, end, values = trace.begin_ns[known], trace.end_ns[known], values[known]
    joined = np.append(begin[1:] == end[:-1], False) if len(begin) else np.zeros(0, np.bool_)
    at = np.flatnonzero(~joined) + 1
    return np.insert(begin, at, end[~joined]), np.insert(values, at, 0)


SUFFIXES = (".perfetto-trace", ".pftrace")

FORMAT = Format("perfetto", SUFFIXES, {"trace": _write_trace, "campaign": _write_runs}, timeline=True)
