"""Runs of services: real servers that are ready late or never, end early, ignore signals or become daemons."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from unperturbed.errors import RunError
from unperturbed.harness.program import service as module
from unperturbed.harness.program.process import Command, ProcessOutcome, ServiceCommands
from unperturbed.harness.program.service import serve
from unperturbed.harness.spec.sections._service import find_free_port

_LISTEN = """
import os, signal, socket, sys, time
server = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
open("pid", "w").write(str(os.getpid()))
def serve(end=1e9):
    began = time.process_time()
    while time.process_time() - began < end:
        one = server.accept()[0]
        one.recv(99)
        one.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n")
        one.close()
"""


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Check that no process is left behind, whatever became of the run."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    assert [child.cmdline() for child in left if child.is_running() and "-I" not in child.cmdline()] == []


def run(
    folder: Path,
    code: str,
    *,
    ready: str = "tcp://127.0.0.1:{port}",
    load: str = "sleep 0.1",
    timeout_s: float = 30,
    ready_timeout_s: float = 5,
    duration_s: float | None = None,
    stop: signal.Signals = signal.SIGTERM,
    port: int | None = None,
) -> ProcessOutcome:
    port = find_free_port() if port is None else port
    environment = {"PATH": os.environ["PATH"], "PORT": str(port)}
    ready = ready.replace("{port}", str(port))
    words = tuple(load.replace("{port}", str(port)).split())
    commands = ServiceCommands(ready, ready_timeout_s, words, duration_s, stop, 0, environment)
    argv = [sys.executable, "-S", "-c", code]
    files = folder / "out", folder / "err"
    outcome = serve(Command(argv, folder, environment, *files, timeout_s=timeout_s, service=commands), commands)
    assert outcome.service is not None
    if (folder / "pid").exists():
        with pytest.raises(psutil.NoSuchProcess):
            psutil.Process(int((folder / "pid").read_text()))
    return outcome


def trouble(outcome: ProcessOutcome) -> str:
    assert outcome.service is not None
    return outcome.service.trouble


@pytest.mark.parametrize("ready", ["tcp://127.0.0.1:{port}", "http://127.0.0.1:{port}/health", "test -s pid"])
def test_the_run_is_the_time_of_the_load(tmp_path: Path, ready: str) -> None:
    began = time.monotonic()
    outcome = run(tmp_path, f"import time; time.sleep(0.3)\n{_LISTEN}\nserve()", ready=ready, load="sleep 0.2")
    assert trouble(outcome) == ""
    assert 0.2 <= outcome.seconds < time.monotonic() - began - 0.3
    assert outcome.service is not None
    assert outcome.service.ready_s >= 0.3
    assert outcome.exit_code == 0  # SIGTERM is how it ends
    assert outcome.service.exit_code == 128 + signal.SIGTERM


def test_cpu_time_is_that_of_the_service_within_the_load(tmp_path: Path) -> None:
    busy = "def work(s):\n began = time.process_time()\n while time.process_time() - began < s: pass\n"
    use = "import os, time, socket\nbegan = time.process_time()\nwhile time.process_time() - began < 0.5: pass\n"
    (tmp_path / "load.py").write_text(use + "socket.create_connection(('127.0.0.1', int(os.environ['PORT']))).recv(1)")
    code = f"import time\n{busy}work(0.4)\n{_LISTEN}\n{busy}server.accept()[0].close()\none = server.accept()[0]\n"
    code += "if not os.fork(): work(0.2); os._exit(0)\nwork(0.1)\nos.wait()\none.close()\nserve()"
    outcome = run(tmp_path, code, load=f"{sys.executable} -S load.py")
    assert trouble(outcome) == ""
    assert 0.29 < outcome.user_s + outcome.system_s < 0.36  # the child too; not its start, not the load


@pytest.mark.parametrize(
    ("load", "output", "requests"),
    [
        ("ab", "Complete requests:      2000\nFailed requests:        0\n", 2000),
        ("wrk", "  68411 requests in 2.00s, 7.99MB read\n", 68411),
        ("hey", "Status code distribution:\n  [200]\t1990 responses\n  [503]\t10 responses\n", 2000),
        ("redis-benchmark", "  1000 requests completed in 0.02 seconds\n  1000 requests completed in 0.01 s\n", 2000),
        ("sleep", "", None),
    ],
)
def test_requests_that_the_load_prints_are_counted(
    tmp_path: Path, load: str, output: str, requests: int | None
) -> None:
    (tmp_path / load).write_text(output)
    outcome = run(tmp_path, f"{_LISTEN}\nserve()", load=f"cat {load}")
    assert outcome.service is not None
    assert outcome.service.requests == requests


def test_a_load_is_stopped_after_the_duration(tmp_path: Path) -> None:
    outcome = run(tmp_path, f"{_LISTEN}\nserve()", load="sleep 100", duration_s=0.3)
    assert trouble(outcome) == ""
    assert 0.3 <= outcome.seconds < 2


def test_without_a_load_the_service_is_measured_for_its_duration(tmp_path: Path) -> None:
    outcome = run(tmp_path, f"{_LISTEN}\nserve()", load="", duration_s=0.3)
    assert trouble(outcome) == ""
    assert 0.3 <= outcome.seconds < 2


def test_a_service_that_is_never_ready(tmp_path: Path) -> None:
    outcome = run(tmp_path, "import time; time.sleep(100)", ready_timeout_s=0.3)
    assert "the service was not ready within 0.3 s: `ready` (tcp://127.0.0.1:" in trouble(outcome)
    assert "): Connection refused. Correct `ready`, or raise `ready_timeout`" in trouble(outcome)
    outcome = run(tmp_path, "import time; time.sleep(100)", ready="/usr/bin/ls nothing", ready_timeout_s=0.3)
    assert "`ready` (/usr/bin/ls nothing): exit code 2, /usr/bin/ls: cannot access 'nothing'" in trouble(outcome)
    outcome = run(tmp_path, "import time; time.sleep(100)", ready="no-such-program", ready_timeout_s=0.3)
    assert trouble(outcome) == "`ready`: no-such-program: no such program"


def test_a_server_error_is_no_answer(tmp_path: Path) -> None:
    code = f"{_LISTEN.replace('200 OK', '503 Busy')}\nserve()"
    outcome = run(tmp_path, code, ready="http://127.0.0.1:{port}/", ready_timeout_s=0.5)
    assert "HTTP status 503" in trouble(outcome)


def test_an_answer_that_is_not_http_is_not_quoted(tmp_path: Path) -> None:
    code = f"{_LISTEN}".replace('b"HTTP/1.0 200 OK\\r\\n\\r\\n"', "bytes(range(256)) * 999")
    outcome = run(tmp_path, f"{code}\nserve()", ready="http://127.0.0.1:{port}/", ready_timeout_s=0.5)
    assert trouble(outcome).endswith("/): the answer is not HTTP. Correct `ready`, or raise `ready_timeout`")


def test_a_service_that_ends_before_it_is_ready(tmp_path: Path) -> None:
    assert trouble(run(tmp_path, "raise SystemExit(3)")) == "the service ended with exit code 3 before it was ready"
    killed = run(tmp_path, "import os; os.kill(os.getpid(), 11)")
    assert trouble(killed) == "the service was killed by SIGSEGV (exit code 139) before it was ready"


def test_a_port_in_use_is_not_taken_for_the_service(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        outcome = run(tmp_path, f"import time; time.sleep(2)\n{_LISTEN}", port=other.getsockname()[1])
    assert trouble(outcome).startswith("another program already answers at `ready` (tcp://127.0.0.1:")
    assert not (tmp_path / "err").exists()  # the service was not started


def test_a_service_that_ends_while_its_load_runs(tmp_path: Path) -> None:
    outcome = run(tmp_path, f"{_LISTEN}\ntime.sleep(0.4); sys.exit(5)", load="sleep 100")
    assert trouble(outcome).startswith("the service ended with exit code 5 0.")
    assert trouble(outcome).endswith(" s after its load began")
    outcome = run(tmp_path, f"{_LISTEN}\ntime.sleep(0.4); sys.exit(5)", load="", duration_s=100)
    assert "before the measured run ended" in trouble(outcome)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (
            "ls nothing",
            "the load failed with exit code 2 (ls nothing); its last output is:\n/usr/bin/ls: cannot access 'nothing'",
        ),
        ("false", "the load failed with exit code 1 (false); it printed nothing"),
        ("no-such-load", "`load`: no-such-load: no such program"),
    ],
)
def test_a_load_that_fails_is_named(tmp_path: Path, load: str, message: str) -> None:
    assert trouble(run(tmp_path, f"{_LISTEN}\nserve()", load=load)).startswith(message)


def test_a_service_that_ignores_its_signal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOPPING_S", 0.3)
    outcome = run(tmp_path, f"{_LISTEN}\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nserve()", load="sleep 0.3")
    assert outcome.service is not None
    assert outcome.service.was_killed
    assert outcome.exit_code == 0


def test_the_signal_can_be_chosen_and_a_crash_is_no_right_end(tmp_path: Path) -> None:
    code = f"{_LISTEN}\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(7))\nserve()"
    outcome = run(tmp_path, code, load="sleep 0.3", stop=signal.SIGINT)
    assert outcome.service is not None
    assert (outcome.exit_code, outcome.service.exit_code) == (0, 7)
    crash = f"{_LISTEN}\nsignal.signal(signal.SIGTERM, lambda *_: os.abort())\nserve()"
    assert run(tmp_path, crash, load="sleep 0.3").exit_code == 128 + signal.SIGABRT


def test_a_daemon_is_refused_and_ended(tmp_path: Path) -> None:
    code = f"import os\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n{_LISTEN}\nserve()"
    outcome = run(tmp_path, code)
    assert "the service ended with exit code 0 " in trouble(outcome)
    assert "start it in the foreground" in trouble(outcome)


def test_workers_with_sessions_of_their_own_are_counted_and_ended(tmp_path: Path) -> None:
    worker = "os.setsid(); open('worker', 'w').write(str(os.getpid())); time.sleep(100)"
    code = f"{_LISTEN}\nif not os.fork(): {worker}\nserve()"
    assert trouble(run(tmp_path, code, ready="test -s worker")) == ""
    assert not psutil.pid_exists(int((tmp_path / "worker").read_text()))


def test_the_time_limit_of_the_run(tmp_path: Path) -> None:
    outcome = run(tmp_path, f"{_LISTEN}\nserve()", load="sleep 100", timeout_s=0.5)
    assert outcome.timed_out


@pytest.mark.parametrize("code", ["import time; time.sleep(100)", f"{_LISTEN}\nserve()"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, code: str) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.6, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, code, load="sleep 100")
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_service_that_does_not_exist(tmp_path: Path) -> None:
    commands = ServiceCommands("", 1, ("true",), None, signal.SIGTERM, 0, {})
    with pytest.raises(RunError, match="no such program"):
        serve(Command(["no-such-service"], tmp_path, {}, tmp_path / "out", tmp_path / "err"), commands)
