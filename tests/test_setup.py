"""The set-up script: nothing is done twice, and what it cannot do it says in one command."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_a_second_time_does_nothing() -> None:
    stamps = {path: path.stat().st_mtime_ns for path in (ROOT / ".venv").glob(".set-up-for-*")}
    if ROOT / ".venv" / ".set-up-for-test" not in stamps:
        pytest.skip("these tests were not started by `make test`")
    done = subprocess.run([ROOT / "tools" / "setup.sh", "test"], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_without_rights_it_prints_the_one_command_and_ends_with_3(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user can be taken by root only")
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        for file in Path(folder).iterdir():
            if file.name not in ("valgrind", "dpkg-source", "sudo") and not (tools / file.name).exists():
                (tools / file.name).symlink_to(file)
    checkout = tmp_path / "checkout"
    (checkout / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "setup.sh", checkout / "tools")
    for folder in (*tmp_path.parents, tmp_path):
        if folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    command = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        str(checkout / "tools" / "setup.sh"),
        "run",
    ]
    done = subprocess.run(command, env={"PATH": str(tools)}, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "Debian packages are missing: valgrind dpkg-dev" in done.stderr
    assert "sudo apt-get update && sudo apt-get install -y --no-install-recommends valgrind dpkg-dev" in done.stderr
    assert not (checkout / ".venv").exists()
