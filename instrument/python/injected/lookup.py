"""Search for the functions that metrics name, and compilation of the hook and of the modules in which it counts.

The program's own interpreter runs this script, which imports nothing of the program. It reads a question from stdin and
writes the answer to stdout, both in JSON. The answer to `prepare` is a folder of the cache, created once for the same
interpreter, options, metrics and sources. A run reads from this folder what it would otherwise compile at each start,
and writes nothing.
"""

from __future__ import annotations

import sys

_loaded_before = frozenset(sys.modules) - {"__future__"}

import __future__  # noqa: E402  must follow: the line above records what Python has loaded

import hashlib  # noqa: E402
import json  # noqa: E402
import marshal  # noqa: E402
import os  # noqa: E402
import pkgutil  # noqa: E402
from importlib.machinery import BuiltinImporter, ExtensionFileLoader, FrozenImporter, SourceFileLoader  # noqa: E402
from importlib.util import MAGIC_NUMBER  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import TYPE_CHECKING, Any, NamedTuple  # noqa: E402
from zipimport import zipimporter  # noqa: E402

import hook  # type: ignore[import-not-found]  # noqa: E402  beside this file
import rewriting  # type: ignore[import-not-found]  # noqa: E402
from command_line import CommandLine  # type: ignore[import-not-found]  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OWN = Path(__file__).parent
_OWN_MODULES = ("hook", "command_line", "rewriting")
_ONLY_TREE = 0x400
_PYC_HEAD = MAGIC_NUMBER + bytes(12)
_NAME_LENGTH = 16
_VERSION = ".".join(map(str, sys.version_info[:3]))
_IN_C = "written in C"


class Module(NamedTuple):
    """Module that was found: its names in targets, its file, its source; `reason` is why it has no source."""

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
    """Return the spec of a dotted name, from its packages' paths before any code of the packages runs."""
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
        reason = "loaded before the hook can be installed"
    elif loader is FrozenImporter:
        reason = "frozen into the interpreter"
    elif isinstance(loader, SourceFileLoader):
        source = loader.get_data(loader.path)
    elif isinstance(loader, zipimporter):
        source = loader.get_source(name)
        reason = "" if source is not None else "available only without source"
    elif loader is None or spec.submodule_search_locations is not None:
        source = b""  # a namespace
    else:
        reason = f"loaded by {type(loader).__name__}, which the hook does not support"
    return Module(names, spec.origin or "", source, reason)


