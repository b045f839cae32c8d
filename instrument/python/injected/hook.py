"""Import hook: makes chosen functions of modules and of the main script count a hit when they are entered.

The hook wraps the two functions in which CPython turns a module's source into code. It replaces only the code of
modules with chosen functions, and neither reads nor writes their .pyc files. `lookup.py` has compiled that code in
advance; if a module's source has changed since, the hook compiles the module at each start. The hook adds no finder,
loader or path, so the program sees these unchanged. No loader handles the main script: CPython itself compiles it. When
its first line is about to run, before its functions exist, the hook replaces their code; the script's frame, globals
and environment remain CPython's.
"""

from __future__ import annotations

import _frozen_importlib as bootstrap
import _frozen_importlib_external as external
import _imp
import builtins
import os
import sys
import zipimport
from marshal import loads

TYPE_CHECKING = False
"""Always False: Python does not load `typing` at start, and only the program itself should load it."""
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import CodeType
    from typing import Any

_ONLY_TREE = 0x400
"""PyCF_ONLY_AST: compile() returns the syntax tree."""
_COUNTER = "unperturbed_python"
_HIT = "__unperturbed_hit_{}__"
"""The underscores at the end prevent name mangling in classes."""
_POINTER_BYTES = 8
MAIN = "__main__ without a loader"
"""Name under which a main script that CPython itself compiles is stored: its code without hits, and with hits."""
_LEFT_BEHIND = ("__future__", "_ast")
"""Modules that Python loads when the hook compiles a module."""


def install(folder: str) -> Callable[[], None]:
    """Compile every chosen function from now on so that it counts; remove the hook from the environment.

    Processes that the program starts are not counted: they run without the hook.

    Result: Function to call when everything else is set up: it waits for the main script.
    """
    own = os.environ["PYTHONPATH"].partition(os.pathsep)[2]
    if own:
        os.environ["PYTHONPATH"] = own
    else:
        del os.environ["PYTHONPATH"]
    settings = _stored(f"{folder}/settings")
    counter = _load_counter(settings["library"])
    numbers = b"".join(number.to_bytes(4, sys.byteorder) for number in settings["numbers"])
    free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    for index, hit in enumerate(counter.start(numbers, free_threaded)):
        setattr(builtins, _HIT.format(index), hit)
    words = list(getattr(sys, "orig_argv", ())) or _own_command()
    command = _load(folder, "command_line").read_command_line(words[1:])
    chooser = Chooser(settings["targets"], command, folder, settings["modules"])
    _watch_modules(chooser)
    _watch_archives(chooser)
    is_chosen = command.kind in ("script", "code") and chooser.is_chosen(("__main__", *chooser.aliases))
    return lambda: _watch_main(chooser, command, counter) if is_chosen else None


def digest(source: Any) -> bytes:
    """Return a digest that identifies a module's source (text or bytes)."""
    content = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    return _imp.source_hash(0, content)


def matches(pattern: str, name: str) -> bool:
    """Return whether a part of a dotted name matches a glob, without fnmatch and re, which Python loads later."""
    begin, star, rest = pattern.partition("*")
    if len(name) < len(begin) or any(sign not in ("?", other) for sign, other in zip(begin, name)):  # noqa: B905  3.9 has no strict
        return False
    if not star:
        return len(begin) == len(name)
    return any(matches(rest, name[place:]) for place in range(len(begin), len(name) + 1))


def _stored(path: str) -> Any:
    """Return the object that `lookup.py` stored in a file."""
    with open(path, "rb") as file:  # noqa: PTH123  pathlib is not loaded when Python starts
        return loads(file.read())


def _load(folder: str, name: str) -> Any:
    """Load a module of the hook, and hide the module and its imports from the program."""
    loaded_before = frozenset(sys.modules)
    module = type(sys)(f"unperturbed_{name}")
    exec(_stored(f"{folder}/{name}.code"), module.__dict__)
    for other in _LEFT_BEHIND:
        if other not in loaded_before:
            sys.modules.pop(other, None)
    return module


