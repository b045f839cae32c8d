"""The runtime preloaded into programs that were not built here, and linked into others in every way."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.runtime.inside.programs import (
    CREW,
    THRD_CREATE,
    THREAD_FAULTS,
    Build,
    assemble_plain,
    counting,
    faults_by_thread,
    plain,
    run,
)
from tests.collectors.runtime.programs import BUSY, COUNTED
from tests.instrument.wrapper_server import serve_wrapper
from unperturbed.collectors.records.file import Mark, Records, Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import BOUNDS, build_preload, runtime_files
from unperturbed.collectors.sources import Pass
from unperturbed.common.user_cache import user_cache
from unperturbed.errors import RunError
from unperturbed.instrument.compiler.toolchain import write_toolchain
from unperturbed.instrument.events import parse_event


def preloaded(tmp_path: Path, setup: Setup, command: list[str]) -> tuple[Records, subprocess.CompletedProcess[bytes]]:
    create_record_file(tmp_path / "record", setup)
    environment = {
        "PATH": os.environ["PATH"],
        "UNPERTURBED_RECORD": str(tmp_path / "record"),
        "LD_PRELOAD": str(build_preload("gcc")),
    }
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    return read_record_file(tmp_path / "record", setup), done


def test_threads_of_a_program_that_was_not_built_here(tmp_path: Path) -> None:
    hashing = (
        "import hashlib, threading\nts = [threading.Thread(target=lambda: hashlib.sha256(bytes(30_000_000))) "
        "for _ in range(3)]\n"
    )
    command = [
        os.path.realpath(sys.executable),
        "-I",
        "-S",
        "-c",
        hashing + "for t in ts: t.start()\nfor t in ts: t.join()\nprint('good')",
    ]
    records, done = preloaded(tmp_path, counting(threads=True), command)
    assert done.stdout == b"good\n"
    assert (records.state, records.threads) == ("finished", 4)
    found = faults_by_thread(records)
    assert min(found[thread] for thread in (1, 2, 3)) > 1000, "each touches the pages of its bytes"


@pytest.mark.skipif(not shutil.which("xz"), reason="there is no xz here")
def test_a_compressor_whose_threads_block_every_signal(tmp_path: Path) -> None:
    data = random.Random(3).randbytes(1 << 20)
    (tmp_path / "data").write_bytes(data)
    command = ["xz", "-T2", "-1", "--block-size=256KiB", "--stdout", str(tmp_path / "data")]
    records, done = preloaded(tmp_path, counting(threads=True, program="xz"), command)
    assert subprocess.run(["xz", "-dc"], input=done.stdout, capture_output=True, check=True).stdout == data
    assert (records.state, records.threads) == ("finished", 3)
    assert all(np.count_nonzero(records.rows["thread"] == thread) > 5 for thread in range(3))


CALLS = {name: parse_event({"enter": name}) for name in ("step", "helper", "inner")}
STEPS = """
#include <stdio.h>
#ifdef LIBRARY
int outer(int);
#else
#define outer(i) (i)
#endif
int helper(int);
static volatile unsigned long work;
int before = 41, many[3000] = {7};
__attribute__((noinline)) static void step(int i) { for (int k = 0; k < 200000; k++) work += k; many[i % 3000]++; }
int main(void) { int sum = 0; for (int i = 0; i < 90; i++) { step(i); sum += helper(i) + outer(0); }
    printf("%d %d", sum, before); return 0; }
