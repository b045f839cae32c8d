"""A campaign on three nodes of a real Slurm whose surroundings fail: a full shared disk, another user, two at once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.nodes.slurm import cluster, lacking
from tests.harness.nodes.test_here import quick_spec, start, states
from tests.harness.nodes.test_slurm import Running

_NOBODY = 65534

needs_slurm = pytest.mark.skipif(bool(lacking()), reason=f"not installed: {', '.join(lacking())}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 MB, which login node and nodes share."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system can be mounted by root only")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(folder: Path) -> Path:
    """Fill a file system to its last byte."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 10, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
    return ballast


@needs_slurm
def test_a_shared_disk_that_gets_full_and_is_freed(small_disk: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with cluster(tmp_path_factory.mktemp("slurm")) as slurm:
        running = Running(slurm, small_disk)
        watching = running.start("--no-check")
        running.wait_for_owners()
        ballast = _fill(small_disk)
        try:
            running.open_gate()
            _, told = watching.communicate(timeout=120)
        finally:
            ballast.unlink()
        assert watching.returncode == 3
        assert "no space left" in " ".join(told.split()) and "Traceback" not in told
        for part in running.parts:
            assert "Traceback" not in (part.folder / "job.log").read_text()
        last = running.run("--no-check")
        assert last.returncode == 0, last.stderr
        running.is_whole()


def test_of_two_coordinators_at_one_moment_one_goes_on(tmp_path: Path) -> None:
    spec = quick_spec(tmp_path)
    (tmp_path / "open").touch()
    both = [start(spec, "--no-check") for _ in range(2)]
    told = [one.communicate(timeout=240)[1] for one in both]
    assert sorted(one.returncode for one in both) == [0, 2], told
    assert any("another process" in text for text in told)
    found = states(tmp_path / "campaigns" / "quick")
    assert len(found) == 12 and {entry[1:] for entry in found} == {("done", 1)}


def _as_nobody(*command: str) -> list[str]:
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--", *command]


@needs_slurm
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_with_a_cluster_of_its_own() -> None:
    """The test of a whole campaign once more, by a user who owns nothing but a folder."""
    tried = _as_nobody("/bin/sh", "-c", f"{sys.executable} -c 'import pytest'")
    if subprocess.run(tried, capture_output=True, check=False).returncode:
        pytest.skip("another user cannot execute this Python")
    test = f"{Path(__file__).with_name('test_slurm.py')}::test_a_campaign_on_three_nodes"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "XDG"))}
    with tempfile.TemporaryDirectory() as home:  # of a short name: Slurm's sockets lie deep in it
        os.chown(home, _NOBODY, _NOBODY)
        options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={home}/t")
        shown = subprocess.run(
            _as_nobody(sys.executable, "-B", "-m", "pytest", *options, test),
            env={**environment, "HOME": home, "USER": "nobody", "LOGNAME": "nobody", "TMPDIR": home},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    assert shown.returncode == 0 and shown.stdout.startswith("."), shown.stdout + shown.stderr
