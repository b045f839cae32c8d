"""Runs held against each other interval by interval: right where intervals are of work, wrong where one run pauses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.alignment import unaligned
from experiments.alignment.pairs import WORKLOADS, Pair
from tests.experiments.alignment.test_evaluate import HELD, INTERVALS, WORKLOAD, _run
from unperturbed.harness.spec.load import load_spec


def test_each_interval_is_held_against_the_one_of_its_number() -> None:
    short, long = _run(delayed=False), _run(delayed=True)
    path = unaligned.unaligned(Pair(short, long), "", 0)
    assert list(path.x_index) == [*range(INTERVALS), *[INTERVALS - 1] * 30]
    assert list(path.y_index) == list(range(INTERVALS + 30))
    back = unaligned.unaligned(Pair(long, short), "", 0)
    assert (list(back.x_index), list(back.y_index)) == (list(path.y_index), list(path.x_index))


def test_what_lies_behind_a_pause_is_lost_without_alignment() -> None:
    pair = Pair(_run(delayed=False), _run(delayed=True))
    perfect = [float(cell.split(" ")[0]) for cell in unaligned.shares([pair], WORKLOAD, "spheres")]
    assert perfect[0] == pytest.approx(100 * HELD.start / (INTERVALS + 30), abs=2)
    assert perfect[2] > 70
    same = Pair(_run(delayed=False), _run(delayed=False))
    assert unaligned.shares([same], WORKLOAD, "spheres") == ["100.0 (100.0)"] * 3


@pytest.mark.parametrize("clock", unaligned.CLOCKS.values())
def test_the_shorter_specs_are_specs(tmp_path: Path, clock: str) -> None:
    for workload in WORKLOADS:
        if workload.name not in unaligned.SHORTER:
            continue
        spec = load_spec(unaligned.write_short_spec(tmp_path, workload, clock))
        key, _, short = unaligned.SHORTER[workload.name]
        assert short in str(getattr(spec.program, key))
        assert (spec.measure.clock, spec.measure.interval.records) == (clock, unaligned.RECORDS)


def test_medians_are_over_pairs() -> None:
    pairs = [Pair(_run(delayed=False), _run(delayed=late)) for late in (False, True, False)]
    assert unaligned.shares(pairs, WORKLOAD, "spheres")[0] == "100.0 (100.0)"
    assert np.isfinite([float(cell.split(" ")[0]) for cell in unaligned.shares(pairs, WORKLOAD, "spheres")]).all()
