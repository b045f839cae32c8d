"""perf's table for people: real recordings, and generated rows, against what `-x` gives for the same counts."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collectors.imports.recorder import record
from unperturbed.collectors.imports import find_format, read_perf_stat, read_traces
from unperturbed.errors import DataError

HEADING = "#           time             counts unit events\n"
PLACES = {"-A": "CPU{}", "--per-core": "S0-D0-C{}", "--per-thread": "work er-{}"}
HEADINGS = {
    "": HEADING,
    "-A": "#           time CPU                    counts unit events\n",
    "--per-core": "#           time core               cpus             counts unit events\n",
    "--per-thread": "#           time             comm-pid                  counts unit events\n",
}


def slow(text: str) -> dict[float, dict[str, float]]:
    """Read rows by their widths: time to event to count, of those that were counted."""
    found: dict[float, dict[str, float]] = defaultdict(dict)
    for line in text.splitlines():
        row = re.match(r" *(\d+\.\d{9}) ", line)
        if row is None or "<not" in line or " seconds " in line:
            continue
        words = line[row.end() :].partition("#")[0].split()
        count = max(at for at, word in enumerate(words) if re.fullmatch(r"[\d.,]+", word))
        counts = found[float(row[1])]
        counts[words[-1]] = counts.get(words[-1], 0) + float(words[count].replace(",", ""))
    return found


@pytest.mark.parametrize(
    "options", [(), ("-a", "-A"), ("-a", "--per-core"), ("-a", "--per-socket", "--summary"), ("-a", "--per-thread")]
)
def test_real_recordings(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = record(tmp_path / "run.txt", *options)
    (trace,) = read_traces(path)
    assert trace.attributes["imported"] == "perf stat -I output"
    assert {metric.kind for metric in trace.metrics.values()} == {"os"}
    assert (trace.metrics["task-clock"].unit, trace.metrics["page-faults"].unit) == ("ms", "events")
    assert trace.attributes["started"].startswith("20")
    rows = {round(time * 1e9): counts for time, counts in slow(path.read_text()).items()}
    assert len(trace) >= 5
    for at, end in enumerate(trace.end_ns.tolist()):
        counts = dict.fromkeys(trace, 0.0) | rows[end]  # perf writes no row of threads that counted nothing
        assert {name: float(trace[name][at]) for name in trace} == pytest.approx(counts)


GROUPED = {
    "none": ("", "."),
    "en": (",", "."),
    "de": (".", ","),
    "fr": ("\u202f", ","),
    "ch": ("’", "."),
    "ru": (" ", ","),
}


def people(value: float, decimals: int, locale: str) -> str:
    group, point = GROUPED[locale]
    text = f"{value:,.{decimals}f}".replace(".", "POINT").replace(",", group)
    return text.replace("POINT", point)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_table_has_the_counts_of_separated_rows(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The same counts as a table for people in some locale and as rows of `-x`."""
    locale, option = data.draw(st.sampled_from(sorted(GROUPED))), data.draw(st.sampled_from(sorted(HEADINGS)))
    units = {"task-clock": "msec", "instructions:u": "", "power/energy-pkg/": "Joules", "a-very-long-name/x=1/:u": ""}
    events = data.draw(st.lists(st.sampled_from(sorted(units)), min_size=1, unique=True))
    width = max(4, *(len(units[event]) for event in events))
    table, rows = HEADINGS[option], ""
    for interval in range(1, data.draw(st.integers(3, 9))):
        time = f"{interval * 0.02:.9f}"
        for event in events:
            decimals = 2 if units[event] else 0
            for place in range(2 if option else 1):
                where = PLACES.get(option, "").format(place)
                number = "   1 " if option == "--per-core" else ""
                value = data.draw(st.integers(0, 10**12)) / 10**decimals
                missing = data.draw(st.integers(0, 12)) == 0
                shown = "<not counted>" if missing else people(value, decimals, locale)
                comment = data.draw(st.sampled_from(["", " #    0,27  insn per cycle            ", " # 1.3 % x y (z)"]))
                table += f"{time:>16} {where:<12}{number}{shown:>18} {units[event]:<{width}} {event:<25}{comment}\n"
                csv = "<not counted>" if missing else f"{value:.{decimals}f}"
                middle = f"{where};" + ("1;" if number else "") if option else ""
                rows += f"{time};{middle}{csv};{units[event]};{event};20000000;100.00;;\n"
    folder = tmp_path_factory.mktemp("perf")
    (folder / "table.txt").write_text(table)
    (folder / "rows.csv").write_text(rows)
    assert find_format("perf-stat").recognise(table.encode())
    try:
        (wanted,) = read_perf_stat(folder / "rows.csv")
    except DataError as error:
        with pytest.raises(DataError, match=re.escape(str(error).rpartition(": ")[2])):
            read_perf_stat(folder / "table.txt")
        return
    (trace,) = read_perf_stat(folder / "table.txt")
    assert trace.metrics == wanted.metrics
    assert trace.end_ns.tolist() == wanted.end_ns.tolist()
    for name in wanted:
        assert trace[name].tolist() == wanted[name].tolist()


