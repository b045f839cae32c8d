"""`unperturbed cache`: what is kept, what is removed, and that nothing is compiled after `cache warm`."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.common.distribution import write_distribution
from tests.harness.cli.test_structure_command import trace_of
from tests.harness.phases_campaign import unperturbed
from unperturbed.harness.cli import main
from unperturbed.harness.cli.parser import full_parser


def _filled(folder: Path) -> Path:
    cache = folder / "unperturbed"
    for name, size in (
        ("kernels/checkpoints-1/x.nbi", 1000),
        ("sources/bzip2/unpacked/bzip2.c", 200),
        ("apt/lists/x_Sources", 30),
        ("0123-observer", 4),
        ("python/0123.so", 5),
    ):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_bytes(b"x" * size)
    return cache


def test_info_and_clear(tmp_path: Path) -> None:
    cache = _filled(tmp_path / "cache")
    here = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    info = json.loads(unperturbed(tmp_path, "cache", "info", "--json", environment=here).stdout)
    assert info["folder"] == str(cache)
    assert {name: part["bytes"] for name, part in info["parts"].items()} == {
        "kernels": 1000,
        "sources": 230,
        "runtime": 9,
    }
    assert "kernels" in unperturbed(tmp_path, "cache", "info", environment=here).stdout
    wrong = unperturbed(tmp_path, "cache", "clear", "kernel", environment=here)
    assert (wrong.returncode, "did you mean kernels?" in wrong.stderr) == (2, True)
    assert unperturbed(tmp_path, "cache", "clear", "kernels", environment=here).returncode == 0
    assert not list((cache / "kernels").iterdir())
    assert (cache / "sources" / "bzip2").is_dir()
    unperturbed(tmp_path, "cache", "clear", environment=here)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("words", [("--quiet", "clear"), ("clear", "--quiet")])
def test_the_common_options_stand_before_and_behind_what_to_do(words: tuple[str, str]) -> None:
    parser = full_parser()
    assert parser.parse_args(["cache", *words]).quiet
    assert not parser.parse_args(["cache", "clear"]).quiet


def test_kernels_of_another_distribution_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = "compiled = []\n\ndef warm():\n    compiled.append(1)\n\nNOTHING = 3\n"
    write_distribution(tmp_path, "unperturbed.kernels", module, toys="warm", wrong="NOTHING")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["cache", "warm", "toys"]) == 0
    assert "toys: ready after" in capsys.readouterr().out
    assert importlib.import_module("toys_module").compiled == [1]
    assert main(["cache", "warm", "wrong"]) == 3
    assert (
        "toys_module:NOTHING of toys (entry point wrong of unperturbed.kernels) has type int, not "
        in capsys.readouterr().err
    )


def _aligned(folder: Path) -> list[str]:
    return ["align", str(trace_of(folder / "1", "abcacb" * 9, 1)), str(trace_of(folder / "2", "abcacb" * 8, 2))]


def _structured(folder: Path) -> list[str]:
    first, second = (trace_of(folder / str(number), "abcacb" * (20 - 3 * number), number) for number in (0, 1))
    return ["structure", str(first), "--against", str(second)]


def _diagnosed(folder: Path) -> list[str]:
    for name in ("good", "fine", "bad"):
        (folder / name).write_text("".join(f"{1000 * at} {'abcd'[at % 4]}\n" for at in range(200)))
    return ["diagnose", *(str(folder / name) for name in ("good", "fine", "bad"))]


def _modelled(folder: Path) -> list[str]:
    chance = np.random.default_rng(3)
    size = chance.integers(1, 50, 60)
    table = pl.DataFrame({"size": size, "seconds": 2.0 * size + chance.normal(size=60)})
    table.write_csv(folder / "table.csv")
    return ["model", str(folder / "table.csv")]


@pytest.mark.parametrize(
    ("part", "command"),
    [
        ("alignment", _aligned),
        pytest.param("structure", _structured, marks=pytest.mark.long),
        pytest.param("diagnosis", _diagnosed, marks=pytest.mark.long),
        pytest.param("model", _modelled, marks=pytest.mark.long),
    ],
)
def test_after_warming_nothing_is_compiled(tmp_path: Path, part: str, command: Callable[[Path], list[str]]) -> None:
    """In the user's cache, but for one part: compiling all of them once more takes a minute."""
    here = {"XDG_CACHE_HOME": str(tmp_path / "cache")} if part == "model" else {"UNUSED": ""}
    words = command(tmp_path)
    if part == "model":  # the first answer compiles before its own work, in one line, and never again
        first = unperturbed(tmp_path, *words, environment=here)
        assert first.returncode == 0
        assert [line for line in first.stderr.splitlines() if "compiling" in line] == [
            "  compiling the loops of the model analysis, at first use only: about 10 s of CPU time …"
        ]
        assert "compiling" not in unperturbed(tmp_path, *words, environment=here).stderr
        unperturbed(tmp_path, "cache", "clear", "kernels", environment=here)
    warmed = unperturbed(tmp_path, "cache", "warm", part, environment=here)
    assert warmed.returncode == 0
    assert f"{part}: ready after" in warmed.stdout
    assert "compiling" in warmed.stderr or part != "model"
    answered = unperturbed(tmp_path, *words, environment=here)
    assert answered.returncode in (0, 4), answered.stderr
    assert "compiling" not in answered.stderr
