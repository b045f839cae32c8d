"""Input that never begins or never ends is refused at once: pipes, devices, folders that the kernel makes up."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.harness.command_server import run_command

SPEC = """\
name: x
program: {source: %s, build: make, run: "{build}/x"}
measure: {interval: 5 ms, os: [minor_faults]}
campaign: {baseline_runs: 5, runs: 5}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "log.txt").write_text("".join(f"{at} event\n" for at in range(40)))
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("diagnose", "fifo", "log.txt"),
        ("diagnose", "log.txt", "fifo"),
        ("align", "fifo", "fifo"),
        ("structure", "fifo"),
        ("check", "fifo"),
        ("run", "fifo"),
        ("model", "fifo"),
        ("export", "fifo", "-o", "x.csv"),
        ("import", "csv", "fifo", "-o", "x"),
        ("diagnose", "/dev/zero", "log.txt"),
        ("structure", "/dev/urandom"),
        ("import", "csv", "/dev/zero", "-o", "x"),
    ],
    ids=" ".join,
)
def test_a_pipe_or_device_is_refused(folder: Path, words: tuple[str, ...]) -> None:
    done = run_command(folder, list(words))
    assert done.returncode == 2, done.stderr
    assert "is a pipe, a socket or a device" in done.stderr


def test_a_socket_is_refused(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
        assert "is a pipe, a socket or a device" in run_command(folder, ["structure", "socket"]).stderr


@pytest.mark.parametrize("source", ["/", "/proc", "/proc/self", "/sys", "/dev"])
def test_a_source_that_the_kernel_makes_up_is_refused(folder: Path, source: str) -> None:
    (folder / "x.yaml").write_text(SPEC % source)
    done = run_command(folder, ["run", "x.yaml"])
    assert done.returncode == 2, done.stderr
    assert f"`source`: {source} " in done.stderr


def test_a_table_of_a_hundred_thousand_columns_is_refused(folder: Path) -> None:
    names = ",".join(f"c{number}" for number in range(100_000))
    (folder / "wide.csv").write_text(f"{names}\n{','.join('1' for _ in range(100_000))}\n")
    done = run_command(folder, ["model", "wide.csv"])
    assert done.returncode == 2, done.stderr
    assert "100,000 columns are too many: keep at most 1,000" in done.stderr


def test_an_input_that_is_a_pipe_is_refused(folder: Path) -> None:
    (folder / "x.yaml").write_text(
        "name: x\nprogram: {run: 'true {inputs}/fifo', inputs: [fifo]}\nmeasure: {interval: 5 ms, os: [minor_faults]}\n"
        "campaign: {baseline_runs: 5, runs: 5}\n"
    )
    done = run_command(folder, ["run", "x.yaml"])
    assert done.returncode == 2, done.stderr
    assert "fifo" in done.stderr
