"""Levels of two configurations: the change of the mean total, with its interval."""

from __future__ import annotations

import numpy as np
import pytest

from unperturbed.analysis.perturbation import LevelChange, level_changes, level_table


class _Run(dict[str, np.ndarray]):
    """What is read of a trace: its counts by metric."""


def _runs(*totals: float) -> list[_Run]:
    return [_Run(cycles=np.array([total / 2, total / 2]), idle=np.zeros(2)) for total in totals]


def test_a_fall_by_two_fifths_is_shown_with_its_interval() -> None:
    (change,) = level_changes(_runs(100, 102, 98), _runs(60, 59, 61), ["cycles", "idle"], alpha=0.05)  # type: ignore[arg-type]
    assert change.ratio == pytest.approx(-0.4)
    assert -0.5 < change.low < -0.4 < change.high < -0.3
    assert change.shown


def test_runs_that_do_not_vary_or_are_alone() -> None:
    (exact,) = level_changes(_runs(100, 100), _runs(110, 110), ["cycles"], alpha=0.05)  # type: ignore[arg-type]
    assert (exact.low, exact.high) == pytest.approx((0.1, 0.1))
    (same,) = level_changes(_runs(356, 356, 356.0), _runs(356, 356, 356), ["cycles"], alpha=0.05)  # type: ignore[arg-type]
    assert (same.low, same.high, same.shown) == (0, 0, False)
    (nearly,) = level_changes(_runs(356, 356, 356), _runs(356, 356, 356 + 1e-12), ["cycles"], alpha=0.05)  # type: ignore[arg-type]
    assert (nearly.low, nearly.high, nearly.shown) == (0, 0, False)
    (alone,) = level_changes(_runs(100), _runs(110), ["cycles"], alpha=0.05)  # type: ignore[arg-type]
    assert (alone.interval, alone.shown) == ("–", False)


def test_the_table_names_a_and_b() -> None:
    text = level_table({"B": [LevelChange("PAPI_TOT_CYC", 100.0, 59.0, -0.41, -0.42, -0.40)]}, 0.05).to_text()
    assert "−41" in text
    assert "A" in text.split()
