"""`unperturbed partition` on a real program: candidates built as they are asked for, interrupted, resumed, the plan
run."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.analysis.report.browser import chromium_missing, open_report
from tests.harness.nodes.forked import Forked
from tests.harness.phases_campaign import done_runs, unperturbed, write_spec
from tests.harness.results.schema_faults import file_faults
from unperturbed.collectors.data import Kind, Metric, Trace
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.studies.partition.runs import uneven_note

DESIGN = {"baseline_runs": 5, "runs": 5, "seed": 3, "builds": "separate"}
"""A single tick between two quanta changes a run by 79 instructions, which changes the ranks of equal intervals: where
all reference runs are equal, three runs with one such run among them are undecided."""
ANALYSIS = {"align_on": ["PAPI_TOT_INS"], "tolerance": 0.5}
"""The test is of the command, not of the statistics: a tolerance that a few runs of a tiny program can show."""

SAMPLING = {
    "measure__software": {"rounds": {"enter": "begin_round"}, "steps": {"loop": "sweep"}},
    "measure__hardware": ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_SR_INS", "PAPI_TOT_CYC"],
}
"""Intervals of work: what the search finds must not depend on what else the host does. The program has some 500
mispredicted branches in all, of which each odd tick adds a few: they are left out."""


@dataclass(frozen=True)
class Found:
    folder: Path
    spec: Path
    killed: dict[str, float]
    first: str
    last: subprocess.CompletedProcess[str]

    @property
    def campaign(self) -> Path:
        return self.folder / "campaigns" / "phases-partition"


def _traces(campaign: Path) -> dict[str, float]:
    return {
        path.parent.name: path.stat().st_mtime_ns
        for path in campaign.glob("runs/*/trace.parquet")
        if path.parent.name != "0000"
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    folder = tmp_path_factory.mktemp("partition")
    spec = write_spec(folder, campaign=DESIGN, analysis=ANALYSIS, **SAMPLING)
    campaign = folder / "campaigns" / "phases-partition"
    first = Forked(folder, "partition", spec)
    deadline = time.monotonic() + 240
    while len(done_runs(campaign)) < 7 and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)  # among the runs of the first candidate
    printed = "".join(first.communicate())
    written = _traces(campaign)
    killed = {run: written[run] for run in done_runs(campaign)}
    yield Found(folder, spec, killed, printed, unperturbed(folder, "partition", spec))


def test_a_killed_search_goes_on_and_repeats_no_run(found: Found) -> None:
    assert found.last.returncode == 4, found.last.stderr
    now = _traces(found.campaign)
    assert len(found.killed) >= 7
    assert {run: now[run] for run in found.killed} == found.killed


def test_it_says_first_what_it_will_probably_take_and_then_each_measurement(found: Found) -> None:
    assert " if all metrics can be collected together, " in found.last.stderr
    said = found.first + found.last.stderr  # on a busy host the first candidate is judged before the kill
    candidate = re.search("all together: rounds, steps: (perturbed|shifted) .*", said)
    assert candidate, said
    # Three runs show that the change is beyond the tolerance, unless the spread of equal reference runs is a guess.
    assert candidate[1] == "perturbed" or "all reference runs have the same coefficient" in candidate[0]
    assert said.index("if all metrics can be collected together") < candidate.start()
    assert "certify: rounds: unperturbed" in said
    assert "fresh baseline" in said


def test_the_plan_has_its_evidence_and_every_metric_once(found: Found) -> None:
    plan = json.loads((found.campaign / "plan.json").read_text())
    assert file_faults(found.campaign / "plan.json") == []
    assert [subset["metrics"] for subset in plan["subsets"]] == [["rounds"]]
    assert plan["complete"]
    assert not plan["one_build"]
    for text in (
        found.last.stdout,
        (found.campaign / "plan.yaml").read_text(),
        (found.campaign / "partition.html").read_text(),
    ):
        assert "Each certificate applies to one build only: another build of the same metrics has other" in text
    assert [one["metric"] for one in plan["unmeasurable"]] == [
        "steps"
    ]  # it counts every step of the program's hottest loop
    assert "longer interval" in plan["unmeasurable"][0]["advice"]
    assert plan["undecided"] == []
    subset = plan["subsets"][0]
    assert subset["verdict"]["verdict"] == "unperturbed"
    assert subset["cost"]["instructions"] > 0
    # Fresh runs certify: none of them is among the search's.
    searched = {
        run for one in plan["history"] if one["stage"] != "certify" and one["outcome"] for run in one["outcome"]["runs"]
    }
    assert subset["runs"]
    assert not searched & set(subset["runs"])
    assert found.last.returncode == 4
    assert "cannot be measured at this interval" in found.last.stdout


@pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())
def test_the_plan_is_drawn(found: Found) -> None:
    path = found.campaign / "partition.html"
    assert found.last.stdout.strip().splitlines()[-1] == f"picture: {path}"
    plan = json.loads((found.campaign / "plan.json").read_text())
    with open_report(path) as page:
        page.wait_drawn()
        assert page.console() == []
        assert page.requests() == [path.resolve().as_uri()]
        drawn = page.drawn()
        assert set(drawn) == {"forest-1", "forest-left-out", "search-runs", "search-steps"}
        assert all(drawn.values())
        assert page.text(".answer").startswith("1 of 2 software metrics can be measured, in one subset certified")
        assert "Simulated counters" in page.text("#plan")
        measured = page.js("return document.querySelectorAll('#measurements tbody tr').length")
        assert measured == len(plan["history"])
        listed = page.js("return document.querySelectorAll('#runs-table tbody tr').length")
    assert listed == len(done_runs(found.campaign))


def test_a_limit_leaves_the_best_plan_so_far_and_its_picture(found: Found, tmp_path: Path) -> None:
    campaign = tmp_path / "limited"
    shutil.copytree(found.campaign, campaign)
    before = _traces(campaign)
    ended = unperturbed(found.folder, "partition", found.spec, "--campaign", campaign, "--max-runs", "4")
    assert ended.returncode == 4, ended.stderr
    assert _traces(campaign) == before
    plan = json.loads((campaign / "plan.json").read_text())
    assert file_faults(campaign / "plan.json") == []
    assert plan["stopped"].startswith("`max_runs` is 4")
    assert plan["subsets"] == []
    page = (campaign / "partition.html").read_text()
    assert "Not finished: " in page
    assert "No subset of the 2 software metrics is certified" in page


def test_a_run_that_fails_for_good_leaves_the_best_plan_so_far(found: Found, tmp_path: Path) -> None:
    campaign = tmp_path / "failing"
    shutil.copytree(found.campaign, campaign)
    programs = list(campaign.glob("builds/*/src/phases"))
    assert programs
    for program in programs:
        program.write_text("#!/bin/sh\nexit 3\n")
    search = ("partition", found.spec, "--campaign", campaign, "--repetitions", "6")  # one run more of each candidate
    ended = unperturbed(found.folder, *search)
    assert ended.returncode == 1, ended.stderr
    plan = json.loads((campaign / "plan.json").read_text())
    assert ", which the search needs, failed: " in plan["stopped"]
    assert "Not finished: " in (campaign / "partition.html").read_text()
    assert "Traceback" not in ended.stderr


def test_the_plan_is_a_spec_that_run_takes(found: Found, tmp_path: Path) -> None:
    path = found.campaign / "plan.yaml"
    plan = load_spec(path)
    assert {name: tuple(metrics) for name, metrics in plan.campaign.subsets.items()} == {"subset-1": ("rounds",)}
    assert list(plan.measure.software) == ["rounds"]
    text = path.read_text()
    assert "certified by" in text.split("name:")[0]
    assert yaml.safe_load(text)["program"]["source"] == str(found.folder / "phases")
    done = unperturbed(tmp_path, "run", path, "--campaign", tmp_path / "c")
    assert done.returncode in (0, 4), done.stderr
    assert "subset-1" in done.stdout


def test_asked_again_nothing_is_run(found: Found) -> None:
    before = _traces(found.campaign)
    again = unperturbed(found.folder, "partition", found.spec, "--json")
    assert again.returncode == 4
    assert _traces(found.campaign) == before
    assert json.loads(again.stdout)["subsets"][0]["metrics"] == ["rounds"]


def test_what_cannot_be_partitioned_is_said(found: Found, tmp_path: Path) -> None:
    def refused(*arguments: str, **changes: object) -> str:
        spec = write_spec(tmp_path, **{"campaign": DESIGN, "analysis": ANALYSIS, **changes})
        done = unperturbed(tmp_path, "partition", spec, *arguments)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    assert "nothing to partition, because the spec has no software metric: add" in refused(measure__software={})
    assert "use at least 3" in refused("--repetitions", "2")
    soft = {"measure__source": "perf_event", "measure__hardware": ["perf::task-clock"], "measure__derived": None}
    soft["measure__interval"] = "8 ms"
    align = {"analysis": {**ANALYSIS, "align_on": ["perf::task-clock"]}}
    said = refused("--campaign", "soft", **soft, **align)
    assert (
        "none of the metrics is a hardware event, so perturbation cannot be detected. Add an event such as PAPI_TOT_INS"
        in said
    )
    assert "building" not in said
    assert (
        "contains a search for a partition"
        in unperturbed(found.folder, "run", found.spec, "--campaign", found.campaign).stderr
    )


def test_an_event_that_is_nowhere_is_said_before_any_baseline_run(tmp_path: Path) -> None:
    software = {"steps": {"enter": "stpe"}, "rounds": {"enter": "no_such_function"}}
    spec = write_spec(tmp_path, campaign=DESIGN, analysis=ANALYSIS, **{**SAMPLING, "measure__software": software})
    ended = unperturbed(tmp_path, "partition", spec)
    assert ended.returncode == 2, ended.stderr
    assert "the program has no site" in ended.stderr
    assert done_runs(tmp_path / "campaigns" / "phases-partition") in ([], ["0000"])


def test_with_one_build_candidates_are_compared_with_it_and_cost_no_build(tmp_path: Path) -> None:
    software = {"rounds": {"enter": "begin_round"}, "steps": {"loop": "walk"}}  # the build itself is unperturbed
    sampling = {**SAMPLING, "measure__software": software}
    spec = write_spec(tmp_path, campaign={**DESIGN, "builds": "one"}, analysis=ANALYSIS, **sampling)
    ended = unperturbed(tmp_path, "partition", spec)
    assert ended.returncode in (0, 4), ended.stderr
    campaign = tmp_path / "campaigns" / "phases-partition"
    assert {path.name for path in (campaign / "builds").iterdir()} == {"00", "01"}
    assert "Against the baseline, ready is unperturbed." in " ".join(ended.stdout.split())
    plan = json.loads((campaign / "plan.json").read_text())
    assert plan["subsets"]
    assert {subset["verdict"]["reference"] for subset in plan["subsets"]} <= {"ready", "anchor"}
    assert plan["one_build"]
    for text in (ended.stdout, (campaign / "plan.yaml").read_text(), (campaign / "partition.html").read_text()):
        assert "Each certificate applies to one build only" not in text
    document = yaml.safe_load((campaign / "plan.yaml").read_text())
    assert document["campaign"]["builds"] == "one"
    load_spec(campaign / "plan.yaml")
    # A candidate runs in the rounds of the runs that it is compared with: that tells more than further rounds do.
    rounds: dict[str, list[tuple[int, int, int]]] = {}
    with Manifest(campaign / "campaign.sqlite", read_only=True) as manifest:
        for state in manifest.runs():
            run = state.run
            rounds.setdefault(run.configuration, []).append((run.block, run.pad_bytes, run.layout))
    candidates = {name: made for name, made in rounds.items() if name.startswith("candidate-")}
    assert candidates
    assert all(
        set(made) <= set(rounds["ready"]) for made in candidates.values() if len(made) <= DESIGN["baseline_runs"]
    )
    assert all(len(set(made)) == len(made) for made in candidates.values())


def test_a_metric_that_counts_nothing_is_told(tmp_path: Path) -> None:
    software = {"rounds": {"enter": "begin_round"}, "never": {"enter": "never_called"}}
    spec = write_spec(
        tmp_path,
        campaign={**DESIGN, "subsets": {"all": ["never"]}},
        analysis={**ANALYSIS, "anchor": "rounds"},
        **{**SAMPLING, "measure__software": software},
    )
    (source,) = (tmp_path / "phases").glob("*.c")
    source.write_text("void never_called(void);\nvoid never_called(void) {}\n" + source.read_text())
    ended = unperturbed(tmp_path, "partition", spec, "--max-runs", "8")
    assert "note: never counted nothing in any run: check that the spec names the right event." in ended.stdout, (
        ended.stdout + ended.stderr
    )
    assert (
        "never counted nothing in any run"
        in (tmp_path / "campaigns" / "phases-partition" / "partition.html").read_text()
    )


def test_a_searchs_folder_is_no_campaign_to_check(found: Found) -> None:
    ended = unperturbed(found.folder, "check", found.campaign)
    assert ended.returncode == 2, ended.stderr
    assert "run its plan.yaml, and check the new campaign" in ended.stderr


@pytest.mark.parametrize(
    ("lengths", "clock", "kind", "said"),
    [
        ((87, 61, 70), "process-cpu", "simulated", "the baseline's runs have 61 to 87 intervals, "),
        ((70, 61, 66), "process-cpu", "simulated", ""),
        ((87, 61, 70), "work", "simulated", ""),  # then it is the program that differs
        ((87, 61, 70), "monotonic", "hardware", ""),
    ],
)
def test_intervals_of_time_that_a_busy_host_stretches_are_told(
    lengths: tuple[int, ...], clock: str, kind: Kind, said: str
) -> None:
    metric = Metric("PAPI_TOT_INS", kind, "instructions", "counter", "callgrind")
    made = []
    for length in lengths:
        ends = np.arange(1, length + 1) * 1_000_000
        columns = {"PAPI_TOT_INS": np.ones(length)}
        made.append(
            Trace.from_columns([metric], columns, begin_ns=ends - 1_000_000, end_ns=ends, attributes={"clock": clock})
        )
    told = uneven_note(made)
    assert bool(told) == bool(said) and "".join(told).startswith(said)
