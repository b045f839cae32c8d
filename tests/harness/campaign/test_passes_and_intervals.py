"""Campaigns of more than one pass, and intervals chosen by the number of records."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.harness.phases_campaign import done_runs, unperturbed, verdicts, write_spec
from unperturbed.collectors import Trace
from unperturbed.common.wording import duration
from unperturbed.harness.campaign import pilot
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.results.looks import check
from unperturbed.harness.results.recorded import read_traces, recorded_campaign
from unperturbed.harness.spec.load import load_spec


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that asks for TLB misses, which are simulated in a pass of their own, and for 60 records a run."""
    folder = tmp_path_factory.mktemp("passes")
    spec = write_spec(
        folder,
        measure__hardware=["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_SR_INS", "PAPI_TLB_DM"],
        measure__derived=None,
        program__run="{build}/phases 30",
        measure__clock=None,
        measure__interval={"records": 60},
        analysis__anchor=None,
        campaign__subsets={"steps": ["steps", "rounds"]},
    )
    done = unperturbed(folder, "run", spec)
    assert done.returncode in (0, 4), done.stderr
    assert "16 runs (baseline 10, steps 6)" in done.stderr
    return folder / "campaigns" / "phases"


def test_each_pass_has_baselines_of_its_own(campaign: Path) -> None:
    with Manifest(campaign / "campaign.sqlite") as manifest:
        traces = read_traces(campaign, manifest)
    assert {name: {key: len(runs) for key, runs in found.items()} for name, found in traces.items()} == {
        "main": {"baseline": 5, "steps": 3},
        "page-cache": {"baseline": 5, "steps": 3},
    }
    assert set(traces["main"]["baseline"][0].names("simulated")) == {
        "PAPI_TOT_INS",
        "PAPI_L1_DCM",
        "PAPI_SR_INS",
        "PAPI_TOT_CYC",
    }
    assert set(traces["page-cache"]["baseline"][0].names("simulated")) == {"PAPI_TOT_INS", "PAPI_SR_INS", "PAPI_TLB_DM"}


def test_every_pair_is_judged_once_in_the_pass_that_counts_both(campaign: Path) -> None:
    inner = [
        (change["first"], change["second"])
        for verdict in verdicts(campaign)["verdicts"]
        for change in verdict["changes"]
        if change["check"] == "inner"
    ]
    assert sorted(inner) == [
        ("PAPI_L1_DCM", "PAPI_SR_INS"),
        ("PAPI_SR_INS", "PAPI_TLB_DM"),
        ("PAPI_TOT_INS", "PAPI_L1_DCM"),
        ("PAPI_TOT_INS", "PAPI_SR_INS"),
        ("PAPI_TOT_INS", "PAPI_TLB_DM"),
    ]


def test_the_pilot_finds_the_interval(campaign: Path) -> None:
    with Manifest(campaign / "campaign.sqlite") as manifest:
        found = manifest.fact("pilot:main")
        trace = read_traces(campaign, manifest)["main"]["baseline"][0]
    assert trace.attributes["interval_ns"] == found["interval_ns"]
    assert found["interval_ns"] == round(found["intervals"] / 60)
    assert trace.attributes["clock"] == "work", "by itself, where counts are simulated"
    assert 40 <= len(trace) <= 90


def test_a_configuration_without_enough_runs_is_undecided_not_unperturbed(campaign: Path) -> None:
    recorded = recorded_campaign(campaign)
    with Manifest(campaign / "campaign.sqlite") as manifest:
        traces = {name: dict(found) for name, found in read_traces(campaign, manifest).items()}
    traces["main"]["steps"] = traces["main"]["steps"][:1]
    checked = check(recorded, traces)
    found = checked.verdicts[0]
    assert found.verdict != "unperturbed"
    assert found.lost == (("steps", "only 1 of 3 runs gave a trace, too few for a verdict"),)
    # The other pass was checked all the same, and is part of the same verdict.
    assert found.changes
    assert found.overhead.instructions is not None
    alone = check(recorded, {"main": traces["main"]}).verdicts[0]
    assert (alone.verdict, alone.changes) == ("undecided", ())
    del traces["main"]["baseline"]
    assert check(recorded, traces).verdicts[0].verdict != "unperturbed"
    assert check(recorded, {}).verdicts[0].excluded == (("steps", "no run has a trace"),)


def test_identical_baseline_runs_are_refused(campaign: Path) -> None:
    recorded = recorded_campaign(campaign)
    with Manifest(campaign / "campaign.sqlite") as manifest:
        traces = {name: dict(found) for name, found in read_traces(campaign, manifest).items()}
    first = traces["main"]["baseline"][0]
    copies = [
        Trace.from_columns(
            first.metrics.values(),
            first.columns,
            begin_ns=first.begin_ns,
            end_ns=first.end_ns,
            attributes={**first.attributes, "run": f"copy {number}", "clock": "process-cpu"},
        )
        for number in range(5)
    ]
    traces["main"]["baseline"] = tuple(copies)
    with pytest.raises(ValueError, match="identical in every metric and interval"):
        check(recorded, traces)


