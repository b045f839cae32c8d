"""The page over nodes as Chromium shows it: the forest plot is drawn, nothing is complained of or asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis.nodes.simulate import Case, runs_of, verdicts_of
from tests.analysis.report.browser import chromium_missing, open_report
from unperturbed.analysis.nodes.combine import combine_nodes
from unperturbed.analysis.nodes.verdicts import NodeVerdicts
from unperturbed.analysis.totals import TotalChange

pytestmark = pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())

HOSTILE = "<b>node</b>&</script><script>throw 1</script>"


@pytest.mark.parametrize("count", [3, 8])
def test_the_forest_plot_is_drawn(tmp_path: Path, count: int) -> None:
    (found,) = verdicts_of(runs_of(Case("page", ((8, 5),) * count, effect=2.0), 1, 7), alpha=0.05, tolerance=0.02)
    named = {HOSTILE if node == "node1" else node: verdict for node, verdict in found.items()}
    total = TotalChange("PAPI_TOT_INS", (100.0, 101.0), (103.0, 104.0), ("1", "2"), ("3", "4"), 0.03, 0.029, 0.031)
    result = NodeVerdicts(
        (combine_nodes(named),),
        {"node2": "total of X (p < 0.001)"},
        (f"A note of {HOSTILE}.",),
        totals={"steps": (replace(total, tolerance=0.01, verdict="perturbed"),)},
    )
    path = tmp_path / "report.html"
    result.write_html(path)
    scopes = count + (2 if count >= 4 else 1)
    with open_report(path) as page:
        page.wait_drawn()
        page.unfold()
        assert page.console() == [] and page.requests() == [path.resolve().as_uri()]
        assert set(page.drawn()) == {"nodes-0", "totals"}
        assert "steps has 3 % more instructions" in page.text("main")
        assert page.js("return document.querySelectorAll('#totals .scatterlayer .errorbar').length") == 1
        assert page.js("return document.querySelectorAll('#nodes-0 .scatterlayer .point').length") == scopes
        bars = "return document.querySelectorAll('#nodes-0 .scatterlayer .errorbar').length"
        assert page.js(bars) == scopes
        shapes = "return document.querySelectorAll('#nodes-0 .shapelayer path, #nodes-0 .layer-below path').length"
        assert page.js(shapes) >= 1  # the band of the tolerance
        labels = str(page.text("#nodes-0"))
        assert "these nodes" in labels and ("this type of node" in labels) == (count >= 4)
        assert page.js("return document.querySelectorAll('#nodes-0 .ytick text').length") == scopes + 1
        assert "node2" in page.text("main") and page.js("return document.querySelectorAll('main b').length") == 0
        page.emulate(dark=True)
        page.wait_drawn()
        assert page.console() == []