TABLE = """\
Warning: the program's own line
#           time             counts unit events
     0.020000000              18.05 msec task-clock                       #    0.902 CPUs utilized
     0.020000000              1,000      cycles                           #    1.2 GHz                (50.00%)
\x1b[31m     0.040000000              19.00 msec task-clock\x1b[0m
     0.040000000      <not counted>      cycles                                                       (0.00%)
     0.060000000           1,020.00 msec task-clock                       #    0.902 CPUs utilized
                                                  #      5.4 %  of another metric
     0.060000000                                                           #    0.2 stalled cycles
     0.060000000              3,000      cycles
progress 50%
     0.080000000              20.00 msec task-clock
     0.080000000              4,000      cycles                           #    1.2 GHz
^C     0.085000000               2.00 msec task-clock
     0.085000000                400      cycles

 Performance counter stats for './a':

           1,079.05 msec task-clock
              8,400      cycles

       0.085123456 seconds time elapsed
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "run.txt"
    path.write_text(text)
    return path


def test_what_is_left_out_scaled_and_rounded_is_said(tmp_path: Path) -> None:
    (trace,) = read_traces(write(tmp_path, TABLE))
    assert trace["task-clock"].tolist() == [18.05, 1020.0, 20.0]
    assert trace["cycles"].tolist() == [1000, 3000, 4000]
    assert trace.end_ns.tolist() == [20_000_000, 60_000_000, 80_000_000]
    assert trace.attributes["notes"] == [
        "the import skips 2 lines that perf stat did not write",
        "perf's table for people rounds task-clock to 0.01 msec",
        "perf's table has only the share of the time in which cycles was counted: NAME.enabled_ns is the length of the "
        "interval",
        "the import leaves out 1 interval in which cycles was not counted",
        "the import leaves out the last interval, which is 0.0050 s long instead of 0.020 s, but totals contain it",
    ]
    assert trace.metrics["cycles"].scaled
    assert not trace.metrics["task-clock"].scaled
    assert trace["cycles.enabled_ns"].tolist() == [20_000_000, 20_000_000, 20_000_000]
    assert trace["cycles.running_ns"].tolist() == [10_000_000, 20_000_000, 20_000_000]


def rows(*lines: str) -> str:
    return HEADING + "".join(f"     {0.02 * (at + 1):.9f} {line}\n" for at in range(4) for line in lines)


def test_cgroups_older_versions_and_names_with_blanks(tmp_path: Path) -> None:
    """Versions of perf before 4.17 name the unit of task-clock behind it, and write shares in brackets."""
    text = rows(
        "        1 002      page-faults               /                ",
        "            7      page-faults               /user  # 3 K/sec",
    )
    (trace,) = read_traces(write(tmp_path, text))
    assert {name: trace[name].tolist() for name in trace} == {"page-faults /": [1002] * 4, "page-faults /user": [7] * 4}
    text = rows(
        "      12.345678      task-clock (msec)         #    0.903 CPUs utilized",
        "        7113975        cycles                    [25.00%]",
        "          1,280      clockticks [uncore_imc_0]",
        "           9.50 MiB  uncore_imc/data_reads/    ",
    )
    (trace,) = read_traces(write(tmp_path, text))
    assert trace["task-clock"].tolist() == [12.345678] * 4
    assert {name: metric.unit for name, metric in trace.metrics.items()} == {
        "task-clock": "ms",
        "cycles": "cycles",
        "cycles.enabled_ns": "ns",
        "cycles.running_ns": "ns",
        "clockticks [uncore_imc_0]": "events",
        "uncore_imc/data_reads/": "MiB",
    }
    assert (trace["cycles.running_ns"] / trace["cycles.enabled_ns"]).tolist() == [0.25] * 4
    assert trace.attributes["notes"][:2] == [
        "perf's table for people rounds task-clock to 0.000001 msec",
        "perf's table for people rounds uncore_imc/data_reads/ to 0.01 MiB",
    ]


def test_a_processor_whose_time_is_there_twice(tmp_path: Path) -> None:
    """perf 5.6 writes the time twice with --percore-show-thread."""
    text = HEADINGS["-A"] + "".join(
        f"      {at}.000177375      {at}.000177375 CPU{cpu}             {at * 100 + cpu},540      cpu/cycles,percore/\n"
        for at in range(1, 5)
        for cpu in range(2)
    )
    (trace,) = read_traces(write(tmp_path, text))
    assert trace["cpu/cycles,percore/"].tolist() == [200_000 * at + 2_080 for at in range(1, 5)]


def test_counts_keep_all_digits(tmp_path: Path) -> None:
    big = [2**60 + 129 + at for at in range(8)]
    text = HEADING + "".join(f"     {0.02 * at + 0.02:.9f} {big[at]:>26,}      cycles\n" for at in range(8))
    (trace,) = read_traces(write(tmp_path, text))
    assert trace["cycles"].tolist() == big


LINES = TABLE.splitlines(keepends=True)
BAD = {
    "heading alone": (HEADING, "run.txt:1: no rows below perf's header"),
    "cut off in a count": (
        rows("   1,234      cycles")[:-12],
        "run.txt:5: the row has no event: the recording is incomp",
    ),
    "cut off in a name": (rows("   1,234      cycles")[:-3], "run.txt:5: the last row is truncated"),
    "another program in a row": (
        rows("   1,234      cycles").replace("1,234", "done!"),
        "run.txt:2: the row has no event: the recording is incomplete, or another program's output is in the row",
    ),
    "a row missing": ("".join(LINES[:6] + LINES[7:]), "run.txt:9: task-clock has no row in this interval"),
    "a row twice": ("".join(LINES[:4] + LINES[3:]), "run.txt:5: cycles appears twice for this interval"),
    "out of order": ("".join(LINES[:2] + LINES[6:8] + LINES[2:4]), "run.txt:5: this row is earlier"),
    "columns": (rows("   1,234      cycles     a   b   c"), "run.txt:2: unexpected columns after the event"),
    "never counted": (rows("<not supported>      instructions"), "nothing to import"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_with_their_line(tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(DataError, match=message):
        read_traces(write(tmp_path, text))


def test_runs_are_of_about_equal_length_after_the_import(tmp_path: Path) -> None:
    """A recording in the terminal, with the lines of the program, has the intervals that `-o` has."""
    path = record(tmp_path / "run.txt", phases=12)
    noisy = "".join(f"{line}step {at}\n" for at, line in enumerate(path.read_text().splitlines(keepends=True)))
    (plain,), (trace,) = read_traces(path), read_traces(write(tmp_path / "..", noisy))
    assert np.array_equal(trace.end_ns, plain.end_ns)
    assert all(np.array_equal(trace[name], plain[name]) for name in plain)
