"""The manual page: made from the parser, and formatted by man and groff without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.phases_campaign import unperturbed
from unperturbed.harness.cli.commands import all_commands


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manual")
    done = unperturbed(folder, "manual")
    assert done.returncode == 0, done.stderr
    (folder / "unperturbed.1").write_text(done.stdout)
    return folder / "unperturbed.1"


def test_groff_has_nothing_to_say(page: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(["groff", "-man", "-Kutf8", "-ww", "-z", page], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_man_shows_every_command_and_its_options(page: Path) -> None:
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    shown = subprocess.run(
        ["man", "--local-file", str(page)],
        capture_output=True,
        text=True,
        check=True,
        env={"MANWIDTH": "400", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "MAN_KEEP_FORMATTING": ""},
    ).stdout
    plain = re.sub(r".\x08|\x1b\[[0-9;]*m", "", shown)
    for name in all_commands():
        assert re.search(rf"^   {re.escape(name)}$", plain, re.MULTILINE), name
    for text in (
        "--max-repetitions N",
        "--dry-run",
        "-o, --out FILE",
        "EXIT STATUS",
        "not possible on this host",
        "FILES",
    ):
        assert text in plain, text
