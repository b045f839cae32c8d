"""The C runtime, which runs inside the measured program or beside it: its files, its structures, and its own builds.

A source of counts brings C text of its own; `runtime_files` adds one file over all sources that are installed.
`load_counters` loads the sources as a library of this process.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shlex
from functools import cache
from pathlib import Path

from unperturbed.collectors.sources import find_sources
from unperturbed.common import supervision
from unperturbed.common.scratch import scratch_folder, write_whole
from unperturbed.common.user_cache import is_own_file, user_cache
from unperturbed.errors import HostError

_FOLDER = Path(__file__).parent


def _files(*names: str) -> tuple[Path, ...]:
    return tuple(_FOLDER / name for name in names)


INCLUDE = _FOLDER / "common"
"""Where the headers of the contract are."""

_COMMON = _files("common/record.c", "common/os.c", "common/probes.c", "common/overflow.c", "common/sources.c")
_PROGRAM = _files("program/software.c", "program/sampler.c", "program/threads.c")
BOUNDS = _files("program/module_first.c", "program/module_last.c")
"""Linked first and last into each program and library with counters, so that these fill pages of their own."""

_OBSERVER = _files("observer/main.c", "observer/shared.c")
_HEADERS = tuple(sorted(_FOLDER.glob("*/*.h")))
_FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC")
_FIELD = re.compile(r"(?:struct unperturbed_)?(\w+) (\w+)(?:\[(\w*)\])?;")


def structure_fields(name: str) -> list[tuple[str, str, int]]:
    """Return name, C type (or structure) and length of each field of a structure of the contract; 0 for no array."""
    text = re.sub(r"/\*.*?\*/", "", (INCLUDE / "unperturbed.h").read_text(), flags=re.DOTALL)
    numbers = dict(re.findall(r"#define (\w+) (\d+)\n", text))
    body = text.partition(f"struct unperturbed_{name} {{")[2].partition("};")[0]
    return [(field, kind, int(numbers.get(length, length or 0))) for kind, field, length in _FIELD.findall(body)]


def runtime_files() -> tuple[Path, ...]:
    """Return the runtime's C files, which the compiler wrapper compiles and links with the measured program."""
    return (*_COMMON, *_PROGRAM, *_source_files())


def _source_files() -> tuple[Path, ...]:
    """Return the C text of all sources, and the file that finds one by its number.

    A source of another distribution is wrapped, so that its text finds the contract without knowing where it lies.
    """
    files, sampled = [], []
    for source in find_sources().values():
        if (file := source.c_file) is None:
            continue
        sampled.append(source)
        if not file.is_relative_to(_FOLDER.parent):
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            includes = f'#include "{INCLUDE}/sources.h"\n#include "{file.resolve()}"\n'
            name = "source_" + re.sub("[^A-Za-z0-9]", "_", source.name)
            file = _generated(name, f"/* {source.name}, {digest} */\n{includes}")
        files.append(file)
    declared = ", ".join(source.c_name for source in sampled)
    cases = "".join(f"    case {source.number}u:\n        return &{source.c_name};\n" for source in sampled)
    counted_elsewhere = [source.number for source in find_sources().values() if source.c_file is None]
    nothing = "".join(f"    case {number}u:\n" for number in (0, *counted_elsewhere))
    finder = f"""/* Written by unperturbed.collectors.runtime: the sources that are installed. */
#include "{INCLUDE}/sources.h"

extern const struct unperturbed_source {declared};

const struct unperturbed_source *unperturbed_find_source(uint32_t number)
{{
    switch (number) {{
{nothing}        return &unperturbed_nothing;
{cases}    default:
        return 0;
    }}
}}
"""
    return (*files, _generated("installed_sources", finder))


def _generated(name: str, text: str) -> Path:
    """Keep a generated C file in the user's cache; its name has its content, so that it never changes."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    file = user_cache() / f"{name}_{digest}.c"
    if not is_own_file(file):
        write_whole(file, text)
    return file


def build_preload(compiler: str) -> Path:
    """Compile the runtime as a library for LD_PRELOAD into a program that was not built here; return its path."""
    return _build(compiler, "preload.so", (*_FLAGS, "-shared"), runtime_files())


def build_observer(compiler: str) -> Path:
    """Compile the outside sampler, and return its path."""
    return _build(compiler, "observer", (*_FLAGS, "-rdynamic"), (*_OBSERVER, *_COMMON, *_source_files()))


def build_counters(compiler: str) -> Path:
    """Compile the sources alone as a shared library, for a process that counts itself, and return its path."""
    own = _files("common/probes.c", "common/sources.c")
    return _build(compiler, "counters.so", (*_FLAGS, "-shared"), (*own, *_source_files()))


def build_empty_program(compiler: str) -> Path:
    """Compile a program that only carries the runtime, to find out what this host can count; return its path."""
    return _build(compiler, "empty", _FLAGS, (*runtime_files(), *_files("tools/empty.c")))


def build_interposer(compiler: str, text: str) -> Path:
    """Compile a library that counts calls of other libraries' functions, from its C text, and return its path."""
    return _build(compiler, "interposer.so", (*_FLAGS, "-shared", "-Wl,-z,initfirst"), BOUNDS, text)


def build_python_counter(compiler: str) -> Path:
    """Compile the module that counts for Python programs, whatever their version, and return its path."""
    first, last = BOUNDS
    return _build(compiler, "python.so", (*_FLAGS, "-shared"), (first, *_files("program/python.c"), last))


def build_trials(compiler: str) -> Path:
    """Compile the program that tries single events and lists what PAPI knows; return its path."""
    return _build(compiler, "trials", (*_FLAGS, "-rdynamic"), _files("tools/trials.c", "tools/papi.c"))


def build_hit_cost(compiler: str) -> Path:
    """Compile the program that measures what a hit of a kernel's probe costs; return its path."""
    return _build(compiler, "hit-cost", _FLAGS, _files("tools/hit_cost.c", "common/probes.c"))


def _build(compiler: str, name: str, flags: tuple[str, ...], sources: tuple[Path, ...], text: str = "") -> Path:
    """Compile and link, cached by all content that matters; `text` is one more source, before the last."""
    content = hashlib.sha256(repr((compiler, flags, text)).encode())
    for source in (*sources, *_HEADERS):
        content.update(source.read_bytes())
    target = user_cache() / f"{content.hexdigest()[:16]}-{name}"
    if is_own_file(target):
        return target
    files = list(map(str, sources))
    if text:
        files[-1:-1] = ["-x", "c", "-", "-x", "none"]
    # A compiler that is killed leaves temporary files: the next process of this tool removes the folder.
    with scratch_folder("runtime", target.parent) as place:
        aside = place / target.name
        command = [*shlex.split(compiler), *flags, *files, "-o", str(aside), "-ldl", "-lrt"]
        environment = {**os.environ, "TMPDIR": str(place)}
        try:
            result = supervision.run(command, input=text or None, env=environment, capture_output=True, text=True)
        except FileNotFoundError:
            advice = "on Debian: apt-get install gcc libc6-dev"
            raise HostError(f"no C compiler {compiler!r} on this host ({advice})") from None
        if result.returncode != 0:
            raise HostError(f"{compiler} cannot compile the runtime:\n{result.stderr.strip()[-2000:]}")
        aside.replace(target)
    return target


@cache
def load_counters(compiler: str = "cc") -> ctypes.PyDLL:
    """Load the sources of the C runtime; compiled by `compiler` if that was not done before."""
    # PyDLL: no other Python thread may run between the reading and what is to be counted.
    return ctypes.PyDLL(str(build_counters(compiler)))
