"""`unperturbed structure`: runs, accesses, a second run, exit codes, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from unperturbed.collectors.data import Metric, Trace
from unperturbed.harness.cli import main

LEVELS = {"a": (10, 900), "b": (200, 20), "c": (60, 300), "x": (500, 500)}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["structure", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def trace_of(folder: Path, order: str, seed: int) -> Path:
    """Write a run whose intervals go through phases, each five intervals long."""
    chance = np.random.default_rng(seed)
    phases = [phase for phase in order for _ in range(5)]
    counts = np.array([chance.poisson(LEVELS[phase]) for phase in phases]) + 1
    ends = np.cumsum(np.full(len(phases), 1_000_000))
    metrics = [Metric(name, "hardware", "events", "counter", "perf_event") for name in ("perf::one", "perf::two")]
    columns = {"perf::one": counts[:, 0], "perf::two": counts[:, 1]}
    folder.mkdir()
    Trace.from_columns(metrics, columns, begin_ns=ends - 1_000_000, end_ns=ends).write(folder / "trace.parquet")
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    folder = tmp_path_factory.mktemp("runs")
    orders = ("abcacb" * 20, "abcacb" * 17, "abcacb" * 7 + "bx" * 12 + "abcacb" * 7)
    one, same, other = (str(trace_of(folder / f"000{number}", order, number)) for number, order in enumerate(orders, 1))
    return one, same, other


def test_a_runs_words_are_shown(runs: tuple[str, str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, output, _ = run(capsys, runs[0], "--html", str(page))
    assert code == 0
    assert "600 intervals of 3 classes form a sequence of 120 symbols" in output
    assert "the model is adequate" in output
    assert "from 19 shuffled sequences" in output
    assert "perf::one" in page.read_text()
    assert "structure-strips" in page.read_text()


def test_a_second_run_is_told_by_the_first_ones_words(
    runs: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, _ = run(capsys, runs[0], "--against", runs[1])
    assert (code, "The first run's words describe 0002" in output) == (0, True)
    code, output, _ = run(capsys, runs[0], "--against", runs[2])
    assert (code, "The first run's words do not describe 0003" in output) == (4, True)
    code, output, _ = run(capsys, runs[0], "--against", runs[2], "--json")
    assert code == 4
    told = json.loads(output)
    assert told["comparison"]["adequacy"]["cost"] > told["comparison"]["adequacy"]["bound"]
    assert told["comparison"]["own_cost"] <= told["comparison"]["adequacy"]["cost"]
    assert told["comparison"]["segments"][-1]["stop"] == told["against"]["elements"] == 5 * (14 * 6 + 24)


def test_the_papers_method_has_two_names(runs: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    outputs = {run(capsys, runs[0], "--json", "--method", name)[1] for name in ("paper", "monotone")}
    assert len(outputs) == 1
    assert json.loads(outputs.pop())["run"]["method"] == "monotone"


def test_accesses_and_given_classes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pages = [0x1000 + 16 * (number % 4) for number in range(40)] + [0x9000, 0xF000, 0x9000, 0x5000]
    path = tmp_path / "pages.txt"
    path.write_text("".join(f"{page:#x}\n" for page in pages * 20))
    code, output, _ = run(capsys, str(path), "--accesses", "--classes", "ranges:4")
    assert (code, "880 accesses of 4 classes" in output) == (0, True)
    sizes = tmp_path / "sizes.txt"  # more than ten kinds, of three magnitudes
    drawn = np.random.default_rng(1).integers(0, 40, 360) + np.tile([10, 5000, 70000], 120)
    for ending in ("", ".5"):
        sizes.write_text("".join(f"{size}{ending}\n" for size in drawn))
        code, output, _ = run(capsys, str(sizes), "--accesses")
        assert (code, "of 3 classes" in output, "value near 5020" in output) == (0, True, True), output
    names = tmp_path / "modules.txt"
    names.write_text("parse\nparse\nsort\nwrite\n" * 30)
    code, output, _ = run(capsys, str(names), "--accesses")
    assert (code, "of 3 classes" in output) == (0, True)


def test_as_many_classes_as_there_are_kinds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Numbers that lie near each other beside far ones are kinds of their own."""
    path = tmp_path / "pages.txt"
    path.write_text("".join(f"{page}\n" for page in [3, 3, 17, 17, 200, 5, 9, 9, 44, 3, 61, 9] * 40))
    _, by_default, _ = run(capsys, str(path), "--accesses")
    for asked in ("7", "10"):
        code, output, _ = run(capsys, str(path), "--accesses", "--classes", asked)
        assert (code, output) == (0, by_default)


def test_runs_of_one_class_or_of_two_that_take_turns_are_plain(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = {"one": "io\n" * 30, "two": "compute\ncompute\nio\n" * 40, "other": "wait\nio\n" * 20}
    paths = {name: tmp_path / f"{name}.txt" for name in made}
    for name, text in made.items():
        paths[name].write_text(text)
    for name, said in (
        ("one", "one class: there is a single phase"),
        ("two", "two classes that alternate in 80 stretches"),
    ):
        code, output, _ = run(capsys, str(paths[name]), "--accesses")
        assert (code, said in output) == (0, True)
        page = tmp_path / f"{name}.html"
        code, output, _ = run(
            capsys, str(paths[name]), "--accesses", "--against", str(paths[name]), "--html", str(page)
        )
        same = " has the same class." if name == "one" else " has the same classes."
        assert (code, same in output) == (0, True)
        for said_by in (output, page.read_text()):  # neither says that there is something amiss
            amiss = (
                "no word: accesses",
                "Not adequate",
                "Is the model adequate?",
                "Stretches that no word describes",
                "accesss",
            )
            assert not any(words in said_by for words in amiss)
        code, output, _ = run(capsys, str(paths[name]), "--accesses", "--against", str(paths["other"]))
        assert (code, " has different classes." in output) == (4, True)


def test_no_structure_is_inadequate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "noise.txt"
    path.write_text("".join(f"{symbol}\n" for symbol in np.random.default_rng(5).choice(list("abcdef"), 300)))
    code, output, _ = run(capsys, str(path), "--accesses")
    assert code == 4
    assert "inadequate" in output or "nothing in it recurs" in output


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["nowhere"], "nowhere"),
        (["nowhere.txt", "--accesses"], "cannot read the file as text (No such file or directory)"),
        (
            ["RUN", "--classes", "many"],
            "--classes many: give K, or one of quantiles:K, ranges:K, most-used:K, where K is a whole "
            "number, 1 or more",
        ),
        (["RUN", "--classes", "0"], "--classes 0"),
        (["RUN", "--dwell", "0"], "--dwell 0"),
        (["RUN", "--longest", "65"], "from 2 to 64"),
        (["RUN", "--bound", "-1"], "0 or more"),
        (["RUN", "--accesses", "--on", "x"], "accesses have no metrics"),
        (["RUN", "--on", "perf::three"], "perf::three"),
        (["RUN", "--on", ""], "the argument after '--on' is empty"),
        ([__file__], "to read a text file of accesses, add --accesses"),
        (["RUN", "--html", "/nowhere/page.html"], "the folder /nowhere does not exist"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    runs: tuple[str, str, str], capsys: pytest.CaptureFixture[str], words: list[str], fault: str
) -> None:
    code, _, error = run(capsys, *(runs[0] if word == "RUN" else word for word in words))
    assert code == 2
    assert fault in error
