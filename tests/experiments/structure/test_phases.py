"""The phases of a program are found in its counters, and agree with its milestones: the experiment at a small size."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from experiments.structure import evaluate, milestones
from experiments.structure.evaluate import draw
from experiments.structure.milestones import PHASES, Program, adjusted_rand_index, score, truth_of
from unperturbed.analysis.structure import decompose, structural_sequence
from unperturbed.collectors.data import Metric, Trace
from unperturbed.harness.program.build import build_configuration
from unperturbed.harness.spec.load import load_spec

FOLDER = Path(__file__).parents[3] / "experiments" / "structure"
ORDER = FOLDER / "phases" / "make_order.py"
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all"
GOOD, USAGE, WRONG = 0, 2, 3


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("phases")
    for source in [*(FOLDER / "phases").glob("*.[ch]"), FOLDER / "phases" / "Makefile"]:
        (folder / source.name).write_bytes(source.read_bytes())
    command = ["make", "-j2", "CC=gcc", f"CFLAGS=-O1 -g -Werror {SANITIZERS}"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr) == (0, "")
    return folder / "phases"


def run(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)


def order_of(path: Path, words: int, seed: int, odd: float = 0.0) -> list[str]:
    """Make an order and return its phases."""
    command = [sys.executable, ORDER, "--words", str(words), "--seed", str(seed), "--odd", str(odd), path]
    subprocess.run(command, check=True)
    return [line.split()[0] for line in path.read_text().splitlines()]


def test_program_works_through_its_order_and_prints_what_came_of_it(program: Path, tmp_path: Path) -> None:
    order_of(tmp_path / "order.txt", 2, 1)
    first, second = (run(program, tmp_path / "order.txt") for _ in range(2))
    assert (first.returncode, first.stderr) == (GOOD, "")
    assert first.stdout == second.stdout
    assert first.stdout.strip().isdigit()


@pytest.mark.parametrize("line", ["rest 3", "chase", "chase -1", "chase 1 1", "chase 100001", "stream x"])
def test_orders_that_are_wrong_are_refused(program: Path, tmp_path: Path, line: str) -> None:
    (tmp_path / "order.txt").write_text(f"compute 1\n{line}\n")
    done = run(program, tmp_path / "order.txt")
    assert done.returncode == WRONG
    assert "order.txt:2: give chase, compute, sort or stream and an amount" in done.stderr


def test_program_says_how_to_use_it(program: Path, tmp_path: Path) -> None:
    assert run(program).returncode == USAGE
    assert "No such file" in run(program, tmp_path / "missing").stderr


def test_order_is_of_whole_words_but_for_phases_left_out(tmp_path: Path) -> None:
    words = PHASES.words
    phases = order_of(tmp_path / "order.txt", 30, 4)
    left = tuple(phases)
    while left:
        word = next(word for word in words if left[: len(word)] == word)
        left = left[len(word) :]
    odd = order_of(tmp_path / "order.txt", 30, 4, odd=0.1)
    assert len(phases) - 30 < len(odd) < len(phases)
    assert all(before != behind for before, behind in pairwise(odd))


@pytest.mark.usefixtures("loaded_wrapper")
@pytest.mark.parametrize("name", ["PHASES", "BLOCKSORT"])
def test_each_milestone_has_one_place_in_the_source(name: str, tmp_path: Path) -> None:
    chosen = getattr(milestones, name)
    spec = load_spec(FOLDER / f"{chosen.name}.yaml")
    assert spec.campaign.subsets == {"milestones": list(chosen.milestones)} or [*spec.campaign.subsets.values()] == [
        tuple(chosen.milestones)
    ]
    source = FOLDER / str(spec.program.source)
    built = build_configuration(spec.program, source, tmp_path / "00", spec.measure.software, spec_folder=FOLDER)
    assert built.sites == dict.fromkeys(chosen.milestones, 1)
    assert not built.skipped


def small_spec(folder: Path) -> Path:
    """Return the experiment's spec with fewer words, and so fewer intervals."""
    text = (FOLDER / "phases.yaml").read_text()
    for long, short in (
        ("source: phases", f"source: {FOLDER / 'phases'}"),
        ("--words 40", "--words 6"),
        ("{records: 900}", "{records: 100}"),
    ):
        assert text.count(long) == 1, long
        text = text.replace(long, short)
    spec = folder / "phases.yaml"
    spec.write_text(text)
    return spec


