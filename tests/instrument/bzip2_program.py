"""Debian's bzip2 for tests that need one real program of one file.

Metrics of every kind, how it is built, how it is run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from unperturbed.common.user_cache import user_cache
from unperturbed.harness.program.sources import debian_source

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


def bzip2_source() -> Path:
    return debian_source("bzip2", user_cache())


def build(source: Path, folder: Path, compiler: str, level: str = "-O2") -> Path:
    shutil.copytree(source, folder)
    for stale in [*folder.glob("*.o"), *folder.glob("*.sho"), *folder.glob("*.a")]:
        stale.unlink()
    flags = f"CFLAGS={level} -D_FILE_OFFSET_BITS=64"
    objects = [
        f"{name}.o"
        for name in ("blocksort", "huffman", "crctable", "randtable", "compress", "decompress", "bzlib", "bzip2")
    ]
    subprocess.run(
        ["make", "-s", "-j2", f"CC={compiler}", flags, *objects], cwd=folder, check=True, capture_output=True
    )
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
