"""Faces of packages whose names are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`: a module is imported when one of its names is first used.

    Parameters
    ----------
    package : str
        The package.
    modules : mapping of str to sequence of str
        Modules below the package, or with their full names, each with the names that the package exports.

    Returns
    -------
    get : callable
        To be assigned to `__getattr__` in the package's `__init__.py`.
    list : callable
        To be assigned to `__dir__` there: names count that are not imported yet.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = homes[name] if homes[name].startswith("unperturbed.") else f"{package}.{homes[name]}"
        found = getattr(importlib.import_module(module), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