def _load_counter(library: str) -> Any:
    loader = external.ExtensionFileLoader(_COUNTER, library)
    module = _imp.create_dynamic(bootstrap.ModuleSpec(_COUNTER, loader, origin=library))
    _imp.exec_dynamic(module)
    return module


def _own_command() -> list[str]:
    """Return the command line of this process, for Python 3.9, which has no sys.orig_argv."""
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123  pathlib is not loaded when Python starts
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


class Chooser:
    """Selection of the functions whose calls are counted, and of the counters to insert into each."""

    def __init__(
        self,
        targets: Iterable[tuple[str, ...]],
        command: Any,
        folder: str = "",
        known: Mapping[str, tuple[bytes, bool]] = {},
    ) -> None:
        """Take the targets' parts, the command line, and for each stored module its digest and whether it is chosen."""
        self._targets = list(targets)
        self._command = command
        self._folder = folder
        self._known = known
        self._rewriting: Any = None
        base = os.path.basename(command.value) if command.kind == "script" else ""  # noqa: PTH119
        stem = base[: -len(".py")] if base.endswith(".py") else base
        self.aliases = (stem,) if stem else ()  # Names for the main script in targets, in addition to `__main__`
        self._literal: set[str] = set()  # Modules that contain a target without globs in its modules
        self._globs = []
        for target in self._targets:
            if any("*" in part or "?" in part for part in target[:-1]):
                self._globs.append(target)
            else:
                self._literal.update(".".join(target[:place]) for place in range(1, len(target)))

    def names_of(self, module: str, is_package: Any) -> tuple[str, ...]:
        """Return the names that targets may use for a module: its own, and `__main__` for the module that -m runs."""
        if self._command.kind == "module":
            name = self._command.value
            if module == f"{name}.__main__" or (module == name and not is_package()):
                return (module, "__main__")
        return (module, *self.aliases) if module == "__main__" else (module,)

    def is_chosen(self, modules: tuple[str, ...]) -> bool:
        """Return whether any target may be in a module with one of these names."""
        if not self._literal.isdisjoint(modules):
            return True
        parts = [module.split(".") for module in modules] if self._globs else []
        return any(
            len(target) > len(part) and all(map(matches, target, part)) for part in parts for target in self._globs
        )

    def stored(self, source: Any, name: str) -> Any:
        """Return a module's stored code for a source; None if no function is chosen, False if the source is unknown."""
        entry = self._known.get(name)
        if entry is None or entry[0] != digest(source):
            return False
        return _stored(f"{self._folder}/{name}.module") if entry[1] else None

    def tree_of(self, source: Any, path: str, modules: tuple[str, ...], rewriting: Any = None) -> Any:
        """Return a module's syntax tree with hits inserted; None if no function in the module is chosen."""
        if self._rewriting is None:
            self._rewriting = rewriting or _load(self._folder, "rewriting")
        compiled = bootstrap._call_with_frames_removed  # type: ignore[attr-defined]
        tree = compiled(compile, source, path, "exec", _ONLY_TREE, True)
        plain = compiled(compile, tree, path, "exec", 0, True)
        return tree if self._rewriting.insert_hits(tree, plain, lambda names: self._hits(names, modules)) else None

    def _hits(self, names: tuple[str, ...], modules: tuple[str, ...]) -> list[str]:
        full = [(*module.split("."), *names) for module in modules]
        return [
            _HIT.format(index)
            for index, target in enumerate(self._targets)
            if any(len(target) == len(name) and all(map(matches, target, name)) for name in full)
        ]


def _as_if_of_importlib(function: Any) -> Any:
    """Make tracebacks omit a function's frames, as they omit the frames of the import system."""
    function.__code__ = function.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")
    return function


