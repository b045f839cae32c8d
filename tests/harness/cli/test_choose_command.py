"""`unperturbed choose`: a simulated processor with few counters, whose passes are joined; the library beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import unperturbed as up
from tests.benchmarks.large_campaign import make
from tests.harness.phases_campaign import done_runs, unperturbed, write_spec
from unperturbed.errors import SpecError

HARDWARE = ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_L1_LDM", "PAPI_L1_STM", "PAPI_BR_MSP", "PAPI_SR_INS", "PAPI_L1_DCW"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a campaign of three passes."""
    folder = tmp_path_factory.mktemp("choose")
    spec = write_spec(
        folder,
        program__run="{build}/phases 36",
        measure__hardware=HARDWARE,
        measure__interval={"records": 100},
        measure__simulator={"counters": 3},
        measure__software=None,
        measure__derived=None,
        campaign__subsets=None,
        campaign__runs=None,
        analysis__anchor=None,
    )
    done = unperturbed(folder, "run", spec, "--quiet")
    assert done.returncode == 0, done.stderr
    return folder


def test_passes_are_joined_and_sums_are_found(measured: Path) -> None:
    page = measured / "choice.html"
    done = unperturbed(measured, "choose", "campaigns/phases", "--html", page)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "metrics predict the rest to R² 0.95 in runs held back" in text
    assert "All counts are simulated, not counted by a processor." in text
    assert "passes are joined interval by interval" in text
    assert "Redundant metrics" in page.read_text()
    found = json.loads(unperturbed(measured, "choose", "campaigns/phases", "--json").stdout)
    assert found["campaign"] == str(measured / "campaigns" / "phases")
    from_others = {each["metric"]: each["r2"] for each in found["from_others"]}
    assert from_others["PAPI_L1_DCM"] > 0.99  # the sum of two metrics of another pass
    assert any({"PAPI_SR_INS", "PAPI_L1_DCW"} <= set(cluster["metrics"]) for cluster in found["clusters"])
    library = up.Campaign(measured / "campaigns" / "phases").choose()
    assert library.to_dict() == {name: value for name, value in found.items() if name != "campaign"}


def test_a_time_is_divided_among_passes(measured: Path) -> None:
    every = json.loads(unperturbed(measured, "choose", "campaigns/phases", "--json").stdout)
    seconds = every["steps"][0]["seconds"]
    assert [step["passes"] for step in every["steps"]][:2] == [1, 1]
    done = unperturbed(measured, "choose", "campaigns/phases", "--hours", str(1.01 * seconds / 3600), "--json")
    found = json.loads(done.stdout)
    chosen = next(step for step in found["steps"] if step["chosen"] == found["recommended"])
    assert chosen["passes"] == 1
    assert done.returncode == (0 if len(found["recommended"]) == found["enough"] else 4)
    fewer = unperturbed(measured, "choose", "campaigns/phases", "--hours", str(1.01 * seconds / 3600), "--runs", "1")
    assert fewer.returncode in (0, 4)
    refused = unperturbed(measured, "choose", "campaigns/phases", "--hours", "0.00001")
    assert (refused.returncode, "of one pass take" in refused.stderr) == (2, True)


def test_metrics_that_nothing_predicts_exit_with_four(tmp_path: Path) -> None:
    make(tmp_path / "generated", 30, 4, 3, intervals=60)
    done = unperturbed(tmp_path, "choose", "generated", "--r2", "0.9999")
    assert done.returncode == 4, done.stderr
    assert "none of the 4 metrics is predicted by the others to R² 0.9999 in runs held back" in " ".join(
        done.stdout.split()
    )
    with_software = unperturbed(tmp_path, "choose", "generated", "--configuration", "subset-01", "--json")
    assert "calls_01" in json.loads(with_software.stdout)["metrics"]


def test_wrong_words_are_refused(measured: Path) -> None:
    for words, said in {
        ("--r2", "1"): "R² 1: give a number between 0 and 1, such as 0.95",
        ("--hours", "0"): "0 hours: give a number above 0",
        ("--hours", "nan"): "nan hours: give a number above 0",
        ("--runs", "0"): "0 runs: give a whole number, 1 or more",
        ("--configuration", "baselin"): "no runs of configuration 'baselin'; did you mean baseline?",
        ("--html", "missing/page.html"): "the folder missing does not exist",
    }.items():
        done = unperturbed(measured, "choose", "campaigns/phases", *words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    with pytest.raises(SpecError, match="scale 'log': use 'count' or 'sqrt'"):
        up.load(measured / "campaigns/phases").choose(scale="log")  # type: ignore[arg-type]


def test_further_runs_go_to_the_undecided_choice_while_the_budget_lasts(measured: Path) -> None:
    """Last in this module: the campaign gets further runs."""
    campaign = measured / "campaigns" / "phases"
    every = json.loads(unperturbed(measured, "choose", campaign, "--json").stdout)
    before, pilot = done_runs(campaign), len(every["runs"])
    near = every["steps"][every["enough"] - 2]
    # At the R² of its worst prediction, a smaller choice is undecided.
    options = ("--r2", str(min(each["r2"] for each in near["predictions"])), "--json")

    def decide(hours: float) -> list[str]:
        done = unperturbed(measured, "choose", "spec.yaml", "--decide", f"{hours:g}", *options)
        assert done.returncode in (0, 4), done.stderr
        return list(json.loads(done.stdout)["notes"])

    notes = " ".join(decide(0.0001))
    assert done_runs(campaign) == before
    asked = re.search(r"Not decided: whether .* to go on, give --decide ([\d.e-]+) or more", notes)
    assert asked, notes
    hours = 1.1 * float(asked[1])
    said = [note for note in decide(hours) if "further runs" in note]
    made = len(done_runs(campaign)) - len(before)
    assert made in (4, 8)  # four repetitions of the passes that decide it
    assert said
    assert said[0].startswith(
        f"The first {pilot} runs of each pass chose and fitted; open predictions are judged by {made} further runs"
    )
    after = json.loads(unperturbed(measured, "choose", campaign, *options).stdout)
    assert said[0] in after["notes"]
    assert after["runs"] == every["runs"]  # the pilot alone chooses
    assert [step["chosen"] for step in after["steps"]]
    for each in after["steps"][len(near["chosen"]) - 1]["predictions"]:
        assert len(each["runs"]) in (4, pilot)
    decide(hours)
    assert len(done_runs(campaign)) == len(before) + made  # the runs of all calls count
    recorded = up.load(campaign)
    with pytest.raises(SpecError, match="decide=1 runs the program: give the campaign's spec too, with spec=PATH"):
        recorded.choose(decide=1)
    had = sum(len(recorded[name]) for name in recorded)
    again = recorded.choose(float(options[1]), decide=3 * hours, spec=measured / "spec.yaml")
    assert sum(len(recorded[name]) for name in recorded) == len(done_runs(campaign)) >= had
    assert again.notes


@pytest.mark.parametrize(
    ("campaign", "hours", "said"),
    [
        ("campaigns/phases", "1", "--decide runs the program: give the spec of campaigns/phases instead of its folder"),
        ("spec.yaml", "0", "--decide 0: give hours above 0"),
    ],
)
def test_further_runs_that_cannot_be_made_are_refused(measured: Path, campaign: str, hours: str, said: str) -> None:
    refused = unperturbed(measured, "choose", campaign, "--decide", hours)
    assert refused.returncode == 2, refused.stderr
    assert said in " ".join(refused.stderr.split())
