"""Results of hyperfine: a run for each time, with its peak memory and the command's parameters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.collectors.imports.totals.made import hyperfine
from unperturbed.collectors.imports import read_traces
from unperturbed.errors import DataError


def test_each_time_is_a_run(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(hyperfine({"./sort": [0.5, 0.25], "./merge": [1.5]}, memory_usage_byte=[4096, 8192]))
    traces = read_traces(file)
    assert [trace.attributes["benchmark"] for trace in traces] == ["./sort", "./sort", "./merge"]
    assert [trace.attributes["time_s"] for trace in traces] == [0.5, 0.25, 1.5]
    assert [trace["memory"][0] for trace in traces] == [4096, 8192, 4096]
    assert [len(trace) for trace in traces] == [1, 1, 1]
    assert traces[0].end_ns[0] == 500_000_000
    assert any("only wall-clock time" in note for note in traces[0].attributes["notes"])


def test_parameters_tell_commands_of_one_name_apart(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    found = json.loads(hyperfine({"a": [1.0], "b": [2.0], "c": [3.0]}))
    for at, result in enumerate(found["results"]):
        result["command"] = "same"
        if at < 2:
            result["parameters"] = {"threads": str(at + 1)}
    file.write_text(json.dumps(found))
    traces = read_traces(file)
    assert [trace.attributes["benchmark"] for trace in traces] == ["same (threads=1)", "same (threads=2)", "same"]
    assert traces[1].attributes["parameters"] == {"threads": "2"}


def test_a_command_that_is_run_twice_has_two_names(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    found = json.loads(hyperfine({"a": [1.0]}))
    file.write_text(json.dumps({"results": found["results"] * 2}))
    assert [trace.attributes["benchmark"] for trace in read_traces(file)] == ["a", "a #2"]


def test_failed_runs_are_left_out_unless_all_end_alike(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(hyperfine({"a": [1.0, 2.0, 3.0]}, exit_codes=[0, 139, 0]))
    traces = read_traces(file)
    assert [trace.attributes["time_s"] for trace in traces] == [1, 3]
    assert "the import leaves out 1 run: failed (first: a)" in traces[0].attributes["notes"]
    file.write_bytes(hyperfine({"a": [1.0, 2.0]}, exit_codes=[1, 1]))
    traces = read_traces(file)
    assert len(traces) == 2
    assert "every run of a ended with exit code 1" in traces[0].attributes["notes"]


def test_runs_that_were_killed_or_never_started_are_left_out_though_all_are_alike(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    for codes in ([139, 139], [127, 127], [None, None]):
        file.write_bytes(hyperfine({"a": [1.0, 2.0]}, exit_codes=codes))
        with pytest.raises(DataError, match="failed"):
            read_traces(file)


def test_without_times_it_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(hyperfine({"a": [1.0]}, times=None))
    with pytest.raises(DataError, match=r"a\.json: no run of this file has totals; .* no time of single runs"):
        read_traces(file)


def test_its_table_lacks_the_runs(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("command,mean,stddev,median,user,system,min,max\nsort,1.0,0.1,1.0,0.9,0.1,0.9,1.2\n")
    with pytest.raises(DataError, match=r"a.csv:1: this is a table of hyperfine, which lacks .* with --export-json"):
        read_traces(file, "hyperfine")
