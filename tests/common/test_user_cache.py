"""The user's cache: whose it is, who can write to it, and what is done about it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from unperturbed.common.user_cache import is_own_file, user_cache
from unperturbed.errors import HostError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders to another user")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "base"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def _open_way(folder: Path) -> None:
    """Let other users come to a folder, and change nothing above it, as in most homes."""
    for above in folder.parents:
        if above != Path(tempfile.gettempdir()) and Path(tempfile.gettempdir()) in above.parents:
            above.chmod(0o755)


def test_a_new_folder_is_the_users_alone(base: Path) -> None:
    folder = user_cache()
    assert folder == base / "unperturbed"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert user_cache() == folder


def test_a_relative_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert user_cache() == tmp_path / ".cache" / "unperturbed"
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_could_write_to_is_emptied_and_closed(base: Path, mode: int) -> None:
    folder = user_cache()
    (folder / "kernels").mkdir()
    (folder / "kernels" / "planted").write_text("x")
    (folder / "planted").symlink_to("/bin/true")
    folder.chmod(mode)
    assert list(user_cache().iterdir()) == []
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o1777, 0o755])
def test_a_folder_above_may_be_readable_or_sticky(base: Path, mode: int) -> None:
    base.mkdir()
    base.chmod(mode)
    assert user_cache().is_dir()


def test_what_others_cannot_reach_may_be_open(base: Path) -> None:
    base.mkdir()
    base.chmod(0o777)
    base.parent.chmod(0o700)
    assert user_cache().is_dir()


def test_a_folder_above_that_everybody_can_write_to_is_refused(base: Path) -> None:
    base.mkdir()
    base.chmod(0o777)
    _open_way(base)
    with pytest.raises(HostError, match=f"other users can write to {base} and could replace files that root executes"):
        user_cache()


@as_root
@pytest.mark.parametrize("place", ["above", "base", "folder", "linked"])
def test_another_users_folder_is_refused(base: Path, place: str) -> None:
    folder = base / "unperturbed"
    if place == "linked":
        base.mkdir()
        folder.symlink_to(base.parent / "elsewhere")
        (base.parent / "elsewhere").mkdir()
    else:
        folder.mkdir(parents=True, mode=0o700)
    owned = {"above": base.parent, "base": base, "folder": folder, "linked": base.parent / "elsewhere"}[place]
    os.chown(owned, 1, 1)
    _open_way(base)
    with pytest.raises(HostError, match=r"belongs to daemon, .*set XDG_CACHE_HOME to a folder of your own"):
        user_cache()


@as_root
def test_another_users_file_is_refused(base: Path) -> None:
    file = user_cache() / "observer"
    assert not is_own_file(file)
    file.write_text("")
    assert is_own_file(file)
    os.chown(file, 1, 1)
    with pytest.raises(HostError, match="observer belongs to daemon, who could change code that root executes"):
        is_own_file(file)


@as_root
def test_nothing_planted_runs(base: Path) -> None:
    """Root starts the tool with another user's cache: it says so, and compiles and executes nothing there."""
    folder = base / "unperturbed"
    folder.mkdir(parents=True)
    os.chown(base, 1, 1)
    _open_way(base)
    program = [sys.executable, "-m", "unperturbed.harness.cli", "run", "--runs", "3", "--", "/bin/true"]
    done = subprocess.run(program, cwd=base.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert f"{base} belongs to daemon" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_has_advice(base: Path) -> None:
    base.write_text("in the way")
    with pytest.raises(OSError, match="set XDG_CACHE_HOME to a folder of your own"):
        user_cache()