def _watch_modules(chooser: Chooser) -> None:
    ordinary = external.SourceFileLoader.get_code
    compiles = external.SourceFileLoader.source_to_code

    def get_code(self: Any, fullname: str) -> Any:
        modules = chooser.names_of(fullname, lambda: self.is_package(fullname))
        if not chooser.is_chosen(modules):
            return ordinary(self, fullname)
        path = self.get_filename(fullname)
        source = self.get_data(path)
        # A loader that compiles source itself, such as some type checkers, must get the tree.
        code = chooser.stored(source, fullname) if type(self).source_to_code is compiles else False
        if code is None:
            return ordinary(self, fullname)
        if code:
            _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]
            return code
        tree = chooser.tree_of(source, path, modules)
        return ordinary(self, fullname) if tree is None else self.source_to_code(tree, path)

    external.SourceFileLoader.get_code = _as_if_of_importlib(get_code)  # type: ignore[method-assign]


def _watch_archives(chooser: Chooser) -> None:
    ordinary = zipimport._get_module_code  # type: ignore[attr-defined]

    def _get_module_code(self: Any, fullname: str) -> Any:
        loaded = ordinary(self, fullname)
        modules = chooser.names_of(fullname, lambda: loaded[1])
        source = self.get_source(fullname) if chooser.is_chosen(modules) else None
        if source is None:
            return loaded
        path = loaded[0].co_filename
        code = chooser.stored(source, fullname)
        if code:
            _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]
        elif code is False:
            tree = chooser.tree_of(source, path, modules)
            code = None if tree is None else compile(tree, path, "exec", dont_inherit=True)
        return loaded if code is None else (code, *loaded[1:])

    zipimport._get_module_code = _as_if_of_importlib(_get_module_code)  # type: ignore[attr-defined]


def _watch_main(chooser: Chooser, command: Any, counter: Any) -> None:
    """Install a profiler that waits for the start of the main script, and then removes itself."""
    if sys.getprofile() is not None:
        sys.stderr.write("unperturbed: the main script's functions are not counted: sitecustomize has set a profiler\n")
        return

    def on_call(frame: Any, event: str, argument: object) -> None:  # noqa: ARG001
        if event != "call" or frame.f_code.co_name != "<module>" or frame.f_globals.get("__name__") != "__main__":
            return
        code = frame.f_code
        sys.setprofile(None)
        if frame.f_globals.get("__spec__") is not None:
            return  # a folder or an archive, which a loader compiled
        try:
            _exchange(code, chooser, command, counter)
        except Exception as error:  # noqa: BLE001  the program must run; readers of the counts notice that they are missing
            sys.stderr.write(f"unperturbed: the functions of {code.co_filename} are not counted: {error}\n")

    sys.setprofile(on_call)


def _exchange(code: CodeType, chooser: Chooser, command: Any, counter: Any) -> None:
    """Replace functions with functions that count, in the constants of a module that is about to run."""
    path = code.co_filename
    source: Any = command.value
    if command.kind == "script":
        with open(path, "rb") as file:  # noqa: PTH123
            source = file.read()
    modules = ("__main__", *chooser.aliases)
    pair = chooser.stored(source, MAIN)
    if pair is False:
        tree = chooser.tree_of(source, path, modules)
        pair = tree and (
            compile(source, path, "exec", dont_inherit=True),
            compile(tree, path, "exec", dont_inherit=True),
        )
    if pair is None:
        return
    plain, counting = pair
    if _inner(plain) != _inner(code):
        raise RuntimeError("the source differs from the running code")
    _imp._fix_co_filename(counting, path)  # type: ignore[attr-defined]
    functions = iter(_inner(counting))
    for place, constant in enumerate(code.co_consts):
        if hasattr(constant, "co_consts"):
            counter.put(code.co_consts, tuple.__basicsize__ + _POINTER_BYTES * place, next(functions))


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if hasattr(constant, "co_consts")]
