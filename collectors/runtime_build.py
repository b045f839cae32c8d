"""Where the C runtime's sources are, and its build as a shared library for a program that was not built here (LD_PRELOAD)."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from unperturbed.errors import HostError

__all__ = ["SOURCES", "build_preload", "build_probe", "user_cache"]

_FOLDER = Path(__file__).parent / "runtime"
SOURCES = tuple(_FOLDER / name for name in ("sampler.c", "perf.c", "papi.c"))
"""The runtime's translation units; the instrumenting compiler wrapper compiles and links them with the measured program."""

_HEADERS = tuple(_FOLDER / name for name in ("unperturbed.h", "sources.h"))
_FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC")


def user_cache() -> Path:
    """Return the user's cache folder of this tool, made if need be."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "unperturbed"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def build_preload(compiler: str) -> Path:
    """Compile the runtime as a shared library, cached by content, and return its path."""
    return _build(compiler, "preload.so", (*_FLAGS, "-shared"), SOURCES)


def build_probe(compiler: str) -> Path:
    """Compile the program that does nothing but carry the runtime, to find out what this host can count; return its path."""
    return _build(compiler, "probe", _FLAGS, (*SOURCES, _FOLDER / "probe.c"))


def _build(compiler: str, name: str, flags: tuple[str, ...], sources: tuple[Path, ...]) -> Path:
    content = hashlib.sha256(repr((compiler, flags)).encode())
    for source in (*sources, *_HEADERS):
        content.update(source.read_bytes())
    target = user_cache() / f"{content.hexdigest()[:16]}-{name}"
    if target.exists():
        return target
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    command = [compiler, *flags, *map(str, sources), "-o", str(aside), "-ldl", "-lrt"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise HostError(
            f"there is no C compiler {compiler!r} on this host (on Debian: apt-get install gcc libc6-dev)"
        ) from None
    if result.returncode != 0:
        raise HostError(f"{compiler} cannot compile the runtime:\n{result.stderr.strip()[-2000:]}")
    aside.replace(target)
    return target
