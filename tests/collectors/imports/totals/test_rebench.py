"""Data files of ReBench: a run is an invocation, without warm-up iterations where the file tells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collectors.imports.totals.made import rebench
from unperturbed.collectors.imports import read_traces
from unperturbed.errors import DataError


def test_an_invocation_is_a_run_with_the_mean_of_its_iterations(tmp_path: Path) -> None:
    file = tmp_path / "a.data"
    file.write_bytes(rebench({"Bounce": [[90, 10, 20], [95, 30, 50]], "List": [[99, 7]]}, warm_up=1))
    traces = read_traces(file)
    assert [trace.attributes["benchmark"] for trace in traces] == ["Bounce", "Bounce", "List"]
    assert [trace.attributes["time_s"] for trace in traces] == pytest.approx([0.015, 0.04, 0.007])
    assert [trace["GC"][0] for trace in traces] == pytest.approx([1.5, 4, 0.7])
    assert (traces[0].metrics["GC"].unit, traces[0].attributes["host"]) == ("ms", "here")
    assert traces[0].attributes["started"].startswith("2031-01-02T10:00:00")
    assert traces[0].attributes["notes"] == [
        "warm-up iterations are left out (6 measurements)",
        "a run is an invocation: the mean of its iterations, at most 2",
    ]


def test_older_files_without_descriptions(tmp_path: Path) -> None:
    file = tmp_path / "a.data"
    lines = [line for line in rebench({"Bounce": [[10, 20]]}).decode().splitlines() if not line.startswith("#")]
    file.write_text("\n".join(lines))
    (trace,) = read_traces(file)
    assert trace.attributes["time_s"] == pytest.approx(0.015)
    assert "does not name warm-up iterations" in trace.attributes["notes"][1]


def test_columns_that_vary_are_part_of_the_name(tmp_path: Path) -> None:
    file = tmp_path / "a.data"
    text = rebench({"Bounce": [[10], [20]]}).decode()
    file.write_text(text.replace("2\t1\t20.000000\tms\ttotal\tBounce\tvm", "1\t1\t20.000000\tms\ttotal\tBounce\tother"))
    traces = read_traces(file)
    assert {trace.attributes["benchmark"] for trace in traces} == {"Bounce (vm)", "Bounce (other)"}
    assert traces[0].attributes["parameters"] == {"executor": "vm"}


def test_what_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.data"
    file.write_bytes(rebench({"Bounce": [[10]]}) + b"1\t2\t3\n")
    with pytest.raises(DataError, match=r"a\.data:10: this row has 3 fields, but a measurement has at least 6"):
        read_traces(file)
    file.write_bytes(rebench({}))
    with pytest.raises(DataError, match="has no measurements"):
        read_traces(file)


def test_a_value_that_is_no_number_is_left_out_with_a_note(tmp_path: Path) -> None:
    file = tmp_path / "a.data"
    file.write_text(rebench({"Bounce": [[10, 20]]}).decode().replace("20.000000\tms\ttotal", "nan\tms\ttotal"))
    (trace,) = read_traces(file)
    assert trace.attributes["time_s"] == pytest.approx(0.01)
    assert "the import leaves out 1 value: the value is not a number (first: Bounce)" in trace.attributes["notes"]


def test_a_measurement_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.data"
    file.write_bytes(rebench({"Bounce": [[10], [20]]}) * 2)
    with pytest.raises(DataError, match=r"a\.data:19: GC of Bounce, invocation 1, iteration 1, is also in line 8"):
        read_traces(file)
