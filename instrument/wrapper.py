"""The instrumenting compiler wrapper: stands for the project's compiler in any build system.

``python -m unperturbed.instrument.wrapper --settings FILE -- COMPILER ARGUMENTS…``

For a source that may hold a site of a selected event::

    COMPILER -E               the preprocessed text
    libclang                  the places where the events happen; counters are inserted there
    COMPILER -fsyntax-only    the original command reads the original source: its warnings, errors and dependency files
    COMPILER -w               the rewritten text, with the original flags

The second and third run side by side. So every diagnostic of the compiler's front end is the original's, with macros and carets as
ever, and an error ends with the compiler's own exit code; warnings that only optimisation finds (-Wmaybe-uninitialized, say) are
not shown for an instrumented source. Whatever cannot be instrumented (libclang cannot read it, or the rewritten text does not
compile though the original does) is compiled by the original command, said once on standard error and recorded in the site log.
All other commands run as they are; those that link get the runtime, and the bounds of the pages that hold their counters.
"""

# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH103, PTH106, PTH108, PTH109, PTH110, PTH118, PTH119, PTH120, PTH122, PTH123

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

from unperturbed.errors import HostError, SpecError, UnperturbedError
from unperturbed.instrument.commandline import (
    Added,
    Command,
    Source,
    checking_arguments,
    compiling_arguments,
    parse_command,
    preprocessing_arguments,
)
from unperturbed.instrument.prefilter import can_hold_site, lexical_names
from unperturbed.instrument.preprocessed import PreprocessedText
from unperturbed.instrument.settings import Settings, read_settings
from unperturbed.instrument.sitelog import (
    INSTRUMENTED,
    NOT_INSTRUMENTED,
    PASSED_OVER,
    Site,
    SourceRecord,
    write_log,
)

__all__ = ["main", "run"]

_USAGE = "usage: python -m unperturbed.instrument.wrapper --settings FILE -- COMPILER ARGUMENTS…"
_OWN_ERROR = 2
_INTERRUPTED = 130
_TEXT_LENGTH = 100


class _Rewritten(NamedTuple):
    """One source's record, and its rewritten text (None: it is compiled as it is)."""

    record: SourceRecord
    text: bytes | None


def main(arguments: list[str]) -> int:
    """Run the wrapper as a program; return its exit code."""
    try:
        if len(arguments) < 4 or arguments[0] != "--settings" or arguments[2] != "--":
            raise SpecError(_USAGE)
        return run(read_settings(arguments[1]), tuple(arguments[3:]))
    except UnperturbedError as error:
        print(f"unperturbed cc: {error}", file=sys.stderr)
    except OSError as error:
        print(f"unperturbed cc: {error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return _OWN_ERROR


def run(settings: Settings, words: tuple[str, ...]) -> int:
    """Run one compiler command with counters in what it compiles.

    Parameters
    ----------
    words : the compiler and its arguments.

    Returns
    -------
    int
        The compiler's exit code.

    Raises
    ------
    UnperturbedError
        What the wrapper itself needs is missing or wrong.
    """
    command = parse_command(words)
    added = _link_arguments(settings, command)
    whole = added.to(command.compiler, words[len(command.compiler) :])
    if not settings.metrics or not command.sources:
        return _execute(whole)
    texts = {} if command.reason else {source: _preprocess(command, source) for source in command.sources}
    if len(texts) < len(command.sources) or None in texts.values():
        code = _execute(whole)  # when the preprocessor failed, the compiler will say what is wrong
        reason = command.reason or "it cannot be preprocessed alone"
        return _logged(settings, [_record(command, source, NOT_INSTRUMENTED, reason) for source in command.sources], code)
    needs = [metric.need for metric in settings.metrics]
    held = {source: can_hold_site(text, needs) for source, text in texts.items() if text}
    if not any(held.values()):
        code = _execute(whole)
        return _logged(settings, [_passed_over(command, source, text) for source, text in texts.items() if text], code)
    return _instrument(settings, command, {source: text for source, text in texts.items() if text}, held, added)


def _instrument(
    settings: Settings,
    command: Command,
    texts: dict[Source, PreprocessedText],
    held: dict[Source, bool],
    added: Added,
) -> int:
    check = _start([*command.compiler, *checking_arguments(command, color=_shows_color())], stderr=subprocess.PIPE)
    try:
        rewritten = {
            source: _rewrite(settings, command, source, text)
            if held[source]
            else _Rewritten(_passed_over(command, source, text), None)
            for source, text in texts.items()
        }
    finally:
        _, diagnostics = check.communicate()
    if check.returncode:
        _show(diagnostics)
        return _exit_code(check.returncode)
    records = {source: result.record for source, result in rewritten.items()}
    made = {source: result.text for source, result in rewritten.items() if result.text is not None}
    if made:
        result = _compile(settings, command, made, added)
        if result.returncode == 0:
            _show(diagnostics + result.stderr)
            return _logged(settings, list(records.values()), 0)
    code = _execute(added.to(command.compiler, command.words[len(command.compiler) :]))  # which shows its diagnostics itself
    if made and code == 0:
        reason = f"the rewritten text does not compile: {_first_error(result.stderr)}"
        records |= {source: _record(command, source, NOT_INSTRUMENTED, reason) for source in made}
    return _logged(settings, list(records.values()), code)


def _preprocess(command: Command, source: Source) -> PreprocessedText | None:
    """Return a source's preprocessed text, None when it cannot be preprocessed."""
    if source.language.endswith("cpp-output"):
        try:
            with open(source.path, "rb") as file:
                return PreprocessedText(file.read())
        except OSError:
            return None
    words = [*command.compiler, *preprocessing_arguments(command, source)]
    try:
        result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, close_fds=False)
    except OSError as error:
        raise HostError(f"the compiler {words[0]} cannot be run ({error.strerror}); is it installed and on PATH?") from None
    return None if result.returncode else PreprocessedText(result.stdout)


