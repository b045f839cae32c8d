"""The C that runs inside the measured program or beside it, and how it is compiled."""

from __future__ import annotations

from unperturbed.collectors.runtime.build import (
    BOUNDS,
    INCLUDE,
    build_interposer,
    build_observer,
    build_preload,
    build_python_counter,
    build_trials,
    runtime_files,
)

__all__ = [
    "BOUNDS",
    "INCLUDE",
    "build_interposer",
    "build_observer",
    "build_preload",
    "build_python_counter",
    "build_trials",
    "runtime_files",
]
