"""Instrumenting compiler wrapper, which replaces the project's compiler in any build system.

Steps for a source that may contain a site of a selected event::

    COMPILER -E               the preprocessed text
    libclang                  the sites where the events happen; counters are inserted there
    COMPILER -fsyntax-only    the original command reads the original source: its warnings, errors and dependency files
                              (skipped with -w, which leaves only errors)
    COMPILER -w               the rewritten text, with the original flags

The second and third steps run in parallel. Every diagnostic of the compiler's front end is therefore that of the
original source, with macros and carets, and an error gives the compiler's own exit code. Warnings from later passes of
gcc (-Wmaybe-uninitialized, -Wunused-function and others) are not shown for an instrumented source. A source that cannot
be instrumented (libclang cannot read it, or the rewritten text does not compile though the original does) is compiled
by the original command, reported once on standard error and recorded in the site log. All other commands run unchanged;
link commands get the runtime, and the bounds of the pages that contain their counters.

Most commands of a build do not reach the wrapper: the launcher (in launcher/) starts the compiler directly.
"""

# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH103, PTH106, PTH108, PTH109, PTH110, PTH118, PTH119, PTH120, PTH122, PTH123

from __future__ import annotations

import os
import re
import sys
from typing import NoReturn

from unperturbed.errors import HostError, SpecError, UnperturbedError
from unperturbed.instrument.command_line import (
    Added,
    CommandSource,
    CompilerCommand,
    checking_arguments,
    compiling_arguments,
    include_folders,
    parse_command,
    preprocessing_arguments,
)
from unperturbed.instrument.compiler.processes import Process, captured, execute, exit_code, first_error
from unperturbed.instrument.compiler.settings import ToolchainSettings, read_settings
from unperturbed.instrument.finding.prefilter import can_hold_site
from unperturbed.instrument.finding.preprocessed import PreprocessedText, UnreadableError, parse
from unperturbed.instrument.finding.site_log import (
    INSTRUMENTED,
    NOT_INSTRUMENTED,
    PASSED_OVER,
    LoggedSite,
    SourceRecord,
    write_log,
)

_USAGE = "usage: python -m unperturbed.instrument.compiler.wrapper --settings FILE -- COMPILER ARGUMENTS…"
_OWN_ERROR = 2
_INTERRUPTED = 130
_TEXT_LENGTH = 100
_TELLING = ("-M", "-W", "-X", "-H", "-Q", "-pedantic", "--", "-fd", "-fs", "-ft", "-serialize", "-write")
"""Prefixes of options that turn warnings into errors, write another file or print more."""

_TELLING_VARIABLES = {"DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES"}


_COLUMN = re.compile(r"(?<=\d):\d+(?=: )")
"""A column in a compiler's error: it counts in the rewritten text, which no user has seen."""

_ERROR = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<error>.*)")

_Rewritten = tuple[SourceRecord, bytes | None]
"""Record of a source, and its rewritten text (None: the source is compiled unchanged)."""


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


def run_and_exit(arguments: list[str]) -> NoReturn:
    """Run the wrapper as a program, and exit at once: freeing a syntax tree takes as long as reading it."""
    code = main(arguments)
    sys.stderr.flush()
    os._exit(code)


def run(settings: ToolchainSettings, words: tuple[str, ...]) -> int:
    """Run one compiler command, with counters inserted into its sources."""
    command = parse_command(words)
    added = Added()
    if (settings.runtime or settings.bounds or settings.layout) and (command.executable or command.library):
        from unperturbed.instrument.compiler.facts import link_arguments  # noqa: PLC0415  only link steps need it

        added = link_arguments(settings, command)
    try:
        code = _run(settings, command, added)
    finally:
        if added.layout is not None:
            added.layout.remove()
    if code == 0 and settings.layouts and not settings.layout and (command.executable or command.library):
        from unperturbed.instrument.layout import note_link  # noqa: PLC0415  only builds in several layouts need it

        note_link(settings.place("links"), command)
    return code


