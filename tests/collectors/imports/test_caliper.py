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
    ours, _ = read_cali(path.read_bytes(), path)
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
    rows = [{"loop": "main", "sum#time.duration.ns": 10_000_000 + at % 3, "count": at} for at in range(40)]
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
