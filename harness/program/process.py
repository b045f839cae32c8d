"""The measured program's process: builds the command, checks that a sampler can be preloaded, and runs the program.

The harness starts the program without a shell, sets a time limit, does not poll, and leaves no process behind.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shlex
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.collectors.records.ranks import launcher_in
from unperturbed.common import supervision
from unperturbed.common.wording import did_you_mean, first_of
from unperturbed.errors import HostError, RunError
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import key_position
from unperturbed.harness.spec.sections._service import find_free_port
from unperturbed.harness.spec.sections.program import PROGRAM_PATH, Program
from unperturbed.harness.spec.text import substitute

if TYPE_CHECKING:
    from unperturbed.harness.program.attach import Window

_STARTS = 7  # Number of starts whose fastest is the time to start a program
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05  # Between two looks whether processes are left
_SHOWN_BYTES = 2000
KILLED = 128  # Exit codes above this mean a signal, as in the shell
_GRACE_S = 2.0  # Time between SIGTERM and SIGKILL for a command that is stopped


@dataclass(frozen=True)
class Command:
    """A command, its folder and its files; `environment` replaces this process's environment."""

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    stdout: Path
    stderr: Path
    stdin: Path | None = None
    timeout_s: float | None = None
    first_only: bool = False  # The command ends with its first process; the others are then killed
    service: ServiceCommands | None = None  # How to use and to end a program that does not end by itself
    window: Window | None = None  # What runs already, and for how long to sample it


@dataclass(frozen=True)
class ServiceCommands:
    """How a service is used and ended in one run; the placeholders are filled in."""

    ready: str  # An address or a command; '' if the service is ready at once
    ready_timeout_s: float
    load: tuple[str, ...]  # The words of the command that uses the service; () without one
    duration_s: float | None  # Length of the measured run; None: as long as the load
    stop: signal.Signals
    right_code: int  # The exit code of a correct run
    environment: Mapping[str, str]  # The environment of `ready` and `load`, without a sampler
    observed: bool = False  # Whether the started process is an observer, and the service its child
    # Time before and after the measured run in which the sampler takes a record of the idle service
    settle_s: float = 0.0


@dataclass(frozen=True)
class ServiceRun:
    """The measured run of a service."""

    began_ns: int = 0  # CLOCK_MONOTONIC at the start of the load, and at its end
    ended_ns: int = 0
    ready_s: float = 0.0  # Time from the start until the service was ready
    requests: int | None = None  # Number of requests, if the load generator prints it
    exit_code: int = 0  # Exit code of the service after `stop`
    was_killed: bool = False  # Whether the service did not end after `stop`
    trouble: str = ""  # Why there is no such run


@dataclass(frozen=True)
class ProcessOutcome:
    """How a command ended."""

    exit_code: int  # As in a shell: 128 + n for a command killed by signal n
    timed_out: bool  # Whether the command was stopped at its time limit
    seconds: float  # Wall-clock time
    # user_s, system_s: CPU time, including all waited-for children.
    user_s: float
    system_s: float
    max_rss_kib: int  # Largest resident memory of any of these processes
    # Of a service; all times are then those of the measured run, the CPU time that of all its processes.
    service: ServiceRun | None = None
    still_running: tuple[str, ...] = ()  # Executables of processes that had outlived the first until the time limit


def launch(command: Command, *, started_as: Callable[[int], None] | None = None) -> ProcessOutcome:
    """Run a command in its own session and wait for all its processes; an interrupt kills them and is raised again.

    The harness sleeps in the kernel while the program runs, and executes nothing. setpriv(1) starts the command, so
    that the kernel kills the command if the harness is killed.

    `started_as`: Called with the process number after the start, for runs that are watched instead of measured.
    """
    with supervision.orphans_ended() as orphans:
        return _launch(command, started_as, orphans)


def _launch(
    command: Command, started_as: Callable[[int], None] | None, orphans: Callable[[], Iterable[int]]
) -> ProcessOutcome:
    started, process = time.monotonic(), start(command)
    timed_out, outlived = False, set[int]()
    try:
        if started_as is not None:
            started_as(process.pid)
        watch = os.pidfd_open(process.pid)
        try:
            if not has_ended(watch, command.timeout_s):
                timed_out = True
                _stop(process.pid, watch)
        finally:
            os.close(watch)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        if not command.first_only and not timed_out:
            end_s = None if command.timeout_s is None else started + command.timeout_s
            outlived, waited = _wait_for_others(lambda: _left(process.pid, orphans), end_s)
            seconds += waited
    except BaseException:
        supervision.end(process)
        _kill_each(_left(process.pid))
        raise
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    still = tuple(sorted({_name_of(pid) for pid in outlived}))
    _kill_each(_left(process.pid) if timed_out else outlived)
    supervision.end(process)  # processes that the program left running would disturb the next run
    return ProcessOutcome(
        as_in_shell(code),
        timed_out or bool(outlived),
        seconds,
        usage.ru_utime,
        usage.ru_stime,
        usage.ru_maxrss,
        still_running=still,
    )


