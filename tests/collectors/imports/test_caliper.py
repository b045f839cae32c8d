"""Caliper: files by its written format, against its own reader (`caliper-reader`), and the JSON of cali-query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unperturbed.collectors.imports import read_traces, recognise
from unperturbed.collectors.imports.caliper import read_cali
from unperturbed.errors import DataError

# The nodes that every file begins with, by Caliper's own example (doc/sphinx/examples in its repository): types, then
# the attributes of attributes. `prop` 1 is a value, 2049 a value that is summed, 256 is nested.
BASE = """\
__rec=node,id=1,attr=9,data=int
__rec=node,id=2,attr=9,data=uint
__rec=node,id=3,attr=9,data=string
__rec=node,id=5,attr=9,data=double
__rec=node,id=7,attr=9,data=type
__rec=node,id=8,attr=8,data=cali.attribute.name,parent=3
__rec=node,id=9,attr=8,data=cali.attribute.type,parent=7
__rec=node,id=10,attr=8,data=cali.attribute.prop,parent=1
__rec=node,id=20,attr=10,data=65,parent=2
__rec=node,id=21,attr=8,data=time.offset.ns,parent=20
__rec=node,id=22,attr=10,data=2113,parent=1
__rec=node,id=23,attr=8,data=papi.PAPI_TOT_INS,parent=22
__rec=node,id=24,attr=8,data=bytes.sent,parent=22
__rec=node,id=25,attr=10,data=256,parent=3
__rec=node,id=26,attr=8,data=region,parent=25
__rec=node,id=27,attr=10,data=12,parent=1
__rec=node,id=28,attr=8,data=mpi.rank,parent=27
__rec=node,id=30,attr=26,data=main
__rec=node,id=31,attr=26,data=a\\,b\\=c,parent=30
__rec=node,id=32,attr=28,data=0
__rec=node,id=33,attr=28,data=1
"""


def snapshots(count: int = 200, ranks: int = 1, seed: int = 1) -> list[dict[str, Any]]:
    """Return snapshots each 1 to 3 ms: rank, time, counts."""
    chance = np.random.default_rng(seed)
    times = np.cumsum(chance.integers(1_000_000, 3_000_000, count))
    return [
        {
            "mpi.rank": at % ranks,
            "time.offset.ns": int(time),
            "papi.PAPI_TOT_INS": int(chance.integers(0, 10**6)),
            "bytes.sent": int(chance.integers(0, 9)),
        }
        for at, time in enumerate(times)
    ]


def as_cali(rows: list[dict[str, Any]]) -> str:
    return BASE + "".join(
        f"__rec=ctx,ref=31={32 + row['mpi.rank']},attr=21=23=24,"
        f"data={row['time.offset.ns']}={row['papi.PAPI_TOT_INS']}={row['bytes.sent']}\n"
        for row in rows
    )


def naive(rows: list[dict[str, Any]], name: str, interval: int) -> list[int]:
    """Sum a count into intervals, one snapshot after the other."""
    start = rows[0]["time.offset.ns"] // interval * interval
    found = [0] * (1 + (rows[-1]["time.offset.ns"] - start - 1) // interval)
    for row in rows:
        found[max(0, (row["time.offset.ns"] - start - 1) // interval)] += row[name]
    return found


def write(folder: Path, text: str, name: str = "run.cali") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_its_own_reader_finds_the_same(tmp_path: Path) -> None:
    from caliperreader import read_caliper_contents

    path = write(tmp_path, as_cali(snapshots(50, 2)) + "__rec=globals,ref=32\n")
    theirs, _ = read_caliper_contents(str(path))
    ours, _, _ = read_cali(path.read_bytes(), path)
    assert len(ours) == len(theirs) == 50
    for our, their in zip(ours, theirs, strict=True):
        assert {name: str(value) for name, value in our.values.items() if name != "region"} == {
            name: value for name, value in their.items() if name not in ("region", "path")
        }
        assert our.values["region"] == their["region"][-1] == "a,b=c"


@pytest.mark.parametrize("form", ["cali", "json", "object", "split"])
def test_counts_of_snapshots_are_summed(tmp_path: Path, form: str) -> None:
    rows = snapshots()
    names = list(rows[0])
    split = {
        "data": [list(row.values()) for row in rows],
        "columns": names,
        "column_metadata": [{"is_value": True} for _ in names],
        "nodes": [],
    }
    text = {
        "cali": as_cali(rows),
        "json": "[" + ",\n".join(map(json.dumps, rows)) + "\n]",
        "object": json.dumps({"records": rows, "globals": {"cali.caliper.version": "2.12"}}),
        "split": json.dumps(split),
    }[form]
    path = write(tmp_path, text, f"run.{'cali' if form == 'cali' else 'json'}")
    found = recognise(path)
    assert found is not None
    assert found.name == "caliper"
    (trace,) = read_traces(path, metrics="papi.PAPI_TOT_INS,bytes.sent")
    for name in ("papi.PAPI_TOT_INS", "bytes.sent"):
        whole = naive(rows, name, 20_000_000)
        own = trace[name.removeprefix("papi.")].tolist()
        assert own == whole[: len(own)]
        assert len(own) >= len(whole) - 1
    assert trace.metrics["PAPI_TOT_INS"].kind == "hardware"
    (each,) = read_traces(path, metrics="bytes.sent", interval="snapshots")
    own = each["bytes.sent"].tolist()
    assert own == [row["bytes.sent"] for row in rows][: len(own)]


def test_what_is_known_to_be_a_count_and_whose(tmp_path: Path) -> None:
    rows = snapshots(300, 2)
    path = write(tmp_path, as_cali(rows))
    (both,) = read_traces(path)
    assert list(both) == ["PAPI_TOT_INS", "bytes.sent"]
    first, second = read_traces(path, ranks="runs")
    assert (first.attributes["run"], second.attributes["run"]) == ("run rank 0", "run rank 1")
    own = [row for row in rows if row["mpi.rank"] == 1]
    assert second["bytes.sent"].tolist() == naive(own, "bytes.sent", 20_000_000)[: len(second)]


def test_durations_are_added_up(tmp_path: Path) -> None:
    rows = [{"iteration#main": at, "sum#time.duration.ns": 10_000_000 + at % 3, "count": at} for at in range(40)]
    (trace,) = read_traces(write(tmp_path, json.dumps(rows), "loop.json"), interval="snapshots")
    assert trace["count"].tolist() == list(range(40))
    assert trace.end_ns.tolist() == np.cumsum([row["sum#time.duration.ns"] for row in rows]).tolist()


GOOD = as_cali(snapshots(5))
LINES = GOOD.splitlines(keepends=True)
BAD = {
    "cut off": (GOOD[:-8], "run.cali:26: incomplete snapshot: the file is truncated"),
    "no snapshot": (BASE, "run.cali: the file has no snapshots: it is truncated"),
    "out of order": ("".join([*LINES[:-2], LINES[-1], LINES[-2]]), "run.cali:26: this snapshot is earlier than"),
    "a line missing": ("".join(LINES[:11] + LINES[12:]), "run.cali:21: node 23 is not defined before this line"),
    "a snapshot twice": (GOOD + LINES[-1], "run.cali:27: this snapshot appears twice"),
    "decimal commas": (GOOD.replace("=23=24,data=", "=23=24,data=1,"), "run.cali:22: incomplete snapshot"),
    "a node without an id": (GOOD + "__rec=node,id,attr=26,data=x\n", "run.cali:27: incomplete node"),
    "another recording": (
        GOOD + "__rec=node,id=30,attr=26,data=x\n",
        "run.cali:27: node 30 was already defined differently",
    ),
    "no number": (GOOD.replace("=23=24,data=", "=23=24,data=x"), "run.cali:22: 'x[0-9]+' is not a number"),
    "something else": (GOOD + "hello\n", "run.cali:27: not a Caliper record"),
    "a profile": ('[{"path": "main", "sum#time.inclusive": 3}]', "no snapshot has a time: this is the profile"),
    "JSON cut off": ('[{"time.offset": 3, "count"', "run.cali:1: not JSON: "),
    "no counts": ('[{"time.offset": 3, "x": 1}]', "known to be a count: name the count attributes with metrics=A,B"),
    "perf's": ("     0.020000000,1,,cycles,20000000,100.00,,\n", "is perf stat -I output, not a Caliper recording"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(DataError, match=message):
        read_traces(write(tmp_path, text), "caliper")


def test_bad_options(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    for options, message in (
        ({"time": "time.ofset"}, "time=time.ofset: no snapshot has this attribute; did you mean time.offset.ns"),
        ({"metrics": "bytes"}, "metrics=bytes: no snapshot has attribute 'bytes'"),
        ({"interval": "x"}, "interval=x: give a length in ms"),
        ({"ranks": "all"}, "ranks=all: use sum or runs"),
    ):
        with pytest.raises(DataError, match=message):
            read_traces(path, **options)


def test_the_nodes_that_every_tree_begins_with_may_be_missing(tmp_path: Path) -> None:
    """Caliper 2 does not write them; version 1 does, and gives the id 11 to another node."""
    text = as_cali(snapshots(50))
    (whole,) = read_traces(write(tmp_path, text))
    begins = BASE.index("__rec=node,id=20,")
    (without,) = read_traces(write(tmp_path, text[begins:], "two.cali"))
    assert without["PAPI_TOT_INS"].tolist() == whole["PAPI_TOT_INS"].tolist()
    other = "__rec=node,id=11,attr=10,data=148,parent=1\n__rec=node,id=12,attr=8,data=cali.key.attribute,parent=11\n"
    (old,) = read_traces(write(tmp_path, BASE + other + text[len(BASE) :], "one.cali"))
    assert old["PAPI_TOT_INS"].tolist() == whole["PAPI_TOT_INS"].tolist()


@pytest.mark.parametrize("regions", ["path", "region"])
def test_a_profile_of_a_whole_run_is_refused(tmp_path: Path, regions: str) -> None:
    rows = [{regions: name, "sum#time.duration.ns": 10**8 + at, "count": at + 1} for at, name in enumerate("abcdef")]
    message = r"sum#time.duration.ns is a sum over the run, .* not a trace. Record with CALI_CONFIG=event-trace"
    with pytest.raises(DataError, match=message):
        read_traces(write(tmp_path, json.dumps(rows), "t.json"), "caliper")
    with pytest.raises(DataError, match=r"time.duration.ns is a sum over the run"):
        read_traces(write(tmp_path, json.dumps(rows).replace("sum#", ""), "t.json"), "caliper")


def test_iterations_come_in_any_order_and_in_several_regions(tmp_path: Path) -> None:
    rows = [
        {
            "path": path,
            "iteration#main": at,
            "sum#time.duration.ns": 1000 * (at + 1),
            "sum#papi.PAPI_TOT_INS": 2**60 + at,
        }
        for at in (3, 0, 2, 1)
        for path in ("a", "b")
    ]
    rows.append({"path": "a", "sum#time.duration.ns": 5})
    (trace,) = read_traces(write(tmp_path, json.dumps(rows), "t.json"))
    assert trace.end_ns.tolist() == [2000, 6000, 12000, 20000]
    assert trace["PAPI_TOT_INS"].tolist() == [2 * (2**60 + at) for at in range(4)]
    assert trace.attributes["notes"] == ["the import leaves out 1 snapshot without iteration#main"]


SLICES = """\
__rec=node,id=30,attr=10,data=77,parent=5
__rec=node,id=31,attr=8,data=timeseries.starttime,parent=30
__rec=node,id=32,attr=10,data=77,parent=2
__rec=node,id=33,attr=8,data=timeseries.snapshot,parent=32
__rec=node,id=34,attr=10,data=2125,parent=5
__rec=node,id=35,attr=8,data=timeseries.duration,parent=34
__rec=node,id=39,attr=10,data=85,parent=2
__rec=node,id=40,attr=8,data=sum#time.duration.ns,parent=39
__rec=node,id=41,attr=8,data=sum#papi.PAPI_TOT_INS,parent=39
__rec=node,id=26,attr=10,data=2125,parent=1
__rec=node,id=27,attr=8,data=loop.iterations,parent=26
__rec=node,id=28,attr=8,data=alloc.region.highwatermark,parent=26
__rec=node,id=18,attr=10,data=268,parent=3
__rec=node,id=20,attr=8,data=region,parent=18
__rec=node,id=50,attr=20,data=main
__rec=node,id=51,attr=20,data=solve,parent=50
"""


def test_time_slices(tmp_path: Path) -> None:
    """A slice has a snapshot for each region, and one of its own with its length, written when it ends."""
    text = SLICES
    for at in range(8):
        start, end = 1_700_000_000 + at / 2, 1_700_000_000.5 + at / 2
        for region in (50, 51):
            text += f"__rec=ctx,ref={region},attr=40=41=27=31=33,data=250000000={region + at}=2={start:.6f}={at}\n"
        text += f"__rec=ctx,ref=50,attr=27=31=33=35=28=31,data=2={start:.6f}={at}=0.500000={900 + at}={end:.6f}\n"
    path = write(tmp_path, text)
    (trace,) = read_traces(path)
    assert trace["PAPI_TOT_INS"].tolist() == [101 + 2 * at for at in range(8)]
    assert trace["loop.iterations"].tolist() == [2] * 8  # once, although each snapshot of the slice has it
    assert trace["alloc.region.highwatermark"].tolist() == list(range(900, 908))
    assert trace.metrics["alloc.region.highwatermark"].semantics == "gauge"
    assert trace.end_ns.tolist() == [500_000_000 * at for at in range(1, 9)]
    assert trace.attributes["notes"] == []
    with pytest.raises(DataError, match=r"run.cali:17: time slice 0 has no timeseries.duration"):
        read_traces(write(tmp_path, text.replace("33=35=28", "33=28").replace("=0.500000", "")))


def test_the_unit_of_a_time_is_read_or_asked_for(tmp_path: Path) -> None:
    rows = [{"time.offset": at / 50, "papi.PAPI_TOT_INS": at} for at in range(1, 9)]
    path = write(tmp_path, json.dumps(rows), "t.json")
    with pytest.raises(
        DataError, match=r"t.json: the file does not contain the unit of time.offset: give it, as unit=us or"
    ):
        read_traces(path)
    (trace,) = read_traces(path, unit="s", interval="snapshots")
    assert np.diff(trace.end_ns).tolist() == [20_000_000] * 7
    described = {"records": rows, "attributes": {"time.offset": {"attribute.unit": "sec"}}}
    (again,) = read_traces(write(tmp_path, json.dumps(described), "u.json"), interval="snapshots")
    assert again.end_ns.tolist() == trace.end_ns.tolist()
    split = {
        "data": [list(row.values()) for row in rows],
        "columns": list(rows[0]),
        "column_metadata": [{"is_value": True, "attribute.unit": "sec"}, {"is_value": True}],
    }
    (again,) = read_traces(write(tmp_path, json.dumps(split), "v.json"), interval="snapshots")
    assert again.end_ns.tolist() == trace.end_ns.tolist()
    unit = "__rec=node,id=13,attr=10,data=64,parent=3\n__rec=node,id=14,attr=8,data=attribute.unit,parent=13\n"
    unit += "__rec=node,id=15,attr=14,data=sec,parent=5\n__rec=node,id=16,attr=10,data=65,parent=15\n"
    text = as_cali([{**row, "time.offset.ns": row["time.offset"], "mpi.rank": 0, "bytes.sent": 0} for row in rows])
    text = text.replace("__rec=node,id=21,attr=8,data=time.offset.ns,parent=20\n", unit + ATTRIBUTE)
    (again,) = read_traces(write(tmp_path, text), interval="snapshots")
    assert again.end_ns.tolist() == trace.end_ns.tolist()


ATTRIBUTE = "__rec=node,id=21,attr=8,data=time.offset,parent=16\n"
