"""The page on passes in which metrics meet: its plans, and the pairs that it counts."""

from __future__ import annotations

import pytest

from experiments.multiplexing import together


def test_pairs_are_counted_once_in_however_many_passes_they_meet() -> None:
    assert together.met([["a", "b", "c"], ["b", "a"], ["d"]]) == 3


def test_a_row_says_what_first_fit_meets_and_what_is_necessary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "SIZES", ((6, 3),))
    (row,) = together.plans()
    metrics, counters, pairs, first_fit, share, greedy, chosen, necessary, _, by_trials, _ = row
    assert (metrics, counters, pairs, first_fit, share) == (6, 3, 15, 2, "40%")
    assert isinstance(greedy, int)
    assert greedy >= 6
    assert (chosen, necessary, by_trials) == (6, 6, 6)  # C(6, 3, 2)
    assert together.plan_table([row])[-1].startswith("| 6 | 3 | 15 | 2 | 40% |")
