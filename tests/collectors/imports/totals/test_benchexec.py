"""Results of BenchExec: what it measured of each task, from XML and from tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collectors.imports.totals.made import benchexec, benchexec_table
from unperturbed.collectors.imports import read_traces
from unperturbed.errors import DataError


def test_a_run_is_a_task(tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    file.write_bytes(benchexec({"a.yml": 1.5, "b.yml": 2.5}))
    traces = read_traces(file)
    assert [trace.attributes["benchmark"] for trace in traces] == ["a.yml (unreach-call)", "b.yml (unreach-call)"]
    assert [trace.attributes["cpu_s"] for trace in traces] == [1.5, 2.5]
    assert [trace.attributes["time_s"] for trace in traces] == pytest.approx([1.65, 2.75])
    assert list(traces[0].metrics) == ["cpu_s", "time_s", "memory"]
    assert traces[1]["memory"][0] == 1_000_001
    assert (traces[0].attributes["host"], traces[0].attributes["started"]) == ("here", "2031-01-02 10:00:00 CET")
    assert traces[0].attributes["notes"] == [
        "the import leaves out 1 run: failed, or reached a limit (first: slow.yml)"
    ]


def test_run_sets_of_a_table_are_runs(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(benchexec_table())
    traces = read_traces(file)
    found = [(trace.attributes["benchmark"], trace.attributes["cpu_s"], trace["memory"][0]) for trace in traces]
    assert found == [
        ("a.yml (unreach-call)", 1.5, 2.5e6),
        ("a.yml (unreach-call)", 1.75, 2.25e6),
        ("b.yml (unreach-call)", 3, 4e6),
        ("c.yml (unreach-call)", 5, 6e6),
    ]


def test_run_sets_of_different_names_are_benchmarks(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    lines = benchexec_table().decode().splitlines()
    lines[1] = "run set\t\tfast\tfast\tfast\tslow\tslow\tslow"
    file.write_text("\n".join(lines))
    names = [trace.attributes["benchmark"] for trace in read_traces(file)]
    assert names[:2] == ["fast: a.yml (unreach-call)", "slow: a.yml (unreach-call)"]


def test_what_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    file.write_bytes(benchexec({"a.yml": 1.5})[:-40])
    with pytest.raises(DataError, match=r"a\.xml:\d+: not XML"):
        read_traces(file)
    entity = benchexec({"a.yml": 1.5}).replace(b"result-3.0.dtd'>", b"result-3.0.dtd' [<!ENTITY a 'b'>]>")
    file.write_bytes(entity)
    with pytest.raises(DataError, match="the XML defines entities"):
        read_traces(file)
    file.write_bytes(benchexec({"a.yml": 1.5}, status="OUT OF MEMORY"))
    with pytest.raises(DataError, match=r"leaves out 2 runs: failed, or reached a limit \(first: a\.yml"):
        read_traces(file)
    file.write_bytes(benchexec_table() + b"d.yml\tunreach-call\ttrue\t1\t2\ttrue\t3\t4\t5\n")
    with pytest.raises(DataError, match=r"a\.xml:7: this row has 9 fields, but the table has 8 columns"):
        read_traces(file)