def modules_of(target: list[str]) -> Iterator[Module]:
    """Yield every module that may contain a target; globs are matched against all modules that can be found."""
    packages: list[tuple[tuple[str, ...], Sequence[str] | None]] = [((), None)]
    for part in target[:-1]:
        deeper: list[tuple[tuple[str, ...], Sequence[str] | None]] = []
        for names, path in packages:
            literal = "*" not in part and "?" not in part
            inner = (
                [part]
                if literal
                else [
                    item.name
                    for item in pkgutil.iter_modules(sys.path if path is None else path)
                    if hook.matches(part, item.name)
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
        packages = deeper


def main_module(main: dict[str, str]) -> Module | None:
    """Return the module that runs as `__main__`, given the command line's kind and value; None if not found."""
    kind, value = main["kind"], main["value"]
    if kind == "code":
        return Module(("__main__",), "-c", value, "")
    if kind == "stdin":
        return Module(("__main__",), "stdin", None, "read from stdin: save the program to a file")
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
            return Module(("__main__", stem), value, None, "not source code that Python compiles at start")
        return _described("__main__", spec, ("__main__", stem))
    return Module(("__main__", stem), str(Path(value).resolve()), Path(value).read_bytes(), "")


def is_text(path: str) -> bool:
    """Return whether a file is a script, not a zip archive (which Python imports from) or compiled code."""
    try:
        zipimporter(path)
    except ImportError:
        return not path.endswith(".pyc")
    return False


def set_path(main: dict[str, str]) -> None:
    """Set sys.path to the value that the program will have."""
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
    """Return the names that a module imports from a C module, possibly after defining them: name → C module."""
    replaced = {}
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
                replaced[alias.asname or alias.name] = node.module
            elif is_own:  # a module of the standard library: importing it has no side effects
                replaced.update(
                    {name: node.module for name in dir(__import__(node.module)) if not name.startswith("_")}
                )
    return replaced


def _find(question: dict[str, Any]) -> dict[str, Any]:
    set_path(question["main"])
    main = main_module(question["main"])
    trees: dict[str, Any] = {}
    answers = []
    for target in question["targets"]:
        parts = target.split(".")
        modules = {module.names[0]: module for module in modules_of(parts)}
        if main is not None:
            # The main module may be imported too: it is listed once.
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
            for names, function in rewriting.functions_of(tree):
                full = [(*name.split("."), *names) for name in inside]
                if not any(len(name) == len(parts) and all(map(hook.matches, parts, name)) for name in full):
                    known.append(".".join(full[0]))
                    continue
                if len(names) == 1 and names[0] in in_c:
                    replaced.append([".".join(full[0]), module.file, f"replaced by {in_c[names[0]]}, {_IN_C}"])
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
        "version": _VERSION,
        "implementation": sys.implementation.name,
        "ignores_environment": bool(sys.flags.ignore_environment),
        "has_no_site": bool(sys.flags.no_site),
        "free_threaded": not getattr(sys, "_is_gil_enabled", lambda: True)(),
        "main_found": main is not None,
        "answers": answers,
    }


def _may_hold(target: list[str], module: str) -> bool:
    parts = module.split(".")
    return len(target) > len(parts) and all(map(hook.matches, target, parts))


def _parsed(module: Module) -> Any:
    try:
        return compile(module.source, module.file, "exec", _ONLY_TREE, True)
    except (SyntaxError, ValueError) as error:
        return f"not valid source for this Python ({error})"


def _imported_names(tree: Any) -> list[str]:
    """Return the names that a module imports from other modules, marked as `(defined elsewhere: …)`."""
    return [
        f"{alias.asname or alias.name} (defined elsewhere: from {'.' * node.level}{node.module or ''})"
        for node in tree.body
        if type(node).__name__ == "ImportFrom"
        for alias in node.names
    ]


def _lambda_names(tree: Any) -> Iterator[str]:
    """Yield each name that a module or class assigns a lambda to, as `name (a lambda)`: no target matches it."""
    waiting = [("", node) for node in tree.body]
    for scope, node in waiting:
        kind = type(node).__name__
        if kind == "ClassDef":
            waiting.extend((f"{scope}{node.name}.", inner) for inner in node.body)
        elif kind in ("Assign", "AnnAssign") and type(node.value).__name__ == "Lambda":
            targets = node.targets if kind == "Assign" else [node.target]
            yield from (f"{scope}{target.id} (a lambda)" for target in targets if type(target).__name__ == "Name")


def _modules(targets: list[str], main: dict[str, str]) -> dict[str, Any]:
    """Return the modules that may contain a target, by the names under which the hook looks them up."""
    modules = {module.names[0]: module for target in targets for module in modules_of(target.split("."))}
    own = main_module(main)
    if own is not None:
        imported = main["kind"] == "module"
        modules[own.names[1] if imported else hook.MAIN if _is_compiled_by_python(main) else own.names[0]] = own
    return {name: module for name, module in modules.items() if not module.reason}


def _is_compiled_by_python(main: dict[str, str]) -> bool:
    """Return whether CPython itself compiles the main program, without a loader."""
    value = main["value"]
    return main["kind"] == "code" or (main["kind"] == "script" and not Path(value).is_dir() and is_text(value))


def _counting(name: str, module: Any, chooser: Any) -> Any:
    """Return a module's code with functions that count; None if no function is chosen."""
    names = (
        ("__main__", *chooser.aliases)
        if name == hook.MAIN
        else chooser.names_of(name, lambda: name not in module.names[1:])
    )
    tree = chooser.tree_of(module.source, module.file, names, rewriting)
    if tree is None:
        return None
    code = compile(tree, module.file, "exec", dont_inherit=True)
    return (compile(module.source, module.file, "exec", dont_inherit=True), code) if name == hook.MAIN else code


def _own_code(name: str) -> Any:
    """Compile a module of the hook without docstrings, and without its import of `__future__`."""
    path = _OWN / f"{name}.py"
    flags = __future__.annotations.compiler_flag
    tree: Any = compile(path.read_bytes(), str(path), "exec", flags | _ONLY_TREE, True)
    tree.body = [node for node in tree.body if getattr(node, "module", None) != "__future__"]
    return compile(tree, str(path), "exec", flags, True, 2)


def _write(folder: Path, question: dict[str, Any], modules: dict[str, Any]) -> None:
    main = question["main"]
    targets = [tuple(target.split(".")) for target in question["targets"]]
    chooser = hook.Chooser(targets, CommandLine((), frozenset(), main["kind"], main["value"]))
    known = {}
    for name, module in modules.items():
        try:
            code = _counting(name, module, chooser)
        except (SyntaxError, ValueError):
            continue  # the program's own import reports it
        known[name] = (hook.digest(module.source), code is not None)
        if code is not None:
            (folder / f"{name}.module").write_bytes(marshal.dumps(code))
    settings = {"library": question["library"], "numbers": question["numbers"], "targets": targets, "modules": known}
    (folder / "settings").write_bytes(marshal.dumps(settings))
    for name in _OWN_MODULES:
        (folder / f"{name}.code").write_bytes(marshal.dumps(_own_code(name)))
    (folder / "sitecustomize.pyc").write_bytes(_PYC_HEAD + marshal.dumps(_own_code("sitecustomize")))


def _name(question: dict[str, Any], modules: dict[str, Any]) -> str:
    """Return a digest of everything that determines the written files, except source paths, which the hook inserts."""
    main = question["main"]
    parts = [
        sys.version,
        str(sys.flags),
        repr(sorted(sys._xoptions.items())),
        repr(os.environ.get("PYTHONNODEBUGRANGES")),
        json.dumps(
            {
                **question,
                "main": [main["kind"], Path(main["value"]).name if main["kind"] == "script" else main["value"]],
            }
        ),
        *(path.read_text() for path in sorted(_OWN.glob("*.py"))),
    ]
    for name, module in sorted(modules.items()):
        parts += [name, module.source if isinstance(module.source, str) else module.source.decode("latin-1")]
    content = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        content.update(len(encoded).to_bytes(8, "little") + encoded)
    return content.hexdigest()[:_NAME_LENGTH]


def _prepare(question: dict[str, Any]) -> dict[str, Any]:
    set_path(question["main"])
    modules = _modules(question["targets"], question["main"])
    folder = Path(question["cache"], _name(question, modules))
    if not folder.exists():
        aside = folder.with_name(f".{folder.name}.{os.getpid()}")
        aside.mkdir(parents=True)
        _write(aside, question, modules)
        try:
            aside.rename(folder)
        except OSError:
            if not folder.exists():
                raise
            for path in aside.iterdir():  # another process was faster
                path.unlink()
            aside.rmdir()
    return {"version": _VERSION, "folder": str(folder)}


if __name__ == "__main__":
    question = json.load(sys.stdin)
    json.dump(_prepare(question) if question["task"] == "prepare" else _find(question), sys.stdout)
