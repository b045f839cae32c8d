"""Steps and their shams in many layouts: what the code does alone is told from what counting does."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

from experiments.perturbation import findings, layouts
from experiments.perturbation.programs import missing_sentence
from experiments.perturbation.series import PROGRAMS, Program
from experiments.perturbation.variants import write_variant
from unperturbed.collectors import Metric, Trace
from unperturbed.collectors.data import Kind

PROGRAM: Program = PROGRAMS[0]
METRICS = ("PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_L2_TCM", "PAPI_BR_MSP")
RUNS, INTERVALS = 12, 300


def write_run(
    folder: Path,
    number: int,
    configuration: str,
    *,
    layout: int,
    sham: bool,
    noise: float,
    hardware: Sequence[str] = METRICS,
    software: Sequence[str] = ("rare", "all"),
    kind: Kind = "simulated",
) -> None:
    """Write a run whose two kinds of miss go together the less the more noise they have; layouts differ a little."""
    work = np.cumsum(np.random.default_rng(0).normal(size=INTERVALS))
    chance = np.random.default_rng([number, 1])
    own = np.random.default_rng([layout, 2]).normal(scale=0.05)
    columns = {
        name: np.round(10_000 + 400 * (work + chance.normal(scale=max(0.01, 0.3 + own), size=INTERVALS))).astype(int)
        for name in hardware
    }
    columns["PAPI_L1_DCM"] = np.round(columns["PAPI_L1_DCM"] + chance.normal(scale=noise, size=INTERVALS)).astype(int)
    metrics = [Metric(name, kind, components=(name,)) for name in hardware]
    counted = {} if sham or configuration == "baseline" else {name: np.full(INTERVALS, 5) for name in software}
    metrics += [Metric(name, "software") for name in counted]
    if "PAPI_TOT_CYC" in hardware:
        metrics.append(Metric("IPC", "derived", components=("PAPI_TOT_INS", "PAPI_TOT_CYC")))
        counted["IPC"] = columns["PAPI_TOT_INS"] / columns["PAPI_TOT_CYC"]
    attributes = {"run": f"{number:04d}", "configuration": configuration, "host": "h", "layout": f"l{layout}"}
    if sham:
        attributes |= {"sham_of": configuration, "configuration": f"sham-{configuration}"}
    begin = np.arange(INTERVALS) * 1000
    trace = Trace.from_columns(
        metrics,
        columns | counted,
        begin_ns=begin,
        end_ns=begin + 1000,
        attributes={**attributes, "interval_ns": 1, "order": number},
    )
    (folder / "runs" / f"{number:04d}").mkdir(parents=True)
    trace.write(folder / "runs" / f"{number:04d}" / "trace.parquet")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> layouts.Layouts:
    """A step whose code alone changes what it changes, and a step whose counting does."""
    folder = tmp_path_factory.mktemp("layouts")
    spec = yaml.safe_load(write_variant(folder / "specs", PROGRAM, layouts=True).read_text())
    spec["measure"]["hardware"] = list(METRICS)
    spec["analysis"] = {"align_on": ["PAPI_TOT_INS"]}
    spec["campaign"]["subsets"] = {"by-code": ["rare"], "by-counting": ["rare", "all"]}
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(spec))
    kinds = [("baseline", False, 0), ("by-code", False, 3000), ("by-code", True, 3000)]
    kinds += [("by-counting", False, 3000), ("by-counting", True, 0)]
    for place, (configuration, sham, noise) in enumerate(kinds):
        for layout in range(RUNS):
            number = 1 + place * RUNS + (RUNS - 1 - layout if sham else layout)  # a sham's runs in another order
            write_run(folder, number, configuration, layout=layout, sham=sham, noise=noise)
    return layouts.in_layouts(PROGRAM, path, folder, draws=30)


def test_it_tells_the_code_from_the_counting(found: layouts.Layouts) -> None:
    by_code, by_counting = found.steps
    assert sum(layouts.perturbed(by_code.counting)) == sum(layouts.perturbed(by_counting.counting)) == 3
    assert layouts.perturbed(by_code.sham) == layouts.perturbed(by_code.counting)
    assert not any(layouts.perturbed(by_counting.sham))
    assert layouts.part_of(by_code.counting, by_code.sham) == pytest.approx(1, abs=0.1)
    assert abs(layouts.part_of(by_counting.counting, by_counting.sham)) < 0.1
    assert np.percentile(by_code.parts, 2.5) < 1.05
    assert np.percentile(by_code.parts, 97.5) > 0.95
    assert by_code.shared.shape == (30, 2, 6)


def test_the_page_says_the_share_and_its_interval(found: layouts.Layouts) -> None:
    assert layouts.headline([found]).startswith(
        "**Of 6 correlations that a step perturbs, its sham, which counts nothing, perturbs 3 as well: 50 % "
        "(95 % interval over layouts: "
    )
    assert ": by program it is 3 of 6 in bzip2. No correlation is perturbed by a sham alone." in layouts.headline(
        [found]
    )
    rows = layouts.table([found])
    assert len(rows) == 4
    assert "| bzip2 | rare |" in rows[2]
    assert "3 of 6" in rows[2]
    assert len(layouts.spread([found])) == 3
    assert missing_sentence([found.program.name]) == " Not recorded yet: chess, network, redcode."


def test_a_processors_runs_get_a_page_and_a_figure_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_campaign(path: Path, folder: Path) -> None:
        spec = yaml.safe_load(path.read_text())
        subsets = spec["campaign"]["subsets"]
        kinds = [("baseline", False), *itertools.product(subsets, (False, True))]
        for number, ((name, sham), layout) in enumerate(itertools.product(kinds, range(RUNS)), start=1):
            write_run(
                folder,
                number,
                name,
                layout=layout,
                sham=sham,
                noise=3000 if name == list(subsets)[-1] else 0,
                hardware=spec["measure"]["hardware"],
                software=subsets.get(name, ()),
                kind="hardware",
            )

    monkeypatch.setattr(layouts, "EVIDENCE", tmp_path)
    monkeypatch.setattr(layouts, "run_campaign", run_campaign)
    monkeypatch.setattr(layouts, "DRAWS", 10)
    asked = ["--processor", "--programs", "bzip2", "--campaigns", str(tmp_path / "campaigns")]
    assert layouts.main(asked) == 0
    page = (tmp_path / "perturbation_layouts_processor.md").read_text()
    assert "On a processor" in page.splitlines()[0]
    assert "Counters are a processor's" in page
    assert "Simulated" not in page
    assert "perturbs 5 as well: 100 %" in page
    assert (tmp_path / "perturbation" / "layouts_processor.svg").exists()


def test_its_figure_has_both_steps(found: layouts.Layouts, tmp_path: Path) -> None:
    layouts.draw(tmp_path / "layouts.svg", [found])
    drawn = (tmp_path / "layouts.svg").read_text()
    assert "up to rare" in drawn
    assert "up to all" in drawn


def test_two_tables_side_by_side_count_what_both_call_perturbed() -> None:
    import polars as pl

    common = {"program": "p", "step": "s", "check": "inner", "low": 0.0, "high": 0.0, "chance": 0.01}
    pairs = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "d")]
    verdicts = [("perturbed", "perturbed"), ("perturbed", "undecided"), ("unperturbed", "perturbed"), ("shifted", "")]
    tables = [
        pl.DataFrame(
            [
                {**common, "first": first, "second": second, "effect": 0.1 * at, "verdict": verdict[side]}
                for at, ((first, second), verdict) in enumerate(zip(pairs, verdicts, strict=True))
                if verdict[side]
            ]
        )
        for side in range(2)
    ]
    assert findings.side_by_side(*tables)[2] == "| p | inner | 3 | 1 | 1 | 1 | +1.00 | 0.010 | 0.010 |"
