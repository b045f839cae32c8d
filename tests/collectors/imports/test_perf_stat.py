"""`perf stat -I`: real recordings, and rows by perf-stat(1) against a reader that is slow and obvious."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collectors.imports.recorder import record
from unperturbed.analysis.totals.verdict import total_of
from unperturbed.collectors.imports import find_format, read_perf_stat, read_traces
from unperturbed.errors import DataError


def naive(text: str, separator: str, *, place: bool) -> dict[float, dict[str, float]]:
    """Read CSV rows one by one: time to event to count, of those that were counted."""
    found: dict[float, dict[str, float]] = defaultdict(dict)
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split(separator)]
        time, value, event = fields[0], fields[1 + place], fields[3 + place]
        if separator == ";":
            time, value = time.replace(",", "."), value.replace(",", ".")
        counts = found[float(time)]
        if not value.startswith("<"):
            counts[event] = counts.get(event, 0.0) + float(value)
    return found


@pytest.mark.parametrize("options", [("-x,",), ("-x;",), ("-j",), ("-x,", "-a", "-A"), ("-j", "-a", "--per-core")])
def test_real_recordings(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = record(tmp_path / "run.csv", *options)
    (trace,) = read_perf_stat(path)
    assert set(trace.metrics) == {"task-clock", "page-faults", "context-switches"}
    assert {metric.kind for metric in trace.metrics.values()} == {"os"}
    assert (trace.metrics["task-clock"].unit, trace.metrics["page-faults"].unit) == ("ms", "events")
    assert trace.attributes["imported"] == "perf stat -I output"
    assert trace.attributes["started"].startswith("20")
    if options == ("-x,",):
        rows = naive(path.read_text(), ",", place=False)
        kept = [counts for counts in rows.values() if len(counts) == 3][: len(trace)]
        for name in trace.metrics:
            assert trace[name].tolist() == [counts[name] for counts in kept]
    assert np.median(trace.end_ns - trace.begin_ns) > 5_000_000
    times = re.findall(r'^\s*(?:\{"interval" : )?(\d+[.,]\d+)', path.read_text(), re.MULTILINE)
    written = {round(float(time.replace(",", ".")) * 1e9) for time in times}
    assert set(trace.end_ns.tolist()) <= written
    assert len(trace) >= 5


def test_two_recordings_appended_to_one_file(tmp_path: Path) -> None:
    path = record(tmp_path / "run.csv", "-x,", phases=6)
    record(path, "-x,", "--append", "--summary", phases=6)
    first, second = read_perf_stat(path)
    assert (first.attributes["run"], second.attributes["run"]) == ("run #1", "run #2")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_against_the_slow_reader(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    place, comma = data.draw(st.booleans()), data.draw(st.booleans())
    events = data.draw(
        st.lists(st.sampled_from(["cycles", "instructions:u", "page-faults", "sched:x"]), min_size=1, unique=True)
    )
    places = [f"CPU{at}" for at in range(data.draw(st.integers(1, 3)))] if place else [""]
    separator, decimal = (";", ",") if comma else (",", ".")
    lines = ["# started on Mon Nov 23 21:23:49 2026", ""]
    value = st.one_of(
        st.integers(0, 10**12).map(str), st.floats(0, 1e6).map(lambda x: f"{x:.2f}"), st.just("<not counted>")
    )
    for interval in range(data.draw(st.integers(3, 12))):
        for event in events:
            for where in places:
                time = f"{(interval + 1) * 0.02:.9f}".replace(".", decimal)
                count = data.draw(value).replace(".", decimal)
                middle = [where] if place else []
                lines.append(
                    "     " + separator.join([time, *middle, count, "", event, "20000000", f"100{decimal}00", "", ""])
                )
    path = tmp_path_factory.mktemp("perf") / "run.csv"
    text = "\n".join(lines) + "\n"
    path.write_text(text)
    rows = naive(text, separator, place=place)
    ever = {event for counts in rows.values() for event in counts}
    try:
        (trace,) = read_perf_stat(path)
    except DataError:
        assert not ever or not any(len(counts) == len(ever) for counts in rows.values())
        return
    ends = [round(time * 1e9) for time in rows]
    assert set(trace.metrics) <= ever
    for name in trace.metrics:
        wanted = [
            rows[time].get(name) for time, end in zip(rows, ends, strict=True) if end in set(trace.end_ns.tolist())
        ]
        assert trace[name].tolist() == pytest.approx(wanted)
    lacking = [end for time, end in zip(rows, ends, strict=True) if set(trace.metrics) - set(rows[time])]
    assert sorted(set(ends) - set(lacking)) == trace.end_ns.tolist()


GOOD = """\
# started on Mon Nov 23 21:23:49 2026

     0.020000000,18.05,msec,task-clock,18045738,100.00,0.902,CPUs utilized
     0.020000000,1000,,cycles,9000000,50.00,,
     0.040000000,19.00,msec,task-clock,19000000,100.00,0.902,CPUs utilized
     0.040000000,<not counted>,,cycles,0,100.00,,
     0.060000000,20.00,msec,task-clock,20000000,100.00,0.902,CPUs utilized
     0.060000000,3000,,cycles,20000000,100.00,,
     0.080000000,20.00,msec,task-clock,20000000,100.00,0.902,CPUs utilized
     0.080000000,4000,,cycles,20000000,100.00,,
     0.085000000,2.00,msec,task-clock,2000000,100.00,0.902,CPUs utilized
     0.085000000,400,,cycles,2000000,100.00,,
