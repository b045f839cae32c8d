"""Notes on merged campaigns: totals of the configuration that the hardware metrics are from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from unperturbed.harness.results.merging import _changed_totals


def _checked(verdict: str) -> Any:
    changes = (
        SimpleNamespace(metric="PAPI_TOT_INS", verdict=verdict, change=0.035),
        SimpleNamespace(metric="time_s", verdict=verdict, change=0.5),
    )
    return SimpleNamespace(totals={"anchor": changes, "subset": changes})


@pytest.mark.parametrize(("verdict", "is_said"), [("perturbed", True), ("shifted", True), ("undecided", False)])
def test_changed_totals_of_the_merged_metrics_are_named(verdict: str, *, is_said: bool) -> None:
    sources = {"PAPI_TOT_INS": "0009", "steps": "0007"}
    configurations = {"0009": "anchor", "0007": "subset"}
    said = [note.replace("\u00a0", " ") for note in _changed_totals(_checked(verdict), sources, configurations)]
    expected = (
        "Hardware metrics are from runs of anchor, whose totals differ from the baseline's: PAPI_TOT_INS +3.5 %. Take "
        "totals from the baseline."
    )
    assert said == ([expected] if is_said else [])
