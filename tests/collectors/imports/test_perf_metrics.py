"""`perf stat -I --metric-only`: metrics in the formats of perf, each with its values and as a gauge."""

from __future__ import annotations

from pathlib import Path

import pytest

from unperturbed.collectors.imports import find_format, read_traces
from unperturbed.collectors.imports.perf.stat import FORMAT
from unperturbed.errors import DataError

GHZ, IPC, MISSES = [2.1, 2.2, 2.3, 2.4], [0.93, 0.94, 0.95, 0.96], [1.5, 1.25, 1.0, 0.5]
NAMES = ("GHz", "insn per cycle", "branch-misses of all branches")
ROWS = list(zip(GHZ, IPC, MISSES, strict=True))
GAUGES = "the recording has only metrics that perf computed and rounded (--metric-only): they are gauges, not counts"


def times() -> list[str]:
    return [f"{0.02 * at:.9f}" for at in range(1, 5)]


def separated(mark: str, heading: str = "time,", place: str = "") -> str:
    rows = (
        f"     {time}{mark}{place}{mark.join(map(str, row))}{mark}\n" for time, row in zip(times(), ROWS, strict=True)
    )
    return f" {heading}{mark.join(NAMES)}{mark}\n" + "".join(rows)


def for_people(place: str = "", heading: str = "") -> str:
    """Write the table for people: columns are 20 characters wide, or as long as their names."""
    rows = ""
    for time, (ghz, ipc, misses) in zip(times(), ROWS, strict=True):
        rows += f"{time:>16} {place}{ghz:>20} {ipc:>20} {f'{misses:.2f}%':>30} \n"
    return f"#           time {heading}{NAMES[0]:>20} {NAMES[1]:>20} {NAMES[2]} \n" + rows


def json_of(version: int) -> str:
    if version == 1:
        rows = (
            f'{{"interval" : {time}}}' + "".join(f'{{"metric-value" : "{value}"}}' for value in row)
            for time, row in zip(times(), ROWS, strict=True)
        )
        return "\n".join(("".join(f'{{"unit" : "{name}"}}' for name in ("sec", *NAMES)), *rows, ""))
    rows = (
        f'{{"interval" : {time}, '
        + ", ".join(f'"{name}" : "{value}"' for name, value in zip(NAMES, row, strict=True))
        + "}"
        for time, row in zip(times(), ROWS, strict=True)
    )
    return "\n".join((*rows, ""))


FILES = {
    "-x,": separated(","),
    "-x;": separated(";"),
    "-x; with its separator in the heading": separated(";", "time;"),
    "-o": "# started on Tue Nov 24 01:00:00 2026\n\n" + separated(","),
    "people": for_people(),
    "people, decimal commas": for_people().replace(".", ",").replace(" 0,0", " 0.0"),
    "people, heading again": for_people() + for_people().splitlines(keepends=True)[0],
    "JSON": json_of(1),
    "JSON, newer": json_of(2),
}
OF_PLACES = {
    "-A -x,": (separated(",", "time,cpu,", "CPU1,"), "CPU1"),
    "-A": (for_people("CPU1   ", "CPU    "), "CPU1"),
    "--per-core -x,": (separated(",", "time,core,cpus,", "S0-D0-C3,2,"), "S0-D0-C3"),
    "--per-socket -x,, the comma missing": (separated(",", "time,socket,cpus", "S0,8,"), "S0"),
    "--per-node -x,": (separated(",", "time,node,", "N0,4,"), "N0"),
    "--per-core": (for_people("S0-D0-C3           2 ", "core               cpus "), "S0-D0-C3"),
    "-G": (for_people("/user            "), "/user"),
    "-A -j": (json_of(2).replace(', "GHz"', ', "cpu" : "1", "GHz"'), "CPU1"),
}


def write(folder: Path, text: str) -> Path:
    path = folder / "run.txt"
    path.write_text(text)
    return path


@pytest.mark.parametrize("case", [*FILES, *OF_PLACES])
def test_metrics_are_gauges_with_their_units(tmp_path: Path, case: str) -> None:
    text, place = OF_PLACES[case] if case in OF_PLACES else (FILES[case], "")
    (trace,) = read_traces(write(tmp_path, text))
    names = [f"{name} {place}".strip() for name in NAMES]
    assert {name: trace[name].tolist() for name in trace} == dict(zip(names, (GHZ, IPC, MISSES), strict=True))
    assert [metric.unit for metric in trace.metrics.values()] == ["GHz", "1", "%"]
    assert {(metric.semantics, metric.kind) for metric in trace.metrics.values()} == {("gauge", "hardware")}
    assert trace.end_ns.tolist() == [20_000_000, 40_000_000, 60_000_000, 80_000_000]
    assert trace.attributes["notes"] == [GAUGES]
    assert find_format("perf-stat").recognise(text.encode())


