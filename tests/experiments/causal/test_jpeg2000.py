"""The JPEG 2000 experiment: pictures, values for each pixel, and claims on tables with known causes."""

from __future__ import annotations

import importlib
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest

from experiments.causal import evaluate
from experiments.causal.jpeg import claims as jpeg_claims
from experiments.causal.jpeg import findings, models, sizes, tables
from unperturbed.collectors.data import SweepColumn
from unperturbed.errors import DataError
from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.spec.sections.parameters import Listed

FOLDER = Path(__file__).parents[3] / "experiments" / "causal"
IMAGES = {"photograph": 5.0, "text": 6.0, "cartoon": 3.0}
START = 0.002
TRUE_HERE = (
    "All performance characteristics increase",
    "The number of quality layers has no significant impact",
    "The cache misses do not affect the runtime",
    "some images are compressed faster with kernel 5/3",
    "*imageType* influences the derivative of the time over the kernel",
    "The number of instructions is only affected by the bitrate",
    "CPI is not influenced by the compressibility",
)


@pytest.fixture(scope="module")
def pictures() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER / "jpeg2000"))
        sys.modules.pop("make_images", None)
        yield importlib.import_module("make_images")
        sys.modules.pop("make_images", None)


def runs(way: str, *, cycles: str = "hardware", seed: int = 0) -> tuple[pl.DataFrame, dict[str, SweepColumn]]:
    """Return a table as a sweep's: instructions follow from bits and block, nothing depends on layers or size."""
    chance = np.random.default_rng(seed)
    sizes = [(192, 192), (192, 384), (384, 192), (384, 384)] if way == "lossless" else [(256, 256)]
    rates = [0] if way == "lossless" else [500, 1500, 6000]
    rows = []
    for image, kernel, block, layers, (width, height), rate in itertools.product(
        IMAGES, ("5/3", "9/7"), (16, 64), (2, 12), sizes, rates
    ):
        pixels = width * height
        bits = (IMAGES[image] + (kernel == "9/7") * 0.2 + chance.normal(0, 0.05)) if way == "lossless" else rate / 1000
        instructions = pixels * (200 + 90 * bits + 800 / block + chance.normal(0, 2))
        cpi = 0.8 + 0.02 * IMAGES[image] * (way == "lossless") + chance.normal(0, 0.002)
        slower = 1.2 if kernel == "9/7" and image == "text" else 0.9 if kernel == "9/7" else 1.0
        row = {"image": image, "kernel": kernel, "block": block, "layers": layers}
        row |= {"width": width, "height": height} if way == "lossless" else {"rate": rate}
        seconds = instructions * cpi * slower / 2e9 * chance.normal(1, 0.01)
        row |= {
            "cpu_s": START + seconds,
            "PAPI_TOT_INS": round(instructions),
            "PAPI_TOT_CYC": round(instructions * cpi),
        }
        row |= {
            "PAPI_L1_DCM": round(pixels * chance.normal(2, 0.01)),
            "PAPI_L2_DCM": round(instructions * chance.normal(1, 0.02) / 1000),
        }
        rows.append(row | {"bytes": round(bits * pixels / 8)})
    frame = pl.DataFrame(rows)
    kinds = {"cpu_s": "time", "bytes": "software", "PAPI_TOT_CYC": cycles}
    kinds |= dict.fromkeys(("PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_L2_DCM"), cycles)
    return frame, {name: SweepColumn(name, kinds.get(name, "parameter")) for name in frame.columns}  # type: ignore[arg-type]


def test_pictures_are_the_same_each_time_and_of_the_size_asked_for(pictures: ModuleType, tmp_path: Path) -> None:
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        script = FOLDER / "jpeg2000" / "make_images.py"
        subprocess.run([sys.executable, script, "--widths", "40,24", "--heights", "17", folder], check=True)
    few = tmp_path / "few"
    few.mkdir()
    of_few = ["--widths", "40", "--heights", "17", "--kinds", "text,noise", few]
    subprocess.run([sys.executable, script, *of_few], check=True)
    assert sorted(path.name for path in few.iterdir()) == ["noise-40x17.pgm", "text-40x17.pgm"]
    made = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert made == sorted(f"{kind}-{width}x17.pgm" for kind in pictures.KINDS for width in (24, 40))
    for name in made:
        content = (tmp_path / "one" / name).read_bytes()
        assert content == (tmp_path / "two" / name).read_bytes()
        width = int(name.split("-")[1].split("x")[0])
        head = b"P5\n%d 17\n255\n" % width
        assert content.startswith(head)
        assert len(content) == len(head) + 17 * width


def test_kinds_differ_in_how_much_they_hold(pictures: ModuleType) -> None:
    entropy = {}
    for kind in pictures.KINDS:
        levels = pictures.picture(kind, 128, 128).astype(int)
        shares = np.bincount(np.abs(np.diff(levels, axis=1)).ravel()) / (128 * 127)
        entropy[kind] = -sum(share * np.log2(share) for share in shares if share > 0)
    assert entropy["gradient"] < entropy["photograph"] < entropy["noise"]
    assert entropy["cartoon"] < entropy["texture"]
    assert len(np.unique(pictures.picture("cartoon", 128, 128))) == 6


