"""Options around a campaign: --dry-run, --progress json, -v, --quiet, --open, --no-write, and a spec for its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.phases_campaign import unperturbed, write_spec
from unperturbed.collectors.passes import Passes
from unperturbed.harness.campaign.progress import Estimate
from unperturbed.harness.cli.terminal import TerminalProgress

PLAIN: dict[str, Any] = {
    "measure__hardware": ["PAPI_TOT_INS", "PAPI_L1_DCM"],
    "measure__derived": {},
    "measure__software": {},
    "campaign__subsets": {},
    "analysis__anchor": None,
}


def _events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a spec and its campaign, which was run with events."""
    folder = tmp_path_factory.mktemp("options")
    write_spec(folder, **PLAIN)
    planned = unperturbed(folder, "run", "--dry-run", "--json", "spec.yaml")
    assert planned.returncode == 0, planned.stderr
    assert not (folder / "campaigns").exists()
    (folder / "planned.json").write_text(planned.stdout)
    done = unperturbed(folder, "run", "--progress", "json", "--json", "spec.yaml")
    assert done.returncode == 0, done.stderr
    (folder / "events").write_text(done.stderr)
    (folder / "verdicts").write_text(done.stdout)
    return folder


def test_every_step_is_an_event(campaign: Path) -> None:
    events = _events((campaign / "events").read_text())
    assert all({"event", "time"} <= set(event) for event in events)
    (planned,) = (event for event in events if event["event"] == "planned")
    assert (planned["runs"], planned["done"], planned["configurations"]) == (5, 0, {"baseline": 5})
    assert planned["passes"][0]["metrics"] == ["PAPI_TOT_INS", "PAPI_L1_DCM"]
    runs = [event for event in events if event["event"] == "run"]
    assert [event["run"] for event in runs] == ["0001", "0002", "0003", "0004", "0005"]
    assert [event["done"] for event in runs] == [0, 1, 2, 3, 4]
    assert {event["configuration"] for event in runs} == {"baseline"}
    assert events[-1]["event"] == "result"
    assert events[-1]["exit_code"] == 0
    assert Path(events[-1]["report"]).is_file()
    assert json.loads((campaign / "verdicts").read_text())["campaign"] == "phases"


def test_an_error_is_an_event_too(tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "run", "--progress", "json", "nothing.yaml")
    (event,) = _events(done.stderr)
    assert (event["event"], event["exit_code"], done.returncode) == ("error", 2, 2)
    assert "no such file" in event["message"]


def test_the_plan_before_and_after(campaign: Path) -> None:
    before = json.loads((campaign / "planned.json").read_text())
    assert (before["runs"], before["done"], before["seconds"], before["can_run"]) == (5, 0, None, True)
    assert before["builds"] == {"reference": [], "baseline": []}
    assert before["commands"] == {"program.build": "make CC={cc}", "program.run": "{build}/phases 16"}
    after = unperturbed(campaign, "run", "--dry-run", "spec.yaml").stdout
    assert "5 runs (baseline 5); 5 runs are already done" in after
    assert "nothing was run or written" in after
    text = (campaign / "spec.yaml").read_text()
    (campaign / "spec.yaml").write_text(text.replace("baseline_runs: 5", "baseline_runs: 6"))
    more = unperturbed(campaign, "run", "--dry-run", "spec.yaml")
    (campaign / "spec.yaml").write_text(text)
    assert "spent all of α" in " ".join((more.stdout + more.stderr).split())
    assert "spent all of α" not in after


def test_the_plan_has_what_is_compiled_into_each_build(tmp_path: Path) -> None:
    write_spec(tmp_path)
    shown = unperturbed(tmp_path, "run", "--dry-run", "spec.yaml").stdout
    assert "build baseline: without software metrics\nbuild ready: with rounds, steps\n" in shown
    assert "13 runs (baseline 5, anchor 5, steps 3)" in shown
    assert "40 to 300 times as long as the program" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["phases", "spec.yaml"]


def test_the_plan_has_every_command_that_would_be_executed(tmp_path: Path) -> None:
    programs = {"ample": {"run": "{build}/phases 99"}}
    write_spec(tmp_path, **PLAIN, program__prepare="touch {inputs}/made", programs=programs)
    shown = unperturbed(tmp_path, "run", "--dry-run", "spec.yaml").stdout
    assert shown.startswith(
        "command program.build: make CC={cc}\ncommand program.prepare: touch {inputs}/made\n"
        "command program.run: {build}/phases 16\ncommand programs.ample.run: {build}/phases 99\n"
    )


def test_a_plan_that_cannot_be_run_here_says_so(tmp_path: Path) -> None:
    write_spec(tmp_path, **{**PLAIN, "measure__hardware": ["PAPI_TOT_INS", "PAPI_FP_OPS"]})
    done = unperturbed(tmp_path, "run", "--dry-run", "spec.yaml")
    assert done.returncode == 3
    assert "PAPI_FP_OPS" in done.stdout


def test_a_program_without_a_spec_is_planned_without_running_it(tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "run", "--dry-run", "--", "sh", "-c", "touch ran")
    assert done.returncode == 0, done.stderr
    assert "nothing is built" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_quiet_and_verbose(campaign: Path) -> None:
    quiet = unperturbed(campaign, "run", "--quiet", "spec.yaml")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert "report:" in quiet.stdout
    loud = unperturbed(campaign, "run", "-v", "--campaign", "again", "spec.yaml")
    assert loud.returncode == 0
    lines = [line for line in loud.stderr.splitlines() if line.startswith("run ")]
    assert [line.split(":")[0] for line in lines] == [f"run {number} of 5" for number in range(1, 6)]


