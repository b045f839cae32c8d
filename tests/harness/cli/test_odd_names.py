"""Folders and files whose names mean something to shells, make or patterns: they work, or are refused at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.command_server import run_command
from tests.harness.phases_campaign import write_spec

UNFIT = [
    "a`touch pwned`b",
    "a`pwd`",
    "a$HOME",
    "a'b",
    'a"b',
    "a\nb",
    "a b",
    "a;b",
    "a&b",
    "a\\b",
    "$(touch pwned)",
    "a>b",
]


@pytest.mark.parametrize("name", UNFIT)
def test_make_is_given_no_path_that_it_would_execute_or_split(name: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, measure__software={}, campaign__subsets={}, analysis__anchor=None)
    done = run_command(tmp_path, ["run", str(spec), "--campaign", name])
    assert done.returncode == 2, done.stderr
    assert "make and configure cannot use a compiler whose path holds" in done.stderr
    assert not list(tmp_path.rglob("pwned"))
    assert not list(tmp_path.rglob("build.log"))


@pytest.mark.parametrize(
    "words",
    [
        ("check", "{name}"),
        ("run", "{name}.yaml"),
        ("run", "x.yaml", "--campaign", "{name}"),
        ("export", "{name}", "-o", "x.csv"),
        ("model", "{name}.csv", "--inputs", "a"),
        ("diagnose", "{name}.txt", "x.txt"),
        ("run", "--", "true", "{name}"),
    ],
)
def test_bytes_that_are_no_utf_8_are_refused_with_the_reason(words: tuple[str, ...], tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    done = run_command(tmp_path, [word.format(name=name) for word in words])
    assert done.returncode == 2, done.stderr
    assert "holds bytes that are no UTF-8" in done.stderr
    assert "caf\\udce9" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_such_bytes_is_refused_too(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    done = run_command(folder, ["list"])
    assert done.returncode == 2, done.stderr
    assert "holds bytes that are no UTF-8" in done.stderr


def test_an_imported_campaign_may_begin_with_a_hyphen(tmp_path: Path) -> None:
    for run in range(2):
        rows = "\n".join(f"{at},{at % 5 + run}" for at in range(40))
        (tmp_path / f"-{run}.csv").write_text(f"time,m\n{rows}\n")
    words = ["import", "csv", "./-0.csv", "./-1.csv", "--as", "a", "-o", "./-campaign"]
    done = run_command(tmp_path, words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "-campaign" / "campaign.sqlite").is_file()