def start(command: Command) -> subprocess.Popen[bytes]:
    """Start a command without waiting for it; the caller ends it by `supervision.end`."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise HostError(
            "cannot find setpriv, which the harness needs to stop programs (on Debian: apt-get install util-linux)"
        )
    program = shutil.which(command.argv[0], path=command.environment.get("PATH", os.defpath))
    if program is None:
        there = Path(command.argv[0]).exists()
        raise RunError(f"{command.argv[0]}: " + ("not an executable file" if there else "no such program"))
    # The folder of the run, which no other program has in its environment
    own = f"{command.stdout.parent}{os.sep}"
    mark = next((f"{name}={value}" for name, value in command.environment.items() if value.startswith(own)), "")
    with contextlib.ExitStack() as stack:
        stdin = stack.enter_context(Path(command.stdin or os.devnull).open("rb"))
        stdout = stack.enter_context(command.stdout.open("wb"))
        stderr = stack.enter_context(command.stderr.open("wb"))
        try:
            return supervision.start(
                [setpriv, "--pdeathsig", "KILL", "--", program, *command.argv[1:]],
                mark=mark,
                cwd=command.folder,
                env=dict(command.environment),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
        except OSError as error:
            if error.errno != errno.E2BIG:
                raise
            most = os.sysconf("SC_ARG_MAX") // 1024
            raise RunError(
                f"{command.argv[0]}: the kernel refuses its arguments or its environment, because one is longer than "
                f"128 KiB or all together are longer than {most} KiB, with the few KiB that measuring adds: pass long "
                "values in a file"
            ) from None


def _kill_each(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _wait_for_others(left: Callable[[], set[int]], end_s: float | None) -> tuple[set[int], float]:
    """Wait until no process is left; return those left at the time limit, and the time waited."""
    began = now = time.monotonic()
    pause = _FIRST_PAUSE_S
    while running := left() or left():  # a process that was just created by one that has ended may be missed once
        if end_s is not None and now >= end_s:
            return running, now - began
        time.sleep(pause)
        pause, now = min(2 * pause, _LONGEST_PAUSE_S), time.monotonic()
    return set(), now - began


def _left(session: int, others: Callable[[], Iterable[int]] = tuple) -> set[int]:
    """Return the processes of a session, and others by their numbers, that have not ended."""
    # The session first: a process that leaves it meanwhile is among the others.
    found = {process.pid for process in supervision.processes() if not process.is_zombie and process.session == session}
    return found | set(others())


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "a process that has just ended"


def check_program(spec: CampaignSpec, command: Command, build: Path | None) -> None:
    """Raise RunError, with the position of `run` and near names in the build, if the program cannot be executed.

    `build`: The folder of the build; None if nothing is built.
    """
    name = command.argv[0]
    if shutil.which(name, path=command.environment.get("PATH", os.defpath)) is not None:
        return
    own = next((other for other, item in spec.programs.items() if item.run == spec.program.run), "")
    place = key_position(spec, *(("programs", own) if own else ("program",)), "run")
    path = Path(name)
    fault = "is not an executable file (chmod +x)" if path.exists() else "no such program"
    if build is None or not path.is_relative_to(build):
        raise RunError(f"{place}: {name}: {fault}; correct `run`")
    made = sorted(
        str(file.relative_to(build)) for file in build.rglob("*") if file.is_file() and os.access(file, os.X_OK)
    )
    known = f"executable files in the build: {first_of(made)}" if made else "the build made no executable file"
    hint = did_you_mean(str(path.relative_to(build)), made) or known
    raise RunError(f"{place}: {{build}}/{path.relative_to(build)}: {fault} in the build; {hint}")


def time_of_starting(folder: Path) -> dict[str, float] | None:
    """Return the minimum time to start a program that does nothing (`true`); None if there is no such program.

    `folder`: An empty folder for the program's output.
    """
    nothing = shutil.which("true", path=PROGRAM_PATH)
    if nothing is None:
        return None
    command = Command([nothing], folder, {"PATH": PROGRAM_PATH}, folder / "stdout", folder / "stderr", timeout_s=10)
    made = [launch(command) for _ in range(_STARTS)]
    return {
        "time_s": min(outcome.seconds for outcome in made),
        "cpu_s": min(outcome.user_s + outcome.system_s for outcome in made),
    }


def as_in_shell(returncode: int) -> int:
    """Return the exit code that a shell shows: 128 + n for a program killed by signal n."""
    return returncode if returncode >= 0 else KILLED - returncode


def end_of_output(file: Path) -> str:
    """Return the last lines of what a program printed, for a message; '' for nothing."""
    return file.read_bytes()[-_SHOWN_BYTES:].decode(errors="replace").strip() if file.is_file() else ""


def how_it_ended(exit_code: int) -> str:
    """Describe the end of a program by its exit code, as in a shell."""
    try:
        name = signal.Signals(exit_code - KILLED).name
    except ValueError:  # no signal has this number: the program chose the exit code itself
        return f"ended with exit code {exit_code}"
    return f"was killed by {name} (exit code {exit_code})"


def has_ended(watch: int, timeout_s: float | None) -> bool:
    """Return whether a process has ended, by its pidfd; wait for it at most so long."""
    poller = select.poll()
    poller.register(watch, select.POLLIN)
    return bool(poller.poll(None if timeout_s is None else timeout_s * 1000))


def ended_within(pid: int, seconds: float) -> bool:
    """Wait for a process at most so long; return whether it has ended."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return has_ended(watch, seconds)
    finally:
        os.close(watch)


