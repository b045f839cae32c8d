"""The page of traces draws what it is asked for, in a real browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.analysis.report.browser import chromium_missing, open_report
from unperturbed.analysis.report import render_traces, write_page
from unperturbed.collectors import Metric, Trace
from unperturbed.errors import DataError


def runs(number: int = 2, intervals: int = 900) -> list[Trace]:
    rng = np.random.default_rng(1)
    bounds = np.arange(intervals + 1) * 10**6
    return [
        Trace.from_columns(
            [Metric("PAPI_L1_DCM", "simulated"), Metric("rows", "software")],
            {"PAPI_L1_DCM": rng.integers(0, 99, intervals), "rows": rng.integers(0, 3, intervals)},
            begin_ns=bounds[:-1],
            end_ns=bounds[1:],
            attributes={"run": f"{at:04d}"},
        )
        for at in range(number)
    ]


@pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())
def test_a_panel_a_metric_and_a_line_a_run(tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", render_traces(runs(), ["PAPI_L1_DCM", "rows"], "two <runs>"))
    with open_report(tmp_path / "page.html") as page:
        page.wait_drawn()
        assert page.drawn() == {"traces": 4}
        text = page.text("body")
    assert "two <runs>" in text
    assert "(simulated), events" in text
    assert "Each point is the mean of 2 neighbouring intervals." in text


def test_more_runs_than_can_be_told_apart_are_left_out_and_said() -> None:
    page = render_traces(runs(8, 10), ["rows"], "many")
    assert "The first 6 of 8 runs are drawn." in page


@pytest.mark.parametrize(
    ("metrics", "said"),
    [(["row"], "no plotted run has metric 'row': use PAPI_L1_DCM or rows"), ([], "cannot plot 0 metrics")],
)
def test_what_cannot_be_drawn(metrics: list[str], said: str) -> None:
    with pytest.raises(DataError, match=said):
        render_traces(runs(), metrics, "none")
