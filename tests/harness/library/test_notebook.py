"""The tutorial's notebook, run block by block, on a short campaign of the quickstart's own program and metrics."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import unperturbed as up
from tests.harness.imports.test_campaign import write_runs
from tests.harness.library.notebook import run_page
from tests.harness.phases_campaign import unperturbed, verdicts

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "tutorials" / "notebook.md"
QUICKSTART = ROOT / "experiments" / "quickstart" / "quickstart.yaml"
SHORTER = {
    "--size 690000": "--size 110000",
    "-b 136": "-b 44",
    "records: 180": "records: 60",
    "baseline_runs: 10": "baseline_runs: 5",
    "  runs: 5 ": "  runs: 3 ",
    "source: blocksort": f"source: {QUICKSTART.parent / 'blocksort'}",
}
LEFT_OUT = ("output", "front", "blocks", "buckets", "moves", "places")
"""Subsets and software metrics without which the campaign is short; those of `ties` stay."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make what the page asks for: a campaign, a sweep's table, recordings of perf."""
    place = tmp_path_factory.mktemp("notebook")
    text = QUICKSTART.read_text()
    for whole, short in SHORTER.items():
        assert whole in text
        text = text.replace(whole, short)
    for name in LEFT_OUT:
        text = re.sub(rf"^    {name}: [\[{{].*\n", "", text, flags=re.MULTILINE)
    (place / "quickstart.yaml").write_text(text)
    done = unperturbed(place, "run", "quickstart.yaml", "--campaign", "campaigns/quickstart")
    assert done.returncode in (0, 4), done.stderr
    write_runs(place / "base", 5)
    write_runs(place / "new", 5, seed=3, spoilt=True)
    _write_sweep(place / "campaigns" / "sizes")
    return place


def _write_sweep(folder: Path) -> None:
    """Write the table of a sweep: as `unperturbed run` leaves it, with generated counts."""
    from unperturbed.collectors.data.sweep_table import Column, write_sweep

    chance = np.random.default_rng(1)
    size = np.arange(8, 97, 4)
    compares = 3000 * size + chance.integers(0, 200, len(size))
    lookups = 900 * size + chance.integers(0, 200, len(size))
    instructions = 7 * compares + 12 * lookups + chance.integers(0, 5000, len(size))
    columns = {"size": size, "compares": compares, "lookups": lookups, "PAPI_TOT_INS": instructions}
    described = [Column(name, "parameter" if name == "size" else "simulated") for name in columns]
    folder.mkdir()
    write_sweep(folder, pl.DataFrame(columns), described, {})


def test_every_block_of_the_tutorial(folder: Path) -> None:
    shown, names = run_page(PAGE, folder)
    campaign, verdict = names["c"], names["v"]
    recorded = {one["configuration"]: one for one in verdicts(folder / "campaigns" / "quickstart")["verdicts"]}
    assert len(verdict.changes) == len(recorded["ties"]["changes"]) == 27
    assert verdict.verdict == recorded["ties"]["verdict"]
    assert list(campaign) == ["baseline", "anchor", "ties"]
    kinds = [type(value).__name__ for block in shown for value in block.values]
    assert kinds == [
        *("Campaign", "DataFrame", "Picture", "DataFrame", "Picture", "PairwiseAlignment", "Verdict"),
        *("CausalModel", "Forecast"),
    ]
    for block in shown:
        for value in block.values:
            assert "<" in value._repr_html_()
            assert len(repr(value).splitlines()) < 20
    assert shown[-3].values[0].verdict == "perturbed"


def test_it_has_the_lines_that_people_were_promised() -> None:
    """The code of the page holds each call of the library's first example."""
    code = PAGE.read_text()
    for line in (
        "import unperturbed as up, polars as pl",
        'c = up.load("campaigns/quickstart")',
        "df = c.frame()",
        'c["ties"].plot(["PAPI_L2_TCM", "lookups"])',
        'v = c.check("ties")',
        'v.frame().filter(pl.col("verdict") == "perturbed")',
        'a, b = c["anchor"][0], c["ties"][0]',
        'up.align(a, b, on="PAPI_L1_DCM").plot()',
        'up.pairwise(c["baseline"], on="PAPI_L1_DCM")',
        'up.Baseline(up.read_perf_stat("base/*.csv")).inner(up.read_perf_stat("new/*.csv"))',
        'm = up.learn(df_of_a_sweep, inputs=["size"])',
        "m.intervene(size=64)",
    ):
        assert line in code


def test_its_pictures_stand_beside_it_in_both_colours() -> None:
    named = re.findall(r'(?:srcset|src)="([^"]+)"', PAGE.read_text())
    assert len(named) == len(set(named))
    there = {path.name: path.stat().st_size for path in PAGE.parent.glob("*.png")}
    assert set(named) == set(there)
    assert all(size <= 150_000 for size in there.values())


def test_every_result_is_a_line_in_a_terminal_and_a_table_in_a_notebook(folder: Path) -> None:
    campaign = up.load(folder / "campaigns" / "quickstart")
    trace = campaign["ties"][0]
    events = up.EventTrace.from_pairs([(at * 10, "abc"[at % 3]) for at in range(90)], unit="ms")
    table = pl.DataFrame({"size": range(8, 100, 4), "work": [3 * at + at % 3 for at in range(8, 100, 4)]})
    results = [
        *(trace, campaign, campaign.check("ties"), up.Baseline(campaign["baseline"])),
        up.align(campaign["anchor"][0], trace, on="PAPI_L1_DCM"),
        up.structure(trace, metrics=["PAPI_L1_DCM"]),
        up.learn(table, inputs=["size"]),
        up.diagnose([events, events], events),
    ]
    names = ["Trace", "Campaign", "Verdict", "Baseline", "Alignment", "Composition", "CausalModel", "Diagnosis"]
    for name, result in zip(names, results, strict=True):
        assert repr(result).startswith(f"<{name}")
        assert repr(result).count("\n") < 5
        shown = result._repr_html_()
        assert shown.startswith("<")
        assert len(shown) < 50_000


def test_what_reads_tables_takes_a_trace(folder: Path) -> None:
    import pandas as pd
    import pyarrow as pa
    from pyarrow.interchange import from_dataframe

    trace = up.load(folder / "campaigns" / "quickstart")["ties"][0]
    counts = trace["lookups"].tolist()
    assert pl.DataFrame(trace)["lookups"].to_list() == counts
    assert pa.table(trace)["lookups"].to_pylist() == counts
    assert from_dataframe(trace)["lookups"].to_pylist() == counts
    assert pd.DataFrame(np.asarray(trace), columns=list(trace))["lookups"].tolist() == counts
    assert "lookups" in trace
    assert trace[2:5]["lookups"].tolist() == counts[2:5]
    assert list(trace[["lookups", "ranked"]]) == ["lookups", "ranked"]
    assert up.Trace.read(folder / "campaigns/quickstart/runs" / trace.attributes["run"]) == trace
    with pytest.raises(KeyError, match="no metric 'lokups'; did you mean lookups"):
        trace["lokups"]


def test_names_complete_by_the_tab_key(folder: Path) -> None:
    campaign = up.load(folder / "campaigns" / "quickstart")
    assert campaign._ipython_key_completions_() == ["baseline", "anchor", "ties"]
    trace = campaign["ties"][0]
    assert "lookups" in trace._ipython_key_completions_()
