"""What a record costs, in instructions that callgrind counts: the same on every host."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_a_record_takes_few_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    benchmark = import_module("sampler_instructions")
    program = benchmark.build_program(tmp_path, sites=4)
    cost = benchmark.inside_by_callgrind(tmp_path, program, 60)["handler"]
    assert 200 < cost <= benchmark.BOUND
