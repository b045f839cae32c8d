"""Metrics that count functions of a Python program: where they are, and what sets the import hook up.

The hook (`injected/`) puts one statement into the chosen functions when their modules are compiled. Nothing of the
program is built or written.
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
"""Modules that a name may be handed through."""


@dataclass(frozen=True)
class PythonSite:
    """A function that a metric counts: file, line of its `def`, that line's text, dotted name."""

    file: str
    line: int
    text: str
    function: str


@dataclass(frozen=True)
class PythonSites:
    """A metric as the program's interpreter knows it."""

    sites: tuple[PythonSite, ...]  # Functions that count
    uncounted: tuple[str, ...]  # Which calls are not counted, and why
    interpreter: Path  # Its binary
    version: str  # Such as `3.11.2`
    free_threaded: bool  # It runs threads at once; hits are then counted by atomic additions


def python_environment(environment: Mapping[str, str], hook: Path) -> dict[str, str]:
    """Return the variable that has a Python program count: PYTHONPATH, led by the folder of `prepare_python_hook`.

    The first Python process takes that out: those that it starts run without the hook, as no sampler reads their
    counters. The sampler's runtime has to be preloaded.
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
    """Compile the hook, and the modules that it counts in, for the interpreter that the command starts.

    `software`: All software metrics, in the order of their numbers.
    Result: The hook's folder, which runs read and never write. A module whose source has changed since is compiled by
    the run itself.
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
    """Find the functions of a `python` metric, by asking the interpreter that the command starts.

    Nothing of the program is imported or run: packages are looked for by the finders that are there when the
    interpreter starts. What a package does to its own path while it is imported is not known.
    """
    interpreter = _Interpreter(command, environment, folder)
    interpreter.check_options()
    answer = interpreter.find([event.target])
    (found,) = answer["answers"]
    if not found["sites"]:
        missing = _missing(event.target, found, answer["version"], interpreter)
        raise SpecError(f"software metric {metric!r}: {missing}")
    return PythonSites(
        tuple(PythonSite(*site) for site in found["sites"]),
        tuple(_uncounted_calls(found, interpreter.line)),
        interpreter.path,
        answer["version"],
        answer["free_threaded"],
    )


