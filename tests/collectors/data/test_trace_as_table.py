"""A trace behaves as a table: by name, by slice, for NumPy and for libraries of data frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unperturbed.collectors import Metric, Trace
from unperturbed.errors import DataError


def a_trace(**attributes: object) -> Trace:
    return Trace.from_columns(
        [Metric("misses", "simulated"), Metric("rows", "software"), Metric("IPC", "derived", semantics="gauge")],
        {"misses": [5, 3, 8, 4], "rows": [1, 0, 2, 1], "IPC": [0.5, float("nan"), 0.25, 1.0]},
        begin_ns=[0, 10**9, 2 * 10**9, 3 * 10**9],
        end_ns=[10**9, 2 * 10**9, 3 * 10**9, 4 * 10**9],
        overruns=[0, 1, 0, 0],
        attributes=attributes,
    )


def test_names_are_contained_and_iterated_and_intervals_are_counted() -> None:
    trace = a_trace()
    assert "rows" in trace
    assert "begin_ns" not in trace
    assert list(trace) == ["misses", "rows", "IPC"]
    assert len(trace) == 4


def test_a_slice_is_a_trace_of_these_intervals() -> None:
    part = a_trace(run="1")[1:3]
    assert part["misses"].tolist() == [3, 8]
    assert part.begin_ns.tolist() == [10**9, 2 * 10**9]
    assert part.end_ns.tolist() == [2 * 10**9, 3 * 10**9]
    assert part.overruns.tolist() == [1, 0]
    assert (part.metrics, part.attributes) == (a_trace().metrics, {"run": "1"})
    assert a_trace()[:] == a_trace()
    assert len(a_trace()[9:]) == 0


def test_a_list_of_names_is_a_trace_of_these_metrics() -> None:
    part = a_trace()[["IPC", "misses"]]
    assert list(part) == ["IPC", "misses"]
    assert part["misses"].tolist() == [5, 3, 8, 4]
    assert part.metrics["IPC"].semantics == "gauge"


@pytest.mark.parametrize("key", ["row", ["misses", "row"]])
def test_an_unknown_metric_is_a_key_error_too_and_names_the_nearest(key: str | list[str]) -> None:
    with pytest.raises(KeyError, match=r"no metric 'row'; did you mean rows\?") as raised:
        a_trace()[key]
    assert isinstance(raised.value, DataError)


def test_other_keys_are_refused() -> None:
    with pytest.raises(DataError, match="a slice of intervals, not 3"):
        a_trace()[3]  # type: ignore[call-overload]


def test_equal_traces_hold_the_same() -> None:
    assert a_trace(run="1") == a_trace(run="1")
    assert a_trace(run="1") != a_trace(run="2")
    assert a_trace() != a_trace()[["rows", "misses", "IPC"]]
    assert a_trace() != a_trace()[:3]
    assert a_trace() != "a trace"


def test_numpy_takes_it_as_a_matrix() -> None:
    matrix = np.asarray(a_trace()[["misses", "rows"]])
    assert matrix.tolist() == [[5, 1], [3, 0], [8, 2], [4, 1]]
    assert np.asarray(a_trace(), dtype=np.float32).dtype == np.float32
    assert np.asarray(a_trace()).shape == (4, 3)
    with pytest.raises(ValueError, match="always a copy"):
        np.array(a_trace(), copy=False)


def test_libraries_of_data_frames_take_it() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    trace = a_trace()
    assert pl.DataFrame(trace).equals(trace.to_polars())  # by Arrow's stream
    table = pyarrow.table(trace)
    assert table.column_names == ["begin_ns", "end_ns", "overruns", *trace]
    assert table["misses"].to_pylist() == [5, 3, 8, 4]


def test_a_runs_folder_is_read(tmp_path: Path) -> None:
    a_trace(run="7").write(tmp_path / "trace.parquet")
    assert Trace.read(tmp_path) == a_trace(run="7")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"not a run's folder \(it has no trace.parquet\)"):
        Trace.read(tmp_path / "empty")


def test_it_says_what_it_is() -> None:
    assert repr(a_trace(configuration="ties", run="0007")) == (
        "<Trace of configuration ties, run 0007: 4 intervals in 4.0 s, 3 metrics (1 simulated): misses, rows, IPC>"
    )
    shown = a_trace()._repr_html_()
    assert all(text in shown for text in ("<table", "misses", "simulated", "20"))
    rows = {row[0]: row for row in a_trace().overview().rows}
    assert rows["misses"][3:] == ["20", "3", "4.5", "8"]
    assert rows["IPC"][3:] == ["–", "0.25", "0.5", "1"]
