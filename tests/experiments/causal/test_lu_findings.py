"""The findings on LU decomposition are what was planted in its table; pictures are self-contained; the page is
complete."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from experiments.causal import evaluate, figures
from experiments.causal.decomposition import claims as lu_claims
from experiments.causal.decomposition import equations, findings, models
from experiments.common import evaluation, tables
from unperturbed.analysis.causal import Knowledge, learn
from unperturbed.collectors.data import ColumnKind, SweepColumn, write_sweep
from unperturbed.harness.spec.load import load_spec

FOLDER = Path(__file__).parents[3] / "experiments" / "causal"
SIZES = {"short": 2, "int": 4, "float": 4, "long": 8, "double": 8, "longdouble": 16}
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Planted:
    """A system: cycles an instruction and a miss by data type, KiB of the cache, and whether its processor counts."""

    cpi: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(SIZES, 0.5))
    miss: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(SIZES, 100.0))
    cache: int = 256
    counts: bool = True


def _campaign(folder: Path, system: Planted, rows: int = 300, **changed: tuple[int, int]) -> Path:
    rng = np.random.default_rng(1)
    found: list[dict[str, Any]] = []
    for at in range(rows):
        n = int(rng.integers(20, 601))
        datatype = list(SIZES)[at % 6]
        optimisation = at // 6 % 2
        operations = 1_000_000
        misses = (SIZES[datatype] / 64 if n * n * SIZES[datatype] > system.cache * 1024 else 0.0) + 0.001 * float(
            rng.random()
        )
        instructions = 14 - 3 * optimisation
        cycles = (system.cpi[datatype] * instructions + system.miss[datatype] * misses) * float(1 + 0.01 * rng.normal())
        found.append(
            {
                "n": n,
                "datatype": datatype,
                "optimisation": optimisation,
                "cpu_s": 1.1e-9 * cycles * operations,
                "PAPI_TOT_INS": instructions * operations,
                "PAPI_TOT_CYC": round(cycles * operations),
                "PAPI_L1_DCM": operations // 3 + 100 * n,
                "PAPI_L2_TCM": round(misses * operations),
                "operations": operations,
                "instr_op": float(instructions),
                "L2M_op": round(misses * operations) / operations,
            }
        )
    for name, (row, value) in changed.items():
        found[row][name] = value
    kinds: dict[str, ColumnKind] = {
        "cpu_s": "time",
        "operations": "software",
        "instr_op": "derived",
        "L2M_op": "derived",
    }
    kinds |= dict.fromkeys(("n", "datatype", "optimisation"), "parameter")
    counted: ColumnKind = "hardware" if system.counts else "simulated"
    frame = pl.DataFrame(found)
    write_sweep(
        folder,
        frame,
        [SweepColumn(name, kinds.get(name, counted)) for name in frame.columns],
        {"name": "lu", "host": "host"},
    )
    return folder


@pytest.mark.parametrize("counts", [True, False], ids=["counted", "simulated"])
def test_the_section_is_written_from_a_sweep_alone(tmp_path: Path, counts: bool) -> None:
    pictures = tmp_path / "causal"
    pictures.mkdir()
    section = findings.findings(_campaign(tmp_path, Planted(counts=counts), rows=120), pictures)
    assert "The spec asks for 400 points; 120 were measured." in section
    assert ("counted by the processor" in section, "cache simulated" in section) == (counts, not counts)
    drawn = re.findall(r"\(causal/(lu_\w+\.svg)\)", section)
    assert len(drawn) >= 5
    assert all((pictures / name).exists() for name in drawn)


def test_cycles_are_costs_where_they_are_counted_and_time_elsewhere(tmp_path: Path) -> None:
    measured = equations.measured
    real = measured(_campaign(tmp_path, Planted(), rows=60))
    assert (real.cost, real.unit, real.wrong) == ("C_op", "cycles", 0)
    simulated = measured(_campaign(tmp_path, Planted(counts=False), rows=60))
    assert (simulated.cost, simulated.unit) == ("ns_op", "ns")
    ratio = simulated.frame["ns_op"] / real.frame["C_op"]
    assert ratio.to_list() == pytest.approx([1.1] * 60, rel=1e-4)
    n = real.frame["n"].to_numpy()
    assert np.exp(real.frame["log_op"].to_numpy()) == pytest.approx(n * (n - 1) * (2 * n - 1) / 6)


def test_runs_with_counts_below_zero_are_left_out(tmp_path: Path) -> None:
    table = equations.measured(_campaign(tmp_path, Planted(), rows=60, PAPI_L1_DCM=(7, -140737454715284)))
    assert table.wrong == 1
    assert table.frame.height == 59


def test_thresholds_and_jumps_are_found_whatever_single_sizes_do(tmp_path: Path) -> None:
    table = equations.measured(_campaign(tmp_path, Planted(), PAPI_L2_TCM=(4, 5_000_000)))
    steps = equations.steps_of(table)
    assert [step.datatype for step in steps] == sorted(SIZES, key=lambda name: (SIZES[name], list(SIZES).index(name)))
    for step in steps:
        full = np.sqrt(256 * 1024 / SIZES[step.datatype])
        assert step.threshold == pytest.approx(full, abs=25)
        assert step.jump == pytest.approx(SIZES[step.datatype] / 64, rel=0.05)
        assert lu_claims.jumps(step)
        assert step.neglects


def test_misses_that_do_not_jump_are_no_jump() -> None:
    n = np.arange(20.0, 200)
    assert not lu_claims.jumps(equations.step_of("int", n, 1 + 0.001 * n))
    assert not lu_claims.jumps(equations.step_of("int", n, 1 / n))


def test_cycles_of_instructions_and_misses_are_found(tmp_path: Path) -> None:
    penalties = dict(zip(SIZES, (50.0, 80.0, 100.0, 150.0, 200.0, 250.0), strict=True))
    table = equations.measured(_campaign(tmp_path, Planted(miss=penalties)))
    for one in equations.costs_of(table):
        assert one.cpi == pytest.approx(0.5, abs=2 * one.cpi_error)
        assert one.penalty == pytest.approx(penalties[one.datatype], abs=2 * one.penalty_error)
        assert one.left < 0.02
    assert equations.differ(table, "L2M_op") < 1e-6
    assert equations.differ(table, "instr_op") > 0.001


def test_the_saving_of_the_optimisation_is_found_in_each_type(tmp_path: Path) -> None:
    cpi = dict(zip(SIZES, (0.5, 0.6, 0.7, 0.8, 0.9, 2.0), strict=True))
    table = equations.measured(_campaign(tmp_path, Planted(cpi=cpi, miss=dict.fromkeys(SIZES, 0.0))))
    derivative, effects = equations.effect_of_optimisation(table)
    assert derivative.name == "dC_op_doptimisation"
    for one in effects:
        assert one.instructions == pytest.approx(-3)
        assert one.cost == pytest.approx(-3 * cpi[one.datatype], rel=0.1)
        assert one.low <= one.cost <= one.high
        assert one.bands >= 3


def test_the_derivative_over_the_precision_is_found(tmp_path: Path) -> None:
    cpi = dict(zip(SIZES, (0.5, 0.6, 0.7, 0.8, 0.9, 2.0), strict=True)) | {"float": 0.5, "double": 0.9}
    table = equations.measured(_campaign(tmp_path, Planted(cpi=cpi, miss=dict.fromkeys(SIZES, 0.0))))
    derivative = equations.effect_of_precision(table)
    assert derivative.name == "dC_op_dprecision"
    steps = derivative.steps
    for optimisation in (0, 1):
        instructions = table.frame.filter(optimisation=optimisation)["instr_op"].median()
        here = steps.filter(optimisation=optimisation)[derivative.name].median()
        assert here == pytest.approx((0.9 - 0.5) * instructions / 32, rel=0.1)


def test_misses_of_new_sizes_are_foretold_only_where_the_size_makes_them(tmp_path: Path) -> None:
    table = equations.measured(_campaign(tmp_path, Planted()))
    (same,) = equations.left_out_sizes(table, [8])
    assert (same.size, same.runs) == (8, 100)
    assert same.explained > 0.5
    odd = pl.when(pl.col("elementsize") == 8).then(1 - pl.col("L2M_op")).otherwise(pl.col("L2M_op"))
    other = equations.replace(table, frame=table.frame.with_columns(odd.alias("L2M_op")))
    assert equations.left_out_sizes(other, [8])[0].explained < 0


def test_jump_and_threshold_depend_on_the_size_that_makes_them(tmp_path: Path) -> None:
    table = equations.measured(_campaign(tmp_path, Planted(), rows=240))
    model = models.parameter_model(table, list(SIZES))
    for name in (models.JUMP, models.THRESHOLD):
        assert model.parents(name) == ("elementsize",)
        assert models.is_related(model, "elementsize", name)


def test_claims_are_counted_and_shown() -> None:
    rows = [
        tables.Claim("a | b", "c", True),
        tables.Claim("d", "e\nf", False),
        tables.Claim("g", "h", None),
        tables.Claim("i", "j", None, "cannot be told"),
    ]
    assert tables.claims_table(rows).splitlines()[2:] == [
        "| a \\| b | c | yes |",
        "| d | e f | **no** |",
        "| g | h | in part |",
        "| i | j | cannot be told |",
    ]
    said = "Of the paper's 4 claims 1 agree with what was found here, 1 in part, 1 do not, 1 cannot be told."
    assert tables.agreement(rows) == said


def test_a_graph_is_a_picture_that_stands_for_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x, kind = rng.normal(size=80), rng.choice(["a", "b"], 80)
    table = pl.DataFrame({"x": x, "kind": kind, "y": 2 * x + (kind == "a") + rng.normal(0, 0.1, 80)})
    figures.draw_graph(tmp_path / "g.svg", learn(table, Knowledge(outputs=["y"]), test="regression", subsamples=0))
    picture = ElementTree.parse(tmp_path / "g.svg").getroot()
    assert picture.tag == f"{SVG}svg"
    assert {text.text for text in picture.iter(f"{SVG}text")} == {"x", "kind", "y"}
    assert not list(picture.iter(f"{SVG}a"))
    assert picture.find(f"{SVG}style") is not None
    assert [one.get("class") for one in picture.iter(f"{SVG}g")].count("node discrete") == 1


def test_panels_are_drawn_with_their_curves(tmp_path: Path) -> None:
    points = figures.Points("int", [1, 2, 3], [1, 4, 9], ([1, 2, 3], [1.0, float("nan"), 9.0]))
    figures.draw_panels(tmp_path / "p.svg", [figures.Panel("n", "misses", [points])])
    drawn = (tmp_path / "p.svg").read_text()
    assert "misses" in drawn
    assert "int" in drawn


def test_the_specs_of_all_parts_are_there_and_a_trial_has_few_points(tmp_path: Path) -> None:
    for part in evaluate.PARTS:
        assert importlib.util.find_spec(part.module) is not None
        for spec in evaluate.specs_of(part, tmp_path, None):
            load_spec(spec)
        for spec in evaluate.specs_of(part, tmp_path, 7):
            parameters = load_spec(spec).parameters.values()
            assert load_spec(spec).campaign.points == 7 or all(len(one.values) <= 2 for one in parameters)


def test_a_part_that_the_host_cannot_do_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = {part.name: part for part in evaluate.PARTS}
    ended = {"lu": 0, "lu_processor": 3}

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, ended[Path(command[-1]).name])

    monkeypatch.setattr(evaluation.subprocess, "run", run)
    assert evaluate.measured(by_name["lu"], tmp_path, None)
    assert not evaluate.measured(by_name["lu_processor"], tmp_path, None)
    assert evaluate.campaign_of(by_name["lu"], tmp_path) == tmp_path / "lu"
    assert evaluate.campaign_of(by_name["kernels"], tmp_path) == tmp_path
    ended["lu"] = 3
    with pytest.raises(SystemExit, match="lu: the campaign ended with 3"):
        evaluate.measured(by_name["lu"], tmp_path, None)


def test_the_parts_that_are_not_evaluated_again_keep_their_section(tmp_path: Path) -> None:
    written = evaluate.sections_of(evaluation.EVIDENCE / "causal.md")
    assert list(written) == [part.name for part in evaluate.PARTS if part.name in written]
    page = (evaluation.EVIDENCE / "causal.md").read_text()
    assert evaluate.page_of(written) == page
    missing = ", ".join(part.name for part in evaluate.PARTS if part.name not in written)
    assert f" Not recorded yet: {missing}." in page if missing else "Not recorded yet" not in page
    (tmp_path / "page.md").write_text(evaluate.page_of(written | {"lu": "## Again\n\nAnother text."}))
    assert evaluate.sections_of(tmp_path / "page.md") == written | {"lu": "## Again\n\nAnother text."}
    assert evaluate.sections_of(tmp_path / "none.md") == {}


def test_a_host_that_cannot_measure_a_part_spoils_no_section_of_one_that_could(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "EVIDENCE", tmp_path)
    monkeypatch.setattr(evaluate, "measured", lambda part, *_: not part.needs)
    monkeypatch.setattr(evaluate, "store", lambda *_: None)
    monkeypatch.setattr(evaluate, "evaluated", lambda part, *_: f"{part.name} again")
    (tmp_path / "causal.md").write_text(evaluate.page_of({"jpeg": "of a processor"}))
    evaluate.main(["--campaigns", str(tmp_path)])
    kept = evaluate.sections_of(tmp_path / "causal.md")
    assert (kept["jpeg"], kept["lu"]) == ("of a processor", "lu again")
    assert "lu_processor needs" in kept["lu_processor"]
    with pytest.raises(SystemExit) as ended:
        evaluate.main(["--campaigns", str(tmp_path), "--only", "jpeg"])
    assert ended.value.code == evaluation.HOST_CANNOT
    assert evaluate.sections_of(tmp_path / "causal.md") == kept


def test_a_table_is_kept_and_evaluated_again_without_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(evaluate, "STORED", tmp_path / "stored")
    monkeypatch.setattr(evaluate, "EVIDENCE", tmp_path / "evidence")
    evaluated = SimpleNamespace(findings=lambda campaign, _: f"## {equations.measured(campaign).frame.height} rows")
    monkeypatch.setattr(evaluate.importlib, "import_module", lambda _: evaluated)
    part = next(part for part in evaluate.PARTS if part.name == "lu_processor")
    assert not evaluate.stored(part)
    sweep = tmp_path / "sweeps" / part.name
    sweep.mkdir(parents=True)
    _campaign(sweep, Planted())
    evaluate.store(part, sweep.parent)
    assert evaluate.stored(part)
    evaluate.main(["--stored", "--campaigns", str(tmp_path / "none")])
    told = capsys.readouterr().err
    assert "lu_processor: evaluated" in told
    assert "kernels: no table is kept, its section stays" in told
    page = (tmp_path / "evidence" / "causal.md").read_text()
    assert list(evaluate.sections_of(tmp_path / "evidence" / "causal.md")) == ["lu_processor"]
    assert "## 300 rows" in page
    assert "Made by `python " in page
    assert "Tables of the sweeps are kept in " in page
    assert "No table was kept of" not in page
    unkept = evaluate.page_of({"lu": "## LU, simulated (sections 8.2 and 8.3)"})
    assert "No table was kept of *LU, simulated*:" in unkept
    assert "are kept in" not in unkept
    monkeypatch.setattr(evaluate, "LARGEST", 10)
    with pytest.raises(SystemExit, match="bytes are too many to be kept; 10 are allowed"):
        evaluate.store(part, sweep.parent)
