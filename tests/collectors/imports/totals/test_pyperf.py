"""Results of pyperf: a run is a process, without warm-ups and calibration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.collectors.imports.totals.made import pyperf
from unperturbed.collectors.imports import read_traces


def test_a_process_is_a_run_with_the_mean_of_its_values(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(pyperf({"sort": [[1e-6, 3e-6], [4e-6]], "merge": [[5e-6]]}))
    traces = read_traces(file)
    assert [trace.attributes["benchmark"] for trace in traces] == ["sort", "sort", "merge"]
    assert [trace.attributes["time_s"] for trace in traces] == pytest.approx([2e-6, 4e-6, 5e-6])
    assert traces[1].attributes["started"] == "2031-01-02 10:00:01.5"
    assert traces[0].attributes["host"] == "here"
    assert "at most 2 values" in traces[0].attributes["notes"][0]


def test_bytes_are_memory_and_a_file_names_a_benchmark_without_a_name(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    found = json.loads(pyperf({"x": [[4096]]}, unit="byte"))
    del found["benchmarks"][0]["metadata"]["name"]
    file.write_text(json.dumps(found))
    (trace,) = read_traces(file)
    assert (trace.attributes["benchmark"], trace["memory"][0], trace.metrics["memory"].unit) == ("a", 4096, "B")
    assert "time_s" not in trace.attributes


def test_what_pyperf_itself_writes_is_read(tmp_path: Path) -> None:
    import pyperf as library

    runs = [
        library.Run([0.5, 0.7], warmups=[(1, 9.0)], metadata={"name": "own"}, collect_metadata=False) for _ in range(3)
    ]
    library.BenchmarkSuite([library.Benchmark(runs)]).dump(str(tmp_path / "own.json.gz"))
    assert [trace.attributes["time_s"] for trace in read_traces(tmp_path / "own.json.gz")] == pytest.approx([0.6] * 3)


def test_values_that_are_no_numbers_are_left_out_with_a_note(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(pyperf({"sort": [[0.5, 0.75], [1.0, 3.0]]}).replace(b"0.75", b"NaN").replace(b"3.0", b'"slow"'))
    traces = read_traces(file)
    assert [trace.attributes["time_s"] for trace in traces] == [0.5, 1.0]
    assert "the import leaves out 2 values: the value is not a number (first: sort)" in traces[0].attributes["notes"]
