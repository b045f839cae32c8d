"""Campaigns that run until they are decided: further runs for open configurations, levels of looks, resuming."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.analysis.report.partition.partitions import make_plan
from tests.analysis.simulate import MILESTONE, equicorrelated, program, with_pair
from tests.analysis.simulate import run as simulated_run
from tests.harness.phases_campaign import unperturbed, verdicts, write_spec
from unperturbed.analysis.looks import look_levels, plan_looks
from unperturbed.analysis.perturbation.verdict_text import decisive_change
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.execution import CAMPAIGN, check_owner
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import baselines_alone, configurations
from unperturbed.harness.results.check import STANDARD, check_runs
from unperturbed.harness.results.looks import look_at, look_at_stratum
from unperturbed.harness.results.recorded import Traces
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import load_spec, parse_spec
from unperturbed.harness.spec.yaml import InvalidSpec
from unperturbed.harness.studies.partition.plan_file import plan_text

METRICS = ("PAPI_L1_DCM", "PAPI_BR_MSP", "PAPI_SR_INS")


def _spec(folder: Path) -> CampaignSpec:
    return load_spec(
        write_spec(
            folder,
            campaign__runs="until decided",
            analysis__anchor=None,
            analysis__align_on=None,
            analysis__totals={"default": "50 %"},
            measure__software={"steps": {"loop": "walk"}},
            measure__hardware=list(METRICS),
            measure__derived={},
        )
    )


def _traces(runs: int, *, fall: float = 0.0) -> Traces:
    """Return runs of a simulated program; in `steps` the correlation of one pair falls."""
    rng = np.random.default_rng(1)
    same = program(rng, correlation=equicorrelated(3, 0.6), run_effect=0.02)
    changed = with_pair(same.correlation, (0, 1), 0.6 - fall)
    found = {}
    for number, (name, correlation) in enumerate((("baseline", same.correlation), ("steps", changed))):
        seeds = [np.random.default_rng([1, number, at]) for at in range(runs)]  # more runs begin with the same
        made = [simulated_run(same, own, correlation=correlation) for own in seeds]
        found[name] = tuple(_renamed(trace, name, at) for at, trace in enumerate(made))
    return {"main": found}


def _renamed(trace: Trace, configuration: str, at: int) -> Trace:
    """Return a simulated run as a run of a campaign: with names of real metrics, and its repetition."""
    own = dict(zip(METRICS, ("H0", "H1", "H2"), strict=True))
    return Trace.from_columns(
        [*(Metric(name, "hardware", source="simulation") for name in METRICS), Metric("steps", "software")],
        {**{name: trace[source] for name, source in own.items()}, "steps": trace[MILESTONE]},
        begin_ns=trace.begin_ns,
        end_ns=trace.end_ns,
        attributes={
            **trace.attributes,
            "run": f"{configuration}-{at}",
            "configuration": configuration,
            "repetition": at + 1,
            "block": at,
            "environment_pad_bytes": at,
        },
    )


def test_a_look_is_judged_at_its_share_of_alpha(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    looks = plan_looks(60)
    levels = look_levels(0.05, looks)
    looked = look_at(spec, _traces(looks[1]), STANDARD)
    assert looked.looks == looks[:2]
    settings = spec.analysis.model_copy(update={"alpha": levels[1]})
    plain = check_runs(spec.model_copy(update={"analysis": settings}), _traces(looks[1])).verdicts[0]
    (verdict,) = looked.verdicts.verdicts
    assert verdict.alpha == 0.05
    assert verdict.verdict == plain.verdict
    assert verdict.level == pytest.approx(1 - 2 * levels[1])
    assert f"{100 * verdict.level:.3g}% confidence interval" in decisive_change(verdict)
    assert {total.level for total in looked.verdicts.totals.get("steps", ())} <= {verdict.level}
    for change, other in zip(verdict.changes, plain.changes, strict=True):
        assert (change.low, change.high, change.verdict) == (other.low, other.high, other.verdict)
        assert change.p_corrected == pytest.approx(min(1, other.p_corrected * 0.05 / levels[1]))


def test_a_decided_configuration_keeps_its_verdict(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    first = look_at(spec, _traces(5, fall=0.5), STANDARD)
    assert first.decided == {"steps": 5}
    later = look_at(spec, _traces(22, fall=0.5), STANDARD)
    assert later.looks == (5,)
    assert later.verdicts.verdicts[0].verdict == "perturbed"
    assert len(later.verdicts.verdicts[0].changes[0].reference) == 5
    assert " steps was decided after 5 runs." in later.verdicts.notes[0]


def test_a_thread_is_judged_at_the_looks_of_the_campaign_and_not_after_its_last(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    looks = plan_looks(60)
    levels = look_levels(0.05, looks)
    unchanged = _traces(looks[2])
    for decided, at in (({"steps": looks[1]}, 1), ({}, 2)):  # the campaign ended at this look, or is open
        verdict = look_at_stratum(spec, unchanged, STANDARD, decided)["steps"]
        assert len(verdict.changes[0].observed) == looks[at]
        assert (verdict.alpha, verdict.level) == (0.05, pytest.approx(1 - 2 * levels[at]))
    changed = look_at_stratum(spec, _traces(looks[2], fall=0.5), STANDARD, {"steps": looks[1]})["steps"]
    assert (changed.verdict, len(changed.changes[0].observed)) == ("perturbed", 5)


def test_runs_that_exist_are_judged_before_the_first_look_and_decide_nothing(tmp_path: Path) -> None:
    looked = look_at(_spec(tmp_path), _traces(4, fall=0.5), STANDARD)
    assert (looked.looks, looked.decided) == ((), {})
    assert len(looked.verdicts.verdicts[0].changes[0].observed) == 4
    assert looked.verdicts.notes[0].startswith("These verdicts are preliminary: the first look is after 5 runs")


def test_a_look_with_runs_that_have_not_ended_is_not_made(tmp_path: Path) -> None:
    spec = _spec(tmp_path)
    assert look_at(spec, _traces(8), STANDARD).looks == (5, 8)
    unfinished = replace(STANDARD, pending={"baseline": 7})
    assert look_at(spec, _traces(8), unfinished).looks == (5,)


def test_a_baseline_alone_gets_its_runs(tmp_path: Path) -> None:
    alone = {"measure__software": {}, "measure__derived": {}, "campaign__subsets": {}, "analysis__anchor": None}
    spec = write_spec(tmp_path, campaign__runs="until decided", campaign__baseline_runs=5, **alone)
    planned = unperturbed(tmp_path, "run", "--dry-run", "--json", spec)
    assert json.loads(planned.stdout)["configurations"] == {"baseline": 5}
    assert unperturbed(tmp_path, "run", spec).returncode == 0
    assert _counts(tmp_path) == {"baseline": 5}


def test_a_number_of_runs_is_another_campaign(tmp_path: Path) -> None:
    until, three, nine = (
        load_spec(write_spec(tmp_path, campaign__runs=runs)).digest for runs in ("until decided", 3, 9)
    )
    assert three == nine != until


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"campaign__at_most": 20},
            "changed keys: campaign.at_most): α is shared out over looks up to 12 runs",
        ),
        (
            {"campaign__runs": 14, "campaign__at_most": None},
            "12 runs, so give the campaign another `name`, choose",
        ),
        ({"campaign__seed": 4}, "changed keys: campaign.seed): choose another folder"),
    ],
)
def test_a_changed_number_of_runs_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    until = {"campaign__runs": "until decided", "campaign__at_most": 12}
    earlier = load_spec(write_spec(tmp_path, **until))
    facts = {"spec_digest": earlier.digest, "spec_text": earlier.text, "name": "phases", "begun": "now"}
    manifest = SimpleNamespace(fact=facts.get, has_done=lambda: True, path=tmp_path / "campaign.sqlite")
    with pytest.raises(SpecError) as refused:
        check_owner(manifest, load_spec(write_spec(tmp_path, **{**until, **changes})), CAMPAIGN)  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_a_search_for_a_partition_makes_numbers_of_runs(tmp_path: Path) -> None:
    spec = load_spec(write_spec(tmp_path, campaign__runs="until decided", campaign__at_most=40))
    alone = {item.name: item.runs for item in configurations(baselines_alone(spec))}
    assert alone == {"baseline": 5, "anchor": 5, "ready": 5}
    found = make_plan()
    found = replace(found, subsets=(replace(found.subsets[0], metrics=("steps",)),))
    plan = parse_spec(plan_text(spec, found), "plan.yaml", tmp_path)
    assert (plan.campaign.until_decided, plan.campaign.at_most) == (False, None)


@pytest.mark.parametrize(
    ("design", "said"),
    [
        ("{runs: until decided, at_most: 5}", "`at_most` is 5, but must be at least 10"),
        ("{runs: until it is decided}", "use `until decided`"),
        ("{at_most: 20}", "`at_most` needs `runs: until decided`: change `runs`, or remove `at_most`"),
    ],
)
def test_faults_of_the_design(tmp_path: Path, design: str, said: str) -> None:
    text = f"name: x\nprogram: {{run: /bin/true}}\nmeasure: {{hardware: [PAPI_TOT_INS]}}\ncampaign: {design}\n"
    with pytest.raises(InvalidSpec, match=re.escape(said)):
        parse_spec(text, "x.yaml", tmp_path)


WORK = """
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int steps = argc < 3 ? STEPS : argv[2][0] == 'd' ? 2 * STEPS : STEPS * 3 / 4 + now.tv_nsec % (STEPS / 2);
"""


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign of two set-ups: one does twice the work of the baseline, the other's work differs from run to run."""
    folder = tmp_path_factory.mktemp("until")
    spec = write_spec(
        folder,
        programs={name: {"run": f"{{build}}/phases 26 {name}", "result": "any"} for name in ("double", "noisy")},
        program__run="{build}/phases 26",
        measure__interval={"records": 60},
        measure__hardware=["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_BR_MSP"],
        measure__derived={},
        measure__software={},
        analysis__anchor=None,
        campaign__subsets={},
        campaign__runs="until decided",
        campaign__at_most=15,
        campaign__baseline_runs=5,
        analysis__tolerance=0.9,  # totals decide
    )
    source = folder / "phases" / "phases.c"
    text = source.read_text().replace("STEPS *", "steps *").replace(" * STEPS", " * steps")
    text = text.replace("#include <string.h>", "#include <string.h>\n#include <time.h>")
    source.write_text(text.replace("int main(int argc, char **argv)\n{", f"int main(int argc, char **argv)\n{{{WORK}"))
    done = unperturbed(folder, "run", spec)
    assert done.returncode in (0, 4), done.stderr
    (folder / "said").write_text(done.stderr)
    return folder


