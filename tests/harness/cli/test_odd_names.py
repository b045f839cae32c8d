"""Folders and files whose names mean something to shells, make or patterns: they work, or are refused at once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.harness.command_server import run_command
from tests.harness.phases_campaign import write_spec
from tests.harness.points_sweep import write_sweep_spec

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
    assert "make and configure cannot use a compiler with " in done.stderr
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
    assert "is not valid UTF-8" in done.stderr
    assert "caf\\udce9" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_such_bytes_is_refused_too(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    done = run_command(folder, ["list"])
    assert done.returncode == 2, done.stderr
    assert "is not valid UTF-8" in done.stderr


def test_an_imported_campaign_may_begin_with_a_hyphen(tmp_path: Path) -> None:
    for run in range(2):
        rows = "\n".join(f"{at},{at % 5 + run}" for at in range(40))
        (tmp_path / f"-{run}.csv").write_text(f"time,m\n{rows}\n")
    words = ["import", "csv", "./-0.csv", "./-1.csv", "--as", "a", "-o", "./-campaign"]
    done = run_command(tmp_path, words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "-campaign" / "campaign.sqlite").is_file()


NAMES = [
    "a[1]",
    "a*",
    "{a,b}",
    "it's",
    '"a"',
    "$HOME",
    "`touch pwned`",
    "a;touch pwned",
    "a b",
    "a%s#=:&",
    "a{x}",
    "a\nb",
    "-a",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished campaign under a plain name."""
    folder = tmp_path_factory.mktemp("made")
    done = run_command(folder, ["run", str(_spec(folder)), "--campaign", "made"])
    assert done.returncode in (0, 4), done.stderr
    return folder / "made"


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_command_works_in_and_on_what_bears_the_name(name: str, made: Path, tmp_path: Path) -> None:
    home = tmp_path / name
    home.mkdir()
    unfit = bool(set(name) & set("'\"$`;&>\\ \n"))
    own = name if not name.startswith("-") else f"./{name}"
    shutil.copytree(made, home / name)
    _spec(home).rename(home / f"{name}.yaml")
    points = {"steps": {"from": 1000, "to": 12000, "step": 1000}, "way": ["walk"]}
    write_sweep_spec(home / "sweep", program__build="{cc} -O2 -g -o points points.c", parameters=points)
    rows = "\n".join(f"{at},{at * at % 7},{at * 2 + at % 5}" for at in range(60))
    (home / f"{name}.csv").write_text(f"x,y,z\n{rows}\n")
    (home / f"{name}.txt").write_text("".join(f"{at * 0.01:.3f} event{at % 3}\n" for at in range(300)))
    (home / f"{name}.metrics").write_text("software: {steps: {loop: walk}}\n")
    traces = [f"{own}/runs/{run}/trace.parquet" for run in ("0000", "0001")]
    program = f"./{name}.program"
    for words in (
        ["sites", f"{own}.yaml"],
        ["check", own],
        ["report", own],
        ["report", own, "--compare", own],
        ["status", own],
        ["list"],
        ["merge", own, "--force", "-o", f"{own}.parquet"],
        ["align", *traces],
        ["structure", traces[0]],
        ["export", own, "-o", f"{own}.out.csv"],
        ["import", "parquet", *traces, "--as", "a", "-o", f"{own}.imported"],
        ["model", f"{own}.csv", "--html", f"{own}.html"],
        ["diagnose", "--unit", "s", f"{own}.txt", f"{own}.txt"],
        ["run", f"{own}.yaml", "--campaign", f"{own}.dry", "--dry-run"],
        ["cc", "--metrics", f"{own}.metrics", "--", "gcc", "-g", "phases/phases.c", "-o", program],
        ["run", "--campaign", f"{own}.command", "--dry-run", "--", program, "9"],
        ["compare", "--dry-run", "--", program, "9", "--", program, "8"],
    ):
        done = run_command(home, words)
        assert done.returncode in (0, 4), (words, done.stderr)
        assert "Traceback" not in done.stderr, (words, done.stderr)
    for words in (
        ["run", f"{own}.yaml", "--campaign", f"{own}.run"],
        ["partition", f"{own}.yaml", "--campaign", f"{own}.search", "--max-runs", "14"],
        ["run", "sweep/spec.yaml", "--campaign", f"{own}.sweep"],
        *([] if unfit else [["model", f"{own}.sweep"]]),
    ):
        done = run_command(home, words)
        assert ("make and configure cannot use a compiler with " in done.stderr) == unfit, done.stderr
        assert done.returncode in ((2,) if unfit else (0, 4)), (words, done.stderr)
        assert "Traceback" not in done.stderr, (words, done.stderr)
    assert not list(tmp_path.rglob("pwned"))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def _spec(folder: Path) -> Path:
    return write_spec(
        folder,
        program__build="{cc} -O2 -g -o phases phases.c",
        program__run="{build}/phases 40",
        measure__interval={"records": 60},
        measure__hardware=["PAPI_TOT_INS", "PAPI_BR_MSP"],
        measure__derived=None,
    )
