"""Tables of monitors, by the recipes of this tool and by those of users."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.imports import monitor_tables as tables
from unperturbed.collectors.data import Trace
from unperturbed.collectors.imports import find_format, import_formats, read_traces, reading
from unperturbed.collectors.imports.recipe import own_recipes
from unperturbed.errors import DataError


def write(folder: Path, text: str, name: str = "run.txt") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def read(folder: Path, text: str, **options: str) -> Trace:
    (trace,) = read_traces(write(folder, text), **options)
    return trace


def described(trace: Trace, name: str) -> tuple[str, str, str]:
    metric = trace.metrics[name]
    return metric.unit, metric.semantics, metric.kind


def seconds(trace: Trace) -> list[float]:
    return (trace.end_ns[:3] / 1e9).tolist()


@pytest.mark.parametrize("name", [path.stem for path in own_recipes()])
def test_each_recipe_has_a_table_that_it_alone_recognises(name: str, tmp_path: Path) -> None:
    head = tables.MONITORS[name].encode()
    assert [one.name for one in import_formats().values() if one.recognise(head) and not one.general] == [name]
    trace = read(tmp_path, tables.MONITORS[name])
    assert trace.attributes["imported"] == import_formats()[name].title
    (tmp_path / "run.txt").write_bytes(gzip.compress(head))
    (again,) = read_traces(tmp_path / "run.txt", name)
    assert again.columns.keys() == trace.columns.keys()


def test_pcm(tmp_path: Path) -> None:
    trace = read(tmp_path, tables.PCM)
    assert list(trace.metrics) == [
        *("System IPC", "System INST", "Socket 0 L3MISS", "Socket 0 READ", "Proc Energy (Joules) SKT0"),
    ]
    assert described(trace, "System INST") == ("million instructions", "counter", "hardware")
    assert described(trace, "System IPC") == ("1", "gauge", "hardware")
    assert trace["System INST"][:3].tolist() == [7, 8, 11]
    assert seconds(trace) == [1, 2, 3]
    assert trace.attributes["started"].startswith("2024-05-01T23:59:00")
    assert trace.attributes["notes"] == ["the import leaves out Socket 0 TEMP, without numbers"]
    old = read(tmp_path, tables.PCM.replace(",", ";").replace("System;System;System;System", "System;;;", 1))
    assert (next(iter(old.metrics)), len(old.metrics)) == ("System IPC", 5)


def test_pcm_memory(tmp_path: Path) -> None:
    trace = read(tmp_path, tables.PCM_MEMORY)
    assert list(trace.metrics) == ["SKT0 Ch0Read", "SKT0 Mem Read", "System Read", "System Memory"]
    assert {described(trace, name) for name in trace} == {("MB/s", "gauge", "hardware")}


def test_dstat_leaves_out_the_row_since_the_start_of_the_host(tmp_path: Path) -> None:
    trace = read(tmp_path, tables.DSTAT)
    assert trace["total cpu usage usr"][:3].tolist() == [0.5, 1.5, 2.5]
    assert described(trace, "dsk/total read") == ("B/s", "gauge", "os")
    assert described(trace, "memory usage used") == ("B", "gauge", "os")
    assert trace["memory usage used"][0] == 205011812352
    assert (len(trace), seconds(trace)) == (tables.ROWS, [1, 2, 3])


def test_dstat_without_a_year_and_without_a_time(tmp_path: Path) -> None:
    rows = "".join(f"{day} 23:59:5{at},{at}.0\n" for day, at in (("31-12", 7), ("31-12", 8), ("31-12", 9)))
    text = f'"Dstat 0.7.2 CSV output"\n"system","procs"\n"time","run"\n{rows}01-01 00:00:00,4.0\n'
    assert seconds(read(tmp_path, text)) == [1, 2, 3]
    timeless = '"Dstat 0.7.2 CSV output"\n"procs",,\n"run","blk","new"\n1,2,3\n4,5,6\n7,8,9\n'
    with pytest.raises(DataError, match=r"run.txt:4: no column has the time .* interval=MS \(dstat -T writes"):
        read(tmp_path, timeless)
    trace = read(tmp_path, timeless, interval="500")
    assert (trace["procs new"].tolist(), trace.end_ns.tolist()) == ([6, 9], [500_000_000, 1_000_000_000])


def test_dstat_appends_to_a_file(tmp_path: Path) -> None:
    first, second = read_traces(write(tmp_path, tables.DSTAT + tables.DSTAT.replace("16232651", "16232652")))
    assert (first.attributes["run"], second.attributes["run"]) == ("run #1", "run #2")
    assert first["dsk/total read"].tolist() == second["dsk/total read"].tolist()
    assert first.attributes["started"] < second.attributes["started"]
    with pytest.raises(DataError, match=r"run.txt:28: the line has 8 fields"):
        read_traces(write(tmp_path, tables.DSTAT + tables.DSTAT.replace(",0.1,", ",", 1)))


def test_sadf_has_a_series_for_each_device_and_activities_of_one_time_together(tmp_path: Path) -> None:
    trace = read(tmp_path, tables.SADF)
    assert list(trace.metrics) == [
        *("%user CPU all", "%idle CPU all", "%user CPU 0", "%idle CPU 0", "pgpgin/s", "kbmemfree"),
    ]
    assert trace["%user CPU 0"][:2].tolist() == [80, 81]
    assert described(trace, "pgpgin/s") == ("1/s", "gauge", "os")
    assert described(trace, "kbmemfree") == ("kB", "gauge", "os")
    assert trace.attributes["notes"] == [
        "the import leaves out the rows below line 27, which have no fixed columns",
        "the import leaves out 1 line that the recipe skips (first: line 26)",
    ]
    assert list(read(tmp_path, tables.SADF, devices="all").metrics)[:2] == ["%user CPU all", "%idle CPU all"]
    with pytest.raises(DataError, match=r"run.txt:2: devices=7: the devices are CPU all"):
        read(tmp_path, tables.SADF, devices="7")


def test_sadf_writes_times_of_the_host_with_the_name_of_their_zone(tmp_path: Path) -> None:
    local, utc = read(tmp_path, tables.SADF.replace("UTC", "CEST")), read(tmp_path, tables.SADF)
    assert seconds(local) == seconds(utc)
    assert ("started" in local.attributes, "started" in utc.attributes) == (False, True)


def test_sadf_with_devices_in_one_row_is_the_same(tmp_path: Path) -> None:
    wide, long = read(tmp_path, tables.SADF_H), read(tmp_path, tables.SADF)
    assert list(wide.metrics) == ["%user CPU all", "%idle CPU all", "%user CPU 0", "%idle CPU 0", "kbmemfree"]
    assert all(wide[name].tolist() == long[name].tolist() for name in wide)
    with pytest.raises(DataError, match=r"run.txt:2: the line has 11 fields, .* not a whole number of devices"):
        read(tmp_path, tables.SADF_H.replace(";130", ";1;130"))
    with pytest.raises(DataError, match=r"run.txt:1: 2 groups of columns repeated .* record without -h"):
        read(tmp_path, tables.SADF_H.replace("free\n", "free;DEV;tps[...]\n", 1))


def test_collectl(tmp_path: Path) -> None:
    trace = read(tmp_path, tables.COLLECTL)
    assert described(trace, "[MEM]Free") == ("KiB", "gauge", "os")
    assert described(trace, "[DSK]ReadKBTot") == ("KiB/s", "gauge", "os")
    assert described(trace, "[CPU]User%") == ("%", "gauge", "os")
    coarse = tables.COLLECTL.replace("03:56:03", "03:56:02")
    with pytest.raises(DataError, match=r"run.txt:8: this row has the same time .* interval=MS \(collectl -om"):
        read(tmp_path, coarse)
    assert seconds(read(tmp_path, coarse, interval="100")) == [0.1, 0.2, 0.3]


def test_nvidia_smi(tmp_path: Path) -> None:
    trace = read(tmp_path, tables.NVIDIA)
    assert "power.draw GPU 0" in trace
    assert "power.draw GPU 1" not in trace
    assert trace["memory.used GPU 1"][:3].tolist() == [17, 18, 111]
    assert described(trace, "memory.used GPU 1") == ("MiB", "gauge", "hardware")
    assert described(trace, "temperature.gpu GPU 0") == ("C", "gauge", "hardware")
    assert (len(trace), seconds(trace)) == (tables.ROWS, [1, 2, 3])
    bare = tables.NVIDIA.replace(" MiB,", ",").replace(" %,", ",").replace(" W,", ",")
    assert read(tmp_path, bare)["memory.used GPU 1"].tolist() == trace["memory.used GPU 1"].tolist()


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_rows_of_devices_without_a_name_are_refused(tmp_path: Path, devices: int) -> None:
    times = (f"2024/10/30 18:42:{at:02}.{189 + 2 * one}" for at in range(8) for one in range(devices))
    text = "timestamp, utilization.gpu [%]\n" + "".join(f"{time}, 3 %\n" for time in times)
    with pytest.raises(DataError, match=r"run.txt:3: long and short times alternate .*timestamp,index"):
        read(tmp_path, text)


@pytest.mark.parametrize("gaps", [(150, 850), (400, 600), (100, 150, 200, 550), (100,) * 7 + (300,)])
def test_bursts_of_rows_are_devices_however_far_apart(tmp_path: Path, gaps: tuple[int, ...]) -> None:
    passed = np.cumsum([0, *[gap + at % 3 for at, gap in enumerate(gaps * 8)]])
    times = (f"2024/10/30 18:42:{time // 1000:02}.{time % 1000:03}" for time in passed.tolist())
    text = "timestamp, utilization.gpu [%]\n" + "".join(f"{time}, 3 %\n" for time in times)
    with pytest.raises(DataError, match=r"long and short times alternate"):
        read(tmp_path, text)


def test_times_rounded_to_seconds_are_no_bursts(tmp_path: Path) -> None:
    times = (f"18:42:{int(1.2 * at):02}.000" for at in range(40))
    text = "timestamp, utilization.gpu [%]\n" + "".join(f"2024/10/30 {time}, 3 %\n" for time in times)
    assert len(read(tmp_path, text)) == 40


def test_a_pause_is_no_other_device(tmp_path: Path) -> None:
    minutes = (0, 0, 0, 30, 30, 30, 59)
    rows = "".join(f"2024/10/30 18:{minute:02}:{at:02}.000, {at} %\n" for at, minute in enumerate(minutes))
    assert len(read(tmp_path, f"timestamp, utilization.gpu [%]\n{rows}")) == len(minutes)


def test_nvidia_dmon_with_headings_again(tmp_path: Path) -> None:
    trace = read(tmp_path, tables.DMON)
    assert len(trace) == tables.ROWS
    assert described(trace, "pwr GPU 1") == ("W", "gauge", "hardware")
    assert trace["sm GPU 1"][:2].tolist() == [20, 21]
    rows = [", ".join(line.replace("#", "# ").split()).replace("#, ", "#") for line in tables.DMON.splitlines()]
    with_commas = read(tmp_path, "\n".join(rows) + "\n")
    assert {name: with_commas[name].tolist() for name in with_commas} == {name: trace[name].tolist() for name in trace}


def test_vmstat(tmp_path: Path) -> None:
    trace = read(tmp_path, tables.VMSTAT)
    assert (len(trace), trace["free"][0]) == (tables.ROWS - 1, 1308)
    assert described(trace, "bi") == ("KiB/s", "gauge", "os")


def test_integers_keep_all_digits_and_missing_values_are_missing(tmp_path: Path) -> None:
    recipe = write(
        tmp_path,
        "title: a counter\nrecognise: '^t;n;m'\ntime: {columns: t, format: seconds}\n"
        "columns: [{match: n, is: cumulative}, {match: m, is: counts, unit: hits}]\n",
        "mine.yaml",
    )
    text = f"t;n;m\n1;{2**63};5\n2;{2**63 + 1};-\n3;{2**63 + 3};7\n4;{2**63 + 6};8\n5;{2**63 + 10};9\n6;1"
    (trace,) = read_traces(write(tmp_path, text), str(recipe))
    assert (trace["n"].tolist(), trace["m"].tolist()) == ([2, 3, 4], [7, 8, 9])
    assert described(trace, "m") == ("hits", "counter", "os")
    assert trace.attributes["notes"] == [
        "the import leaves out the last line (line 7), which has no end",
        "the import leaves out 1 interval in which n was missing",
        "the import leaves out 1 interval in which m was missing",
    ]


BAD = {
    "a row cut off": (tables.VMSTAT[:-40] + "\n", "run.txt:14: the line has 12 fields, but the heading names 18"),
    "no rows": (tables.DMON_HEAD, "run.txt: the file has no rows below the heading|run.txt:2: .* no rows"),
    "half a heading": (tables.DMON_HEAD.partition("\n")[0] + "\n", "the heading has 2 lines, but the file ends"),
    "no number": (tables.SADF.replace("91.00;0.50", "91.00;x"), "run.txt:4: column '%idle' contains 'x'"),
    "another time": (
        tables.SADF.replace("2026-01-31", "31.1.2026"),
        "run.txt:2: the time '31.1.2026 .* has another format than",
    ),
    "out of order": (tables.VMSTAT.replace(":56:05", ":16:05"), "run.txt:8: this row has an earlier time"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_with_their_line(tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    name = next(one for one in ("vmstat", "nvidia-dmon", "sadf") if _of(one, text))
    with pytest.raises(DataError, match=message):
        read_traces(write(tmp_path, text), name)


def _of(name: str, text: str) -> bool:
    return tables.MONITORS[name].splitlines()[0] == text.splitlines()[0]


def test_recipes_of_a_user_are_found_and_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "unperturbed" / "recipes"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    mine = "title: my vmstat\nrecognise: ' r +b'\nheading: ' r +b'\nseparator: blanks\n"
    mine += "time: {columns: CET, format: '%Y-%m-%d %H:%M:%S'}\n"
    write(folder, mine + "columns: {match: free, is: gauge, unit: KiB, name: memory}\n", "mine.yaml")
    reading.formats_and_faults.cache_clear()
    try:
        trace = read(tmp_path, tables.VMSTAT)
        assert (trace.attributes["imported"], list(trace.metrics)) == ("my vmstat", ["memory"])
    finally:
        reading.formats_and_faults.cache_clear()


def test_a_column_names_the_run_of_each_row(tmp_path: Path) -> None:
    """Runs in one file, each with times of its own, are as many traces; without the rule they are refused."""
    recipe = (
        "title: a log of power\nrecognise: '^when;'\ntime: {columns: when, format: seconds}\ncolumns:\n"
        "  - {match: cpu, is: device, name: CPU}\n  - {match: watts, is: gauge, unit: W}\n"
    )
    rows = [f"{at}.5;{test};{cpu};{at * cpu + test}" for test in (7, 8) for at in range(1, 9) for cpu in (0, 1)]
    table = write(tmp_path, "when;test;cpu;watts\n" + "\n".join(rows) + "\n")
    path = write(tmp_path, recipe, "power.yaml")
    with pytest.raises(DataError, match="an earlier time than the previous one"):
        read_traces(table, str(path))
    path.write_text(f"{recipe}  - {{match: test, is: run}}\n")
    traces = read_traces(table, str(path))
    assert [trace.attributes["run"] for trace in traces] == ["7", "8"]
    assert traces[1]["watts CPU 1"].tolist() == [at + 8 for at in range(1, 9)]
    assert traces[1]["watts CPU 0"].tolist() == [8] * 8


def test_a_broken_recipe_stops_only_imports_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "unperturbed" / "recipes"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    fault = r"mine.yaml:3:31: `%F` is no time format"
    text = "title: my log\nrecognise: '^MINE'\ntime: {columns: when, format: '%F'}\ncolumns: {match: w, is: gauge}\n"
    write(folder, text, "mine.yaml")
    reading.formats_and_faults.cache_clear()
    try:
        assert list(read(tmp_path, tables.VMSTAT).metrics)
        assert find_format("csv").name == "csv"
        (line,) = (record.getMessage() for record in caplog.records)
        assert re.search(f"a recipe is wrong and left out: .*{fault}", line)
        assert "mine" not in import_formats()
        with pytest.raises(DataError, match=f"^{re.escape(str(folder))}/{fault}"):
            find_format("mine")
        with pytest.raises(DataError, match=f"unrecognised format; .* a recipe that describes this file, .*{fault}"):
            read_traces(write(tmp_path, "MINE\n1\n"))
        with pytest.raises(DataError, match=f"cannot find the time column.*; if you have a recipe .*{fault}"):
            read_traces(write(tmp_path, "when,w\n1,2\n2,3\n"))
        (folder / "mine.yaml").rename(folder / "vmstat.yaml")
        write(folder, text, "likwid.yaml")
        reading.formats_and_faults.cache_clear()
        with pytest.raises(
            DataError, match=r"unrecognised format; .* recipes that describe this file, .*likwid.yaml: "
        ):
            read(tmp_path, tables.VMSTAT)  # this tool's recipe would read it in another way
        with pytest.raises(DataError, match=r"likwid.yaml: the recipe has the name of another import format: rename"):
            find_format("likwid")
    finally:
        reading.formats_and_faults.cache_clear()


FAULTS = {
    "": ":1: the recipe is empty",
    "- a\n": ":1:1: expected keys with values: title, recognise and columns",
    "title: t\n": ":1:1: the key `recognise` is missing",
    "title: t\nseperator: x\n": ":2:1: unknown key `seperator`; did you mean separator",
    "title: t\ntitle: u\n": ":2:1: the key `title` appears twice",
    "title: [t\n": ":2:1: not YAML: ",
    "title:\nrecognise: a\ncolumns: {match: a, is: rate}\n": ":1:7: this text is empty",
    "recognise: '('\ncolumns: []\ntitle: t\n": ":1:12: not a regular expression: ",
    "title: t\nrecognise: a\ncolumns: []\n": ":3:10: this list is empty",
    "title: t\nrecognise: a\ncolumns:\n  - {match: a}\n": ":4:5: the key `is` is missing",
    "title: t\nrecognise: a\ncolumns: {match: a, is: count}\n": ":3:25: unknown value `count`; did you mean counts",
    "title: t\nrecognise: a\ncolumns: {match: a, is: rate, unit: '\\1'}\n": ":3:37: `match` has only 0 groups",
    "title: t\nrecognise: a\ncolumns: {match: a, is: rate, unit: '\\g'}\n": ":3:37: a backslash must be followed",
    "title: t\nrecognise: a\ncolumns: {match: a, is: rate, devices: x}\n": ":3:40: `devices` gives names",
    "title: t\nrecognise: a\nlines: [names, names]\ncolumns: {match: a, is: rate}\n": ":3:8: a heading has one line of",
    "title: t\nrecognise: a\nseparator: ', '\ncolumns: {match: a, is: rate}\n": ":3:12: a separator is one character",
    "title: t\nrecognise: a\nkind: gpu\ncolumns: {match: a, is: rate}\n": ":3:7: unknown value `gpu`; use hardware",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_wrong_recipe_is_one_message_with_its_place(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text, "mine.yaml")
    with pytest.raises(DataError) as refused:
        find_format(str(path))
    assert str(refused.value).startswith(f"{path}{FAULTS[text]}")


def test_a_recipe_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no.yaml: cannot read the recipe: No such file"):
        find_format(str(tmp_path / "no.yaml"))
    with pytest.raises(DataError, match=r"My recipe.yaml: a recipe's file has the name of its format"):
        find_format(str(write(tmp_path, "", "My recipe.yaml")))
    (tmp_path / "x.yaml").write_bytes(b"title: t\n\xff\n")
    with pytest.raises(DataError, match=r"x.yaml:2: this line is not valid UTF-8"):
        find_format(str(tmp_path / "x.yaml"))


def test_a_time_format_that_gives_no_time(tmp_path: Path) -> None:
    recipe = "title: t\nrecognise: '^t;n'\ntime: {columns: t, format: '%H'}\ncolumns: {match: n, is: gauge}\n"
    with pytest.raises(DataError, match=r"mine.yaml: the time format %H cannot be used: Invalid format string"):
        read_traces(write(tmp_path, "t;n\n1;2\n"), str(write(tmp_path, recipe, "mine.yaml")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Linux 6.1.0-40 (h) \t01/31/26 \t_x86_64_\t(2 CPU)\n", "a report of sar, iostat, mpstat or pidstat; print"),
        ('{"sysstat": {\n\t"hosts": []}}\n', "JSON of sadf or another tool of sysstat; print"),
        ('<?xml version="1.0"?>\n<!DOCTYPE Configure>\n<sysstat>\n', "XML of sadf; print"),
        (" 1 0 0 574 77 284 0 0 1 32 59 1 0 99 0 2018-08-24 14:18:19\n", "a table without names; add a line"),
        ("h\t1\t2026-01-31 23:59:00 UTC\tall\t%user\t2.15\n", "a list of sadf -p; print"),
        ("h\t1\t1769903940\tall\t%user\t2.15\n", "a list of sadf -p; print"),
        ("###\n# Collectl:   V4.3.1-1\n#Date;Time;PID;User\n20261004;21:26:12;1;root\n", "a list of processes by coll"),
        ("2024/10/30 18:42:00.189, 0 %, 2 MiB\n", "a list of nvidia-smi without names; record it without noheader"),
        ("Wed Oct 30 18:42\n+" + "-" * 77 + "+\n| NVIDIA-SMI 550 |\n", "a table of nvidia-smi for people; record"),
        (
            "java 17 cycles: \nffffffff8103d0ca write ([kernel.kallsyms])\n",
            "a list of samples of perf without their time",
        ),
    ],
)
def test_other_outputs_of_the_same_tools_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"run.txt:1: this is {message}"):
        read(tmp_path, text)
