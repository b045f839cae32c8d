"""A figure of another distribution is found by its entry point and is part of the page; nothing else is touched."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from unperturbed.analysis.report import ReportContent, render
from unperturbed.analysis.report.campaign.figures import report_figures
from unperturbed.errors import HostError

HEATMAP = """
from unperturbed.analysis.report.campaign.figures import ReportFigure
from unperturbed.analysis.pages.chart import Figure, layout

def draw(view):
    totals = [len(traces) for traces in view.content.traces.values()]
    data = [{"type": "bar", "x": list(view.content.traces), "y": totals}]
    return Figure("any", data, layout(300), "Runs of each configuration, as bars.")

HEATMAP = ReportFigure(
    "runs-a-configuration", SECTION, draw, heading="Runs <counted>", text="More is better.", caption="From traces."
)
NOTHING = ReportFigure("nothing", "signals", lambda view: None)
"""


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    information = tmp_path / "heatmap-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: heatmap\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[unperturbed.report_figures]\nheatmap = heatmap:HEATMAP\nnothing = heatmap:NOTHING\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("heatmap", None)


@pytest.mark.parametrize(
    ("section", "before", "after"),
    [
        ("signals", 'id="traces-0"', 'id="correlations"'),
        ("correlations", 'id="outer-overhead"', 'id="alignment"'),
        ("cache-lines", "<h2>Cache lines</h2>", 'id="runs"'),
        ("runs", "<h2>Runs figures</h2>", 'id="provenance"'),
    ],
)
def test_a_figure_of_another_distribution_is_on_the_page(
    distribution: Path, content: ReportContent, section: str, before: str, after: str
) -> None:
    (distribution / "heatmap.py").write_text(HEATMAP.replace("SECTION", repr(section)))
    page = render(content)
    place = page.index('id="runs-a-configuration"')
    assert page.index(before) < place < page.index(after)
    assert "<h3>Runs &lt;counted&gt;</h3>" in page
    assert "More is better." in page
    assert "From traces." in page
    assert 'id="runs-a-configuration-data"' in page
    assert page.count('id="nothing"') == 0


def test_the_name_of_a_figure_is_taken_once(distribution: Path, content: ReportContent) -> None:
    (distribution / "heatmap.py").write_text(
        HEATMAP.replace("SECTION", "'signals'").replace("runs-a-configuration", "forest")
    )
    with pytest.raises(HostError, match=r"two extensions of .*figures are named forest"):
        render(content)


def test_figures_of_the_report_are_in_the_order_of_their_places() -> None:
    names = [record.name for record in report_figures()]
    assert names.index("before-after") < names.index("traces")
    assert names.index("baseline-by-run") < names.index("inner-overhead") < names.index("outer-overhead")
