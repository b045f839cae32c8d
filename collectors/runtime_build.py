"""Where the C runtime's sources are, and the builds of it that belong to no measured program's own build."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from pathlib import Path

from unperturbed.errors import HostError

__all__ = [
    "BOUNDS",
    "SOURCES",
    "build_counters",
    "build_hit_cost",
    "build_interposer",
    "build_list",
    "build_observer",
    "build_preload",
    "build_probe",
    "build_python_counter",
    "user_cache",
]

_FOLDER = Path(__file__).parent / "runtime"


def _files(*names: str) -> tuple[Path, ...]:
    return tuple(_FOLDER / name for name in names)


SOURCES = _files("record.c", "software.c", "os.c", "perf.c", "papi.c", "inside.c", "threads.c")
"""The runtime's translation units; the instrumenting compiler wrapper compiles and links them with the measured program."""

BOUNDS = _files("module_first.c", "module_last.c")
"""What is linked first and last into each program and library that holds counters, so that these fill pages of their own."""

_OBSERVER = _files("observer.c", "shared.c", "record.c", "os.c", "perf.c", "papi.c")
_HEADERS = _files("unperturbed.h", "runtime.h", "sources.h", "simulator.h", "observer.h", "list.h")
_FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC")


def user_cache() -> Path:
    """Return the user's cache folder of this tool, made if need be."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "unperturbed"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def build_preload(compiler: str) -> Path:
    """Compile the runtime as a shared library for a program that was not built here (LD_PRELOAD), and return its path."""
    return _build(compiler, "preload.so", (*_FLAGS, "-shared"), SOURCES)


def build_observer(compiler: str) -> Path:
    """Compile the outside sampler, and return its path."""
    return _build(compiler, "observer", (*_FLAGS, "-rdynamic"), _OBSERVER)


def build_counters(compiler: str) -> Path:
    """Compile the counter sources alone as a shared library, for a process that counts itself, and return its path."""
    return _build(compiler, "counters.so", (*_FLAGS, "-shared"), _files("perf.c", "papi.c"))


def build_probe(compiler: str) -> Path:
    """Compile the program that does nothing but carry the runtime, to find out what this host can count; return its path."""
    return _build(compiler, "probe", _FLAGS, (*SOURCES, *_files("probe.c")))


def build_interposer(compiler: str, text: str) -> Path:
    """Compile a library that counts calls of other libraries' functions, and return its path.

    Parameters
    ----------
    text : its C text, as `unperturbed.instrument.interposition` writes it.
    """
    return _build(compiler, "interposer.so", (*_FLAGS, "-shared", "-Wl,-z,initfirst"), BOUNDS, text)


def build_python_counter(compiler: str) -> Path:
    """Compile the module that counts for Python programs, whatever their version, and return its path."""
    first, last = BOUNDS
    return _build(compiler, "python.so", (*_FLAGS, "-shared"), (first, *_files("python.c"), last))


def build_list(compiler: str) -> Path:
    """Compile the program that tries single events and lists what PAPI knows; return its path."""
    return _build(compiler, "list", _FLAGS, _files("list.c", "list_papi.c"))


def build_hit_cost(compiler: str) -> Path:
    """Compile the program that measures what a hit of a kernel's probe costs; return its path."""
    return _build(compiler, "hit-cost", _FLAGS, _files("hit_cost.c", "perf.c"))


def _build(compiler: str, name: str, flags: tuple[str, ...], sources: tuple[Path, ...], text: str = "") -> Path:
    """Compile and link, cached by content: compiler, flags, sources and headers; `text` is one more source, before the last."""
    content = hashlib.sha256(repr((compiler, flags, text)).encode())
    for source in (*sources, *_HEADERS):
        content.update(source.read_bytes())
    target = user_cache() / f"{content.hexdigest()[:16]}-{name}"
    if target.exists():
        return target
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    files = list(map(str, sources))
    if text:
        files[-1:-1] = ["-x", "c", "-", "-x", "none"]
    command = [*shlex.split(compiler), *flags, *files, "-o", str(aside), "-ldl", "-lrt"]
    try:
        result = subprocess.run(command, input=text or None, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise HostError(
            f"there is no C compiler {compiler!r} on this host (on Debian: apt-get install gcc libc6-dev)"
        ) from None
    if result.returncode != 0:
        raise HostError(f"{compiler} cannot compile the runtime:\n{result.stderr.strip()[-2000:]}")
    aside.replace(target)
    return target
