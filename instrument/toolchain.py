"""Compilers for a build: a folder with `cc` and `cxx` that put the software metrics' counters into what they compile."""

from __future__ import annotations

import fcntl
import importlib.util
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import unperturbed.instrument
from unperturbed.errors import SpecError
from unperturbed.instrument.events import Event
from unperturbed.instrument.launching import write_executables
from unperturbed.instrument.settings import read_settings, settings_text, write_aside
from unperturbed.instrument.sitelog import Site, SiteReport, missing_metrics, read_sites

__all__ = ["Site", "SiteReport", "Toolchain", "missing_metrics", "read_sites", "write_toolchain"]

_DEFAULT_COMPILERS: Mapping[str, str] = MappingProxyType({"cc": "gcc", "cxx": "g++"})

_PROGRAM = """\
import sys
sys.path += {places!r}
from unperturbed.instrument.wrapper import run_and_leave
run_and_leave(sys.argv[1:])
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
) -> Toolchain:
    """Write the compilers of a build.

    Parameters
    ----------
    folder : made when missing; `settings.json`, `cc` and `cxx` are written there. A site log of other settings is removed.
    software : name of each software metric → its event; the order gives the metrics' indices. Empty: nothing is counted, programs
        are only linked with the runtime.
    compilers : `cc` and `cxx` → the command behind each (`gcc`, `clang-16`, `ccache gcc`); gcc and g++ when missing.
    runtime : C sources that are compiled by the same compiler and linked into every program.
    bounds : two C sources, linked first and last into every program and shared library, so that its counters fill pages of their own.
    sham : put a no-op of the same length in the place of each increment: the layout of the program that counts, without its counting.

    Raises
    ------
    SpecError
        A compiler's name is unknown or its command empty, or a runtime source is missing.
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
    text = settings_text(software, runtime, bounds, sham=sham).encode()
    commands = {name: shlex.split(command) for name, command in {**_DEFAULT_COMPILERS, **compilers}.items()}
    with _alone_in(folder):
        if not settings.is_file() or settings.read_bytes() != text:
            for name in ("sites", "noted"):
                shutil.rmtree(folder / name, ignore_errors=True)
            write_aside(str(settings), text)
        write_executables(read_settings(str(settings)), commands, [*_python(), "--settings", str(settings), "--"])
    return Toolchain(folder / "cc", folder / "cxx", folder)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other writers of the same toolchain waiting: the compilers of a build may each be run by `by_hand.run_compiler`."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _python() -> list[str]:
    """Return the command that runs the wrapper.

    -I: neither the build's PYTHON… variables nor a module in its folder may change what runs; so the packages' places are said. -S: a
    virtual environment's start-up files would cost every file 2 ms; they are read where the places cannot be said.
    """
    places = {Path(place).absolute() for place in unperturbed.instrument.__path__}
    clang = importlib.util.find_spec("clang")
    known = [str(place.parents[1]) for place in sorted(places) if place.parent.name == "unperturbed"]
    if known and clang is not None:
        known += [str(Path(place).parent) for place in clang.submodule_search_locations or ()]
        return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(places=list(dict.fromkeys(known)))]
    return [sys.executable, "-I", "-c", _PROGRAM.format(places=known)]
