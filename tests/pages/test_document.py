"""What every page shares: its frame, which leaves room for content, and the script in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.report.browser import chromium_missing, open_report
from unperturbed.analysis.pages.chart import Figure, axis, layout
from unperturbed.analysis.pages.document import document, frame, write_page


def test_the_frame_of_a_page_is_small() -> None:
    assert len(document("bare", version="1").encode()) < 600_000


@pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())
def test_a_browser_that_cannot_unpack_the_script_says_so_in_place_of_each_figure(tmp_path: Path) -> None:
    line = Figure("line", [{"type": "scatter", "x": [0, 1], "y": [1, 0]}], {**layout(200), "xaxis": axis()}, "A line.")
    page = document("old", frame(line), version="1")
    write_page(tmp_path / "page.html", page.replace("new DecompressionStream", "new NothingOfThisName"))
    with open_report(tmp_path / "page.html") as opened:
        opened.wait("return document.documentElement.dataset.state === 'failed'")
        assert "cannot draw the figures" in opened.text("#line")
        write_page(tmp_path / "page.html", page)
        opened.open(tmp_path / "page.html")
        opened.wait_drawn()
        assert opened.drawn()["line"]
        assert opened.console() == []
