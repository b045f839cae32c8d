"""Folders in which a compiler searches headers by itself, recorded for the launcher once for each set of flags."""

# pathlib would cost every command of a build 5 ms.
# ruff: noqa: PTH110, PTH116

from __future__ import annotations

import os
import re

from unperturbed.instrument.command_line.command import Command, folder_flags
from unperturbed.instrument.compiler.processes import captured, found_on_path
from unperturbed.instrument.compiler.settings import Settings
from unperturbed.instrument.files import write_whole

# -v: the compiler proper's own command line shows what else a driver, or a script in its place, hands on to it.
_FOLLOWED = re.compile(
    r"-internal-.*|-i(?:multiarch|multilib|prefix|sysroot|withprefix)|-isysroot.*|-include-pch-.*|-(?:no-)?integrated-.*"
)
_CHANGING = re.compile(
    r"-I.*|-i(?:quote|system|dirafter|nclude|macros).*|-fmodule.*|-ivfsoverlay.*|-fplugin.*|-include-pch.*"
)
_OWN_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")


def record_include_dirs(settings: Settings, command: Command, language: str) -> None:
    """Ask the compiler for its own folders and record them for the launcher, unless they are recorded.

    Notes
    -----
    A note is a list of fields, each ended by a zero: T, the compiler's time of change and size; K, a flag; d, a folder;
    D, a definition that the driver adds; U: what the compiler does cannot be followed, and every source needs Python.
    """
    flags = folder_flags(command)
    program = command.compiler[-1]
    path = f"{settings.folders_prefix}-{language}-{_mixed([program, *flags]):016x}"
    found = found_on_path(program)
    if not os.path.exists(found):
        return
    status = os.stat(found)
    stamp = f"T{status.st_mtime_ns} {status.st_size}"
    if _begins_with(path, stamp):
        return
    fields = [
        stamp,
        *(f"K{flag}" for flag in flags),
        *_asked([program, *flags, "-E", "-v", "-x", language, os.devnull]),
    ]
    write_whole(path, "".join(f"{field}\0" for field in fields).encode("utf-8", "surrogateescape"))


def _asked(words: list[str]) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
    code, _, stderr = captured(words, environment={**environment, "LC_ALL": "C"})
    text = stderr.decode("utf-8", "surrogateescape")
    lists = re.search(
        r'^#include "\.\.\." search starts here:\n((?: .*\n)*)#include <\.\.\.> search starts here:\n((?: '
        r".*\n)*)End of search list",
        text,
        re.M,
    )
    called = re.findall(r"^ .*[/\"]?(?:cc1(?:plus)?\"? |-cc1\"? ).*$", text, re.M)
    if code or lists is None or len(called) != 1 or lists[1] or "(framework directory)" in lists[2]:
        return ["U"]
    if re.search(r"^(?:Reading specs from|Configuration file:)", text, re.M):
        return ["U"]
    handed = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', called[0])
    handed = [word[1:-1] if word.startswith('"') else word for word in handed]
    if any(_CHANGING.fullmatch(word) and not _FOLLOWED.fullmatch(word) for word in handed):
        return ["U"]
    definitions = [word[2:] or handed[index + 1] for index, word in enumerate(handed[:-1]) if word.startswith("-D")]
    return [*(f"D{word}" for word in definitions), *(f"d{line[1:]}" for line in lists[2].splitlines())]


def _begins_with(path: str, stamp: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(len(stamp) + 1) == stamp.encode() + b"\0"
    except FileNotFoundError:
        return False


def _mixed(words: list[str]) -> int:
    """Return the hash by which the launcher finds a note: FNV-1a of the words, each with a zero behind it."""
    value = 0xCBF29CE484222325
    for byte in "".join(f"{word}\0" for word in words).encode("utf-8", "surrogateescape"):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
