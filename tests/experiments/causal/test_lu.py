"""The LU decomposition of the causal experiment: right factors in every data type, and what its optimisation saves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.spec.sections.parameters import Between, Listed

CAUSAL = Path(__file__).parents[3] / "experiments" / "causal"
DATATYPES = ("short", "int", "long", "float", "double", "longdouble")


@pytest.fixture(scope="module")
def lu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lu") / "lu"
    shutil.copytree(CAUSAL / "programs", folder)
    subprocess.run(["make", "lu"], cwd=folder, check=True, capture_output=True)
    return folder / "lu"


def _run(lu: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([lu, *arguments], capture_output=True, text=True, check=False)


def test_the_spec_is_the_papers_experiment() -> None:
    spec = load_spec(CAUSAL / "lu.yaml")
    assert spec.parameters == {"n": Between(5, 300), "datatype": Listed(DATATYPES), "optimisation": Listed((0, 1))}
    assert spec.campaign.points == 400


@pytest.mark.parametrize("n", [2, 3, 5, 64, 300])
def test_every_data_type_finds_the_factors_and_says_the_same(lu: Path, n: int) -> None:
    said = {_run(lu, str(n), datatype, optimised, "1").stdout for datatype in DATATYPES for optimised in "01"}
    assert len(said) == 1
    assert said.pop().split()[:2] == [str(n), "1"]


@pytest.mark.parametrize(("n", "repeats"), [(5, 34), (20, 1), (10, 4)])
def test_it_is_repeated_until_the_operations_are_done(lu: Path, n: int, repeats: int) -> None:
    operations = n * (n - 1) * (2 * n - 1) // 6
    assert (repeats - 1) * operations < 1000 <= repeats * operations
    assert _run(lu, str(n), "int", "0", "1000").stdout.split()[1] == str(repeats)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
@pytest.mark.parametrize("datatype", ["short", "long", "double"])
def test_the_optimisation_saves_a_division_an_operation(lu: Path, datatype: str) -> None:
    counted = {}
    for optimised in "01":
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", lu, "40", datatype, optimised, "1"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        counted[optimised] = int(said.rpartition("Collected :")[2].split()[0])
    saved = (counted["0"] - counted["1"]) / (40 * 39 * 79 / 6)
    assert 1 <= saved <= 8


@pytest.mark.parametrize(
    "arguments", [(), ("5",), ("1", "int", "0"), ("5", "int", "2"), ("5", "char", "0"), ("5", "int", "0", "0")]
)
def test_wrong_arguments_are_refused(lu: Path, arguments: tuple[str, ...]) -> None:
    done = _run(lu, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(("usage: lu N", "lu: the data types are short"))
