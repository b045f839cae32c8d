"""The spec of a command: asked for again with more runs, it is the same spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from unperturbed.harness.cli.drafting import different_options
from unperturbed.harness.drafts.saving import command_of, commented, missing_script, set_runs

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


def test_the_options_in_which_a_command_differs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = tmp_path / "sort.yaml"
    before = "unperturbed run -- ./sort -- x"
    spec.write_text(f"{commented(f'Typed in {tmp_path}: {before}')}name: sort\n")
    assert command_of(spec) == before
    assert command_of(tmp_path / "none.yaml") == ""
    monkeypatch.chdir(tmp_path.parent)
    assert command_of(spec) == ""  # typed in another folder
    now = "unperturbed run --until decided --max-hours 2 -- ./sort -- x"
    assert different_options(now, before) == "without --until decided and --max-hours 2"
    assert different_options(before, now) == "with --until decided and --max-hours 2"
    metrics = "unperturbed run --metrics PAPI_TOT_INS -- ./sort -- x"
    said = "without --until decided and --max-hours 2 and with --metrics PAPI_TOT_INS"
    assert different_options(now, metrics) == said
    for other in ("unperturbed run -- ./sort -- y", "unperturbed compare -- ./sort -- x", ""):
        assert different_options(now, other) == ""


def test_fewer_runs_are_left_to_the_user(tmp_path: Path) -> None:
    spec = tmp_path / "sort.yaml"
    spec.write_text(SPEC.replace("  runs: 5                     # of each configuration\n", ""))
    before = spec.read_text()
    (fewer, none) = set_runs(spec, {"baseline_runs": 4, "runs": 4})[1]
    assert "already has baseline_runs: 10, and options can only increase it; edit the spec" in fewer
    assert "has no `runs`" in none
    assert spec.read_text() == before


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python3 none.py", "none.py"),
        ("python3 -u -O none.py x", "none.py"),
        ("Rscript --vanilla none.R", "none.R"),
        ("env A=1 B=2 bash none.sh", "none.sh"),
        ("env", ""),
        ("env A=1", ""),
        ("python3", ""),
        ("python3 -m pytest none.py", ""),
        ("bash -lc ./none.sh", ""),  # code: it may change the folder first
        ("node --require none.js there.js", ""),
        ("sort none.py", ""),
        ("bash there.sh", ""),
    ],
)
def test_a_missing_script_is_found_after_options_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, script: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.sh").touch()
    assert missing_script(command.split()) == script
