"""Numbers, times, lists and names are written in one way."""

from __future__ import annotations

import math

import pytest

from unperturbed.common import wording


@pytest.mark.parametrize(
    ("seconds", "text", "whole"),
    [
        (0.418, "0.42 s", "0 s"),
        (8, "8.0 s", "8 s"),
        (59.4, "59 s", "59 s"),
        (59.7, "1 min 0 s", "1 min 0 s"),
        (200, "3 min 20 s", "3 min 20 s"),
        (3599.8, "1 h 0 min", "1 h 0 min"),
        (7500, "2 h 5 min", "2 h 5 min"),
        (None, "–", "–"),
        (math.inf, "–", "–"),
    ],
)
def test_durations(seconds: float | None, text: str, whole: str) -> None:
    assert wording.duration(seconds) == text
    assert wording.duration(seconds, whole=True) == whole


def test_lists_and_counts() -> None:
    assert [wording.listing("abc"[:count]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert wording.first_of(["a", "b", "c"], 2) == "a, b and 1 more"
    assert wording.first_of(["a", "b"], 2) == "a, b"
    assert [wording.counted(count, "run") for count in (0, 1, 1200)] == ["0 runs", "1 run", "1,200 runs"]
    assert wording.counted(2, "entry", "entries") == "2 entries"


def test_numbers() -> None:
    assert [wording.number(value) for value in (1.2345, 12_345, -4, 0, None, math.nan)] == [
        "1.23",
        "12,300",
        "−4",
        "0",
        "–",
        "–",
    ]
    assert wording.signed(-0.001) == "0.00"
    assert wording.signed(0.05) == "+0.05"
    assert wording.percent(-0.00432) == "−0.43\u00a0%"
    assert wording.percent(0.00001) == "+0.0010\u00a0%"
    assert wording.percent(1e-13) == wording.percent(-9e-6) == "≈\u00a00\u00a0%"
    assert wording.percent(0.0) == "0\u00a0%"
    assert wording.p_value(0.0004) == "< 0.001"


def test_of_equally_close_names_the_preferred_ones_come_first() -> None:
    known = ["PAPI_L1_DCA", "PAPI_L1_DCH", "PAPI_L1_DCM"]
    assert wording.nearest("PAPI_L1_DCN", known)[0] == "PAPI_L1_DCA"
    assert wording.nearest("PAPI_L1_DCN", known, preferred=["PAPI_TOT_INS", "PAPI_L1_DCM"])[0] == "PAPI_L1_DCM"
    assert wording.nearest("PAPI_L1_DCHX", known, preferred=["PAPI_L1_DCM"])[0] == "PAPI_L1_DCH"


def test_one_slip_comes_before_all_else() -> None:
    known = ["PAPI_L1_DCA", "PAPI_L1_DCM", "PAPI_L1_ICM"]
    assert wording.nearest("PAPI_L1_DMC", known)[0] == "PAPI_L1_DCM"
    assert wording.did_you_mean("chekc", ["check", "run"]) == "did you mean check?"
    assert wording.did_you_mean("zzzz", ["check", "run"]) == ""
