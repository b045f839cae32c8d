"""One alignment by one library, in a process of its own: what it took, and what it found.

    python tests/benchmarks/alignment_peers.py LIBRARY TASK INTERVALS SEED

prints a line of JSON. TASK is `path` (the warp path of two series), `cost` (that path's cost alone) or `pairs` (costs
of all pairs of 40 series).
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import re
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LIBRARIES", "PAIRED_SERIES", "Library", "is_installed"]

PAIRED_SERIES = 40

_AGAIN_SECONDS = 3.0

Array = NDArray[np.float64]
Path2 = tuple[Any, Any]
"""Interval of x and of y of each element."""


@dataclass(frozen=True)
class Library:
    """A library that aligns by dynamic time warping.

    Attributes
    ----------
    package : str
        As it is installed and imported.
    note : str
        What its path minimises where that is not the sum of |x − y| in float64.
    table_bytes : int
        Memory that a cell takes; 0 where memory grows less than with the product.
    path : callable
        Finds a warp path.
    pairs : callable, optional
        Computes the costs of all pairs, on one thread, or None.
    cost : callable, optional
        Computes a cost alone, or None.
    """

    package: str
    module: str
    note: str
    table_bytes: int
    path: Callable[[Array, Array], Path2]
    pairs: Callable[[list[Array]], Any] | None = None
    cost: Callable[[Array, Array], float] | None = None


def is_installed(library: Library) -> bool:
    """Tell whether a library can be imported here, without importing it."""
    try:
        importlib.metadata.version(library.package)
    except importlib.metadata.PackageNotFoundError:
        return library.module.startswith("unperturbed")
    return True


def _own_path(x: Array, y: Array) -> Path2:
    from unperturbed.analysis.alignment import dtw

    path = dtw(x, y)
    return path.x_index, path.y_index


def _own_cost(x: Array, y: Array) -> float:
    from unperturbed.analysis.alignment import dtw_cost

    return dtw_cost(x, y)


def _own_pairs(series: list[Array]) -> Any:
    from unperturbed.analysis.alignment import distance_matrix

    return distance_matrix(series, workers=1)


def _own_pairs_on_two(series: list[Array]) -> Any:
    from unperturbed.analysis.alignment import distance_matrix

    return distance_matrix(series, workers=2)


def _dtaidistance_path(x: Array, y: Array) -> Path2:
    from dtaidistance import dtw

    _, table = dtw.warping_paths_fast(x, y, inner_dist="euclidean")
    return tuple(zip(*dtw.best_path(table), strict=True))  # type: ignore[return-value]


def _dtaidistance_cost(x: Array, y: Array) -> float:
    from dtaidistance import dtw

    return float(dtw.distance_fast(x, y, inner_dist="euclidean"))


def _dtaidistance_pairs(series: list[Array]) -> Any:
    from dtaidistance import dtw

    return dtw.distance_matrix_fast(series, inner_dist="euclidean", parallel=False, use_pruning=True)


def _tslearn_path(x: Array, y: Array) -> Path2:
    from tslearn.metrics import dtw_path

    return tuple(zip(*dtw_path(x, y)[0], strict=True))  # type: ignore[return-value]


def _tslearn_pairs(series: list[Array]) -> Any:
    from tslearn.metrics import cdist_dtw

    return cdist_dtw(np.stack(series), n_jobs=1)


def _aeon_path(x: Array, y: Array) -> Path2:
    from aeon.distances import dtw_alignment_path

    return tuple(zip(*dtw_alignment_path(x, y)[0], strict=True))  # type: ignore[return-value]


def _aeon_pairs(series: list[Array]) -> Any:
    from aeon.distances import pairwise_distance

    return pairwise_distance(np.stack(series)[:, None], method="dtw")


def _dtw_python_path(x: Array, y: Array) -> Path2:
    from dtw import dtw

    found = dtw(x, y, dist_method="cityblock", step_pattern="symmetric1")
    return found.index1, found.index2


def _linmdtw_path(x: Array, y: Array) -> Path2:
    from linmdtw import linmdtw

    _, path = linmdtw(x[:, None].astype(np.float32), y[:, None].astype(np.float32), do_gpu=False)
    return path[:, 0], path[:, 1]


LIBRARIES = {
    "unperturbed": Library("unperturbed", "unperturbed.analysis", "", 0, _own_path, _own_pairs, _own_cost),
    "two threads": Library("unperturbed", "unperturbed.analysis", "", 0, _own_path, _own_pairs_on_two),
    "dtaidistance": Library(
        "dtaidistance", "dtaidistance", "", 8, _dtaidistance_path, _dtaidistance_pairs, _dtaidistance_cost
    ),
    "tslearn": Library("tslearn", "tslearn", "squared differences", 9, _tslearn_path, _tslearn_pairs),
    "aeon": Library("aeon", "aeon", "squared differences", 9, _aeon_path, _aeon_pairs),
    "dtw-python": Library("dtw-python", "dtw", "", 28, _dtw_python_path),
    "linmdtw": Library("linmdtw", "linmdtw", "float32", 0, _linmdtw_path),
}


def series_of(intervals: int, seed: int, count: int) -> list[Array]:
    """Return random walks, which have structure at all lengths and no ties."""
    rng = np.random.default_rng(seed)
    return [np.cumsum(rng.normal(size=intervals)) for _ in range(count)]


def _status(field: str) -> int:
    """Return a figure of this process's memory [bytes]."""
    (kilobytes,) = re.findall(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return 1024 * int(kilobytes)


def _measured(task: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Do a task, and short ones again for the shortest elapsed time, as other work on the machine only adds."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again with what is resident now
    before, begin, begin_own = _status("VmRSS"), time.perf_counter(), time.process_time()
    result = task()
    found = {"seconds": time.process_time() - begin_own, "elapsed": time.perf_counter() - begin}
    found |= {"peak": _status("VmHWM") - before, "shortest": found["elapsed"]}
    for _ in range(int(_AGAIN_SECONDS / found["elapsed"])):
        begin = time.perf_counter()
        task()
        found["shortest"] = min(found["shortest"], time.perf_counter() - begin)
    return result, found


def main() -> None:
    """Do the task once small, so that all is loaded and compiled, and then as asked."""
    warnings.simplefilter("ignore")  # of peers, about what they lack
    name, task, intervals, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    library = LIBRARIES[name]
    if task == "pairs":
        assert library.pairs is not None
        library.pairs(series_of(20, seed, 3))
        series = series_of(intervals, seed, PAIRED_SERIES)
        costs, found = _measured(lambda: library.pairs(series))  # type: ignore[misc]
        found["cost"] = float(np.nansum(np.where(np.isfinite(costs), costs, 0)))
    elif task == "cost":
        assert library.cost is not None
        library.cost(*series_of(20, seed, 2))
        x, y = series_of(intervals, seed, 2)
        cost, found = _measured(lambda: library.cost(x, y))  # type: ignore[misc]
        found["cost"] = cost
    else:
        library.path(*series_of(20, seed, 2))
        x, y = series_of(intervals, seed, 2)
        (x_index, y_index), found = _measured(lambda: library.path(x, y))
        found["cost"] = float(np.abs(x[np.asarray(x_index)] - y[np.asarray(y_index)]).sum())
    print(json.dumps(found))


if __name__ == "__main__":
    main()
