"""The spec of a command: asked for again with other numbers of runs, it is the same spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from unperturbed.harness.cli.drafting import different_options
from unperturbed.harness.drafts.saving import AskedRuns, command_of, commented, missing_script, set_runs

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
    assert set_runs(spec, {}) == (SPEC, [])
    asked = {"runs": AskedRuns("--runs", 12, 5), "baseline_runs": AskedRuns("--baseline-runs", 10, 10)}
    text, notes = set_runs(spec, asked)
    assert notes == [f"--runs 12: {spec} has runs: 12 now (5 before)"]
    assert text == SPEC.replace("runs: 5 ", "runs: 12 ")


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


@pytest.mark.parametrize(
    ("made", "kept", "said"),
    [
        (0, 5, "has baseline_runs: 5 now (10 before)"),
        (4, 5, "has baseline_runs: 5 now (10 before)"),
        (7, 7, "has baseline_runs: 7 now (10 before); 7 runs are already made, and they count"),
        (10, 10, "still has baseline_runs: 10; 10 runs are already made, and they count"),
        (12, 10, "still has baseline_runs: 10; 12 runs are already made, and they count"),
    ],
)
def test_fewer_runs_are_accepted_down_to_those_made(tmp_path: Path, made: int, kept: int, said: str) -> None:
    spec = tmp_path / "sort.yaml"
    spec.write_text(SPEC)
    text, (note,) = set_runs(spec, {"baseline_runs": AskedRuns("--runs", 5, made)})
    assert note == f"--runs 5: {spec} {said}"
    assert text == SPEC.replace("baseline_runs: 10 ", f"baseline_runs: {kept} ")


def test_a_spec_without_software_metrics_has_no_runs_to_set(tmp_path: Path) -> None:
    spec = tmp_path / "sort.yaml"
    spec.write_text(SPEC.replace("  runs: 5                     # of each configuration\n", ""))
    text, notes = set_runs(spec, {"runs": AskedRuns("--runs", 4, 0)})
    assert (text, notes) == (
        spec.read_text(),
        [f"--runs 4: {spec} has no `runs`, because it has no software metrics"],
    )


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
