"""Compiled loops of the independence tests."""

from __future__ import annotations

from functools import cache
from typing import Any

from unperturbed.analysis.compiling import compiled

_MATRIX, _SQUARE = "float64[:,::1]", "float32[:,::1]"
_LOOPS: dict[str, tuple[str, str, bool]] = {
    "canonical": ("association", f"{_MATRIX}, {_MATRIX}", False),
    "orthonormal": ("association", f"{_MATRIX}, float64, float64", False),
    "gaussian": ("density", f"float64[::1], float64, {_SQUARE}", True),
    "information_at": (
        "density",
        f"{_MATRIX}, int64[:,::1], {_MATRIX}, int64[:,::1], int64[::1], int64[::1]",
        False,
    ),
    "information_of_permutation": ("density", f"{_SQUARE}, {_SQUARE}, {_SQUARE}, int64[::1]", True),
    "centre": ("residuals", f"{_MATRIX}, int64[::1]", True),
    "deviations": ("residuals", _MATRIX, True),
    "equalised": ("residuals", f"{_MATRIX}, float64[::1], {_MATRIX}, boolean[::1], float64", True),
    "orthonormalise": ("residuals", f"{_MATRIX}, int64[::1], int64[::1]", True),
    "project_out": ("residuals", f"{_MATRIX}, int64[::1], int64[::1], {_MATRIX}", True),
}
"""Each loop's module, the types of its arguments, and whether sums may be reordered."""


@cache
def compiled_loop(name: str) -> Any:
    """Return a loop of the modules here, compiled."""
    module, signature, reordered = _LOOPS[name]
    return compiled(f"{__name__}.{module}", name, (signature,), called="the independence tests", fastmath=reordered)
