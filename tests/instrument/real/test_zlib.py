"""Debian's zlib, by its own configure and make, static and shared.

Counts equal gcov's, all that is written stays the same.
"""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

from tests.instrument.real.choice import Choice
from tests.instrument.real.programs import Program, Run, check_debug_lines, shell

RECORDS = ("z_stream_s", "internal_state", "inflate_state")


def build(folder: Path, cc: str, _cxx: str, flags: str) -> None:
    targets = "minigzip example minigzipsh examplesh"
    shell(folder, f'CC="{cc}" CFLAGS="{flags}" ./configure', f"make -j2 {targets}")


def words(count: int) -> bytes:
    some = random.Random(1)
    table = ["".join(some.choices("etaoinshrdlu", k=some.randint(2, 9))) for _ in range(400)]
    return " ".join(some.choices(table, k=count)).encode()


TEXT = words(12_000)
# The same objects are in the static library and, compiled apart, in the shared one; both have their part of the counts.
ZLIB = Program(
    "zlib",
    build,
    [
        Run(["minigzip"], TEXT),
        Run(["minigzipsh", "-9"], TEXT),
        Run(["minigzipsh", "-d"], zlib.compress(TEXT, 1, 31)),
        Run(["example", "one.gz"]),
        Run(["examplesh", "two.gz"]),
    ],
    made=("one.gz", "two.gz"),
)


@pytest.mark.long
def test_counts_equal_gcovs_in_library_and_program(tmp_path):
    covered = ZLIB.covered(tmp_path / "covered")
    sources = [
        path for path in covered.sources("*.[ch]", "test/minigzip.c", "test/example.c") if path.name != "zconf.h"
    ]
    choice = Choice(covered.coverage, sources)
    choice.everything(*RECORDS)
    # Its dictionary is the word hello with the zero behind it.
    choice.add("gauge dictId", {"gauge": "example.c::dictId"}, 2 * zlib.adler32(b"hello\0"))
    choice.add("written", {"enter": "gzwrite", "add": "len", "file": "gzwrite.c"}, 2 * len(TEXT))

    counted = ZLIB.counted(tmp_path / "counted", choice.software)
    assert counted.outputs == covered.outputs
    assert counted.report.skipped == {}
    assert not counted.missing
    assert choice.differences(counted.counts) == []
    kinds = choice.kinds()
    assert {kind for kind, times in kinds.items() if times > 10} >= {
        "line",
        "enter",
        "return",
        "call",
        "loop",
        "add",
        "write",
        "glob",
    }
    assert kinds.total() > 1500
    check_debug_lines(counted.folder, ["gcc", "-D_LARGEFILE64_SOURCE=1"], "deflate.c")
