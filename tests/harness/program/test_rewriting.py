"""Profiles of builds: what their instructions are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from unperturbed.harness.program.rewriting import _kinds_of


def test_a_build_in_the_folder_of_an_earlier_one_is_disassembled_anew(tmp_path: Path) -> None:
    """A build that is split is forgotten, and one of its parts takes its folder."""
    found = []
    for number, body in enumerate(("x * x", "x / 3 + x % 7 + (x << 3) * x")):
        (tmp_path / "x.c").write_text(
            f"int f(int x) {{ return {body}; }}\nint main(int c, char **v) {{ return f(c); }}\n"
        )
        subprocess.run(["gcc", "-O1", "x.c", "-o", "program"], cwd=tmp_path, check=True)
        os.utime(tmp_path / "program", ns=(number, number))
        found.append(_kinds_of(str(tmp_path / "program"), (tmp_path / "program").stat().st_mtime_ns))
    assert found[0] != found[1]
