"""`unperturbed check --from` with results of other harnesses, and the commands that do not take them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.collectors.imports.totals.made import hyperfine
from tests.harness.phases_campaign import unperturbed

SPREAD = (0.999, 1.0, 1.001, 0.9995, 1.0005, 1.0)
CHECK = ("check", "--from", "hyperfine", "--baseline", "a.json", "--checked", "b.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, mean in (("a", 1.0), ("b", 1.1)):
        made = {"./sort": [mean * each for each in SPREAD], "./same": list(SPREAD)}
        (tmp_path / f"{name}.json").write_bytes(hyperfine(made))
    return tmp_path


def test_verdicts_notes_and_exit_code(folder: Path) -> None:
    done = unperturbed(folder, *CHECK)
    assert done.returncode == 4, done.stderr
    shown = " ".join(done.stdout.split())
    assert "./sort time 1 s 1.1 s +10 %" in shown
    assert "./sort has 10 % more time" in shown
    assert shown.endswith("2 benchmarks: 1 perturbed (./sort) and 1 unperturbed")
    assert "recorded one after the other" in shown
    assert "no verdicts on correlations" in shown


def test_a_tolerance_and_a_folder_for_the_report(folder: Path) -> None:
    done = unperturbed(folder, *CHECK, "--tolerance", "20 %", "-o", "out/here")
    assert done.returncode == 0, done.stderr
    assert "report: out/here/report.html" in done.stdout
    written = json.loads((folder / "out/here/verdicts.json").read_text())
    assert [change["verdict"] for change in written["totals"]["./sort"]] == ["unperturbed"]
    assert json.loads(unperturbed(folder, *CHECK, "--tolerance", "20 %", "--json").stdout) == written


def test_two_benchmarks_of_one_file(folder: Path) -> None:
    words = ("check", "--from", "hyperfine", "--baseline", "b.json", "--checked", "b.json")
    done = unperturbed(folder, *words)
    assert done.returncode == 2
    assert "use --option baseline=NAME --option checked=NAME" in done.stderr
    done = unperturbed(folder, *words, "--option", "baseline=./same", "--option", "checked=./sort")
    assert done.returncode == 4, done.stderr
    assert "./sort is compared with ./same" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--method", "paper"), "--method paper works on intervals, and hyperfine has totals"),
        (("--across",), "--across works on intervals"),
        (("--without", "0001"), "--without works on intervals"),
        (("--after", "steady"), "--after steady works on intervals"),
        (("--tolerance", "3"), "--tolerance 3: `3` is not a percentage"),
        (("--option", "time=x"), "the format hyperfine has no option time="),
    ],
)
def test_options_that_do_not_fit(folder: Path, words: tuple[str, ...], said: str) -> None:
    done = unperturbed(folder, *CHECK, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_commands_that_need_intervals_name_the_one_that_does_not(folder: Path) -> None:
    for words in (("import", "hyperfine", "a.json", "--as", "baseline", "-o", "c"), ("align", "a.json", "b.json")):
        done = unperturbed(folder, *words)
        assert done.returncode == 2
        assert "unperturbed check --from hyperfine" in done.stderr, done.stderr
    (folder / "b.json").write_bytes((folder / "a.json").read_bytes())
    done = unperturbed(folder, *CHECK)
    assert "b.json and a.json are identical, byte for byte" in done.stderr


def test_options_for_recordings_with_intervals_or_without(folder: Path) -> None:
    (folder / "t.csv").write_text("time,a\n1,2\n2,3\n")
    (folder / "u.csv").write_text("time,a\n1,2\n2,4\n")
    words = ("check", "--from", "csv", "--baseline", "t.csv", "--checked", "u.csv")
    done = unperturbed(folder, *words, "-o", "x")
    assert "--out is for totals of whole runs, and csv has intervals" in done.stderr
    assert (
        "--tolerance b: not all runs have this metric; " in unperturbed(folder, *words, "--tolerance", "b=3 %").stderr
    )
    assert "give them to `unperturbed import`" in unperturbed(folder, "check", "here", "--tolerance", "3 %").stderr
    assert "totals need a percentage" in unperturbed(folder, *CHECK, "--tolerance", "0.2").stderr


def test_a_model_of_the_runs(folder: Path) -> None:
    done = unperturbed(folder, "model", "b.json")
    assert done.returncode == 0, done.stderr
    assert "read as 12 rows of 2 columns; a row is a run in JSON of hyperfine" in done.stdout + done.stderr
    assert "benchmark — time_s" in done.stdout
