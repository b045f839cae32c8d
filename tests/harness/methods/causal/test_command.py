"""`unperturbed model`: tables and sweeps, what is known beforehand, interventions, what it writes, bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unperturbed.collectors.data import SweepColumn, read_sweep, write_sweep
from unperturbed.harness.cli import main

TIERS = "n,datatype / instr / cycles / time"
FAST = ("--subsamples", "2")


def draw(rows: int = 150, seed: int = 3) -> dict[str, Any]:
    """Return runs whose time is n² times the cycles of an operation, and whose cycles come from instructions."""
    chance = np.random.default_rng(seed)
    n = chance.integers(5, 301, rows)
    kind = chance.integers(0, 2, rows)
    instr = np.where(kind == 1, 30.0, 50.0) + chance.normal(size=rows)
    cycles = 1.5 * instr + 0.3 * chance.normal(size=rows)
    datatype = [("float", "int")[one] for one in kind]
    return {"n": n, "datatype": datatype, "instr": instr, "cycles": cycles, "time": n * cycles / 1e6}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["model", *words])
    captured = capsys.readouterr()
    # The first use on a machine compiles, and says so.
    errors = [line for line in captured.err.splitlines(keepends=True) if not line.startswith("  compiling ")]
    return code, captured.out, "".join(errors)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, output, error = run(capsys, *words, *FAST, "--json")
    assert code == 0, error
    found: dict[str, Any] = json.loads(output)
    return found


def arrows(found: dict[str, Any]) -> set[tuple[str, str]]:
    return {(edge["source"], edge["target"]) for edge in found["edges"] if edge["directed"]}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tables") / "runs.csv"
    pl.DataFrame(draw()).write_csv(path)
    return str(path)


TRUE = {("datatype", "instr"), ("instr", "cycles"), ("n", "time"), ("cycles", "time")}


def test_edges_formulas_and_an_intervention_are_shown(
    table: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    dot, graphml, page = (tmp_path / f"model.{suffix}" for suffix in ("dot", "graphml", "html"))
    files = ("--dot", str(dot), "--graphml", str(graphml), "--html", str(page))
    code, output, error = run(capsys, table, "--tiers", TIERS, "--do", "n=100,datatype=int", *files, *FAST)
    assert (code, error) == (0, "")
    assert "runs.csv: 150 rows of 5 variables (1 discrete, 4 continuous) give 4 edges." in output
    for source, target in TRUE:
        assert f"{source} → {target}" in output
    assert "time = 1e-06·n·cycles" in output or "time = 1e-06·cycles·n" in output
    assert "n and datatype are independent" in output
    assert "setting n = 100, datatype = int" in output
    time = next(line for line in output.split("setting n = 100")[1].splitlines() if line.strip().startswith("time"))
    assert float(time.split()[1]) == pytest.approx(100 * 1.5 * 30 / 1e6, rel=0.02)
    assert dot.read_text().startswith("digraph")
    assert "<graphml" in graphml.read_text()
    assert "svg" in page.read_text()


def test_the_first_lines_say_how_the_table_was_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    columns = draw(80)
    path = tmp_path / "runs.csv"
    rows = zip(*columns.values(), strict=True)
    lines = [
        f"{n};{kind};{instr:.3f};{'<not counted>' if at == 3 else f'{cycles:.3f}'.replace('.', ',')};{time * 1e3} ms"
        for at, (n, kind, instr, cycles, time) in enumerate(rows)
    ]
    path.write_text("\n".join((";".join(columns), *lines)), encoding="utf-16")
    code, output, error = run(capsys, str(path), *FAST)
    assert (code, output) == (2, "")
    assert f"{path}:5:" in error
    assert 'the first missing value is here (cycles: 1 × "<not counted>")' in error
    code, output, error = run(capsys, str(path), "--missing", "drop", *FAST)
    assert (code, error) == (0, "")
    assert output.splitlines()[:5] == [
        "runs.csv: read as 80 rows of 5 columns; separated by semicolons; names in line 1; read as UTF-16",
        "  numbers: n, instr, cycles (commas as decimal signs), time (ms)",
        "  categories (how many): datatype (2)",
        '  missing values: cycles: 1 × "<not counted>"',
        next(line for line in output.splitlines() if "79 rows of 5 variables" in line),
    ]
    found = told(capsys, str(path), "--missing", "drop")
    assert [column["what"] for column in found["columns"]] == ["numbers", "categories", "numbers", "numbers", "numbers"]
    assert found["columns"][3]["missing"] == {"<not counted>": 1}


def test_a_table_without_names_keeps_its_first_row(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    pl.DataFrame(draw(80)).write_csv(path, include_header=False)
    code, output, _ = run(capsys, str(path), "--variables", "column_3,column_4", *FAST)
    assert (code, "80 rows of 2 variables" in output) == (0, True)
    assert "the first line has values, so columns are named column_1, column_2" in output.splitlines()[0]


def test_json_has_all_of_it(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, table, "--tiers", TIERS, "--do", "datatype=float", "--seed", "7")
    assert arrows(found) == TRUE
    assert found["settings"]["seed"] == 7
    assert found["knowledge"]["tiers"] == [["n", "datatype"], ["instr"], ["cycles"], ["time"]]
    (cycles,) = [one for one in found["forecast"]["variables"] if one["name"] == "cycles"]
    assert cycles["mean"] == pytest.approx(75, abs=1)
    assert cycles["low"] < 75 < cycles["high"]
    assert found["undecided"] == []


def test_a_knowledge_file_says_the_same_as_options(
    table: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "known.yaml"
    path.write_text(
        "tiers: [[n, datatype], [instr], [cycles], [time]]\n"
        "required: [n -> time]\n"
        "forbidden: [datatype -> cycles]\n"
        "derive: {bytes: \"{'float': 4, 'int': 8}[datatype]\", total: n * instr}\n"
        "kinds: {bytes: discrete}\n"
        "variables: [n, datatype, instr, cycles, time, total]\n"
    )
    found = told(capsys, table, "--knowledge", str(path))
    assert {("n", "total"), ("instr", "total")} <= arrows(found)
    assert found["knowledge"]["forbidden"] == [["datatype", "cycles"]]
    assert found["derived"]["total"] == "n * instr"
    (edge,) = [edge for edge in found["edges"] if (edge["source"], edge["target"]) == ("n", "time")]
    assert edge["required"]
    assert {"name": "bytes", "why": "not requested"} in found["left_out"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("tiers: n", "known.yaml:1:8: `tiers` must be a list of lists of names"),
        ("tiers: [[n], [5]]", 'known.yaml:1:15: expected a column\'s name: quote it, "5"'),
        ("tiers: [[n, n]]", "known.yaml:1:13: n appears twice in this list"),
        ("required:\n  - n time", "known.yaml:2:5: expected an edge, the cause first: datatype -> C"),
        ("\nrequires: [n -> time]", "known.yaml:2:11: unknown key `requires`; did you mean `required`?"),
        ("kinds: {n: number}", "known.yaml:1:12: the kind must be `discrete` or `continuous`"),
        (
            "forbidden: [n -> tine]",
            "known.yaml:1:13: `forbidden`: the table has no column 'tine'; did you mean 'time'?",
        ),
        ("derive: {x: n +}", "known.yaml:1:13: x: expression 'n +'"),
        ("# nothing\n", "known.yaml: the file is empty, or has only comments"),
        ("derive: {x: [n]}", "known.yaml:1:13: expected an expression"),
        ("[n]", "known.yaml:1:1: a knowledge file must be a mapping with keys from"),
        ("tiers: [[n]", "known.yaml:1:8: the list that starts here is not closed"),
        (
            "required: [n -> time]\nforbidden: [n -> time]",
            "known.yaml: the edge from n to time is required but impossible",
        ),
        ("required: [n -> time, time -> n]", "required"),
        ("tiers: !!python/object:os.system [[n]]", "the YAML tag"),
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


def test_derived_variables_and_logarithms(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs = ("--log", "n,cycles,time", "--tiers", "n,datatype / instr / cycles / time")
    found = told(capsys, table, *logs, "--variables", "n,datatype,instr,cycles,time", "--do", "n=100")
    assert ("log_n", "log_time") in arrows(found)
    assert found["forecast"]["set"]["log_n"] == pytest.approx(np.log(100))
    (mechanism,) = [one for one in found["mechanisms"] if one["target"] == "log_time"]
    assert {"log_n", "log_cycles"} <= set(mechanism["used"])
    code, _, error = run(capsys, table, *logs, "--do", "n=-1")
    assert (code, "give a number above 0" in error) == (2, True)


def test_what_a_part_is_missing_of_is_learnt_and_not_taken_for_granted(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    derive = ("--derive", "per_n = time / n")
    found = told(
        capsys, table, *derive, "--variables", "n,datatype,instr,per_n", "--tiers", "n,datatype / instr / per_n"
    )
    assert ("n", "per_n") not in arrows(found)
    assert found["knowledge"]["definitions"] == {}
    assert any("whether per_n is an effect of n is learnt" in note for note in found["notes"])
    whole = told(capsys, table, *derive, "--variables", "n,time,per_n")
    assert {("n", "per_n"), ("time", "per_n")} <= arrows(whole)
    assert all(edge["definitional"] for edge in whole["edges"] if edge["target"] == "per_n")


def test_open_directions_are_said_and_cannot_be_set(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(capsys, table, "--variables", "instr,cycles", *FAST)
    assert code == 0
    assert "instr — cycles" in output
    assert "undecided" in output
    assert "knowledge and data leave it undirected" in output
    code, _, error = run(capsys, table, "--variables", "instr,cycles", "--do", "instr=3", *FAST)
    assert code == 2
    assert "the direction of the edge instr — cycles is open" in error


def test_constants_duplicates_and_missing_values(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    columns = draw(80)
    gaps = columns["instr"].tolist()
    gaps[3] = None
    frame = pl.DataFrame({**columns, "instr": gaps, "host": ["one"] * 80, "again": columns["n"]})
    path = tmp_path / "runs.parquet"
    frame.write_parquet(path)
    code, _, error = run(capsys, str(path), *FAST)
    assert (code, "instr (1 of 80 rows, first row 3)" in error) == (2, True)
    code, output, _ = run(capsys, str(path), "--missing", "drop", *FAST)
    assert code == 0
    assert "1 row dropped because of missing values: instr (1)" in output
    assert "host: constant: always one" in output
    assert "again: duplicate of n" in output


EVENTS = ("Ir", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw")


def simulated(name: str, *events: str, unit: str = "events") -> SweepColumn:
    return SweepColumn(name, "simulated", unit, "callgrind", components=tuple(f"callgrind:{event}" for event in events))


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("sweep")
    drawn = draw(120)
    chance = np.random.default_rng(5)
    total = drawn["n"] * drawn["instr"] * 100
    misses = 3.0 * drawn["n"] + chance.normal(size=120)
    more = misses + 10 + chance.normal(size=120)
    frame = pl.DataFrame(
        {
            "n": drawn["n"],
            "datatype": drawn["datatype"],
            "time_s": drawn["time"],
            "PAPI_TOT_INS": total,
            "PAPI_TOT_CYC": total + 10 * more,
            "PAPI_L1_TCM": more,
            "PAPI_L1_DCM": misses,
            "cycles_n": (total + 10 * more) / drawn["n"],
            "instr_n": total / drawn["n"],
        }
    )
    columns = [
        SweepColumn("n", "parameter"),
        SweepColumn("datatype", "parameter"),
        SweepColumn("time_s", "time", "s"),
        simulated("PAPI_TOT_INS", "Ir"),
        simulated("PAPI_TOT_CYC", *EVENTS, unit="cycles"),
        simulated("PAPI_L1_TCM", "I1mr", "D1mr", "D1mw"),
        simulated("PAPI_L1_DCM", "D1mr", "D1mw"),
        SweepColumn(
            "cycles_n", "derived", meaning="simulated: PAPI_TOT_CYC / n", components=simulated("", *EVENTS).components
        ),
        SweepColumn("instr_n", "derived", meaning="simulated: PAPI_TOT_INS / n", components=("callgrind:Ir",)),
    ]
    write_sweep(folder, frame, columns, {"name": "small"})
    return str(folder)


def test_rows_that_a_sweep_lacks_are_told_of(sweep: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    frame, columns = read_sweep(sweep)
    missing = [{"point": point, "repetition": 1, "why": "it hangs"} for point in range(3, 10)]
    write_sweep(tmp_path, frame, list(columns.values()), {"name": "part", "missing": missing})
    found = told(capsys, str(tmp_path))
    assert found["notes"][0].startswith(
        "The sweep is not complete: its table lacks 7 rows (points 3, 4, 5, 6, 7, …, counted from 1; first "
        "reason: it hangs)."
    )
    assert not any("not complete" in note for note in told(capsys, sweep)["notes"])


def test_a_forecast_beyond_what_was_measured_says_so(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, output, _ = run(capsys, table, "--tiers", TIERS, "--do", "n=1e6,datatype=int", *FAST)
    assert "n = 1e6 is outside the measured range" in output
    assert not told(capsys, table, "--tiers", TIERS, "--do", "n=100,datatype=int")["forecast"]["outside"]


def test_simulated_cycles_are_left_out_of_a_sweep_by_name(sweep: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, sweep)
    why = {one["name"]: one["why"] for one in found["left_out"]}
    assert why["PAPI_TOT_CYC"].startswith("simulated cycles are not measured but computed from Ir, I1mr,")
    assert why["cycles_n"] == "computed from the simulated cycles PAPI_TOT_CYC"
    assert "computed from the same events as PAPI_L1_DCM (D1mr, D1mw)" in why["PAPI_L1_TCM"]
    assert set(why) == {"PAPI_TOT_CYC", "cycles_n", "PAPI_L1_TCM"}
    assert found["knowledge"]["inputs"] == ["n", "datatype"]
    assert found["knowledge"]["outputs"] == ["time_s"]
    assert found["knowledge"]["definitions"] == {"instr_n": ["PAPI_TOT_INS", "n"]}
    assert any(note == "Simulated, not counted by a processor: PAPI_TOT_INS, PAPI_L1_DCM." for note in found["notes"])
    assert not any(target in ("n", "datatype") for _, target in arrows(found))
    code, output, _ = run(capsys, f"{sweep}/table.csv", *FAST)
    assert code == 0
    assert "PAPI_TOT_CYC: simulated cycles are not measured" in output


def test_of_sums_of_simulated_events_the_one_that_is_asked_for_stays(
    sweep: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, sweep, "--variables", "n,PAPI_L1_TCM,time_s")
    assert [one["name"] for one in found["variables"]] == ["n", "PAPI_L1_TCM", "time_s"]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (
            ["--variables", "n,PAPI_TOT_CYC,time_s"],
            "PAPI_TOT_CYC cannot be a variable of a model: simulated cycles are not measured",
        ),
        (["--derive", "CPI = PAPI_TOT_CYC / PAPI_TOT_INS"], "PAPI_TOT_CYC cannot be part of a model: simulated cycles"),
    ],
)
def test_simulated_cycles_cannot_be_asked_for(
    sweep: str, capsys: pytest.CaptureFixture[str], words: list[str], fault: str
) -> None:
    code, _, error = run(capsys, sweep, *words)
    assert code == 2
    assert fault in error


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["nowhere.csv"], "nowhere.csv: no such table"),
        (["TABLE", "--tiers", "n,nn / time"], "`tiers`: the table has no column 'nn'"),
        (["TABLE", "--tiers", "n, / time"], "--tiers: a name is missing"),
        (["TABLE", "--tiers", "n / n"], "n is in tier 1 and in tier 2"),
        (["TABLE", "--require", "n"], "--require n: write CAUSE->EFFECT"),
        (["TABLE", "--require", "n->time->instr"], "write CAUSE->EFFECT"),
        (["TABLE", "--require", "n->time,time->n"], "the edge from n to time is required but impossible"),
        (["TABLE", "--require", "n->time,time->instr,instr->n"], "required edges form a cycle"),
        (["TABLE", "--kinds", "n=numeric"], "the kind of n must be `discrete` or `continuous`, not 'numeric'"),
        (["TABLE", "--kinds", "n"], "--kinds n: write NAME=VALUE"),
        (["TABLE", "--kinds", "datatype=continuous"], "datatype is text and cannot be continuous"),
        (["TABLE", "--derive", "n + 1"], "is not a definition"),
        (["TABLE", "--derive", "x = __import__('os')"], "x"),
        (["TABLE", "--derive", "x = 1 / (n - n)"], "character"),
        (["TABLE", "--log", "datatype"], "datatype"),
        (["TABLE", "--variables", "n,n"], "n is named twice"),
        (["TABLE", "--alpha", "2"], "--alpha 2"),
        (["TABLE", "--seed", "-1"], "--seed -1"),
        (["TABLE", "--subsamples", "-1"], "--subsamples -1"),
        (["TABLE", "--html", "/nowhere/page.html"], "the folder /nowhere does not exist"),
        (["TABLE", "--do", "n"], "--do n: write NAME=VALUE"),
        (["TABLE", "--tiers", TIERS, "--do", "n=many", *FAST], "--do n=many: expected a number"),
        (
            ["TABLE", "--tiers", TIERS, "--do", "datatype=short", *FAST],
            "never has this value in the table; use one of float, int",
        ),
        (["TABLE", "--tiers", TIERS, "--do", "size=3", *FAST], "size"),
        (["TABLE", "--knowledge", "nowhere.yaml"], "nowhere.yaml: no such file"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    table: str, capsys: pytest.CaptureFixture[str], words: list[str], fault: str
) -> None:
    code, output, error = run(capsys, *(table if word == "TABLE" else word for word in words))
    assert (code, output) == (2, "")
    assert fault in error


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.csv", "", "a.csv: the file has no rows: expected one row per run"),
        ("a.csv", " ,\n,\n", "a.csv: all cells are blank"),
        ("a.csv", "x,y\n1,2\0\n", "a.csv:2: the line has a zero byte"),
        ("a.csv", "x,y\n1,2\n", "no column of the table can be analysed"),
        ("a.csv", "x,y\n1,2,3\n", "a.csv:2:5: the line has 3 fields, but the table has 2 columns"),
        (
            "a.csv",
            "x,y\n1,2\n,5\n3,?\n",
            'a.csv:3:1: the first missing value is here (x: 1 × blank, y: 1 × "?"): values are missing',
        ),
        ("a.json", '[{"x": 1},', "a.json:1:11: not JSON"),
        ("a.json", '{"x": 1}', "a.json: no table: expected a list of records"),
        ("a.parquet", "no parquet", "not a readable Parquet file"),
    ],
)
def test_what_is_no_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, content: str, fault: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    code, _, error = run(capsys, str(path))
    assert code == 2
    assert fault in error


def test_a_folder_without_a_table_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, error = run(capsys, str(tmp_path))
    assert (code, "the folder has no table" in error) == (2, True)


def test_odd_names_stand_in_backquotes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    columns = draw(80)
    frame = pl.DataFrame(
        {"a,b/c->d": columns["n"], "perf::cycles:u": columns["n"] * 3.0 + np.random.default_rng(1).normal(size=80)}
    )
    path = tmp_path / "odd.csv"
    frame.write_csv(path)
    found = told(capsys, str(path), "--tiers", "`a,b/c->d` / perf::cycles:u", "--require", "`a,b/c->d`->perf::cycles:u")
    assert arrows(found) == {("a,b/c->d", "perf::cycles:u")}


def test_the_papers_thresholds_can_be_asked_for(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, table, "--method", "paper", "--tiers", TIERS)
    assert found["settings"]["test"] == "paper"
    assert ("instr", "cycles") in arrows(found)
