"""The compiled functions of dynamic time warping: which there are, where their code is kept, and a word before they are compiled.

Importing this module loads the compiler (about half a second): only an alignment does. Code is kept in the user's cache folder,
by machine, compiler and source; where there is none yet, compiling takes some seconds, and the logger of this module says so.
"""

from __future__ import annotations

import hashlib
import logging
import math
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

from unperturbed.analysis.alignment import checkpoints, kernels_lanes
from unperturbed.analysis.alignment.integers import UNREACHED, CellArray
from unperturbed.analysis.alignment.series import FloatArray, IntArray

__all__ = ["pair_costs", "path_through"]

_LOG = logging.getLogger("unperturbed.analysis.alignment")

_RECORDED_CELLS = 1 << 24
"""A matrix of so many cells is computed once: what is recorded of it, 4 MB, fits the last cache."""

_COMPILING = threading.Lock()
"""Held by one thread while it compiles; those that need the same wait for it."""

_Kernel = Callable[..., Any]


def path_through(
    x: CellArray, y: CellArray, corners: IntArray, penalty: float, band: int, most_recorded: int = _RECORDED_CELLS
) -> tuple[IntArray, float, int]:
    """Return the cheapest path through corners, compiled; see `checkpoints.path_through`."""
    number, unreached = _numbers(x)
    kernel = _compiled("path_through", x.dtype.name)
    path, cost, segment = kernel(x, y, corners, number(penalty), band, unreached, most_recorded)
    return path, cost, segment


def pair_costs(series: CellArray, starts: IntArray, pairs: IntArray, penalty: float, band: int) -> FloatArray:
    """Return the cost of each pair of series, compiled; see `checkpoints.pair_costs`."""
    number, unreached = _numbers(series)
    kernel = _compiled("pair_costs", series.dtype.name)
    costs: FloatArray = kernel(series, starts, pairs, number(penalty), band, unreached)
    return costs


def _numbers(cells: CellArray) -> tuple[Callable[[float], Any], Any]:
    """Return what makes a number of the cells' type, and one that no path costs."""
    number: Callable[[float], Any] = cells.dtype.type
    return number, number(UNREACHED if cells.dtype.kind == "i" else math.inf)


def _compiled(function: str, element: str) -> _Kernel:
    with _COMPILING:
        return _declared(function, element)


@cache
def _declared(function: str, element: str) -> _Kernel:
    """Return a function compiled for cells of one type, or as it was compiled before."""
    folder = _cache_folder(element)
    if folder is None:
        _LOG.info(
            "compiling the alignment kernel %s for %s: some seconds, each time, as no cache folder can be written",
            function,
            element,
        )
    elif not any(folder.rglob(f"*.{function}-*.nbi")):
        _LOG.info("compiling the alignment kernel %s for %s: some seconds, this once; kept in %s", function, element, folder)
    cell = getattr(numba, element)
    indices, rows = numba.int64[:, ::1], cell[:, ::1]
    signature = {
        "path_through": (rows, rows, indices, cell, numba.int64, cell, numba.int64),
        "pair_costs": (rows, numba.int64[::1], indices, cell, numba.int64, cell),
    }[function]
    with _compiler_caching_in(folder):
        compiled: _Kernel = numba.njit([signature], cache=folder is not None, nogil=True)(getattr(checkpoints, function))
    return compiled


def _cache_folder(element: str) -> Path | None:
    """Return a folder of the user's cache, or None where it cannot be written (then every process compiles anew)."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    # The base directory specification: a relative path there is invalid and has to be ignored.
    base = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
    folder = base / "unperturbed" / "kernels" / _origin() / element
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
    for module in (checkpoints, kernels_lanes):
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
