"""Programs too short for the simulator's usual quantum, where the installed valgrind offers a finer one."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.harness.campaign.test_sampling_campaign import traces
from tests.harness.phases_campaign import unperturbed, write_spec
from unperturbed.collectors.sources import callgrind
from unperturbed.collectors.sources.callgrind import QUANTUM_BLOCKS, finest_quantum, valgrind_command
from unperturbed.harness.campaign.pilot import _finer_quantum
from unperturbed.harness.spec.quantities import Interval

FINER = finest_quantum() < QUANTUM_BLOCKS


@pytest.mark.skipif(not FINER, reason="this valgrind has one quantum only (before 3.21)")
def test_a_short_program_is_cut_by_finer_quanta_at_equal_work(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, program__run="{build}/phases 4")
    campaign = tmp_path / "campaigns" / "phases"
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    runs = traces(campaign, "baseline")
    (quantum,) = {trace.attributes["quantum_blocks"] for trace in runs}
    assert finest_quantum() <= quantum < QUANTUM_BLOCKS
    assert min(len(trace) for trace in runs) >= 30
    instructions = [trace["PAPI_TOT_INS"][5:25] for trace in runs]
    assert np.ptp(np.sort(instructions, axis=0), axis=0).max() < 0.05 * np.mean(instructions)


@pytest.mark.parametrize("help_text", ["--fair-sched=no|yes|try", "--scheduling-quantum=<number>  timeslice"])
def test_the_installed_valgrind_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, help_text: str) -> None:
    program = tmp_path / "valgrind"
    program.write_text(f"#!/bin/sh\necho '{help_text}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    finest_quantum.cache_clear()
    finest = finest_quantum()
    finest_quantum.cache_clear()
    assert finest == (20_000 if "quantum" in help_text else QUANTUM_BLOCKS)


@pytest.mark.parametrize(
    ("records", "intervals", "quantum"),
    [(None, 40, None), (None, 20, 60_000), (None, 2, 20_000), (100, 80, None), (100, 60, 54_000), (100, 3, 20_000)],
)
def test_the_quantum_is_as_fine_as_it_must_be(
    monkeypatch: pytest.MonkeyPatch, records: int | None, intervals: int, quantum: int | None
) -> None:
    monkeypatch.setattr("unperturbed.harness.campaign.pilot.finest_quantum", lambda: 20_000)
    assert _finer_quantum(Interval(records=records), range(intervals)) == quantum  # type: ignore[arg-type]
    monkeypatch.setattr("unperturbed.harness.campaign.pilot.finest_quantum", lambda: QUANTUM_BLOCKS)
    assert _finer_quantum(Interval(records=records), range(intervals)) is None  # type: ignore[arg-type]


def test_only_another_quantum_than_the_usual_one_is_passed_on() -> None:
    machine = callgrind.Machine("32768,8,64", "32768,8,64", "262144,8,64")
    usual, finer = (valgrind_command(machine, Path("dumps"), quantum) for quantum in (QUANTUM_BLOCKS, 30_000))
    assert finer == [*usual, "--scheduling-quantum=30000"]
