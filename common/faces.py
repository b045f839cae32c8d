"""Public packages whose names are imported when they are first used."""

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
    """Return a package's `__getattr__` and `__dir__`, which import what its `if TYPE_CHECKING:` imports.

    Type checkers and editors read those imports. They are read here, too, from the package's source, so that
    no second list says where a name is defined.

    `former`: Modules and the names, separated by spaces, that were public: `Settings=SearchSettings` has a new name.
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
            why = f"use {package}.{new}" if new else "it is not public any more"
            warnings.warn(f"{package}.{name} is deprecated: {why}", DeprecationWarning, stacklevel=2)
            return getattr(importlib.import_module(home), new or name)
        if name not in module.__all__ or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(module.__all__)}")
        home, original = homes()[name]
        found = getattr(importlib.import_module(home), original)
        setattr(module, name, found)
        return found

    def names() -> list[str]:
        return list(sys.modules[package].__all__)

    return get, names


def _imports_for_typing(package: str) -> Mapping[str, tuple[str, str]]:
    """Return module and original name of each name that a package imports under `if TYPE_CHECKING:`."""
    import ast  # noqa: PLC0415  most processes use no lazy name

    spec = sys.modules[package].__spec__
    source = spec.loader.get_source(package)  # type: ignore[union-attr]  # any loader of Python files has it
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
