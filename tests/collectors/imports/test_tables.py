"""Plain CSV and Parquet: a declared mapping of columns, and files that are not what they should be."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.common.distribution import write_distribution
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.imports import read_traces, reading
from unperturbed.errors import DataError

TABLE = """\
# of a logger
when,which,setup,misses,faults,note
0.1,a,old,10,1,x
0.2,a,old,20,2,x
0.1,b,new,30,3,x
0.3,a,old,25,,x
0.2,b,new,40,4,x
0.3,b,new,45,5,x
"""
MAPPING = {"time": "when", "run": "which", "configuration": "setup"}


def write(folder: Path, text: str, name: str = "runs.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_runs_of_one_file(tmp_path: Path) -> None:
    first, second = read_traces(write(tmp_path, TABLE), "csv", **MAPPING)
    assert (first.attributes["run"], first.attributes["configuration"]) == ("a", "old")
    assert (second.attributes["run"], second.attributes["configuration"]) == ("b", "new")
    assert first["misses"].tolist() == [10, 20]
    assert second["misses"].tolist() == [30, 40, 45]
    assert second.end_ns.tolist() == [100_000_000, 200_000_000, 300_000_000]
    assert first.attributes["notes"] == [
        "the import leaves out the non-numeric column note",
        "the import leaves out 1 interval in which faults was missing",
    ]
    assert second.metrics["misses"].kind == "os"


def test_numbers_as_other_tools_write_them(tmp_path: Path) -> None:
    rows = ('0.1,"1,234,567",2 KiB,<not counted>', '0.2,"2,000,000",3 KiB,5', '0.3,"3,000,000",1 MiB,7')
    (trace,) = read_traces(write(tmp_path, "time,ins,mem,misses\n" + "\n".join(rows) + "\n"))
    assert trace["ins"].tolist() == [2_000_000, 3_000_000]
    assert trace["mem"].tolist() == [3072, 1024**2]
    assert trace["misses"].tolist() == [5, 7]
    assert [trace.metrics[name].unit for name in ("ins", "mem", "misses")] == ["events", "B", "events"]
    assert trace.attributes["notes"] == ["the import leaves out 1 interval in which misses was missing"]


@pytest.mark.parametrize(
    ("name", "cells", "ends"),
    [
        ("time", ["400 ms", "800 ms", "1.2 s"], [400_000_000, 800_000_000, 1_200_000_000]),
        ("time", ["0", "400us", "1ms"], [500_000, 900_000, 1_500_000]),
        ("time", ["1 min", "2 min", "1 h"], [1770 * 10**9, 1830 * 10**9, 5310 * 10**9]),
        ("time_ms", ["4 s", "8 s"], [4 * 10**9, 8 * 10**9]),
        ("time", ["1714607990.123456789 s", "1714607990.123456790 s"], [1, 2]),
    ],
)
def test_times_have_the_units_of_their_cells(tmp_path: Path, name: str, cells: list[str], ends: list[int]) -> None:
    (trace,) = read_traces(write(tmp_path, f"{name},x\n" + "".join(f"{cell},1\n" for cell in cells)))
    assert trace.end_ns.tolist() == ends


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (("1", "2 ms"), {}, ":2: column 'time' contains '1', expected a time with a unit, as in other rows"),
        (("1 kg", "2 kg"), {}, ":2: column 'time' contains '1 kg', expected a time with a unit"),
        (("1 s", "2 s"), {"unit": "ms"}, ":2: column 'time' contains '1 s', which has a unit: leave out unit="),
    ],
)
def test_times_without_one_meaning_are_refused(
    tmp_path: Path, cells: tuple[str, str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        read_traces(write(tmp_path, f"time,x\n{cells[0]},1\n{cells[1]},2\n"), "csv", **options)


def test_commas_of_numbers_mean_what_they_mean_in_tables_for_models(tmp_path: Path) -> None:
    (trace,) = read_traces(write(tmp_path, "time;x\n1;1,234\n2;2,345\n"))
    assert trace["x"].tolist() == [1.234, 2.345]
    assert trace.attributes["notes"] == ["x was read with commas as decimal signs"]
    (trace,) = read_traces(write(tmp_path, 'time,x\n1,"9,007,199,254,740,993"\n2,"1,000"\n'))
    assert trace["x"].tolist() == [2**53 + 1, 1000]
    assert not trace.attributes["notes"]
    (trace,) = read_traces(write(tmp_path, "time;x;y\n1;1,234;1,234.5\n2;2,345;2,345.5\n"))
    assert trace["x"].tolist() == [1234, 2345]
    (trace,) = read_traces(write(tmp_path, "time;x;y\n0.5;1,044;7\n1.5;2,345;8\n"))
    assert trace["x"].tolist() == [1044, 2345]
    assert trace.attributes["notes"] == ["x was read with commas between thousands"]


@pytest.mark.parametrize(
    ("name", "unit", "seconds"),
    [
        ("time", "(min)", 60),
        ("time", "(seconds)", 1),
        ("time", "ms", 1e-3),
        ("time", "[µs]", 1e-6),
        ("time", "h", 3600),
        ("time_min", "", 60),
    ],
)
def test_times_have_the_unit_of_the_line_below_the_names(tmp_path: Path, name: str, unit: str, seconds: float) -> None:
    below = f"{unit};(MiB)\n" if unit else ""
    (trace,) = read_traces(write(tmp_path, f"{name};x\n{below}1.5;1\n3;2\n4.5;3\n"), "csv", time=name)
    assert (trace.end_ns - trace.begin_ns).tolist() == [round(1.5e9 * seconds)] * 3
    assert trace.metrics["x"].unit == ("MiB" if unit else "events")


def test_levels_that_are_read_as_counts_are_named(tmp_path: Path) -> None:
    named = write(tmp_path, "time,requests,latency_ms,heap_mb\n1,40,5,300\n2,45,6,310\n")
    (trace,) = read_traces(named)
    assert trace.attributes["notes"] == [
        "latency_ms and heap_mb: read as counts; for levels and rates, import with gauges=NAME,NAME"
    ]
    path = write(tmp_path, "time;load;heat\n1;40 %;51 °C\n2;45 %;52 °C\n")
    (trace,) = read_traces(path)
    said = "load (%) and heat (°C): read as counts; for levels and rates, import with gauges=NAME,NAME"
    assert trace.attributes["notes"] == [said]
    (trace,) = read_traces(path, "csv", values="gauge")
    assert trace.attributes["notes"] == []


def test_some_columns_are_gauges_and_others_counts(tmp_path: Path) -> None:
    path = write(tmp_path, "time,hits,temperature_C,attempts\n1,10,52.5,3\n2,12,53.1,4\n")
    (trace,) = read_traces(path)
    assert trace.attributes["notes"] == [
        "temperature_C: read as counts; for levels and rates, import with gauges=NAME,NAME"
    ]
    (trace,) = read_traces(path, "csv", gauges="temperature_C")
    assert trace.attributes["notes"] == []
    meant = {name: metric.semantics for name, metric in trace.metrics.items()}
    assert meant == {"hits": "counter", "temperature_C": "gauge", "attempts": "counter"}
    with pytest.raises(DataError, match="gauges: no column 'heat'"):
        read_traces(path, "csv", gauges="heat")
    with pytest.raises(DataError, match="gauges with values=cumulative"):
        read_traces(path, "csv", gauges="hits", values="cumulative")


def test_an_unknown_unit_of_times_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gives the times of time in 'MiB': name their unit: unit="):
        read_traces(write(tmp_path, "time;x\n(MiB);(MiB)\n1.5;1\n3;2\n"), "csv")


@pytest.mark.parametrize(
    "dates", [("2024-05-01", "2024-05-03"), ("20240501", "20240503"), ("01.05.2024", "03.05.2024")]
)
def test_dates_in_a_column_of_their_own_are_those_of_the_times(tmp_path: Path, dates: tuple[str, str]) -> None:
    text = f"Date,Time,x\n{dates[0]},23:59:59,1\n{dates[1]},00:00:00,2\n"
    (trace,) = read_traces(write(tmp_path, text))
    assert (trace.end_ns - trace.begin_ns).tolist() == [86_401 * 10**9] * 2
    assert list(trace) == ["x"]
    assert trace.attributes["notes"] == ["the times are those of Time on the dates of Date"]
    with pytest.raises(
        DataError, match=r":2: the columns Date and Time are no date and time together \('Wed 23:59:59'\)"
    ):
        read_traces(write(tmp_path, text.replace(dates[0], "Wed")), "csv")


def test_the_options(tmp_path: Path) -> None:
    path = write(tmp_path, "t_ms;PAPI_TOT_INS;x\n10;100;1,5\n20;150;2,5\n40;250;4,0\n")
    (plain,) = read_traces(path, time="t_ms", kind="hardware")
    assert plain.end_ns.tolist() == [15_000_000, 25_000_000, 45_000_000]
    assert plain["x"].tolist() == [1.5, 2.5, 4.0]
    assert [plain.metrics[name].kind for name in plain] == ["hardware", "hardware"]
    (counter,) = read_traces(path, "csv", time="t_ms", values="cumulative", metrics="PAPI_TOT_INS", unit="us")
    assert counter["PAPI_TOT_INS"].tolist() == [50, 100]
    assert counter.end_ns.tolist() == [10_000, 30_000]
    (gauge,) = read_traces(path, "csv", time="t_ms", values="gauge")
    assert [(gauge.metrics[name].semantics, gauge.metrics[name].unit) for name in gauge] == [("gauge", "1")] * 2


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 10**9)), min_size=3, max_size=30))
def test_against_a_slow_reader(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]]) -> None:
    path = tmp_path_factory.mktemp("table") / "t.csv"
    path.write_text("time,run,x\n" + "".join(f"{at},r{run},{x}\n" for at, (run, x) in enumerate(rows)))
    expected: dict[str, list[int]] = {}
    for run, x in rows:
        expected.setdefault(f"r{run}", []).append(x)
    found = {trace.attributes["run"]: trace["x"].tolist() for trace in read_traces(path)}
    assert found == expected


def test_parquet_of_this_tool_keeps_what_it_knows(tmp_path: Path) -> None:
    metrics = [Metric("x", "simulated", source="callgrind"), Metric("y", "software", unit="calls")]
    end = [10, 20, 30]
    trace = Trace.from_columns(metrics, {"x": [1, 2, 3], "y": [4, 5, 6]}, begin_ns=[0, 10, 20], end_ns=end)
    trace.write(tmp_path / "t.parquet")
    (again,) = read_traces(tmp_path / "t.parquet")
    assert dict(again.metrics) == dict(trace.metrics)
    assert again.end_ns.tolist() == end
    pl.DataFrame({"time": [1.0, 2.0], "x": [1, 2]}).write_parquet(tmp_path / "u.parquet")
    (plain,) = read_traces(tmp_path / "u.parquet", "parquet")
    assert plain.metrics["x"].kind == "os"


BAD = {
    "empty": ("\n", "runs.csv: the file contains only white space"),
    "no heading": ("1,2\n3,4\n", "runs.csv:1: the header consists of numbers"),
    "a heading alone": ("time,x\n", "runs.csv: the table has no rows below the header"),
    "no time": ("a,b\n1,2\n", "runs.csv:1: cannot find the time column"),
    "a name twice": ("time,b,b\n1,2,3\n", "runs.csv:1: two columns are named 'b'"),
    "cut off": ("time,b\n1,2\n2\n", "runs.csv:3: the line has 1 fields, .*: the file is truncated"),
    "decimal commas": ("time,b\n0,1,2\n0,2,3\n", "runs.csv:2: the line has 3 fields, .* decimal commas"),
    "no number": ("time,b\n1,2\n\n# more\n2,x\n", "runs.csv:5: column 'b' contains 'x', expected a number"),
    "no time in a row": ("time,b\n1,2\n,3\n", "runs.csv:3: column 'time' contains nothing, expected a number"),
    "infinite": ("time,b\n1,2\n2,inf\n", "runs.csv:3: column 'b' contains an infinite number"),
    "a time twice": ("time,b\n1,2\n1,2\n", "runs.csv:3: this row has the same time as the previous row of its run"),
    "out of order": ("time,b\n2,2\n1,2\n", "runs.csv:3: this row has an earlier time than the previous row"),
    "no metric": ("time,b\n2,x\n3,y\n", "runs.csv:2: no metrics to import: no column except time contains numbers"),
    "no text": (b"time,b\n1,\xff\n", "runs.csv:2: this line is not valid UTF-8"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_with_their_line(tmp_path: Path, case: str) -> None:
    content, message = BAD[case]
    path = tmp_path / "runs.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=message):
        read_traces(path, "csv")


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-01T23:59:59Z", "2024-05-02T00:00:00Z", "2024-05-02T00:00:02.5Z"],
        ["2024-05-02T01:59:59+02:00", "2024-05-02T02:00:00+02:00", "2024-05-02T02:00:02.5+02:00"],
        ["05/13/24 11:59:59 PM", "05/14/24 12:00:00 AM", "05/14/24 12:00:02.5 AM"],
        ["23:59:59", "00:00:00", "00:00:02.5"],
    ],
)
def test_times_may_be_dates(tmp_path: Path, times: list[str]) -> None:
    text = "timestamp,x\n" + "".join(f"{time},{at}\n" for at, time in enumerate(times, 7))
    (trace,) = read_traces(write(tmp_path, text, "dates.csv"), unit="ms")
    assert trace["x"].tolist() == [7, 8, 9]
    assert (trace.end_ns - trace.begin_ns).tolist()[1:] == [10**9, 25 * 10**8]


def test_parquet_may_have_typed_times(tmp_path: Path) -> None:
    begin = datetime(2024, 5, 1, tzinfo=UTC)
    times = [begin + timedelta(milliseconds=20 * at) for at in range(3)]
    for name, column in (
        ("aware", pl.Series(times)),
        ("naive", pl.Series([time.replace(tzinfo=None) for time in times])),
    ):
        pl.DataFrame({"time": column, "x": [5, 6, 7]}).write_parquet(tmp_path / f"{name}.parquet")
        (trace,) = read_traces(tmp_path / f"{name}.parquet")
        assert (trace.end_ns - trace.begin_ns).tolist() == [20_000_000] * len(trace)


def test_columns_without_a_name(tmp_path: Path) -> None:
    (counted,) = read_traces(write(tmp_path, ",time,x,\n0,1,5,7\n1,2,6,8\n2,3,7,9\n", "counted.csv"))
    assert list(counted) == ["x", "column_4"]
    assert counted.attributes["notes"] == ["the import leaves out column 1, which has no name and counts the rows"]
    (other,) = read_traces(write(tmp_path, ",time,x\n4,1,5\n4,2,6\n5,3,7\n", "other.csv"))
    assert list(other) == ["column_1", "x"]


def test_names_in_a_comment_and_names_again(tmp_path: Path) -> None:
    comment = "# of a logger\n#time,x\n0.1,5\n0.2,6\n0.3,7\n"
    (one,), (two,) = (read_traces(write(tmp_path, text, "log.txt")) for text in (comment, comment.replace(",", "\t")))
    (again,) = read_traces(write(tmp_path, comment.replace("#time", "time").replace("0.2", "time,x\n0.2"), "log.txt"))
    assert one["x"].tolist() == two["x"].tolist() == again["x"].tolist() == [5, 6, 7]
    assert again.attributes["notes"] == ["the import leaves out 1 line with the names again"]
    path = write(tmp_path, "time,x\n0.1,5\ntime,x\n0.2,?!\n", "again.csv")
    with pytest.raises(DataError, match=r"again.csv:4: column 'x' contains '\?!'"):
        read_traces(path)


def test_a_word_in_a_column_that_begins_with_a_number(tmp_path: Path) -> None:
    path = write(tmp_path, "time,seed\n1,5\n2,16a\n3,7\n", "seed.csv")
    with pytest.raises(DataError, match=r"seed.csv:3: column 'seed' contains '16a', expected a number; if .* metrics="):
        read_traces(path)


def test_a_row_without_its_date_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"2024-05-01 00:00:{at:02},{at}\n" for at in range(20))
    path = write(tmp_path, f"time,x\n{rows}soon,3\n", "gap.csv")
    with pytest.raises(DataError, match=r"gap.csv:22: column 'time' contains 'soon', expected a date and time as in"):
        read_traces(path)


def test_bad_parquet_and_bad_names(tmp_path: Path) -> None:
    pl.DataFrame({"time": [1.0, 2.0], "x": [1, 2]}).write_parquet(tmp_path / "u.parquet")
    path = tmp_path / "v.parquet"
    path.write_bytes((tmp_path / "u.parquet").read_bytes()[:-20])
    with pytest.raises(DataError, match=r"v.parquet: not a readable Parquet file: it is truncated"):
        read_traces(path)
    with pytest.raises(DataError, match="no option tim=…; did you mean time"):
        read_traces(tmp_path / "u.parquet", tim="x")
    with pytest.raises(DataError, match="no column 'y'"):
        read_traces(tmp_path / "u.parquet", time="y")
    with pytest.raises(DataError, match="unknown import format 'pref-stat'; did you mean perf-stat"):
        read_traces(tmp_path / "u.parquet", "pref-stat")
    with pytest.raises(DataError, match="no such file"):
        read_traces(tmp_path / "w*.parquet")
    with pytest.raises(DataError, match="given more than once"):
        read_traces([tmp_path / "u.parquet", tmp_path / "u.parquet"])


TOY = """
import numpy as np
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.imports import ImportFormat

