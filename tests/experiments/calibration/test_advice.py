"""Advised numbers of runs on simulated verdicts: of totals, inner and outer correlations, with and without rounds."""

from __future__ import annotations

import re

import pytest

from experiments.calibration.advice import advice_header, advice_rows, beyond_header, beyond_rows


@pytest.mark.thorough
def test_advice_after_five_runs_is_kept_and_many_other_changes_are_decided_too() -> None:
    heads, _ = beyond_header()
    columns = [head.strip() for head in heads.strip("|").split("|")]
    for row in beyond_rows(60, 2):
        cells = dict(zip(columns, (cell.strip() for cell in row.strip("|").split("|")), strict=True))
        assert float(cells["decided with these"].split(" ±")[0]) > 0.5, row
        assert 0.2 < float(cells["by 60 runs"].split(" ±")[0]) < 0.85, row


@pytest.mark.thorough
def test_advised_runs_decide() -> None:
    heads, _ = advice_header()
    columns = [head.strip() for head in heads.strip("|").split("|")]
    for row in advice_rows(100, 2):
        cells = dict(zip(columns, (cell.strip() for cell in row.strip("|").split("|")), strict=True))
        shares = {
            name: float(match[1])
            for name in ("by true change (in tolerances) up to 0.5", "from 1.5", "accepted with these")
            if (match := re.match(r"([\d.]+) ±", cells[name]))
        }
        assert min(shares.values()) > 0.65, row
