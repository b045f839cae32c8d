"""Specs to start from: a draft to complete, guessed from a folder of source code, and examples that run unchanged."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from unperturbed.common.wording import did_you_mean, listing
from unperturbed.errors import SpecError
from unperturbed.harness.drafts.metrics import choose_hardware
from unperturbed.harness.drafts.saving import campaign_name, commented, quoted, quoted_list

_SOURCES = (".c", ".cc", ".cpp", ".cxx")
_CXX = (".cc", ".cpp", ".cxx")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TARGET = re.compile(r"^([A-Za-z0-9_./-]+)\s*:(?!=)\s*([^#\n]*)", re.MULTILINE)
_NO_PROGRAMS = frozenset({"all", "clean", "install", "test", "check", "default", "help", "distclean"})
_DEFINITION = re.compile(
    r"^(?!static_assert|typedef|else|return)[A-Za-z_][\w\s*&:<>,]*?\b(\w+)\s*\([^;{}()]*\)\s*\{", re.M
)
_MOST_FILES, _MOST_FUNCTIONS, _MOST_BYTES = 40, 6, 1 << 20
_KEYWORDS = frozenset({"if", "for", "while", "switch", "main", "do", "catch"})


@dataclass(frozen=True)
class _Build:
    """Guessed build of a folder: command, program, the file that it is guessed from, and whether it needs a shell."""

    command: str
    program: str
    by: str
    shell: bool = False


def describe_source(folder: Path, spec: Path, name: str) -> str:
    """Return a draft spec (YAML) of a program in a folder of source code; `spec` is the path it will have."""
    build = _find_build(folder)
    hardware = choose_hardware()
    here = spec.absolute().parent
    source = folder.absolute()
    named = str(source.relative_to(here)) if source != here and source.is_relative_to(here) else str(source)
    functions = list(_functions(folder))
    head = (
        f"A campaign on {folder.resolve().name}: which metrics does measuring change? Complete this spec, then type\n\n"
        f"    unperturbed sites {spec.name}     where each software metric counts\n"
        f"    unperturbed run {spec.name}\n\n"
        "`unperturbed schema` prints a JSON Schema for editors; docs/reference/spec.md describes every key."
    )
    lines = [
        commented(head),
        f"name: {quoted(name)}",
        "",
        "program:",
        f"  source: {quoted(named)}       # copied for each build, never written to",
        f"  # guessed from {build.by}; {{cc}} and {{cxx}} are the compilers that add the counters",
        f"  build: {quoted(build.command)}",
        f"  run: {quoted('{build}/' + build.program)}       # add arguments, or stdin: FILE",
        *(["  shell: true"] if build.shell else []),
        "  # inputs: [corpus.txt]       # copied into {inputs}",
        "  # result: any                # for a program that prints times or addresses",
        "",
        "measure:",
        "  interval: {records: 200}     # a pilot run determines the length; `interval: 20 ms` sets it",
        f"  # {hardware.why}; `unperturbed metrics` lists all metrics",
        f"  hardware: {quoted_list(hardware.names)}",
        "  # Choose what to count in the program. Some of its functions:",
        "  # software:",
        *(f"  #   {name}_entered: {{enter: {name}}}" for name in functions or ["function"]),
        "",
        "campaign:",
        "  baseline_runs: 10            # with hardware metrics only",
        "  runs: 5                      # of each configuration with software metrics",
        "  seed: 1",
        "",
        "# analysis:",
        "#   # a counter with a few hundred events per run, to align runs by",
        f"#   anchor: {(functions or ['function'])[0]}_entered",
    ]
    return "\n".join(lines) + "\n"


def _find_build(folder: Path) -> _Build:
    if not folder.is_dir():
        raise SpecError(f"{folder}: no such folder; give the folder of the source code, or a command after --")
    makefile = next((folder / name for name in _MAKEFILES if (folder / name).is_file()), None)
    if (folder / "CMakeLists.txt").is_file():
        name = _first(r"add_executable\s*\(\s*([\w.-]+)", folder / "CMakeLists.txt")
        command = (
            "cmake -S . -B out -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER={cc} -DCMAKE_CXX_COMPILER={cxx}"
            " && cmake --build out"
        )
        return _Build(command, f"out/{name}", "CMakeLists.txt", shell=True)
    if makefile is None and (folder / "meson.build").is_file():
        name = _first(r"executable\s*\(\s*'([^']+)'", folder / "meson.build")
        command = "CC={cc} CXX={cxx} meson setup out && ninja -C out"
        return _Build(command, f"out/{name}", "meson.build", shell=True)
    if makefile is None and (folder / "configure").is_file():
        return _Build("./configure CC={cc} CXX={cxx} && make", folder.resolve().name, "configure", shell=True)
    if makefile is not None:
        return _Build("make CC={cc} CXX={cxx}", _program_of(makefile, folder), makefile.name)
    sources = sorted(path.name for path in folder.iterdir() if path.suffix in _SOURCES)
    if not sources:
        raise SpecError(
            f"{folder} contains no Makefile, CMakeLists.txt, meson.build, configure script, or C or C++ source; for a "
            "program that is already built, give its command: unperturbed init -- ./program"
        )
    compiler = "{cxx}" if any(name.endswith(_CXX) for name in sources) else "{cc}"
    name = Path(sources[0]).stem if len(sources) == 1 else campaign_name(folder.resolve().name)
    return _Build(f"{compiler} -O2 -g -o {name} {' '.join(sources)}", name, "the source files")


def _first(pattern: str, file: Path) -> str:
    match = re.search(pattern, file.read_text(errors="replace"))
    return match[1] if match else "program"


def _program_of(makefile: Path, folder: Path) -> str:
    """Return the program that a Makefile most probably builds first."""
    targets: Mapping[str, str] = dict(_TARGET.findall(makefile.read_text(errors="replace")))
    wanted = [*targets.get("all", "").split(), *targets]
    for name in wanted:
        if name in targets and name not in _NO_PROGRAMS and not name.startswith(".") and "." not in Path(name).name:
            return name
    return campaign_name(folder.resolve().name)


def _functions(folder: Path) -> Iterator[str]:
    """Yield the names of functions that the largest source files define, without duplicates."""
    sources = [path for path in sorted(folder.rglob("*"))[: 50 * _MOST_FILES] if path.suffix in _SOURCES]
    largest = sorted((path for path in sources if path.is_file()), key=lambda path: -path.stat().st_size)
    functions: dict[str, None] = {}
    for path in largest[:_MOST_FILES]:
        with path.open(errors="replace") as file:
            names = _DEFINITION.findall(file.read(_MOST_BYTES))
        functions |= {name: None for name in names if name not in _KEYWORDS and not name.isupper()}
        if len(functions) >= _MOST_FUNCTIONS:
            break
    yield from list(functions)[:_MOST_FUNCTIONS]


_EXAMPLES_FOLDER = Path(__file__).parent / "examples"


@dataclass(frozen=True)
class Example:
    """Example spec with its program."""

    help: str  # What the example shows, as a clause
    program: str  # The folder of its program


EXAMPLES: Mapping[str, Example] = {
    "verdicts": Example("subsets of software metrics in a C program: which of them perturb it?", "phases"),
    "sweep": Example("the same program with varied parameters: a table of runs for `unperturbed model`", "phases"),
    "python": Example("functions of a Python program, counted without changing the program", "book"),
}


def write_example(name: str, folder: Path) -> Path:
    """Write an example's spec, and its program beside it."""
    example = EXAMPLES.get(name)
    if example is None:
        there = f"use {listing(EXAMPLES, 'or')}"
        raise SpecError(f"no example {name!r}; {did_you_mean(name, EXAMPLES, limit=1) or there}")
    spec, program = folder / f"{name}.yaml", folder / example.program
    if spec.exists():
        raise SpecError(f"{spec} already exists: remove it, or give a different folder with --out")
    if not program.exists():  # two examples may share a program
        shutil.copytree(_EXAMPLES_FOLDER / example.program, program, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(_EXAMPLES_FOLDER / spec.name, spec)
    return spec