def read(content, path, options):
    values = [float(word) for word in content.split()[1:]]
    ends = np.arange(1, len(values) + 1) * 1000
    return [Trace.from_columns([Metric("toy", "os")], {"toy": values}, begin_ns=ends - 1000, end_ns=ends)]

FORMAT = ImportFormat("toy", "a toy", (".toy",), lambda head: head.startswith(b"TOY"), read)
"""


def test_a_format_of_another_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_distribution(tmp_path, "unperturbed.imports", TOY, toy="FORMAT")
    monkeypatch.syspath_prepend(str(tmp_path))
    reading.formats_and_faults.cache_clear()
    try:
        (trace,) = read_traces(write(tmp_path, "TOY 1 2 3", "a.toy"))
        assert trace["toy"].tolist() == [1, 2, 3]
        assert trace.attributes["imported"] == "a toy"
    finally:
        reading.formats_and_faults.cache_clear()


LONG = """
import numpy as np
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.imports import ImportFormat

def read(content, path, options):
    rows = [line.split(";") for line in content.decode().splitlines()[1:]]
    names = list(dict.fromkeys(name for _, name, _ in rows))
    columns = {name: [int(value) for _, other, value in rows if other == name] for name in names}
    ends = np.array(sorted({int(t) for t, _, _ in rows})) * 1_000_000_000
    metrics = [Metric(name, "os") for name in names]
    return [Trace.from_columns(metrics, columns, begin_ns=ends - 1_000_000_000, end_ns=ends)]

