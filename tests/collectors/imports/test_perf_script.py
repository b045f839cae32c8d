"""`perf script`: samples of a real recording, and lines as perf-script(1) prints them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collectors.imports.recorder import PROGRAM
from unperturbed.collectors.imports import read_traces, recognise
from unperturbed.errors import DataError

LINES = """\
# a comment
     my prog 2365 13502.000000:          5 page-faults:  ffffffff81752b6a elf_load+0x28a ([kernel.kallsyms])
            7f737abe6b70 _start+0x0 (/usr/lib/ld.so)

     my prog 2365/2366 [001] 13502.001000:    1000 cycles:u:  ffffffff81b73418 x ([kernel.kallsyms])
     my prog 2365 13502.012000:          7 page-faults:  ffffffff81b73418 _copy_to_user+0x28 ([kernel.kallsyms])
     my prog 2365 13502.031000:       3000 cycles:u:  0 [unknown] ([unknown])
     my prog 2365 13502.040000:          1 page-faults:  0 [unknown] ([unknown])
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "run.txt"
    path.write_text(text)
    return path


def test_periods_are_summed(tmp_path: Path) -> None:
    path = write(tmp_path, LINES)
    found = recognise(path)
    assert found is not None
    assert found.name == "perf-script"
    (trace,) = read_traces(path, interval="10")
    assert trace["page-faults"].tolist() == [5, 7, 0, 0]
    assert trace["cycles:u"].tolist() == [1000, 0, 0, 3000]
    assert trace.end_ns.tolist() == [10_000_000, 20_000_000, 30_000_000, 40_000_000]
    assert [metric.kind for metric in trace.metrics.values()] == ["os", "hardware"]
    assert "samples per interval, so its sums are imprecise" in trace.attributes["notes"][0]


def test_a_real_recording(tmp_path: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    data = tmp_path / "perf.data"
    words = ["perf", "record", "-q", "-F", "2000", "-e", "task-clock", "-o", str(data), "--", sys.executable, "-c"]
    done = subprocess.run([*words, PROGRAM.format(phases=12)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"perf record cannot sample here: {done.stderr.strip()}")
    text = subprocess.run(["perf", "script", "-i", str(data)], capture_output=True, text=True, check=True).stdout
    path = write(tmp_path, text)
    (trace,) = read_traces(path, interval="5")
    samples = [(float(one[1]), int(one[2])) for one in re.findall(r"( )(\d+\.\d+): +(\d+) task-clock:", text)]
    wanted = [0] * len(trace)
    for time, period in samples:
        at = int((round(time * 1e6) - round(samples[0][0] * 1e6)) // 5000)
        if at < len(wanted):
            wanted[at] += period
    assert trace["task-clock"].tolist() == wanted


def test_a_file_that_ends_within_a_line_says_so(tmp_path: Path) -> None:
    (trace,) = read_traces(write(tmp_path, LINES[:-9]), interval="10")
    assert trace.attributes["notes"][-2] == "the file's last line has no end of line: the file may be truncated"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            LINES + "     my prog 2365 13502.0",
            "run.txt:9: not a sample from perf script: the last line is truncated",
        ),
        (LINES.replace("13502.012", "13501.012"), "run.txt:6: this sample is earlier than the previous one"),
        (LINES.replace(" 3000 cycles", " cycles"), "run.txt:7: .* with and without a period cannot be summed"),
        (LINES + LINES.splitlines()[-1] + "\n", "run.txt:9: duplicate sample"),
        ("# nothing\n", "run.txt:1: the file has no samples"),
        (" 12 1.000001:  1000 cycles:  ffff0 f\n", r"run.txt:1: this sample has no command and thread: .* -F comm,tid"),
        ("1.000001:  1000 cycles:  ffff0 f\n", r"run.txt:1: this sample has no command and thread: .* -F comm,tid"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_traces(write(tmp_path, text), "perf-script")


def test_events_with_and_without_periods(tmp_path: Path) -> None:
    """perf prints no period of a tracepoint: each of its samples is one event."""
    text = "".join(
        f"worker  4242 [001]     1.{at:03d}000: sched:sched_switch: prev_comm=worker prev_pid=4242 ==> next_pid=0\n"
        if at % 2
        else f"worker  4242     1.{at:03d}000:     250000          cpu-clock:      401000 f+0x10 (/tmp/a)\n"
        for at in range(0, 100)
    )
    (trace,) = read_traces(write(tmp_path, text))
    assert trace["cpu-clock"].tolist() == [2_500_000] * 5
    assert trace["sched:sched_switch"].tolist() == [10] * 5
    assert trace.metrics["sched:sched_switch"].unit == "samples"
    assert trace.metrics["cpu-clock"].scaled
    assert "sched:sched_switch has no periods, so its samples are counted" in trace.attributes["notes"][0]


def test_samples_without_a_time_are_refused_with_the_fields_to_print(tmp_path: Path) -> None:
    path = write(tmp_path, "worker  4242 cpu-clock: \n\t          400570 f (/tmp/a)\n\n" * 2)
    message = r"run.txt:1: this sample has no time: .* by perf script -F comm,tid,time,period,event"
    for chosen in (None, "perf-script"):
        with pytest.raises(DataError, match=message):
            read_traces(path, chosen)


def test_chains_source_lines_and_records_are_skipped(tmp_path: Path) -> None:
    records = "perf-exec     0     0.000000: PERF_RECORD_COMM: perf-exec:10579/10579\n"
    records += "w 2365 13502.000000: PERF_RECORD_COMM exec: w:10579/10579\n"
    chain = "\tffffffff8177539a elf_load+0x28a ([kernel.kallsyms])\n  [kernel.kallsyms][ffffffff8177539a]\n"
    chain += "\t          401136 main+0x6 (/tmp/a)\n  a.c:12\n                  f (inlined)\n".replace(
        "       ", "\t", 1
    )
    text = records + LINES.replace("(/usr/lib/ld.so)\n", "(/usr/lib/ld.so)\n" + chain)
    text += "w 2365 13502.040000: PERF_RECORD_EXIT(10579:10579):(10578:10578)\n"
    (trace,) = read_traces(write(tmp_path, text), interval="10")
    (plain,) = read_traces(write(tmp_path, LINES), interval="10")
    assert {name: trace[name].tolist() for name in trace} == {name: plain[name].tolist() for name in plain}
    text += "w 2365 13502.050000: PERF_RECORD_LOST lost 12\n"
    (trace,) = read_traces(write(tmp_path, text), interval="10")
    assert "perf lost samples in 1 place, so all sums are too small" in trace.attributes["notes"]
