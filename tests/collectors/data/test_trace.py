"""The trace: what is written is read again, and what does not fit is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.collectors import Metric, Trace
from unperturbed.errors import DataError


def _trace(values: list[int], ratios: list[float]) -> Trace:
    bounds = np.arange(len(values) + 1, dtype=np.int64) * 1_000_000
    return Trace.from_columns(
        [
            Metric("PAPI_TOT_INS", "simulated", source="callgrind", components=("callgrind:Ir",)),
            Metric("IPC", "derived", unit=""),
        ],
        {"PAPI_TOT_INS": values, "IPC": ratios},
        begin_ns=bounds[:-1],
        end_ns=bounds[1:],
        attributes={"run": "0001", "pad": 17},
    )


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)), min_size=1, max_size=50))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, float]]) -> None:
    trace = _trace([value for value, _ in rows], [ratio for _, ratio in rows])
    path = tmp_path_factory.mktemp("trace") / "trace.parquet"
    trace.write(path)
    again = Trace.read(path)
    assert dict(again.metrics) == dict(trace.metrics)
    assert again["PAPI_TOT_INS"].dtype == np.int64
    np.testing.assert_array_equal(again["PAPI_TOT_INS"], trace["PAPI_TOT_INS"])
    np.testing.assert_array_equal(again["IPC"], trace["IPC"])
    np.testing.assert_array_equal(again.end_ns, trace.end_ns)
    assert dict(again.attributes) == {"run": "0001", "pad": 17}


def test_polars_frame_has_bounds_then_metrics() -> None:
    frame = _trace([1, 2], [0.5, 0.25]).to_polars()
    assert frame.columns == ["begin_ns", "end_ns", "overruns", "PAPI_TOT_INS", "IPC"]
    assert frame["PAPI_TOT_INS"].to_list() == [1, 2]


def test_values_and_names_select() -> None:
    trace = _trace([1, 2], [0.5, 0.25])
    assert trace.names("simulated") == ("PAPI_TOT_INS",)
    assert trace.names() == ("PAPI_TOT_INS", "IPC")
    np.testing.assert_array_equal(trace.values(["IPC", "PAPI_TOT_INS"]), [[0.5, 1], [0.25, 2]])


def test_nothing_appears_when_writing_fails(tmp_path: Path) -> None:
    trace = Trace.from_columns([Metric("m", "os")], {"m": [1]}, begin_ns=[0], end_ns=[1], attributes={"bad": object()})
    with pytest.raises(TypeError):
        trace.write(tmp_path / "trace.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {}}, "metric 'm' has no column: give its values in `columns`"),
        (
            {"columns": {"m": [1]}},
            r"column of metric 'm' has shape \(1,\), expected \(2,\): give one value for every interval",
        ),
        ({"end_ns": [1]}, "2 begin times, 1 end time and 2 overrun values: give one of each for every interval"),
        ({"begin_ns": [0, 5], "end_ns": [1, 4]}, r"interval 1 \(counted from 0\) ends before it begins"),
        (
            {"metrics": [Metric("m", "os"), Metric("m", "software")]},
            r"same name \(m\): give each metric a different name",
        ),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], message: str) -> None:
    arguments = {
        "metrics": [Metric("m", "os")],
        "columns": {"m": [1, 2]},
        "begin_ns": [0, 1],
        "end_ns": [1, 2],
    } | change
    with pytest.raises(DataError, match=message):
        Trace.from_columns(arguments.pop("metrics"), arguments.pop("columns"), **arguments)  # type: ignore[arg-type]


def test_reserved_names_and_kinds() -> None:
    with pytest.raises(DataError, match="every trace has a column with this name"):
        Metric("end_ns", "os")
    with pytest.raises(DataError, match="`kind` is 'magic', which is not one of hardware"):
        Metric("m", "magic")  # type: ignore[arg-type]


def test_reading_what_is_no_trace(tmp_path: Path) -> None:
    import polars as pl

    with pytest.raises(DataError, match="no such trace file"):
        Trace.read(tmp_path / "missing.parquet")
    (tmp_path / "text.parquet").write_text("not parquet")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        Trace.read(tmp_path / "text.parquet")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(DataError, match="not a trace file that unperturbed wrote"):
        Trace.read(tmp_path / "other.parquet")


def test_unknown_metric_names_those_there_are() -> None:
    with pytest.raises(DataError, match="the trace has PAPI_TOT_INS and IPC"):
        _trace([1], [1.0])["PAPI_L1_DCM"]