FORMAT = ImportFormat("long", "a long-form table", (".txt",), lambda head: head.startswith(b"t;metric;value"), read)
"""
LONG_FORM = "t;metric;value\n1;misses;10\n1;faults;2\n2;misses;20\n2;faults;4\n"


def test_a_format_of_another_distribution_is_asked_before_tables_and_named_if_they_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`csv` recognises any table with a header."""
    path = write(tmp_path, LONG_FORM)
    said = r"runs.csv:3: .*; the file is probably a long-form table: use the format long$"
    assert reading.import_formats()["csv"].recognise(LONG_FORM.encode())
    write_distribution(tmp_path, "unperturbed.imports", LONG, long="FORMAT")
    monkeypatch.syspath_prepend(str(tmp_path))
    reading.formats_and_faults.cache_clear()
    try:
        (trace,) = read_traces(path)
        with pytest.raises(DataError, match=said):
            read_traces(path, "csv")
        with pytest.raises(DataError, match=r"column 'z'; [^;]*$"):
            read_traces(write(tmp_path, TABLE, "table.csv"), "csv", time="z")
    finally:
        reading.formats_and_faults.cache_clear()
    assert trace.attributes["imported"] == "a long-form table"
    assert {name: trace[name].tolist() for name in trace} == {"misses": [10, 20], "faults": [2, 4]}


