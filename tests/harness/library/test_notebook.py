"""The tutorial's notebook, run block by block, on a short campaign of the quickstart's own program and metrics."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import unperturbed as up
from tests.harness.phases_campaign import verdicts
from tools.notebook import PAGE, execute, inputs


@pytest.fixture(scope="module")
def folder() -> Path:
    """What the page asks for: a campaign, a sweep's table, recordings of perf."""
    return inputs()


def test_every_block_of_the_tutorial(folder: Path) -> None:
    cells, names = execute()
    campaign, verdict = names["c"], names["v"]
    recorded = {one["configuration"]: one for one in verdicts(folder / "campaigns" / "quickstart")["verdicts"]}
    assert len(verdict.changes) == len(recorded["ties"]["changes"]) == 27
    assert verdict.verdict == recorded["ties"]["verdict"]
    assert list(campaign) == ["baseline", "anchor", "ties"]
    kinds = [type(value).__name__ for cell in cells for value in cell.values]
    assert kinds == [
        *("Campaign", "DataFrame", "Picture", "DataFrame", "Picture", "PairwiseAlignment", "Verdict"),
        *("CausalModel", "Forecast"),
    ]
    for cell in cells:
        for value in cell.values:
            assert "<" in value._repr_html_()
            assert len(repr(value).splitlines()) < 20
    assert cells[-3].values[0].verdict == "perturbed"


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
        'baseline, new = up.Baseline(up.read_perf_stat("base/*.csv")), up.read_perf_stat("new/*.csv")',
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
