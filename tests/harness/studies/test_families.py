"""A partition with one build that is perturbed by its sites: families of metrics, each with a build of its own."""

from __future__ import annotations

import html
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.analysis.report.browser import chromium_missing, open_report
from tests.harness.phases_campaign import unperturbed, write_spec
from tests.harness.results.schema_faults import file_faults
from unperturbed.analysis.partition import Cost, UndecidedMetrics
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.program.patching import places_of
from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.studies.partition.families import left_out
from unperturbed.harness.studies.partition.software import open_change_notes, spec_notes

SOFTWARE = {"rounds": {"enter": "begin_round"}, "steps": {"loop": "walk"}, "turns": {"loop": "sweep"}}
"""`turns` counts the program's hottest loop: its no-ops alone are 8 % of the instructions."""


@dataclass(frozen=True)
class Search:
    folder: Path
    spec: Path
    ended: subprocess.CompletedProcess[str]

    @property
    def campaign(self) -> Path:
        return self.folder / "campaigns" / "phases-partition"

    @property
    def traces(self) -> dict[str, int]:
        return {path.parent.name: path.stat().st_mtime_ns for path in self.campaign.glob("runs/0*/trace.parquet")}

    @property
    def plan(self) -> dict[str, object]:
        assert file_faults(self.campaign / "plan.json") == []
        return dict(json.loads((self.campaign / "plan.json").read_text()))


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    folder = tmp_path_factory.mktemp("families")
    spec = write_spec(
        folder,
        campaign={"baseline_runs": 5, "runs": 5, "seed": 3, "builds": "one", "doses": [0, 1, 2, 4]},
        analysis={"align_on": ["PAPI_TOT_INS"], "tolerance": 0.15},  # `steps` changes a correlation by 0.09
        measure__software=SOFTWARE,
        measure__hardware=["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_SR_INS", "PAPI_TOT_CYC"],
    )
    return Search(folder, spec, unperturbed(folder, "partition", spec))


def test_metrics_are_split_into_builds_that_leave_the_program_alone(search: Search) -> None:
    assert search.ended.returncode == 4, search.ended.stderr
    plan = search.plan
    assert [sorted(each["metrics"]) for each in plan["families"]] == [["rounds", "steps"]]
    (family,) = plan["families"]
    assert family["verdict"]["reference"] == "baseline"
    assert [each["metrics"] for each in plan["subsets"]] == [["rounds", "steps"]]
    (subset,) = plan["subsets"]
    assert subset["verdict"]["reference"].startswith("ready-")
    assert subset["cost"]["instructions"] < 1e-3 < family["cost"]["instructions"]
    assert not set(subset["runs"]) & set(family["runs"])
    assert plan["undecided"] == []
    stages = [each["stage"] for each in plan["history"]]
    assert {"rewriting", "together", "baseline", "certify"} <= set(stages)
    # The runs that showed that families are needed are not made again.
    assert ["turns", "steps", "rounds"] not in [each["subset"] for each in plan["history"]]
    used = [each["runs_used"] for each in plan["history"]]
    assert used == sorted(used)
    assert plan["runs_used"] == used[-1]


def test_a_metric_whose_sites_perturb_the_program_is_named_with_what_they_add(search: Search) -> None:
    (turns,) = search.plan["unmeasurable"]
    assert turns["metric"] == "turns"
    assert "perturbs the program by its sites alone, without counting, in 3 repetitions: inner" in turns["reason"]
    assert "No-ops of the build by metric: turns 7.8\u00a0%" in turns["reason"]
    assert "✗ turns cannot be measured at this interval: it perturbs the program by its sites" in search.ended.stdout
    assert "layouts: varied" not in search.ended.stdout, "no layout helps against 8 % no-ops"
    said = "The plan's campaign makes builds without the sites of the metrics left out, so verdicts may differ."
    assert said in search.ended.stdout
    for name in ("plan.yaml", "partition.html"):
        assert said in html.unescape((search.campaign / name).read_text())


def test_each_trial_build_has_the_sites_of_its_metrics_alone(search: Search) -> None:
    with Manifest(search.campaign / "campaign.sqlite", read_only=True) as manifest:
        trials, builds = manifest.fact("trials"), manifest.fact("builds")
    assert ["turns"] in trials.values()
    assert all(name.startswith("ready-") for name in trials)
    for name, metrics in trials.items():
        places = places_of(search.campaign / "builds" / f"{builds[name]['number']:02d}" / "src")
        numbers = {place.metric for of_file in places.values() for place in of_file}
        assert len(numbers) == len(metrics)


def test_the_plan_is_a_spec_with_its_families(search: Search, tmp_path: Path) -> None:
    path = search.campaign / "plan.yaml"
    design = yaml.safe_load(path.read_text())["campaign"]
    assert design["families"].keys() == {"family-1"}
    assert "doses" not in design
    assert "`doses` is ignored and not in the plan: " in " ".join(search.ended.stdout.split())
    assert set(load_spec(path).campaign.families["family-1"]) == {"rounds", "steps"}
    done = unperturbed(tmp_path, "run", path, "--campaign", tmp_path / "c")
    assert done.returncode in (0, 4), done.stderr
    assert "subset-1 counts " in done.stdout
    assert "; without counting, its build executes +" in done.stdout


@pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())
def test_the_page_has_the_builds(search: Search) -> None:
    with open_report(search.campaign / "partition.html") as page:
        page.wait_drawn()
        assert page.console() == []
        assert "certified against the baseline" in page.text("#builds")
        assert "family-1" in page.text("#builds")


