"""Formats with a time axis: Paraver by a reader of its document's grammar, CTF by babeltrace2."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests.harness.phases_campaign import unperturbed
from unperturbed.collectors.data import Metric, Trace
from unperturbed.harness.exports import export
from unperturbed.harness.exports.content.runs import read_runs

HEADER = re.compile(
    r"#Paraver \(\d\d/\d\d/\d{4} at \d\d:\d\d\):(?P<end>\d+)_ns:"
    r"1\((?P<cpus>\d+)\):1:(?P<tasks>\d+)\((?P<list>[\d:,]+)\)"
)


class Paraver:
    """A trace in Paraver's three files."""

    def __init__(self, path: Path) -> None:
        head, *lines = path.read_text().splitlines()
        header = HEADER.fullmatch(head)
        assert header
        assert header["list"] == ",".join(["1:1"] * int(header["tasks"]))
        self.end = int(header["end"])
        self.types: dict[int, str] = {}
        self.values: dict[int, str] = {}
        for section in path.with_suffix(".pcf").read_text().split("EVENT_TYPE\n")[1:]:
            first, _, values = section.partition("\nVALUES\n")
            _, number, name = first.strip().split(maxsplit=2)
            assert int(number) not in self.types
            self.types[int(number)] = name
            for line in values.strip().splitlines():
                value, label = line.split(maxsplit=1)
                self.values[int(value)] = label
        rows = path.with_suffix(".row").read_text().splitlines()
        at = rows.index(f"LEVEL THREAD SIZE {header['tasks']}")
        self.rows = rows[at + 1 : at + 1 + int(header["tasks"])]
        self.states: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.events: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
        time = 0
        for line in lines:
            kind, cpu, application, task, thread, begin, *rest = map(int, line.split(":"))
            assert (application, thread) == (1, 1)
            assert 1 <= task == cpu <= int(header["cpus"])
            assert time <= begin <= self.end, "records are in the order of time"
            time = begin
            if kind == 1:
                end, state = rest
                assert state == 1
                self.states[task].append((begin, end))
            else:
                assert kind == 2
                for number, value in zip(rest[::2], rest[1::2], strict=True):
                    self.events[task, self.types[number]].append((begin, value))


def test_paraver_keeps_every_count(campaign: Path, tmp_path: Path) -> None:
    assert unperturbed(tmp_path, "export", campaign, "-o", "c.prv").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.pcf", "c.prv", "c.row"]
    read, runs = Paraver(tmp_path / "c.prv"), read_runs(campaign)
    assert read.rows == [run.title for run in runs]
    for task, run in enumerate(runs, 1):
        assert read.states[task] == list(zip(run.trace.begin_ns.tolist(), run.trace.end_ns.tolist(), strict=True))
        for name in run.trace:
            pairs = zip(run.trace.end_ns.tolist(), run.trace[name].tolist(), strict=True)
            assert read.events[task, name] == list(pairs)


def test_paraver_gives_presets_the_numbers_of_extrae(tmp_path: Path) -> None:
    metrics = [
        Metric("PAPI_TOT_INS", "simulated"),
        Metric("PAPI_TOT_CYC", "hardware", unit="cycles", scaled=True),
        Metric("IPC", "derived", unit=""),
    ]
    columns = {"PAPI_TOT_INS": [7, 2**62], "PAPI_TOT_CYC": [1.5, 2.0], "IPC": [float("nan"), 0.25]}
    trace = Trace.from_columns(metrics, columns, begin_ns=[0, 10], end_ns=[10, 20])
    export(trace, "trace", tmp_path / "a.prv")
    read = Paraver(tmp_path / "a.prv")
    names = ["PAPI_TOT_INS (simulated)", "PAPI_TOT_CYC (scaled) [thousandths of cycles]", "IPC [thousandths]"]
    assert read.types == {42000050: names[0], 42000059: names[1], 71000001: names[2]}
    assert [read.events[1, name] for name in names] == [[(10, 7), (20, 2**62)], [(10, 1500), (20, 2000)], [(20, 250)]]