def test_metrics_of_places_are_apart(tmp_path: Path) -> None:
    first, second = (separated(",", "time,cpu,", f"CPU{cpu},").splitlines() for cpu in (0, 1))
    text = "\n".join((first[0], *(row for rows in zip(first[1:], second[1:], strict=True) for row in rows), ""))
    (trace,) = read_traces(write(tmp_path, text.replace(",0.95,1.0,", ",0.5,0.25,", 1)))
    assert trace["insn per cycle CPU0"].tolist() == [0.93, 0.94, 0.5, 0.96]
    assert trace["insn per cycle CPU1"].tolist() == IPC


def test_units_before_names_and_long_names(tmp_path: Path) -> None:
    """Newer versions write the unit before a metric's name; a long name has one blank before the next."""
    names = [
        "%  tma_frontend_bound",
        "GHz  cpu_freq",
        "tma_info_bad_spec_branch_cost",
        "tma_info_core_instructions_x",
        "nan",
    ]
    text = f"#           time {' '.join(f'{name:>20}' for name in names)} \n"
    for time, row in zip(times(), ROWS, strict=True):
        values = " ".join(f"{value:>{max(20, len(name))}}" for name, value in zip(names, (*row, 7, "nan"), strict=True))
        text += f"{time:>16} {values} \n"
    (trace,) = read_traces(write(tmp_path, text))
    assert {name: metric.unit for name, metric in trace.metrics.items()} == {
        "tma_frontend_bound": "%",
        "cpu_freq": "GHz",
        "tma_info_bad_spec_branch_cost": "1",
        "tma_info_core_instructions_x": "1",
    }
    assert trace["tma_info_core_instructions_x"].tolist() == [7] * 4
    assert trace.attributes["notes"] == [GAUGES, "the import leaves out nan, which was never counted"]


@pytest.mark.parametrize("case", ["-x,", "people", "JSON"])
def test_a_row_with_fewer_values_than_names_is_left_out(tmp_path: Path, case: str) -> None:
    """An event that was not counted leaves one cell empty, whatever metrics it has."""
    text = FILES[case]
    for value in ("0.94", "1.25%", "1.25"):
        text = text.replace(f",{value}" if case == "-x," else value, "").replace('{"metric-value" : ""}', "")
    (trace,) = read_traces(write(tmp_path, text))
    assert trace["GHz"].tolist() == [2.1, 2.3, 2.4]
    assert trace.attributes["notes"] == [
        GAUGES,
        "1 interval has fewer values than the heading has names: they cannot be assigned",
        "the import leaves out 1 interval in which no event was counted",
    ]


LINES = separated(",").splitlines(keepends=True)
BAD = {
    "without names": (
        "# started on Tue Nov 24 01:00:00 2026\n\n time,\n     0.020089146,\n     0.040252923,,,,\n",
        "run.txt:3: the heading names no metric: perf computes none from these events",
    ),
    "without names, for people": ("#           time \n     0.020089146   \n", "run.txt:1: the heading names no metric"),
    "without names, JSON": ('{}\n{"interval" : 0.020089146}{"metric-value" : ""}\n', "run.txt:1: the heading names no"),
    "without heading": ("".join(LINES[1:]), "run.txt:1: no heading names the metrics of --metric-only"),
    "never a value": (
        " time,GHz,IPC,\n" + "".join(f"     {time},,\n" for time in times()),
        "run.txt:2: no row has a value for each of the 2 metrics that the heading names",
    ),
    "cut off": (separated(",")[:-3], "run.txt:5: the last row is truncated"),
    "cut off, for people": (for_people()[:-3], "run.txt:5: the last row is truncated"),
    "cut off, JSON": (json_of(2)[:-6], "run.txt:4: truncated or damaged JSON"),
    "a row twice": ("".join((*LINES, LINES[-1])), "run.txt:6: a second row for this interval$"),
    "out of order": ("".join((LINES[0], LINES[2], LINES[1])), "run.txt:3: this row is earlier than the previous row"),
    "a word": (separated(",").replace("0.94", "x"), "run.txt:3: 'x' is not a number"),
    "more values than names": (
        "#           time                  GHz \n     0.020000000                  2.1        3.1 \n",
        "run.txt:1: the names of 2 metrics cannot be separated in the heading: record with -x ';', or -j",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_with_their_line(tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    with pytest.raises(DataError, match=message):
        read_traces(write(tmp_path, text), "perf-stat")


def test_a_table_of_ones_own_is_not_of_perf() -> None:
    assert not FORMAT.recognise(b"time,a\n0.020000000,3\n0.040000000,4\n")
    assert not FORMAT.recognise(b"time;a;\n1;3;\n2;4;\n")