def _stop(group: int, watch: int) -> None:
    _kill(group, signal.SIGTERM)
    if not has_ended(watch, _GRACE_S):
        _kill(group, signal.SIGKILL)


def _kill(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # the group has already ended
        os.killpg(group, number)


@dataclass(frozen=True)
class ProgramCommand:
    """The command of one run, without any sampler."""

    words: tuple[str, ...]  # The program and its arguments; with `shell: true` those of /bin/sh
    environment: Mapping[str, str]  # The whole environment
    folder: Path  # The working folder
    stdin: Path | None  # File for standard input, or None
    service: ServiceCommands | None = None

    @property
    def binary(self) -> Path | None:
        """Return the file that is executed; None if it does not exist (yet)."""
        executable = shutil.which(self.words[0], path=self.environment["PATH"])
        return None if executable is None else Path(executable)

    @property
    def search_path(self) -> tuple[Path, ...]:
        """Return the folders of PATH, which are searched for programs."""
        return tuple(Path(folder) for folder in self.environment["PATH"].split(":") if folder)

    @property
    def library_path(self) -> tuple[Path, ...]:
        """Return the folders of LD_LIBRARY_PATH, which are the first to be searched for libraries."""
        return tuple(Path(folder) for folder in self.environment.get("LD_LIBRARY_PATH", "").split(":") if folder)


def program_command(spec: CampaignSpec, *, scratch: Path, build: Path | None, inputs: Path) -> ProgramCommand:
    """Return the command that runs the program (in a sweep, at `spec.point`); `build` is None if nothing is built."""
    program = spec.program
    known = {"scratch": str(scratch), "inputs": str(inputs), "spec": str(spec.folder), **spec.point}
    known["port"] = str(find_free_port())
    if build is not None:
        known |= {"build": str(build), "source": str(build)}
    words = (
        ("/bin/sh", "-c", substitute(program.run, known))
        if program.shell
        else tuple(substitute(word, known) for word in shlex.split(program.run))
    )
    by_slurm = _OF_JOB if launcher_in(program.run) == "srun" else ()
    environment = {
        "PATH": PROGRAM_PATH,
        "HOME": str(scratch),
        "LC_ALL": "C",
        **{name: os.environ[name] for name in by_slurm if name in os.environ},
        **{name: substitute(value, known) for name, value in program.environment.items()},
    }
    stdin = None if program.stdin is None else Path(substitute(program.stdin, known))
    started_here = program.is_service and program.attach is None
    service = _service_commands(program, known, environment) if started_here else None
    return ProgramCommand(words, environment, Path(substitute(program.working_folder, known)), stdin, service)


_OF_JOB = ("SLURM_CONF", "SLURM_JOB_ID")
"""Variables by which srun makes ranks a step of the job around it. Without them it asks for a job of its own, which
waits for another node."""


def _service_commands(program: Program, known: Mapping[str, str], environment: Mapping[str, str]) -> ServiceCommands:
    return ServiceCommands(
        substitute(program.ready or "", known),
        program.ready_timeout.seconds,
        tuple(substitute(word, known) for word in shlex.split(program.load or "")),
        None if program.duration is None else program.duration.seconds,
        signal.Signals[program.stop],
        program.exit_code,
        environment,
    )


def cannot_preload(file: str | Path) -> str | None:
    """Return why the dynamic linker cannot load the sampler into a program; None if it can."""
    program = Path(file)
    state = program.stat()
    as_other_user = state.st_mode & stat.S_ISUID and state.st_uid != os.geteuid()
    as_other_group = state.st_mode & stat.S_ISGID and state.st_gid != os.getegid()
    if as_other_user or as_other_group:
        return "is set-uid or set-gid: the dynamic linker ignores LD_PRELOAD for it"
    from unperturbed.instrument.binaries.elf import is_static  # noqa: PLC0415  takes 20 ms, only needed to preload

    if not is_static(program):
        return None
    return "is linked statically: there is no dynamic linker that could load the sampler"


def cannot_sample(file: str | Path) -> str | None:
    """Return why no sampler works inside a program, linked or loaded; None if one may."""
    from unperturbed.instrument.binaries.elf import is_go  # noqa: PLC0415

    if not is_go(Path(file)):
        return None
    return "is a Go program, and its runtime handles all signals itself, and does not work under valgrind"
