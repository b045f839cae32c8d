"""A run of a service, a program that does not end by itself: start it, wait until it is ready, use it, and stop it.

The measured run is the time of the load, or the time `duration`. The load runs in a session of its own, without a
sampler, and its CPU time is not the service's.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import select
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

from unperturbed.common import supervision
from unperturbed.errors import RunError
from unperturbed.harness.program.process import (
    KILLED,
    Command,
    ProcessOutcome,
    ServiceCommands,
    ServiceRun,
    as_in_shell,
    end_of_output,
    ended_within,
    has_ended,
    how_it_ended,
    start,
)
from unperturbed.harness.spec.sections._service import address_of, is_address

STOPPING_S = 10.0
"""Time in which a service must end after its signal."""

LOAD_STDOUT, LOAD_STDERR, READY_OUTPUT = "load.stdout", "load.stderr", "ready.output"
"""Files in the folder of a run: what the load printed, and what the last try of `ready` printed."""

_TRIES = 20  # Times to look for processes that outlived the first one of a service and to kill them
_POLL_S = 0.02  # Time between two looks whether the service is ready
_ANSWER_S = 1.0  # Time in which an address must answer
_SERVER_ERROR = 500  # Lowest HTTP status of a server that cannot answer yet
_TICKS = os.sysconf("SC_CLK_TCK")

_REQUESTS: tuple[re.Pattern[bytes], ...] = (
    re.compile(rb"^\s*(\d+) requests in [\d.]+m?s,", re.MULTILINE),  # wrk
    re.compile(rb"^Complete requests:\s+(\d+)", re.MULTILINE),  # ab
    re.compile(rb"^\s*\[\d{3}\]\s+(\d+) responses", re.MULTILINE),  # hey: a line for each status
    re.compile(rb"^\s*(\d+) requests completed in ", re.MULTILINE),  # redis-benchmark: a part for each command
    re.compile(rb"^requests: \d+ total, \d+ started, (\d+) done", re.MULTILINE),  # h2load
    re.compile(rb"^number of transactions actually processed: (\d+)", re.MULTILINE),  # pgbench
)
"""How load generators print their number of requests; several matches are added."""


class _NotMeasuredError(Exception):
    """Why a run of a service cannot be measured."""


class _EndedError(Exception):
    """The service has ended by itself, at the time that the text states."""


def serve(command: Command, service: ServiceCommands) -> ProcessOutcome:
    """Run a service and its load; what goes wrong is the outcome's `trouble`. No process is left behind.

    During the load, the harness sleeps in the kernel.
    """
    limit = time.monotonic() + (float("inf") if command.timeout_s is None else command.timeout_s)
    run, cpu, timed_out, ended = ServiceRun(), (0.0, 0.0), False, ""
    if is_address(service.ready) and not _answer(service.ready):
        return ProcessOutcome(0, False, 0.0, 0.0, 0.0, 0, ServiceRun(trouble=_taken(service.ready)))
    with supervision.orphans_ended():
        process = start(command)
        watch = os.pidfd_open(process.pid)
        try:
            run = replace(run, ready_s=_await_ready(command, service, watch, limit))
            _rest(watch, service.settle_s, "before its load began")
            before, began_ns = _cpu_times(process.pid, service), time.monotonic_ns()
            timed_out = _use(command, service, watch, limit)
            run = replace(run, began_ns=began_ns, ended_ns=time.monotonic_ns())
            after = _cpu_times(process.pid, service)
            cpu = (after[0] - before[0], after[1] - before[1])
            if not timed_out:
                _rest(watch, service.settle_s, "when its load had ended")
                requests = _requests(command.stdout.with_name(LOAD_STDOUT))
                run = replace(run, requests=requests, was_killed=_stop(process.pid, service, watch))
        except _NotMeasuredError as reason:
            run = replace(run, trouble=str(reason))
        except _EndedError as when:
            ended = str(when)
        except BaseException:
            supervision.end(process)
            raise
        finally:
            os.close(watch)
        if run.trouble or timed_out:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        supervision.end(process)
    code = as_in_shell(process.returncode)
    run = replace(run, exit_code=code)
    if ended:
        run = replace(run, trouble=f"the service {how_it_ended(code)} {ended}{'' if code else _BACKGROUND}")
    if run.was_killed or code == KILLED + service.stop or code < KILLED:
        code = service.right_code  # whatever it returns after the signal
    system_s = min(max(cpu[1], 0.0), cpu[0])
    seconds = (run.ended_ns - run.began_ns) / 1e9
    return ProcessOutcome(code, timed_out, seconds, cpu[0] - system_s, system_s, usage.ru_maxrss, run)


_BACKGROUND = (
    ". A program that puts itself into the background (a daemon) cannot be measured: start it in the foreground, as by "
    "`--daemonize no` or `-g 'daemon off;'`"
)


def _taken(address: str) -> str:
    """Describe a program that answers at the address of a service that was not started yet."""
    return (
        f"another program already answers at `ready` ({address}), before the service was started: end that program, or "
        "give the service a free port by `{port}`"
    )


def _rest(watch: int, seconds: float, when: str) -> None:
    """Leave the service idle for a time, so that the sampler takes a record."""
    if has_ended(watch, seconds):
        raise _EndedError(when)


def _await_ready(command: Command, service: ServiceCommands, watch: int, limit: float) -> float:
    """Wait until the service is ready; return how long that took."""
    began = time.monotonic()
    last = min(limit, began + service.ready_timeout_s)
    while service.ready:
        why_not = _answer(service.ready) if is_address(service.ready) else _try_command(command, service, last)
        if not why_not:
            break
        if has_ended(watch, _POLL_S):
            raise _EndedError("before it was ready")
        if time.monotonic() > last:
            raise _NotMeasuredError(
                f"the service was not ready within {last - began:.3g} s: `ready` ({service.ready}): {why_not}. Correct "
                "`ready`, or raise `ready_timeout`"
            )
    if has_ended(watch, 0):  # another program may have answered at its address
        raise _EndedError("before it was ready")
    return time.monotonic() - began


def _answer(address: str) -> str:
    """Return why an address does not answer; '' if it does."""
    scheme, host, port = address_of(address)
    if scheme == "tcp":
        try:
            socket.create_connection((host, port), _ANSWER_S).close()
        except OSError as error:
            return error.strerror or str(error)
        return ""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # services under test sign for themselves
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    try:
        urllib.request.build_opener(*handlers).open(address, timeout=_ANSWER_S).close()
    except urllib.error.HTTPError as answer:
        return f"HTTP status {answer.code}" if answer.code >= _SERVER_ERROR else ""
    except http.client.BadStatusLine as error:  # it quotes all of what is no status line
        return str(error) if isinstance(error, OSError) else "the answer is not HTTP"
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        return str(getattr(reason, "strerror", None) or reason)
    return ""


def _try_command(command: Command, service: ServiceCommands, last: float) -> str:
    """Return why the service is not ready according to the command of `ready`; '' if it is."""
    words = shlex.split(service.ready)
    output = command.stdout.with_name(READY_OUTPUT)
    try:
        with output.open("wb") as file:
            tried = supervision.run(
                [_program(words[0], service), *words[1:]],
                timeout=max(_ANSWER_S, last - time.monotonic()),
                cwd=command.folder,
                env=dict(service.environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
    except FileNotFoundError:
        raise _NotMeasuredError(f"`ready`: {words[0]}: no such program") from None
    except subprocess.TimeoutExpired:
        return "it did not end"
    shown = end_of_output(output)
    return f"exit code {tried.returncode}{shown and f', {shown}'}" if tried.returncode else ""


def _use(command: Command, service: ServiceCommands, watch: int, limit: float) -> bool:
    """Run the load to its end, or for its time; return whether the run's time limit was reached."""
    began = time.monotonic()
    until = began + (float("inf") if service.duration_s is None else service.duration_s)
    if not service.load:
        if has_ended(watch, min(until, limit) - began):
            raise _EndedError(f"after {time.monotonic() - began:.2g} s, before the measured run ended")
        return until > limit
    stdout, stderr = (command.stdout.with_name(name) for name in (LOAD_STDOUT, LOAD_STDERR))
    try:
        load = start(Command(service.load, command.folder, service.environment, stdout, stderr))
    except RunError as error:
        raise _NotMeasuredError(f"`load`: {error}") from None
    try:
        ends = os.pidfd_open(load.pid)
        try:
            ready = _first_of(ends, watch, min(until, limit) - began)
        finally:
            os.close(ends)
        if ends not in ready and watch not in ready:
            return until > limit  # its time is over
        if ends not in ready:
            raise _EndedError(f"{time.monotonic() - began:.2g} s after its load began")
        if code := load.wait():
            shown = end_of_output(stderr) or end_of_output(stdout)
            what = f"failed with exit code {code}" if code > 0 else f"was killed by {signal.Signals(-code).name}"
            said = f"its last output is:\n{shown}" if shown else "it printed nothing"
            if has_ended(watch, _POLL_S):
                raise _EndedError(f"while its load ran; the load ({shlex.join(service.load)}) {what}; {said}\n")
            raise _NotMeasuredError(f"the load {what} ({shlex.join(service.load)}); {said}\n")
        return False
    finally:
        supervision.end(load)


