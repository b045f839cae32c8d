"""Compilation with numba: keep the code in the user's cache, and announce a slow first compilation.

Importing this module does not load the compiler (about half a second): the first call of a compiled function does. Code
is kept in the user's cache folder, by machine, compiler and source. If no code is there yet, compiling takes some
seconds, and the logger of the package that needs the function reports this.
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
"""A comma between two arguments, not between the axes of an array."""

_COMPILING = threading.Lock()
"""Lock of the thread that compiles; threads that need the same function wait for it."""


def compilable(function: _Function) -> _Function:
    """Mark a function that compiled functions call: it is compiled with its callers, and Python can still call it."""
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
    """Return a module's function, compiled for the given argument types; it releases the interpreter's lock.

    `signatures`: Types of the arguments, as text such as "const int32[::1], int64" or as numba's types; one signature
    for each combination of types in calls. A `const` array may be read-only, like the arrays of worker processes.
    `calls`: Full names of other modules whose functions it calls: if one of them changes, it is compiled anew.
    `called`: Name of the function in messages to users; by default the function's and module's name.
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
    sources = [Path(str(importlib.import_module(module_name).__file__)) for module_name in (module, *calls)]
    folder = _cache_folder(name, _fingerprint(sources, signatures))
    log, what = logging.getLogger(part), called or f"{function} of {name}"
    if folder is None:
        log.info("compiling %s: takes some seconds in every process, because the cache folder is not writable", what)
    elif not any(folder.rglob(f"*.{function}-*.nbi")):
        log.info("compiling %s: takes some seconds, only once; the code is kept in %s", what, folder)
    declared = [_argument_types(signature) if isinstance(signature, str) else signature for signature in signatures]
    settings = {"cache": folder is not None, "nogil": True, **dict(options)}
    with _numba_cache_in(folder):
        made: Callable[..., Any] = numba.njit(declared, **settings)(getattr(loaded, function))
    return made


def _argument_types(signature: str) -> tuple[Any, ...]:
    """Return the numba types of a signature's arguments; an array marked `const` may be read-only."""
    normalize = load_library("numba.core.sigutils").normalize_signature
    types, _ = normalize(f"({signature.replace(_CONST, '')},)")
    marks = [argument.strip().startswith(_CONST) for argument in _COMMA.split(signature)]
    return tuple(
        numba_type.copy(readonly=True) if const else numba_type for numba_type, const in zip(types, marks, strict=True)
    )


def _cache_folder(name: str, fingerprint: str) -> Path | None:
    """Return a folder in the user's cache, or None if it is not writable (then every process compiles anew)."""
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
    """Return a hash of compiler, processor, types and sources, as numba's cache ignores changes in called functions."""
    numba, binding = load_library("numba"), load_library("llvmlite.binding")
    digest = hashlib.sha256(f"{numba.__version__} {binding.get_host_cpu_name()} {signatures}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _numba_cache_in(folder: Path | None) -> Iterator[None]:
    """Make numba cache compiled code in this folder, not beside the source, while a function is declared."""
    numba = load_library("numba")
    settings = vars(numba.config)  # the module sets its names at run time, so type checkers do not know them
    chosen = settings["CACHE_DIR"]
    settings["CACHE_DIR"] = str(folder or "")
    try:
        yield
    finally:
        settings["CACHE_DIR"] = chosen