def _rewrite(settings: Settings, command: Command, source: Source, text: PreprocessedText) -> _Rewritten:
    from unperturbed.instrument.compiler import ask_compiler  # noqa: PLC0415  most commands of a build come by without
    from unperturbed.instrument.parse import UnreadableError, parse  # noqa: PLC0415

    language = "c++" if "++" in source.language else "c"
    facts = ask_compiler(settings, command, language)
    try:
        parsed = parse(text, language, facts)
        from unperturbed.instrument.finder import find_sites  # noqa: PLC0415  needs libclang, which parse has loaded
        from unperturbed.instrument.rewrite import rewrite  # noqa: PLC0415

        found = find_sites(parsed, facts.standard, settings.metrics)
    except UnreadableError as error:
        return _Rewritten(_record(command, source, NOT_INSTRUMENTED, str(error)), None)
    sites = [_site(settings, text, hit.metric, slot, hit.spot.at) for slot, hit in enumerate(found.hits)]
    unseen = [_site(settings, text, place.metric, 0, place.at)._replace(text=place.reason) for place in found.unseen]
    names = {**lexical_names(text), "file": text.user_files()}
    record = _record(command, source, INSTRUMENTED if found.hits else PASSED_OVER)._replace(
        sites=tuple(sites),
        unseen=tuple(unseen),
        names={kind: tuple(sorted(names.get(kind, set()) | found.names.get(kind, set()))) for kind in {*names, *found.names}},
    )
    if not found.hits:
        return _Rewritten(record, None)
    return _Rewritten(record, rewrite(text, found.hits, source=source.path, language=language, x86_64=facts.x86_64))


def _compile(
    settings: Settings, command: Command, made: dict[Source, bytes], added: Added
) -> subprocess.CompletedProcess[bytes]:
    """Compile rewritten texts in place of their sources."""
    folder = os.path.join(settings.passing_folder, f"{os.getpid()}-{os.urandom(4).hex()}")
    paths = {}
    try:
        for source, text in made.items():
            # Objects and other outputs that the command does not name take the source's name; two sources may share one.
            stem = os.path.splitext(os.path.basename(source.path))[0]
            path = os.path.join(folder, str(source.position), stem + (".ii" if "++" in source.language else ".i"))
            os.makedirs(os.path.dirname(path))
            paths[source.position] = path
            with open(path, "wb") as file:
                file.write(text)
        words = added.to(command.compiler, compiling_arguments(command, paths))
        return subprocess.run(words, stderr=subprocess.PIPE, check=False, close_fds=False)
    finally:
        for path in paths.values():
            if os.path.exists(path):
                os.unlink(path)
            os.rmdir(os.path.dirname(path))
        if paths:
            os.rmdir(folder)


def _link_arguments(settings: Settings, command: Command) -> Added:
    if not (settings.runtime or settings.bounds) or not (command.executable or command.library):
        return Added()
    from unperturbed.instrument.compiler import link_arguments  # noqa: PLC0415  only link steps need it

    return link_arguments(settings, command)


def _passed_over(command: Command, source: Source, text: PreprocessedText) -> SourceRecord:
    found = {**lexical_names(text), "file": text.user_files()}
    names = {kind: tuple(sorted(names)) for kind, names in found.items()}
    return _record(command, source, PASSED_OVER)._replace(names=names)


def _record(command: Command, source: Source, state: str, reason: str = "") -> SourceRecord:
    return SourceRecord(source.path, command.output, os.getcwd(), state, reason)


def _site(settings: Settings, text: PreprocessedText, metric: int, slot: int, offset: int) -> Site:
    file, line = text.locate(offset)
    shown = text.data[offset : offset + 4 * _TEXT_LENGTH].split(b"\n")[0].decode("utf-8", "replace")
    return Site(settings.metrics[metric].name, slot, file, line, " ".join(shown.split())[:_TEXT_LENGTH])


def _logged(settings: Settings, records: list[SourceRecord], code: int) -> int:
    """Log what a command that succeeded did, and tell what stays without counters."""
    if code == 0:
        write_log(settings.site_folder, records)
        for record in records:
            if record.state == NOT_INSTRUMENTED:
                print(f"unperturbed cc: note: {record.source} has no counters: {record.reason}", file=sys.stderr)
    return code


def _start(words: list[str], stderr: int | None = None) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(words, stderr=stderr, close_fds=False)  # make's job server comes in open files
    except OSError as error:
        raise HostError(f"the compiler {words[0]} cannot be run ({error.strerror}); is it installed and on PATH?") from None


def _execute(words: list[str]) -> int:
    return _exit_code(_start(words).wait())


def _show(diagnostics: bytes) -> None:
    sys.stderr.flush()
    sys.stderr.buffer.write(diagnostics)
    sys.stderr.buffer.flush()


def _shows_color() -> bool:
    """Tell whether a compiler that writes to our standard error would use colour."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _exit_code(code: int) -> int:
    """Return the exit code a shell would give: 128 + n for a process that signal n ended."""
    return code if code >= 0 else 128 - code


def _first_error(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else "the compiler gave no reason")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