def _first_of(first: int, second: int, seconds: float) -> set[int]:
    """Return which of two processes have ended, by their pidfds; wait for one of them at most so long."""
    poller = select.poll()
    poller.register(first, select.POLLIN)
    poller.register(second, select.POLLIN)
    return {file for file, _ in poller.poll(None if seconds == float("inf") else max(0.0, seconds * 1000))}


def _stop(pid: int, service: ServiceCommands, watch: int) -> bool:
    """Send the service its signal and wait for its end; return whether it had to be killed.

    An observer ends after all processes of the service: those that outlive the first one are killed.
    """
    if not service.observed:
        return _must_be_killed(pid, service.stop)
    first = next((process.pid for process in supervision.descendants(pid) if process.parent == pid), None)
    was_killed = first is not None and _must_be_killed(first, service.stop)
    for _ in range(_TRIES):
        for process in supervision.descendants(pid)[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if has_ended(watch, STOPPING_S / _TRIES):
            return was_killed
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    return was_killed


def _must_be_killed(pid: int, number: signal.Signals) -> bool:
    """Send a process a signal and wait for its end; return whether it had to be killed."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        if not ended_within(pid, STOPPING_S):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def _cpu_times(pid: int, service: ServiceCommands) -> tuple[float, float]:
    """Return the CPU time of all processes of the service so far, and the system's part, in seconds.

    The kernel counts the former exactly, the latter in ticks.
    """
    total, system = 0.0, 0
    for process in supervision.descendants(pid)[1 if service.observed else 0 :]:
        total += supervision.cpu_seconds(process.pid) + (process.children_user + process.children_system) / _TICKS
        system += process.system + process.children_system
    return total, system / _TICKS


def _requests(output: Path) -> int | None:
    """Return the number of requests that a load generator printed; None if it is not known to print it."""
    text = output.read_bytes() if output.is_file() else b""
    counts = next(filter(None, (pattern.findall(text) for pattern in _REQUESTS)), None)
    return None if counts is None else sum(map(int, counts))


def _program(name: str, service: ServiceCommands) -> str:
    return shutil.which(name, path=service.environment.get("PATH", os.defpath)) or name
