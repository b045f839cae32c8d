from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from unperturbed.analysis.report.alignment import AlignmentExample
from unperturbed.analysis.report.campaign.content import ReportContent, to_json
from unperturbed.errors import DataError


def test_json_twin_holds_verdicts_runs_settings_and_provenance(content: ReportContent):
    twin = json.loads(json.dumps(to_json(content), allow_nan=False))
    assert twin["campaign"] == "quickstart"
    assert twin["settings"]["tolerance"] == 0.1
    assert [verdict["verdict"] for verdict in twin["verdicts"]] == [verdict.verdict for verdict in content.verdicts]
    assert twin["verdicts"][-1]["changes"][0]["effect"] == content.verdicts[-1].changes[0].effect
    assert len(twin["runs"]) == len(content.runs)
    assert twin["provenance"]["Tools"]["valgrind"] == "3.19.0"
    assert twin["source"]["simulated"] is True
    assert twin["spec"] == content.spec_text


def test_json_twin_holds_no_number_that_json_lacks(content: ReportContent):
    first = content.verdicts[0]
    odd = replace(first.changes[0], effect=float("nan"), low=-float("inf"), p=np.float64(0.25))
    twin = to_json(replace(content, verdicts=(replace(first, changes=(odd,)),)))
    text = json.dumps(twin, allow_nan=False)
    change = json.loads(text)["verdicts"][0]["changes"][0]
    assert change["effect"] is None
    assert change["low"] is None
    assert change["p"] == 0.25


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (([0, 1], [0]), "2 steps in the first run, but 1 in the second"),
        (([0, 3], [0, 1]), "points outside the first run, which has 3 intervals"),
        (([0, 1], [0, -1]), "points outside the second run, which has 2 intervals"),
    ],
)
def test_a_path_that_does_not_fit_is_refused(path, said):
    with pytest.raises(DataError, match=said):
        AlignmentExample("a", "b", "IPC", [1, 2, 3], [1, 2], *path)


@pytest.mark.parametrize(
    ("series", "said"), [([], "b has no intervals"), ([1.0, float("nan")], "b contains a value that is not finite")]
)
def test_a_series_that_cannot_be_drawn_is_refused(series, said):
    with pytest.raises(DataError, match=said):
        AlignmentExample("a", "b", "IPC", [1.0], series, [0], [0])
