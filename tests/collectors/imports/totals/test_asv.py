"""Results of asv: samples, or the median of each combination of parameters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.collectors.imports.totals.made import asv
from unperturbed.collectors.imports import read_traces
from unperturbed.errors import DataError


def test_samples_are_runs_of_one_process(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(asv())
    traces = read_traces(file)
    times = {}
    for trace in traces:
        times.setdefault(trace.attributes["benchmark"], []).append(trace.attributes.get("time_s"))
    assert times["suite.Sort.time_sort(10)"] == [0.25, 0.26, 0.24]
    assert times["suite.Sort.time_sort(30)"] == [0.5, 0.51, 0.49]
    memory = next(trace for trace in traces if "memory" in trace)
    assert (memory.attributes["benchmark"], memory["memory"][0]) == ("suite.Sort.peakmem_sort", 4096)
    assert next(trace["value"][0] for trace in traces if "value" in trace) == 17
    assert {trace.attributes["process"] for trace in traces} == {str(file)}
    assert traces[0].attributes["parameters"] == {"parameter 1": "10"}
    assert (traces[0].attributes["host"], traces[0].attributes["started"]) == ("here", "2031-01-01T10:00:00+00:00")
    assert (
        "the import leaves out 2 runs: failed, or skipped (first: suite.Sort.time_sort(20))"
        in (traces[0].attributes["notes"])
    )


def test_without_samples_a_median_is_a_run(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(asv(samples=False))
    traces = read_traces(file)
    assert [trace.attributes["time_s"] for trace in traces if "time_s" in trace] == [0.25, 0.5]
    assert "use --record-samples" in traces[0].attributes["notes"][0]


def test_older_versions_write_numbers_and_objects(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    results = {"time_a": 0.5, "time_b": None, "mem_c": {"params": [["1", "2"]], "result": [10, None]}}
    found = {"commit_hash": "0a", "date": 1, "params": {"machine": "here"}, "results": results, "version": 1}
    file.write_text(json.dumps(found, indent=1))
    first, second = read_traces(file)
    assert (first.attributes["benchmark"], first.attributes["time_s"]) == ("time_a", 0.5)
    assert (second.attributes["benchmark"], second["memory"][0]) == ("mem_c(1)", 10)


def test_files_beside_the_results_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "0a-py3.json").write_bytes(asv(samples=False))
    (tmp_path / "machine.json").write_text('{"arch": "x86_64", "machine": "here", "version": 1}')
    assert len(read_traces(tmp_path, "asv")) == len(read_traces(tmp_path / "0a-py3.json"))
    with pytest.raises(DataError, match=r"machine.json: this file describes results, but has none"):
        read_traces(tmp_path / "machine.json", "asv")


def test_failures_alone_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"commit_hash": "0a", "results": {"time_a": null}}')
    with pytest.raises(DataError, match=r"leaves out 1 run: failed, or skipped \(first: time_a\)"):
        read_traces(file)


def test_samples_that_are_no_numbers_are_left_out_with_a_note(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(asv().replace(b"[0.25, 0.26, 0.24]", b'[NaN, 0.26, "fast"]'))
    traces = [trace for trace in read_traces(file) if trace.attributes["benchmark"] == "suite.Sort.time_sort(10)"]
    assert [trace.attributes["time_s"] for trace in traces] == [0.26]
    note = "the import leaves out 2 runs: no total is a number (first: suite.Sort.time_sort(10))"
    assert note in traces[0].attributes["notes"]
