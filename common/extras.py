"""The libraries of the extras: loaded at their first use, and one message where an extra is not installed.

`pip install unperturbed` installs what a measuring host needs. What the analyses compute with is several hundred
megabytes more, and comes with an extra of the distribution.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

from unperturbed.errors import MissingExtraError

EXTRAS = {"analysis": ("joblib", "llvmlite", "numba", "scipy")}
"""The distributions of each extra, which pyproject.toml lists with their versions."""


def is_installed(extra: str) -> bool:
    """Return whether all libraries of an extra can be imported; none of them is loaded."""
    return all(importlib.util.find_spec(name) is not None for name in EXTRAS[extra])


def require(extra: str) -> None:
    """Refuse work that an extra is needed for, before it begins."""
    for name in EXTRAS[extra]:
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(name, extra)


def load_library(module: str) -> Any:
    """Import and return a module of an extra's library; MissingExtraError where the extra is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        for extra, names in EXTRAS.items():
            if library in names:
                raise MissingExtraError(library, extra) from None
        raise


class LazyLibrary(ModuleType):
    """A module of an extra's library that is imported when one of its names is first used."""

    def __init__(self, module: str) -> None:
        super().__init__(module)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what inspects modules looks for these, and must not load one
            raise AttributeError(name)
        value = getattr(load_library(self.__name__), name)
        setattr(self, name, value)
        return value
