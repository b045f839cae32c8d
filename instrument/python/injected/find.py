"""Find the functions that metrics name; run by the program's own interpreter, which imports nothing of the program.

Reads a question from stdin, writes the answer to stdout, JSON both.
"""

from __future__ import annotations

import sys

_loaded_before = frozenset(sys.modules) - {"__future__"}

import json  # noqa: E402  what is loaded already has to be known first
import pkgutil  # noqa: E402
from importlib.machinery import BuiltinImporter, ExtensionFileLoader, FrozenImporter, SourceFileLoader  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import TYPE_CHECKING, Any, NamedTuple  # noqa: E402
from zipimport import zipimporter  # noqa: E402

from hook import matches  # type: ignore[import-not-found]  # noqa: E402  beside this file
from rewriting import functions_of  # type: ignore[import-not-found]  # noqa: E402  beside this file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ONLY_TREE = 0x400
_IN_C = "written in C"


class Module(NamedTuple):
    """A module that was found: its names in targets, its file, its source; `reason` is why it has none."""

    names: tuple[str, ...]
    file: str
    source: Any
    reason: str


def _find_spec(name: str, path: Sequence[str] | None) -> Any:
    """Return a module's spec without importing its package."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, path) if find else None
        if spec is not None:
            return spec
    return None


def _spec_of(name: str) -> Any:
    """Return the spec of a dotted name, from the paths of its packages as they are before anything of them runs."""
    path = None
    spec = None
    parts = name.split(".")
    for place in range(len(parts)):
        spec = _find_spec(".".join(parts[: place + 1]), path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and place < len(parts) - 1:
            return None
    return spec


def _described(name: str, spec: Any, names: tuple[str, ...]) -> Module:
    loader = spec.loader
    source: Any = None
    reason = ""
    if loader is BuiltinImporter or isinstance(loader, ExtensionFileLoader):
        reason = _IN_C
    elif name in _loaded_before and "__main__" not in names:
        reason = "loaded before any hook can be set"
    elif loader is FrozenImporter:
        reason = "frozen into the interpreter"
    elif isinstance(loader, SourceFileLoader):
        source = loader.get_data(loader.path)
    elif isinstance(loader, zipimporter):
        source = loader.get_source(name)
        reason = "" if source is not None else "there without its source"
    elif loader is None or spec.submodule_search_locations is not None:
        source = b""  # a namespace
    else:
        reason = f"loaded by {type(loader).__name__}, which the hook does not know"
    return Module(names, spec.origin or "", source, reason)


def modules_of(target: list[str]) -> Iterator[Module]:
    """Yield every module that may hold a target: literal names are looked for, globs among all there are."""
    found: list[tuple[tuple[str, ...], Sequence[str] | None]] = [((), None)]
    for part in target[:-1]:
        deeper: list[tuple[tuple[str, ...], Sequence[str] | None]] = []
        for names, path in found:
            literal = "*" not in part and "?" not in part
            inner = (
                [part]
                if literal
                else [
                    item.name
                    for item in pkgutil.iter_modules(sys.path if path is None else path)
                    if matches(part, item.name)
                ]
            )
            for name in inner:
                full = (*names, name)
                spec = _find_spec(".".join(full), path)
                if spec is None:
                    continue
                yield _described(".".join(full), spec, (".".join(full),))
                if spec.submodule_search_locations is not None:
                    deeper.append((full, list(spec.submodule_search_locations)))
        found = deeper


def main_module(main: dict[str, str]) -> Module | None:
    """Return what runs as `__main__`, by kind and value of the command line; None when it is not there."""
    kind, value = main["kind"], main["value"]
    if kind == "code":
        return Module(("__main__",), "-c", value, "")
    if kind == "stdin":
        return Module(("__main__",), "stdin", None, "read from stdin; put it into a file")
    if kind == "module":
        spec = _spec_of(value)
        name = value
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{value}.__main__"
            spec = _spec_of(name)
        return None if spec is None else _described(name, spec, ("__main__", name))
    stem = Path(value).name
    stem = stem[:-3] if stem.endswith(".py") else stem
    if Path(value).is_dir() or not is_text(value):
        spec = _find_spec("__main__", [value])
        if spec is None:
            return Module(("__main__", stem), value, None, "no source that Python compiles when it starts")
        return _described("__main__", spec, ("__main__", stem))
    return Module(("__main__", stem), str(Path(value).resolve()), Path(value).read_bytes(), "")


def is_text(path: str) -> bool:
    """Return whether a file is a script, not an archive, which Python looks into, or compiled code."""
    try:
        zipimporter(path)
    except ImportError:
        return not path.endswith(".pyc")
    return False


def set_path(main: dict[str, str]) -> None:
    """Make sys.path what the program will have."""
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    kind, value = main["kind"], main["value"]
    if kind == "script" and (Path(value).is_dir() or not is_text(value)):
        sys.path.insert(0, value)
    elif not getattr(sys.flags, "safe_path", False):
        sys.path.insert(
            0, str(Path(value).resolve().parent) if kind == "script" else str(Path.cwd()) if kind == "module" else ""
        )


def _replaced_by_c(tree: Any) -> dict[str, str]:
    """Return names that a module imports from one in C after it may have defined them: name → that module."""
    found = {}
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        kind = type(node).__name__
        if kind in ("If", "Try", "With"):
            waiting += [*node.body, *getattr(node, "orelse", [])]
        if kind != "ImportFrom" or node.level or not node.module:
            continue
        spec = _spec_of(node.module)
        if spec is None or not (spec.loader is BuiltinImporter or isinstance(spec.loader, ExtensionFileLoader)):
            continue
        is_own = spec.loader is BuiltinImporter or Path(spec.origin).parent.name == "lib-dynload"
        for alias in node.names:
            if alias.name != "*":
                found[alias.asname or alias.name] = node.module
            elif is_own:  # the standard library's: importing it does nothing else
                found.update({name: node.module for name in dir(__import__(node.module)) if not name.startswith("_")})
    return found


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    set_path(question["main"])
    main = main_module(question["main"])
    trees: dict[str, Any] = {}
    answers = []
    for target in question["targets"]:
        parts = target.split(".")
        modules = {module.names[0]: module for module in modules_of(parts)}
        if main is not None:
            # One module may run as the main one and be imported too: it is listed once.
            modules = {
                name: module for name, module in modules.items() if str(Path(module.file).resolve()) != main.file
            }
            modules["__main__"] = main
        sites: list[Any] = []
        known: list[str] = []
        reasons = []
        replaced = []
        for module in modules.values():
            inside = [name for name in module.names if _may_hold(parts, name)]
            if not inside:
                continue
            if module.reason:
                reasons.append([inside[0], module.file, module.reason])
                continue
            if module.names[0] not in trees:
                trees[module.names[0]] = _parsed(module)
            tree = trees[module.names[0]]
            if isinstance(tree, str):
                reasons.append([inside[0], module.file, tree])
                continue
            lines = module.source.splitlines()
            in_c = _replaced_by_c(tree)
            for names, function in functions_of(tree):
                full = [(*name.split("."), *names) for name in inside]
                if not any(len(name) == len(parts) and all(map(matches, parts, name)) for name in full):
                    known.append(".".join(full[0]))
                    continue
                if len(names) == 1 and names[0] in in_c:
                    replaced.append([".".join(full[0]), module.file, f"replaced by that of {in_c[names[0]]}, {_IN_C}"])
                    continue
                text = lines[function.lineno - 1]
                text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
                sites.append([module.file, function.lineno, text.strip(), ".".join(full[0])])
            known += [
                ".".join((inside[0], name))
                for name in (*_imported_names(tree), *_lambda_names(tree))
                if name not in known
            ]
        answers.append({"sites": sites, "known": known, "reasons": reasons, "replaced": replaced})
    return {
        "version": ".".join(map(str, sys.version_info[:3])),
        "implementation": sys.implementation.name,
        "ignores_environment": bool(sys.flags.ignore_environment),
        "has_no_site": bool(sys.flags.no_site),
        "free_threaded": not getattr(sys, "_is_gil_enabled", lambda: True)(),
        "main_found": main is not None,
        "answers": answers,
    }


def _may_hold(target: list[str], module: str) -> bool:
    parts = module.split(".")
    return len(target) > len(parts) and all(map(matches, target, parts))


def _parsed(module: Module) -> Any:
    try:
        return compile(module.source, module.file, "exec", _ONLY_TREE, True)
    except (SyntaxError, ValueError) as error:
        return f"no source that this Python understands ({error})"


def _imported_names(tree: Any) -> list[str]:
    """Return what a module takes from others by name, as `name (of module)`: it is counted where it is defined."""
    return [
        f"{alias.asname or alias.name} (defined elsewhere: from {'.' * node.level}{node.module or ''})"
        for node in tree.body
        if type(node).__name__ == "ImportFrom"
        for alias in node.names
    ]


def _lambda_names(tree: Any) -> Iterator[str]:
    """Yield each name that a module or class gives to a lambda, as `name (a lambda)`: it is not a function's."""
    waiting = [("", node) for node in tree.body]
    for scope, node in waiting:
        kind = type(node).__name__
        if kind == "ClassDef":
            waiting.extend((f"{scope}{node.name}.", inner) for inner in node.body)
        elif kind in ("Assign", "AnnAssign") and type(node.value).__name__ == "Lambda":
            targets = node.targets if kind == "Assign" else [node.target]
            yield from (f"{scope}{target.id} (a lambda)" for target in targets if type(target).__name__ == "Name")


if __name__ == "__main__":
    json.dump(_answer(json.load(sys.stdin)), sys.stdout)
