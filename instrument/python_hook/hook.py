"""The import hook: chosen functions of modules, and of the main script, count a hit when they are entered.

Modules pass by the two places where CPython turns source into code; only chosen modules are compiled here, and their .pyc files neither read nor
written. No finder, loader or path is added, so that the program finds all of these as they are without us. The main script does not pass by any
loader: CPython itself compiles it. Its functions are exchanged when its first line is about to run, before they are made; its own frame, globals and
surroundings are CPython's.
"""

from __future__ import annotations

import _frozen_importlib as bootstrap
import _frozen_importlib_external as external
import _imp
import builtins
import os
import sys
import zipimport

TYPE_CHECKING = False
"""Never when it runs: Python does not load `typing` when it starts, and the program shall load it itself, if at all."""
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

__all__ = ["Settings", "install", "read_settings"]

_ONLY_TREE = 0x400
"""PyCF_ONLY_AST: compile() gives the tree."""
_COUNTER = "unperturbed_python"
_HIT = "__unperturbed_hit_{}__"
"""With underscores at its end too: a class would put its name before it."""
_POINTER_BYTES = 8


class Settings:
    """What the environment asks for: counting library, the program's own PYTHONPATH (None if it has none), number of metric → parts of its target."""

    def __init__(self, text: str) -> None:
        self.library = ""
        self.python_path: str | None = None
        self.targets: list[tuple[int, tuple[str, ...]]] = []
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key == "library":
                self.library = value
            elif key == "pythonpath":
                self.python_path = value
            else:
                self.targets.append((int(key), tuple(value.split("."))))


def read_settings(variable: str) -> Settings | None:
    """Take the settings out of the environment, and leave it as it is without us: processes that the program starts are not counted."""
    text = os.environ.pop(variable, None)
    if text is None:
        return None
    settings = Settings(text)
    if settings.python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = settings.python_path
    return settings


def install(settings: Settings, folder: str) -> None:
    """Have every chosen function that is compiled from now on count."""
    rewriting = load(folder, "rewriting")
    counter = _load_counter(settings.library)
    numbers = b"".join(number.to_bytes(4, sys.byteorder) for number, _ in settings.targets)
    free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    for index, hit in enumerate(counter.start(numbers, free_threaded)):
        setattr(builtins, _HIT.format(index), hit)
    words = list(getattr(sys, "orig_argv", ())) or _own_command()
    command = load(folder, "command_line").read_command_line(words[1:])
    chooser = _Chooser(settings, rewriting, command)
    _watch_modules(chooser)
    _watch_archives(chooser)
    if command.kind in ("script", "code") and chooser.is_chosen(("__main__", *chooser.aliases)):
        _watch_main(chooser, command, counter)


def load(folder: str, name: str) -> Any:
    """Load a module of this folder that the program shall not find among its own."""
    spec = external.spec_from_file_location(f"unperturbed_{name}", f"{folder}/{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder}/{name}.py cannot be loaded")
    module = bootstrap.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _load_counter(library: str) -> Any:
    loader = external.ExtensionFileLoader(_COUNTER, library)
    module = _imp.create_dynamic(bootstrap.ModuleSpec(_COUNTER, loader, origin=library))
    _imp.exec_dynamic(module)
    return module


def _own_command() -> list[str]:
    """Return the words that started this process, where sys does not tell (3.9)."""
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123  pathlib is not loaded when Python starts
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


