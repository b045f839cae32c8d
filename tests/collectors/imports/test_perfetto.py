"""Perfetto: protobuf by Perfetto's own schema, this tool's exports, and Chrome's JSON."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.imports import read_traces, recognise
from unperturbed.errors import DataError
from unperturbed.harness.exports import export


def write_packets(path: Path, values: list[float], *, incremental: bool = False, clock: int = 0) -> Path:
    trace = schema.Trace()
    process = trace.packet.add().track_descriptor
    process.uuid, process.process.pid, process.process.process_name = 1, 7, "sorter"
    track = trace.packet.add().track_descriptor
    track.uuid, track.parent_uuid, track.name = 2, 1, "queue"
    track.counter.is_incremental = incremental
    for at, value in enumerate(values):
        packet = trace.packet.add()
        packet.timestamp, packet.trusted_packet_sequence_id = 1_000_000 + at * 20_000_000, 3
        if clock:
            packet.timestamp_clock_id = clock
        packet.track_event.type, packet.track_event.track_uuid = schema.TrackEvent.TYPE_COUNTER, 2
        if isinstance(value, float):
            packet.track_event.double_counter_value = value
        else:
            packet.track_event.counter_value = value
    path.write_bytes(trace.SerializeToString())
    return path


def test_protobuf_by_its_own_schema(tmp_path: Path) -> None:
    path = write_packets(tmp_path / "a.pftrace", [3, -4, 7.5, 2])
    found = recognise(path)
    assert found is not None
    assert found.name == "perfetto"
    (trace,) = read_traces(path)
    assert trace.attributes["run"] == "sorter"
    assert trace["queue"].tolist() == [-4, 7.5, 2]
    assert trace.end_ns.tolist() == [20_000_000, 40_000_000, 60_000_000]
    assert trace.metrics["queue"].semantics == "gauge"
    (trace,) = read_traces(path, values="cumulative")
    assert trace["queue"].tolist() == [-7, 11.5, -5.5]
    (trace,) = read_traces(path, interval="40")
    assert trace["queue"].tolist() == [7.5]
    (trace,) = read_traces(write_packets(tmp_path / "b.pftrace", [9, 1, 2, 3], incremental=True))
    assert trace["queue"].tolist() == [1, 2, 3]


def test_compressed_packets_and_unit_multiplier(tmp_path: Path) -> None:
    plain = schema.Trace.FromString(write_packets(tmp_path / "a.pftrace", [3, -4, 7.5, 2]).read_bytes())
    plain.packet[1].track_descriptor.counter.unit_multiplier = 1024
    packed = schema.Trace()
    for begin, end in ((0, 3), (3, len(plain.packet))):
        part = schema.Trace(packet=plain.packet[begin:end])
        packed.packet.add().compressed_packets = zlib.compress(part.SerializeToString())
    path = tmp_path / "b.pftrace"
    path.write_bytes(packed.SerializeToString())
    (trace,) = read_traces(path)
    assert trace["queue"].tolist() == [-4096, 7680, 2048]
    packed.packet[1].compressed_packets = packed.packet[1].compressed_packets[:-9]
    path.write_bytes(packed.SerializeToString())
    with pytest.raises(DataError, match=r"b\.pftrace: byte [0-9,]+: damaged compressed packets"):
        read_traces(path)


def test_what_this_tool_exported(tmp_path: Path) -> None:
    end = [20_000_000 * at for at in range(1, 6)]
    metrics = [Metric("PAPI_TOT_INS", "hardware"), Metric("misses", "simulated"), Metric("rss", "os", "KiB", "gauge")]
    columns = {"PAPI_TOT_INS": [5, 4, 3, 2, 1], "misses": [1.5, 0.5, 2.5, 3.5, 4.5], "rss": [9, 8, 7, 6, 5]}
    trace = Trace.from_columns(metrics, columns, begin_ns=[0, *end[:-1]], end_ns=end)
    export(trace, "trace", tmp_path / "run.pftrace")
    (again,) = read_traces(tmp_path / "run.pftrace")
    assert again.end_ns.tolist() == end
    kinds = {metric.kind for metric in again.metrics.values()}
    assert kinds == {"hardware", "simulated", "os"}
    by_start = {name.split(" ")[0]: again[name].tolist() for name in again.metrics}
    assert by_start == columns


def test_chrome_json(tmp_path: Path) -> None:
    events = [{"ph": "M", "name": "process_name", "pid": 4, "args": {"name": "one"}}, {"ph": "X", "ts": 1, "pid": 4}]
    for at in range(5):
        events.append({"ph": "C", "name": "heap", "pid": 4, "ts": 1000 * at, "args": {"used": at, "free": 10 - at}})
        events.append({"ph": "C", "name": "heap", "pid": 5, "ts": 1000 * at, "args": {"used": 2 * at, "free": 0}})
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    first, second = read_traces(path)
    assert first["heap.used"].tolist() == [1, 2, 3, 4]
    assert first["heap.free"].tolist() == [9, 8, 7, 6]
    assert second["heap.used"].tolist() == [2, 4, 6, 8]


def test_bad_files(tmp_path: Path) -> None:
    path = write_packets(tmp_path / "a.pftrace", [1, 2, 3])
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DataError, match=r"a.pftrace: byte \d+: truncated or damaged packet"):
        read_traces(path)
    with pytest.raises(DataError, match="timestamps use an incremental clock"):
        read_traces(write_packets(tmp_path / "c.pftrace", [1, 2, 3], clock=64))
    for text, message in {
        '{"traceEvents": [\n{"ph": "C", "ts"': "t.json:2: truncated or damaged JSON",
        '{"traceEvents": []}': "the trace has no counters",
        '[{"ph": "C", "ts": "x", "name": "a", "args": {"a": 1}}]': "event 0: a counter event must have name, ts,",
        '[{"ph": "C", "ts": 1, "name": "a", "args": {"a": "x"}}]': "event 0: the counter 'a' has a value that",
        '[{"ph": "C", "ts": 1, "name": "a", "args": {"a": 1}}]': "every counter has at most one value",
        "[" * 100_000: "t.json:1: truncated or damaged JSON",
        json.dumps(
            [{"ph": "C", "ts": at, "name": "\ud800", "args": {"a": 1}} for at in (1, 2)]
        ): "an unpaired surrogate",
    }.items():
        (tmp_path / "t.json").write_text(text)
        with pytest.raises(DataError, match=message):
            read_traces(tmp_path / "t.json", "perfetto")


def test_a_count_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """Gauges and counters that run on say the same twice; counts would be added."""
    events = [
        {"ph": "C", "pid": 1, "ts": 20_000 * at, "name": "misses", "args": {"value": 100 + at}} for at in range(9)
    ]
    totals = {}
    for name, written in (("once", events), ("twice", [*events[:4], events[3], *events[4:]])):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"traceEvents": written}))
        for values in ("gauge", "cumulative"):
            totals[name, values] = read_traces(file, format="perfetto", values=values)[0]["misses"].sum()
    assert totals["once", "gauge"] == totals["twice", "gauge"]
    assert totals["once", "cumulative"] == totals["twice", "cumulative"]
    with pytest.raises(DataError, match=r"twice\.json: .*misses has the same count twice at 60,000,000 ns"):
        read_traces(tmp_path / "twice.json", format="perfetto", values="counts")


def of_json(folder: Path, events: list[dict[str, object]], **options: str) -> list[Trace]:
    path = folder / "t.json"
    path.write_text(json.dumps(events))
    return read_traces(path, **options)


def test_counters_of_different_ids_and_threads_are_apart(tmp_path: Path) -> None:
    events = [
        {"ph": "C", "name": "mem", "pid": 7, "ts": 1000 * at, "id": own, "args": {"alloc": start + at, "free": 50}}
        for at in range(5)
        for own, start in (("0x1", 100), ("0x2", 900))
    ]
    (trace,) = of_json(tmp_path, events)
    found = {name: trace[name].tolist() for name in trace}
    assert found == {
        "mem.alloc id 0x1": [101, 102, 103, 104],
        "mem.free id 0x1": [50] * 4,
        "mem.alloc id 0x2": [901, 902, 903, 904],
        "mem.free id 0x2": [50] * 4,
    }
    events = [
        {"ph": "C", "name": "ins", "pid": 7, "tid": thread, "ts": 1000 * at, "args": {"value": thread * at}}
        for at in range(5)
        for thread in (1, 2)
    ]
    (trace,) = of_json(tmp_path, events, values="cumulative", interval="1")
    assert {name: trace[name].tolist() for name in trace} == {"ins thread 1": [1] * 4, "ins thread 2": [2] * 4}
    assert trace.attributes["notes"] == [
        "ins has values of 2 threads, kept apart; if it belongs to the process, use threads=together"
    ]
    (trace,) = of_json(tmp_path, events, threads="together")
    assert list(trace.metrics) == ["ins"]
    local = [{**event, "id2": {"local": str(event["tid"])}, "tid": 1} for event in events]
    assert list(of_json(tmp_path, local)[0].metrics) == ["ins id 1", "ins id 2"]


def test_counters_of_threads_of_a_process_in_protobuf(tmp_path: Path) -> None:
    """A thread's track need not name the track of its process; counters may have one name."""
    trace = schema.Trace()
    process = trace.packet.add().track_descriptor
    process.uuid, process.process.pid, process.process.process_name = 1, 7, "sorter"
    for thread in (8, 9):
        track = trace.packet.add().track_descriptor
        track.uuid, track.thread.pid, track.thread.tid = thread, 7, thread
        track = trace.packet.add().track_descriptor
        track.uuid, track.parent_uuid, track.static_name = 10 * thread, thread, "misses"
        track.counter.unit_multiplier = 1
        for at in range(4):
            packet = trace.packet.add()
            packet.timestamp = 1_000_000 * at
            packet.track_event.type, packet.track_event.track_uuid = schema.TrackEvent.TYPE_COUNTER, 10 * thread
            packet.track_event.counter_value = 2**60 + thread * at
    path = tmp_path / "t.pftrace"
    path.write_bytes(trace.SerializeToString())
    (found,) = read_traces(path, values="cumulative")
    assert found.attributes["run"] == "sorter"
    assert {name: found[name].tolist() for name in found} == {"misses thread 8": [8] * 3, "misses thread 9": [9] * 3}
    (found,) = read_traces(path)
    assert found["misses thread 9"].tolist() == [2**60 + 9, 2**60 + 18, 2**60 + 27]


