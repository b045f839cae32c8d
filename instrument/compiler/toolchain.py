"""Toolchains: folders with compilers `cc` and `cxx` that insert the counters of software metrics into the code."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import unperturbed.instrument
from unperturbed.common import supervision
from unperturbed.common.user_cache import is_own_file, user_cache
from unperturbed.errors import RunError, SpecError
from unperturbed.instrument.command_line import (
    COMPILING,
    FOLDER_FLAGS,
    LANGUAGES,
    QUESTIONS,
    SEPARATE,
    UNCOUNTED,
    Options,
    is_cxx_driver,
    parse_command,
    response_text,
)
from unperturbed.instrument.compiler.settings import (
    LAYOUT_FILE,
    PLAIN_FILE,
    ToolchainSettings,
    read_settings,
    settings_text,
)
from unperturbed.instrument.events.event import Event
from unperturbed.instrument.events.targets import Need
from unperturbed.instrument.files import write_whole
from unperturbed.instrument.finding.prefilter import BEFORE_EXPRESSION, DECLARING, TRAILERS
from unperturbed.instrument.finding.rewrite import Form
from unperturbed.instrument.layout import Link

_SOURCES = tuple(sorted((Path(__file__).parents[1] / "launcher").glob("*.[ch]")))
_FLAGS = ("-std=gnu11", "-O2", "-w")
_ANSWER = b"unperturbed launcher\n"
_PLACE = b"@UNPERTURBED-LAUNCHER-CONFIGURATION@"
_PLACE_BYTES = 4096
_USES = {"defined": "d", "called": "c", "written": "r"}
_PATIENCE_SECONDS = 60

_HARMLESS = Options("""
    -O* -g* -W* -f* -std=* --std=* -ansi -pipe -pthread -w -v -s -p -pg -H -undef -pedantic* -static* --static
    -shared* --shared -rdynamic -pie -no-pie -symbolic -coverage --coverage -nostartfiles -nodefaultlibs -nostdlib*
    -nolibc -r -Qunused-arguments -Qn -Qy -MD -MMD -MP -MG -MF* -MT* -MQ* -MJ* -o* -l* -L* -U* -T* -u* -z -e -h
    -Xlinker -Xassembler -mllvm --param* -dumpbase* -dumpdir -aux-info --serialize-diagnostics
    -serialize-diagnostics
""")
"""Options that change neither which files are read nor their preprocessed content."""

_HARMLESS_BUT = Options("""
    -fmodule* -fno-module* -fimplicit-module* -fprebuilt-module* -fdirectives-only -fpreprocessed -finput-charset*
    -fplugin* -fpass-plugin* -fpch-preprocess -fms-compat* -fsearch* -frewrite* -finclude* -fbuiltin-module* -Wp,*
    -gen* -Ob*
