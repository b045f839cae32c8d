"""Outputs that go away, are full, closed or of few signs: the result and the exit code stay what they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from unperturbed.harness.cli.streams import _PLAIN, prepare_streams

PROGRAM = f"{sys.executable} -m unperturbed.harness.cli"


def shell(folder: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", text.replace("unperturbed ", f"{PROGRAM} ")],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "\n".join(f"{number},{number * number + 90 * (number % 7)},{number % 5}" for number in range(40))
    (tmp_path / "t.csv").write_text(f"a,b,c\n{rows}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("unperturbed model t.csv --inputs a | head -1", 0),
        ("unperturbed model t.csv --inputs a | true", 0),
        ("unperturbed model t.csv --inputs a >&-", 0),
        ("unperturbed model t.csv --inputs a >&- 2>&-", 0),
        ("unperturbed model t.csv --inputs a >/dev/full", 3),
        ("unperturbed model missing.csv --inputs a 2>/dev/full", 2),
        ("unperturbed model missing.csv --inputs a 2>&-", 2),
        ("unperturbed help | true", 0),
    ],
)
def test_an_output_that_goes_away_changes_no_exit_code(folder: Path, text: str, code: int) -> None:
    done = shell(folder, text)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin1", "utf-8"])
def test_signs_that_an_encoding_lacks_are_written_otherwise(folder: Path, encoding: str) -> None:
    command = [*PROGRAM.split(), "model", "t.csv", "--inputs", "a"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.decode(encoding)
    assert ("→" in printed) == (encoding == "utf-8")
    assert ("->" in printed) == (encoding != "utf-8")


def test_every_sign_has_a_plain_form() -> None:
    assert all(plain.isascii() and "?" not in plain for plain in _PLAIN.values())


@pytest.mark.parametrize("text", ['unperturbed check ""', 'unperturbed run x.yaml --campaign ""'])
def test_an_empty_argument_is_no_folder(folder: Path, text: str) -> None:
    done = shell(folder, text)
    assert done.returncode == 2
    assert "is empty: give a value (perhaps a shell variable is unset)" in done.stderr


def test_a_closed_stream_is_a_stream_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    prepare_streams()
    assert not sys.stdout.isatty()
    print("nowhere", flush=True)
    print("nowhere", file=sys.stderr, flush=True)
    sys.stdout.close()
    sys.stderr.close()


def test_a_full_output_is_named(folder: Path) -> None:
    done = shell(folder, "unperturbed model t.csv --inputs a >/dev/full")
    assert done.stderr == "unperturbed: standard output: No space left on device\n"