@pytest.mark.parametrize("end", ["", ",", ",\n", "\n", ",\n]\n", "]"])
def test_the_end_of_an_array_may_be_missing(tmp_path: Path, end: str) -> None:
    events = [{"ph": "C", "name": "mem", "pid": 7, "ts": 1000 * at, "args": {"x": at}} for at in range(400)]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(events)[:-1] + end)
    assert read_traces(path)[0]["mem"].tolist() == list(range(1, 400))
    path.write_text(json.dumps(events)[:-10])
    with pytest.raises(DataError, match=r"t.json:1: truncated or damaged JSON"):
        read_traces(path)


def test_all_digits_of_json_are_kept(tmp_path: Path) -> None:
    steps = [50, 149, 83, 97]
    values = [2**60 + 129 + sum(steps[:at]) for at in range(5)]
    text = ",".join(
        f'{{"ph":"C","name":"ins","pid":1,"ts":{1_700_000_000_123_456 + at}.{at:03d},"args":{{"v":{value}}}}}'
        for at, value in enumerate(values)
    )
    path = tmp_path / "t.json"
    path.write_text(f"[{text}]")
    (trace,) = read_traces(path, values="cumulative")
    assert trace["ins"].tolist() == steps
    assert trace.end_ns.tolist() == [1001, 2002, 3003, 4004]
    (trace,) = read_traces(path)
    assert trace["ins"].tolist() == values[1:]
    path.write_text(f"[{text}]".replace(str(values[2]), str(values[2] % 2**60)).replace(str(values[3]), "5"))
    (trace,) = read_traces(path, values="cumulative")
    assert "ins decreases, so it is no cumulative counter: leave out values=cumulative" in trace.attributes["notes"]


def test_a_counter_that_wraps_around(tmp_path: Path) -> None:
    values = [(2**32 - 100 + 60 * at) % 2**32 for at in range(6)]
    events = [{"ph": "C", "name": "c", "pid": 1, "ts": 10 * at, "args": {"v": x}} for at, x in enumerate(values)]
    (trace,) = of_json(tmp_path, list(events), values="cumulative")
    assert trace["c"].tolist() == [60] * 5
    assert trace.attributes["notes"] == ["c wrapped around 1 time: as a counter of 32 bits, it began again at 0"]
