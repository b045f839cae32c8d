"""pyperf's own commands with the hook.

What its workers did is in their JSON, and what could not be counted says why.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyperf
import pytest

from unperturbed.collectors.self_counting.pyperf_hook import DEFAULT_METRICS, Tally

PAGES = 256
TOUCH = f"mmap.mmap(-1, {PAGES} * mmap.PAGESIZE).write(data)"
SETUP = f"import mmap; data = bytes({PAGES} * mmap.PAGESIZE)"
# Two workers, each one warm-up and two values of ten loops.
QUICK = ("-p", "2", "-w", "1", "-n", "2", "-l", "10", "-q")
LOOPS = 2 * 10


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that makes the entry point known, whether or not the package itself is installed."""
    folder = tmp_path_factory.mktemp("installed")
    distribution = folder / "unperturbed_hook-0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: unperturbed-hook\nVersion: 0\n")
    (distribution / "entry_points.txt").write_text(
        "[pyperf.hook]\nunperturbed = unperturbed.collectors.self_counting.pyperf_hook:UnperturbedHook\n"
    )
    return folder


def run_pyperf(installed: Path, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, "-m", "pyperf", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def metadata_of(file: Path) -> list[dict[str, Any]]:
    return [run.get_metadata() for run in pyperf.BenchmarkSuite.load(str(file)).get_benchmarks()[0].get_runs()]


def ours(metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        name.removeprefix("unperturbed_"): value for name, value in metadata.items() if name.startswith("unperturbed_")
    }


@pytest.fixture(scope="module")
def default_run(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("default") / "run.json"
    done = run_pyperf(installed, "timeit", *QUICK, "--hook", "unperturbed", "-o", file, "-s", SETUP, TOUCH)
    assert done.returncode == 0, done.stderr
    return file


def test_every_worker_has_its_counts(default_run: Path) -> None:
    runs = metadata_of(default_run)
    assert len(runs) == 2
    for metadata in runs:
        assert metadata["hooks"] == "unperturbed"
        found = ours(metadata)
        # The warm-up is not among the pairs.
        assert found["pairs"] == 2
        assert LOOPS * PAGES <= found["perf::page-faults"] < 1.25 * LOOPS * PAGES
        assert LOOPS * PAGES <= found["minor_faults"] < 1.25 * LOOPS * PAGES
        assert found["perf::task-clock"] > 0
        assert found["enabled_ns"] == found["running_ns"] > 0
        assert found["multiplexed"] == "no"
        # The hook itself brings no thread that works.
        assert found["other_threads_ns"] < 0.1 * found["perf::task-clock"]
        assert "perf::task-clock" in found["counted_by"]
        assert "perf::task-clock" in found["empty_pair"]
        assert "main thread" in found["scope"]


def test_each_metric_is_counted_or_refused_with_a_reason(default_run: Path) -> None:
    for metadata in metadata_of(default_run):
        found = ours(metadata)
        for name in DEFAULT_METRICS:
            assert (name in found) != (name in found.get("not_counted", ""))
        for name in ("PAPI_TOT_INS", "PAPI_TOT_CYC"):
            assert found.get(name, 1) > 0
        if "PAPI_TOT_INS" not in found:
            assert "papi: " in found["not_counted"]
            assert "perf_event: perf_event_open: " in found["not_counted"]


def test_pyperf_shows_and_compares_what_holds_the_counts(installed: Path, default_run: Path, tmp_path: Path) -> None:
    for command in (("metadata",), ("stats",), ("show", "-m"), ("dump", "-v"), ("check",), ("compare_to", default_run)):
        done = run_pyperf(installed, *command, default_run)
        assert done.returncode == 0, done.stderr
    shown = run_pyperf(installed, "dump", "-v", default_run).stdout
    assert "unperturbed_perf::page-faults: " in shown
    faults = tmp_path / "faults.json"
    extracted = run_pyperf(
        installed, "convert", default_run, "--extract-metadata", "unperturbed_perf::page-faults", "-o", faults
    )
    assert extracted.returncode == 0, extracted.stderr
    values = pyperf.BenchmarkSuite.load(str(faults)).get_benchmarks()[0].get_values()
    assert list(values) == [ours(metadata)["perf::page-faults"] for metadata in metadata_of(default_run)]


def test_the_user_names_what_is_counted(installed: Path, tmp_path: Path) -> None:
    names = ["perf::page-faults:u", "sched_run_ns", "chars_read", "callgrind::D1mw"]
    done = run_pyperf(
        installed,
        *(
            "timeit",
            *QUICK,
            "--hook",
            "unperturbed",
            "--inherit-environ=UNPERTURBED_METRICS",
            "-o",
            tmp_path / "run.json",
            "-s",
        ),
        *(SETUP, TOUCH),
        UNPERTURBED_METRICS=", ".join(names) + ",",
    )
    assert done.returncode == 0, done.stderr
    for metadata in metadata_of(tmp_path / "run.json"):
        found = ours(metadata)
        counted = {"perf::page-faults:u", "sched_run_ns", "chars_read"}
        assert found.keys() >= counted
        assert not found.keys() & set(DEFAULT_METRICS)
        assert found["perf::page-faults:u"] >= LOOPS * PAGES
        assert found["sched_run_ns"] > 0
        assert found["chars_read"] > 0
        assert found["not_counted"].startswith("callgrind::D1mw (")


@pytest.mark.parametrize(
    ("metrics", "inherit", "said"),
    [
        ("perf::task-clok", True, "perf has no event 'task-clok'; did you mean perf::task-clock?"),
        ("minor_faults,PAPI_TOT_IN", True, "unknown metric 'PAPI_TOT_IN'; did you mean PAPI_TOT_INS"),
        ("callgrind::D1mw", True, "none of the metrics in UNPERTURBED_METRICS can be counted here: callgrind::D1mw ("),
        ("perf::page-faults", False, "add --inherit-environ=UNPERTURBED_METRICS to the command"),
    ],
)
@pytest.mark.parametrize(
    "command", [("timeit", *QUICK, "pass"), ("command", "-p", "1", "-w", "1", "-n", "1", "-l", "1", "true")]
)
def test_mistakes_are_said_in_one_line(
    installed: Path, command: tuple[str, ...], metrics: str, inherit: bool, said: str
) -> None:
    options = ["--hook", "unperturbed", *(["--inherit-environ=UNPERTURBED_METRICS"] if inherit else [])]
    done = run_pyperf(installed, command[0], *options, *command[1:], UNPERTURBED_METRICS=metrics)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()[:2]
    assert first == "ERROR setting up hook 'unperturbed':"
    assert said in second
    # pyperf itself shows where its manager met the end of a worker; the worker shows nothing.
    assert "unperturbed/collectors" not in done.stderr


def test_no_compiler_is_said(installed: Path, tmp_path: Path) -> None:
    done = run_pyperf(
        installed,
        "timeit",
        *QUICK,
        "--hook",
        "unperturbed",
        "pass",
        HOME=str(tmp_path),
        PATH=str(tmp_path),
        XDG_CACHE_HOME="",
    )
    assert done.returncode == 1
    assert "no C compiler 'cc' on this host" in done.stderr.splitlines()[1]


def test_a_command_is_counted_with_what_it_starts(installed: Path, tmp_path: Path) -> None:
    program = f"import os, mmap; assert not [n for n in os.environ if n.startswith('UNPERTURBED')]; {SETUP}; {TOUCH}"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {program!r}], check=True)"
    file = tmp_path / "run.json"
    done = run_pyperf(
        installed,
        *("command", "-p", "2", "-w", "1", "-n", "2", "-l", "3", "-q", "--hook", "unperturbed", "-o", file, "--"),
        *(sys.executable, "-S", "-c", outer),
    )
    assert done.returncode == 0, done.stderr
    for metadata in metadata_of(file):
        found = ours(metadata)
        assert found["pairs"] == 2
        assert found["perf::page-faults"] > 2 * 3 * PAGES
        # perf counts the thread and its children, getrusage the process and its children: the same but for what ends in
        # between.
        assert (
            abs(found["perf::page-faults"] - found["minor_faults"] - found["major_faults"])
            < 0.05 * found["minor_faults"]
        )
        assert found["perf::task-clock"] > 0
        assert "other_threads_ns" not in found
        assert "the command" in found["scope"]


