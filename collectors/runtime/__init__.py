"""C runtime, which runs inside the measured program or beside it: its files, structures and builds.

Each source of counts provides its own C file; `runtime_files` adds a generated file that lists all installed sources.
`load_counters` loads the sources as a library into this process.
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
"""Folder of the headers that define the runtime's structures."""

_COMMON = _files("common/record.c", "common/os.c", "common/probes.c", "common/overflow.c", "common/sources.c")
_PROGRAM = _files(
    "program/software.c", "program/sampler.c", "program/intervals.c", "program/threads.c", "program/each.c"
)
_JUMPS = _files("program/jumps.c")
BOUNDS = _files("program/module_first.c", "program/module_last.c")
"""Files linked first and last into each program and library with counters, so the counters have separate pages."""

_OBSERVER = _files("observer/main.c", "observer/shared.c", "observer/recording.c")
_ATTACH = _files("observer/attach.c", "observer/recording.c")
_HEADERS = tuple(sorted(_FOLDER.glob("*/*.h")))
_FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC")
_FIELD = re.compile(r"(?:struct unperturbed_)?(\w+) (\w+)(?:\[(\w*)\])?;")


def structure_fields(name: str) -> list[tuple[str, str, int]]:
    """Return name, C type and length (0 if not an array) of each field of a structure of `unperturbed.h`."""
    text = re.sub(r"/\*.*?\*/", "", (INCLUDE / "unperturbed.h").read_text(), flags=re.DOTALL)
    numbers = dict(re.findall(r"#define (\w+) (\d+)\n", text))
    body = text.partition(f"struct unperturbed_{name} {{")[2].partition("};")[0]
    return [(field, kind, int(numbers.get(length, length or 0))) for kind, field, length in _FIELD.findall(body)]


def runtime_files(*, regions: bool = False) -> tuple[Path, ...]:
    """Return the runtime's C files, which the compiler wrapper compiles and links with the measured program.

    `regions`: With the file that notices jumps out of functions within which metrics count.
    """
    return (*_COMMON, *_PROGRAM, *(_JUMPS if regions else ()), *_source_files())


def _source_files() -> tuple[Path, ...]:
    """Return the C files of all sources, and the generated file that finds a source by its number.

    The C file of another package's source is wrapped: the wrapper includes `sources.h`, whose path varies, before it.
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
    """Keep a generated C file in the user's cache, under a name with a digest of its content."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    file = user_cache() / f"{name}_{digest}.c"
    if not is_own_file(file):
        write_whole(file, text)
    return file


def build_preload(compiler: str) -> Path:
    """Compile the runtime as a library to preload into programs that were not built here; return its path."""
    return _build(compiler, "preload.so", (*_FLAGS, "-shared"), runtime_files())


def build_observer(compiler: str, *, attached: bool = False) -> Path:
    """Compile the observer (the outside sampler), or the one of processes that run already, and return its path."""
    if attached:
        return _build(compiler, "attach", (*_FLAGS, "-rdynamic"), (*_ATTACH, *_COMMON, *_source_files()))
    return _build(compiler, "observer", (*_FLAGS, "-rdynamic"), (*_OBSERVER, *_COMMON, *_source_files()))


def build_counters(compiler: str) -> Path:
    """Compile only the sources as a shared library, for a self-counting process, and return its path."""
    own = _files("common/probes.c", "common/sources.c")
    return _build(compiler, "counters.so", (*_FLAGS, "-shared"), (*own, *_source_files()))


def build_empty_program(compiler: str) -> Path:
    """Compile an empty program with the runtime, for trials of what this host can count; return its path."""
    return _build(compiler, "empty", _FLAGS, (*runtime_files(), *_files("tools/empty.c")))


def build_interposer(compiler: str, text: str) -> Path:
    """Compile an interposer (it counts calls to other libraries' functions) from C text, and return its path."""
    return _build(compiler, "interposer.so", (*_FLAGS, "-shared", "-Wl,-z,initfirst"), BOUNDS, text)


def build_python_counter(compiler: str) -> Path:
    """Compile the module that counts in Python programs, for any version of Python; return its path."""
    first, last = BOUNDS
    return _build(compiler, "python.so", (*_FLAGS, "-shared"), (first, *_files("program/python.c"), last))


def build_mpi(compiler: str) -> Path:
    """Compile the library that counts the waiting of MPI's ranks, to preload, and return its path."""
    return _build(compiler, "mpi.so", (*_FLAGS, "-shared"), _files("program/mpi.c"))


def build_library(compiler: str, name: str, flags: tuple[str, ...], sources: tuple[Path, ...], text: str) -> Path:
    """Compile a library that a program loads, from C files and a text, and return its path."""
    return _build(compiler, name, (*_FLAGS, "-shared", *flags), sources, text)


def build_trials(compiler: str) -> Path:
    """Compile the program that tries single events and lists PAPI's events; return its path."""
    return _build(compiler, "trials", (*_FLAGS, "-rdynamic"), _files("tools/trials.c", "tools/papi.c"))


def build_hit_cost(compiler: str) -> Path:
    """Compile the program that measures the cost of a kernel probe's hit; return its path."""
    return _build(compiler, "hit-cost", _FLAGS, _files("tools/hit_cost.c", "common/probes.c"))


def _build(compiler: str, name: str, flags: tuple[str, ...], sources: tuple[Path, ...], text: str = "") -> Path:
    """Compile and link, unless the cache has the result for these sources and flags; `text` is an additional source."""
    content = hashlib.sha256(repr((compiler, flags, text)).encode())
    for source in (*sources, *_HEADERS):
        content.update(source.read_bytes())
    target = user_cache() / f"{content.hexdigest()[:16]}-{name}"
    if is_own_file(target):
        return target
    files = list(map(str, sources))
    if text:
        files[-1:-1] = ["-x", "c", "-", "-x", "none"]
    # A killed compiler leaves temporary files: the tool's next process removes the folder.
    with scratch_folder("runtime", target.parent) as place:
        aside = place / target.name
        command = [*shlex.split(compiler), *flags, *files, "-o", str(aside), "-ldl", "-lrt"]
        environment = {**os.environ, "TMPDIR": str(place)}
        try:
            result = supervision.run(command, input=text or None, env=environment, capture_output=True, text=True)
        except FileNotFoundError:
            advice = "on Debian: apt-get install gcc libc6-dev"
            raise HostError(f"there is no C compiler {compiler!r} on this host ({advice})") from None
        if result.returncode != 0:
            raise HostError(f"{compiler} cannot compile this tool's C runtime:\n{result.stderr.strip()[-2000:]}")
        aside.replace(target)
    return target


@cache
def load_counters(compiler: str = "cc") -> ctypes.PyDLL:
    """Load the C runtime's sources, after compiling them with `compiler` if necessary."""
    # PyDLL keeps the GIL: no other Python thread may run between a reading and the measured code.
    return ctypes.PyDLL(str(build_counters(compiler)))
