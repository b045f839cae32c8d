"""What is started ends with who started it: real processes, of which some start others, and real signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.rooms import modules
from unperturbed.common import supervision

FAMILY = "sleep 300 & (sleep 300; true) & sleep 1; echo $$ > ready; wait"
"""Ready after a second: the watcher learns of a session some microseconds after it began, on a busy host later."""

IN_A_BUILD = {"instrument.layout", "instrument.compiler.processes"}
"""Parts of the compiler wrapper: it runs in the session of a build."""

OUTLIVING = "harness.nodes."
"""Engines: parts of a campaign go on without the command that started them."""


def test_all_programs_are_started_in_one_place() -> None:
    starting = re.compile(r"subprocess\.(run|Popen|call|check_\w+)\(|os\.(posix_spawnp?|execv\w*|system|fork)\(")
    found = {name: starting.findall(path.read_text()) for name, path in modules().items()}
    starts = {name for name, calls in found.items() if calls}
    engines = {name for name in starts if name.startswith(OUTLIVING)}
    assert starts - engines == {"common.supervision"} | IN_A_BUILD
    for name in engines:
        text = modules()[name].read_text()
        assert re.search(r"^class \w+\((Engine|Here)\):", text, re.MULTILINE), (
            f"{name} is no engine: it starts programs by common.supervision"
        )
        assert len(found[name]) == text.count("start_new_session=True") == 1, "parts alone outlive the command"


def test_output_exit_code_and_input() -> None:
    done = supervision.run(["sh", "-c", "cat; echo oops >&2; exit 7"], input="given", capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, "given", "oops\n")


def test_a_time_limit_ends_the_whole_family(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        supervision.run(["sh", "-c", FAMILY], cwd=tmp_path, timeout=3, capture_output=True)
    _none_in(int((tmp_path / "ready").read_text()))


def test_what_is_left_running_is_ended(tmp_path: Path) -> None:
    supervision.run(["sh", "-c", "sleep 300 & echo $$ > ready"], cwd=tmp_path)
    _none_in(int((tmp_path / "ready").read_text()))


@pytest.mark.parametrize("way", ["KILL", "TERM", "HUP", "end"])
def test_a_family_dies_with_the_process_that_started_it(tmp_path: Path, way: str) -> None:
    # A test run under nohup ignores SIGHUP, and so would what it starts.
    heard = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    script = (
        heard
        + "import sys, time\nfrom unperturbed.common import supervision\n"
        + (
            f"supervision.start(['sh', '-c', {FAMILY!r}])\n"
            "while not __import__('pathlib').Path('ready').exists(): time.sleep(.01)\n"
            if way == "end"
            else f"supervision.run(['sh', '-c', {FAMILY!r}])\n"
        )
    )
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", script], cwd=tmp_path)
    session = _ready(tmp_path / "ready")
    if way != "end":
        process.send_signal(getattr(signal, f"SIG{way}"))
    process.wait()
    _none_in(session)


def test_a_daemon_in_a_session_of_its_own_dies_with_a_killed_process(tmp_path: Path) -> None:
    """It is known by its environment; a program of somebody else who stands in the same folder lives on."""
    mark = f"HOME={tmp_path}/scratch"
    inner = "(setsid sh -c 'cd /; echo $$ > \"$OUT\"; sleep 300' &); sleep 1"
    script = (
        f"import os, time\nfrom unperturbed.common import supervision\n"
        f"env = {{**os.environ, 'HOME': {mark[5:]!r}, 'OUT': {str(tmp_path / 'ready')!r}}}\n"
        f"supervision.end(supervision.start(['sleep', '0'], mark={mark!r}, env=env))\n"
        f"supervision.start(['sh', '-c', {inner!r}], mark={mark!r}, env=env)\n"
        "time.sleep(300)\n"
    )
    other = subprocess.Popen(["sleep", "300"], env={**os.environ, "PWD": f"{tmp_path}/scratch"})
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", script])
    session = _ready(tmp_path / "ready")
    time.sleep(1.5)  # the parent of the daemon has ended
    process.kill()
    process.wait()
    _none_in(session)
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.parametrize("key", ["build", "prepare"])
def test_a_build_dies_with_the_harness(tmp_path: Path, key: str) -> None:
    (tmp_path / "family.sh").write_text(f"cd {tmp_path}\n{FAMILY}\n")
    (tmp_path / "source").mkdir()
    command = f"{key}: sh {tmp_path}/family.sh" + ("\n  source: source" if key == "build" else "")
    (tmp_path / "x.yaml").write_text(
        f"name: x\nmeasure: {{source: simulated, hardware: [PAPI_TOT_INS]}}\nprogram:\n  run: /bin/true\n  {command}\n"
    )
    program = [sys.executable, "-m", "unperturbed.harness.cli", "run", "x.yaml"]
    process = subprocess.Popen(program, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    session = _ready(tmp_path / "ready", process)
    process.kill()
    process.communicate()
    _none_in(session)


def _ready(file: Path, process: subprocess.Popen[str] | None = None) -> int:
    deadline = time.monotonic() + 60
    while not (file.exists() and file.read_text().strip()):
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)
    return int(file.read_text())


def _none_in(session: int) -> None:
    """Wait until nothing runs in a session: it may take the kernel a moment."""
    deadline = time.monotonic() + 60
    while left := [process for process in psutil.process_iter() if _runs_in(process, session)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def _runs_in(process: psutil.Process, session: int) -> bool:
    try:
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False
