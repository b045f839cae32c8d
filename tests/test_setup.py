"""The set-up script: nothing is done twice, and what it cannot do it says in one command."""

from __future__ import annotations

import fcntl
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


def without(missing: tuple[str, ...], folder: Path) -> tuple[Path, Path]:
    """Return a folder of all commands but some, and a checkout that holds the script alone."""
    tools = folder / "bin"
    tools.mkdir()
    for place in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        for file in Path(place).iterdir():
            if file.name not in missing and not (tools / file.name).exists():
                (tools / file.name).symlink_to(file)
    checkout = folder / "checkout"
    (checkout / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "setup.sh", checkout / "tools")
    return tools, checkout


def test_it_waits_for_another_installation(tmp_path: Path) -> None:
    """The lock is that of apt's lists, in a folder of this test: apt itself does not wait for it."""
    if os.geteuid() != 0:
        pytest.skip("only root installs packages without being asked")
    lists = tmp_path / "lists"
    (lists / "partial").mkdir(parents=True)
    (tmp_path / "apt.conf").write_text(
        f'Dir::State::lists "{lists}"; Dir::Cache "{tmp_path}"; APT::Sandbox::User "root";'
        'Dir::Etc::SourceList "/dev/null"; Dir::Etc::SourceParts "/dev/null";'
    )
    tools, checkout = without(("valgrind",), tmp_path)
    # It ends behind the packages, where it would make a virtual environment.
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" != -m ]\n')
    python.chmod(0o755)
    environment = {"PATH": str(tools), "APT_CONFIG": str(tmp_path / "apt.conf"), "PYTHON": str(python)}
    with (lists / "lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        with subprocess.Popen(
            [checkout / "tools" / "setup.sh", "run"], env=environment, stderr=subprocess.PIPE, text=True
        ) as script:
            assert script.stderr is not None
            said = [script.stderr.readline() for _ in range(2)]
            assert script.poll() is None
            fcntl.lockf(lock, fcntl.LOCK_UN)
            rest = script.stderr.read()
    assert said == [
        "installing Debian packages: valgrind\n",
        "waiting for another installation of Debian packages to end\n",
    ]
    assert "making the virtual environment" in rest, rest


def test_without_rights_it_prints_the_one_command_and_ends_with_3(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user can be taken by root only")
    tools, checkout = without(("valgrind", "dpkg-source", "sudo"), tmp_path)
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