def _run(settings: ToolchainSettings, command: CompilerCommand, added: Added) -> int:
    whole = added.to(command.compiler, command.words[len(command.compiler) :])
    if not settings.metrics or not (command.sources or command.uncounted):
        return exit_code(execute(whole))
    uncounted = [
        _record(command, source, NOT_INSTRUMENTED, f"{source.language} source") for source in command.uncounted
    ]
    texts = {} if command.reason else {source: _preprocess(command, source) for source in command.sources}
    if len(texts) < len(command.sources) or None in texts.values():
        code = execute(whole)  # the compiler reports the preprocessor's errors
        reason = command.reason or "the source cannot be preprocessed alone"
        records = [_record(command, source, NOT_INSTRUMENTED, reason) for source in command.sources]
        return _logged(settings, command, [*records, *uncounted], code)
    from unperturbed.instrument.compiler.facts import record_include_dirs  # noqa: PLC0415  other commands do not need it

    for language in {source.language for source in command.sources} & {"c", "c++"}:
        record_include_dirs(settings, command, language)
    needs = [metric.need for metric in settings.metrics]
    may_count = {source: can_hold_site(text, needs) for source, text in texts.items() if text}
    if not any(may_count.values()):
        code = execute(whole)
        return _logged(settings, command, [_record(command, source, PASSED_OVER) for source in texts] + uncounted, code)
    read = {source: text for source, text in texts.items() if text}
    code, records = _instrument(settings, command, read, may_count, added)
    return _logged(settings, command, [*records, *uncounted], code)


def _instrument(
    settings: ToolchainSettings,
    command: CompilerCommand,
    texts: dict[CommandSource, PreprocessedText],
    may_count: dict[CommandSource, bool],
    added: Added,
) -> tuple[int, list[SourceRecord]]:
    """Compile texts with counters; return the compiler's exit code, and a record of each source."""
    check = None
    if not _only_errors(command):
        # The compiler would use colour if it wrote directly to this standard error.
        color = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        check = Process([*command.compiler, *checking_arguments(command, color=color)])
    code, diagnostics = 0, b""
    try:
        rewritten = {
            source: _rewrite(settings, command, source, text)
            if may_count[source]
            else (_record(command, source, PASSED_OVER), None)
            for source, text in texts.items()
        }
    finally:
        if check is not None:
            code, _, diagnostics = check.wait()
    if code:
        _show(diagnostics)
        return code, []
    records = {source: record for source, (record, _) in rewritten.items()}
    rewritten_texts = {source: text for source, (_, text) in rewritten.items() if text is not None}
    if rewritten_texts:
        code, errors = _compile(settings, command, rewritten_texts, added)
        if code == 0:
            _show(diagnostics + errors)
            return 0, list(records.values())
    faults = _faulty_additions(settings, command, {source: texts[source] for source in rewritten_texts}, added)
    code = execute(added.to(command.compiler, command.words[len(command.compiler) :]))  # shows its own diagnostics
    if rewritten_texts and code == 0:
        reason = f"the instrumented source does not compile: {_COLUMN.sub('', first_error(errors))}"
        records |= {
            source: _record(command, source, NOT_INSTRUMENTED, reason)._replace(uncounted=tuple(faults[source]))
            for source in rewritten_texts
        }
    return code, list(records.values())


