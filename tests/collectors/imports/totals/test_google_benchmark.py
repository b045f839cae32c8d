"""Results of Google Benchmark: a run for each repetition, without aggregates and rates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.collectors.imports.totals.made import google, google_csv
from unperturbed.collectors.imports import read_traces
from unperturbed.errors import DataError


def test_a_repetition_is_a_run(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(google({"BM_Sort/8": [2e-6, 3e-6]}, INSTRUCTIONS=1234.0))
    traces = read_traces(file)
    assert [trace.attributes["benchmark"] for trace in traces] == ["BM_Sort/8"] * 2
    assert [trace.attributes["time_s"] for trace in traces] == pytest.approx([2e-6, 3e-6])
    assert [trace.attributes["cpu_s"] for trace in traces] == pytest.approx([1.8e-6, 2.7e-6])
    assert list(traces[0].metrics) == ["time_s", "cpu_s", "INSTRUCTIONS"]
    assert traces[0].metrics["INSTRUCTIONS"].unit == "1"
    assert traces[0].attributes["process"] == str(file)
    assert traces[0].attributes["notes"] == [
        "rates (bytes or items a second) are left out: they are another form of the time",
        "aggregates are left out (2 entries)",
    ]


def test_named_arguments_are_parameters(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(google({"BM_Sort/size:64/8/threads:2": [2e-6]}))
    (trace,) = read_traces(file)
    assert trace.attributes["parameters"] == {"size": "64", "threads": "2"}
    assert trace.attributes["family"] == "BM_Sort/8"


def test_a_table_has_the_same_runs(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(google_csv({"BM_Sort/8": [2e-6, 3e-6], "BM_Mean": [1e-9]}))
    traces = read_traces(file)
    assert [trace.attributes["benchmark"] for trace in traces] == ["BM_Sort/8", "BM_Sort/8", "BM_Mean"]
    assert [trace.attributes["time_s"] for trace in traces] == pytest.approx([2e-6, 3e-6, 1e-9])
    assert [trace["misses"][0] for trace in traces] == [7, 8, 7]
    assert "the import leaves out 1 run: failed, or skipped (first: broken)" in traces[0].attributes["notes"]


def test_old_files_without_run_types(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    found = json.loads(google({"BM_Sort": [2e-6, 3e-6]}))
    for entry in found["benchmarks"]:
        for key in ("run_type", "run_name", "aggregate_name"):
            entry.pop(key, None)
    file.write_text(json.dumps(found))
    assert [trace.attributes["benchmark"] for trace in read_traces(file)] == ["BM_Sort"] * 2


def test_errors_and_debug_builds(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    found = json.loads(google({"BM_Sort": [2e-6, 3e-6]}))
    found["context"]["library_build_type"] = "debug"
    found["benchmarks"][0]["error_occurred"] = True
    file.write_text(json.dumps(found))
    (trace,) = read_traces(file)
    assert "the library of the benchmarks was a debug build" in trace.attributes["notes"]
    assert "the import leaves out 1 run: failed, or skipped (first: BM_Sort)" in trace.attributes["notes"]


def test_aggregates_alone_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    found = json.loads(google({"BM_Sort": [2e-6]}))
    found["benchmarks"] = found["benchmarks"][1:]
    file.write_text(json.dumps(found))
    with pytest.raises(DataError, match=r"no run of this file has totals; aggregates are left out \(2 entries\)"):
        read_traces(file)


def test_a_row_that_is_cut_off_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(google_csv({"BM_Sort": [2e-6]}) + b'\n"BM_Sort",1000')
    with pytest.raises(DataError, match=r"a\.csv:11: this row has 2 fields, but the header names 11"):
        read_traces(file)


def test_another_benchmark_of_the_same_name_has_a_number(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    found, other = (json.loads(google({"BM_Sort/size:8": each})) for each in ([2e-6, 3e-6], [4e-6, 5e-6]))
    found["benchmarks"] += other["benchmarks"]
    file.write_text(json.dumps(found))
    traces = read_traces(file)
    names = ["BM_Sort/size:8"] * 2 + ["BM_Sort/size:8 #2"] * 2
    assert [trace.attributes["benchmark"] for trace in traces] == names
    assert [trace.attributes["time_s"] for trace in traces] == pytest.approx([2e-6, 3e-6, 4e-6, 5e-6])
    assert {(trace.attributes["family"], trace.attributes["parameters"]["size"]) for trace in traces} == {
        ("BM_Sort", "8")
    }


def test_instances_with_numbers_are_told_apart_in_any_order(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    found = json.loads(google({"BM_Sort": [2e-6, 3e-6, 4e-6, 5e-6]}))
    order = [(0, 0), (1, 1), (1, 0), (0, 1)]
    for entry, (family, repetition) in zip(found["benchmarks"], order, strict=False):
        entry |= {"family_index": family, "per_family_instance_index": 0, "repetition_index": repetition}
    file.write_text(json.dumps(found))
    names = ["BM_Sort", "BM_Sort #2", "BM_Sort #2", "BM_Sort"]
    assert [trace.attributes["benchmark"] for trace in read_traces(file)] == names
