"""Names of C++ functions as people write them, from the names that the linker knows."""

from __future__ import annotations

import ctypes
import re
from functools import cache

_RUNTIMES = ("libstdc++.so.6", "libc++abi.so.1")
_CLONE = re.compile(r"(?:\.(?:constprop|isra|lto_priv|localalias|llvm|__uniq)(?:\.\d+)*)+$")
_DELETING = re.compile(r"D0Ev$")
_UNWRITTEN = re.compile(r"\(anonymous namespace\)::|\b__cxx11::|\b__1::|::h[0-9a-f]{16}$")
_QUALIFIERS = re.compile(r"\s*(?:const|volatile|&&?|noexcept)$")
_CLOSING = {")": "(", ">": "<"}


@cache
def _runtime() -> ctypes.CDLL | None:
    """Return the C++ runtime of this host, whose demangler is the compilers' own; None where there is none."""
    for name in _RUNTIMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.__cxa_demangle.restype = ctypes.c_void_p
        library.__cxa_demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        library.free.argtypes = (ctypes.c_void_p,)
        return library
    return None


def demangle(symbol: str) -> str:
    """Return a C++ function's name with its parameters, or the symbol itself.

    The symbol is returned if it is not mangled, or this host has no C++ runtime.

    A clone that the compiler made of a function (`.constprop.0`, `.isra.0`, …) has that function's name.
    """
    base = _CLONE.sub("", symbol)
    runtime = _runtime() if base.startswith("_Z") and "." not in base else None
    text = runtime.__cxa_demangle(base.encode(errors="surrogateescape"), None, None, None) if runtime else None
    if not runtime or not text:
        return base
    try:
        return ctypes.string_at(text).decode(errors="surrogateescape")
    finally:
        runtime.free(text)


def spellings(symbol: str) -> tuple[str, ...]:
    """Return how a target may name a symbol, the shortest first.

    The symbol; for C++ (and Rust, without the number behind its names) also the qualified name with and without
    template arguments, each with and without its parameters. A part of a function that the compiler moved away
    (`.part.0`, `.cold`) is not an entry of it and keeps its own name; so does a deleting destructor, as it calls the
    complete one.
    """
    full = demangle(symbol)
    if _DELETING.search(_CLONE.sub("", symbol)):
        return (symbol,)
    if full.startswith("_Z") or not symbol.startswith("_Z"):
        return tuple(dict.fromkeys((full, symbol)))
    name, parameters = _split_parameters(full)
    name = _without_return_type(name)
    short = _without_template_arguments(name)
    names = [text for name in (short, name) for text in (_UNWRITTEN.sub("", name), name)]
    return tuple(dict.fromkeys([*names, *(f"{name}{parameters}" for name in names), full, symbol]))


def _split_parameters(full: str) -> tuple[str, str]:
    """Split `ns::f(int) const` before its parameters; what has none (a variable's guard, for example) is kept whole."""
    end = len(full)
    while found := _QUALIFIERS.search(full[:end]):
        end = found.start()
    if not full[:end].endswith(")"):
        return full, ""
    depth = 0
    for position in range(end - 1, -1, -1):
        depth += (full[position] == ")") - (full[position] == "(")
        if depth == 0:
            return full[:position], full[position:]
    return full, ""


def _without_return_type(name: str) -> str:
    """Leave out the return type that an instance of a template has before its name."""
    depth = 0
    head = name[: found.start()] if (found := re.search(r"\boperator\b", name)) else name
    for position in range(len(head) - 1, -1, -1):
        depth += (head[position] in _CLOSING) - (head[position] in _CLOSING.values())
        if head[position] == " " and depth == 0:
            return name[position + 1 :]
    return name


def _without_template_arguments(name: str) -> str:
    found = re.search(r"\boperator\s*(?:<=>|<<=?|>>=?|<=|>=|->\*?|<|>)", name)
    if found:
        return f"{_without_template_arguments(name[: found.start()])}{found[0]}"
    kept, depth = [], 0
    for sign in name:
        depth += sign == "<"
        if depth == 0:
            kept.append(sign)
        depth -= sign == ">"
    return "".join(kept)