def _counts(folder: Path) -> Counter[str]:
    with Manifest(folder / "campaigns" / "phases" / "campaign.sqlite", read_only=True) as manifest:
        return Counter(state.run.configuration for state in manifest.runs("done"))


def test_runs_go_to_configurations_that_are_open(grown: Path) -> None:
    assert _counts(grown) == {"baseline": 15, "double": 5, "noisy": 15}
    said = " ".join((grown / "said").read_text().split())
    assert "continuing to 15 runs of each configuration that is not decided yet: noisy" in said
    found = verdicts(grown / "campaigns" / "phases")
    (note,) = (note for note in found["notes"] if note.startswith("Verdicts were made after 5, 8 and 15 runs"))
    assert "double was decided after 5 runs. noisy is not decided." in note
    assert "A campaign with another name and a larger `at_most` (--max-runs) than 15 may decide more." in note
    assert found["looks"] == {"planned": [5, 8, 15], "made": [5, 8, 15], "decided": {"double": 5}}
    assert (found["settings"]["baseline_runs"], found["settings"]["runs"]) == (15, 15)
    for name, runs in (("double", 5), ("noisy", 15)):
        totals = {change["metric"]: change for change in found["totals"][name]}
        assert len(totals["PAPI_TOT_INS"]["reference"]) == runs
        assert (totals["PAPI_TOT_INS"]["verdict"] == "perturbed") is (name == "double")
    assert {verdict["alpha"] for verdict in found["verdicts"]} == {0.05}


def test_a_finished_campaign_makes_no_further_runs(grown: Path) -> None:
    before = _counts(grown)
    again = unperturbed(grown, "run", "spec.yaml")
    assert again.returncode in (0, 4), again.stderr
    assert _counts(grown) == before
    assert "would probably decide" not in again.stdout
    assert "The chance that 60 runs" not in again.stdout
