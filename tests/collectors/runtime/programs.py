"""Small C programs with the runtime inside, compiled for the tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from unperturbed.collectors.records import Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import BOUNDS, INCLUDE, build_observer, runtime_files

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
    """Compile a program with the runtime linked in."""
    (folder / "program.c").write_text(text)
    target = folder / "program"
    first, last = BOUNDS
    sources = [first, folder / "program.c", *runtime_files(), last]
    command = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-DUNPERTURBED_EXECUTABLE", f"-I{INCLUDE}"]
    subprocess.run([*command, *map(str, sources), *flags, "-o", str(target), "-ldl", "-lrt"], check=True)
    return target


def sample(
    folder: Path, command: list[str], setup: Setup, **kwargs: object
) -> tuple[Records, subprocess.CompletedProcess[str]]:
    """Run a command with a record file; return what it left."""
    record = folder / "record"
    create_record_file(record, setup)
    observer = [str(build_observer("gcc")), str(record)] if setup.sampler == "outside" else []
    done = subprocess.run(
        [*observer, *command],
        env={"PATH": os.environ["PATH"], "UNPERTURBED_RECORD": str(record)},
        capture_output=True,
        text=True,
        check=False,
        **kwargs,  # type: ignore[call-overload]
    )
    return read_record_file(record, setup), done