class _Chooser:
    """Which functions are chosen, and what they call."""

    def __init__(self, settings: Settings, rewriting: Any, command: Any) -> None:
        self._targets = settings.targets
        self._rewriting = rewriting
        self._command = command
        base = os.path.basename(command.value) if command.kind == "script" else ""  # noqa: PTH119
        stem = base[: -len(".py")] if base.endswith(".py") else base
        self.aliases = (stem,) if stem else ()

    def names_of(self, module: str, is_package: Any) -> tuple[str, ...]:
        """Return the names by which targets may call a module: its own, and `__main__` for the one that -m runs."""
        if self._command.kind == "module":
            name = self._command.value
            if module == f"{name}.__main__" or (module == name and not is_package()):
                return (module, "__main__")
        return (module, *self.aliases) if module == "__main__" else (module,)

    def is_chosen(self, modules: tuple[str, ...]) -> bool:
        """Tell whether any target may be in a module of these names."""
        return any(self._inside(target, module.split(".")) for module in modules for _, target in self._targets)

    def _inside(self, target: tuple[str, ...], module: list[str]) -> bool:
        return len(target) > len(module) and all(map(self._rewriting.matches, target, module))

    def code_of(self, source: Any, path: str, modules: tuple[str, ...]) -> Any:
        """Return a module's tree with hits in it, or None when no function of it is chosen."""
        compiled = bootstrap._call_with_frames_removed  # type: ignore[attr-defined]
        tree = compiled(compile, source, path, "exec", _ONLY_TREE, True)
        plain = compiled(compile, tree, path, "exec", 0, True)
        return tree if self._rewriting.insert_hits(tree, plain, lambda names: self._hits(names, modules)) else None

    def _hits(self, names: tuple[str, ...], modules: tuple[str, ...]) -> list[str]:
        full = [(*module.split("."), *names) for module in modules]
        return [
            _HIT.format(index)
            for index, (_, target) in enumerate(self._targets)
            if any(len(target) == len(name) and all(map(self._rewriting.matches, target, name)) for name in full)
        ]


def _as_if_of_importlib(function: Any) -> Any:
    """Have tracebacks leave a function's frames out, as they do with those of the import system."""
    function.__code__ = function.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")
    return function


def _watch_modules(chooser: _Chooser) -> None:
    ordinary = external.SourceFileLoader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        modules = chooser.names_of(fullname, lambda: self.is_package(fullname))
        if chooser.is_chosen(modules):
            path = self.get_filename(fullname)
            tree = chooser.code_of(self.get_data(path), path, modules)
            if tree is not None:
                return self.source_to_code(tree, path)
        return ordinary(self, fullname)

    external.SourceFileLoader.get_code = _as_if_of_importlib(get_code)  # type: ignore[method-assign]


def _watch_archives(chooser: _Chooser) -> None:
    ordinary = zipimport._get_module_code  # type: ignore[attr-defined]

    def _get_module_code(self: Any, fullname: str) -> Any:
        found = ordinary(self, fullname)
        modules = chooser.names_of(fullname, lambda: found[1])
        source = self.get_source(fullname) if chooser.is_chosen(modules) else None
        if source is None:
            return found
        path = found[0].co_filename
        tree = chooser.code_of(source, path, modules)
        return found if tree is None else (compile(tree, path, "exec", dont_inherit=True), *found[1:])

    zipimport._get_module_code = _as_if_of_importlib(_get_module_code)  # type: ignore[attr-defined]


def _watch_main(chooser: _Chooser, command: Any, counter: Any) -> None:
    """Wait, by the profiler's call events, for the main script's first line. From then on nothing is left of this."""

    def on_call(frame: Any, event: str, argument: object) -> None:
        del argument
        code = frame.f_code
        if event != "call" or code.co_name != "<module>" or frame.f_globals.get("__name__") != "__main__":
            return
        sys.setprofile(None)
        if frame.f_globals.get("__spec__") is not None:
            return  # a folder or an archive, which a loader compiled
        try:
            _exchange(code, chooser, command, counter)
        except Exception as error:  # noqa: BLE001  the program runs as it is, and the missing counts are met by who reads them
            sys.stderr.write(f"unperturbed: the functions of {code.co_filename} are not counted: {error}\n")

    sys.setprofile(on_call)


def _exchange(code: CodeType, chooser: _Chooser, command: Any, counter: Any) -> None:
    """Put functions that count into the constants of a module that is about to run."""
    path = code.co_filename
    source: Any = command.value
    if command.kind == "script":
        with open(path, "rb") as file:  # noqa: PTH123
            source = file.read()
    tree = chooser.code_of(source, path, ("__main__", *chooser.aliases))
    if tree is None:
        return
    plain = compile(source, path, "exec", dont_inherit=True)
    if _inner(plain) != _inner(code):
        raise RuntimeError("its text is not what is running")
    counting = iter(_inner(compile(tree, path, "exec", dont_inherit=True)))
    for place, constant in enumerate(code.co_consts):
        if hasattr(constant, "co_consts"):
            counter.put(code.co_consts, tuple.__basicsize__ + _POINTER_BYTES * place, next(counting))


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if hasattr(constant, "co_consts")]