def test_a_spec_in_the_place_of_its_campaign(campaign: Path) -> None:
    by_folder = unperturbed(campaign, "check", "campaigns/phases")
    by_spec = unperturbed(campaign, "check", "spec.yaml")
    assert (by_spec.returncode, by_spec.stdout) == (by_folder.returncode, by_folder.stdout)
    assert unperturbed(campaign, "report", "spec.yaml").stdout.strip().endswith("campaigns/phases/report.html")


def test_a_check_that_writes_nothing(campaign: Path) -> None:
    folder = campaign / "campaigns" / "phases"
    for name in ("report.html", "verdicts.json"):
        (folder / name).unlink(missing_ok=True)
    done = unperturbed(campaign, "check", "--no-write", folder)
    assert done.returncode == 0
    assert "report:" not in done.stdout
    assert not (folder / "report.html").exists() and not (folder / "verdicts.json").exists()
    assert "Write report.html" in " ".join(unperturbed(campaign, "check", "--help").stdout.split())
    assert unperturbed(campaign, "check", folder).returncode == 0
    assert (folder / "report.html").is_file()


def test_the_report_is_opened(campaign: Path, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    done = unperturbed(campaign, "report", "--open", "campaigns/phases", environment={"BROWSER": str(browser)})
    assert done.returncode == 0
    page = campaign / "campaigns" / "phases" / "report.html"
    assert (tmp_path / "opened").read_text().strip() == page.as_uri()
    nowhere = {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    none = unperturbed(campaign, "report", "--open", "campaigns/phases", environment=nowhere)
    assert (none.returncode, "cannot open a browser" in none.stderr) == (0, True)


def test_an_edited_spec_is_told_and_a_dry_run_foresees_the_refusal(campaign: Path) -> None:
    spec = campaign / "edited.yaml"
    spec.write_text((campaign / "spec.yaml").read_text().replace("seed: 3", "seed: 4"))
    checked = unperturbed(campaign, "check", "--no-write", "edited.yaml")
    assert "was measured with a different version of edited.yaml (changed since: campaign.seed)" in checked.stderr
    spec.write_text((campaign / "spec.yaml").read_text().replace("analysis:", "analysis:\n  tolerance: 0.07"))
    applied = unperturbed(campaign, "check", "--no-write", "edited.yaml")
    assert "edited.yaml was edited since the last run of its campaign (analysis.tolerance)" in applied.stderr
    assert "note:" not in unperturbed(campaign, "check", "--no-write", "spec.yaml").stderr
    original = (campaign / "spec.yaml").read_text()
    try:
        assert "note:" not in unperturbed(campaign, "check", "--no-write", "campaigns/phases").stderr
        (campaign / "spec.yaml").write_text(original.replace("seed: 3", "seed: 4"))
        by_folder = unperturbed(campaign, "check", "--no-write", "campaigns/phases")
        assert "was measured with a different version of spec.yaml (changed since: campaign.seed)" in by_folder.stderr
        (campaign / "spec.yaml").write_text("name: [")
        assert "note:" not in unperturbed(campaign, "check", "--no-write", "campaigns/phases").stderr
    finally:
        (campaign / "spec.yaml").write_text(original)
    spec.write_text((campaign / "spec.yaml").read_text().replace("seed: 3", "seed: 4"))
    planned = unperturbed(campaign, "run", "--dry-run", "edited.yaml")
    assert planned.returncode == 2
    assert "contains a campaign of another spec" in planned.stderr


def test_names_of_perf_are_understood(tmp_path: Path) -> None:
    planned = unperturbed(tmp_path, "run", "--dry-run", "--metrics", "instructions", "--", "/bin/true")
    assert "perf's event instructions is counted as PAPI_TOT_INS" in planned.stderr
    spec = write_spec(tmp_path, **{**PLAIN, "measure__hardware": ["cycles", "PAPI_TOT_INS"]})
    assert "perf's name; use `PAPI_TOT_CYC`" in unperturbed(tmp_path, "run", "--dry-run", spec).stderr


@pytest.mark.parametrize(
    ("runs", "seconds", "offered"), [(20, 1200.0, "about 10 min 0 s, with 5 runs"), (20, 300.0, ""), (11, 1200.0, "")]
)
def test_a_long_plan_is_offered_shorter(
    capsys: pytest.CaptureFixture[str], runs: int, seconds: float, offered: str
) -> None:
    configurations = {"baseline": runs // 2, "calls": runs - runs // 2}
    TerminalProgress().planned(Estimate(runs, 0, seconds, configurations, Passes((), {}), ()))
    said = " ".join(capsys.readouterr().err.split())
    assert (f"a first answer takes {offered}" in said) is bool(offered)


def test_a_line_without_news_is_left_out_unless_all_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """A search measures a set again and again until its verdict is decided."""
    shown = {}
    for show in ("lines", "all", "json"):
        progress = TerminalProgress(show)  # type: ignore[arg-type]
        for runs, state in ((3, "a undecided"), (4, "a undecided"), (5, "a perturbed"), (6, ""), (7, "")):
            progress.line(f"{runs} runs: {state}", "measured", state=state, runs=runs)
        shown[show] = capsys.readouterr().err.splitlines()
    assert [line[0] for line in shown["lines"]] == ["3", "5", "6", "7"]
    assert (len(shown["all"]), len(shown["json"])) == (5, 5)