def _faulty_additions(
    settings: ToolchainSettings, command: CompilerCommand, texts: dict[CommandSource, PreprocessedText], added: Added
) -> dict[CommandSource, list[LoggedSite]]:
    """Return where an `add` of a metric does not compile, for sources whose rewritten texts do not compile together.

    Each metric is compiled alone, so that the fault of one is not told of all.
    """
    faults: dict[CommandSource, list[LoggedSite]] = {source: [] for source in texts}
    for metric in (metric for metric in settings.metrics if metric.add is not None):
        for source, text in texts.items():
            record, alone = _rewrite(settings._replace(metrics=(metric,)), command, source, text)
            if alone is None:
                continue
            code, errors = _compile(settings, command, {source: alone}, added)
            if code and (told := _ERROR.match(first_error(errors))):
                why = f"`add: {metric.add}` does not compile here: {told['error']}"
                place = record.sites[0]._replace(file=told["file"], line=int(told["line"]), text=why)
                faults[source].append(place)
    return faults


def _only_errors(command: CompilerCommand) -> bool:
    """Return whether checking the original source would show nothing new: the rewritten text has the same errors."""
    options = [word for word in command.arguments if word.startswith("-")]
    tells = any(word.startswith(_TELLING) for word in options) or bool(_TELLING_VARIABLES & os.environ.keys())
    return "-w" in options and not tells


def _preprocess(command: CompilerCommand, source: CommandSource) -> PreprocessedText | None:
    """Return a source's preprocessed text; None if it cannot be preprocessed."""
    if source.language.endswith("cpp-output"):
        try:
            with open(source.path, "rb") as file:
                return PreprocessedText(file.read())
        except OSError:
            return None
    code, output, _ = captured([*command.compiler, *preprocessing_arguments(command, source)])
    return None if code else PreprocessedText(output)


def _rewrite(
    settings: ToolchainSettings, command: CompilerCommand, source: CommandSource, text: PreprocessedText
) -> _Rewritten:
    from unperturbed.instrument.compiler.facts import ask_compiler  # noqa: PLC0415  most commands do not need it

    language = "c++" if "++" in source.language else "c"
    facts = ask_compiler(settings, command, language)
    try:
        parsed = parse(text, language, facts)
        from unperturbed.instrument.finding.interval_ends import MACHINES, ends_intervals  # noqa: PLC0415
        from unperturbed.instrument.finding.regions import refuse_regions  # noqa: PLC0415
        from unperturbed.instrument.finding.rewrite import rewrite  # noqa: PLC0415
        from unperturbed.instrument.finding.sites import candidates, find_sites  # noqa: PLC0415  as above

        found_sites = find_sites(parsed, facts.standard, settings.metrics)
    except UnreadableError as error:
        return _record(command, source, NOT_INSTRUMENTED, str(error)), None
    sites = [_site(settings, text, site.metric, slot, site.point.at) for slot, site in enumerate(found_sites.sites)]
    places = found_sites.uncounted
    uncounted = [_site(settings, text, place.metric, 0, place.at)._replace(text=place.reason) for place in places]
    placed = {site.metric for site in found_sites.sites}
    empty = [metric for number, metric in enumerate(settings.metrics) if number not in placed]
    names = {**found_sites.names, **(candidates(parsed, empty) if empty else {})}
    record = _record(command, source, INSTRUMENTED if found_sites.sites else PASSED_OVER)._replace(
        sites=tuple(sites),
        uncounted=tuple(uncounted),
        names={kind: tuple(sorted(each)) for kind, each in names.items()},
    )
    if not found_sites.sites:
        return record, None
    if facts.machine not in MACHINES and ends_intervals([site.metric for site in found_sites.sites], settings.metrics):
        raise HostError(
            "intervals that end at the program's own events (`interval: {every: …, of: …}`) need code for AArch64, "
            "or for x86-64 in AT&T syntax: use an interval of time, or of counts of a hardware metric"
        )
    refuse_regions({settings.metrics[site.metric] for site in found_sites.sites}, facts.machine)
    if facts.machine != "x86-64" and any(metric.threads == "each" for metric in settings.metrics):
        raise HostError(
            "`threads: each` needs code for x86-64, and with clang AT&T assembly syntax: use `threads: all`, which "
            "counts software metrics of all threads together"
        )
    made = rewrite(
        text,
        found_sites.sites,
        settings.metrics,
        source=source.path,
        language=language,
        machine=facts.machine,
        form=settings.form,
        library=_is_for_library(command),
        doses=settings.doses,
    )
    return record, made


