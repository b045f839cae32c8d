"""LIKWID's timeline, by its written form: likwid's wiki, "likwid-perfctr", timeline mode, and RRZE-HPC/likwid #387."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unperturbed.collectors.imports import read_traces
from unperturbed.errors import DataError

HEAD = """\
--------------------------------------------------------------------------------
CPU name:	Some processor
# HWThreads: 0|1
# GID|MetricsCount|CpuCount|Total runtime [s]|Runtime unhalted [s]|CPI|L3 bandwidth [MBytes/s]
"""


def row(at: int, group: int = 1) -> str:
    return f"{group} 3 2 {0.2 * (at + 1):.6f} 0.1 0.2 {1 + at / 10} 2.0 {100 + at} 50\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "run.txt"
    path.write_text(text)
    return path


def test_rows_become_intervals(tmp_path: Path) -> None:
    (trace,) = read_traces(write(tmp_path, HEAD + "".join(row(at) for at in range(5))))
    assert list(trace.metrics) == ["Runtime unhalted [s]", "CPI", "L3 bandwidth [MBytes/s]"]
    assert trace["CPI"].tolist() == pytest.approx([1.5, 1.55, 1.6, 1.65, 1.7])
    assert trace["L3 bandwidth [MBytes/s]"].tolist() == [150, 151, 152, 153, 154]
    assert trace.end_ns.tolist() == [200_000_000 * at for at in range(1, 6)]
    assert trace.metrics["CPI"].semantics == "gauge"
    assert trace.attributes["notes"] == []


def test_a_set_of_events_and_csv(tmp_path: Path) -> None:
    head = "# HWThreads,0,1\n# GID,EventCount,CpuCount,Total runtime [s],INSTR_RETIRED_ANY,L2_LINES_IN_ALL\n"
    rows = "".join(f"1,2,2,{0.2 * (at + 1):.6f},{at},2,3,4\n" for at in range(4))
    (trace,) = read_traces(write(tmp_path, head + rows))
    assert trace["INSTR_RETIRED_ANY"].tolist() == [2, 3, 4, 5]
    assert trace["L2_LINES_IN_ALL"].tolist() == [7, 7, 7, 7]
    assert trace.metrics["INSTR_RETIRED_ANY"].semantics == "counter"


def test_torn_rows_and_lines_of_the_program_are_told(tmp_path: Path) -> None:
    lines = [row(0), row(1)[:20] + "\n", "program: done 50 %\n", row(2), row(3).replace("50", "5x0"), row(4), row(5)]
    (trace,) = read_traces(write(tmp_path, HEAD + "".join(lines)))
    assert trace["L3 bandwidth [MBytes/s]"].tolist() == [150, 152, 154, 155]
    (note,) = trace.attributes["notes"]
    assert note == "the import leaves out 3 lines of the timeline (first: line 6), damaged or not from LIKWID"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "run.txt:4: no rows below the header"),
        (HEAD + row(0) + row(1, 2), "run.txt:5: the recording multiplexes groups 1 and 2"),
        (HEAD + row(1) + row(0), "run.txt:6: this row is not later than the previous row"),
        (HEAD + row(0)[:20] + "\n" + row(1)[:22] + "\n", "run.txt:5: 2 of 2 rows are damaged"),
        (HEAD.replace("|", " ") + row(0), "run.txt:4: ambiguous header: .* blanks.* -o FILE.csv"),
        (HEAD + "".join(row(at).replace(".", ",") for at in range(9)), "9 of 9 rows are damaged, .* decimal commas"),
        ("x\n", "run.txt:1: the file has no header of a LIKWID timeline"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_traces(write(tmp_path, text), "likwid")


# Metrics of LIKWID's groups; those whose formula grows with the counts are summed over threads.
SUMMED = """\
Runtime unhalted [s] / L3 bandwidth [MBytes/s] / Memory data volume [GBytes] / DP [MFLOP/s] / SP [MFLOP/s] (SSE assumed)
Packed [MUOPS/s] / Energy [J] / Power DRAM [W] / L2 misses [misses/s] / DRAM read/write local to 0 [MegaEvents/s]
Number of divide ops / L1 DTLB load misses / Total execution stalls / Retired UOPs / MFLOP/s / Vector MIOPS/s
Local LLC false sharing [MByte] / Memory bandwidth [MByte/s] / Fetch Bubbles / INSTR_RETIRED_ANY
"""
AVERAGED = """\
Runtime (RDTSC) [s] / Clock [MHz] / UBOX Frequency [GHz] / CPI / IPC / Branch misprediction ratio / L2 request rate
Instructions per branch / Load to store ratio / Avg stall duration [cycles] / L1 ITLB miss duration [Cyc]
Operational intensity [FLOP/Byte] / Vectorization ratio [%] / Temperature [C] / QPI Rate Link 0 [GT/s] / TEMP_CORE
Avg. divide unit usage duration / Backend Bound / Retiring / Bad Speculation / SMT contention
"""


@pytest.mark.parametrize("expected", ["sum", "mean"])
def test_the_unit_or_the_name_decides_what_is_summed_over_threads(tmp_path: Path, expected: str) -> None:
    names = re.split(r" / |\n", (SUMMED if expected == "sum" else AVERAGED).strip())
    heading = "# GID|MetricsCount|CpuCount|Total runtime [s]|" + "|".join(names) + "\n"
    rows = "".join(f"1 {len(names)} 2 {at / 5:.6f}{' 2.0 3.5' * len(names)}\n" for at in range(1, 5))
    (trace,) = read_traces(write(tmp_path, heading + rows))
    assert list(trace.metrics) == names
    assert {name for name in names if trace[name].tolist() != [5.5 if expected == "sum" else 2.75] * 4} == set()
    assert {trace.metrics[name].meaning.split()[0] for name in names} == {expected}


def test_threads_that_do_not_read_a_metric_do_not_count(tmp_path: Path) -> None:
    """LIKWID reads the counters of a socket on one of its threads: others have 0, `-` or nan."""
    names = "Uncore Clock [MHz]|Operational intensity [FLOP/Byte]|Memory data volume [GBytes]"
    heading = f"# GID|MetricsCount|CpuCount|Total runtime [s]|{names}\n"
    rows = "".join(f"1 3 3 {at / 5:.6f} 2400 0 0 0.5 nan inf 7 - -\n" for at in range(1, 5))
    (trace,) = read_traces(write(tmp_path, heading + rows))
    assert [trace[name].tolist()[0] for name in trace] == [2400, 0.5, 7]