""")
"""Exceptions to `_HARMLESS`: they change texts or the search for files, or rule out instrumentation of a source."""

_OPTION_TABLES = {"Q": QUESTIONS, "M": COMPILING, "A": _HARMLESS, "X": _HARMLESS_BUT, "G": FOLDER_FLAGS}
_WORD_TABLES = {"t": TRAILERS, "b": BEFORE_EXPRESSION, "y": DECLARING}

_SCRIPT = """\
#!/bin/sh
# settings {digest}
exec {command} "$@"
"""


def write_executables(
    settings: ToolchainSettings, compilers: Mapping[str, Sequence[str]], python: Sequence[str]
) -> None:
    """Write an executable for each compiler into the toolchain's folder; executables that are up to date stay.

    Tools such as ccache identify a compiler by its modification time and size, or by its content. With other settings,
    or in a new folder, it must be a different compiler: each executable contains a digest with a random part, which
    also determines the fraction of a second in its modification time.
    """
    program = launcher_program(compilers["cc"], Path(settings.folder) / "cache")
    # The instrumentation of a program depends on the settings, this package, and the runtime.
    runtime = (Path(path).read_bytes() for path in (*settings.runtime, *settings.bounds))
    own = (Path(settings.folder) / "settings.json").read_bytes()
    shared = _digest([own, _package_digest().encode(), *runtime]).encode()
    for name, words in compilers.items():
        target = Path(settings.folder) / name
        fields = b"".join(field + b"\0" for field in launcher_fields(settings, words, python, name))
        digest = _digest([fields, shared])
        configuration = f"{target}.launch"
        present = target.read_bytes() if target.is_file() else b""
        is_script = present.startswith(b"#!")
        whole = is_script if program is None else Path(configuration).is_file() and not is_script
        if digest.encode() in present and whole:
            continue
        unique = f"{digest}-{os.urandom(8).hex()}"
        if program is None:
            content = _SCRIPT.format(digest=unique, command=shlex.join([*python, *words])).encode()
        else:
            write_whole(configuration, fields)
            content = _with_configuration(program.read_bytes(), configuration, unique)
        fraction = int(hashlib.blake2b(unique.encode(), digest_size=8).hexdigest(), 16) % 10**9
        write_whole(str(target), content, executable=True, changed_ns=int(time.time()) * 10**9 + fraction)


def launcher_program(compiler: Sequence[str], cache: Path) -> Path | None:
    """Return the compiled launcher, from a cache or compiled now; None if this host has no C compiler."""
    if not _SOURCES:
        return None
    sources = [path.read_bytes() for path in _SOURCES]
    for find_folder in (user_cache, lambda: cache):
        try:
            folder = find_folder()
            folder.mkdir(parents=True, exist_ok=True)
            # A statically linked launcher starts in half the time.
            commands = [
                [*command, *flags]
                for command in dict.fromkeys((tuple(compiler), ("cc",), ("gcc",), ("clang",)))
                for flags in ((*_FLAGS, "-static"), _FLAGS)
            ]
            # Look for any cached launcher first; otherwise, every toolchain would retry a compiler for another machine.
            targets = [folder / f"{_digest([*sources, repr(command).encode()])}-launcher" for command in commands]
            for target in targets:
                if is_own_file(target) and _answer([str(target)]) == _ANSWER:
                    return target
            for command, target in zip(commands, targets, strict=True):
                if program := _compiled(command, target):
                    return program
        except OSError:
            continue
        break
    return None


def launcher_fields(
    settings: ToolchainSettings, compiler: Sequence[str], python: Sequence[str], name: str
) -> Iterable[bytes]:
    """Return the fields of the launcher's configuration; see `read_configuration` in launcher/settings.c."""
    endings = {ending: "cpp-output" if "cpp-output" in language else language for ending, language in LANGUAGES.items()}
    if is_cxx_driver(compiler[-1]) or is_cxx_driver(parse_command((*compiler, "-c")).compiler[-1]):
        endings[".c"] = "c++"
    elif name == "cxx":
        endings[".c"] = "-"  # its name does not show how it treats C sources
    endings |= dict.fromkeys(UNCOUNTED, "-")
    fields = [
        *(f"C{word}" for word in compiler),
        *(["H"] if len(parse_command((*compiler, "-c")).compiler) > 1 else []),
        *(f"P{word}" for word in python),
        *(f"S{option}" for option in sorted(SEPARATE)),
        *(f"{letter}{option}" for letter, table in _OPTION_TABLES.items() for option in table.patterns),
        *(f"E{ending}={language}" for ending, language in endings.items()),
        *(f"{letter}{word.decode()}" for letter, table in _WORD_TABLES.items() for word in sorted(table)),
        f"L{settings.place('sites', 'passed')}",
        f"O{settings.place('cache', 'folders')}",
        *(["R"] if settings.runtime or settings.bounds or settings.layouts else []),
        *(field for metric in settings.metrics for field in _need_fields(metric.need)),
    ]
    return [field.encode("utf-8", "surrogateescape") for field in fields]


