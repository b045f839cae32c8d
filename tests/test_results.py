"""Every result can be read, tabulated, stored and opened as a page."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests import rooms
from unperturbed.common.result import Result


def _results() -> list[type[Result]]:
    for name in rooms.modules():
        # What runs inside a measured Python program is imported by file name, in that program.
        if not name.startswith("instrument.python.injected") and not name.endswith("__main__"):
            importlib.import_module(f"unperturbed.{name}")
    found, left = [], list(Result.__subclasses__())
    while left:
        one = left.pop()
        left += one.__subclasses__()
        if one.__module__.startswith("unperturbed."):
            found.append(one)
    return sorted(found, key=lambda one: one.__name__)


RESULTS = _results()


def test_there_are_the_results_that_people_meet() -> None:
    names = {one.__name__ for one in RESULTS}
    assert names >= {
        *("Alignment", "Campaign", "CampaignVerdicts", "CausalModel", "Composition", "Decomposition", "Diagnosis"),
        *("Dictionary", "Forecast", "MergedTrace", "PairwiseAlignment", "Plan", "StructuralComparison", "SweepTable"),
        *("Verdict", "WarpPath"),
    }


@pytest.mark.parametrize("result", RESULTS, ids=lambda one: one.__name__)
def test_a_result_says_all_that_results_say(result: type[Result]) -> None:
    if not inspect.isabstract(result):
        for method in ("headline", "tables", "to_frame", "to_dict", "summary", "write_html"):
            assert callable(getattr(result, method))
    if result.write_html is Result.write_html:
        module, _, function = result._page.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
    assert result.__repr__ is Result.__repr__, "its repr is its headline"
