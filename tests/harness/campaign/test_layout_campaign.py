"""Campaigns in which layout is a factor: every run in a layout of its own, shams beside the subsets, configurations
added as it goes."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.campaign.test_sampling_campaign import traces
from tests.harness.campaign.test_software_campaign import NATIVE, PROBES
from tests.harness.nodes.forked import Forked
from tests.harness.phases_campaign import unperturbed, verdicts, write_spec
from tests.harness.program.test_layouts import symbols
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.execution import execute_plan, prepare_campaign
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.pilot import with_configuration
from unperturbed.harness.campaign.plan import Configuration, PlannedRun, plan_batch
from unperturbed.harness.campaign.progress import Estimate
from unperturbed.harness.campaign.session import _folder_name
from unperturbed.harness.spec.load import load_spec

CHANGED = {**NATIVE, "analysis__anchor": None, "campaign__subsets": {"steps": ["steps", "rounds"]}}
SEPARATE = {**CHANGED, "campaign__builds": "separate"}
FUNCTIONS = ("main", "begin_round", "walk", "sweep")


class Steps:
    """Progress that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def step(self, what: str) -> None:
        self.told.append(what)

    def note(self, what: str) -> None:
        self.told.append(what)

    def planned(self, estimate: Estimate) -> None:
        self.told.append(f"planned {dict(estimate.configurations)}")

    def starting(self, run: PlannedRun, *, done: int, total: int, seconds_left: float) -> None:
        self.told.append(f"run {run.configuration} {run.repetition}")

    def failed(self, run: PlannedRun, attempt: int, error: str) -> None:
        self.told.append(f"failed {run.id}: {error}")


def done(campaign: Path) -> dict[str, int]:
    """Return when the trace of each run was written that the manifest calls done."""
    if not (campaign / "campaign.sqlite").exists():
        return {}
    with Manifest(campaign / "campaign.sqlite") as manifest:
        runs = [state.run.id for state in manifest.runs("done")]
    return {run: (campaign / "runs" / run / "trace.parquet").stat().st_mtime_ns for run in runs}


def test_a_killed_campaign_goes_on_in_the_same_layouts(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, **SEPARATE, campaign__layouts="varied", campaign__sham=True)
    campaign = tmp_path / "campaigns" / "phases"
    first = Forked(tmp_path, "run", spec)
    deadline = time.monotonic() + 200
    while len(list(campaign.glob("runs/*/trace.parquet"))) < 5 and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = done(campaign)
    layouts = {path: path.stat().st_mtime_ns for path in campaign.glob("builds/*/layouts/???/0")}
    assert len(before) >= 3
    ended = unperturbed(tmp_path, "run", spec)
    assert ended.returncode == 0, ended.stderr
    assert "11 runs (baseline 5, steps 3, sham-steps 3)" in ended.stderr
    assert before.items() <= done(campaign).items(), "no run is made twice"
    assert {path: path.stat().st_mtime_ns for path in layouts} == layouts, "no layout is made twice"
    for name, runs in (("baseline", 5), ("steps", 3), ("sham-steps", 3)):
        found = traces(campaign, name)
        assert sorted(trace.attributes["layout"] for trace in found) == list(range(1, runs + 1))
        assert all(trace.attributes["layout"] == trace.attributes["repetition"] for trace in found)
        assert {trace.attributes["sham_of"] for trace in found} == {"steps" if name == "sham-steps" else None}
        assert all((trace.names("software") != ()) == (name == "steps") for trace in found)
    numbers = {"baseline": "01", "steps": "02", "sham-steps": "03"}
    found = {
        name: [
            symbols(campaign / "builds" / number / "layouts" / f"{layout:03d}" / "0", FUNCTIONS) for layout in range(4)
        ]
        for name, number in numbers.items()
    }
    assert found["steps"] == found["sham-steps"], "a sham has the layouts of what it is held against"
    for name in numbers:
        assert len({places["main"] for places in found[name]}) == 4
    with Manifest(campaign / "campaign.sqlite") as manifest:
        assert {(state.run.layout, state.run.repetition) for state in manifest.runs()} == {(n, n) for n in range(1, 6)}
    commands = [json.loads(file.read_text())["command"] for file in campaign.glob("runs/00[01]?/meta.json")]
    assert len({len(word) for command in commands for word in command if word.endswith("/phases")}) == 1, (
        "all paths are as long"
    )
    again = unperturbed(tmp_path, "run", spec)
    assert again.returncode == 0
    assert "linking" not in again.stderr
    assert all(row["layout"] == row["repetition"] for row in verdicts(campaign)["runs"])
    kept = "phases keeps the order of its objects in every layout; only padding varies (link-time optimisation)."
    with Manifest(campaign / "campaign.sqlite") as manifest:
        assert set(manifest.fact("layout_notes")) == set(numbers)
        manifest.set_facts(layout_notes={name: [kept] for name in numbers})
    assert unperturbed(tmp_path, "report", campaign).returncode == 0
    assert verdicts(campaign)["notes"].count(kept) == 1
    assert kept in (campaign / "report.html").read_text()


