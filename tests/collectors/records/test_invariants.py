"""What must hold between events: a part never exceeds its whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unperturbed.collectors.records.counts import PARTS, implausible
from unperturbed.collectors.sources import catalogue
from unperturbed.collectors.sources.perf import names as perf_names
from unperturbed.collectors.sources.perf.events import PREFIX


def test_every_pair_names_metrics_that_exist() -> None:
    for name in {name for pair in PARTS for name in pair}:
        if name.startswith(PREFIX):
            perf_names.parse(name.removeprefix(PREFIX), Path("/"))
        else:
            assert name in catalogue.PRESETS
    assert len(set(PARTS)) == len(PARTS)
    assert all(part != whole and (whole, part) not in PARTS for part, whole in PARTS)


def test_a_part_that_exceeds_its_whole_is_told() -> None:
    columns = {
        "PAPI_L1_DCM": np.array([5.0, 50, 7]),
        "PAPI_L1_DCA": np.array([10.0, 10, 10]),
        "PAPI_TOT_INS": np.array([1, 1, 1]),
    }
    (sentence,) = implausible(columns)
    assert sentence == "the part PAPI_L1_DCM (62) exceeds the whole PAPI_L1_DCA (30), in 33% of the intervals"
    assert implausible({"PAPI_L1_DCM": np.array([5.0]), "PAPI_L2_DCM": np.array([6.0])}) == [
        "the part PAPI_L2_DCM (6) exceeds the whole PAPI_L1_DCM (5), in 100% of the intervals"
    ]


def test_small_excesses_and_intervals_without_a_count_are_no_violation() -> None:
    whole = np.full(100, 1000.0)
    assert implausible({"PAPI_BR_MSP": whole * 1.009, "PAPI_BR_INS": whole}) == []
    assert len(implausible({"PAPI_BR_MSP": whole * 1.011, "PAPI_BR_INS": whole})) == 1
    never = np.array([np.nan, 10.0, 900.0])
    assert implausible({"PAPI_BR_MSP": never, "PAPI_BR_INS": np.array([1.0, 20.0, np.nan])}) == []
    assert implausible({"PAPI_BR_MSP": np.full(2, np.nan), "PAPI_BR_INS": whole[:2]}) == []


@pytest.mark.parametrize(("part", "whole"), PARTS)
def test_each_pair_is_looked_at(part: str, whole: str) -> None:
    assert implausible({part: np.array([1, 1]), whole: np.array([1, 1])}) == []
    assert len(implausible({part: np.array([3, 1]), whole: np.array([1, 1])})) >= 1
