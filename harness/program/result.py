"""Result of a run: whether the program ended as it should, and gave the result of its unmeasured run."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unperturbed.collectors.data.trace import PROGRAM_CLOCK
from unperturbed.collectors.records.file import SIGNAL, Records, Setup
from unperturbed.collectors.sources.dumps import calls_within, complaints, log_of, remove_dumps
from unperturbed.common.wording import counted
from unperturbed.errors import RunError
from unperturbed.harness.program.attach import identity_of
from unperturbed.harness.program.process import KILLED, Command, ProcessOutcome, end_of_output, how_it_ended
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import REFERENCE

_NO_SPACE_BYTES = 1 << 20
_UNSEEN_NS = 300_000_000
_UNSEEN_SHARE = 0.1
"""Share of a run that may lack records at its end: releasing a large program's memory takes time."""
_ANY_RESULT = "any"


class TimedOutError(RunError):
    """A run was stopped at its time limit."""


@dataclass(frozen=True)
class ProgramResult:
    """The result of a program, which every measured run must reproduce."""

    exit_code: int  # As in a shell
    digest: str  # The sha256 of stdout followed by the output files
    run: str = field(default=REFERENCE, compare=False)  # The run with this result


def check_outcome(spec: CampaignSpec, command: Command, outcome: ProcessOutcome, expected: ProgramResult) -> None:
    """Raise RunError if a measured run ended in another way, or with another result, than the unmeasured one."""
    folder = command.stdout.parent
    if outcome.still_running:
        raise TimedOutError(outlived(outcome))
    if outcome.timed_out:
        calls = calls_within(folder / "dumps")
        remove_dumps(folder / "dumps")
        raise TimedOutError(_why_timed_out(outcome.seconds, calls))
    status = os.statvfs(folder)
    if status.f_bavail * status.f_frsize < _NO_SPACE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    if outcome.exit_code == KILLED + (spec.measure.signal or SIGNAL):
        raise RunError(
            "the sampler's signal killed the program: the program replaced the signal's handler, or replaced itself "
            "with another program (exec) while the sampler's timer was running. Choose another signal with `signal`, "
            "or use `sampler: outside`"
        )
    _check_simulator(outcome, folder)
    if outcome.exit_code != expected.exit_code and _ASAN_REFUSES in last_stderr(folder):
        raise RunError(
            "the program is built with AddressSanitizer, which refuses the sampler's libraries (LD_PRELOAD) because "
            "they are loaded before it. Let it accept them: `environment: {ASAN_OPTIONS: verify_asan_link_order=0}` "
            "in the spec, or unperturbed run --env ASAN_OPTIONS=verify_asan_link_order=0 -- …; or measure a build "
            "without -fsanitize=address"
        )
    check_service(outcome, folder)
    if outcome.exit_code != expected.exit_code:
        restricted = spec.measure.sampler == "inside" and outcome.exit_code - KILLED in _OF_SECCOMP
        raise RunError(
            f"the program {how_it_ended(outcome.exit_code)}; expected exit code {expected.exit_code}. "
            f"{_RESTRICTED if restricted else ''}{last_stderr(folder)}"
        )
    if spec.measure.sampler == "inside" and command.window is None:
        _check_children(folder, folder.with_name(expected.run))
    digest = result_digest(spec, command)
    if command.window is not None:
        if expected.digest not in (digest, _ANY_RESULT):
            raise RunError(
                f"process {command.window.target.pid} is not the one of the first run: now {digest}; then "
                f"{expected.digest}. The number was given to another process, or the process executed another program "
                "(exec): measure it in another folder, by --campaign"
            )
    elif digest != expected.digest:
        raise RunError(
            f"the program's result differs from its result without measurement (sha256 {digest[:12]}…, expected "
            f"{expected.digest[:12]}…): the measurement changed the result, or the program is not deterministic. "
            f"Compare {folder / 'stdout'} with {folder.with_name(expected.run) / 'stdout'} of the untouched program; "
            "if the program prints times or addresses, set `result: any`"
        )


_FAILURE = b"Assertion '"  # As valgrind writes it; its report about the program says nothing of it


def _why_timed_out(seconds: float, calls: int) -> str:
    """Return why a run timed out, and what to do; `calls`: those for which the simulator stopped."""
    if calls:
        return (
            f"timed out after {seconds:.0f} s and {counted(calls, 'call')} of a function that a metric counts "
            "`within`: the simulator stops at each, for 0.1 to 1.5 ms. Name a function that is called less often, give "
            "the program less work, or raise `timeout`"
        )
    return (
        f"timed out after {seconds:.0f} s: raise `timeout` (simulated runs take 40 to 300 times as long as runs "
        "without measurement)"
    )


def _check_children(folder: Path, reference: Path) -> None:
    """Reject a run if a shell or make wrote to stderr that a child was killed, and not in the unmeasured run."""
    said, before = (one / "stderr" for one in (folder, reference))
    killed = _SHELL_SAYS.search(said.read_bytes()) if said.is_file() and before.is_file() else None
    if killed and not _SHELL_SAYS.search(before.read_bytes()):
        raise RunError(
            f"a process that the program started was killed ({killed[1].decode()}), and was not without measurement. "
            f"{_RESTRICTED}{last_stderr(folder)}"
        )