def test_a_coarse_clock_is_said() -> None:
    interval, note = pilot._interval_for(3000, 2_500_000_000, "process-cpu")
    assert interval >= 2_000_000
    assert note.startswith(
        "3000 intervals are requested (`interval` in the spec, --interval of a program after --), but "
    )
    assert note.endswith("A longer input gives more.")
    interval, note = pilot._interval_for(3000, 30_000_000_000, "monotonic")
    assert (interval, note) == (10_000_000, "")
    interval, note = pilot._interval_for(100, 3_000_000_000, "process-cpu")
    assert interval == 30_000_000
    assert note == ""


def test_another_number_of_intervals_than_requested_is_said() -> None:
    """An interval is a whole number of quanta, so few quanta cannot be divided into any number of intervals."""
    said = pilot._other_number(100, 155, 2, 100_000)
    assert said == (
        "100 intervals are requested (`interval` in the spec, --interval of a program after --), but a run has about "
        "78: an interval is a whole number of quanta of 100,000 basic blocks, so the nearest numbers are 78 and 155."
    )
    assert pilot._other_number(100, 148, 1, 20_000).endswith(
        "about 148: an interval is a whole number of quanta of "
        "20,000 basic blocks, so the nearest numbers are 74 and 148."
    )
    assert pilot._other_number(200, 170, 1, 100_000).endswith(
        "about 170: an interval is at least one quantum of 100,000 basic blocks."
    )
    assert pilot._other_number(200, 182, 1, 100_000) == ""


def test_time_spans_are_said_as_people_do() -> None:
    assert [duration(seconds, whole=True) for seconds in (0.4, 8, 200, 7500)] == [
        "0 s",
        "8 s",
        "3 min 20 s",
        "2 h 5 min",
    ]


def test_a_program_that_was_not_built_here_is_measured_natively(tmp_path: Path) -> None:
    """The sampler comes by LD_PRELOAD; the kernel's own events are not hardware, and nothing is judged by them."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        """
name: native
program:
  run: /usr/bin/sha256sum {inputs}/data
  prepare: "{python} -c \\"open('{inputs}/data', 'wb').write(bytes(60_000_000))\\""
measure:
  interval: 2 ms
  source: perf_event
  hardware: ["perf::page-faults", "perf::task-clock"]
  os: [minor_faults]
