"""Campaigns whose subsets run at several doses: counts are exact at each, and what a dose adds is extrapolated."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from tests.harness.campaign.test_one_build import CHECKED, OWN_BYTES, SOFTWARE, START_UP, TWO, totals
from tests.harness.phases_campaign import unperturbed, verdicts, write_spec
from unperturbed.analysis.rewriting import Rewriting
from unperturbed.harness.campaign.manifest import Manifest

DOSES = {**TWO, "measure__software": SOFTWARE, "campaign__doses": [0, 1, 2, 4]}
OF_STEPS = ("steps", "steps-x2", "steps-x4")


def test_counts_are_exact_at_each_dose_and_stores_are_extrapolated(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **DOSES, campaign__runs=5)
    campaign = tmp_path / "campaigns" / "phases"
    planned = json.loads(unperturbed(tmp_path, "run", "--dry-run", "--json", spec).stdout)
    every = ["baseline", "ready", "anchor", *OF_STEPS, "turns", "turns-x2", "turns-x4"]
    assert planned["configurations"] == dict.fromkeys(every, 5)
    assert planned["builds"].keys() == {"reference", "baseline", "ready"}
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    found = verdicts(campaign)
    assert [row["configuration"] for row in found["verdicts"]] == ["ready", "anchor", "steps", "turns"]
    assert set(found["totals"]) == {"ready", "anchor", "steps", "turns"}
    for metric in ("steps", "rounds"):
        assert len({frozenset(totals(campaign, name, metric)) for name in OF_STEPS}) == 1
    assert totals(campaign, "steps", "steps") != {0}
    assert list(found["doses"]) == ["steps", "turns"]
    (events,) = totals(campaign, "steps", "steps")
    responses = {(each["check"], each["first"], each["second"]): each for each in found["doses"]["steps"]["responses"]}
    stores = responses["total", "PAPI_SR_INS", "PAPI_SR_INS"]
    assert stores["outcome"] == "corrected"
    assert stores["rounds"] == 5
    assert stores["value"] == pytest.approx(stores["without"], rel=1e-4)
    assert stores["means"]["4"] - stores["means"]["1"] == pytest.approx(3 * events, rel=1e-3)
    assert stores["low"] <= stores["value"] <= stores["high"]
    assert responses["total", "PAPI_TOT_INS", "PAPI_TOT_INS"]["outcome"] == "not needed"
    assert {each["check"] for each in responses.values()} == {"inner", "outer", "software", "total"}
    assert {each["by_signals"] for each in responses.values() if each["check"] != "total"} == {True}
    assert all(each["without"] is None for each in responses.values() if each["check"] == "software")
    stores_and_loops = [
        each for each in responses.values() if {each["first"], each["second"]} == {"steps", "PAPI_SR_INS"}
    ]
    assert [each["check"] for each in stores_and_loops] == ["software"]
    inner = [each for each in responses.values() if each["check"] == "inner"]
    assert all(abs(each["value"] - each["without"]) < 0.05 for each in inner)
    assert max(abs(each["means"]["1"] - each["without"]) for each in inner) > 0.1
    assert "steps at 1, 2 and 4 increments: " in " ".join(result.stdout.split())
    page = html.unescape((campaign / "report.html").read_text())
    assert "Response to the dose" in page
    assert "Response of turns to the dose" in page
    assert 'id="doses-0"' in page
    added = Rewriting.from_dict(found["rewriting"]["ready"])
    assert added.per_event == 4
    assert added.no_ops["steps"] == 4 * events
    assert "no-ops, 4 for each event" in result.stdout


@pytest.mark.long
def test_without_dose_0_linearity_is_judged_by_the_other_doses(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **{**DOSES, "campaign__doses": [4, 2, 1]}, campaign__runs=3)
    campaign = tmp_path / "campaigns" / "phases"
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    found = verdicts(campaign)
    assert "ready" not in {row["configuration"] for row in found["verdicts"]}
    (stores,) = (
        each
        for each in found["doses"]["turns"]["responses"]
        if (each["check"], each["first"]) == ("total", "PAPI_SR_INS")
    )
    assert (stores["outcome"], stores["without"], list(stores["means"])) == ("corrected", None, ["1", "2", "4"])
    again = unperturbed(tmp_path, "check", campaign)
    assert again.returncode == result.returncode
    assert "turns at 1, 2 and 4 increments: " in " ".join(again.stdout.split())


def test_with_families_a_response_is_extrapolated_to_the_build_of_its_subset(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **DOSES, campaign__families={"light": ["steps"], "heavy": ["turns"]})
    campaign = tmp_path / "campaigns" / "phases"
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    found = verdicts(campaign)
    for subset, family in {"steps": "ready-light", "turns": "ready-heavy"}.items():
        (events,) = totals(campaign, subset, subset)
        for dose in (2, 4):
            assert totals(campaign, f"{subset}-x{dose}", subset) == {events}
        # All doses execute the no-ops of one family, whose metrics differ.
        at_one, at_four = (totals(campaign, name, "PAPI_TOT_INS") for name in (subset, f"{subset}-x4"))
        assert max(at_one | at_four) - min(at_one | at_four) <= START_UP
        responses = found["doses"][subset]["responses"]
        (stores,) = (one for one in responses if (one["check"], one["first"]) == ("total", "PAPI_SR_INS"))
        assert stores["outcome"] == "corrected"
        idle = totals(campaign, family, "PAPI_SR_INS")
        assert min(idle) <= round(stores["without"]) <= max(idle)  # a mean of equal counts may differ in its last bit
        assert stores["value"] == pytest.approx(stores["without"], rel=1e-4)
        assert Rewriting.from_dict(found["rewriting"][family]).no_ops[subset] == 4 * events


def test_doses_of_a_program_that_cannot_be_patched_are_refused(tmp_path: Path) -> None:
    run, why = OWN_BYTES
    spec = write_spec(tmp_path, **{**DOSES, "campaign__subsets": {"steps": ["steps", "turns"]}}, program__run=run)
    (tmp_path / "phases" / "Makefile").write_text(CHECKED)
    (tmp_path / "checked.sh").write_text(
        'cksum < "$1/phases" | cmp -s - "$1/phases.sum" || exit 1\nexec "$1/phases" 60\n'
    )
    for _ in range(2):
        result = unperturbed(tmp_path, "run", spec)
        assert result.returncode == 1
        said = " ".join(result.stderr.split())
        assert f"`doses` needs one build for all configurations, which is not possible: {why}: remove `doses`" in said
        assert "Traceback" not in said
    with Manifest(tmp_path / "campaigns" / "phases" / "campaign.sqlite", read_only=True) as manifest:
        assert manifest.runs() == []
