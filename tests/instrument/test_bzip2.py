"""Debian's bzip2, unmodified, with its own Makefile: counts equal gcov's, the output is byte for byte the plain program's.

The source is fetched once, as a campaign would fetch it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
from pathlib import Path

from unperturbed.collectors.runtime_build import user_cache
from unperturbed.harness.sources import debian_source

SOFTWARE = {
    "mainGtU": {"enter": "mainGtU"},
    "mainSimpleSort": {"enter": "mainSimpleSort"},
    "bsW": {"enter": "bsW"},
    "compares": {"call": "mainGtU", "in": "mainSimpleSort"},
    "bits": {"enter": "bsW", "add": "n"},
    "nblock": {"write": "EState.nblock"},
    "steps": {"loop": "mainGtU#1"},
    "entries": {"enter": "*", "file": "compress.c"},
    "hot": {"line": "compress.c:170"},
    "blocks": {"return": "BZ2_compressBlock"},
    "stops": {"label": "BZ2_decompress::save_state_and_return"},
}
SOURCES = ("blocksort", "compress", "bzlib", "decompress")


def bzip2_source() -> Path:
    return debian_source("bzip2", user_cache())


def build(source: Path, folder: Path, compiler: str, level: str = "-O2") -> Path:
    shutil.copytree(source, folder)
    for stale in [*folder.glob("*.o"), *folder.glob("*.sho"), *folder.glob("*.a")]:
        stale.unlink()
    flags = f"CFLAGS={level} -D_FILE_OFFSET_BITS=64"
    objects = [
        f"{name}.o" for name in ("blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib", "bzip2")
    ]
    subprocess.run(["make", "-s", "-j2", f"CC={compiler}", flags, *objects], cwd=folder, check=True, capture_output=True)
    subprocess.run([*compiler.split(), level, *objects, "-o", "program"], cwd=folder, check=True)
    return folder


def run(folder: Path, data: bytes, *arguments: str, **environment: str) -> bytes:
    return subprocess.run(
        [str(folder / "program"), *arguments],
        input=data,
        capture_output=True,
        check=True,
        cwd=folder,
        env={**os.environ, **environment},
    ).stdout


def gcov(folder: Path) -> tuple[dict[str, int], dict[tuple[str, int], int]]:
    """Return gcov's counts by function and by (file, line)."""
    functions: dict[str, int] = {}
    lines: dict[tuple[str, int], int] = {}
    for name in SOURCES:
        answer = subprocess.run(["gcov", "-j", "-t", f"{name}.gcda"], cwd=folder, capture_output=True, check=True).stdout
        for file in json.loads(answer)["files"]:
            functions |= {function["name"]: function["execution_count"] for function in file["functions"]}
            lines |= {(file["file"], line["line_number"]): line["count"] for line in file["lines"]}
    return functions, lines


def test_counts_equal_gcovs_and_output_is_unchanged(workshop, tmp_path):
    source = bzip2_source()
    shop = workshop(SOFTWARE)
    counted = build(source, tmp_path / "counted", str(shop.toolchain.cc))
    covered = build(source, tmp_path / "covered", "gcc --coverage", "-O0")  # gcov counts no function that was inlined early
    words = [hashlib.sha256(bytes([n])).hexdigest()[: 3 + n % 7] for n in range(200)]
    text = " ".join(random.Random(1).choices(words, k=40_000)).encode()

    packed = run(covered, text, "-9")
    counts_file = tmp_path / "counts"
    assert run(counted, text, "-9", COUNTS_FILE=str(counts_file)) == packed
    counts = dict(zip(SOFTWARE, map(int, counts_file.read_text().split()), strict=False))
    functions, lines = gcov(covered)

    assert counts["mainGtU"] == counts["compares"] == functions["mainGtU"] > 100_000
    assert counts["mainSimpleSort"] == functions["mainSimpleSort"] > 0
    assert counts["bsW"] == functions["bsW"] > 0
    in_compress = {"BZ2_bsInitWrite", "bsFinishWrite", "bsW", "bsPutUInt32", "bsPutUChar", "makeMaps_e"}
    in_compress |= {"generateMTFValues", "sendMTFValues", "BZ2_compressBlock"}
    assert counts["entries"] == sum(functions.get(name, 0) for name in in_compress)
    assert counts["hot"] == lines["compress.c", 170] > 0
    assert counts["blocks"] == functions["BZ2_compressBlock"]
    # Every bit goes through bsW, and the file is whole bytes of them.
    assert -(-counts["bits"] // 8) == len(packed)
    assert 0 < counts["steps"] < counts["mainGtU"] * 100
    # Of the 14 updates, the ones on the way of each byte are inside a macro; a run of up to 255 equal bytes is at most five.
    assert len(text) * 0.9 < counts["nblock"] < len(text) * 1.3
    assert counts["stops"] == 0
    assert len(shop.report.sites["nblock"]) == len({(site.line, site.text) for site in shop.report.sites["nblock"]}) > 5

    assert run(counted, packed, "-d", COUNTS_FILE=str(counts_file)) == text
    assert dict(zip(SOFTWARE, map(int, counts_file.read_text().split()), strict=False))["stops"] > 0
    assert shop.report.skipped == {}