STEPS = [50, 149, 83, 97, 131, 60, 150, 75]
BIG = [2**60 + 129 + sum(STEPS[:at]) for at in range(len(STEPS) + 1)]


@pytest.mark.parametrize("first", [0, 2**53 - 200, 2**60 + 129, 2**63 - 300, 2**64 - 1000, -400])
@pytest.mark.parametrize("parquet", [False, True])
def test_cumulative_counters_keep_all_digits(tmp_path: Path, first: int, *, parquet: bool) -> None:
    values = [first + sum(STEPS[:at]) for at in range(len(STEPS) + 1)]
    times = list(range(1_700_000_000_000_000_001, 1_700_000_000_000_000_001 + len(values)))
    path = tmp_path / "t.csv"
    if parquet:
        path = tmp_path / "t.parquet"
        whole = pl.UInt64 if max(values) >= 2**63 else pl.Int64
        pl.DataFrame({"time_ns": times, "x": pl.Series(values, dtype=whole)}).write_parquet(path)
    else:
        path.write_text("time_ns,x\n" + "".join(f"{at},{x}\n" for at, x in zip(times, values, strict=True)))
    (trace,) = read_traces(path, values="cumulative")
    assert trace["x"].tolist() == STEPS
    assert trace.end_ns.tolist() == list(range(1, len(values)))  # ns since 1970 as well
    assert trace.attributes["notes"] == []