"""
HELPER = "int helper(int i) { static int kept[3000]; kept[i % 3000] += i; return kept[i % 3000]; }\n"
OUTER = "static int inner(int i) { return i; }\nint outer(int i) { return inner(i); }\n"


def write_compilers(workshop: Path, compilers: dict[str, str]) -> None:
    objects = user_cache() / "objects"
    runtime = {"runtime": runtime_files(), "bounds": BOUNDS, "objects": objects}
    serve_wrapper(write_toolchain(workshop / "toolchain", CALLS, compilers=compilers, **runtime))


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workshop")
    write_compilers(folder, {})
    for name, text in {"steps.c": STEPS, "helper.c": HELPER, "outer.c": OUTER}.items():
        (folder / name).write_text(text)
    return folder


def made(workshop: Path, *commands: str) -> Path:
    for command in commands:
        subprocess.run(
            [str(workshop / "toolchain/cc"), *command.split()], cwd=workshop, check=True, capture_output=True
        )
    return workshop / "program"


LINKERS = [linker for linker in ("bfd", "gold", "lld") if shutil.which(f"ld.{linker}")]


WAYS = ("-O2", "-O2 -flto", "-O2 -static", "-O2 -no-pie", "-O3 -flto -flto-partition=max", "-O2 -flto -static")
FEW_WAYS = WAYS[:3]
"""What every linker does in `make test`: the first does all, and in `make validate` each."""


@pytest.mark.parametrize(
    ("linker", "flags"),
    [
        pytest.param(linker, flags, marks=[] if linker == LINKERS[0] or flags in FEW_WAYS else [pytest.mark.long])
        for linker in LINKERS
        for flags in WAYS
    ],
)
def test_counts_are_right_however_the_program_is_linked(workshop: Path, linker: str, flags: str) -> None:
    """Outside too, which shows that the linker left the counters between their bounds.

    What it moved away would be told, not lost.
    """
    compilers = {}
    if linker == "lld" and "-flto" in flags:  # lld cannot read what gcc leaves for the link, but clang's
        if shutil.which("clang") is None:
            pytest.skip("no clang")
        compilers = {"cc": "clang", "cxx": "clang++"}
        flags = flags.replace("-flto -flto-partition=max", "-flto=thin")
    write_compilers(workshop, compilers)
    program = made(workshop, f"{flags} -fuse-ld={linker} steps.c helper.c -o program")
    for sampler in ("inside", "outside"):
        records, done = run(program, plain(500_000, software=3, sampler=sampler, threads=sampler == "inside"))
        assert (done.returncode, done.stdout) == (0, f"{sum(range(90))} 41")
        assert records.state == "finished"
        assert Mark.UNSHARED not in records.marks
        assert list(records.rows["software"][-1]) == [90, 90, 0]
        assert len(np.unique(records.rows["software"][:, 0])) > 5, "seen while it ran"


def test_counters_outside_their_bounds_are_told_not_lost(build: Build) -> None:
    """What a linker that moves them would leave."""
    text = (
        COUNTED.replace('section("unperturbed_sites"), ', "")
        + BUSY
        + "int main(void) { COUNT(0); busy(20000000); return 0; }"
    )
    records, _ = run(build(text), plain(software=2, sampler="outside"))
    assert Mark.UNSHARED in records.marks
    with pytest.raises(RunError, match="could not be shared with the observer"):
        assemble_plain(records, Pass("main", "none", ()), software=("a", "b"))
    records, _ = run(build(text), plain(software=2))
    assert list(records.rows["software"][-1]) == [1, 0], "inside they are read where they lie"


@pytest.mark.parametrize("linker", LINKERS)
def test_a_program_and_its_library_observed_outside(workshop: Path, linker: str) -> None:
    flags = f"-O2 -fuse-ld={linker}"
    library = f"{flags} -fPIC -shared outer.c -o libouter.so"
    program = made(
        workshop, library, f"{flags} -DLIBRARY steps.c helper.c -L. -louter -Wl,-rpath,{workshop} -o program"
    )
    records, done = run(program, plain(500_000, software=3, sampler="outside"))
    assert (done.returncode, records.state, records.tables) == (0, "finished", 3)
    assert list(records.rows["software"][-1]) == [90, 90, 90]
    assert Mark.UNSHARED not in records.marks
    assert len(np.unique(records.rows["software"][:, 2])) > 5


def test_threads_of_a_static_program(workshop: Path) -> None:
    (workshop / "crew.c").write_text(
        CREW
        + THRD_CREATE.replace(
            "int main(void) {", "int main(void) { pthread_t p; pthread_create(&p, 0, crew, (void *)800L);"
        ).replace("return 0; }", "pthread_join(p, 0); return 0; }")
    )
    program = made(workshop, "-O1 -static crew.c -o program")
    records, done = run(program, counting(threads=True))
    assert (done.returncode, records.state, records.threads) == (0, "finished", 5)
    assert all(faults_by_thread(records)[thread] in range(800, 800 + THREAD_FAULTS) for thread in (1, 2, 3, 4))
    records, done = run(program, counting(sampler="outside"))
    assert (done.returncode, records.state) == (0, "finished")
    assert int(records.rows["hardware"][-1][0]) >= 3200
