"""Variants of the experiment's specs are specs, with what was to be changed changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from experiments.perturbation.series import PROGRAMS, Program
from experiments.perturbation.variants import COUNTERS, INPUTS, LAYOUTS, write_variant
from unperturbed.harness.spec.load import load_spec


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_variant_in_layouts_has_three_steps_and_a_shorter_run(program: Program, tmp_path: Path) -> None:
    written = load_spec(program.spec)
    spec = load_spec(write_variant(tmp_path, program, layouts=True))
    assert (spec.campaign.baseline_runs, spec.campaign.runs, spec.campaign.layouts) == (LAYOUTS, LAYOUTS, "varied")
    names = list(written.campaign.subsets)
    assert list(spec.campaign.subsets) == [names[0], names[4], names[-1]]
    assert spec.measure.hardware == written.measure.hardware
    assert _input(tmp_path, program).count(INPUTS[program.name].short) == 1


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_variant_for_a_processor_has_its_counters_and_a_longer_run(program: Program, tmp_path: Path) -> None:
    spec = load_spec(write_variant(tmp_path, program, counters=COUNTERS))
    assert tuple(spec.measure.hardware) == COUNTERS
    assert (spec.measure.source, spec.measure.clock) == ("auto", "monotonic")
    assert list(spec.campaign.subsets) == list(load_spec(program.spec).campaign.subsets)
    assert _input(tmp_path, program).count(INPUTS[program.name].long) == 1


def _input(folder: Path, program: Program) -> str:
    """Return the spec, with the file that it feeds the program."""
    beside = folder / INPUTS[program.name].key
    spec = str(yaml.safe_load((folder / f"{program.name}.yaml").read_text())["program"])
    assert "{spec}" not in spec, "what stands beside the written spec is found by its path"
    return spec + (beside.read_text() if beside.is_file() else "")
