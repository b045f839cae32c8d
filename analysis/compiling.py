"""Compiled functions: compile with numba, keep the code in the user's cache, announce a slow first compilation.

Importing this module does not load the compiler (about half a second): the first call of a compiled function does. Code
is kept in the user's cache folder, by machine, compiler and source. Where there is none yet, compiling takes some
seconds, and the logger of the part that needs it reports so.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from unperturbed.common.extras import load_library
from unperturbed.common.user_cache import is_own_file, user_cache

_Function = TypeVar("_Function", bound=Callable[..., Any])

_CONST = "const "
_COMMA = re.compile(r",(?![^[]*\])")
"""Between two arguments, not between the axes of one."""

_COMPILING = threading.Lock()
"""Held by one thread while it compiles; those that need the same wait for it."""


def compilable(function: _Function) -> _Function:
    """Mark a function that compiled functions call; it stays callable as it is, and is compiled with its callers."""
    marked: _Function = load_library("numba.extending").register_jitable(function)
    return marked


def compiled(
    module: str,
    function: str,
    signatures: tuple[Any, ...],
    *,
    calls: tuple[str, ...] = (),
    called: str = "",
    **options: Any,
) -> Callable[..., Any]:
    """Return a function of a module compiled for some types of arguments; it releases the interpreter's lock.

    `signatures`: Types of the arguments, as text "const int32[::1], int64" or as numba's types, one for each set that
    it is called with. A `const` array may be read-only, as those of worker processes.
    `calls`: Full names of other modules whose functions it calls: when one changes, it is compiled anew.
    `called`: How the compilation is announced to users; the function's and module's name by default.
    `**options`: Further options of numba.njit.
    """
    with _COMPILING:
        return _declare(module, function, signatures, calls, called, tuple(options.items()))


@cache
def _declare(
    module: str,
    function: str,
    signatures: tuple[Any, ...],
    calls: tuple[str, ...],
    called: str,
    options: tuple[tuple[str, Any], ...],
) -> Callable[..., Any]:
    numba = load_library("numba")
    loaded = importlib.import_module(module)
    part, _, name = module.rpartition(".")
    sources = [Path(str(importlib.import_module(one).__file__)) for one in (module, *calls)]
    folder = _cache_folder(name, _fingerprint(sources, signatures))
    log, what = logging.getLogger(part), called or f"{function} of {name}"
    if folder is None:
        log.info("compiling %s: some seconds, each time, as no cache folder can be written", what)
    elif not any(folder.rglob(f"*.{function}-*.nbi")):
        log.info("compiling %s: some seconds, this once; kept in %s", what, folder)
    declared = [_argument_types(one) if isinstance(one, str) else one for one in signatures]
    settings = {"cache": folder is not None, "nogil": True, **dict(options)}
    with _numba_cache_in(folder):
        made: Callable[..., Any] = numba.njit(declared, **settings)(getattr(loaded, function))
    return made


def _argument_types(signature: str) -> tuple[Any, ...]:
    """Return numba's types of a signature's arguments; an array marked `const` may be read-only."""
    normalize = load_library("numba.core.sigutils").normalize_signature
    types, _ = normalize(f"({signature.replace(_CONST, '')},)")
    marks = [one.strip().startswith(_CONST) for one in _COMMA.split(signature)]
    return tuple(one.copy(readonly=True) if const else one for one, const in zip(types, marks, strict=True))


def _cache_folder(name: str, fingerprint: str) -> Path | None:
    """Return a folder of the user's cache, or None where it cannot be written (then every process compiles anew)."""
    try:
        folder = user_cache() / "kernels" / f"{name}-{fingerprint}"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return None
    for file in folder.rglob("*"):  # numba executes what it finds here
        is_own_file(file)
    return folder


def _fingerprint(sources: Sequence[Path], signatures: Sequence[Any]) -> str:
    """Return a hash of compiler, processor, types and sources: numba's cache misses a change in a called function."""
    numba, binding = load_library("numba"), load_library("llvmlite.binding")
    digest = hashlib.sha256(f"{numba.__version__} {binding.get_host_cpu_name()} {signatures}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _numba_cache_in(folder: Path | None) -> Iterator[None]:
    """Make numba keep its cache in a folder while a function is declared: by default it writes beside the source."""
    numba = load_library("numba")
    settings = vars(numba.config)  # the module sets its names at run time, so type checkers do not know them
    chosen = settings["CACHE_DIR"]
    settings["CACHE_DIR"] = str(folder or "")
    try:
        yield
    finally:
        settings["CACHE_DIR"] = chosen