def test_specs_are_right_and_make_the_pictures_they_read(pictures: ModuleType) -> None:
    for way in ("lossless", "lossy"):
        spec = load_spec(FOLDER / f"jpeg2000_{way}.yaml")
        assert spec.parameters["image"] == Listed(tuple(pictures.KINDS))
        for name in ("width", "height"):
            sizes = spec.parameters.get(name, Listed((256,)))
            assert isinstance(sizes, Listed)
            assert f"--{name}s {','.join(map(str, sizes.values))} " in (spec.program.prepare or "")
    lossless, lossy = (load_spec(FOLDER / f"jpeg2000_{way}.yaml") for way in ("lossless", "lossy"))
    assert lossless.measure == lossy.measure and lossless.program.build == lossy.program.build


def test_values_a_pixel() -> None:
    frame, columns = runs("lossless")
    found = tables.per_pixel(frame, columns, "lossless", start_s=START)
    pixels = frame["width"] * frame["height"]
    assert found.unit == "cycles" and found.counted == "hardware"
    np.testing.assert_allclose(found.frame["bits_ppel"], 8 * frame["bytes"] / pixels)
    np.testing.assert_allclose(found.frame["instr_ppel"], frame["PAPI_TOT_INS"] / pixels)
    np.testing.assert_allclose(found.frame["CPI"], frame["PAPI_TOT_CYC"] / frame["PAPI_TOT_INS"])
    np.testing.assert_allclose(found.frame["T_ppel"], 1e9 * (frame["cpu_s"] - START) / pixels)


def test_of_repetitions_the_least_counts() -> None:
    frame, columns = runs("lossy")
    twice = pl.concat([frame.with_columns(PAPI_TOT_CYC=frame["PAPI_TOT_CYC"] * 2), frame])
    once = tables.per_pixel(frame, columns, "lossy", start_s=START)
    found = tables.per_pixel(twice, columns, "lossy", start_s=START)
    assert found.frame.equals(once.frame)
    assert once.spread == {}
    assert found.spread == {"instr_ppel": 0.0, "L2M_ppel": 0.0, "CPI": pytest.approx(1.0), "T_ppel": 0.0}


def test_rows_with_counts_that_cannot_be_right_are_left_out() -> None:
    frame, columns = runs("lossy")
    wrapped = frame.with_row_index().with_columns(
        PAPI_L1_DCM=pl.when(pl.col("index") == 3)
        .then(-(2**48))
        .when(pl.col("index") == 5)
        .then(1)
        .otherwise("PAPI_L1_DCM")
    )
    found = tables.per_pixel(wrapped.drop("index"), columns, "lossy", start_s=START)
    assert found.impossible == 2
    assert found.frame.height == frame.height - 2
    assert tables.per_pixel(frame, columns, "lossy", start_s=START).impossible == 0


def test_simulated_cycles_are_no_cycles() -> None:
    frame, columns = runs("lossy", cycles="simulated")
    found = tables.per_pixel(frame, columns, "lossy", start_s=START)
    assert found.unit == "ns" and found.counted == "simulated"
    np.testing.assert_allclose(found.frame["CPI"], 1e9 * (frame["cpu_s"] - START) / frame["PAPI_TOT_INS"])
    np.testing.assert_allclose(found.frame["bits_ppel"], frame["rate"] / 1000)


def test_a_simulator_has_one_second_level_for_data_and_instructions() -> None:
    frame, columns = runs("lossy", cycles="simulated")
    renamed = frame.rename({"PAPI_L2_DCM": "PAPI_L2_TCM"})
    one, two = (
        tables.per_pixel(
            table,
            {name: SweepColumn(name, columns.get(name, columns["PAPI_L1_DCM"]).kind) for name in table.columns},
            "lossy",
            start_s=START,
        )
        for table in (frame, renamed)
    )
    assert two.frame.equals(one.frame)


def test_simulated_the_same_points_are_measured_and_only_what_counts_differs(tmp_path: Path) -> None:
    parts = {part.name: part for part in evaluate.PARTS}
    for one, two in zip(
        evaluate.specs_of(parts["jpeg"], tmp_path, None),
        evaluate.specs_of(parts["jpeg_simulated"], tmp_path, None),
        strict=True,
    ):
        processor, simulated = load_spec(one), load_spec(two)
        assert simulated.parameters == processor.parameters
        assert simulated.program == processor.program
        assert simulated.measure.source == "simulated"
        assert simulated.measure.hardware == ("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM", "PAPI_L2_TCM")
        assert simulated.measure.software == processor.measure.software
        assert two.is_relative_to(tmp_path / "simulated")