"""


def test_what_is_left_out_and_scaled_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(GOOD)
    (trace,) = read_perf_stat(path)
    assert trace["cycles"].tolist() == [1000, 3000, 4000]
    assert trace.end_ns.tolist() == [20_000_000, 60_000_000, 80_000_000]
    assert trace.attributes["notes"] == [
        "the import leaves out 1 interval in which cycles was not counted",
        "the import leaves out the last interval, which is 0.0050 s long instead of 0.020 s, but totals contain it",
    ]
    assert trace.metrics["cycles"].scaled
    assert trace.metrics["cycles"].kind == "hardware"
    assert trace["cycles.enabled_ns"].tolist() == [18_000_000, 20_000_000, 20_000_000]
    assert trace["cycles.running_ns"].tolist() == [9_000_000, 20_000_000, 20_000_000]
    assert trace.attributes["after_last"]["ns"] == 5_000_000
    assert total_of(trace, "cycles") == 1000 + 3000 + 4000 + 400


def lines_of(*numbers: int) -> str:
    lines = GOOD.splitlines(keepends=True)
    return "".join(lines[number - 1] for number in numbers)


def test_a_last_interval_without_all_rows_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text(lines_of(1, 2, 3, 4, 5, 6, 7))
    (trace,) = read_traces(tmp_path / "run.csv", "perf-stat")
    (tmp_path / "whole.csv").write_text(lines_of(1, 2, 3, 4, 5, 6))
    (whole,) = read_traces(tmp_path / "whole.csv", "perf-stat")
    assert trace["cycles"].tolist() == whole["cycles"].tolist()
    assert trace.end_ns.tolist() == whole.end_ns.tolist()
    assert any("last interval, in which rows are missing" in note for note in trace.attributes["notes"])


def test_threads_without_a_row_counted_nothing(tmp_path: Path) -> None:
    rows = [
        f"{at / 100:.9f},{place},{count},,{event},{count},100.00,,"
        for at in range(1, 41)
        for place in ("sort-7", "read-8")
        for event, count in (("cycles", 100 + at), ("faults", 3))
        if event == "cycles" or at % 4 == 0  # as perf leaves out zeros
    ]
    (tmp_path / "run.csv").write_text("\n".join([*rows, ""]))
    (trace,) = read_traces(tmp_path / "run.csv", "perf-stat")
    assert trace["cycles"].tolist() == [2 * (100 + at) for at in range(1, 41)]
    assert trace["faults"].tolist() == [0 if at % 4 else 6 for at in range(1, 41)]


def test_processors_without_a_row_in_the_last_interval(tmp_path: Path) -> None:
    rows = [
        f"{at / 100:.9f},CPU{cpu},{100 + at},,{event},10000000,100.00,,"
        for at in range(1, 41)
        for event in ("cycles", "faults")
        for cpu in range(2)
    ]
    (tmp_path / "run.csv").write_text("\n".join([*rows[:-1], ""]))
    (trace,) = read_traces(tmp_path / "run.csv", "perf-stat")
    assert trace["faults"].tolist() == [2 * (100 + at) for at in range(1, 40)]
    assert any("last interval, in which rows are missing" in note for note in trace.attributes["notes"])


BAD = {
    "empty": ("", "run.csv: the file is empty"),
    "heading alone": (lines_of(1, 2), "run.csv:1: no rows below perf's header"),
    "cut off in a row": (GOOD[:-30], "run.csv:12: the last row is truncated"),
    "a row missing": (lines_of(1, 2, 3, 5, 6), "run.csv:3: cycles has no row in this interval$"),
    "out of order": (lines_of(1, 2, 5, 6, 3, 4), "run.csv:5: this row is earlier than the previous row"),
    "a row twice": (lines_of(1, 2, 3, 4, 4, 5, 6), "run.csv:5: cycles appears twice for this interval"),
    "decimal commas": (GOOD.replace("0.0", "0,0"), "run.csv:3: ambiguous row: commas .* LC_ALL=C"),
    "no intervals": (
        "18.05,msec,task-clock,18045738,100.00,,\n",
        "run.csv:1: .* begin with a time: record with intervals",
    ),
    "no number": (
        GOOD.replace("3000", "x3"),
        "run.csv:8: not a row of perf stat: a column is missing or is not a number",
    ),
    "a separator in a name": (
        GOOD.replace(",cycles,", ",cycles,x/2,"),
        "run.csv:4: unexpected columns after the event: if the event's name contains the separator",
    ),
    "a table": (
        "time,a\n1,2\n2,3\n",
        r"run.csv:1: this is a table \(CSV\), not perf stat -I output; use the format csv",
    ),
    "a database": ("SQLite format 3\0", "run.csv:1: this is an SQLite database"),
    "JSON cut off": (
        '{"interval" : 0.02, "counter-value" : "1", "eve',
        "run.csv:1: truncated or damaged JSON",
    ),
    "JSON without end": (
        '{"interval" : 0.02, "counter-value" : ' + "[" * 100_000,
        "run.csv:1: truncated or damaged JSON",
    ),
    "a letter between columns": ("     0.040000001e40028\n", "run.csv:1: not a row of perf stat"),
    "JSON with commas": ('{"interval" : 0,020000000, "counter-value" : "1,5"}\n', "run.csv:1: JSON .* decimal commas"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_with_their_line(tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    path = tmp_path / "run.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_perf_stat(path)


def test_decimal_commas_between_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(GOOD.replace(",", ";").replace(".", ","))
    (trace,) = read_perf_stat(path)
    assert trace["task-clock"].tolist() == [18.05, 20.0, 20.0]


def test_it_is_recognised() -> None:
    assert find_format("perf-stat").recognise(GOOD.encode())
    assert not find_format("csv").recognise(GOOD.encode())


def write(folder: Path, text: str) -> Path:
    path = folder / "run.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("metric", [",,", ",0.50,insn per cycle", ",106.583,K/sec"])
def test_commas_in_names_of_events(tmp_path: Path, first: int, separator: str, metric: str) -> None:
    names = ["cpu/event=0x3c,umask=0x00,cmask=1/u", "task-clock", "msr/tsc/", "software/config=2,config1=0/"]
    names = [*names[first:], *names[:first]]
    mark = "@" if separator == ";" else ","
    rows = (
        f"{at * 0.02:.9f}@{at + 10 * number}@@{name}@20000000@100.00" + metric.replace(",", mark)
        for at in range(1, 9)
        for number, name in enumerate(names)
    )
    text = "".join(row.replace("@", separator) + "\n" for row in rows)
    (trace,) = read_traces(write(tmp_path, text), "perf-stat")
    expected = {name: [at + 10 * number for at in range(1, 9)] for number, name in enumerate(names)}
    assert {name: trace[name].tolist() for name in trace} == expected


def test_rows_of_old_versions(tmp_path: Path) -> None:
    rows = "".join(
        f"     {at * 0.02:.9f},S{socket},4,{at + socket},,cycles,20000000,100.00,0.5,GHz\n"
        f"     {at * 0.02:.9f},{',' * socket}S{socket},4,,,,,,,2.00,stalled cycles per insn\n"
        for at in range(1, 9)
        for socket in range(2)
    )
    (trace,) = read_traces(write(tmp_path, rows), "perf-stat")
    assert trace["cycles"].tolist() == [2 * at + 1 for at in range(1, 9)]
    totals = (
        "  8013.48,msec,cpu-clock,8013483384,100.00,7.984,CPUs utilized\n  270,,cycles,8013513297,100.00,0.034,GHz\n"
    )
    rows = "".join(f"     {at * 0.02:.9f},{at},,cycles,20000000,100.00,0.5,GHz\n" for at in range(1, 9))
    (trace,) = read_traces(write(tmp_path, rows + totals), "perf-stat")
    assert trace["cycles"].tolist() == list(range(1, 9))


CGROUPS = "".join(
    f"     {at * 0.02:.9f};{at + 10 * len(group)};;page-faults;{group};20000000;100.00;;\n"
    for at in range(1, 9)
    for group in ("/", "/user")
)


def test_counts_of_cgroups_are_apart(tmp_path: Path) -> None:
    """`perf stat -G` names the cgroup in a column of its own, or a key."""
    (trace,) = read_traces(write(tmp_path, CGROUPS))
    assert {name: trace[name].tolist() for name in trace} == {
        "page-faults /": list(range(11, 19)),
        "page-faults /user": list(range(51, 59)),
    }
    first, second = trace.metrics.values()
    assert first.kind == second.kind == "os"
    assert not set(first.components) & set(second.components)
    (alone,) = read_traces(write(tmp_path, "".join(CGROUPS.splitlines(keepends=True)[::2])))
    assert alone["page-faults"].tolist() == list(range(11, 19))
    rows = [line.strip().split(";") for line in CGROUPS.splitlines()]
    text = "".join(
        f'{{"interval" : {row[0]}, "counter-value" : "{row[1]}.000000", "unit" : "", "event" : "page-faults", '
        f'"cgroup" : "{row[4]}", "event-runtime" : 20000000, "pcnt-running" : 100.00}}\n'
        for row in rows
    )
    (again,) = read_traces(write(tmp_path, text))
    assert {name: again[name].tolist() for name in again} == {name: trace[name].tolist() for name in trace}


@pytest.mark.parametrize("end", [", }", "},", ",},"])
def test_commas_that_json_does_not_allow(tmp_path: Path, end: str) -> None:
    """Some versions of perf write one behind the last key, or behind the row."""
    row = '{{"interval" : {:.9f}, "counter-value" : "{}.000000", "unit" : "", "event" : "cycles", '
    row += '"event-runtime" : 20000000, "pcnt-running" : 100.00'
    text = "".join(row.format(at * 0.02, at) + end + "\n" for at in range(1, 9))
    (trace,) = read_traces(write(tmp_path, text))
    assert trace["cycles"].tolist() == list(range(1, 9))


@pytest.mark.parametrize("name", ["perf-stat", None])
def test_totals_are_refused_with_what_to_record(tmp_path: Path, name: str | None) -> None:
    path = write(tmp_path, "\n Performance counter stats for './a':\n\n      23.56 msec task-clock\n")
    message = r"run.csv:2: these are totals of a whole run: record with intervals \(perf stat -I 20 -x, …\)"
    with pytest.raises(DataError, match=message):
        read_traces(path, name)


def test_counts_keep_all_digits(tmp_path: Path) -> None:
    big = [2**60 + 129 + at for at in range(8)]
    text = "".join(f"     {0.02 * at + 0.02:.9f},{big[at]},,cycles,20000000,100.00,,\n" for at in range(8))
    (trace,) = read_traces(write(tmp_path, text))
    assert trace["cycles"].tolist() == big
