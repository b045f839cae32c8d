"""The program's process: real processes and signals; which programs take the sampler."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from unperturbed.errors import RunError
from unperturbed.harness.program.process import Command, cannot_preload, launch


def _command(folder: Path, *argv: str, **kwargs: object) -> Command:
    environment = {"PATH": os.environ["PATH"], "GREETING": "hello"}
    return Command(argv, folder, environment, folder / "out", folder / "err", **kwargs)  # type: ignore[arg-type]


def test_streams_environment_and_exit_code(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("from stdin")
    outcome = launch(
        _command(tmp_path, "sh", "-c", 'cat; echo "$GREETING $PWD"; echo oops >&2; exit 7', stdin=tmp_path / "in")
    )
    assert outcome.exit_code == 7
    assert not outcome.timed_out
    assert (tmp_path / "out").read_text() == f"from stdinhello {tmp_path}\n"
    assert (tmp_path / "err").read_text() == "oops\n"


def test_nothing_of_this_environment_leaks(tmp_path: Path) -> None:
    launch(_command(tmp_path, "env"))
    names = {line.partition("=")[0] for line in (tmp_path / "out").read_text().splitlines()}
    assert names == {"PATH", "GREETING"}


def test_a_signal_is_told_as_the_shell_tells_it(tmp_path: Path) -> None:
    assert launch(_command(tmp_path, "sh", "-c", "kill -SEGV $$")).exit_code == 128 + signal.SIGSEGV


def test_a_program_that_is_missing_or_not_executable(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no such program"):
        launch(_command(tmp_path, "no-such-program-anywhere"))
    (tmp_path / "text").write_text("text")
    with pytest.raises(RunError, match="not an executable file"):
        launch(_command(tmp_path, str(tmp_path / "text")))


def test_the_time_limit_stops_the_whole_group(tmp_path: Path) -> None:
    text = f"sleep 300 & echo $! > {tmp_path}/child; wait"
    outcome = launch(_command(tmp_path, "sh", "-c", text, timeout_s=0.5))
    assert outcome.timed_out
    assert outcome.seconds < 30
    _gone(int((tmp_path / "child").read_text()))


def test_a_program_that_ignores_the_polite_signal_is_killed(tmp_path: Path) -> None:
    outcome = launch(_command(tmp_path, "sh", "-c", "trap '' TERM; while :; do :; done", timeout_s=0.3))
    assert outcome.timed_out
    assert outcome.exit_code == 128 + signal.SIGKILL


def test_what_a_program_leaves_running_is_ended(tmp_path: Path) -> None:
    command = _command(tmp_path, "sh", "-c", f"sleep 300 & echo $! > {tmp_path}/child")
    launch(replace(command, first_only=True))
    _gone(int((tmp_path / "child").read_text()))
    outcome = launch(replace(command, timeout_s=0.5))
    assert outcome.timed_out
    assert outcome.still_running == ("sleep",)
    _gone(int((tmp_path / "child").read_text()))


def test_a_command_lasts_until_all_its_processes_have_ended(tmp_path: Path) -> None:
    outcome = launch(_command(tmp_path, "sh", "-c", "(sleep 0.3; echo late) & exit 3"))
    assert outcome.exit_code == 3
    assert outcome.seconds >= 0.3
    assert (tmp_path / "out").read_text() == "late\n"
    assert not outcome.timed_out


def test_a_daemon_is_waited_for_even_without_its_environment(tmp_path: Path) -> None:
    command = _command(tmp_path, "sh", "-c", "setsid -f env -i sh -c 'sleep 0.4; echo late'")
    assert launch(command).seconds >= 0.4
    assert (tmp_path / "out").read_text() == "late\n"
    text = f"setsid -f env -i sh -c 'echo $$ > {tmp_path}/daemon; exec sleep 300'"
    command = _command(tmp_path, "sh", "-c", text, timeout_s=1)
    assert launch(command).still_running == ("sleep",)
    _gone(int((tmp_path / "daemon").read_text()))
    launch(replace(command, argv=["sh", "-c", f"{text}; sleep 0.3"], first_only=True, timeout_s=None))
    _gone(int((tmp_path / "daemon").read_text()))


def test_an_interrupt_stops_the_program_and_is_passed_on(tmp_path: Path) -> None:
    # Whoever starts the tests in the background may have told them to ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            launch(_command(tmp_path, "sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 300"))
    finally:
        signal.signal(signal.SIGINT, before)
    _gone(int((tmp_path / "pid").read_text()))


def test_the_program_dies_with_a_killed_harness(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path\nfrom unperturbed.harness.program.process import Command, cannot_preload, launch\n"
        f"f = Path({str(tmp_path)!r})\n"
        "launch(Command(['sh', '-c', 'echo $$ > pid; exec sleep 300'], f, {'PATH': '/usr/bin:/bin'}, f / 'out', "
        "f / 'err'))\n"
    )
    harness = subprocess.Popen([sys.executable, "-c", script])
    pid_file = tmp_path / "pid"
    deadline = time.monotonic() + 60
    while not (pid_file.exists() and pid_file.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.02)
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    _gone(int(pid_file.read_text()))


def test_resources_are_told(tmp_path: Path) -> None:
    outcome = launch(_command(tmp_path, sys.executable, "-c", "x = bytearray(80_000_000); sum(range(3_000_000))"))
    assert outcome.exit_code == 0
    assert outcome.user_s > 0.01
    assert outcome.max_rss_kib > 70_000


def _gone(pid: int) -> None:
    """Wait until a process has ended: it may take the kernel a moment."""
    deadline = time.monotonic() + 60
    while (
        psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_which_programs_take_the_sampler(tmp_path: Path) -> None:
    source = tmp_path / "x.c"
    source.write_text("int main(void) { return 0; }\n")
    for name, flags in {"dynamic": [], "static": ["-static"]}.items():
        subprocess.run(["gcc", *flags, source, "-o", tmp_path / name], check=True)
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert cannot_preload(tmp_path / "dynamic") is None
    assert cannot_preload(script) is None
    assert "statically" in str(cannot_preload(tmp_path / "static"))
    # A 32-bit, big-endian program whose second header names a dynamic linker.
    head = bytearray(52)
    head[:7] = b"\x7fELF\x01\x02\x01"
    struct.pack_into(">I", head, 28, 64)
    struct.pack_into(">HH", head, 42, 32, 2)
    other = tmp_path / "other"
    other.write_bytes(bytes(head).ljust(64, b"\0") + struct.pack(">I28x", 1) + struct.pack(">I28x", 3))
    assert cannot_preload(other) is None
    other.write_bytes(bytes(head).ljust(64, b"\0") + struct.pack(">I28x", 1) * 2)
    assert "statically" in str(cannot_preload(other))
    other.write_bytes(b"\x7fELF\x02")
    assert cannot_preload(other) is None, "a damaged file is the kernel's to refuse"


def test_a_program_of_another_user_does_not_take_it(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give a file away")
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    os.chown(program, 1, -1)
    program.chmod(0o4755)
    assert "set-uid" in str(cannot_preload(program))


def test_arguments_that_are_too_long_are_named(tmp_path: Path) -> None:
    command = Command(["true", "x" * 200_000], tmp_path, {"PATH": "/bin"}, tmp_path / "out", tmp_path / "err")
    with pytest.raises(RunError, match="true: the kernel refuses its arguments or its environment, because one is"):
        launch(command)
