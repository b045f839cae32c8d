"""Programs killed at any moment; some here, a thousand in kill_validation.py."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.collectors.runtime.kill_validation import CASES, Case, compile_victim, kill_one


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    return {
        workers: compile_victim(tmp_path_factory.mktemp("victim"), workers)
        for workers in {case.workers for case in CASES}
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kills_lose_no_whole_record(tmp_path: Path, victims: dict[int, Path], case: Case) -> None:
    chance = random.Random(11)
    kills = whole = 0
    while kills < 40 or whole <= 400:  # on a busy host the observer writes fewer records
        facts = kill_one(tmp_path, victims[case.workers], case, interval_ns=100_000, delay_s=chance.uniform(0, 0.02))
        assert facts.faults == ()
        kills += 1
        whole += facts.whole
