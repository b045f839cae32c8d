"""Paths, alignments, sets of pairs and merged traces are results: a line, tables, a frame, plain data and a page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.alignment.test_traces import trace
from unperturbed.analysis.alignment import align, distance_matrix, dtw, merge, pairwise, warp_paths
from unperturbed.common.result import Result

CHANCE = np.random.default_rng(5)
SERIES = [CHANCE.normal(size=length).cumsum() for length in (30, 40, 25)]
COUNTS = np.array([0, 2, 1, 0, 3] * 8)


def runs(count: int = 3) -> list:
    return [
        trace(run=f"{number:04}", IPC=2 + np.sin(np.arange(40) / (4 + number)), steps=COUNTS) for number in range(count)
    ]


def test_pairwise_is_the_distance_matrix_and_on_request_the_paths() -> None:
    found = pairwise(SERIES, names=("a", "b", "c"), penalty=0.5, band=9)
    assert np.array_equal(found.distances, distance_matrix(SERIES, penalty=0.5, band=9))
    assert found.paths == {}
    assert found.headline().startswith("3 series: distances from ")
    again = pairwise(SERIES, penalty=0.5, band=9, paths=True)
    assert np.array_equal(again.distances, found.distances)
    paths = warp_paths(SERIES, penalty=0.5, band=9)
    assert {pair: path.to_dict() for pair, path in again.paths.items()} == {
        pair: path.to_dict() for pair, path in paths.items()
    }
    frame = found.to_frame()
    assert frame.columns == ["first", "second", "distance"]
    assert frame.rows()[0] == ("a", "b", found.distances[0, 1])
    assert pairwise([SERIES[0]]).headline() == "1 series: no pair to compare"
    many = pairwise([SERIES[number % 3] for number in range(14)])
    assert [column.head for column in many.tables()[0].columns][:2] == ["series", "nearest"]


def test_pairwise_of_traces() -> None:
    found = pairwise(runs(), paths=True)
    assert (found.names, found.on) == (("0000", "0001", "0002"), ("IPC",))
    plain = pairwise([run.values(("IPC",)) for run in runs()], scale="range")
    assert np.array_equal(found.distances, plain.distances)
    assert pairwise(runs(), on=["steps"]).on == ("steps",)
    with pytest.raises(ValueError, match="not both"):
        pairwise([runs()[0], SERIES[0]])
    with pytest.raises(ValueError, match="2 names for 3 series"):
        pairwise(SERIES, names=("a", "b"))


def test_the_papers_method_is_one_choice() -> None:
    a, b = runs(2)
    paper = align(a, b, method="paper")
    spelt = align(a, b, penalty=0.0, flat="warped", pace="time", mend=False)
    assert paper.to_dict() == spelt.to_dict()
    assert (paper.method, paper.penalty) == ("dtw", 0.0)
    with pytest.raises(ValueError, match="takes no penalty"):
        align(a, b, method="paper", penalty=1.0)
    with pytest.raises(ValueError, match="`dtw`, `milestones` or `paper`"):
        align(a, b, method="fastdtw")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["path", "alignment", "pairs", "merged"])
def test_every_result_can_be_read_stored_and_opened(name: str, tmp_path: Path) -> None:
    a, b, _ = runs()
    made: dict[str, Result] = {
        "path": dtw(SERIES[0], SERIES[1]),
        "alignment": align(a, b),
        "pairs": pairwise(SERIES),
        "merged": merge([a, b]),
    }
    result = made[name]
    assert "\n" not in result.headline()
    assert result.summary().startswith(result.headline())
    assert repr(result) == f"<{type(result).__name__}: {result.headline()}>"
    assert len(result.to_frame()) > 0
    json.dumps(result.to_dict(), allow_nan=False)
    page = result.write_html(tmp_path / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>") or page.startswith("<!doctype html>")
    assert result._repr_html_()
