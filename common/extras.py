"""Optional libraries (extras): loaded on first use, with one clear message if an extra is not installed.

`pip install unperturbed` installs what a measuring host needs. The libraries of the analyses are several hundred
megabytes more, so an extra of the distribution installs them.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

from unperturbed.errors import MissingExtraError

EXTRAS = {"analysis": ("joblib", "llvmlite", "numba", "ruptures", "scipy")}
"""Distributions of each extra; pyproject.toml lists them with their versions."""


def is_installed(extra: str) -> bool:
    """Return whether all libraries of an extra can be imported, without loading them."""
    return all(importlib.util.find_spec(name) is not None for name in EXTRAS[extra])


def require(extra: str) -> None:
    """Raise MissingExtraError if a library of an extra is not installed; call this before the work starts."""
    for name in EXTRAS[extra]:
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(name, extra)


def load_library(module: str) -> Any:
    """Import and return a module of an extra's library; raise MissingExtraError if the library is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        for extra, names in EXTRAS.items():
            if library in names:
                raise MissingExtraError(library, extra) from None
        raise


class LazyLibrary(ModuleType):
    """A module of an extra's library, imported on the first access to one of its names."""

    def __init__(self, module: str) -> None:
        super().__init__(module)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # tools that inspect modules look these up, and must not load the library
            raise AttributeError(name)
        value = getattr(load_library(self.__name__), name)
        setattr(self, name, value)
        return value
