"""`unperturbed partition --hardware` on a real program, whose simulated processor counts two metrics at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.phases_campaign import done_runs, unperturbed, write_spec
from tests.harness.results.schema_faults import file_faults

THREE = ["PAPI_L1_DCM", "PAPI_SR_INS", "PAPI_LD_INS"]
CHANGES: dict[str, Any] = {
    "measure__hardware": ["PAPI_TOT_INS", "PAPI_TOT_CYC", *THREE],
    "measure__simulator": {"counters": 2},
    "measure__derived": {"stored": "PAPI_SR_INS / PAPI_TOT_INS"},
    "campaign": {"baseline_runs": 5, "seed": 3, "builds": "separate"},
    "analysis": {"align_on": ["PAPI_TOT_INS"], "tolerance": 0.5},
}


def test_passes_fit_the_counters_are_certified_and_the_plan_has_them(tmp_path: Path) -> None:
    spec, campaign = write_spec(tmp_path, **CHANGES), tmp_path / "campaigns" / "phases-passes"
    command = ("partition", spec, "--hardware", "--strategy", "halving")
    stopped = unperturbed(tmp_path, *command, "--max-runs", "4")
    assert stopped.returncode == 4, stopped.stderr
    assert "not finished: `max_runs` is 4" in stopped.stdout
    assert "repeat the command to continue, with a higher limit" in " ".join(stopped.stdout.split())
    before = done_runs(campaign)
    found = unperturbed(tmp_path, *command)
    assert found.returncode == 0, found.stderr
    assert "All 3 hardware metrics can be measured" in (campaign / "partition.html").read_text()
    assert "judged by what every pass counts: PAPI_TOT_INS and PAPI_TOT_CYC" in found.stdout
    assert "certificates say nothing about a processor" in " ".join(found.stderr.split())  # before the runs
    # The first search's runs are used again. Nothing was measured that the counters cannot hold.
    plan = json.loads((campaign / "plan.json").read_text())
    assert file_faults(campaign / "plan.json") == []
    assert plan["kind"] == "hardware"
    assert done_runs(campaign)[: len(before)] == before
    assert len(done_runs(campaign)) == plan["runs_used"] + 5
    assert all(len(made["subset"]) <= 2 for made in plan["history"])
    passes = [subset["metrics"] for subset in plan["subsets"]]
    assert sorted(name for names in passes for name in names) == sorted(THREE)
    assert sorted(map(len, passes)) == [1, 2]
    assert yaml.safe_load((campaign / "plan.yaml").read_text())["measure"]["passes"] == passes
    dry = unperturbed(tmp_path, "run", campaign / "plan.yaml", "--dry-run", "--json")
    shown = json.loads(dry.stdout)
    assert [set(each["metrics"]) for each in shown["passes"]] == [
        {"PAPI_TOT_INS", "PAPI_TOT_CYC", *each} for each in passes
    ]


def test_what_cannot_be_partitioned_is_said(tmp_path: Path) -> None:
    def refused(code: int, **changes: object) -> str:
        spec = write_spec(tmp_path, **{**CHANGES, **changes})
        done = unperturbed(tmp_path, "partition", spec, "--hardware")
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert "building" not in done.stderr
        return done.stderr

    alone = refused(2, measure__hardware=["PAPI_TOT_INS", "PAPI_TOT_CYC"], measure__derived=None)
    assert "no hardware metric besides PAPI_TOT_INS and PAPI_TOT_CYC, which every pass counts: add" in alone
    analysis = {"align_on": ["minor_faults"]}
    unshared = refused(2, measure__hardware=THREE, measure__derived=None, analysis=analysis)
    assert "judged by the metrics that every pass counts, but the spec has none: add PAPI_TOT_INS" in unshared
    together = refused(2, analysis={"together": "all"})
    assert "`together` wants metrics to meet in several: remove `together`" in together
    by_hand = refused(2, measure__passes=[THREE[:1], THREE[1:]])
    assert "`--hardware` searches for the passes: remove `passes`" in by_hand
    analysis = {"align_on": ["PAPI_TOT_INS", *THREE[:2]]}
    full = refused(3, measure__hardware=CHANGES["measure__hardware"], analysis=analysis)
    assert "the simulated processor has 2 counters, which the metrics that each pass shares need" in full


@pytest.mark.parametrize(
    ("passes", "code", "said"),
    [
        ([THREE[:2]], 2, "no pass counts PAPI_LD_INS: add it to a list of `passes`"),
        ([THREE], 2, "pass 1: no run can count PAPI_TOT_INS, PAPI_TOT_CYC, PAPI_L1_DCM, PAPI_SR_INS and PAPI_LD_INS"),
    ],
)
def test_passes_that_cannot_be_are_refused(tmp_path: Path, passes: list[list[str]], code: int, said: str) -> None:
    spec = write_spec(tmp_path, **CHANGES, measure__passes=passes)
    done = unperturbed(tmp_path, "run", spec, "--dry-run")
    assert done.returncode == code, done.stderr
    assert said in done.stderr
