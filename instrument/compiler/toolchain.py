"""A folder with compilers `cc` and `cxx` that put the counters of software metrics into what they compile."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import unperturbed.instrument
from unperturbed.common import supervision
from unperturbed.errors import RunError, SpecError
from unperturbed.instrument.command_line.command import parse_command, response_text
from unperturbed.instrument.compiler.launchers import write_executables
from unperturbed.instrument.compiler.settings import layout_file, read_settings, settings_text
from unperturbed.instrument.events.event import Event
from unperturbed.instrument.files import write_whole
from unperturbed.instrument.layout.link_log import Link

_DEFAULT_COMPILERS: Mapping[str, str] = MappingProxyType({"cc": "gcc", "cxx": "g++"})

_LONG_COMMAND = 100_000
"""Characters from which on a link's arguments go into a response file, as they came in one."""

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
    sham: bool = False,
    layouts: bool = False,
    objects: Path | None = None,
) -> Toolchain:
    """Write the compilers of a build.

    `folder`: Made when missing; `settings.json`, `cc` and `cxx` are written there. A site log of other settings is
    removed.
    `software`: Name of each software metric → its event; the order gives the metrics' indices. Empty: nothing is
    counted, programs are only linked with the runtime.
    `compilers`: `cc` and `cxx` → the command behind each (`gcc`, `clang-16`, `ccache gcc`); gcc and g++ when missing.
    `runtime`: C sources that are compiled by the same compiler and linked into every program.
    `bounds`: Two C sources, linked first and last into every program and shared library, so that its counters fill
    pages of their own.
    `sham`: Put a no-op of the same length in the place of each increment: the layout of the program that counts,
    without its counting.
    `layouts`: Note every link, for `relink`; and within `in_layout` link in another layout.
    `objects`: Folder in which the runtime's objects are kept, so that other toolchains need not compile them again.
    """
    for name, command in compilers.items():
        if name not in _DEFAULT_COMPILERS:
            raise SpecError(f"compilers: unknown name {name!r}; there are {' and '.join(_DEFAULT_COMPILERS)}")
        if not shlex.split(command):
            raise SpecError(f"compilers: {name} is empty; name a compiler such as {_DEFAULT_COMPILERS[name]}")
    for source in (*runtime, *bounds):
        if not source.is_file():
            raise SpecError(f"{source}: the runtime's source is missing")
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "settings.json"
    text = settings_text(software, runtime, bounds, sham=sham, layouts=layouts, objects=objects).encode()
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
    """Link everything meanwhile in the layout that is drawn from a text; see `instrument.layout.relink`."""
    _empty(_passing(folder))  # of what an earlier one left that was killed
    write_whole(layout_file(str(folder)), layout.encode())
    try:
        yield
    finally:
        Path(layout_file(str(folder))).unlink()
        _empty(_passing(folder))


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


def _passing(folder: Path) -> Path:
    return Path(read_settings(str(folder / "settings.json")).passing_folder)


def relink(folder: Path, link: Link) -> None:
    """Make a link of a build again, in its place, from the objects that the build left."""
    passing = _passing(folder)
    passing.mkdir(exist_ok=True)
    shown = shlex.join(link.words)
    if "-" in link.words:
        raise RunError(f"a link read its source from standard input, and cannot be made again: {shown}")
    words = link.words
    if sum(map(len, words)) > _LONG_COMMAND:
        response = folder.absolute() / "arguments"
        compiler = parse_command(words).compiler
        write_whole(str(response), response_text(words[len(compiler) :]).encode("utf-8", "surrogateescape"))
        words = (*compiler, f"@{response}")
    try:
        result = supervision.run(
            [*_wrapper(folder.absolute()), *words],
            cwd=link.folder,
            env={**_without_make(os.environ), **link.environment, "TMPDIR": str(passing)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except FileNotFoundError:
        raise RunError(f"a link cannot be made again, as its folder {link.folder} is gone: {shown}") from None
    if result.returncode:
        output = result.stdout.decode(errors="replace").strip()
        raise RunError(f"a link cannot be made again (exit code {result.returncode}): {shown}\n{output}")


def _without_make(environment: Mapping[str, str]) -> dict[str, str]:
    """Leave out what belongs to a make that we may run in: its job server is not for us."""
    return {name: value for name, value in environment.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}


def _wrapper(folder: Path) -> list[str]:
    """Return the command that runs the wrapper with a toolchain's settings."""
    return [*_python(), "--settings", str(folder / "settings.json"), "--"]


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other writers of the same toolchain waiting: a build may run `cc.run_compiler` many times at once."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _python() -> list[str]:
    """Return the command that runs the wrapper.

    -I: neither the build's PYTHON… variables nor a module in its folder may change what runs; so the packages' places
    are given. -S: a virtual environment's start-up files would cost every file 2 ms; they are read where the places
    are unknown.
    """
    places = {Path(place).absolute() for place in unperturbed.instrument.__path__}
    clang = importlib.util.find_spec("clang")
    known = [str(place.parents[1]) for place in sorted(places) if place.parent.name == "unperturbed"]
    if known and clang is not None:
        known += [str(Path(place).parent) for place in clang.submodule_search_locations or ()]
        return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(places=list(dict.fromkeys(known)))]
    return [sys.executable, "-I", "-c", _PROGRAM.format(places=known)]