def test_asked_again_nothing_is_run_and_a_limit_leaves_the_rest_undecided(search: Search) -> None:
    before, plan = search.traces, search.plan
    with Manifest(search.campaign / "campaign.sqlite") as manifest:  # as if the search had been killed before the end
        manifest.set_facts(rewriting={"ready": manifest.fact("rewriting")["ready"]})
    again = unperturbed(search.folder, "partition", search.spec)
    assert again.returncode == 4, again.stderr
    assert search.traces == before
    differ = {key for key, value in search.plan.items() if value != plan[key]}
    assert differ <= {"hours"}
    limit = plan["runs_used"] - 1  # One run too few for the last certificate, that of the subset
    limited = unperturbed(search.folder, "partition", search.spec, "--max-runs", str(limit))
    assert limited.returncode == 4, limited.stderr
    assert search.traces == before
    assert search.plan["stopped"].startswith(f"`max_runs` is {limit}: the search has made ")
    assert [sorted(each["metrics"]) for each in search.plan["families"]] == [["rounds", "steps"]]
    left = [metric for each in search.plan["undecided"] for metric in each["metrics"]]
    assert sorted(left) == ["rounds", "steps"]
    assert "not finished" in limited.stdout


@pytest.mark.parametrize(
    ("anchor", "verdict"), [("turns", "perturbs the program"), ("rounds", "leaves the program unperturbed")]
)
def test_the_sites_of_the_anchor_are_judged_alone(anchor: str, verdict: str, tmp_path: Path) -> None:
    software = {name: SOFTWARE[name] for name in (anchor, "steps" if anchor == "turns" else "turns")}
    spec = write_spec(
        tmp_path,
        campaign={"baseline_runs": 5, "runs": 5, "seed": 3, "builds": "one"},
        analysis={"align_on": ["PAPI_TOT_INS"], "tolerance": 0.15, "anchor": anchor},
        measure__software=software,
        measure__hardware=["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_SR_INS", "PAPI_TOT_CYC"],
    )
    ended = unperturbed(tmp_path, "partition", spec)
    assert ended.returncode == 4, ended.stderr
    about = (
        f"The build with only the sites of {anchor}, which every build of the search has, {verdict} without counting"
    )
    advised = f"{about}: a search without {anchor}, or with a rarer event in its place, may certify more."
    expected = advised if anchor == "turns" else f"{about}."
    assert expected in " ".join(ended.stdout.split())
    assert expected in " ".join(ended.stderr.split()), "shown before the long search"


def found_plan(families: int, subsets: int, undecided: int = 0, *, added: float | None = 0.0) -> Any:
    """Return what notes on a plan read; `added`: instructions of each family."""
    family, subset = (SimpleNamespace(name=name, cost=Cost(share)) for name, share in (("f", added), ("s", 0.001)))
    return SimpleNamespace(families=(family,) * families, subsets=(subset,) * subsets, undecided=(0,) * undecided)


@pytest.mark.parametrize(
    ("added", "totals", "is_said"), [(0.035, {}, True), (0.035, {"default": "5 %"}, False), (None, {}, False)]
)
def test_a_certified_build_with_other_totals_is_named(
    tmp_path: Path, added: float | None, totals: dict[str, str], *, is_said: bool
) -> None:
    spec = load_spec(write_spec(tmp_path, analysis__totals=totals))
    notes = [" ".join(note.split()) for note in spec_notes(spec, found_plan(1, 1, added=added))]
    said = [
        note for note in notes if note.startswith("Certificates are about correlations, not about totals: f +3.5 %")
    ]
    assert bool(said) == is_said


@pytest.mark.parametrize(
    ("layouts", "families", "subsets", "undecided", "is_said"),
    [
        ("fixed", 1, 1, 1, True),
        ("fixed", 2, 2, 0, True),
        ("fixed", 1, 1, 0, False),
        ("fixed", 0, 2, 0, False),
        ("varied", 2, 2, 1, False),
    ],
)
def test_a_search_with_one_layout_names_the_setting_that_may_certify_more(
    tmp_path: Path, layouts: str, families: int, subsets: int, undecided: int, *, is_said: bool
) -> None:
    spec = load_spec(write_spec(tmp_path, campaign__layouts=layouts))
    found = found_plan(families, subsets, undecided)
    assert any("layouts: varied" in " ".join(note.split()) for note in spec_notes(spec, found)) == is_said


@pytest.mark.parametrize(
    ("open_pairs", "named"),
    [
        (["a a", "a b", "b b", "c c"], ""),
        (["a a", "a b", "c c", "a c"], "3 of 4 correlations that stayed open are of a: "),
        (["a a"], ""),
    ],
)
def test_a_metric_in_most_open_changes_is_named(open_pairs: list[str], named: str) -> None:
    changes = [SimpleNamespace(first=pair[0], second=pair[2], verdict="undecided") for pair in open_pairs]
    settled = [SimpleNamespace(first="b", second="b", verdict="unperturbed")] * 9
    verdict: Any = SimpleNamespace(changes=[*changes, *settled])
    found: Any = SimpleNamespace(undecided=(UndecidedMetrics(("x",), "why", verdict), UndecidedMetrics(("y",), "why")))
    assert "".join(open_change_notes(found)).startswith(named)
    assert bool(open_change_notes(found)) == bool(named)


def test_why_a_metric_is_in_no_build_says_that_nothing_was_counted() -> None:
    alone = UndecidedMetrics(("x",), "in no certified subset; measured alone, undecided after 20 repetitions: outer a")
    builds: Any = SimpleNamespace(unmeasurable=(), undecided=(alone,))
    _, (left,) = left_out(builds, {})
    assert left.reason == (
        "no build with its sites is certified to leave the program alone without counting: a build with its sites "
        "alone is undecided after 20 repetitions: outer a"
    )
