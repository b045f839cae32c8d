"""Compile the hook and the modules it counts in; run by the program's own interpreter.

Reads a question from stdin, writes the answer to stdout, JSON both. The answer is a folder of the cache, made once for
the same interpreter, options, metrics and sources. A run reads there what it would else compile at each start, and
writes nothing.
"""

from __future__ import annotations

import find  # type: ignore[import-not-found]  # first: it looks at what is loaded

# isort: split
import __future__

import hashlib
import json
import marshal
import os
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

import hook  # type: ignore[import-not-found]  # beside this file
import rewriting  # type: ignore[import-not-found]
from command_line import CommandLine  # type: ignore[import-not-found]

_OWN = Path(__file__).parent
_OWN_MODULES = ("hook", "command_line", "rewriting")
_ONLY_TREE = 0x400
_PYC_HEAD = MAGIC_NUMBER + bytes(12)
_NAME_LENGTH = 16


def _modules(targets: list[str], main: dict[str, str]) -> dict[str, Any]:
    """Return the modules that may hold a target, by the names under which the hook looks for them."""
    found = {module.names[0]: module for target in targets for module in find.modules_of(target.split("."))}
    own = find.main_module(main)
    if own is not None:
        imported = main["kind"] == "module"
        found[own.names[1] if imported else hook.MAIN if _is_compiled_by_python(main) else own.names[0]] = own
    return {name: module for name, module in found.items() if not module.reason}


def _is_compiled_by_python(main: dict[str, str]) -> bool:
    """Return whether the main program passes by no loader."""
    value = main["value"]
    return main["kind"] == "code" or (main["kind"] == "script" and not Path(value).is_dir() and find.is_text(value))


def _counting(name: str, module: Any, chooser: Any) -> Any:
    """Return the code of a module whose functions count, None when none is chosen."""
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
    """Compile a module of ours without its docstrings, and without loading `__future__` for its annotations."""
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
    """Return a name for all that decides what is written. Where sources lie does not: the hook puts their paths in."""
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


def _prepare(question: dict[str, Any]) -> Path:
    find.set_path(question["main"])
    modules = _modules(question["targets"], question["main"])
    folder = Path(question["cache"], _name(question, modules))
    if folder.exists():
        return folder
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    aside.mkdir(parents=True)
    _write(aside, question, modules)
    try:
        aside.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        for path in aside.iterdir():  # another one was faster
            path.unlink()
        aside.rmdir()
    return folder


if __name__ == "__main__":
    answer = str(_prepare(json.load(sys.stdin)))
    json.dump({"version": ".".join(map(str, sys.version_info[:3])), "folder": answer}, sys.stdout)