def test_shams_are_asked_for_later_and_given_up_again(tmp_path: Path) -> None:
    software = {"rounds": {"enter": "begin_round"}, "steps": {"loop": "walk"}, "prints": {"preload": "printf"}}
    changed = {
        **NATIVE,
        "measure__software": software,
        "campaign__builds": "separate",
        "campaign__subsets": {"steps": ["steps", "rounds"], "library": ["prints"]},
        "analysis__anchor": None,
    }
    campaign = tmp_path / "campaigns" / "phases"
    ended = unperturbed(tmp_path, "run", write_spec(tmp_path, **changed))
    assert ended.returncode == 0, ended.stderr
    before = done(campaign)
    built = (campaign / "builds" / "03" / "src" / "phases").stat().st_mtime_ns
    asked = unperturbed(
        tmp_path, "run", write_spec(tmp_path, **changed, campaign__sham=True, campaign__max_hours=1e-12)
    )
    assert "max_hours" in asked.stderr
    assert "14 runs (baseline 5, steps 3, library 3, sham-steps 3)" in asked.stderr
    assert "library: no sham is possible, because no counter is compiled into the program" in asked.stderr
    given_up = unperturbed(tmp_path, "run", write_spec(tmp_path, **changed))
    assert given_up.returncode == 0, given_up.stderr
    assert done(campaign) == before
    ended = unperturbed(tmp_path, "run", write_spec(tmp_path, **changed, campaign__sham=True))
    assert ended.returncode == 0, ended.stderr
    assert before.items() <= done(campaign).items()
    assert (campaign / "builds" / "03" / "src" / "phases").stat().st_mtime_ns == built, "no other build was made anew"
    shams = traces(campaign, "sham-steps")
    assert [trace.attributes["sham_of"] for trace in shams] == ["steps"] * 3
    assert {trace.attributes["layout"] for trace in shams} == {0}


def test_a_session_takes_up_configurations_as_it_goes_and_finds_them_again(tmp_path: Path) -> None:
    path = write_spec(tmp_path, **SEPARATE, campaign__layouts="varied")
    spec = load_spec(path)
    folder = tmp_path / "search"
    design = spec.campaign
    told = []
    for _ in range(2):
        steps = Steps()
        with prepare_campaign(spec, folder, steps) as (begun, samplings, manifest):
            tried = Configuration("try-1", ("rounds",), 2)
            session = with_configuration(begun, tried, samplings, manifest, steps)
            assert session.built["try-1"].tree == folder / "builds" / "03" / "src"
            had = sum(state.run.configuration == "try-1" for state in manifest.runs())
            if had < 2:
                batch = plan_batch(
                    {"try-1": 2 - had},
                    list(session.passes),
                    seed=design.seed,
                    before=[state.run for state in manifest.runs()],
                    layouts=design.layouts,
                )
                manifest.plan(batch)
            manifest.reopen()
            execute_plan(session, samplings, manifest, steps)
            with pytest.raises(SpecError, match="already built the configuration try-1 with different metrics"):
                with_configuration(session, replace(tried, software=("steps",)), samplings, manifest, steps)
            sham = Configuration("sham-try-1", (), 2, "try-1", ("rounds",))
            assert with_configuration(session, sham, samplings, manifest, steps).built["sham-try-1"].tree is not None
        told.append(steps.told)
    assert "building try-1" in told[0]
    assert [line for line in told[0] if line.startswith(("planned", "run "))] == [
        "planned {'try-1': 2}",
        "run try-1 1",
        "run try-1 2",
    ]
    assert not [line for line in told[1] if line.startswith(("building", "linking", "run ", "failed"))]
    runs = traces(folder, "try-1")
    assert [trace.attributes["layout"] for trace in runs] == [1, 2]
    assert all(trace.names("software") == ("rounds",) for trace in runs)


def test_folders_of_builds_have_two_signs_each() -> None:
    names = [_folder_name(number) for number in range(1036)]
    assert names[:2] == ["00", "01"]
    assert names[99:102] == ["99", "a0", "a1"]
    assert names[-1] == "zz"
    assert len(set(names)) == 1036
    assert {len(name) for name in names} == {2}
    with pytest.raises(SpecError, match="at most 1036 builds"):
        _folder_name(1036)


@pytest.mark.skipif(
    not PROBES or not Path("/sys/kernel/tracing/uprobe_events").exists(), reason="no probes of the kernel, or not root"
)
def test_probes_of_the_kernel_are_set_anew_in_each_layout(tmp_path: Path) -> None:
    software = {
        "rounds": {"enter": "begin_round"},
        "sweeps": {"probe": {"uprobe": "phases:sweep", "max_rate": 100_000}},
    }
    changed = {
        **NATIVE,
        "program__build": "make CC={cc} CFLAGS='-O2 -g -fno-inline'",
        "measure__software": software,
        "campaign__subsets": {"probed": ["sweeps"]},
        "campaign__layouts": "varied",
    }
    ended = unperturbed(tmp_path, "run", write_spec(tmp_path, **changed))
    assert ended.returncode == 0, ended.stderr
    for trace in traces(tmp_path / "campaigns" / "phases", "probed"):
        assert trace.attributes["layout"] > 0
        assert trace["rounds"].sum() == trace["sweeps"].sum() == 200


def test_a_campaign_of_a_version_without_one_build_goes_on_with_separate_builds(tmp_path: Path) -> None:
    campaign = tmp_path / "campaigns" / "phases"
    began = unperturbed(tmp_path, "run", write_spec(tmp_path, **SEPARATE, campaign__sham=True))
    assert began.returncode == 0, began.stderr
    before = done(campaign)
    path = write_spec(tmp_path, **CHANGED, campaign__sham=True)
    spec = load_spec(path)
    with Manifest(campaign / "campaign.sqlite") as manifest:
        manifest.set_facts(builds_wanted=None, spec_digest=spec.digest, spec_text=spec.text)
    judged = unperturbed(tmp_path, "check", campaign)
    assert judged.returncode == 0, judged.stderr
    path.write_text(path.read_text().replace("baseline_runs: 5", "baseline_runs: 6"))
    more = unperturbed(tmp_path, "run", path)
    assert more.returncode == 0, more.stderr
    assert "12 runs (baseline 6, steps 3, sham-steps 3)" in more.stderr
    assert "building" not in more.stderr
    assert before.items() <= done(campaign).items()
