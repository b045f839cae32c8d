"""`unperturbed model`: derivatives, curves, checks, forecasts of logarithms; in text, JSON and on the page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.harness.methods.causal.test_command import FAST, TIERS, arrows, draw, run, told
from unperturbed.harness.cli import main
from unperturbed.harness.methods.causal.knowledge import (
    CurveOption,
    DerivativeOption,
    read_curve,
    read_derivative,
    with_option_names,
)

SIZES = {"short": 2, "int": 4, "float": 4, "double": 8, "long": 8, "longdouble": 12}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tables") / "runs.csv"
    pl.DataFrame(draw(80)).write_csv(path)
    return str(path)


@pytest.fixture(scope="module")
def codecs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Pairs of runs, the same image by two kernels; the slower costs 3 ns a pixel more at high precision, 1 at low."""
    chance = np.random.default_rng(7)
    size = np.repeat(chance.integers(100, 5000, 70), 2)
    precision = np.repeat(chance.choice(["low", "high"], 70), 2)
    kernel = np.tile(["5/3", "9/7"], 70)
    more = np.where(precision == "high", 3.0, 1.0) * (kernel == "9/7")
    cost = 10 + 2 * (precision == "high") + more + 0.05 * chance.normal(size=140)
    columns = {"image size": size, "precision": precision, "kernel": kernel, "T": size * cost, "host": ["one"] * 140}
    frame = pl.DataFrame(columns)
    path = tmp_path_factory.mktemp("tables") / "codecs.csv"
    # A run whose partner failed, and one whose time is lost.
    frame[:-1].with_columns(T=pl.when(pl.int_range(139) == 4).then(None).otherwise("T")).write_csv(path)
    return str(path)


