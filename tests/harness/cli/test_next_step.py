"""The line `next:` of a command without a spec: a number of runs only if they decide every open change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from tests.analysis.report.synthetic import make_content
from tests.harness.phases_campaign import write_spec
from unperturbed.harness.cli.running import decide_open_changes
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec.load import load_spec


def _advice(folder: Path, *needed: int | None, **changes: object) -> str:
    """Return the advice on a campaign with open changes that need these numbers of runs."""
    content = make_content()
    (medium,) = (verdict for verdict in content.verdicts if verdict.configuration == "medium")
    opened = tuple(
        replace(medium.changes[0], verdict="undecided", runs_to_decide=runs, p_corrected=0.5) for runs in needed
    )
    decided = replace(medium.changes[0], verdict="unperturbed", runs_to_decide=None)
    undecided = replace(medium, changes=(*opened, decided))
    judgement = SimpleNamespace(verdicts=CampaignVerdicts((undecided,), {}, ()), content=content)
    return decide_open_changes(load_spec(write_spec(folder, **changes)), judgement, Path("campaigns/x.yaml"))


def test_a_number_of_runs_that_decides_every_change_is_named_with_its_time(tmp_path: Path) -> None:
    said = _advice(tmp_path, 14, 60)
    first, _, second = said.partition(". Or add runs once, with a chance of up to 2 α of a wrong verdict: ")
    assert first.startswith("type the command again with --until decided before --")
    assert first.endswith("with up to 60 runs per configuration, and keeps α")
    assert second.startswith("set baseline_runs and runs to 60 in this spec, then: unperturbed run campaigns/x.yaml (")
    assert " min " in said


def test_other_settings_are_named_if_sixty_runs_leave_a_change_open(tmp_path: Path) -> None:
    for needed in ((14, None), (14, 61)):
        said = _advice(tmp_path, *needed)
        assert "60 runs per configuration would probably not decide every open change" in said
        assert "--until decided" in said


def test_no_advice_without_open_changes_or_if_the_campaign_goes_on_by_itself(tmp_path: Path) -> None:
    assert not _advice(tmp_path)
    assert not _advice(tmp_path, 14, campaign__runs="until decided")