@pytest.mark.parametrize("bits", [32, 40, 48, 64])
def test_wrapped_counters_are_recognised_and_told(tmp_path: Path, bits: int) -> None:
    values = [(2**bits - 300 + sum(STEPS[:at])) % 2**bits for at in range(len(STEPS) + 1)]
    rows = "".join(f"{at},{x},{at}\n" for at, x in enumerate(values))
    (trace,) = read_traces(write(tmp_path, "time,x,y\n" + rows), values="cumulative")
    assert trace["x"].tolist() == STEPS
    said = f"x wrapped around 1 time: as a counter of {bits} bits, it began again at 0"
    assert trace.attributes["notes"] == [said]


def test_signed_counters_wrap_around(tmp_path: Path) -> None:
    values = [(2**63 - 300 + sum(STEPS[:at]) + 2**63) % 2**64 - 2**63 for at in range(len(STEPS) + 1)]
    assert min(values) < 0 < max(values)
    rows = "".join(f"{at},{x}\n" for at, x in enumerate(values))
    (trace,) = read_traces(write(tmp_path, "time,x\n" + rows), values="cumulative")
    assert trace["x"].tolist() == STEPS


def test_a_counter_that_was_reset_or_rounded_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"{at},{x}\n" for at, x in enumerate([100, 250, 300, 20, 80]))
    with pytest.raises(DataError, match=r"runs.csv:5: x decreases, but cumulative counters never do"):
        read_traces(write(tmp_path, "time,x\n" + rows), values="cumulative")
    rows = "".join(f"{at},{float(x)!r}\n" for at, x in enumerate(BIG))
    with pytest.raises(DataError, match=r"x has values above 2\^53 that are not written as whole numbers"):
        read_traces(write(tmp_path, "time,x\n" + rows), values="cumulative")


