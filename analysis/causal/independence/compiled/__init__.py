"""Compiled loops of the independence tests."""

from __future__ import annotations

from functools import cache
from typing import Any

from unperturbed.analysis.compiling import compiled

_MATRIX, _SQUARE, _CODES = "const float64[:,::1]", "const float32[:,::1]", "const int64[::1]"
_CHANGED = _MATRIX.removeprefix("const ")
_LOOPS: dict[str, tuple[str, str, bool]] = {
    "canonical": ("association", f"{_MATRIX}, {_MATRIX}", False),
    "orthonormal": ("association", f"{_MATRIX}, float64, float64", False),
    "gaussian": ("density", "const float64[::1], float64, float32[:,::1]", True),
    "information_at": (
        "density",
        f"{_MATRIX}, const int64[:,::1], {_MATRIX}, const int64[:,::1], {_CODES}, {_CODES}",
        False,
    ),
    "information_of_permutation": ("density", f"{_SQUARE}, {_SQUARE}, {_SQUARE}, {_CODES}", True),
    "centre": ("residuals", f"{_CHANGED}, {_CODES}", True),
    "orthonormalise": ("residuals", f"{_CHANGED}, {_CODES}, {_CODES}", True),
    "project_out": ("residuals", f"{_MATRIX}, {_CODES}, {_CODES}, {_CHANGED}", True),
}
"""Each loop's module, the types of its arguments, and whether sums may be reordered."""


@cache
def compiled_loop(name: str) -> Any:
    """Return a loop of the modules here, compiled."""
    module, signature, reordered = _LOOPS[name]
    return compiled(f"{__name__}.{module}", name, (signature,), called="the independence tests", fastmath=reordered)
