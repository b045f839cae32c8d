"""The executables `cc` and `cxx` of a toolchain: copies of the launcher (`launcher/`, in C), or shell scripts."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from unperturbed.common import supervision
from unperturbed.common.user_cache import is_own_file, user_cache
from unperturbed.instrument.command_line.command import is_cxx_driver, parse_command
from unperturbed.instrument.command_line.options import (
    COMPILING,
    FOLDER_FLAGS,
    HARMLESS,
    HARMLESS_BUT,
    LANGUAGES,
    QUESTIONS,
    SEPARATE,
    UNCOUNTED,
)
from unperturbed.instrument.compiler.settings import Settings
from unperturbed.instrument.events.need import Need
from unperturbed.instrument.files import write_whole
from unperturbed.instrument.finding.prefilter import BEFORE_EXPRESSION, DECLARING, TRAILERS

_SOURCES = tuple(sorted((Path(__file__).parents[1] / "launcher").glob("*.[ch]")))
_FLAGS = ("-std=gnu11", "-O2", "-w")
_ANSWER = b"unperturbed launcher\n"
_PLACE = b"@UNPERTURBED-LAUNCHER-CONFIGURATION@"
_PLACE_BYTES = 4096
_USES = {"defined": "d", "called": "c", "written": "r"}
_PATIENCE_SECONDS = 60

_OPTION_TABLES = {"Q": QUESTIONS, "M": COMPILING, "A": HARMLESS, "X": HARMLESS_BUT, "G": FOLDER_FLAGS}
_WORD_TABLES = {"t": TRAILERS, "b": BEFORE_EXPRESSION, "y": DECLARING}

_SCRIPT = """\
#!/bin/sh
# settings {digest}
exec {command} "$@"
"""


def write_executables(settings: Settings, compilers: Mapping[str, Sequence[str]], python: Sequence[str]) -> None:
    """Write an executable for each compiler into the toolchain's folder; what is there and still right stays as it is.

    Notes
    -----
    What precedes a compiler (ccache) knows it by its time of change and its size, or by its content. Other
    settings, and the same settings in a folder made anew, are another compiler: each executable holds a digest with a
    random part, which also gives the fraction of the second in its time.
    """
    program = launcher_program(compilers["cc"], Path(settings.folder) / "cache")
    shared = _digest([(Path(settings.folder) / "settings.json").read_bytes(), *_own_sources(settings)]).encode()
    for name, words in compilers.items():
        target = Path(settings.folder) / name
        fields = b"".join(field + b"\0" for field in launcher_fields(settings, words, python, name))
        digest = _digest([fields, shared])
        configuration = f"{target}.launch"
        present = target.read_bytes() if target.is_file() else b""
        whole = (
            present.startswith(b"#!")
            if program is None
            else Path(configuration).is_file() and not present.startswith(b"#!")
        )
        if digest.encode() in present and whole:
            continue
        unique = f"{digest}-{os.urandom(8).hex()}"
        if program is None:
            content = _SCRIPT.format(digest=unique, command=shlex.join([*python, *words])).encode()
        else:
            write_whole(configuration, fields)
            content = _with_configuration(program.read_bytes(), configuration, unique)
        changed = (
            int(time.time()) * 10**9 + int(hashlib.blake2b(unique.encode(), digest_size=8).hexdigest(), 16) % 10**9
        )
        write_whole(str(target), content, executable=True, changed_ns=changed)


def launcher_program(compiler: Sequence[str], cache: Path) -> Path | None:
    """Return the compiled launcher, compiled now if no cache has it; None if this host has no C compiler."""
    if not _SOURCES:
        return None
    for find_folder in (user_cache, lambda: cache):
        try:
            folder = find_folder()
            folder.mkdir(parents=True, exist_ok=True)
            # Without a dynamic linker it starts in half the time.
            commands = [
                [*command, *flags]
                for command in dict.fromkeys((tuple(compiler), ("cc",), ("gcc",), ("clang",)))
                for flags in ((*_FLAGS, "-static"), _FLAGS)
            ]
            # First what any of them has made: a compiler for another machine would be tried for every toolchain.
            for make in (_present, _compiled):
                for command in commands:
                    program = make(command, folder)
                    if program is not None:
                        return program
        except OSError:
            continue
        break
    return None


def launcher_fields(settings: Settings, compiler: Sequence[str], python: Sequence[str], name: str) -> Iterable[bytes]:
    """Return what the launcher must know, field by field; see `read_configuration` in launcher/settings.c."""
    endings = {ending: "cpp-output" if "cpp-output" in language else language for ending, language in LANGUAGES.items()}
    if is_cxx_driver(compiler[-1]) or is_cxx_driver(parse_command((*compiler, "-c")).compiler[-1]):
        endings[".c"] = "c++"
    elif name == "cxx":
        endings[".c"] = "-"  # its name does not show how it takes C sources
    endings |= dict.fromkeys(UNCOUNTED, "-")
    fields = [
        *(f"C{word}" for word in compiler),
        *(["H"] if len(parse_command((*compiler, "-c")).compiler) > 1 else []),
        *(f"P{word}" for word in python),
        *(f"S{option}" for option in sorted(SEPARATE)),
        *(f"{letter}{option}" for letter, table in _OPTION_TABLES.items() for option in table.patterns),
        *(f"E{ending}={language}" for ending, language in endings.items()),
        *(f"{letter}{word.decode()}" for letter, table in _WORD_TABLES.items() for word in sorted(table)),
        f"L{settings.passed_log}",
        f"O{settings.folders_prefix}",
        *(["R"] if settings.runtime or settings.bounds or settings.layouts else []),
        *(field for metric in settings.metrics for field in _need_fields(metric.need)),
    ]
    return [field.encode("utf-8", "surrogateescape") for field in fields]


def _need_fields(need: Need) -> list[str]:
    fields = ["N"]
    # A sign beyond ASCII may be spelled \u…, or in another charset.
    fields += [f"w{word}" for word in need.words if word.isascii()]
    if need.used and need.used.isascii() and need.use in _USES:
        fields.append(f"{_USES[need.use]}{need.used}")
    for glob in need.files:
        name = os.path.normpath(glob).rpartition("/")[2]
        literal = re.split(r"[*?\[\]]", name)[-1]
        fields.append(
            f"{'F' if literal == name and name not in ('.', '..') else 'f'}{literal if name not in ('.', '..') else ''}"
        )
    return fields


def _present(command: Sequence[str], folder: Path) -> Path | None:
    """Return the launcher that one command has made before, None when there is none that runs on this host."""
    target = _place(command, folder)
    return target if is_own_file(target) and _answer([str(target)]) == _ANSWER else None


def _compiled(command: Sequence[str], folder: Path) -> Path | None:
    """Return the launcher made by one command, None when that fails or does not run on this host."""
    target = _place(command, folder)
    aside = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
    sources = [str(path) for path in _SOURCES if path.suffix == ".c"]
    try:
        if _answer([*command, *sources, "-o", str(aside)]) is None or _answer([str(aside)]) != _ANSWER:
            return None
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
    return target


def _place(command: Sequence[str], folder: Path) -> Path:
    return folder / f"{_digest([*(path.read_bytes() for path in _SOURCES), repr(command).encode()])}-launcher"


def _answer(command: Sequence[str]) -> bytes | None:
    """Return what a command prints, None when it cannot be run, fails or does not end."""
    try:
        result = supervision.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return None if result.returncode else bytes(result.stdout)


def _with_configuration(program: bytes, configuration: str, digest: str) -> bytes:
    """Return the program with its configuration's path, and a digest behind it, in the place that is kept for them."""
    place = program.index(_PLACE)
    text = os.fsencode(configuration) + b"\0" + digest.encode()
    if len(os.fsencode(configuration)) >= _PLACE_BYTES:
        raise OSError(36, os.strerror(36), configuration)
    return program[:place] + text.ljust(len(_PLACE), b"\0") + program[place + max(len(text), len(_PLACE)) :]


def _own_sources(settings: Settings) -> list[bytes]:
    """Return everything else that decides what is put into a program: this package, and the runtime."""
    runtime = map(Path, (*settings.runtime, *settings.bounds))
    return [_package_digest().encode(), *(path.read_bytes() for path in runtime)]


@cache
def _package_digest() -> str:
    return _digest(path.read_bytes() for path in sorted(Path(__file__).parents[1].rglob("*.py")))


def _digest(contents: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for content in contents:
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()
