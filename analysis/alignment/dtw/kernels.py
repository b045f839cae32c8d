"""Compiled functions of dynamic time warping, one for each type of cells.

Importing this module loads the compiler (about half a second), so only alignments import it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from unperturbed.analysis.alignment.dtw import checkpoints, lanes
from unperturbed.analysis.alignment.dtw.series import UNREACHED, CellArray, FloatArray, IntArray
from unperturbed.analysis.compiling import compiled

_log = logging.getLogger(__name__.rpartition(".")[0])

_RECORDED_CELLS = 1 << 24
"""A matrix of up to this many cells is computed once: its record, 4 MB, fits the last-level cache."""


def path_through(
    x: CellArray, y: CellArray, corners: IntArray, penalty: float, band: int, most_recorded: int = _RECORDED_CELLS
) -> tuple[IntArray, float, int]:
    """Call the compiled `checkpoints.path_through`: return the cheapest path through corners."""
    number, unreached = _numbers(x)
    kernel = _compiled("path_through", x.dtype.name)
    path, cost, segment = kernel(x, y, corners, number(penalty), band, unreached, most_recorded)
    return path, cost, segment


def pair_costs(series: CellArray, starts: IntArray, pairs: IntArray, penalty: float, band: int) -> FloatArray:
    """Call the compiled `checkpoints.pair_costs`: return the cost of each pair of series."""
    number, unreached = _numbers(series)
    kernel = _compiled("pair_costs", series.dtype.name)
    costs: FloatArray = kernel(series, starts, pairs, number(penalty), band, unreached)
    return costs


def prepare(function: str, cells: CellArray) -> None:
    """Compile or load a function for cells of this type, so that workers on this host find it in the cache."""
    _compiled(function, cells.dtype.name)


def _numbers(cells: CellArray) -> tuple[Callable[[float], Any], Any]:
    """Return the constructor of the cells' type, and a number above the cost of any path."""
    number: Callable[[float], Any] = cells.dtype.type
    return number, number(UNREACHED if cells.dtype.kind == "i" else math.inf)


def _compiled(function: str, element: str) -> Callable[..., Any]:
    """Return a function compiled for cells of one type."""
    rows, indices = f"const {element}[:, ::1]", "const int64[:, ::1]"
    signature = {
        "path_through": f"{rows}, {rows}, {indices}, {element}, int64, {element}, int64",
        "pair_costs": f"{rows}, const int64[::1], {indices}, {element}, int64, {element}",
    }[function]
    called = f"the alignment kernel {function} for {element}"
    try:
        return compiled(checkpoints.__name__, function, (signature,), calls=(lanes.__name__,), called=called)
    except Exception as error:  # noqa: BLE001  from numba, llvmlite or LLVM: all lead to the plain loop
        reason = str(error).strip().partition("\n")[0]
        _log.warning("cannot compile the vector loop of %s (%s): the plain loop takes twice the time", called, reason)
        with lanes.plain_loops():
            return compiled(checkpoints.__name__, function, (signature,), calls=(lanes.__name__,), called=called)