def _need_fields(need: Need) -> list[str]:
    fields = ["N"]
    # A character beyond ASCII may be written as \u…, or in another charset.
    fields += [f"w{word}" for word in need.words if word.isascii()]
    if need.used and need.used.isascii() and need.use in _USES:
        fields.append(f"{_USES[need.use]}{need.used}")
    for glob in need.files:
        name = os.path.normpath(glob).rpartition("/")[2]
        literal = "" if name in (".", "..") else re.split(r"[*?\[\]]", name)[-1]
        fields.append(f"{'F' if literal == name else 'f'}{literal}")
    return fields


def _compiled(command: Sequence[str], target: Path) -> Path | None:
    """Compile the launcher with one command; return None if that fails or the launcher does not run on this host."""
    aside = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
    sources = [str(path) for path in _SOURCES if path.suffix == ".c"]
    try:
        if _answer([*command, *sources, "-o", str(aside)]) is None or _answer([str(aside)]) != _ANSWER:
            return None
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
    return target


def _answer(command: Sequence[str]) -> bytes | None:
    """Return the standard output of a command; None if the command cannot be run, fails or does not end."""
    try:
        result = supervision.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return None if result.returncode else bytes(result.stdout)


def _with_configuration(program: bytes, configuration: str, digest: str) -> bytes:
    """Return the launcher with its configuration's path and a digest written into the space reserved for them."""
    place = program.index(_PLACE)
    text = os.fsencode(configuration) + b"\0" + digest.encode()
    if len(os.fsencode(configuration)) >= _PLACE_BYTES:
        raise OSError(36, os.strerror(36), configuration)
    return program[:place] + text.ljust(len(_PLACE), b"\0") + program[place + max(len(text), len(_PLACE)) :]


@cache
def _package_digest() -> str:
    return _digest(path.read_bytes() for path in sorted(Path(__file__).parents[1].rglob("*.py")))


