"""Temporary folders: removed at the end, by the next process after a kill, and never those of others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from unperturbed.common.scratch import scratch_folder


def test_a_folder_is_removed_also_after_an_error(tmp_path: Path) -> None:
    with scratch_folder("one", tmp_path) as folder:
        (folder / "x").write_text("x")
        assert folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(ValueError, match="end"), scratch_folder("two", tmp_path):
        raise ValueError("end")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    script = (
        "import time\nfrom pathlib import Path\nfrom unperturbed.common.scratch import scratch_folder\n"
        f"with scratch_folder('dead', Path({str(tmp_path)!r})) as folder:\n"
        "    (folder / 'x').write_text('x')\n    print(flush=True)\n    time.sleep(300)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    (left,) = tmp_path.iterdir()
    others = [tmp_path / f"unperturbed-live-{os.getpid()}-x", tmp_path / "unperturbed-mine", tmp_path / "other-1-x"]
    for other in others:
        other.mkdir()
    with scratch_folder("alive", tmp_path):
        assert left.is_dir()  # its process lives
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with scratch_folder("alive", tmp_path):
        assert not left.exists()
    assert sorted(tmp_path.iterdir()) == sorted(others)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders to another user")
def test_folders_of_other_users_stay(tmp_path: Path) -> None:
    other = tmp_path / "unperturbed-dead-999999999-x"
    other.mkdir()
    os.chown(other, 1, 1)
    with scratch_folder("alive", tmp_path):
        pass
    assert other.is_dir()
