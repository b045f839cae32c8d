"""Perfetto traces: read by protobuf with Perfetto's own schema, and by its trace_processor."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

import unperturbed as up
from tests.harness.exports.trace_processor import open_trace_processor, trace_processor_missing
from tests.harness.phases_campaign import unperturbed
from unperturbed.analysis.alignment import WarpPath
from unperturbed.collectors.data import Metric, Trace
from unperturbed.harness.exports import export
from unperturbed.harness.exports.content.runs import read_runs
from unperturbed.harness.exports.content.timeline import place_on_axis
from unperturbed.harness.exports.perfetto import Varints

BOOTTIME = 6


def naive_varint(value: int, width: int) -> bytes:
    """Return an int64 as a varint of exactly so many bytes."""
    bits = value % 2**64
    return bytes((bits >> 7 * place) % 128 + (128 if place < width - 1 else 0) for place in range(width))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300), min_size=1, max_size=20))
def test_varints_are_those_of_the_plain_encoder(values: list[int]) -> None:
    columns = Varints(np.array(values, np.int64))
    width = columns.width
    encoded = np.empty((len(values), width), np.uint8)
    columns.fill(encoded, slice(None))
    assert [bytes(row) for row in encoded] == [naive_varint(value, width) for value in values]
    assert width == 1 or any(value % 2**64 >= 2 ** (7 * (width - 1)) for value in values)
    for row, value in zip(encoded, values, strict=True):
        event = schema.TrackEvent.FromString(b"\xf0\x01" + bytes(row))
        assert event.counter_value == value


@dataclass
class Process:
    """What a trace holds of one process, by the names of its tracks."""

    counters: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    instants: dict[str, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    slices: dict[str, list[tuple[int, int, str]]] = field(default_factory=lambda: defaultdict(list))
    units: dict[str, Any] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)


def read(path: Path) -> dict[str, Process]:
    """Read a trace as trace_processor does, and refuse what it would not take."""
    trace = schema.Trace.FromString(path.read_bytes())
    names: dict[int, str] = {}
    tracks: dict[int, tuple[str, str]] = {}
    processes: dict[str, Process] = {}
    open_slices: dict[int, tuple[int, str]] = {}
    for place, packet in enumerate(trace.packet):
        assert packet.trusted_packet_sequence_id > 0
        assert not UnknownFieldSet(packet)
        if place == 0:
            assert packet.sequence_flags == schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            assert packet.trace_packet_defaults.timestamp_clock_id == BOOTTIME
            names = {one.iid: one.name for one in packet.interned_data.event_names}
        elif packet.HasField("track_descriptor"):
            described = packet.track_descriptor
            assert not UnknownFieldSet(described)
            assert described.uuid not in tracks
            if described.HasField("process"):
                name = described.process.process_name
                processes[name] = Process(labels=list(described.process.process_labels))
                tracks[described.uuid] = (name, "")
            else:
                owner = tracks[described.parent_uuid][0]
                tracks[described.uuid] = (owner, described.name)
                if described.HasField("counter"):
                    processes[owner].units[described.name] = described.counter
        else:
            event = packet.track_event
            assert packet.HasField("timestamp")
            assert not UnknownFieldSet(event)
            owner, track = tracks[event.track_uuid]
            process = processes[owner]
            if event.type == schema.TrackEvent.TYPE_COUNTER:
                assert track in process.units
                kind = event.WhichOneof("counter_value_field")
                process.counters[track].append((packet.timestamp, getattr(event, kind)))
                continue
            assert packet.sequence_flags == schema.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
            if event.type == schema.TrackEvent.TYPE_INSTANT:
                process.instants[track].append((packet.timestamp, names[event.name_iid]))
            elif event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
                assert event.track_uuid not in open_slices
                open_slices[event.track_uuid] = (packet.timestamp, names[event.name_iid])
            else:
                begin, name = open_slices.pop(event.track_uuid)
                process.slices[track].append((begin, packet.timestamp, name))
    assert not open_slices
    return processes


def test_every_kind_of_metric(tmp_path: Path) -> None:
    metrics = [
        Metric("PAPI_TOT_INS", "simulated"),
        Metric("bytes", "os", unit="bytes"),
        Metric("resident", "os", unit="MiB", semantics="gauge"),
        Metric("cycles", "hardware", unit="cycles", scaled=True),
        Metric("IPC", "derived", unit=""),
        Metric("rounds", "software"),
        Metric("steps", "software"),
    ]
    columns = {
        "PAPI_TOT_INS": [7, 2**62, 0, 5],
        "bytes": [-3, 4, 300, 70000],
        "resident": [1.5, 2.5, 3.5, 4.5],
        "cycles": [0.5, 1e300, 2.0, 3.0],
        "IPC": [1.0, float("nan"), 2.0, 0.25],
        "rounds": [0, 3, 0, 1],
        "steps": [100, 200, 300, 400],
    }
    trace = Trace.from_columns(
        metrics,
        columns,
        begin_ns=[0, 10, 20, 50],
        end_ns=[10, 20, 30, 60],
        attributes={"configuration": "ties", "run": "0007", "campaign": "bzip2", "clock": "process-cpu"},
    )
    export(trace, "trace", tmp_path / "a.pftrace")
    [(name, process)] = read(tmp_path / "a.pftrace").items()
    assert name == "ties 0007"
    assert process.labels == ["campaign bzip2", "clock process-cpu", "simulated counters"]
    assert process.counters == {
        "PAPI_TOT_INS (simulated)": [(0, 7), (10, 2**62), (20, 0), (30, 0), (50, 5), (60, 0)],
        "bytes": [(0, -3), (10, 4), (20, 300), (30, 0), (50, 70000), (60, 0)],
        "resident": [(10, 1.5), (20, 2.5), (30, 3.5), (60, 4.5)],
        "cycles (scaled)": [(0, 0.5), (10, 1e300), (20, 2.0), (30, 0), (50, 3.0), (60, 0)],
        "IPC": [(0, 1.0), (10, 0), (20, 2.0), (30, 0), (50, 0.25), (60, 0)],
        "rounds": [(0, 0), (10, 3), (20, 0), (30, 0), (50, 1), (60, 0)],
        "steps": [(0, 100), (10, 200), (20, 300), (30, 0), (50, 400), (60, 0)],
    }
    assert process.instants == {"rounds (instants)": [(time, "rounds") for time in (11, 15, 18, 55)]}
    units = process.units
    assert units["bytes"].unit == schema.CounterDescriptor.UNIT_SIZE_BYTES
    assert units["steps"].unit == schema.CounterDescriptor.UNIT_COUNT
    assert (units["resident"].unit_name, units["cycles (scaled)"].unit_name) == ("MiB", "cycles")


def test_a_campaign_keeps_every_count(campaign: Path, tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "export", campaign, "-o", "c.perfetto-trace")
    assert done.returncode == 0, done.stderr
    processes = read(tmp_path / "c.perfetto-trace")
    runs = read_runs(campaign)
    assert list(processes) == [run.title for run in runs]
    for run in runs:
        process = processes[run.title]
        assert {name: sum(value for _, value in events) for name, events in process.counters.items()} == run.totals()
        for name in run.trace:
            values = dict(process.counters[name])
            assert [values[time] for time in run.trace.begin_ns] == run.trace[name].tolist()
        if "milestones" in run.trace:
            assert len(process.instants["milestones (instants)"]) == run.totals()["milestones"]


def test_aligned_runs_end_together_and_phases_cover_them(campaign: Path, tmp_path: Path) -> None:
    words = ("--aligned", "--phases", "--run", "0000", "--run", "0001", "--run", "0005")
    done = unperturbed(tmp_path, "export", campaign, "-o", "c.perfetto-trace", *words)
    assert done.returncode == 0, done.stderr
    processes = read(tmp_path / "c.perfetto-trace")
    reference = Trace.read(campaign / "runs" / "0001")
    runs = read_runs(campaign, ids=["0000", "0001", "0005"])
    for run in runs:
        process = processes[run.title]
        assert "on the time axis of run 0001" in process.labels
        totals = {name: sum(value for _, value in events) for name, events in process.counters.items()}
        assert totals == run.totals()
        first = process.counters["generated::metric_00"]
        assert (first[0][0], first[-1]) == (0, (reference.end_ns[-1], 0))
        phases = process.slices["phases"]
        assert (phases[0][0], phases[-1][1]) == (0, reference.end_ns[-1])
        assert all(before[1] == behind[0] for before, behind in pairwise(phases))
        assert all(name.startswith(("word ", "no word")) for _, _, name in phases)
    own = dict(processes["anchor 0001"].counters["generated::metric_00"])
    assert [own[time] for time in reference.begin_ns] == reference["generated::metric_00"].tolist()


def test_intervals_are_placed_where_the_path_says() -> None:
    reference = Trace.from_columns([], {}, begin_ns=[0, 90, 100], end_ns=[90, 100, 200])
    path = WarpPath(np.array([0, 0, 0, 1, 2]), np.array([0, 1, 2, 3, 3]), 0.0)
    begin, end = place_on_axis(path, reference)
    assert begin.tolist() == [0, 30, 60, 90]
    assert end.tolist() == [30, 60, 90, 200]


def test_trace_processor_reads_it(campaign: Path, tmp_path: Path) -> None:
    if missing := trace_processor_missing():
        pytest.skip(missing)
    words = ("--aligned", "--phases", "--run", "0000", "--run", "0001", "--run", "0005")
    done = unperturbed(tmp_path, "export", campaign, "-o", "c.perfetto-trace", *words)
    assert done.returncode == 0, done.stderr
    runs = read_runs(campaign, ids=["0000", "0001", "0005"])
    with open_trace_processor(tmp_path / "c.perfetto-trace") as processor:
        totals = processor.query("""
            SELECT process.name AS run, process_counter_track.name AS metric, CAST(sum(value) AS INT) AS total
            FROM counter JOIN process_counter_track ON track_id = process_counter_track.id JOIN process USING (upid)
            GROUP BY 1, 2
        """)
        assert {(run, metric): total for run, metric, total in totals} == {
            (run.title, name): total for run in runs for name, total in run.totals().items()
        }
        instants = processor.query("""
            SELECT process.name AS run, count() AS number
            FROM slice JOIN process_track ON track_id = process_track.id JOIN process USING (upid)
            WHERE slice.name = 'milestones' AND dur = 0 GROUP BY 1
        """)
        assert dict(instants) == {run.title: run.totals()["milestones"] for run in runs if "milestones" in run.totals()}
        reference = Trace.read(campaign / "runs" / "0001")
        phases = processor.query("""
            SELECT process.name AS run, min(ts) AS first, max(ts + dur) AS last, sum(dur) AS covered
            FROM slice JOIN process_track ON track_id = process_track.id JOIN process USING (upid)
            WHERE process_track.name = 'phases' GROUP BY 1
        """)
        assert {name for name, *_ in phases} == {run.title for run in runs}
        for _, first, last, covered in phases:
            assert last - first == covered == reference.end_ns[-1]
        assert processor.query("SELECT name FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0") == []


def test_findings_of_a_diagnosis_are_slices_beside_its_events(tmp_path: Path) -> None:
    logs = Path(__file__).parents[2] / "analysis" / "diagnosis" / "data" / "playing"
    *references, bad = (logs / f"{name}.log.gz" for name in ("reference-0", "reference-1", "offset-500"))
    done = unperturbed(tmp_path, "diagnose", *references, bad, "--export", "bad.pftrace")
    assert done.returncode == 4, done.stderr
    processes = read(tmp_path / "bad.pftrace")
    identity = ("level", "function", "object", "word")  # the command's
    *good, worse = (up.read_events(path, identity=identity) for path in (*references, bad))
    diagnosis = up.diagnose(good, worse)
    (observed, *others) = processes.values()
    assert [label.split(":")[0] for label in processes] == ["diagnosed", "reference", "reference"]
    assert observed.labels == ["anomalous"]
    traces = (diagnosis.comparison.observed, *diagnosis.comparison.references)
    for process, held in zip(processes.values(), traces, strict=True):
        assert sum(len(events) for events in process.instants.values()) == len(held.trace)
    end = diagnosis.comparison.observed.trace.duration
    assert set(observed.slices) == {f"finding: {one.kind}" for one in diagnosis.findings}
    for finding in diagnosis.findings:
        assert observed.slices[f"finding: {finding.kind}"] == [(finding.since or 0, end, finding.summary)]
    assert not any(process.slices for process in others)
    assert end > 0
    refused = unperturbed(tmp_path, "diagnose", *references, bad, "--export", "bad.txt")
    assert refused.returncode == 2
    assert "use a name that ends in .perfetto-trace or .pftrace" in refused.stderr
