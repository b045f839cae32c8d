"""Metrics that count Python functions: search for the functions, and set-up of the import hook.

The hook (`injected/`) inserts one statement into each chosen function when its module is compiled. No file of the
program is built or changed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unperturbed.common import supervision
from unperturbed.common.wording import nearest
from unperturbed.errors import HostError, SpecError
from unperturbed.instrument.events.event import Event
from unperturbed.instrument.python.injected.command_line import CommandLine, read_command_line

_LOOKUP = Path(__file__).parent / "injected/lookup.py"
_MOST_METRICS = 256
_OLDEST = (3, 9)
_SHOWN_NAMES = 3
_PATIENCE_S = 60
_IMPORTED = re.compile(r"(\S+) \(defined elsewhere: from (\S+)\)")
_MOST_STEPS = 3
"""Limit on the modules that may re-export a name."""


@dataclass(frozen=True)
class PythonSite:
    """Function that a metric counts: its file, the line of its `def`, that line's text, its dotted name."""

    file: str
    line: int
    text: str
    function: str


@dataclass(frozen=True)
class PythonSites:
    """Sites of a Python metric, as the program's interpreter found them."""

    sites: tuple[PythonSite, ...]  # Functions that count
    uncounted: tuple[str, ...]  # Which calls are not counted, and why
    interpreter: Path  # Binary of the interpreter
    version: str  # Version of the interpreter, such as `3.11.2`
    free_threaded: bool  # Threads run in parallel, so hits are counted by atomic additions


def python_environment(environment: Mapping[str, str], hook: Path) -> dict[str, str]:
    """Return the environment variable that activates the hook: PYTHONPATH, with the hook's folder first.

    The first Python process removes this folder again: its child processes run without the hook, because no sampler
    reads their counters. The sampler's runtime must be preloaded.

    `hook`: The folder that `prepare_python_hook` returned.
    """
    own = environment.get("PYTHONPATH")
    return {"PYTHONPATH": f"{hook}{os.pathsep}{own}" if own else str(hook)}


def prepare_python_hook(
    command: Sequence[str],
    software: Mapping[str, Event],
    *,
    environment: Mapping[str, str],
    folder: Path,
    library: Path,
    cache: Path,
) -> Path:
    """Compile the hook, and the modules in which it counts, for the interpreter that the command starts.

    `software`: All software metrics, in the order of their numbers.
    Result: The hook's folder, which runs only read. If a module's source has changed since, the run compiles the module
    itself.
    """
    targets = {number: event.target for number, event in enumerate(software.values()) if event.means == "python"}
    if len(targets) > _MOST_METRICS:
        many = f"{len(targets)} metrics of Python functions exceed the limit of {_MOST_METRICS} per run"
        raise SpecError(f"{many}: leave some out")
    interpreter = _Interpreter(command, environment, folder)
    question = {"numbers": list(targets), "library": str(library), "cache": str(cache)}
    return Path(interpreter.answer("prepare", list(targets.values()), **question)["folder"])


def find_python_sites(
    command: Sequence[str], metric: str, event: Event, *, environment: Mapping[str, str], folder: Path
) -> PythonSites:
    """Find the functions of a `python` metric with the interpreter that the command starts.

    No part of the program is imported or run: the finders that exist when the interpreter starts search for packages.
    Changes that a package makes to its own path during its import remain unknown.
    """
    interpreter = _Interpreter(command, environment, folder)
    interpreter.check_options()
    answer = interpreter.find([event.target])
    (lookup,) = answer["answers"]
    if not lookup["sites"]:
        missing = _missing(event.target, lookup, answer["version"], interpreter)
        raise SpecError(f"software metric {metric!r}: {missing}")
    return PythonSites(
        tuple(PythonSite(*site) for site in lookup["sites"]),
        tuple(_uncounted_calls(lookup, interpreter.line)),
        interpreter.path,
        answer["version"],
        answer["free_threaded"],
    )


