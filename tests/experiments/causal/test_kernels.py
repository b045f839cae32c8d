"""Matrix multiplication and merge sort of the causal experiment: right in every data type, operations counted as
documented."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import pytest

from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.spec.sections.parameters import Listed

CAUSAL = Path(__file__).parents[3] / "experiments" / "causal"
DATATYPES = ("short", "int", "long", "float", "double", "longdouble")
WAYS = ("passes", "recursive")
SANITIZED = "CFLAGS=-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
KEEPING = {"ASAN_OPTIONS": "detect_leaks=0"}  # programs leave it to their end to give memory back


def _made(name: str, folder: Path, *arguments: str) -> Path:
    shutil.copytree(CAUSAL / "programs", folder)
    subprocess.run(["make", name, *arguments], cwd=folder, check=True, capture_output=True)
    return folder / name


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _made("matmul", tmp_path_factory.mktemp("kernels") / "matmul")


@pytest.fixture(scope="module")
def mergesort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _made("mergesort", tmp_path_factory.mktemp("kernels") / "mergesort")


def _run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)


def _drawn(count: int, below: int) -> list[int]:
    state, found = 20070611, []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        found.append((state >> 16) % below)
    return found


@pytest.mark.parametrize("name", ["matmul", "mergesort"])
def test_what_is_measured_is_measured_as_of_lu(name: str) -> None:
    spec, lu = load_spec(CAUSAL / f"{name}.yaml"), load_spec(CAUSAL / "lu.yaml")
    assert spec.parameters["datatype"] == Listed(DATATYPES) == lu.parameters["datatype"]
    assert set(lu.measure.hardware) < set(spec.measure.hardware)
    assert spec.measure.simulator == lu.measure.simulator
    assert spec.measure.derived == lu.measure.derived


@pytest.mark.parametrize("n", [2, 3, 64])
def test_every_data_type_finds_the_same_product(matmul: Path, n: int) -> None:
    said = {(done.stdout, done.stderr) for done in (_run(matmul, n, datatype, 1) for datatype in DATATYPES)}
    assert len(said) == 1
    assert said.pop()[0].split()[:2] == [str(n), "1"]


def test_the_product_is_that_of_the_naive_oracle(matmul: Path) -> None:
    n = 5
    elements = [one - 3 for one in _drawn(2 * n * n, 7)]
    weights = [one % 65536 for one in _drawn(2 * n * n + n, 65536)[2 * n * n :]]
    left, right = elements[0::2], elements[1::2]
    product = [[sum(left[i * n + k] * right[k * n + j] for k in range(n)) for j in range(n)] for i in range(n)]
    expected = sum((i + 1) * sum(product[i][j] * weights[j] for j in range(n)) for i in range(n))
    assert _run(matmul, n, "int", 1).stdout == f"{n} 1 {expected}\n"


@pytest.mark.parametrize("n", [2, 3, 5, 64, 1000])
def test_every_data_type_and_way_sorts_to_the_same(mergesort: Path, n: int) -> None:
    said = {
        (done.stdout, done.stderr)
        for done in (_run(mergesort, n, datatype, way, 1) for datatype in DATATYPES for way in WAYS)
    }
    assert len(said) == 1
    expected = sum((place % 97 + 1) * one for place, one in enumerate(sorted(_drawn(n, 30000))))
    assert said.pop() == (f"{n} 1 {expected}\n", "")


def _merged(n: int, way: str) -> int:
    if way == "passes":
        return n * math.ceil(math.log2(n))
    return 0 if n < 2 else n + _merged(n // 2, way) + _merged(n - n // 2, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n", [2, 37, 64])
def test_sorts_are_repeated_until_the_operations_are_done(mergesort: Path, n: int, way: str) -> None:
    assert _run(mergesort, n, "int", way, 5000).stdout.split()[1] == str(math.ceil(5000 / _merged(n, way)))


def test_products_are_repeated_until_the_operations_are_done(matmul: Path) -> None:
    assert _run(matmul, 10, "int", 5001).stdout.split()[1] == "6"


@pytest.mark.parametrize(
    ("name", "arguments"), [("matmul", ["17", "short", "1"]), ("mergesort", ["1000", "longdouble", "recursive", "1"])]
)
def test_nothing_is_touched_that_is_not_theirs(tmp_path: Path, name: str, arguments: list[str]) -> None:
    program = _made(name, tmp_path / name, SANITIZED)
    done = subprocess.run([program, *arguments], env=KEEPING, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "place", "wrong"),
    [
        ("matmul/multiply.h", "k < n; k++", "k < n - 1; k++"),
        ("mergesort/merge.h", "from[one] <= from[other]", "from[one] >= from[other]"),
        ("mergesort/merge.h", "to[place] = from[other++]", "to[place] = from[begin]"),
    ],
)
def test_a_wrong_result_is_noticed(tmp_path: Path, name: str, place: str, wrong: str) -> None:
    program = name.split("/", maxsplit=1)[0]
    shutil.copytree(CAUSAL / "programs", tmp_path / "programs")
    source = tmp_path / "programs" / name.partition("/")[2]
    text = source.read_text()
    assert place in text
    source.write_text(text.replace(place, wrong))
    subprocess.run(["make", program], cwd=tmp_path / "programs", check=True, capture_output=True)
    done = _run(tmp_path / "programs" / program, 50, "int", *(["passes"] if program == "mergesort" else []), 1)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{program}: these are not" if program == "mergesort" else f"{program}: this is not")


@pytest.mark.parametrize("arguments", [(), ("5",), ("1", "int"), ("5", "char"), ("5", "int", "0")])
def test_wrong_arguments_of_matmul_are_refused(matmul: Path, arguments: tuple[str, ...]) -> None:
    done = _run(matmul, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(("usage: matmul N", "matmul: the data types are short"))


@pytest.mark.parametrize(
    "arguments", [(), ("5", "int"), ("1", "int", "passes"), ("5", "int", "both"), ("5", "char", "passes")]
)
def test_wrong_arguments_of_mergesort_are_refused(mergesort: Path, arguments: tuple[str, ...]) -> None:
    done = _run(mergesort, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(("usage: mergesort N", "mergesort: the data types are short"))