@pytest.fixture(scope="module")
def lu(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Runs as in section 8.3: misses jump by an element's share of a line, where n² elements fill the cache."""
    chance = np.random.default_rng(1)
    n, datatype = chance.integers(5, 301, 300), chance.choice(list(SIZES), 300)
    size = np.array([SIZES[one] for one in datatype])
    misses = np.where(n**2 * size > 2**18, size / 64, 0) + chance.normal(0, 0.003, 300)
    path = tmp_path_factory.mktemp("tables") / "lu.csv"
    pl.DataFrame({"n": n, "datatype": datatype, "elementsize": size, "L2M": misses}).write_csv(path)
    return str(path)


COST = ("--derive", "cost = T / `image size`")
GAIN = ("--derivative", "gain = d cost / d kernel from 5/3 to 9/7")
VARIED = ("--inputs", "image size,precision,kernel", "--missing", "drop")


def gains(found: dict[str, Any]) -> dict[str, float]:
    (mechanism,) = [one for one in found["mechanisms"] if one["target"] == "gain"]
    return {one["where"][0]["precision"]: one["value"] for one in mechanism["parameters"]}


def test_what_the_effect_of_a_parameter_depends_on(codecs: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("--variables", "image size,precision,gain")
    found = told(capsys, codecs, *COST, *GAIN, *VARIED, *names)
    assert arrows(found) == {("precision", "gain")}
    assert found["rows"] == 68
    assert found["derived"]["gain"] == "∂cost/∂kernel"
    assert found["knowledge"]["outputs"] == ["gain"]
    (note,) = found["notes"]
    assert note.startswith(
        "Each row is a step of kernel, image size, precision held fixed: 68 steps give gain; values are averaged over"
    )
    assert "because no other row differs from them in kernel alone: 2 (row numbers, counted from 0: 5, 138)" in note
    assert "because they lack a value of a parameter or of a differentiated quantity: 1 (" in note
    assert {"name": "kernel", "why": "all steps are from 5/3 to 9/7"} in found["left_out"]
    assert gains(found) == pytest.approx({"high": 3, "low": 1}, abs=0.1)
    # The other way round it is a loss.
    back = told(capsys, codecs, *COST, "--derivative", "gain = d cost / d kernel from 9/7 to 5/3", *VARIED, *names)
    assert gains(back) == pytest.approx({"high": -3, "low": -1}, abs=0.1)


def test_a_knowledge_file_has_derivatives_and_tiers_say_what_was_varied(
    codecs: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "known.yaml"
    path.write_text(
        "tiers: [[image size, precision, kernel], [cost]]\nderive: {cost: T / `image size`}\n"
        "derivatives: {gain: d cost / d kernel, more T: d T / d kernel}\nvariables: [precision, gain, more T]\n"
    )
    found = told(capsys, codecs, "--knowledge", str(path), "--missing", "drop")
    assert ("precision", "gain") in arrows(found)
    assert [one["name"] for one in found["variables"]] == ["precision", "gain", "more T"]


def test_jump_and_threshold_of_a_curve_become_variables(
    lu: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "lu.html"
    words = (
        "--curve",
        "L2M over n in datatype",
        "--kinds",
        "elementsize=continuous",
        "--variables",
        "elementsize,L2M_jump_of_n",
    )
    found = told(capsys, lu, *words, "--html", str(page))
    assert (found["rows"], arrows(found)) == (6, {("elementsize", "L2M_jump_of_n")})
    (mechanism,) = [one for one in found["mechanisms"] if one["target"] == "L2M_jump_of_n"]
    (slope,) = [one for one in mechanism["parameters"] if one["name"] == "coefficient of elementsize"]
    assert slope["value"] == pytest.approx(1 / 64, rel=0.25)
    (curve,) = found["curves"]
    jumps = {one["datatype"]: one for one in curve["parameters"] if one["parameter"] == "L2M_jump_of_n"}
    assert jumps["double"]["low"] < 8 / 64 < jumps["double"]["high"]
    assert (
        found["notes"][0]
        == "Each row is a cell of datatype: 6 cells from 300 runs, each with the parameters of its curve of L2M over n."
    )
    assert found["notes"][1].startswith(
        "Parameters that the runs of some cells do not determine (number of cells): L2M_threshold_of_n (1)"
    )
    assert "The curves behind these parameters" in page.read_text()
    code, output, _ = run(capsys, lu, *words, *FAST)
    assert code == 0
    assert "95% confidence" in output
    assert "longdouble" in output


def test_the_threshold_of_some_types_is_unknown_and_their_rows_can_be_dropped(
    lu: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--curve", "L2M over n in datatype", "--kinds", "elementsize=continuous", "--variables")
    names = "elementsize,L2M_threshold_of_n"
    code, _, error = run(capsys, lu, *words, names, *FAST)
    assert "The table of cells has the columns datatype, elementsize, L2M_jump_of_n, L2M_threshold_of_n" in error
    assert (code, "L2M_threshold_of_n (1 of 6 rows" in error, "pass `--missing drop` to analyse" in error) == (
        2,
        True,
        True,
    )
    assert told(capsys, lu, *words, names, "--missing", "drop")["rows"] == 5


def test_the_markov_check_and_screening_off(table: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = (
        "--check-markov",
        "--screens-off",
        "datatype | instr | cycles",
        "--screens-off",
        "n|datatype|time",
        "--seed",
        "4",
    )
    found = told(capsys, table, "--tiers", TIERS, *asked, "--html", str(page))
    assert found["markov"]["refuted"] == sum(one["refuted"] for one in found["markov"]["claims"]) == 0
    assert {"one": "cycles", "other": "datatype", "given": ["instr"]}.items() <= max(
        found["markov"]["claims"], key=lambda one: (one["one"], one["other"]) == ("cycles", "datatype")
    ).items()
    assert len(found["markov"]["permuted_shares"]) == 20
    assert found["markov"]["permutation_p_value"] < 0.2
    assert found["markov"]["seed"] == 4
    holds, fails = found["screens_off"]
    assert (holds["application"], holds["by"], holds["performance"], holds["holds"]) == (
        ["datatype"],
        ["instr"],
        ["cycles"],
        True,
    )
    assert holds["pairs"][0]["p_value_without"] < 0.001
    assert (fails["holds"], fails["pairs"][0]["refuted"]) == (False, True)
    written = page.read_text()
    assert "Does the model agree with the data?" in written
    assert "refuted by 1 of 1 pairs: the claim that datatype screens n off from time" in written
    code, output, _ = run(capsys, table, "--tiers", TIERS, *asked, *FAST)
    assert code == 0
    assert "Markov check\n  The graph claims " in output
    assert "none is refuted" in output
    assert "screening off\n  not refuted: instr screens datatype off from cycles" in output


def test_independences_that_the_graph_implies(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = (
        "--separated",
        "datatype | cycles | instr",
        "--separated",
        "datatype|cycles",
        "--separated",
        "n | datatype",
    )
    found = told(capsys, table, "--tiers", TIERS, *asked)["separated"]
    assert [one["separated"] for one in found] == [True, False, True]
    assert (found[0]["one"], found[0]["other"], found[0]["given"]) == ("datatype", "cycles", ["instr"])
    code, output, _ = run(capsys, table, "--tiers", TIERS, *asked, *FAST)
    assert code == 0
    assert (
        "implied independence\n"
        "  the graph implies that datatype and cycles are independent given instr\n"
        "  datatype and cycles may be dependent: the graph does not imply that they are independent\n"
        "  the graph implies that n and datatype are independent\n"
    ) in output
    # Of columns whose logarithms are analysed, the variables are these.
    found = told(capsys, table, "--tiers", TIERS, "--log", "n,cycles,time", "--separated", "time | n | cycles")
    assert (found["separated"][0]["one"], found["separated"][0]["given"]) == ("log_time", ["log_cycles"])


def test_an_edge_that_is_forbidden_is_missed_by_the_markov_check(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, _ = run(capsys, table, "--tiers", TIERS, "--forbid", "n->time", "--check-markov", *FAST)
    assert code == 0
    assert "Refuted: time ⊥ n | " in output


def test_a_forecast_of_logarithms_says_the_values_too(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--log", "n,cycles,time", "--tiers", TIERS, "--do", "n=100,datatype=int")
    found = told(capsys, table, *words)["forecast"]
    told_of = {one["name"]: one for one in found["variables"]}
    assert told_of["time"]["logarithm"] == "log_time"
    assert told_of["time"]["mean"] == pytest.approx(100 * 1.5 * 30 / 1e6, rel=0.02)
    assert told_of["time"]["low"] == pytest.approx(math.exp(told_of["log_time"]["low"]))
    assert told_of["time"]["high"] == pytest.approx(math.exp(told_of["log_time"]["high"]))
    assert (told_of["n"]["mean"], told_of["n"]["set"]) == (pytest.approx(100), True)
    code, output, _ = run(capsys, table, *words, *FAST)
    assert code == 0
    assert "setting n = 100, datatype = int" in output
    rows = [line.split() for line in output.split("setting n = 100")[1].splitlines()]
    assert [row[0] for row in rows if row and row[0].endswith("time")] == ["log_time", "time"]


def test_repetitions_of_points_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    columns = draw(30)
    frame = pl.concat([pl.DataFrame({**columns, "time": columns["time"] * (1 + 1e-3 * again)}) for again in range(3)])
    path = tmp_path / "repeated.csv"
    frame.write_csv(path)
    found = told(capsys, str(path), "--inputs", "n,datatype", "--variables", "n,datatype,time")
    assert any(note.startswith("The 90 rows have only 30 different points of n, datatype.") for note in found["notes"])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("d T / d kernel", DerivativeOption("T", "kernel")),
        ("d T/d n from 5 to 1e3", DerivativeOption("T", "n", ("5", "1e3"))),
        ("∂T / ∂`a / b`", DerivativeOption("T", "a / b")),
        (
            "d `run time` / d `image size` from `a to b` to c",
            DerivativeOption("run time", "image size", ("a to b", "c")),
        ),
    ],
)
def test_derivatives_are_read(text: str, read: DerivativeOption) -> None:
    assert read_derivative(text, "") == read


def test_curves_are_read() -> None:
    assert read_curve("C over instr, L2M in datatype,`in a`", "") == CurveOption(
        "C", ("instr", "L2M"), ("datatype", "in a")
    )
    assert read_curve("turnover over n in linked", "") == CurveOption("turnover", ("n",), ("linked",))


D = "--derivative"
INPUTS = ("--inputs", "n,datatype")


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ([D, "gain"], "--derivative gain: write NAME = d COLUMN / d PARAMETER"),
        ([D, "gain = time / n"], "write NAME = d COLUMN / d PARAMETER"),
        ([D, "gain = d time / d n from 5"], "the table has no column 'n from 5'"),
        ([D, "= d time / d n"], "a name is missing"),
        ([D, "g = d tine / d n", *INPUTS], "`derivatives`: the table has no column 'tine'; did you mean 'time'?"),
        (
            [D, "g = d time / d n"],
            "g: n is not a known input parameter (none is known): name all input parameters with --inputs",
        ),
        (
            [D, "g = d time / d instr", *INPUTS],
            "g: instr is not a known input parameter (the known ones are n, datatype)",
        ),
        (
            [D, "time = d instr / d n", *INPUTS],
            "the table already has a column time: give the derivative a different name",
        ),
        ([D, "g = d time / d n", D, "g = d instr / d n", *INPUTS], "g is given twice"),
        (
            [D, "g = d time / d n", D, "h = d time / d datatype", *INPUTS],
            "the derivatives g and h have different parameters: learn a separate model for each",
        ),
        (
            [D, "g = d time / d datatype from int to short", *INPUTS],
            "steps of datatype cannot be from 'int' to 'short': choose two different values from",
        ),
        (
            [D, "g = d datatype / d n", "--inputs", "n"],
            "datatype has type String, but only numbers have a derivative: choose a numeric column",
        ),
        (
            [D, "g = d time / d datatype", "--inputs", "n,datatype,instr"],
            "no two complete rows differ in datatype and agree in n, instr",
        ),
        (
            [D, "g = d time / d n", *INPUTS, "--curve", "time over n in datatype"],
            "a step between two values of a parameter, but with curves, each row is a combination of discrete values",
        ),
        (
            [D, "g = d time / d datatype", *INPUTS, "--variables", "g,datatype"],
            "`variables`: datatype cannot be a variable: all steps are from",
        ),
        (["--curve", "time over n"], "--curve time over n: write TARGET over NUMBER in DISCRETE"),
        (["--curve", "time in datatype over n"], "write TARGET over NUMBER in DISCRETE"),
        (
            ["--curve", "tine over n in datatype"],
            "a curve needs tine, but the table has no column 'tine'; did you mean 'time'?",
        ),
        (["--curve", "time over n in instr"], "instr is continuous and has no codes: pass `--kinds instr=discrete`"),
        (
            ["--curve", "time over n in datatype", "--curve", "time over datatype in n"],
            "the same discrete variables (after `in`), not datatype for one curve and n for another",
        ),
        (
            ["--curve", "time over n in datatype", "--variables", "time"],
            "`variables`: time cannot be a variable: varies within a cell",
        ),
        (["--screens-off", "n | time"], "write APPLICATION | CHARACTERISTICS | PERFORMANCE"),
        (["--screens-off", "n | | time"], "write APPLICATION | CHARACTERISTICS | PERFORMANCE"),
        (["--screens-off", "n | instr | n"], "n is in two parts"),
        (["--screens-off", "n | instrs | time", "--tiers", TIERS, *FAST], "no column 'instrs'; did you mean 'instr'"),
        (["--separated", "n"], "--separated n: write ONE | OTHER | GIVEN"),
        (["--separated", "n | time | "], "write ONE | OTHER | GIVEN"),
        (["--separated", "n,instr | time"], "expected one variable, not n and instr: give one pair"),
        (["--separated", "n | time | n"], "n is in two parts"),
        (["--separated", "n | tine | instr", "--tiers", TIERS, *FAST], "no column 'tine'; did you mean 'time'"),
        (["--inputs", "m"], "`inputs`: the table has no column 'm'"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    table: str, capsys: pytest.CaptureFixture[str], words: list[str], fault: str
) -> None:
    code, output, error = run(capsys, table, *words)
    assert (code, output) == (2, "")
    assert fault in error


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("derivatives: [g]", "known.yaml:1:14: `derivatives` must be a mapping of names to derivatives"),
        ("derivatives: {g: time / n}", "known.yaml:1:18: g time / n: write NAME = d COLUMN / d PARAMETER"),
        ("derivatives: {g: d tine / d n}", "known.yaml:1:18: `derivatives`: the table has no column 'tine'"),
        ("curves: [time of n]", "known.yaml:1:10: curves time of n: write TARGET over NUMBER in DISCRETE"),
    ],
)
def test_faults_of_a_knowledge_file_have_their_place(
    table: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, fault: str
) -> None:
    path = tmp_path / "known.yaml"
    path.write_text(content)
    code, output, error = run(capsys, table, "--knowledge", str(path))
    assert (code, output) == (2, "")
    assert fault in error


def test_advice_names_the_options() -> None:
    assert with_option_names("as in `between=('a', \"b's\")`") == "as in `from a to b's`"
    assert with_option_names('pass `missing="drop"` or `kinds={"n": "discrete"}`') == (
        "pass `--missing drop` or `--kinds n=discrete`"
    )


def test_simulated_cycles_have_no_derivative(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from unperturbed.collectors.data import SweepColumn, write_sweep

    frame = pl.DataFrame({"n": [1, 2, 3, 4], "PAPI_TOT_CYC": [10, 20, 30, 50], "time_s": [1.0, 2, 3, 5]})
    columns: list[Any] = [
        SweepColumn("n", "parameter"),
        SweepColumn("PAPI_TOT_CYC", "simulated", "cycles", "callgrind", components=("callgrind:Ir",)),
        SweepColumn("time_s", "time", "s"),
    ]
    write_sweep(tmp_path, frame, columns, {"name": "small"})
    for words in (["--derivative", "g = d PAPI_TOT_CYC / d n"], ["--curve", "PAPI_TOT_CYC over time_s in n"]):
        assert main(["model", str(tmp_path), *words]) == 2
        assert "simulated cycles" in capsys.readouterr().err
