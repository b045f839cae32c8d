"""The page of evidence on totals names the looks that campaigns until decided make."""

from __future__ import annotations

from pathlib import Path

from experiments.calibration.looks import planned_looks

ROOT = Path(__file__).parents[3]


def test_the_page_names_the_planned_looks() -> None:
    assert "looks after {planned})" in (ROOT / "experiments/calibration/totals.md").read_text(encoding="utf-8")
    assert f"looks after {planned_looks()})" in (ROOT / "docs/evidence/totals.md").read_text(encoding="utf-8")
