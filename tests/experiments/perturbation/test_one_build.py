"""One build beside separate builds: what counting changes is told from what comes with the code of a build."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.perturbation import one_build, programs
from experiments.perturbation.series import runs_by_configuration
from tests.experiments.perturbation.test_series import PERTURBED, write_run
from tests.harness.phases_campaign import unperturbed, write_spec
from unperturbed.collectors.data import Trace
from unperturbed.harness.campaign.plan import ALL
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import load_spec

PLANTED = f"with-{PERTURBED}"
"""The configuration whose runs change the correlations of one metric."""


def write_campaign(spec: Path, folder: Path) -> None:
    """Write runs of which only the planted step changes something; by separate builds, its sham does too."""
    campaign = load_spec(spec).campaign
    one = campaign.builds == "one"
    runs: list[tuple[str, list[str], str]] = [("baseline", [], "")] * 10
    if one:
        runs += [("ready", [], ALL)] * 10
    for name, metrics in campaign.subsets.items():
        runs += [(name, list(metrics), "")] * 3
        if not one:
            runs += [(name if name == PLANTED else f"sham-{name}", [], name)] * 3
    for number, (configuration, software, sham_of) in enumerate(runs, start=1):
        write_run(folder, number, configuration, software, sham_of=sham_of)


def test_the_section_says_which_changes_counting_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "one_build.md"
    page.write_text("# Page\n\n<!-- series -->\n\n<!-- layouts -->\nkept\n")
    monkeypatch.setattr(one_build, "PAGE", page)
    monkeypatch.setattr(programs, "run_campaign", write_campaign)
    monkeypatch.setattr(one_build, "ready_of_steps", one_ready)  # below, of a real campaign
    assert one_build.main(["--series", "--programs", "bzip2", "--campaigns", str(tmp_path)]) == 0
    text = page.read_text()
    changed = text.partition("### What the counting changes")[2].count("| bzip2 | runs |")
    assert changed >= 4
    assert (
        f"**By separate builds, {changed} of 495 changes in 9 steps are perturbed, {changed} of them in the step's "
        f"sham too. By one build, {changed} are perturbed against the baseline, 0 by the rewriting alone, and "
        f"{changed} by the counting. Of the latter, {changed} are among the {changed}, and {changed} among the "
        f"{changed}.**"
    ) in text
    (row,) = (line for line in text.splitlines() if line.startswith("| bzip2 | runs | 80,000 |"))
    assert row.split(" | ")[3:8] == [f"{changed}", f"{changed}", f"{changed}", "0", f"{changed}"]
    assert "Not recorded yet: chess, network, redcode." in text
    assert "{" not in text
    assert text.endswith("<!-- layouts -->\nkept\n")


def one_ready(spec: CampaignSpec, campaign: Path) -> dict[str, list[Trace]]:
    """Return the same runs for each step: those of the one build without counting."""
    return dict.fromkeys(spec.campaign.subsets, runs_by_configuration(campaign)[1][ALL])


@pytest.mark.parametrize("families", [None, {"few": ["rounds"], "many": ["rounds", "steps"]}])
def test_each_step_has_the_runs_of_its_own_build(tmp_path: Path, families: dict[str, list[str]] | None) -> None:
    spec = write_spec(
        tmp_path,
        campaign__builds="one",
        campaign__sham=True,
        campaign__subsets={"few": ["rounds"], "all": ["rounds", "steps"]},
        campaign__families=families,
        analysis__anchor=None,
    )
    assert unperturbed(tmp_path, "run", spec).returncode in (0, 4)
    readied = one_build.ready_of_steps(load_spec(spec), tmp_path / "campaigns" / "phases")
    built = {step: {str(trace.attributes["configuration"]) for trace in runs} for step, runs in readied.items()}
    assert list(built) == ["few", "all"]
    assert all(len(runs) >= 3 for runs in readied.values())
    if families is None:
        assert all(len(names) == 1 for names in built.values())
    else:
        assert built == {"few": {"ready-few"}, "all": {"ready-many"}}
