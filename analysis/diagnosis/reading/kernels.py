"""The compiled loop over lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.diagnosis.reading import ftrace, gstreamer, line, scan, simple, spans, table
from unperturbed.analysis.diagnosis.reading.spans import UNCOUNTED

__all__ = ["kernel"]

_CALLS = tuple(module.__name__ for module in (spans, line, gstreamer, ftrace, simple, table))


def kernel(name: str) -> Callable[..., Any]:
    """Return a function of `scan`, compiled now or as it was compiled before."""
    called = "the readers of event logs"
    return compiled(scan.__name__, name, (_signature(name),), calls=_CALLS, called=called, error_model="numpy", **UNCOUNTED)


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
