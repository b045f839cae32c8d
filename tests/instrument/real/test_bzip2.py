"""Debian's bzip2, by its own Makefile, with gcc and clang.

Counts equal gcov's and the file's own bits, the output stays byte for byte.
"""

from __future__ import annotations

import bz2
import hashlib
import random
from pathlib import Path

import pytest

from tests.instrument.real.choice import Choice
from tests.instrument.real.programs import CLANG, Program, Run, check_debug_lines, shell

RECORDS = ("EState", "DState", "bz_stream", "bzFile")


def build(folder: Path, cc: str, _cxx: str, flags: str) -> None:
    # Debian links its bzip2 with the shared library; the two are built by one make.
    shell(folder, f'make -j2 CC="{cc}" CFLAGS="{flags} -D_FILE_OFFSET_BITS=64" LDFLAGS="{flags}" bzip2')


WORDS = [hashlib.sha256(bytes([n])).hexdigest()[: 3 + n % 7] for n in range(200)]
TEXT = " ".join(random.Random(1).choices(WORDS, k=15_000)).encode() + b"x" * 20_000
PACKED = bz2.compress(TEXT, 9)
BZIP2 = Program(
    "bzip2",
    build,
    [
        Run(["bzip2", "-9"], TEXT),
        Run(["bzip2", "-d"], PACKED),
        Run(["bzip2", "-ds"], PACKED),
        Run(["bzip2", "-k", "-f", "one", "two"]),
        Run(["bzip2", "-t"], PACKED[:-9], code=2),
    ],
    files={"one": TEXT[:30_000], "two": TEXT[:100]},
    made=("one.bz2", "two.bz2"),
)


@pytest.fixture(scope="module")
def covered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bzip2")
    found = BZIP2.covered(folder / "covered")
    assert found.outputs == BZIP2.plain(folder / "plain")
    return found


@pytest.mark.parametrize(
    "clang",
    [pytest.param(False, id="gcc"), pytest.param(*CLANG.values, id=CLANG.id, marks=[*CLANG.marks, pytest.mark.long])],
)
def test_counts_equal_gcovs_and_the_files_bits(tmp_path, covered, clang):
    choice = Choice(covered.coverage, covered.sources("*.[ch]"))
    choice.everything(*RECORDS)
    choice.add("gauge files", {"gauge": "numFilesProcessed"}, 2)
    choice.add("gauge block", {"gauge": "bzip2.c::blockSize100k"}, 9 + 9)
    choice.software |= {"packed bits": {"enter": "bsW", "add": "n"}, "updates": {"write": "EState.nblock"}}

    counted = BZIP2.counted(tmp_path / "counted", choice.software, clang=clang, flags="-O2")
    assert counted.outputs == covered.outputs
    assert counted.report.skipped == {}
    assert not counted.missing
    assert choice.differences(counted.counts) == []
    kinds = choice.kinds()
    assert kinds.keys() >= {"line", "enter", "return", "call", "loop", "loops", "label", "add", "write", "glob", "all"}
    assert kinds.total() > 1000
    check_debug_lines(counted.folder, ["clang" if clang else "gcc"], "bzip2.c")
    # Everything that is packed goes through bsW, in bits; a file is whole bytes of them.
    packed = [covered.outputs[0].removesuffix(b"\0"), *covered.outputs[-2:]]
    assert 0 <= 8 * sum(map(len, packed)) - counted.counts["packed bits"] < 8 * len(packed)
    # The updates on the way of each byte are in a macro; a run of up to 255 equal bytes is at most five.
    assert 0.5 * len(TEXT) < counted.counts["updates"] < 1.3 * (len(TEXT) + 30_100)