campaign: {baseline_runs: 5, runs: 3}
"""
    )
    done = unperturbed(tmp_path, "run", spec)
    if "Permission denied" in done.stderr or "not permitted" in done.stderr:
        pytest.skip("this host allows no perf events")
    assert done.returncode == 0, done.stderr
    assert "No hardware metric was measured, so perturbation cannot be detected" in done.stdout
    trace = Trace.read(tmp_path / "campaigns" / "native" / "runs" / "0001" / "trace.parquet")
    assert {metric.kind for metric in trace.metrics.values()} == {"os"}
    assert trace.attributes["clock"] == "monotonic"
    elapsed = int(trace.end_ns[-1])
    assert 0 < trace["perf::task-clock"].sum() <= 1.05 * elapsed
    assert trace["perf::page-faults"].sum() > 0


def test_a_campaign_goes_on_when_more_runs_are_asked_for_and_builds_what_these_need(tmp_path: Path) -> None:
    changes = {
        "measure__derived": None,
        "analysis__anchor": None,
        "measure__hardware": ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_SR_INS"],
    }
    software = {"steps": {"loop": "walk"}, "never": {"label": "main::out"}}
    spec = write_spec(tmp_path, **changes, measure__software=software, campaign__subsets={"steps": ["steps", "never"]})
    source = tmp_path / "phases" / "phases.c"
    source.write_text(
        source.read_text()
        .replace('    printf("%ld', '    if (rounds < 0)\n        goto out;\n    printf("%ld')
        .replace("    return 0;\n}", "    return 0;\nout:\n    return 1;\n}")
    )
    first = unperturbed(tmp_path, "run", spec)
    assert first.returncode in (0, 4), first.stderr
    assert "never counted nothing in any run of steps" in first.stdout
    folder = tmp_path / "campaigns" / "phases"
    before = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/trace.parquet")}
    write_spec(
        tmp_path,
        **changes,
        measure__software=software,
        campaign__subsets={"steps": ["steps", "never"]},
        campaign__runs=4,
        campaign__baseline_runs=6,
        analysis__tolerance=0.3,
    )
    second = unperturbed(tmp_path, "run", spec)
    assert second.returncode in (0, 4), second.stderr
    assert "10 runs (baseline 6, steps 4)" in second.stderr
    assert "8 runs are already done" in second.stderr
    assert "building" not in second.stderr
    for path, written in before.items():
        assert path.stat().st_mtime_ns == written
    said = verdicts(folder)
    assert said["settings"]["tolerance"] == 0.3
    assert any("extended by 2 runs, from 8" in note for note in said["notes"])
    assert "extended by 2 runs, from 8" in " ".join(second.stdout.split())
    assert len(said["verdicts"][0]["changes"][0]["reference"]) == 6

    shutil.rmtree(folder / "builds")
    third = unperturbed(tmp_path, "run", spec, "--no-check")
    assert (third.returncode, "building" in third.stderr) == (0, False), third.stderr
    assert "10 runs are already done" in third.stderr
    assert not (folder / "builds").exists()
    spec.write_text(spec.read_text().replace("runs: 4", "runs: 5"))
    fourth = unperturbed(tmp_path, "run", spec, "--no-check")
    assert fourth.returncode == 0, fourth.stderr
    assert ("building ready" in fourth.stderr, "building baseline" in fourth.stderr) == (True, False)
    assert len(done_runs(folder)) == 11


@pytest.mark.parametrize(
    ("changes", "larger"),
    [
        ({}, False),
        ({"program__run": "{build}/phases work.py"}, False),  # a script, not its input
        ({"program__run": "/bin/sh {spec}/script"}, False),
        ({"program__run": "{build}/phases {spec}/words.txt"}, True),
        ({"program__run": "{build}/phases words.txt", "program__working_folder": "FOLDER"}, True),
        ({"program__stdin": "{spec}/words.txt"}, True),
        ({"program__inputs": ["words.txt"]}, True),
        ({"program__prepare": "make {inputs}/words.txt"}, True),
    ],
)
def test_more_work_is_said_as_a_larger_input_if_the_program_reads_one(
    tmp_path: Path, changes: dict[str, object], larger: bool
) -> None:
    for name in ("words.txt", "work.py"):
        (tmp_path / name).touch()
    (tmp_path / "script").write_text("#!/bin/sh\n")
    changes = {key: str(tmp_path) if value == "FOLDER" else value for key, value in changes.items()}
    said = pilot.times_as_much(load_spec(write_spec(tmp_path, **changes)), 1.9)
    assert said == "1.9 times as much work" + " (for example, an input 1.9 times as large)" * larger


@pytest.mark.parametrize(
    ("intervals", "times"), [(29, "1.2"), (22, "1.5"), (21, "1.6"), (10, "3.3"), (3, "11"), (1, "33"), (0, "33")]
)
def test_the_pilot_asks_for_no_more_work_than_is_needed(tmp_path: Path, intervals: int, times: str) -> None:
    why = pilot._too_short(load_spec(write_spec(tmp_path)), intervals, "1 ms", shortest=True, events=None)
    assert why.endswith(f"give the program {times} times as much work")
    assert not pilot._too_short(load_spec(tmp_path / "spec.yaml"), 30, "1 ms", shortest=True, events=None)


def test_a_program_too_short_for_the_records_is_refused_after_the_pilot(tmp_path: Path) -> None:
    """The chosen interval is the shortest there is, so nothing but more work helps; nobody wants to hear it after
    all runs."""
    spec = write_spec(tmp_path, program__run="{build}/phases 10", measure__interval={"records": 200})
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 1, done.stderr
    assert re.search(
        r"intervals of 100,000 basic blocks, but a verdict needs at least 30: give the program 1\.\d times as much",
        done.stderr,
    )


def test_a_derived_metric_whose_parts_no_run_holds_is_named_before_the_first(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        measure__hardware=["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_TLB_DM"],
        measure__derived={"per_miss": "PAPI_TLB_DM / PAPI_L1_DCM", "per_instruction": "PAPI_TLB_DM / PAPI_TOT_INS"},
        measure__source="simulated",
    )
    done = unperturbed(tmp_path, "doctor", spec)
    assert "per_miss will have no values: no run counts all 2 hardware metrics in its expression" in done.stdout
    assert "in its expression, because they need two simulated data caches" in done.stdout
    assert "per_instruction will have" not in done.stdout, "every pass counts instructions"
    spec = write_spec(
        tmp_path,
        measure__hardware=["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_BR_MSP", "PAPI_LD_INS", "PAPI_SR_INS"],
        measure__derived={"rate": "PAPI_L1_DCM / PAPI_SR_INS"},
        measure__source="simulated",
        measure__simulator={"counters": 3},
    )
    done = unperturbed(tmp_path, "doctor", spec)
    advised = "with `together: [[PAPI_L1_DCM, PAPI_SR_INS]]` under `analysis`, one pass counts the metrics of each list"
    assert advised in done.stdout
    together = "analysis: {together: [[PAPI_L1_DCM, PAPI_SR_INS]]}\n"
    spec.write_text(spec.read_text() + together)
    assert "will have no values" not in unperturbed(tmp_path, "doctor", spec).stdout
