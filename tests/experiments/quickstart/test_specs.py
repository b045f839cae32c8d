"""The experiments' specs are valid, and the quickstart's metrics count what its comments say."""

from __future__ import annotations

from pathlib import Path

import pytest

from unperturbed.harness.program.build import build_configuration
from unperturbed.harness.spec.load import load_spec

EXPERIMENTS = Path(__file__).parents[3] / "experiments" / "quickstart"


@pytest.mark.parametrize("name", ["quickstart", "bzip2"])
def test_spec_is_valid_and_uses_each_metric_once(name: str) -> None:
    spec = load_spec(EXPERIMENTS / f"{name}.yaml")
    assert spec.name == name
    grouped = [metric for subset in spec.campaign.subsets.values() for metric in subset]
    assert len(spec.campaign.subsets) >= 3
    assert sorted([*grouped, spec.analysis.anchor]) == sorted(spec.measure.software)
    assert spec.campaign.baseline_runs >= 10
    assert len(spec.measure.hardware) >= 6


def test_the_sweep_is_valid() -> None:
    spec = load_spec(EXPERIMENTS / "sizes.yaml")
    assert spec.name == "sizes"
    assert list(spec.parameters) == ["size"]


@pytest.mark.usefixtures("loaded_wrapper")
def test_quickstarts_metrics_all_have_places_in_the_source(tmp_path: Path) -> None:
    spec = load_spec(EXPERIMENTS / "quickstart.yaml")
    built = build_configuration(
        spec.program, EXPERIMENTS / "blocksort", tmp_path / "00", spec.measure.software, spec_folder=EXPERIMENTS
    )
    assert built.sites == {
        "steps": 1,
        "blocks": 1,
        "buckets": 1,
        "output": 1,
        "moves": 1,
        "places": 1,
        "lookups": 1,
        "dealt": 1,
        "ranked": 2,
    }
    assert not built.skipped