def _is_for_library(command: CompilerCommand) -> bool:
    """Return whether the compiled code may become part of a library, given the last option on its position."""
    positions = [word for word in command.arguments if re.fullmatch(r"-fno-(?:pic|pie)|-f(?:pic|pie)", word.lower())]
    return command.library or (bool(positions) and positions[-1].lower() == "-fpic")


def _compile(
    settings: ToolchainSettings, command: CompilerCommand, rewritten_texts: dict[CommandSource, bytes], added: Added
) -> tuple[int, bytes]:
    """Compile rewritten texts in place of their sources; return the compiler's exit code and standard error."""
    folder = settings.place("passing", f"{os.getpid()}-{os.urandom(4).hex()}")
    paths = {}
    try:
        for source, text in rewritten_texts.items():
            # Outputs that the command does not name, such as objects, are named after the source; two sources may have
            # the same name.
            stem = os.path.splitext(os.path.basename(source.path))[0]
            path = os.path.join(folder, str(source.position), stem + (".ii" if "++" in source.language else ".i"))
            os.makedirs(os.path.dirname(path))
            paths[source.position] = path
            with open(path, "wb") as file:
                file.write(text)
        words = added.to(command.compiler, compiling_arguments(command, paths))
        code, _, errors = Process(words).wait()
        return code, errors
    finally:
        for path in paths.values():
            if os.path.exists(path):
                os.unlink(path)
            os.rmdir(os.path.dirname(path))
        if paths:
            os.rmdir(folder)


def _record(command: CompilerCommand, source: CommandSource, state: str, reason: str = "") -> SourceRecord:
    folders = tuple(include_folders(command))
    return SourceRecord(source.path, command.output, os.getcwd(), state, reason, include_folders=folders)


def _site(settings: ToolchainSettings, text: PreprocessedText, metric: int, slot: int, offset: int) -> LoggedSite:
    file, line = text.locate(offset)
    shown = text.data[offset : offset + 4 * _TEXT_LENGTH].split(b"\n")[0].decode("utf-8", "replace")
    return LoggedSite(settings.metrics[metric].name, slot, file, line, " ".join(shown.split())[:_TEXT_LENGTH])


def _logged(settings: ToolchainSettings, command: CompilerCommand, records: list[SourceRecord], code: int) -> int:
    """Log the sources of a successful command, and print those without counters; return the exit code."""
    if code == 0:
        write_log(settings.place("sites"), records)
        of_all = {command.reason, *(f"{source.language} source" for source in command.uncounted)}
        for record in records:
            if record.state == NOT_INSTRUMENTED:
                _note(settings, record, of_all=record.reason in of_all)
    return exit_code(code)


def _note(settings: ToolchainSettings, record: SourceRecord, *, of_all: bool) -> None:
    """Print that a source has no counters, once for each toolchain, or once for all sources with the same reason."""
    note = record.reason if of_all else "\0".join((record.folder, record.source, record.reason))
    if not is_first_note(settings, note):
        return
    others = " (this applies to all sources with the same reason; reported once)" if of_all else ""
    print(f"unperturbed cc: note: {record.source} has no counters: {record.reason}{others}", file=sys.stderr)


def is_first_note(settings: ToolchainSettings, note: str) -> bool:
    """Return whether a note has not yet been printed for a toolchain, and mark it as printed."""
    from hashlib import blake2b  # noqa: PLC0415  most commands do not need it

    mark = settings.place("noted", blake2b(note.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest())
    os.makedirs(settings.place("noted"), exist_ok=True)
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def _show(diagnostics: bytes) -> None:
    sys.stderr.flush()
    sys.stderr.buffer.write(diagnostics)
    sys.stderr.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