def test_a_section_of_a_simulator_has_figures_and_words_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, prefix, said in (
        ("hardware", "jpeg", "counted by the processor. `CPI` is cycles"),
        ("simulated", "jpeg_simulated", "counted by a simulator. `CPI` is ns of CPU time"),
    ):
        read = {}
        for way in tables.WAYS:
            frame, columns = runs(way, cycles=kind)
            one_layer = frame.with_columns(pl.col("layers").replace(2, 1))
            read[way] = tables.per_pixel(one_layer, columns, way, start_s=START)
        monkeypatch.setattr(findings, "read_runs", lambda _, way, read=read: read[way])
        quick = partial(models.learn_models, test="regression", subsamples=0)
        monkeypatch.setattr(findings, "learn_models", quick)
        section = findings.findings(tmp_path, tmp_path)
        assert said in section
        assert ("what else runs on the host raises both" in section) == (kind == "hardware")
        assert ("caches simulated" in section) == (kind == "simulated")
        drawn = re.findall(r"\(causal/(\w+\.svg)\)", section)
        assert len(drawn) == 5
        assert all(name.startswith(f"{prefix}_") and (tmp_path / name).exists() for name in drawn)


def test_sizes_of_the_papers_range_change_nothing_a_pixel_where_they_are_no_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, columns = runs("lossless", cycles="simulated")
    one_layer = frame.with_columns(pl.col("layers").replace(2, 1))
    table = tables.per_pixel(one_layer, columns, "lossless", start_s=START)
    monkeypatch.setattr(sizes, "read_runs", lambda *_: table)
    monkeypatch.setattr(sizes, "learn_models", partial(models.learn_models, test="regression", subsamples=0))
    section = sizes.findings(tmp_path, tmp_path)
    assert "a *cartoon* and a *photograph* and a *text* have 192 or 384 pixels in a row" in section
    assert "No edge from width or height to a value per pixel. | yes |" in section
    assert "| width: 192 → 384 | " in section
    assert re.findall(r"^\| (\d+ × \d+) ", section, re.MULTILINE) == [
        "192 × 192",
        "192 × 384",
        "384 × 192",
        "384 × 384",
    ]


def test_the_sweep_of_sizes_makes_the_pictures_it_reads_and_counts_as_the_others_do() -> None:
    spec, other = (load_spec(FOLDER / f"jpeg2000_{name}.yaml") for name in ("sizes", "lossless"))
    assert spec.program.build == other.program.build and spec.measure.hardware == other.measure.hardware
    for name in ("width", "height"):
        values = spec.parameters[name]
        assert isinstance(values, Listed)
        assert f"--{name}s {','.join(map(str, values.values))} " in (spec.program.prepare or "")
        assert min(values.values) == 500


def test_instructions_and_misses_of_two_sources_are_refused() -> None:
    frame, columns = runs("lossy")
    columns["PAPI_L2_DCM"] = SweepColumn("PAPI_L2_DCM", "simulated")
    with pytest.raises(DataError, match="instructions are hardware, and misses hardware and simulated"):
        tables.per_pixel(frame, columns, "lossy", start_s=START)


def test_a_change_is_told_by_runs_that_differ_in_it_alone() -> None:
    change = tables.change
    frame = pl.DataFrame({"n": [1, 2, 1, 2, 1], "k": ["a", "a", "b", "b", "c"], "t": [1.0, 2.0, 3.0, 24.0, 9.0]})
    found = change(frame, "t", "n", (1, 2), ["n", "k"])
    assert found.pairs == 2 and found.rising == 2
    assert found.ratio == pytest.approx(4.0)
    assert str(change(frame.head(2), "t", "n", (2, 1), ["n", "k"])) == "−50.0 % (−50.0 % to −50.0 %)"
    with pytest.raises(DataError, match="no two runs differ in n alone, from 1 to 3"):
        change(frame, "t", "n", (1, 3), ["n", "k"])


def test_what_made_the_tables_is_found_and_told(tmp_path: Path) -> None:
    learnt = []
    for way in ("lossless", "lossy"):
        frame, columns = runs(way)
        table = tables.per_pixel(frame, columns, way, start_s=START)
        learnt.append(models.learn_models(table, test="regression", subsamples=0))
    lossless, lossy = learnt
    assert set(lossy.causes("instr_ppel")) == {"bits_ppel", "block"}
    assert "image" in lossless.causes("dT_dkernel")
    said = [*jpeg_claims.claims_of_lossless(lossless), *jpeg_claims.claims_of_lossy(lossy)]
    told = {held.paper: held for held in said}
    agreeing = {paper.split("8.5.1: ")[-1][:30] for paper, held in told.items() if held.agrees is True}
    assert {text[:30] for text in TRUE_HERE} <= agreeing
    three = next(held for paper, held in told.items() if "three features" in paper)
    assert three.agrees is None, "instructions follow from bits and block"
    assert "no edge image → instr_ppel (independent: instr_ppel given b" in three.found
    graph = models.merged(learnt)
    ways = {edge[:2]: edge[2] for edge in graph.edges}
    assert ways["bits_ppel", "instr_ppel"] == {"lossless", "lossy"}
    assert ways["image", "bits_ppel"] == {"lossless"}
    models.draw_merged(tmp_path / "graph.svg", graph)
    assert "dT_dkernel" in (tmp_path / "graph.svg").read_text()