def _interpreter(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> tuple[Path, Sequence[str]]:
    """Return the interpreter's binary and the words behind it, through the first line of a script."""
    path = shutil.which(
        command[0] if "/" not in command[0] else str(folder / command[0]), path=environment.get("PATH", os.defpath)
    )
    if path is None:
        raise SpecError(f"{command[0]}: no such program")
    with Path(path).open("rb") as file:
        begin = file.read(256)
    if begin.startswith(b"\x7fELF") and "python" in Path(path).name:
        return Path(path), command[1:]  # any other would be run with words that it takes for something else
    shown = begin[2:].split(b"\n")[0].decode(errors="replace").split(maxsplit=1) if begin.startswith(b"#!") else []
    if not shown:
        needed = "a metric of Python functions needs a command such as `python3 script.py`"
        raise SpecError(f"{path}: not a Python program; {needed}")
    name = Path(shown[0]).name
    if name == "env" and "python" in shown[-1]:
        by_env = "started by env(1), which becomes another program without a sampler"
        raise SpecError(f"{path}: {by_env}; write `python3 {command[0]}` in `run:`")
    if "python" not in name:
        advice = "name the Python interpreter that does the work, by its path"
        raise SpecError(f"{path}: a script run by {shown[0]}; {advice}")
    return Path(shown[0]), [*shown[1:], path, *command[1:]]


class _Interpreter:
    """The interpreter that a command starts, with the program's own options, environment and folder."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.path, words = _interpreter(command, environment, folder)
        self.line = read_command_line(list(words))
        self._environment = {**environment, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"}
        self._folder = folder

    def check_options(self) -> None:
        """Refuse options with which no hook can be set."""
        for letter, meaning in (("I", "isolated"), ("E", "without the environment"), ("S", "without its site module")):
            if letter in self.line.letters:
                advice = f"Leave -{letter} out of `run:` (or of the script's first line)"
                raise SpecError(f"{self.path.name} -{letter} runs {meaning}: no hook can be set. {advice}")

    def find(self, targets: Sequence[str]) -> dict[str, Any]:
        """Return where the functions are that targets name."""
        answer = self.answer("find", targets)
        if answer["implementation"] != "cpython" or tuple(map(int, answer["version"].split(".")))[:2] < _OLDEST:
            found = f"{answer['implementation']} {answer['version']}"
            raise HostError(f"{self.path}: {found}; functions are counted in CPython 3.9 and later")
        if answer["ignores_environment"] or answer["has_no_site"]:
            raise SpecError(f"{self.path}: it runs without its environment or its site module here: no hook can be set")
        return answer

    def answer(self, task: str, targets: Sequence[str], **question: object) -> dict[str, Any]:
        """Return the answer of `injected/lookup.py`, which the interpreter runs."""
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
            raise HostError(f"{self.path}: cannot run the interpreter here ({error})") from None
        try:
            answer: dict[str, Any] = json.loads(done.stdout[done.stdout.index('{"version"') :])
        except ValueError:
            output = done.stderr.strip()[-1000:]
            unable = f"{self.path}: it cannot report where functions are"
            raise HostError(f"{unable}; is it CPython 3.9 or later? It wrote:\n{output}") from None
        return answer


def _missing(target: str, found: Mapping[str, Any], version: str, interpreter: _Interpreter) -> str:
    if found["replaced"]:
        function, _, reason = found["replaced"][0]
        return f"{function} is {reason}: Python code of that name never runs. {_instead(target)}"
    if found["reasons"]:
        module, file, reason = found["reasons"][0]
        where = f" ({file})" if file else ""
        hint = "Name a function of a module of the program's own, or of one that it imports"
        hint = _instead(target) if reason == "written in C" else hint
        return f"{target}: the module {module}{where} is {reason}. {hint}"
    if f"{target} (a lambda)" in found["known"]:
        return f"{target} is a lambda, which cannot be counted by its name: make it a function with def"
    message = f"no function {target} is defined where {_shown(interpreter.line)} finds it with Python {version}"
    if defined := _defined_elsewhere(target, found["known"], interpreter):
        return f"{message}; it is defined elsewhere: did you mean {defined}?"
    return f"{message}{_nearest(target, found['known'])}"


def _nearest(target: str, known: Sequence[str]) -> str:
    own = target.rpartition(".")[2]
    elsewhere = [name for name in known if name.partition(" ")[0].rpartition(".")[2] == own]
    names = list(dict.fromkeys([*elsewhere, *nearest(target, known)]))[:_SHOWN_NAMES]
    if names:
        return f"; nearest names: {', '.join(names)}"
    return "; no name is similar" if known else f": no module {target.partition('.')[0]!r}, or it defines no functions"


def _defined_elsewhere(
    target: str, known: Sequence[str], interpreter: _Interpreter, *, steps: int = _MOST_STEPS
) -> str:
    """Return the name under which a target is defined whose module only imports it; '' when none is found."""
    imported = {name: module for item in known for name, module in _IMPORTED.findall(item)}
    parts = target.split(".")
    for length in range(len(parts), 1, -1):
        home, module = parts[: length - 1], imported.get(".".join(parts[:length]))
        if module is None:
            continue
        inner = module.lstrip(".")
        up = len(module) - len(inner)
        # A package's own module is one level higher than any other.
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
    library = "Take the library's own function by {preload: …} or {probe: {uprobe: …}}"
    return f"{library}, or a Python function that calls {target.rpartition('.')[2]}"


def _shown(line: CommandLine) -> str:
    return {"script": line.value, "module": f"-m {line.value}", "code": "the text of -c", "stdin": "stdin"}[line.kind]


def _uncounted_calls(found: Mapping[str, Any], line: CommandLine) -> list[str]:
    uncounted = []
    for reason in dict.fromkeys(reason for _, _, reason in (*found["replaced"], *found["reasons"])):
        names = [name for name, _, other in (*found["replaced"], *found["reasons"]) if other == reason]
        more = f" and {len(names) - _SHOWN_NAMES} others" if len(names) > _SHOWN_NAMES else ""
        uncounted.append(f"{', '.join(names[:_SHOWN_NAMES])}{more}: {reason}")
    if line.kind == "module" and line.value.partition(".")[0] == "pytest":
        own = "pytest compiles test modules, conftest.py and its plugins itself"
        uncounted.append(f"{own}: their functions are not counted")
    if line.kind == "module" and line.value in ("cProfile", "profile", "trace", "runpy", "pdb", "coverage"):
        own = f"{line.value} compiles the script that it runs itself"
        uncounted.append(f"{own}: only functions of its modules are counted")
    return uncounted
