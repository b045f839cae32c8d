"""The evaluation of the alignment experiment judges each way of aligning two planted runs, and fills its page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.alignment import evaluate
from experiments.alignment.figures import draw_all
from experiments.alignment.pairs import WAYS, Pair, Workload
from unperturbed.collectors import Metric, Trace

INTERVALS, HELD = 300, slice(100, 130)
WORKLOAD = Workload("planted", ("one", "other"), "rows", ("spheres",), "raytrace")


def _run(*, delayed: bool) -> Trace:
    """Return a run of varying IPC; if delayed, one interval in the middle takes thirty more."""
    at = np.arange(INTERVALS)
    if delayed:
        at = np.concatenate([at[: HELD.start], np.full(30, HELD.start), at[HELD.start :]])
    moved = np.diff(at, prepend=-1) > 0
    work = np.random.default_rng(1).integers(200, 2000, INTERVALS)[at]
    columns = {
        "PAPI_TOT_INS": work * 10,
        "PAPI_TOT_CYC": np.full(len(at), 10_000),
        "rows": (moved & (at % 10 == 0)).astype(np.int64),
        "spheres": moved.astype(np.int64),
    }
    kinds = {"PAPI_TOT_INS": "simulated", "PAPI_TOT_CYC": "simulated", "rows": "software", "spheres": "software"}
    metrics = [
        Metric(name, kind, components=(name,) if kind == "simulated" else (), source="callgrind")
        for name, kind in kinds.items()
    ]
    metrics.append(Metric("IPC", "derived", components=("PAPI_TOT_INS", "PAPI_TOT_CYC")))
    columns["IPC"] = columns["PAPI_TOT_INS"] / columns["PAPI_TOT_CYC"]
    begin = np.arange(len(at)) * 1_000_000
    attributes = {"run": "0001", "configuration": "one", "host": "h", "interval_ns": 1_000_000}
    return Trace.from_columns(metrics, columns, begin_ns=begin, end_ns=begin + 1_000_000, attributes=attributes)


@pytest.fixture(scope="module")
def found() -> evaluate.Found:
    return evaluate.evaluate(WORKLOAD, [Pair(_run(delayed=False), _run(delayed=True))])


def test_every_way_is_judged_with_every_number_of_anchors(found: evaluate.Found) -> None:
    assert set(found.ways) == {"spheres"}
    assert set(found.ways["spheres"]) == set(WAYS)
    for by_budget in found.ways["spheres"].values():
        assert set(by_budget) == set(evaluate.BUDGETS)
        assert all(0 <= share <= 1 for shares in by_budget.values() for share in shares)
    assert found.ways["spheres"][next(iter(WAYS))][32][0] > 0.7
    assert len(found.penalties["spheres"]) == len(evaluate.PENALTIES)


def test_the_page_is_filled_and_every_figure_drawn(found: evaluate.Found, tmp_path: Path) -> None:
    page = evaluate.page([found], "Made.", "page.md")
    assert "| planted (raytrace) | rows | 30 | 300, 330 | 10.0, 9.1 |" in page
    assert "**planted, anchored on `rows`, judged by `spheres`**" in page
    assert "Made." in page
    assert "Intervals: planted 1.00 ms." in evaluate.page([found], "Made.", "page_processor.md")
    draw_all(tmp_path, [found], evaluate.BUDGETS, evaluate.PENALTIES)
    assert len(list(tmp_path.glob("*.svg"))) == 7
