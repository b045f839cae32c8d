"""Guess from a folder of source code how it is built, which program that gives, and which functions it calls most."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unperturbed.errors import SpecError
from unperturbed.harness.drafts.saving import campaign_name

_SOURCES = (".c", ".cc", ".cpp", ".cxx")
_CXX = (".cc", ".cpp", ".cxx")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_VARIABLE = re.compile(r"^([A-Za-z_]\w*)[ \t]*[:?]?=[ \t]*([^#\n]*)", re.MULTILINE)
_RULE = re.compile(r"^([^\s:#=][^:#=\n]*?)[ \t]*:(?![:=])[ \t]*([^#\n;]*)[^\n]*((?:\n\t[^\n]*)*)", re.MULTILINE)
_USED = re.compile(r"\$[({](\w+)[)}]")
_NO_PROGRAMS = frozenset({"all", "clean", "install", "test", "check", "default", "help", "distclean"})
_TESTS = re.compile(r"(tests?|testes|examples?|bench(marks?)?|fuzz\w*|docs?)$", re.IGNORECASE)
_DEFINITION = re.compile(
    r"^(?!static_assert|typedef|else|return)[A-Za-z_][\w\s*&:<>,]*?\b(\w+)\s*\([^;{}()]*\)\s*\{", re.M
)
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_KEYWORDS = frozenset({"if", "for", "while", "switch", "main", "do", "catch"})
_MOST_FILES, _MOST_FUNCTIONS, _MOST_BYTES, _MOST_NESTED = 400, 6, 1 << 20, 8


@dataclass(frozen=True)
class Build:
    """Guessed build of a folder: command, program, the file that it is guessed from, and whether it needs a shell."""

    command: str
    program: str
    by: str
    shell: bool = False


def find_build(folder: Path) -> Build:
    """Guess the build of a folder; raise SpecError if nothing in it can be built."""
    if not folder.is_dir():
        raise SpecError(f"{folder}: no such folder; give the folder of the source code, or a command after --")
    makefile = next((folder / name for name in _MAKEFILES if (folder / name).is_file()), None)
    if (folder / "CMakeLists.txt").is_file():
        name = _first(r"add_executable\s*\(\s*([\w.-]+)", folder / "CMakeLists.txt")
        command = (
            "cmake -S . -B out -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER={cc} -DCMAKE_CXX_COMPILER={cxx}"
            " && cmake --build out"
        )
        return Build(command, f"out/{name}", "CMakeLists.txt", shell=True)
    if makefile is None and (folder / "meson.build").is_file():
        name = _first(r"executable\s*\(\s*'([^']+)'", folder / "meson.build")
        command = "CC={cc} CXX={cxx} meson setup out && ninja -C out"
        return Build(command, f"out/{name}", "meson.build", shell=True)
    if makefile is None and (folder / "configure").is_file():
        return Build("./configure CC={cc} && make", folder.resolve().name, "configure", shell=True)
    if makefile is not None:
        return Build("make CC={cc} CXX={cxx}", _program_of(makefile, folder), makefile.name)
    sources = sorted(path.name for path in folder.iterdir() if path.suffix in _SOURCES)
    if not sources:
        raise SpecError(
            f"{folder} contains no Makefile, CMakeLists.txt, meson.build, configure script, or C or C++ source; for a "
            "program that is already built, give its command: unperturbed init -- ./program"
        )
    compiler = "{cxx}" if any(name.endswith(_CXX) for name in sources) else "{cc}"
    name = Path(sources[0]).stem if len(sources) == 1 else campaign_name(folder.resolve().name)
    return Build(f"{compiler} -O2 -g -o {name} {' '.join(sources)}", name, "the source files")


def called_functions(folder: Path) -> Sequence[str]:
    """Return functions that the folder's source defines and calls, those with the most calls in its text first."""
    defined: dict[str, None] = {}
    calls: Counter[str] = Counter()
    for path in _sources(folder):
        with path.open(errors="replace") as file:
            text = file.read(_MOST_BYTES)
        names = _DEFINITION.findall(text)
        defined |= dict.fromkeys(name for name in names if name not in _KEYWORDS and not name.isupper())
        calls.update(_CALL.findall(text))
    return sorted(defined, key=lambda name: -calls[name])[:_MOST_FUNCTIONS]


def _sources(folder: Path) -> Iterator[Path]:
    """Yield source files, without those of tests and examples."""
    found = 0
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and not _TESTS.match(name))
        for name in sorted(files):
            path = Path(where, name)
            if path.suffix in _SOURCES and path.is_file():
                yield path
                found += 1
                if found == _MOST_FILES:
                    return


def _first(pattern: str, file: Path) -> str:
    match = re.search(pattern, file.read_text(errors="replace"))
    return match[1] if match else "program"


def _program_of(makefile: Path, folder: Path) -> str:
    """Return the program that a Makefile most probably builds.

    That is a target whose recipe links, or else one with the folder's name (`lz4` of lz4-1.10), or else the first file
    among the targets: those that `all` needs come first.
    """
    text = makefile.read_text(errors="replace").replace("\\\n", " ")
    variables = dict(reversed(_VARIABLE.findall(text)))  # of several assignments, the first
    recipes: dict[str, str] = {}
    needs: dict[str, list[str]] = {}
    for targets, needed, recipe in _RULE.findall(text):
        for target in _expanded(targets, variables).split():
            recipes[target] = recipes.get(target, "") + _expanded(recipe, variables)
            needs.setdefault(target, []).extend(_expanded(needed, variables).split())
    phony, ours = set(needs.pop(".PHONY", [])) | _NO_PROGRAMS, campaign_name(folder.resolve().name)

    def rank(name: str) -> int:
        recipe = recipes[name].replace("$@", name)
        links = re.search(rf"-o *{re.escape(name)}(\s|$)", recipe) and not re.search(r"\s-(shared|c)\b", recipe)
        return 0 if links else 1 if name == re.split(r"[-_.]?v?\d+\.", ours)[0] else 2 if name not in phony else 3

    asked = [name for top in ("all", "default") for name in needs.get(top, [])]
    files = [
        name for name in dict.fromkeys([*asked, *needs]) if name in recipes and re.fullmatch(r"[\w/-][\w./-]*", name)
    ]
    programs = [name for name in files if "." not in Path(name).name and name not in _NO_PROGRAMS]
    return min(programs, key=rank, default=ours)


def _expanded(text: str, variables: Mapping[str, str], within: frozenset[str] = frozenset()) -> str:
    """Replace the variables of a Makefile that it sets itself, but not within their own value; leave others."""
    if len(within) == _MOST_NESTED:
        return text

    def value(use: re.Match[str]) -> str:
        name = use[1]
        known = name in variables and name not in within
        return _expanded(variables[name], variables, within | {name}) if known else use[0]

    return _USED.sub(value, text)
