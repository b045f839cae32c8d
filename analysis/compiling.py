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


def compiled(
    module: str,
    function: str,
    signatures: tuple[Any, ...],
    *,
    calls: tuple[str, ...] = (),
    called: str = "",
    **options: Any,
) -> Callable[..., Any]:
    """Return a function of a module compiled for some types of arguments, or as it was compiled before.

    Parameters
    ----------
    module : str
        Full name of the module that holds the function.
    function : str
    signatures : tuple of str or of tuples of numba's types
        Types of the arguments, as text "int32[::1], int64". One for each set of types it is called with.
    calls : tuple of str
        Full names of other modules whose functions it calls: when one changes, it is compiled anew.
    called : str
        What users are told is compiled; the function's and module's name by default.
    **options
        Further options of numba.njit.

    Returns
    -------
    callable
        It lets other threads run meanwhile.
    """
    with _COMPILING:
        return _declared(module, function, signatures, calls, called, tuple(options.items()))


@cache
def _declared(
    module: str,
    function: str,
    signatures: tuple[Any, ...],
    calls: tuple[str, ...],
    called: str,
    options: tuple[tuple[str, Any], ...],
) -> Callable[..., Any]:
    import numba  # noqa: PLC0415  (slow to load)

    loaded = importlib.import_module(module)
    part, _, name = module.rpartition(".")
    sources = [Path(str(importlib.import_module(one).__file__)) for one in (module, *calls)]
    folder = _cache_folder(name, _origin(sources, signatures))
    log, what = logging.getLogger(part), called or f"{function} of {name}"
    if folder is None:
        log.info("compiling %s: some seconds, each time, as no cache folder can be written", what)
    elif not any(folder.rglob(f"*.{function}-*.nbi")):
        log.info("compiling %s: some seconds, this once; kept in %s", what, folder)
    declared = [f"({one},)" if isinstance(one, str) else one for one in signatures]
    settings = {"cache": folder is not None, "nogil": True, **dict(options)}
    with _compiler_caching_in(folder):
        made: Callable[..., Any] = numba.njit(declared, **settings)(getattr(loaded, function))
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


def _origin(sources: Sequence[Path], signatures: Sequence[Any]) -> str:
    """Return what the code is made from and for: numba itself would miss a change in a function that another one calls."""
    import numba  # noqa: PLC0415
    from llvmlite import binding  # type: ignore[import-untyped]  # noqa: PLC0415

    made_from = hashlib.sha256(f"{numba.__version__} {binding.get_host_cpu_name()} {signatures}".encode())
    for source in sources:
        made_from.update(source.read_bytes())
    return made_from.hexdigest()[:16]


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
