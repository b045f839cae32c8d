"""The line `next:` of a command without a spec: a number of runs only if they decide every open change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from tests.analysis.report.synthetic import make_content
from tests.harness.phases_campaign import write_spec
from unperturbed.analysis.perturbation.verdict import VerdictName
from unperturbed.analysis.totals import TotalChange
from unperturbed.harness.cli.running import _changed_totals, _repeat, decide_open_changes
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec.load import load_spec


def _advice(
    folder: Path,
    *needed: int | None,
    verdict: VerdictName = "undecided",
    totals: tuple[TotalChange, ...] = (),
    drafted: bool = True,
    extensions: int = 0,
    **changes: object,
) -> str:
    """Return the advice on a campaign with open changes that need these numbers of runs."""
    content = make_content()
    (medium,) = (verdict for verdict in content.verdicts if verdict.configuration == "medium")
    opened = tuple(
        replace(medium.changes[0], verdict="undecided", runs_to_decide=runs, p_corrected=0.5) for runs in needed
    )
    decided = replace(medium.changes[0], verdict="unperturbed", runs_to_decide=None)
    undecided = replace(medium, verdict=verdict, changes=(*opened, decided))
    checked = CampaignVerdicts((undecided,), {}, (), totals={"medium": totals} if totals else {})
    judgement = SimpleNamespace(verdicts=checked, content=content, extensions=extensions)
    spec = load_spec(write_spec(folder, **changes))
    return decide_open_changes(spec, judgement, Path("campaigns/x.yaml"), drafted=drafted)  # type: ignore[arg-type]


def test_a_number_of_runs_that_decides_every_change_is_named_with_its_time(tmp_path: Path) -> None:
    said = _advice(tmp_path, 14, 60)
    first, _, second = said.partition(". Or add runs once, with a chance of up to 2 α of a wrong verdict: ")
    assert first.startswith("type the command again with --until decided before --")
    assert first.endswith("up to 60 runs per configuration, and keeps α, because its looks share α")
    assert second.startswith("type the command again with `--baseline-runs 60 --runs 60` before -- (about ")
    assert " min " in said


def test_no_runs_are_to_be_added_twice(tmp_path: Path) -> None:
    said = _advice(tmp_path, 14, extensions=1)
    assert said.startswith("type the command again with --until decided before --")
    assert said.endswith(
        "and keeps α. Runs were added to this campaign already: with further ones, the chance of a "
        "wrong verdict grows again"
    )
    assert "once" not in said
    decided = _advice(tmp_path, 14, verdict="perturbed", extensions=1)
    assert "give a copy of the spec another name, set baseline_runs and runs to 14, and run it. Runs were" in decided
    assert "once" not in decided


def test_other_settings_are_named_if_sixty_runs_leave_a_change_open(tmp_path: Path) -> None:
    for needed in ((14, None), (14, 61)):
        said = _advice(tmp_path, *needed)
        assert said.startswith(
            "decide as much as possible with --until decided, give the program more work per run, or "
        )
        assert said.endswith(": the chance that 60 runs per configuration decide 1 correlation of medium is below 80 %")


def _total(metric: str, runs: int | None) -> TotalChange:
    runs_of_both = (("1", "2"), ("3", "4"))
    return TotalChange(metric, (1.0, 1.1), (1.0, 1.2), *runs_of_both, 0.01, -0.1, 0.1, runs_to_decide=runs)


def test_open_changes_beside_a_decided_verdict_are_named_too(tmp_path: Path) -> None:
    said = _advice(tmp_path, 14, verdict="perturbed")
    assert said.startswith("the verdicts are decided. To decide the open changes too, add runs once, with a chance of ")
    assert "with `--baseline-runs 14 --runs 14` before --" in said
    assert "--until decided" not in said
    changed = replace(_total("PAPI_TOT_INS", None), verdict="perturbed")
    times = _advice(tmp_path, verdict="perturbed", totals=(changed, _total("cpu_s", 52)))
    assert times.startswith("the verdicts are decided; only times are open. To decide them too, add runs once, with a ")
    far = _advice(tmp_path, 14, None, verdict="perturbed")
    assert far.startswith("give the program more work per run or set a wider `tolerance` in the spec: the chance that ")
    assert far.endswith(" 60 runs per configuration decide 1 correlation of medium is below 80 %")
    assert "--until decided" not in far


def test_totals_that_changed_are_the_first_step(tmp_path: Path) -> None:
    (medium,) = (verdict for verdict in make_content().verdicts if verdict.configuration == "medium")
    changed = replace(_total("PAPI_BR_MSP", None), verdict="perturbed")
    checked = CampaignVerdicts((medium,), {}, (), totals={"medium": (changed, _total("PAPI_TOT_INS", 20))})
    (said,) = _changed_totals(load_spec(write_spec(tmp_path)), checked)
    assert said == (
        "take totals from the baseline runs, not from those of medium: mispredicted branches changed by more than the "
        "tolerance"
    )
    unchanged = replace(checked, totals={"medium": (_total("PAPI_TOT_INS", 20),)})
    assert not [*_changed_totals(load_spec(tmp_path / "spec.yaml"), unchanged)]


def test_a_spec_that_no_command_wrote_has_the_line_too(tmp_path: Path) -> None:
    said = _advice(tmp_path, 14, drafted=False)
    assert said.startswith("give a copy of the spec another name and `runs: until decided`, and run it: it measures ")
    assert ": set baseline_runs and runs to 14 in this spec, then: unperturbed run campaigns/x.yaml (" in said
    assert "`runs: until decided` and another name" in _advice(tmp_path, 14, None, drafted=False)


def test_the_number_of_runs_decides_everything_that_the_output_names(tmp_path: Path) -> None:
    totals = (_total("PAPI_TOT_INS", 53), _total("cpu_s", 55), _total("time_s", None))
    said = _advice(tmp_path, 17, totals=totals)
    assert "--runs 55` before -- (correlations need 17, totals need 53 and times need 55) (about " in said
    assert said.endswith("; time of medium may stay undecided")
    assert not _advice(tmp_path, totals=(_total("cpu_s", None),))
    far = _advice(tmp_path, 17, totals=(_total("PAPI_TOT_INS", None),))
    assert "decide instructions of medium is below" in far
    assert "set a wider tolerance under `totals` in the spec" in far


def test_no_advice_without_open_changes_or_if_the_campaign_goes_on_by_itself(tmp_path: Path) -> None:
    assert not _advice(tmp_path)
    assert not _advice(tmp_path, 14, campaign__runs="until decided")


def test_failed_runs_are_repeated_before_anything_else(tmp_path: Path) -> None:
    content = make_content()
    few = [replace(verdict, method="bootstrap") for verdict in content.verdicts]
    checked = CampaignVerdicts(tuple(few), {}, ())
    judgement = SimpleNamespace(
        verdicts=checked, content=content, extensions=0, failed=("7", "8"), missing=("9",), complete=False
    )
    assert [*_repeat(judgement, typed=True)] == [  # type: ignore[arg-type]
        "see above why 2 runs failed, then type the command again: it repeats them, because too few baseline runs are "
        "left for a full check"
    ]
    assert not decide_open_changes(load_spec(write_spec(tmp_path)), judgement, tmp_path)  # type: ignore[arg-type]
    judgement.failed = ()
    judgement.verdicts = CampaignVerdicts(tuple(content.verdicts), {}, ())
    assert [*_repeat(judgement, typed=False)] == ["run the spec again: it makes 1 missing run"]  # type: ignore[arg-type]
    judgement.complete = True
    assert not [*_repeat(judgement, typed=True)]  # type: ignore[arg-type]
