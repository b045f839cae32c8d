"""A short seeded slice of each attack, and everything again that an attack ever found."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.c_readers import attack_c, missing
from tests.attacks.fuzz import CORPUS, attack_reader, corpus_inputs
from tests.attacks.mutation import mutate_bytes, mutate_tree
from tests.attacks.points import POINTS
from tests.attacks.readers import READERS, empty_folder
from unperturbed.analysis.diagnosis.reading.formats import log_formats
from unperturbed.collectors.imports import import_formats
from unperturbed.errors import UnperturbedError

SLICE = 25
NO_CLANG = missing()


@pytest.mark.parametrize("name", READERS)
def test_what_was_found_and_a_few_inputs_more(name: str, tmp_path: Path) -> None:
    reader, chance = READERS[name], random.Random(11)
    seeds = reader.seeds()
    made = [reader.mutate(chance.choice(seeds), chance, reader.words) for _ in range(SLICE if reader.quick else 2)]
    for content in [*seeds[:3], *corpus_inputs(name), *made]:
        try:
            reader.read(content, tmp_path)
        except UnperturbedError as error:
            assert str(error)
        empty_folder(tmp_path)


def test_every_import_and_log_format_is_attacked() -> None:
    assert {f"import-{name}" for name in import_formats()} <= set(READERS)
    assert {f"log-{name}" for name in log_formats()} <= set(READERS)


def test_the_corpus_is_of_readers_that_there_are() -> None:
    known = {*READERS, "launcher", "record-c"}
    assert {folder.name for folder in CORPUS.iterdir()} <= known
    assert sum(path.stat().st_size for path in CORPUS.rglob("*.gz")) < 500_000


@pytest.mark.skipif(bool(NO_CLANG), reason=NO_CLANG)
@pytest.mark.parametrize("name", ["launcher", "record-c"])
def test_what_was_found_in_the_c_and_a_few_inputs_more(name: str) -> None:
    assert attack_c(name, inputs=300, keep=False).faults == {}


def test_faults_and_crashes_are_seen() -> None:
    found = attack_reader("self-test", inputs=40, plain=True, keep=False)
    said = " ".join(found.faults)
    assert "ZeroDivisionError" in said
    assert "the process died (-11)" in said


def test_changes_are_the_same_for_a_seed() -> None:
    for change in (mutate_bytes, mutate_tree):
        first, second = (change(b'{"a": [1, 2, {"b": "c"}]}', random.Random(5), (b"word",)) for _ in range(2))
        assert first == second


def test_kills_command_lines_and_surroundings() -> None:
    """In a process of its own, which forks, and has no threads."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.attacks", "--slice"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_crash_point_is_a_function() -> None:
    import functools
    import importlib

    assert len({point.what for point in POINTS}) == len(POINTS)
    for point in POINTS:
        name, _, path = point.function.partition(":")
        module = importlib.import_module(name[1:] if name[0] == "/" else f"unperturbed.{name}")
        assert callable(functools.reduce(getattr, path.split("."), module)), point.what