def test_paraver_shows_phases_and_aligned_runs(campaign: Path, tmp_path: Path) -> None:
    words = ("--run", "0001", "--run", "0005", "--phases", "--aligned")
    assert unperturbed(tmp_path, "export", campaign, "-o", "c.prv", *words).returncode == 0
    read = Paraver(tmp_path / "c.prv")
    assert [states[-1][1] for states in read.states.values()] == [read.end, read.end]
    for task in (1, 2):
        phases = read.events[task, "phases"]
        assert (phases[0][0], phases[-1]) == (0, (read.end, 0))
        assert {read.values[value].split()[0] for _, value in phases[:-1]} <= {"word", "no"}


def babeltrace(path: Path) -> list[tuple[int, str, dict[str, str]]]:
    """Return time, name and fields of each event."""
    if shutil.which("babeltrace2") is None:
        pytest.skip("babeltrace2 is not installed (tools/setup.sh test installs it)")
    command = ["babeltrace2", "--clock-cycles", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stderr
    found = []
    for line in done.stdout.splitlines():
        matched = re.fullmatch(r"\[(\d+)\] \(\S+\) (.+): \{ (.*) \}", line)
        assert matched, line
        fields = dict(pair.split(" = ", 1) for pair in re.split(r", (?=\w+ = )", matched[3]))
        found.append((int(matched[1]), matched[2], fields))
    return found


def test_babeltrace_reads_every_count_of_a_campaign(campaign: Path, tmp_path: Path) -> None:
    assert unperturbed(tmp_path, "export", campaign, "-o", "c.ctf").returncode == 0
    events = defaultdict(list)
    for time, name, fields in babeltrace(tmp_path / "c.ctf"):
        events[name].append((time, fields))
    runs = read_runs(campaign)
    assert sorted(events) == sorted(run.title for run in runs)
    for run in runs:
        found, trace = events[run.title], run.trace
        assert [time for time, _ in found] == trace.begin_ns.tolist()
        assert [int(fields["duration_ns"]) for _, fields in found] == (trace.end_ns - trace.begin_ns).tolist()
        for name in trace:
            assert [int(fields[name.replace(":", "_")]) for _, fields in found] == trace[name].tolist()


def test_ctf_has_names_of_all_sorts_and_fractions(tmp_path: Path) -> None:
    metrics = [
        Metric("PAPI_TOT_INS", "simulated"),
        Metric("perf::task-clock", "os"),
        Metric("perf::task:clock", "os"),
        Metric("event", "derived", unit=""),
    ]
    columns = {
        "PAPI_TOT_INS": [2**62, -3],
        "perf::task-clock": [1, 2],
        "perf::task:clock": [3, 4],
        "event": [0.1, 1e300],
    }
    facts = {"configuration": 'a "b" \\', "run": "1", "campaign": "c"}
    trace = Trace.from_columns(metrics, columns, begin_ns=[5, 10], end_ns=[10, 20], attributes=facts)
    export(trace, "trace", tmp_path / "a.ctf")
    metadata = (tmp_path / "a.ctf" / "metadata").read_text()
    assert 'metric_PAPI_TOT_INS = "PAPI_TOT_INS (simulated)";' in metadata
    assert 'metric_perf__task_clock_2 = "perf::task:clock";' in metadata
    names = ("PAPI_TOT_INS", "perf__task_clock", "perf__task_clock_2")
    read = babeltrace(tmp_path / "a.ctf")
    assert [(time, name) for time, name, _ in read] == [(5, 'a "b" \\ 1'), (10, 'a "b" \\ 1')]
    assert [[int(fields[name]) for name in names] for *_, fields in read] == [[2**62, 1, 3], [-3, 2, 4]]
    assert [float(fields["event"]) for *_, fields in read] == [0.1, 1e300]


def test_ctf_shows_phases(campaign: Path, tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "export", campaign / "runs" / "0001", "-o", "a.ctf", "--phases")
    assert done.returncode == 0, done.stderr
    trace = Trace.read(campaign / "runs" / "0001")
    phases = [fields for _, name, fields in babeltrace(tmp_path / "a.ctf") if name == "anchor 0001 phases"]
    assert sum(int(fields["duration_ns"]) for fields in phases) == trace.end_ns[-1]
    assert all("word" in fields["phase"] for fields in phases)
    again = unperturbed(tmp_path, "export", campaign, "-o", "a.ctf")
    assert (again.returncode, "is a folder" in again.stderr) == (2, True)
