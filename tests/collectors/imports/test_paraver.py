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


def test_the_number_of_a_counter_set_is_no_metric(tmp_path: Path) -> None:
    """Extrae writes the number of the set that begins to count; while another set counts, a counter has no value."""
    alone = "#Paraver (03/11/31 at 10:00):100000_ns:1(1):1:1(1:1)\n"
    one_set = "".join(f"2:1:1:1:1:{at}0000:42000050:{at}:42000059:{2 * at}\n" for at in range(1, 6))
    (trace,) = read_traces(write(tmp_path, alone + "2:1:1:1:1:0:41999999:1:42000050:0:42000059:0\n" + one_set))
    assert list(trace.metrics) == ["PAPI_TOT_INS", "PAPI_TOT_CYC"]
    records = "2:1:1:1:1:5000:41999999:1\n"
    for at in range(1, 10):
        change = f"2:1:1:1:1:{at}0000:41999999:2\n2:1:1:1:1:{at + 1}0000:42000050:9\n" if at == 8 else ""
        records += f"2:1:1:1:1:{at}0000:42000050:{at}" + (f":42000059:{2 * at}\n" if at < 8 else "\n") + change
    (trace,) = read_traces(write(tmp_path, alone + records.replace("2:1:1:1:1:90000:42000050:9\n", "", 1)))
    assert trace["PAPI_TOT_CYC"].tolist() == [2 * at for at in range(1, 8)]
    assert trace["PAPI_TOT_INS"].tolist() == list(range(1, 8))
    said = "the import leaves out 2 intervals in which PAPI_TOT_CYC was in no active counter set"
    assert said in trace.attributes["notes"]


def test_sets_that_alternate_without_their_number(tmp_path: Path) -> None:
    alone = "#Paraver (03/11/31 at 10:00):100000_ns:1(1):1:1(1:1)\n2:1:1:1:1:0:42000050:0:42000051:0\n"
    records = "".join(f"2:1:1:1:1:{at}0000:42000050:{at}:{42000051 + at // 4 % 2}:{2 * at}\n" for at in range(1, 10))
    (trace,) = read_traces(write(tmp_path, alone + records))
    assert trace["PAPI_TOT_INS"].tolist() == [1, 2, 3, 8, 9]
    assert trace["event 42000051"].tolist() == [2, 4, 6, 16, 18]
    assert trace.begin_ns.tolist()[:2] == [0, 10000]
    assert any("event 42000052, which was in no active counter set" in note for note in trace.attributes["notes"])
    assert any("the first record, before which no time passed" in note for note in trace.attributes["notes"])


def test_values_that_no_counter_can_have_are_left_out(tmp_path: Path) -> None:
    alone = "#Paraver (03/11/31 at 10:00):100000_ns:1(1):1:1(1:1)\n"
    records = "".join(f"2:1:1:1:1:{at}0000:42000050:{at}:42000059:{2 * at}\n" for at in range(1, 10))
    for before, after in (
        (":42000050:4:", ":42000050:9223231512595099695:"),
        (":42000059:12\n", ":42000059:-3\n"),
        (":42000059:18\n", ":42000059:123456789012\n"),  # in 10 µs
    ):
        records = records.replace(before, after)
    (trace,) = read_traces(write(tmp_path, alone + records))
    assert trace["PAPI_TOT_INS"].tolist() == [1, 2, 3, 5, 7, 8]
    assert trace["PAPI_TOT_CYC"].tolist() == [2, 4, 6, 10, 14, 16]
    assert trace.attributes["notes"] == [
        "the import leaves out 1 value of PAPI_TOT_INS that no counter can have (first: 9,223,231,512,595,099,695 in "
        "line 5)",
        "the import leaves out 2 values of PAPI_TOT_CYC that no counter can have (first: -3 in line 7)",
        "the import leaves out 1 interval in which PAPI_TOT_INS was not credible",
        "the import leaves out 2 intervals in which PAPI_TOT_CYC was not credible",
    ]


def test_sums_keep_all_digits(tmp_path: Path) -> None:
    alone = "#Paraver (03/11/31 at 10:00):100000_ns:1(1):1:1(1:1)\n"
    many = [2**60 + at for at in range(1, 4)]
    records = "".join(f"2:1:1:1:1:{at}0000:71000001:{count}\n" for at, count in enumerate(many, 1))
    (trace,) = read_traces(write(tmp_path, alone + records))
    assert trace["event 71000001"].tolist() == many
    (trace,) = read_traces(write(tmp_path, alone + records), interval="0.03")
    assert trace["event 71000001"].tolist() == [sum(many)]