_REFUSED = re.compile(r"Can't execute setuid/setgid/setcap executable: (.+)")
_OF_SECCOMP = (signal.SIGKILL, signal.SIGSEGV, signal.SIGSYS)
_RESTRICTED = (
    "If the program restricts its system calls (seccomp), the kernel ends it for a call of the sampler: use `sampler: "
    "outside`, with counters that are not simulated. "
)
_SHELL_SAYS = re.compile(rb"(?:^|[ \t])(Segmentation fault|Killed|Bad system call)\b", re.MULTILINE)  # make, too
_ASAN_REFUSES = "ASan runtime does not come first in initial library list"


def check_service(outcome: ProcessOutcome, folder: Path) -> None:
    """Raise RunError if a service was not measured: it was not ready, it ended early, or its load failed."""
    if outcome.service is not None and outcome.service.trouble:
        trouble = f"{outcome.service.trouble}." if outcome.service.trouble[-1] != "\n" else outcome.service.trouble
        # What runs already prints elsewhere.
        raise RunError(f"{trouble} {_last_log(folder)}" if (folder / "stderr").is_file() else trouble)


def outlived(outcome: ProcessOutcome) -> str:
    """Describe the processes that had outlived the program at the time limit, and what to do."""
    return (
        f"{', '.join(outcome.still_running)} still ran {outcome.seconds:.0f} s after the start, although the program "
        "itself had ended: a run lasts until all its processes have ended. Let the program stop what it starts, or set "
        "`processes: first` under `measure` to count its first process alone"
    )


def check_end(records: Records, ended_ns: int, setup: Setup, *, wrapped: bool) -> None:
    """Reject a run with an uncounted last part, unless the observer saw the program end or a tool outlived it."""
    saw_the_end = records.state == "finished" and (wrapped or bool(records.wall_ns))
    if len(records.rows) < 2 or setup.source == "simulated" or saw_the_end:
        return
    stamps = records.rows["monotonic_ns"]
    missing_ns = ended_ns - int(stamps[-1])
    longest_ns = 0 if setup.interval_event or setup.clock == PROGRAM_CLOCK else 3 * setup.interval_ns
    if missing_ns > max(_UNSEEN_NS, longest_ns, _UNSEEN_SHARE * float(ended_ns - stamps[0])):
        raise RunError(
            f"the records end {missing_ns / 1e9:.2g} s before the program ends: the program replaced itself with "
            "another program (exec), or blocked the sampler's signal. Measure the other program directly, or use "
            "`sampler: outside`"
        )


def _check_simulator(outcome: ProcessOutcome, folder: Path) -> None:
    """Raise RunError if valgrind could not execute the program."""
    if refused := _REFUSED.search(last_stderr(folder)):
        raise RunError(
            f"the simulator does not execute {refused[1]}, which is set-uid or set-gid, or has capabilities: use "
            "counters that are not simulated (such as `perf::task-clock`), or run a copy of it without these rights"
        )
    if any(_FAILURE in log.read_bytes() for log in simulator_logs(folder)):
        raise RunError(
            "the simulator (valgrind) failed itself in a process of the run. It does not execute every program, such "
            f"as those in Go: use `sampler: outside`, with counters that are not simulated. {last_stderr(folder)}"
        )
    if outcome.exit_code == KILLED + signal.SIGILL and any(map(complaints, simulator_logs(folder))):
        raise RunError(
            "the simulator (valgrind) does not know an instruction of the program, such as one of AVX-512. Compile the "
            "program without `-march=native` (`-march=x86-64-v3` at most), or use counters that are not simulated "
            f"(such as `perf::task-clock`). {last_stderr(folder)}"
        )


def result_digest(spec: CampaignSpec, command: Command) -> str:
    """Return the digest of a run's result, which must be the same in all runs; a constant for `result: any`.

    Of what runs already, it is a text that tells it from other processes.
    """
    if command.window is not None:
        return identity_of(command.window.target) or _ANY_RESULT
    if spec.program.result == "any" or (spec.program.is_service and not spec.program.outputs):
        return _ANY_RESULT
    if spec.program.is_service:  # it prints a log
        return digest_of_result(Path(os.devnull), [command.folder / name for name in spec.program.outputs])
    return digest_of_result(command.stdout, [command.folder / name for name in spec.program.outputs])


def digest_of_result(stdout: Path, outputs: Sequence[Path]) -> str:
    """Return the sha256 of a run's result, as `cat stdout outputs… | sha256sum` would print it."""
    content = hashlib.sha256()
    for file in [stdout, *outputs]:
        if not file.is_file():
            raise RunError(f"the program did not write the output file {file.name} into its working folder")
        with file.open("rb") as stream:
            hashlib.file_digest(stream, lambda: content)
    return content.hexdigest()


def last_stderr(folder: Path) -> str:
    """Return the last lines of the program's stderr, for an error message."""
    text = "\n".join(filter(None, (end_of_output(folder / "stderr"), *map(complaints, simulator_logs(folder)))))
    return f"The last error output is:\n{text}" if text else "The program wrote nothing to stderr."


def _last_log(folder: Path) -> str:
    """Return the last lines that a service wrote: to stderr, or else to stdout, where some have their log."""
    log = end_of_output(folder / "stdout")
    if log and not end_of_output(folder / "stderr"):
        return f"The program wrote nothing to stderr. The last output is:\n{log}"
    return last_stderr(folder)


def simulator_logs(folder: Path) -> list[Path]:
    """Return the simulator's logs of a run, one for each process."""
    return list(folder.glob(f"{log_of(folder / 'dumps').name}*"))
