"""The specs of intervals by events, work and time are specs, and a pair that events cut is warped on request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.alignment import by_events
from experiments.alignment.pairs import Pair
from tests.experiments.alignment.test_evaluate import _run
from unperturbed.analysis.alignment import align
from unperturbed.harness.spec.load import load_spec


@pytest.mark.parametrize("ends", by_events.ENDS)
def test_the_specs_are_specs(tmp_path: Path, ends: str) -> None:
    spec = load_spec(by_events.write_spec(tmp_path, ends))
    assert spec.measure.interval_metric == ("steps" if ends == "events" else "")
    assert ("steps" in spec.measure.software) == (ends == "events")
    assert spec.program.prepare is not None and str(by_events.SIZE) in spec.program.prepare


def test_a_pair_that_events_cut_can_be_warped() -> None:
    whole = replace(_run(delayed=False), attributes={"clock": "program", "interval_metric": "steps", "interval_ns": 1})
    pair = Pair(whole[:-3], whole[3:])
    path = align(pair.a, pair.b)
    assert path.x_index.tolist() == path.y_index.tolist()
    again = by_events.warpable(pair)
    warped = align(again.a, again.b)
    assert warped.x_index.tolist() != warped.y_index.tolist()