def _interpreter(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> tuple[Path, Sequence[str]]:
    """Return the interpreter's binary and its arguments; for a script, from the script's first line."""
    path = shutil.which(
        command[0] if "/" not in command[0] else str(folder / command[0]), path=environment.get("PATH", os.defpath)
    )
    if path is None:
        raise SpecError(f"{command[0]}: no such program")
    with Path(path).open("rb") as file:
        begin = file.read(256)
    if begin.startswith(b"\x7fELF") and "python" in Path(path).name:
        return Path(path), command[1:]  # any other program could misinterpret the arguments
    shown = begin[2:].split(b"\n")[0].decode(errors="replace").split(maxsplit=1) if begin.startswith(b"#!") else []
    if not shown:
        needed = "metrics of Python functions need a command such as `python3 script.py`"
        raise SpecError(f"{path}: this is not a Python program; {needed}")
    name = Path(shown[0]).name
    if name == "env" and "python" in shown[-1]:
        by_env = "the script starts Python through env(1), which the sampler cannot follow"
        raise SpecError(f"{path}: {by_env}; write `python3 {command[0]}` in `run`")
    if "python" not in name:
        advice = "start the Python interpreter by its path instead"
        raise SpecError(f"{path}: this is a script for {shown[0]}, not for Python; {advice}")
    return Path(shown[0]), [*shown[1:], path, *command[1:]]


class _Interpreter:
    """Interpreter that a command starts, with the program's own options, environment and folder."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.path, words = _interpreter(command, environment, folder)
        self.line = read_command_line(list(words))
        self._environment = {**environment, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"}
        self._folder = folder

    def check_options(self) -> None:
        """Reject options that prevent the installation of the hook."""
        for letter, meaning in (
            ("I", "isolated"),
            ("E", "without PYTHON* variables"),
            ("S", "without the site module"),
        ):
            if letter in self.line.letters:
                advice = f"Remove `-{letter}` from `run` (or from the script's first line)"
                fault = f"{self.path.name} -{letter} runs {meaning}, so the counting hook cannot be installed"
                raise SpecError(f"{fault}. {advice}")

    def find(self, targets: Sequence[str]) -> dict[str, Any]:
        """Return the locations of the functions that targets name."""
        answer = self.answer("find", targets)
        if answer["implementation"] != "cpython" or tuple(map(int, answer["version"].split(".")))[:2] < _OLDEST:
            interpreter = f"{answer['implementation']} {answer['version']}"
            raise HostError(f"{self.path}: {interpreter} is not supported; use CPython 3.9 or later")
        if answer["ignores_environment"] or answer["has_no_site"]:
            fault = "this interpreter ignores PYTHON* variables or does not load the site module"
            raise SpecError(f"{self.path}: {fault}, so the counting hook cannot be installed")
        return answer

    def answer(self, task: str, targets: Sequence[str], **question: object) -> dict[str, Any]:
        """Run `injected/lookup.py` in the interpreter and return its answer."""
        main = {"kind": self.line.kind, "value": self.line.value}
        try:
            done = supervision.run(
                [str(self.path), *self.line.options, str(_LOOKUP)],
                input=json.dumps({"task": task, "targets": targets, "main": main, **question}),
                cwd=self._folder,
                env=self._environment,
                capture_output=True,
                encoding="utf-8",
                errors="surrogateescape",
                timeout=_PATIENCE_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HostError(f"{self.path}: cannot run the interpreter ({error})") from None
        try:
            answer: dict[str, Any] = json.loads(done.stdout[done.stdout.index('{"version"') :])
        except ValueError:
            output = done.stderr.strip()[-1000:]
            unable = f"{self.path}: the interpreter cannot search for functions"
            raise HostError(f"{unable}; is it CPython 3.9 or later? Its output was:\n{output}") from None
        return answer


def _missing(target: str, lookup: Mapping[str, Any], version: str, interpreter: _Interpreter) -> str:
    if lookup["replaced"]:
        function, _, reason = lookup["replaced"][0]
        return f"{function} is {reason}, so the Python function never runs. {_instead(target)}"
    if lookup["reasons"]:
        module, file, reason = lookup["reasons"][0]
        where = f" ({file})" if file else ""
        hint = "Name a function in the program's own modules, or in a module that these import"
        hint = _instead(target) if reason == "written in C" else hint
        return f"{target}: the module {module}{where} is {reason}. {hint}"
    if f"{target} (a lambda)" in lookup["known"]:
        return f"{target} is a lambda, which has no name to count by: define a function with `def` instead"
    message = f"no function {target} found in modules that {_shown(interpreter.line)} can import in Python {version}"
    if defined := _defined_elsewhere(target, lookup["known"], interpreter):
        return f"{message}; a different module defines the function: did you mean {defined}?"
    return f"{message}{_nearest(target, lookup['known'])}"


def _nearest(target: str, known: Sequence[str]) -> str:
    own = target.rpartition(".")[2]
    elsewhere = [name for name in known if name.partition(" ")[0].rpartition(".")[2] == own]
    names = list(dict.fromkeys([*elsewhere, *nearest(target, known)]))[:_SHOWN_NAMES]
    if names:
        return f"; nearest names: {', '.join(names)}"
    return "; no similar name" if known else f": module {target.partition('.')[0]!r} is missing or defines no functions"


def _defined_elsewhere(
    target: str, known: Sequence[str], interpreter: _Interpreter, *, steps: int = _MOST_STEPS
) -> str:
    """Return the name under which a target is defined if its module only imports it; '' if not found."""
    imported = {name: module for item in known for name, module in _IMPORTED.findall(item)}
    parts = target.split(".")
    for length in range(len(parts), 1, -1):
        home, module = parts[: length - 1], imported.get(".".join(parts[:length]))
        if module is None:
            continue
        inner = module.lstrip(".")
        up = len(module) - len(inner)
        # In a package's own module, relative imports start one level higher than in its other modules.
        bases = [home[: len(home) - up + 1], home[: len(home) - up]] if up else [[]]
        guesses = [".".join([*base, *filter(None, [inner]), *parts[length - 1 :]]) for base in bases]
        answers = interpreter.find(guesses)["answers"]
        defined = next((guess for guess, answer in zip(guesses, answers, strict=True) if answer["sites"]), "")
        if defined or steps == 1:
            return defined
        further = (
            _defined_elsewhere(guess, answer["known"], interpreter, steps=steps - 1)
            for guess, answer in zip(guesses, answers, strict=True)
        )
        return next(filter(None, further), "")
    return ""


def _instead(target: str) -> str:
    own = f"Count the C function that implements {target.rpartition('.')[2]}"
    return f"{own}, with `{{preload: …}}` or `{{probe: {{uprobe: …}}}}`, or a Python function that calls it"


def _shown(line: CommandLine) -> str:
    return {"script": line.value, "module": f"-m {line.value}", "code": "the code of -c", "stdin": "stdin"}[line.kind]


def _uncounted_calls(lookup: Mapping[str, Any], line: CommandLine) -> list[str]:
    uncounted = []
    for reason in dict.fromkeys(reason for _, _, reason in (*lookup["replaced"], *lookup["reasons"])):
        names = [name for name, _, other in (*lookup["replaced"], *lookup["reasons"]) if other == reason]
        more = f" and {len(names) - _SHOWN_NAMES} others" if len(names) > _SHOWN_NAMES else ""
        uncounted.append(f"{', '.join(names[:_SHOWN_NAMES])}{more}: {reason}")
    if line.kind == "module" and line.value.partition(".")[0] == "pytest":
        own = "pytest compiles test modules, conftest.py and its plugins itself"
        uncounted.append(f"{own}: their functions are not counted")
    if line.kind == "module" and line.value in ("cProfile", "profile", "trace", "runpy", "pdb", "coverage"):
        own = f"{line.value} itself compiles the script that it runs"
        uncounted.append(f"{own}: only functions in modules that the script imports are counted")
    return uncounted