def test_missing_values_leave_the_digits_of_others(tmp_path: Path) -> None:
    rows = "".join(f"{at},{'' if at == 3 else x}\n" for at, x in enumerate(BIG))
    (trace,) = read_traces(write(tmp_path, "time,x\n" + rows), values="cumulative")
    assert trace["x"].tolist() == STEPS[:2] + STEPS[4:]
    (trace,) = read_traces(write(tmp_path, "time,x\n" + rows))
    assert trace["x"].tolist() == BIG[:3] + BIG[4:]


def test_decimal_seconds_since_1970_keep_nanoseconds(tmp_path: Path) -> None:
    ends = [1_700_000_000_123_456_789 + 1001 * at for at in range(4)]
    rows = "".join(f"{end // 10**9}.{end % 10**9:09d}4,{at}\n" for at, end in enumerate(ends))
    (trace,) = read_traces(write(tmp_path, "time,x\n" + rows))
    assert (trace.end_ns - trace.begin_ns).tolist() == [1001] * 4
    rows = "".join(f"{end // 10**3}.{end % 10**3:03d}6,{at}\n" for at, end in enumerate(ends))
    (trace,) = read_traces(write(tmp_path, "time_us,x\n" + rows))
    assert (trace.end_ns - trace.begin_ns).tolist() == [1001] * 4


def test_numbers_beyond_int64_in_a_trace_are_refused() -> None:
    with pytest.raises(DataError, match="does not fit int64"):
        Trace.from_columns([Metric("x", "os")], {"x": np.array([2**63], np.uint64)}, begin_ns=[0], end_ns=[1])


def test_many_metrics_that_are_left_out_are_one_note(tmp_path: Path) -> None:
    names = [f"d{at}" for at in range(20)]
    rows = [",".join(("1" if at < 2 or number == 9 else "") for number in range(20)) for at in range(6)]
    text = "time," + ",".join(names) + "\n" + "".join(f"{at},{row}\n" for at, row in enumerate(rows))
    (trace,) = read_traces(write(tmp_path, text))
    assert list(trace) == ["d9"]
    (note,) = trace.attributes["notes"]
    assert note.startswith("the import leaves out d0, d1, d2")
    assert note.endswith("each of which was missing in more than half of the intervals")