def _digest(contents: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for content in contents:
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


_DEFAULT_COMPILERS: Mapping[str, str] = MappingProxyType({"cc": "gcc", "cxx": "g++"})

_OF_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
_LONG_COMMAND = 100_000
"""Length, in characters, above which a link's arguments go into a response file, as they did in the build."""

_PROGRAM = """\
import sys
sys.path += {places!r}
from unperturbed.instrument.compiler.wrapper import run_and_exit
run_and_exit(sys.argv[1:])
"""


@dataclass(frozen=True)
class Toolchain:
    """Compilers of one build: paths of executables, and their folder (settings, site log, cache)."""

    cc: Path
    cxx: Path
    folder: Path


def write_toolchain(
    folder: Path,
    software: Mapping[str, Event],
    *,
    compilers: Mapping[str, str],
    runtime: Sequence[Path] = (),
    bounds: Sequence[Path] = (),
    form: Form = "counting",
    layouts: bool = False,
    objects: Path | None = None,
    ends_intervals: str = "",
    doses: int = 1,
) -> Toolchain:
    """Write the compilers of a build, `cc` and `cxx`, with `settings.json`; remove the site log of other settings.

    `software`: Name of each metric → its event, in the order of the metrics' indices. If empty, nothing is counted, and
    programs are only linked with the runtime.
    `compilers`: `cc` and `cxx` → the command behind each (`gcc`, `clang-16`, `ccache gcc`); by default, gcc and g++.
    `runtime`, `bounds`, `form`, `objects`, `doses`: As in `ToolchainSettings`.
    `ends_intervals`: The metric whose events end intervals; '' if none does.
    `layouts`: Record every link, for `relink`; and within `in_layout`, link in another layout.
    """
    for name, command in compilers.items():
        if name not in _DEFAULT_COMPILERS:
            use = " or ".join(f"`{known_name}`" for known_name in _DEFAULT_COMPILERS)
            raise SpecError(f"`compilers`: unknown name {name!r}; use {use}")
        if not shlex.split(command):
            raise SpecError(f"`compilers`: `{name}` is empty; name a compiler such as {_DEFAULT_COMPILERS[name]}")
    for source in (*runtime, *bounds):
        if not source.is_file():
            raise SpecError(f"{source}: this source file of Unperturbed's runtime is missing")
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "settings.json"
    text = settings_text(
        software,
        runtime,
        bounds,
        form=form,
        layouts=layouts,
        objects=objects,
        ends_intervals=ends_intervals,
        doses=doses,
    ).encode()
    commands = {name: shlex.split(command) for name, command in {**_DEFAULT_COMPILERS, **compilers}.items()}
    with _alone_in(folder):
        if not settings.is_file() or settings.read_bytes() != text:
            for name in ("sites", "noted", "links"):
                shutil.rmtree(folder / name, ignore_errors=True)
            write_whole(str(settings), text)
        write_executables(read_settings(str(settings)), commands, _wrapper(folder))
    return Toolchain(folder / "cc", folder / "cxx", folder)


@contextmanager
def in_layout(folder: Path, layout: str) -> Iterator[None]:
    """Within this context, link everything in the random layout whose seed is a text; see `instrument.layout`."""
    passing = folder / "passing"
    shutil.rmtree(passing, ignore_errors=True)  # an earlier layout that was killed left files
    passing.mkdir()
    write_whole(str(folder / LAYOUT_FILE), layout.encode())
    try:
        yield
    finally:
        (folder / LAYOUT_FILE).unlink()
        shutil.rmtree(passing, ignore_errors=True)
        passing.mkdir()


@contextmanager
def without_runtime(folder: Path) -> Iterator[None]:
    """Within this context, a toolchain that records its links adds nothing to them."""
    write_whole(str(folder / PLAIN_FILE), b"")
    try:
        yield
    finally:
        (folder / PLAIN_FILE).unlink()


def relink(folder: Path, link: Link) -> None:
    """Repeat a link of a build in its original folder, from the objects that the build left."""
    passing = folder.absolute() / "passing"
    passing.mkdir(exist_ok=True)
    shown = shlex.join(link.words)
    if "-" in link.words:
        raise RunError(f"cannot repeat this link, because it read its source from standard input: {shown}")
    words = link.words
    if sum(map(len, words)) > _LONG_COMMAND:
        response = folder.absolute() / "arguments"
        compiler = parse_command(words).compiler
        write_whole(str(response), response_text(words[len(compiler) :]).encode("utf-8", "surrogateescape"))
        words = (*compiler, f"@{response}")
    environment = {name: value for name, value in os.environ.items() if name not in _OF_MAKE}
    try:
        result = supervision.run(
            [*_wrapper(folder.absolute()), *words],
            cwd=link.folder,
            # The job server of a make that started this process is not for this link.
            env={**environment, **link.environment, "TMPDIR": str(passing)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except FileNotFoundError:
        raise RunError(f"cannot repeat this link, because its folder {link.folder} no longer exists: {shown}") from None
    if result.returncode:
        output = result.stdout.decode(errors="replace").strip()
        raise RunError(f"repeating this link failed (exit code {result.returncode}): {shown}\n{output}")


def _wrapper(folder: Path) -> list[str]:
    """Return the command that runs the wrapper with a toolchain's settings."""
    return [*_python(), "--settings", str(folder / "settings.json"), "--"]


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Lock a toolchain against other writers: a build may run `cc.run_compiler` many times in parallel."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _python() -> list[str]:
    """Return the command that runs the wrapper.

    -I: neither the build's PYTHON… variables nor a module in its folder may change what runs; therefore, the program
    adds the packages' folders. -S: a virtual environment's start-up files would cost every command 2 ms.
    """
    places = {Path(place).absolute() for place in unperturbed.instrument.__path__}
    clang = importlib.util.find_spec("clang")
    known = [str(place.parents[1]) for place in sorted(places) if place.parent.name == "unperturbed"]
    if known and clang is not None:
        known += [str(Path(place).parent) for place in clang.submodule_search_locations or ()]
        return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(places=list(dict.fromkeys(known)))]
    return [sys.executable, "-I", "-c", _PROGRAM.format(places=known)]
