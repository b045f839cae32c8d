"""Compiled functions: where their code is kept, and a word before they are compiled.

Importing this module does not load the compiler (about half a second): the first call of a compiled function does. Code is kept in
the user's cache folder, by machine, compiler and source; where there is none yet, compiling takes some seconds, and the logger of
the part that asks says so.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["compiled"]

_COMPILING = threading.Lock()
"""Held by one thread while it compiles; those that need the same wait for it."""


def compiled(module: str, function: str, signatures: tuple[str, ...]) -> Callable[..., Any]:
    """Return a function of a module compiled for some types of arguments, or as it was compiled before.

    Parameters
    ----------
    module : str
        Full name of the module that holds the function; all that the function calls is in this module too.
    function : str
    signatures : tuple of str
        Types of the arguments as numba writes them: "int32[::1], int64". One for each set of types it is called with.

    Returns
    -------
    callable
        It lets other threads run meanwhile.
    """
    with _COMPILING:
        return _declared(module, function, signatures)


@cache
def _declared(module: str, function: str, signatures: tuple[str, ...]) -> Callable[..., Any]:
    import numba  # noqa: PLC0415  (slow to load)

    loaded = importlib.import_module(module)
    part, _, name = module.rpartition(".")
    folder = _cache_folder(name, _origin(Path(str(loaded.__file__)), signatures))
    log = logging.getLogger(part)
    if folder is None:
        log.info("compiling %s of %s: some seconds, each time, as no cache folder can be written", function, name)
    elif not any(folder.rglob(f"*.{function}-*.nbi")):
        log.info("compiling %s of %s: some seconds, this once; kept in %s", function, name, folder)
    declared = [f"({arguments},)" for arguments in signatures]
    with _compiler_caching_in(folder):
        made: Callable[..., Any] = numba.njit(declared, cache=folder is not None, nogil=True)(getattr(loaded, function))
    return made


def _cache_folder(name: str, origin: str) -> Path | None:
    """Return a folder of the user's cache, or None where it cannot be written (then every process compiles anew)."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    # The base directory specification: a relative path there is invalid and has to be ignored.
    base = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
    folder = base / "unperturbed" / "kernels" / f"{name}-{origin}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


@cache
def _origin(source: Path, signatures: Sequence[str]) -> str:
    """Return what the code is made from and for: numba itself would miss a change in a function that another one calls."""
    import numba  # noqa: PLC0415
    from llvmlite import binding  # type: ignore[import-untyped]  # noqa: PLC0415

    made_from = f"{numba.__version__} {binding.get_host_cpu_name()} {signatures}".encode()
    return hashlib.sha256(made_from + source.read_bytes()).hexdigest()[:16]


@contextmanager
def _compiler_caching_in(folder: Path | None) -> Iterator[None]:
    """Let numba choose this folder while a function is declared: left alone, it writes beside the source."""
    import numba  # noqa: PLC0415

    settings = vars(numba.config)  # the module sets its names at run time, so type checkers do not know them
    chosen = settings["CACHE_DIR"]
    settings["CACHE_DIR"] = str(folder or "")
    try:
        yield
    finally:
        settings["CACHE_DIR"] = chosen