def test_time_of_other_threads_is_told(installed: Path, tmp_path: Path) -> None:
    setup = "import hashlib, threading; data = bytes(4 << 20)"
    statement = "t = threading.Thread(target=hashlib.sha256, args=(data,)); t.start(); t.join()"
    file = tmp_path / "run.json"
    done = run_pyperf(installed, "timeit", *QUICK, "--hook", "unperturbed", "-o", file, "-s", setup, statement)
    assert done.returncode == 0, done.stderr
    for metadata in metadata_of(file):
        found = ours(metadata)
        assert found["other_threads_ns"] > found["perf::task-clock"]


def test_the_hook_loads_nothing_slow() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, unperturbed.collectors.self_counting.pyperf_hook; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "unperturbed.collectors.self_counting.process" in loaded
    # numpy's threads turn their first 25 ms of idleness into CPU time, in the middle of what is measured.
    assert not {"numpy", "polars", "numba", "pydantic", "scipy", "rapidfuzz", "rich"} & set(loaded)


def test_counters_that_did_not_run_all_the_time_are_not_scaled() -> None:
    tally = Tally(
        "some scope",
        sources={"perf_event": ["perf::cycles"]},
        totals={"perf::cycles": 63},
        enabled_ns=200,
        running_ns=126,
    )
    tally.unread = 1
    found = ours(tally.metadata())
    assert found["perf::cycles"] == 63
    assert found["multiplexed"] == "yes: counted 63.0% of the time; the totals are not scaled up"
    assert found["unread_pairs"] == 1


def test_tallies_of_a_command_are_summed() -> None:
    tally = Tally("some scope")
    one = Tally("some scope", {"perf_event": ["a"]}, {"b": "no"}, {"a": 2}, {"a": 5}, 1, 0, 10, 9)
    tally.add(one)
    tally.add(one)
    assert (tally.totals, tally.pairs, tally.enabled_ns, tally.running_ns) == ({"a": 10}, 2, 20, 18)
    assert ours(tally.metadata())["not_counted"] == "b (no)"
