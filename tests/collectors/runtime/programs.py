"""Small C programs with the runtime inside, compiled for the tests."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from unperturbed.collectors.records.file import Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import BOUNDS, INCLUDE, build_observer, runtime_files

_COMPILE = ("gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-DUNPERTURBED_EXECUTABLE", f"-I{INCLUDE}")

BUSY = """
static volatile unsigned long work;
static void busy(unsigned long n) { for (unsigned long i = 0; i < n; i++) work += i; }
"""

COUNTED = """
#include "unperturbed.h"
static uint64_t counts[2] __attribute__((section("unperturbed_sites"), used, aligned(64)));
static const uint32_t metric[2] = {0, 1};
static struct unperturbed_table table = {0, counts, metric, 2, 1};
static void __attribute__((constructor)) enrol(void) { unperturbed_register(&table); }
#define COUNT(i) ((void)(*(volatile uint64_t *)&counts[i] += 1)) /* a plain increment is sunk out of its loop */
"""
"""A translation unit's software counters, as the instrumenting compiler puts them there."""


def compile_program(folder: Path, text: str, *flags: str) -> Path:
    """Compile a program with the runtime linked in, which is compiled once for each set of flags."""
    (folder / "program.c").write_text(text)
    target = folder / "program"
    compiling = tuple(flag for flag in flags if flag.startswith("-") and not flag.startswith(("-Wl,", "-l", "-D")))
    first, *others = _runtime_objects(compiling)
    words = [first, str(folder / "program.c"), *others, *flags, "-o", str(target), "-ldl", "-lrt"]
    subprocess.run([*_COMPILE, *words], check=True)
    return target


@cache
def _runtime_objects(flags: tuple[str, ...]) -> list[str]:
    folder = Path(_objects().name) / str(_runtime_objects.cache_info().misses)
    folder.mkdir()
    first, last = BOUNDS
    sources = [first, *runtime_files(), last]
    subprocess.run([*_COMPILE, *flags, "-c", *map(str, sources)], cwd=folder, check=True)
    return [str(folder / f"{source.stem}.o") for source in sources]


@cache
def _objects() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that lives as long as the tests of this process."""
    return tempfile.TemporaryDirectory()


def sample(
    folder: Path, command: list[str], setup: Setup, environment: Mapping[str, str] | None = None, **kwargs: object
) -> tuple[Records, subprocess.CompletedProcess[str]]:
    """Run a command with a record file; return what it left."""
    record = folder / "record"
    create_record_file(record, setup)
    observer = [str(build_observer("gcc")), str(record)] if setup.sampler == "outside" else []
    done = subprocess.run(
        [*observer, *command],
        env={"PATH": os.environ["PATH"], "UNPERTURBED_RECORD": str(record), **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        **kwargs,  # type: ignore[call-overload]
    )
    return read_record_file(record, setup), done
