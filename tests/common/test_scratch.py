"""Temporary folders and files: removed at the end, by the next process after a kill, and never those of others."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from unperturbed.common.scratch import scratch_folder, whole_file, write_whole


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
    names = [
        left.name.replace("dead", "live").replace(str(process.pid), str(os.getpid())),
        "unperturbed-mine",
        "other-1-x",
    ]
    others = [tmp_path / name for name in [*names, f"unperturbed-dead-elsewhere-{process.pid}-x"]]
    for other in others:
        other.mkdir()
    with scratch_folder("alive", tmp_path):
        assert left.is_dir()  # its process lives
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with scratch_folder("alive", tmp_path):
        assert not left.exists()
    assert sorted(tmp_path.iterdir()) == sorted(others)


@pytest.mark.parametrize("proc", [["--mount-proc"], []], ids=["its own /proc", "another /proc"])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can create namespaces")
def test_a_container_leaves_what_lives_outside_of_it(tmp_path: Path, proc: list[str]) -> None:
    script = (
        "from pathlib import Path\nfrom unperturbed.common.scratch import scratch_folder\n"
        f"with scratch_folder('inner', Path({str(tmp_path)!r})) as folder: pass\n"
    )
    with scratch_folder("outer", tmp_path) as folder:
        command = ["unshare", "--pid", "--fork", *proc, sys.executable, "-c", script]
        subprocess.run(command, check=True)
        assert [*tmp_path.iterdir()] == [folder]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders to another user")
def test_folders_of_other_users_stay(tmp_path: Path) -> None:
    with scratch_folder("dead", tmp_path) as folder:
        other = tmp_path / folder.name.replace(str(os.getpid()), "999999999")
    other.mkdir()
    os.chown(other, 1, 1)
    with scratch_folder("alive", tmp_path):
        pass
    assert other.is_dir()


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    write_whole(file, "é")
    assert file.read_bytes() == "é".encode()
    with pytest.raises(ValueError, match="end"), whole_file(file) as written:
        written.write(b"half")
        written.flush()
        assert file.read_bytes() == "é".encode()
        raise ValueError("end")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ["é".encode()]


def test_what_a_killed_process_wrote_halfway_is_removed_by_the_next(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    script = (
        "import os, signal\nfrom unperturbed.common.scratch import whole_file\n"
        f"with whole_file({str(file)!r}) as written:\n"
        "    written.write(b'half')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    assert not file.exists()
    write_whole(file, "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as refused:
        write_whole(tmp_path / "none" / "page.html", "x")
    assert refused.value.filename == str(tmp_path / "none" / "page.html")
    with pytest.raises(OSError, match="File too large") as limited:
        _write_much(tmp_path / "large")
    assert limited.value.filename == str(tmp_path / "large")
    assert list(tmp_path.iterdir()) == []


def _write_much(path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        write_whole(path, "x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
