"""Damaged files of other tools: read, or refused with one message that names the file; never another error."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.collectors.imports.monitor_tables import MONITORS
from tests.collectors.imports.test_caliper import SLICES, as_cali, snapshots
from tests.collectors.imports.totals import made
from unperturbed.collectors.imports import read_traces
from unperturbed.errors import UnperturbedError


def _perfetto() -> bytes:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

    trace = schema.Trace()
    track = trace.packet.add().track_descriptor
    track.uuid, track.name, track.counter.unit_multiplier = 2, "queue", 3
    for at in range(40):
        packet = trace.packet.add()
        packet.timestamp = 1000 * at
        packet.track_event.type, packet.track_event.track_uuid, packet.track_event.counter_value = 4, 2, at
    return bytes(trace.SerializeToString())


def _lines(*parts: str) -> bytes:
    return "".join(parts).encode()


FILES = {
    "x.pftrace": _perfetto(),
    "x.cali": as_cali(snapshots(40)).encode(),
    "caliper.json": json.dumps(snapshots(40)).encode(),
    "x.prv": _lines(
        "#Paraver (24/11/2026 at 01:00):50000_ns:1(1):1:1(1:1)\n",
        *(f"2:1:1:1:1:{at * 1000}:42000050:{at}\n" for at in range(50)),
    ),
    "x.script": _lines(
        *(f"sort  4242 {100 + at * 0.01:.6f}:  250000 cycles:u:  55d0c0ffee work+0x1 (/bin/sort)\n" for at in range(60))
    ),
    "perf.csv": _lines(
        "# started on Tue Nov 24 01:00:00 2026\n\n",
        *(
            f"     {at * 0.01:.9f},{at * 7},,{event},10011222,100.00,,\n"
            for at in range(1, 40)
            for event in ("page-faults", "task-clock")
        ),
    ),
    "perf.json": _lines(
        *(
            f'{{"interval" : {at * 0.01:.9f}, "counter-value" : "{at}.000000", "unit" : "", "event" : "page-faults", '
            '"event-runtime" : 10011222, "pcnt-running" : 100.00}\n'
            for at in range(1, 40)
        )
    ),
    "perf-people.txt": _lines(
        "started\n#           time core               cpus             counts unit events\n",
        *(
            f"     {at * 0.01:.9f} S0-D0-C{core}           1 {at * 1007:>18,.{len(unit) // 2}f} {unit:<4} {event:<25}"
            "/user            #    0.902 x      (33.33%)\n"
            for at in range(1, 40)
            for unit, event in (("", "page-faults"), ("msec", "task-clock"))
            for core in range(2)
        ),
    ),
    "perf-metrics.csv": _lines(
        " time,cpu,GHz,insn per cycle,\n",
        *(f"     {at * 0.01:.9f},CPU{cpu},{at}.5,0.{at},\n" for at in range(1, 40) for cpu in range(2)),
    ),
    "perf-metrics.txt": _lines(
        f"#           time {'GHz':>20} {'insn per cycle':>20} branch-misses of all branches \n",
        *(f"{at * 0.01:>16.9f} {at:>20} {at / 7:>20.2f} {at / 3:>29.2f}%\n" for at in range(1, 40)),
    ),
    "perf-metrics.json": _lines(
        *(f'{{"interval" : {at * 0.01:.9f}, "GHz" : "{at}.5", "insn per cycle" : "0.{at}"}}\n' for at in range(1, 40))
    ),
    "perf-metrics-old.json": _lines(
        '{"unit" : "sec"}{"unit" : "GHz"}{"unit" : "insn per cycle"}\n',
        *(
            f'{{"interval" : {at * 0.01:.9f}}}{{"metric-value" : "{at}.5"}}{{"metric-value" : "0.{at}"}}\n'
            for at in range(1, 40)
        ),
    ),
    "plain.csv": _lines("time,a,b\n", *(f"{at * 0.01:.2f},{at},{at * at}\n" for at in range(1, 60))),
    "chrome.json": _lines(
        '{"traceEvents":[',
        ",".join(f'{{"ph":"C","name":"h","pid":4,"ts":{at * 1000},"args":{{"u":{at}}}}}' for at in range(40)),
        "]}",
    ),
    "slices.cali": _lines(
        SLICES,
        *(
            f"__rec=ctx,ref=51,attr=40=41=27=31=33,data=250000000={at}=2={1000 + at / 2}={at}\n"
            f"__rec=ctx,ref=50,attr=27=31=33=35=28=31,data=2={1000 + at / 2}={at}=0.5={900 + at}={1000.5 + at / 2}\n"
            for at in range(20)
        ),
    ),
    "iterations.json": json.dumps(
        [{"iteration#main": at, "sum#time.duration.ns": 10**7, "count": at} for at in range(30)]
    ).encode(),
    "sets.prv": _lines(
        "#Paraver (24/11/2026 at 01:00):50000_ns:1(1):1:1(1:1)\n",
        *(
            f"2:1:1:1:1:{at * 1000}:42000050:{at if at % 9 else -(2**62)}"
            + (f":41999999:{at % 4}\n" if at % 5 == 0 else "\n")
            for at in range(50)
        ),
    ),
    "records.script": _lines(
        "sort  4242 99.000000: PERF_RECORD_COMM exec: sort:4242/4242\n",
        *(
            f"sort  4242 {100 + at * 0.01:.6f}:  250000 cycles:u: \n\t55d0c0ffee work+0x1 (/sort)\n  sort.c:{at}\n\n"
            f"sort  4242 [001] {100.001 + at * 0.01:.6f}: sched:sched_switch: prev_comm=sort\n"
            for at in range(30)
        ),
    ),
    "cgroups.csv": _lines(
        *(
            f"     {at * 0.01:.9f};{2**60 + at};;page-faults;{group};10011222;100.00;;\n"
            for at in range(1, 30)
            for group in ("/", "/user")
        )
    ),
    "unclosed.json": _lines(
        "[\n",
        *(
            f'{{"ph":"C","name":"h","id":"{at % 2}","pid":4,"tid":{at % 3},"ts":{at}.5,"args":{{"u":{2**60 + at}}}}},\n'
            for at in range(60)
        ),
    ),
    **{f"{name}.txt": text.encode() for name, text in MONITORS.items()},
    "hyperfine.json": made.hyperfine({"a": [0.5, 0.25], "b": [1.5]}, memory_usage_byte=[4096, 8192]),
    "pyperf.json": made.pyperf({"sort": [[1e-6, 3e-6], [4e-6]], "merge": [[5e-6]]}),
    "google.json": made.google({"BM_Sort/8": [2e-6, 3e-6]}, INSTRUCTIONS=1234.0),
    "google.csv": made.google_csv({"BM_Sort/8": [2e-6, 3e-6]}),
    "benchexec.xml": made.benchexec({"a.yml": 1.5, "b.yml": 2.5}),
    "benchexec.csv": made.benchexec_table(),
    "rebench.data": made.rebench({"Bounce": [[90, 10], [95, 30]], "List": [[99, 7]]}, warm_up=1),
    "asv.json": made.asv(),
    "big.csv": _lines("time_ns,a\n", *(f"{2**60 + at},{(2**64 - 30 + at) % 2**64}\n" for at in range(60))),
}


def _damaged(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at, way = chance.randrange(max(1, len(changed))), chance.randrange(4)
        if way == 0:
            del changed[at:]
        elif way == 1:
            changed[at : at + 1] = bytes([chance.randrange(256)])
        elif way == 2:
            del changed[at : at + chance.randint(1, 40)]
        else:
            changed[at:at] = changed[at : at + 40]
    return bytes(changed)


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    file, chance = tmp_path / name, random.Random(19)
    file.write_bytes(FILES[name])
    assert read_traces(file)
    refused = 0
    for _ in range(120):
        file.write_bytes(_damaged(FILES[name], chance))
        try:
            read_traces(file)
        except UnperturbedError as error:
            assert str(file) in str(error)
            refused += 1
    assert refused