@pytest.mark.long
def test_phases_of_a_real_run_are_those_of_its_milestones(tmp_path: Path) -> None:
    campaign = evaluate.campaign_of(PHASES, tmp_path / "campaigns", small_spec(tmp_path))
    runs = evaluate.runs_of(campaign, PHASES)
    assert len(runs) == 3
    found = evaluate.analyse(PHASES, runs)
    scores = score(found.sequence, found.truth)
    assert scores.classes == 4
    assert scores.whole > 60
    assert (scores.right, scores.rand, scores.met, scores.spurious, scores.edits) == (1, 1, 1, 0, 0)
    for further in runs[1:]:
        alike = structural_sequence(further, classes=found.sequence.classes)
        again = score(alike, truth_of(further, PHASES))
        assert (again.right, again.met) == (1, 1)
    phases = [PHASES.phases.index(name) for name in _phases_in(campaign / "inputs" / "order.txt")]
    assert found.truth.order.tolist() == phases
    own = [PHASES.numbers(word) for word in PHASES.words]
    assert decompose(phases, own).cost <= 3  # phases that were left out
    draw(tmp_path / "phases.svg", found, evaluate.phase_of_classes(found))
    assert (tmp_path / "phases.svg").stat().st_size > 10_000


def _phases_in(order: Path) -> list[str]:
    return [line.split()[0] for line in order.read_text().splitlines()]


# The scores and tables


def trace_of(milestones: dict[str, list[int]], values: list[float]) -> Trace:
    metrics = [Metric("h", "hardware"), *(Metric(name, "software") for name in milestones)]
    ends = np.arange(1, len(values) + 1) * 10
    return Trace.from_columns(metrics, {"h": values, **milestones}, begin_ns=ends - 10, end_ns=ends)


def test_words_and_scores_are_in_the_text() -> None:
    rng = np.random.default_rng(1)
    places = {"a": "one", "b": "two", "c": "three"}
    program = Program("p", places, (("one", "two", "three", "two"),))
    order = np.repeat(np.tile([0, 1, 2, 1], 15), rng.integers(2, 6, 60))
    begins = np.append(True, order[1:] != order[:-1])
    marks = {name: (begins & (order == phase)).astype(int).tolist() for phase, name in enumerate(places)}
    found = evaluate.analyse(program, [trace_of(marks, (order * 1000.0).tolist())])
    assert " | ".join(evaluate.cells(score(found.sequence, found.truth))).startswith("3 | 100.0% of")
    assert ", one, two, three, two" in "\n".join(evaluate.words_table(found))
    assert "60 symbols" in evaluate.words_paragraph(found)


def test_milestones_tell_phases_from_the_interval_behind_them() -> None:
    program = Program("p", {"a": "one", "b": "two"}, (("one", "two"),))
    trace = trace_of({"a": [0, 1, 0, 0, 0, 0, 1, 0], "b": [0, 0, 0, 1, 0, 0, 1, 0]}, [0.0] * 8)
    truth = truth_of(trace, program)
    assert truth.labels.tolist() == [-1, -1, 0, -1, 1, 1, -1, 1]
    assert (truth.begins.tolist(), truth.order.tolist()) == ([1, 3, 6, 6], [0, 1, 0, 1])


def test_scores_of_a_good_and_a_bad_sequence() -> None:
    program = Program("p", {"a": "one", "b": "two"}, (("one", "two"),))
    a = [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    b = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    truth = truth_of(trace_of({"a": a, "b": b}, [0.0] * 12), program)
    good = score(structural_sequence([5, 5, 5, 5, 7, 7, 7, 7, 7, 5, 5, 5]), truth)
    assert (good.right, good.rand, good.met, good.off, good.spurious, good.phases, good.edits) == (1, 1, 1, 0, 0, 3, 0)
    bad = score(structural_sequence([5, 5, 5, 5, 5, 5, 7, 7, 7, 7, 5, 5]), truth)
    assert (bad.whole, bad.right) == (9, 7 / 9)
    assert (bad.met, bad.off, bad.spurious) == (0.0, 1, 2)


def test_adjusted_rand_index() -> None:
    labels = np.array([0, 0, 1, 1, 2, 2])
    assert adjusted_rand_index(labels, np.array([2, 2, 0, 0, 1, 1])) == 1
    # Hubert and Arabie's formula by hand: 2 pairs together in both, of 3 and 6 pairs, 15 in all.
    assert adjusted_rand_index(labels, np.array([0, 0, 0, 0, 1, 1])) == pytest.approx((3 - 21 / 15) / (5 - 21 / 15))
    assert adjusted_rand_index(np.zeros(4, int), np.zeros(4, int)) == 1
    rng = np.random.default_rng(0)
    assert abs(adjusted_rand_index(rng.integers(0, 3, 5000), rng.integers(0, 4, 5000))) < 0.01


def test_noise_is_added_to_counters_alone() -> None:
    ends = np.arange(1, 501) * 10
    metrics = [Metric("PAPI_TOT_INS", "simulated"), Metric("PAPI_L1_DCM", "simulated"), Metric("a", "software")]
    columns = {metric.name: np.full(500, 10_000) for metric in metrics}
    trace = Trace.from_columns(metrics, columns, begin_ns=ends - 10, end_ns=ends)
    noisy = evaluate.with_noise(trace, 0.1, 1)
    assert (noisy["PAPI_TOT_INS"] == 10_000).all()
    assert (noisy["a"] == 10_000).all()
    assert np.log(noisy["PAPI_L1_DCM"] / 10_000).std() == pytest.approx(0.1, rel=0.1)
