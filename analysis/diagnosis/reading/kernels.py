"""The compiled loop over lines, kept in the user's cache folder: compiled once for each machine, compiler and source."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding  # type: ignore[import-untyped]

from unperturbed.analysis.diagnosis.reading import ftrace, gstreamer, line, scan, simple, spans, table
from unperturbed.analysis.diagnosis.reading.spans import UNCOUNTED

__all__ = ["kernel"]

_LOG = logging.getLogger("unperturbed.analysis.diagnosis")
_COMPILING = threading.Lock()
"""Held by one thread while it compiles; those that need the same wait for it."""


def kernel(name: str) -> Callable[..., Any]:
    """Return a function of `scan`, compiled now or as it was compiled before."""
    with _COMPILING:
        return _compiled(name)


@cache
def _compiled(name: str) -> Callable[..., Any]:
    folder = _cache_folder()
    if folder is None:
        _LOG.info("compiling the readers of event logs: some seconds, each time, as no cache folder can be written")
    elif not any(folder.rglob(f"*.{name}-*.nbi")):
        _LOG.info("compiling the readers of event logs: some seconds, this once; kept in %s", folder)
    with _compiler_caching_in(folder):
        options: dict[str, Any] = {"cache": folder is not None, "nogil": True, "error_model": "numpy", **UNCOUNTED}
        made: Callable[..., Any] = numba.njit([_signature(name)], **options)(getattr(scan, name))
    return made


def _signature(name: str) -> Any:
    integer, text = numba.int64, numba.uint8[::1]
    integers, table_of = numba.int64[::1], numba.int64[:, ::1]
    named_tuple: Callable[..., Any] = numba.types.NamedTuple
    held = named_tuple(
        (
            integers,
            integers,
            numba.int32[::1],
            numba.int32[::1],
            numba.uint64[::1],
            table_of,
            integers,
            text,
            table_of,
            table_of,
            table_of,
            numba.uint8[:, ::1],
        ),
        scan.Held,
    )
    truth = numba.boolean
    signatures: dict[str, Any] = {
        "scan": (integer, text, integer, integer, truth, integers, integer, truth, integer, text, text, held),
        "again_hashed": (numba.int32[::1], numba.uint64[::1], integer),
        "renumbered": (numba.int32[::1],) * 4,
    }
    return signatures[name]


def _cache_folder() -> Path | None:
    """Return a folder of the user's cache, or None where it cannot be written (then every process compiles anew)."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    # The base directory specification: a relative path there is invalid and has to be ignored.
    base = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
    folder = base / "unperturbed" / "kernels" / _origin()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


@cache
def _origin() -> str:
    """Return what the code is made from and for: numba itself would miss a change in a module that another one calls."""
    made_from = hashlib.sha256(f"{numba.__version__} {binding.get_host_cpu_name()}".encode())
    for module in (scan, spans, line, gstreamer, ftrace, simple, table):
        made_from.update(Path(str(module.__file__)).read_bytes())
    return made_from.hexdigest()[:16]


@contextmanager
def _compiler_caching_in(folder: Path | None) -> Iterator[None]:
    """Let numba choose this folder while a function is declared: left alone, it writes beside the source."""
    settings = vars(numba.config)  # the module sets its names at run time, so type checkers do not know them
    chosen = settings["CACHE_DIR"]
    settings["CACHE_DIR"] = str(folder or "")
    try:
        yield
    finally:
        settings["CACHE_DIR"] = chosen
