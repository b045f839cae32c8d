"""Mistyped and foreign words of the command line get the word that was meant, in one message."""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

import pytest

from tests.harness.phases_campaign import unperturbed
from unperturbed.harness.cli.commands import all_commands, foreign_words
from unperturbed.harness.cli.parser import _FOREIGN, unknown_command


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("chekc folder", "unknown command 'chekc'; did you mean check"),
        ("stat ls", "unknown command 'stat'; use `unperturbed run -- ./program its arguments`"),
        ("record ls", "`unperturbed run -- ./program its arguments`"),
        ("validate x.yaml", "`unperturbed check SPEC`"),
        ("my.yaml", "to run a spec, type `unperturbed run my.yaml`"),
        ("xyzzy", "unknown command 'xyzzy'; `unperturbed help` lists all commands"),
        ("help exprot", "did you mean export"),
        ("export x --output y", "unperturbed export: unknown option --output; did you mean --out?"),
        ("run x --campain=y", "unknown option --campain; did you mean --campaign?"),
        ("run x --folder y", "unknown option --folder; use --campaign"),
        ("run x -y", "unknown option -y"),
        ("--bogus", "unknown option --bogus"),
        ("partition x --strategy fist-fit", "did you mean first-fit?"),
        ("check a b", "unexpected argument: b"),
        ("check", "missing arguments: give a campaign's folder or spec"),
        ("check missing", "no file or folder missing; `unperturbed list`"),
        ("merge missing", "no file or folder missing; `unperturbed list`"),
        ("compare ./a", "put -- before each command: unperturbed compare -- A its arguments -- B"),
        ("run ./sort data", "put -- before the program: unperturbed run -- ./sort data"),
        ("floor ./sort data", "put -- before the program: unperturbed floor -- ./sort data"),
        ("run -n 5 x.yaml", "unknown option -n; use --runs"),
        ("run --output folder x.yaml", "unknown option --output; use --campaign"),
    ],
)
def test_what_was_meant(tmp_path: Path, words: str, said: str) -> None:
    done = unperturbed(tmp_path, *words.split())
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) <= 2


def test_a_file_in_the_place_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "prog").write_text("")
    assert "type `unperturbed run -- ./prog`" in unperturbed(tmp_path, "./prog").stderr
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "campaign.sqlite").write_text("")
    assert "type `unperturbed check here`" in unperturbed(tmp_path, "here").stderr


def test_an_option_may_be_shortened_as_long_as_it_is_one(tmp_path: Path) -> None:
    assert "nothing.yaml" in unperturbed(tmp_path, "run", "nothing.yaml", "--camp", "x").stderr


def test_words_behind_two_dashes_belong_to_another_program(tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "cc", "--", "gcc", "--no-such-option")
    assert "the following arguments are required: --metrics" in done.stderr
    assert "--no-such-option" not in done.stderr


def test_every_foreign_word_is_foreign_and_leads_to_a_command() -> None:
    known = all_commands()
    others = foreign_words(known)
    assert (others["phases"], others["learn"]) == ("structure TRACE", "model TABLE")
    for word, meant in (_FOREIGN | others).items():
        assert word not in known
        if not meant.startswith("-") and meant.split()[0] in known:
            assert f"`unperturbed {meant}`" in unknown_command(word, known)


def test_version_names_python_papi_and_kernel(tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "--version")
    assert done.returncode == 0
    tool, python, papi, kernel = done.stdout.splitlines()
    assert re.fullmatch(r"unperturbed \d+\.\d+.*", tool)
    assert python == f"Python {platform.python_version()} ({sys.executable})"
    assert re.fullmatch(r"PAPI (\d+(\.\d+)+|of python-papi's wheel|of unknown version|not installed)", papi)
    assert platform.release() in kernel


@pytest.mark.parametrize("name", all_commands())
def test_help_of_a_command_is_the_same_by_both_ways(tmp_path: Path, name: str) -> None:
    asked = unperturbed(tmp_path, "help", name)
    assert asked.returncode == 0
    assert asked.stdout == unperturbed(tmp_path, name, "--help").stdout


def test_help_alone_lists_the_commands(tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "help")
    assert done.returncode == 0
    assert done.stdout == unperturbed(tmp_path, "--help").stdout
