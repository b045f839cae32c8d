"""Lazy imports for public packages: each name is imported on first use."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

_NONE: Mapping[str, str] = MappingProxyType({})


def lazy_names(package: str, former: Mapping[str, str] = _NONE) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package, to import the names in its `if TYPE_CHECKING:` block lazily.

    Type checkers and editors read those imports. This function reads them too, from the package's source, so no
    second list of names and modules is needed.

    `former`: Formerly public names, separated by spaces, by module; `Settings=SearchSettings` gives the new name.
    """

    @cache
    def homes() -> Mapping[str, tuple[str, str]]:
        return _imports_for_typing(package)

    gone = {
        old: (home, new)
        for home, names in former.items()
        for old, _, new in (name.partition("=") for name in names.split())
    }

    def get(name: str) -> Any:
        module = sys.modules[package]
        if name in gone:
            home, new = gone[name]
            holder = importlib.import_module(home)
            still = f"use {home}.{name}" if name in getattr(holder, "__all__", ()) else "this name is no longer public"
            why = f"use {package}.{new}" if new else still
            warnings.warn(f"{package}.{name} is deprecated: {why}", DeprecationWarning, stacklevel=2)
            return getattr(holder, new or name)
        if name not in module.__all__ or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(module.__all__)}")
        home, original = homes()[name]
        attribute = getattr(importlib.import_module(home), original)
        setattr(module, name, attribute)
        return attribute

    def names() -> list[str]:
        return list(sys.modules[package].__all__)

    return get, names


def _imports_for_typing(package: str) -> Mapping[str, tuple[str, str]]:
    """Return the module and the original name of each name that a package imports under `if TYPE_CHECKING:`."""
    import ast  # noqa: PLC0415  most processes use no lazy name

    spec = sys.modules[package].__spec__
    source = spec.loader.get_source(package)  # type: ignore[union-attr]  # every loader of Python files has `get_source`
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
