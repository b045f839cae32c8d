"""The spec of a command: asked for again with more runs, it is the same spec."""

from __future__ import annotations

from pathlib import Path

from unperturbed.harness.drafts.saving import set_runs

SPEC = """# Typed in /somewhere: unperturbed run -- ./sort
name: sort

campaign:
  baseline_runs: 10           # with hardware metrics only
  runs: 5                     # of each configuration
  seed: 1
"""


def test_more_runs_are_put_into_the_spec(tmp_path: Path) -> None:
    spec = tmp_path / "sort.yaml"
    spec.write_text(SPEC)
    assert set_runs(spec, {})[1] == []
    assert set_runs(spec, {"runs": 12, "baseline_runs": 10})[1] == [f"runs is 12 in {spec} now (5 before)"]
    assert spec.read_text() == SPEC.replace("runs: 5 ", "runs: 12 ")
    assert list(tmp_path.iterdir()) == [spec]


def test_fewer_runs_are_left_to_the_user(tmp_path: Path) -> None:
    spec = tmp_path / "sort.yaml"
    spec.write_text(SPEC.replace("  runs: 5                     # of each configuration\n", ""))
    before = spec.read_text()
    (fewer, none) = set_runs(spec, {"baseline_runs": 4, "runs": 4})[1]
    assert "already has baseline_runs: 10, and options can only increase it; edit the spec" in fewer
    assert "has no `runs`" in none
    assert spec.read_text() == before
