"""Running the compiler without `subprocess`, which would cost every command of a build 6 ms."""

# ruff: noqa: PTH118, PTH120

from __future__ import annotations

import errno
import os
import re
import select
import signal
from collections.abc import Mapping, Sequence

from unperturbed.errors import HostError

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # for the compiler, they have their default action again
_KILLING = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_KILLED = re.compile(rb"(Killed|Terminated|Hangup) signal terminated program|unable to execute command: (Killed|Term)")
"""Messages of the gcc and clang drivers when the compiler proper was killed."""


class Process:
    """Command that runs in parallel; its standard error, and with `output` its standard output, are captured."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        output: bool = False,
        stdin: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._streams: list[int] = []
        actions: list[tuple[int, ...]] = [] if stdin is None else [(os.POSIX_SPAWN_DUP2, stdin, 0)]
        writing = []
        for target in (1, 2) if output else (2,):
            ours, theirs = os.pipe()
            self._streams.append(ours)
            writing.append(theirs)
            actions.append((os.POSIX_SPAWN_DUP2, theirs, target))
        try:
            self._child = _spawn(words, actions, environment)
        except BaseException:
            for stream in self._streams:
                os.close(stream)
            raise
        finally:
            for stream in writing:
                os.close(stream)

    def wait(self) -> tuple[int, bytes, bytes]:
        """Wait for the command to end; return exit code (-n for signal n), standard output and standard error."""
        pieces: dict[int, list[bytes]] = {stream: [] for stream in self._streams}
        waiting = set(self._streams)
        poll = select.poll()
        for stream in waiting:
            poll.register(stream, select.POLLIN)
        while waiting:
            for stream, _ in poll.poll():
                piece = os.read(stream, 1 << 20)
                if piece:
                    pieces[stream].append(piece)
                else:
                    poll.unregister(stream)
                    waiting.discard(stream)
                    os.close(stream)
        code = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        *output, stderr = (b"".join(pieces[stream]) for stream in self._streams)
        # If the compiler was killed, it is unknown whether the source compiles: do not continue without counters.
        if -code in _KILLING or (code and _KILLED.search(stderr)):
            raise HostError("the compiler was killed, perhaps because memory ran out: repeat the build")
        return code, output[0] if output else b"", stderr


def captured(
    words: Sequence[str], *, text: bytes = b"", environment: Mapping[str, str] | None = None
) -> tuple[int, bytes, bytes]:
    """Run a command with a short input; return exit code, standard output and standard error."""
    stdin, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    try:
        return Process(words, output=True, stdin=stdin, environment=environment).wait()
    finally:
        os.close(stdin)


def execute(words: Sequence[str]) -> int:
    """Run a command with the wrapper's own input and output; return its exit code, -n for signal n."""
    return os.waitstatus_to_exitcode(os.waitpid(_spawn(words, [], None), 0)[1])


def exit_code(code: int) -> int:
    """Return the exit code that a shell would report: 128 + n for a process that signal n killed."""
    return code if code >= 0 else 128 - code


def first_error(stderr: bytes) -> str:
    """Return the first error that a compiler wrote to standard error."""
    lines = stderr.decode("utf-8", "replace").splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else "the compiler printed no error")


def found_on_path(program: str) -> str:
    """Return the path of a program that is on PATH; the name itself if it is not."""
    if os.path.dirname(program):
        return program
    places = (os.path.join(folder, program) for folder in os.get_exec_path())
    return next((place for place in places if os.access(place, os.X_OK)), program)


def _spawn(words: Sequence[str], actions: list[tuple[int, ...]], environment: Mapping[str, str] | None) -> int:
    """Start a command that inherits all inheritable open files, such as make's job server."""
    variables = os.environ if environment is None else environment
    try:
        return os.posix_spawnp(words[0], list(words), variables, file_actions=actions, setsigdef=_IGNORED_BY_PYTHON)
    except OSError as error:
        reason = os.strerror(error.errno or errno.ENOENT)
        raise HostError(f"cannot run the compiler {words[0]} ({reason}); is it installed and on PATH?") from None
