"""Paraver: this tool's own exports, and records as Extrae writes them (Paraver's manual, "Trace generation")."""

from __future__ import annotations

from pathlib import Path

import pytest

from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.imports import read_traces
from unperturbed.errors import DataError
from unperturbed.harness.exports import export

HEAD = "#Paraver (03/11/31 at 10:00):100000_ns:1(2):1:2(1:1,1:1)\n"
RECORDS = """\
1:1:1:1:1:0:10000:1
2:1:1:1:1:10000:42000050:100:42000059:200:60000019:3
2:2:1:2:1:15000:42000050:7:42000059:9
3:1:1:1:1:15000:15000:2:1:2:1:20000:20000:8:1
2:1:1:1:1:20000:42000050:50:42000059:80
2:2:1:2:1:30000:42000050:1:42000059:2
"""
NAMES = """\
EVENT_TYPE
7  42000050 PAPI_TOT_INS [Instr completed]
7  42000059 PAPI_TOT_CYC [Total cycles]

EVENT_TYPE
0  60000019 User function
VALUES
0  End
"""


def write(folder: Path, text: str, names: str = NAMES) -> Path:
    (folder / "t.prv").write_text(text)
    if names:
        (folder / "t.pcf").write_text(names)
    return folder / "t.prv"


def test_records_of_extrae(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + RECORDS)
    first, second = read_traces(path, tasks="runs")
    assert (first.attributes["run"], second.attributes["run"]) == ("t task 1.1", "t task 1.2")
    assert first["PAPI_TOT_INS"].tolist() == [100, 50]
    assert second["PAPI_TOT_CYC"].tolist() == [9, 2]
    assert first.end_ns.tolist() == [10_000, 20_000]
    assert first.metrics["PAPI_TOT_INS"].kind == "hardware"
    assert first.attributes["notes"] == ["the import leaves out 1 event type without counts"]
    (both,) = read_traces(path, interval="0.015")
    assert both["PAPI_TOT_INS"].tolist() == [107, 51]
    assert both.end_ns.tolist() == [15_000, 30_000]


def test_what_this_tool_exported(tmp_path: Path) -> None:
    end = [*(20_000_000 * at for at in range(1, 5)), 89_000_000]  # the last interval is short, and keeps its counts
    metrics = [Metric("PAPI_TOT_INS", "simulated"), Metric("faults", "os")]
    columns = {"PAPI_TOT_INS": [5, 4, 3, 2, 1], "faults": [1.5, 0.5, 2.5, 3.5, 4.5]}
    trace = Trace.from_columns(metrics, columns, begin_ns=[0, *end[:-1]], end_ns=end)
    export(trace, "trace", tmp_path / "run.prv")
    (again,) = read_traces(tmp_path / "run.prv")
    assert again.end_ns.tolist() == end
    assert {name: again[name].tolist() for name in again} == columns
    assert again.metrics["PAPI_TOT_INS"].kind == "simulated"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#Paraver nothing\n", "t.prv:1: not a Paraver header"),
        (HEAD + RECORDS[:-20], "t.prv:7: incomplete event record: the trace is truncated"),
        (HEAD + RECORDS.replace(":15000:4", ":25000:4"), "t.prv:6: this record is earlier than the previous one"),
        (HEAD + RECORDS + RECORDS.splitlines()[-1] + "\n", "t.prv:8: duplicate record"),
        (HEAD + "what\n", "t.prv:2: not a Paraver record"),
        (HEAD, "no record contains a counter"),
        (HEAD + RECORDS, "several threads record at different times"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_traces(write(tmp_path, text))


def test_without_names(tmp_path: Path) -> None:
    first, _ = read_traces(write(tmp_path, HEAD + RECORDS, names=""), tasks="runs")
    assert list(first.metrics) == ["event 42000050", "event 42000059"]
    assert "copy the trace's .pcf file to the same folder" in first.attributes["notes"][-1]
