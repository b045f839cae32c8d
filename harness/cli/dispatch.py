"""Parse the command line, run one command, and turn errors into exit codes."""

from __future__ import annotations

import argparse
import atexit
import gc
import logging
import shlex
import signal
import stat
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from unperturbed.errors import HostError, SpecError, UnperturbedError
from unperturbed.harness.cli.commands import Command, all_commands, own_commands
from unperturbed.harness.cli.failures import host_message, require_memory
from unperturbed.harness.cli.parser import make_parser, prepare_command, unknown_command
from unperturbed.harness.cli.streams import prepare_streams, print_event

INTERRUPTED = 130
_OUTPUTS = {"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"}
_SOON_S = 0.01
_MANY_OBJECTS = 50_000  # New objects that trigger a garbage collection: more than loading a command's modules creates


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    command: Command | None = None
    as_events = False
    _collect_rarely()
    prepare_streams()
    interrupt = _Interrupt()
    try:
        command, arguments = _parse(words)
        if command is None:
            return 2
        signal.signal(signal.SIGTERM, interrupt)
        as_events = getattr(arguments, "progress", "") == "json"
        _show_log(arguments, as_events=as_events)
        if any(room in type(command).__module__ for room in (".analyses.", ".campaigns.", ".methods.")):
            require_memory()
        return command.run(arguments)
    except BaseException as error:  # bugs of this tool are raised again
        if interrupt.received or isinstance(error, KeyboardInterrupt):
            resumes = "; finished runs are kept: repeat the command to resume"
            message = f"interrupted{resumes if getattr(command, 'resumable', False) else ''}"
            code = INTERRUPTED
            if not as_events:
                print(file=sys.stderr)
        elif isinstance(error, UnperturbedError):
            message, code = str(error), error.exit_code
        elif host := host_message(error):
            message, code = host, HostError.exit_code
        else:
            raise
    if as_events:
        print_event("error", message=message, exit_code=code)
    else:
        print(f"unperturbed: {message}", file=sys.stderr)
    return code


@cache
def _collect_rarely() -> None:
    """Collect garbage rarely while a command runs, and not when the command ends.

    Modules that a command loads never become garbage; searching them takes a fifth of a short command's time.
    """
    gc.set_threshold(_MANY_OBJECTS)
    atexit.register(gc.freeze)


class _Interrupt:
    """Signal handler that raises KeyboardInterrupt and records the signal: libraries may replace the exception.

    A callback that cannot raise, such as a finalizer, would swallow the exception: the signal is then sent again.
    """

    def __init__(self) -> None:
        self.received, self._number = False, signal.SIGINT.value
        self._ignored = sys.unraisablehook
        sys.unraisablehook = self._repeat
        now = signal.getsignal(signal.SIGINT)
        if now is signal.default_int_handler or isinstance(now, _Interrupt):  # an ignored signal stays ignored
            signal.signal(signal.SIGINT, self)

    def __call__(self, number: int, _frame: object) -> None:
        self.received, self._number = True, number
        raise KeyboardInterrupt

    def _repeat(self, ignored: sys.UnraisableHookArgs) -> None:
        if not self.received:
            self._ignored(ignored)
            return
        if not isinstance(ignored.exc_value, KeyboardInterrupt):
            return  # from the finalizer of an object that the interrupt left half initialised
        again = threading.Timer(_SOON_S, signal.pthread_kill, (threading.main_thread().ident, self._number))
        again.daemon = True
        again.start()


class _EventHandler(logging.Handler):
    """Log handler that prints each record as an event."""

    def emit(self, record: logging.LogRecord) -> None:
        print_event("log", what=record.getMessage())


def _show_log(arguments: argparse.Namespace, *, as_events: bool) -> None:
    """Show the library's log on stderr: it announces long work, such as compiling a kernel for the first time."""
    handler = _EventHandler() if as_events else logging.StreamHandler()
    handler.setFormatter(logging.Formatter("  %(message)s"))
    logger = logging.getLogger("unperturbed")
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if arguments.verbose else logging.WARNING if arguments.quiet else logging.INFO)


def _parse(words: Sequence[str]) -> tuple[Command | None, argparse.Namespace]:
    """Parse the command line, importing only the chosen command's module; without a command, print the help."""
    own = own_commands()
    chosen = words[0] if words else ""
    # Reading the entry points of all distributions takes 10 ms, which most commands need not wait for.
    entries = own if chosen in own else all_commands()
    parser = make_parser(entries)
    if chosen not in entries:
        if chosen and not chosen.startswith("-"):
            raise SpecError(unknown_command(chosen, entries))
        arguments, extra = parser.parse_known_args(words)
        if extra:
            parser.refuse(extra)
        parser.print_help()
        return None, arguments
    command = entries[chosen].load()
    prepare_command(parser.commands[chosen], command)
    own_words, program = list(words), []
    if getattr(command, "takes_program", False) and "--" in own_words:
        own_words, program = own_words[: own_words.index("--")], own_words[own_words.index("--") + 1 :]
    _require_no_empty_word(own_words)
    if chosen != "cc":  # a compiler's file names may have any encoding
        _require_readable([*own_words, *program], command)
    arguments, extra = parser.parse_known_args(own_words)
    if extra:
        places = (getattr(arguments, name, None) for name in ("spec", "recorded", "source"))
        given = next((place for place in places if isinstance(place, Path)), None)
        # As typed: a path does not keep its ./
        spec = next((word for word in own_words[1:] if given is not None and Path(word) == given), "")
        if getattr(command, "takes_program", False) and not program and not spec.endswith((".yaml", ".yml")):
            if chosen == "compare":
                raise SpecError("put -- before each command: unperturbed compare -- A its arguments -- B its arguments")
            if spec and not any(word.startswith("-") for word in extra):
                raise SpecError(f"put -- before the program: unperturbed {chosen} -- {shlex.join([spec, *extra])}")
        parser.commands[chosen].refuse(extra)
    _require_ending_files(arguments)
    arguments.program = program
    return command, arguments


def _require_no_empty_word(words: Sequence[str]) -> None:
    """Refuse an empty argument, which is probably an unset shell variable and would mean the current folder."""
    for place, word in enumerate(words):
        option = word.removesuffix("=")
        if word and (word == option or "=" in option or not option.startswith("--")):
            continue
        before = words[place - 1] if not word else option
        raise SpecError(f"the argument after {before!r} is empty: give a value (perhaps a shell variable is unset)")


def _require_ending_files(arguments: argparse.Namespace) -> None:
    """Refuse named pipes, sockets and devices, because reading them may block or never end."""
    given = [
        argument for value in vars(arguments).values() for argument in (value if isinstance(value, list) else [value])
    ]
    for argument in given:
        path = Path(argument) if isinstance(argument, str | Path) else Path()
        if str(path) in _OUTPUTS or path.is_relative_to("/dev/fd"):
            continue
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError):
            continue  # opening it raises the same error
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise SpecError(f"{path} is a pipe, a socket or a device: write its content to a file, and give that file")


def _require_readable(words: Sequence[str], command: Command) -> None:
    """Refuse names that are not valid UTF-8: specs, manifests, tables and pages cannot contain them."""
    rooms = (".campaigns.", ".overview.")
    places = [*words, str(Path.cwd())] if any(room in type(command).__module__ for room in rooms) else words
    for word in places:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise SpecError(f"{word} is not valid UTF-8: rename the file or folder, or change the argument") from None
