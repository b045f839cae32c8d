"""One campaign on a real program from end to end: killed, resumed, judged, reported."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analysis.report.browser import chromium_missing, open_report
from tests.harness.nodes.forked import Forked
from tests.harness.phases_campaign import SPEC, done_runs, unperturbed, verdicts, write_spec
from unperturbed.analysis.alignment import align
from unperturbed.analysis.perturbation import SEVERITY
from unperturbed.collectors import Trace
from unperturbed.errors import SpecError
from unperturbed.harness.results import merging
from unperturbed.harness.results.looks import check
from unperturbed.harness.results.recorded import Traces
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec.campaign_spec import CampaignSpec

ROUNDS = 16
STEPS = sum(30000 * (1 + number % 3) for number in range(ROUNDS))
RUNS = 13


@dataclass(frozen=True)
class Finished:
    """A campaign that was killed in its midst and finished by a second call."""

    folder: Path
    spec: Path
    done_before: dict[str, int]
    killed: str
    last: subprocess.CompletedProcess[str]

    @property
    def campaign(self) -> Path:
        return self.folder / "campaigns" / "phases"

    def trace(self, configuration: str, number: int = 0) -> Trace:
        return [trace for trace in self.traces() if trace.attributes["configuration"] == configuration][number]

    def traces(self) -> list[Trace]:
        return [
            Trace.read(path)
            for path in sorted(self.campaign.glob("runs/00[01]?/trace.parquet"))
            if path.parent.name != "0000"
        ]


def _wait_for(campaign: Path, count: int, process: Forked) -> None:
    deadline = time.monotonic() + 200
    while len(done_runs(campaign)) < count and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder = tmp_path_factory.mktemp("campaign")
    spec = write_spec(folder)
    campaign = folder / "campaigns" / "phases"
    first = Forked(folder, "run", spec)
    _wait_for(campaign, 3, first)
    time.sleep(0.3)  # somewhere inside the next run
    first.send_signal(signal.SIGKILL)
    said = "".join(first.communicate())
    before = {run: (campaign / "runs" / run / "trace.parquet").stat().st_mtime_ns for run in done_runs(campaign)}
    yield Finished(folder, spec, before, said, unperturbed(folder, "run", spec))


def test_it_says_first_how_many_runs_and_how_long(finished: Finished) -> None:
    assert "13 runs (baseline 5, anchor 5, steps 3)" in finished.killed
    assert "to go" in finished.killed
    assert "simulated by callgrind" in finished.killed


def test_a_killed_campaign_goes_on_and_repeats_nothing(finished: Finished) -> None:
    assert finished.last.returncode in (0, 4), finished.last.stderr
    assert len(finished.done_before) >= 3
    for run, written in finished.done_before.items():
        assert (finished.campaign / "runs" / run / "trace.parquet").stat().st_mtime_ns == written
    assert len(done_runs(finished.campaign)) == RUNS
    assert f"{len(finished.done_before)} runs are already done" in finished.last.stderr


def test_traces_hold_what_was_asked_for(finished: Finished) -> None:
    trace = finished.trace("steps")
    kinds = {name: metric.kind for name, metric in trace.metrics.items()}
    assert kinds == {
        **dict.fromkeys(SPEC["measure"]["hardware"], "simulated"),
        "minor_faults": "os",
        "rounds": "software",
        "steps": "software",
        "IPC": "derived",
    }
    assert trace.metrics["IPC"].meaning.startswith("simulated")
    assert len(trace) > 30
    assert trace.attributes["clock"] == "work"
    assert set(finished.trace("baseline").names("software")) == set()
    assert finished.trace("anchor").names("software") == ("rounds",)


def test_milestones_are_counted_exactly_in_every_run(finished: Finished) -> None:
    for trace in finished.traces():
        if "rounds" in trace.metrics:
            assert trace["rounds"].sum() == ROUNDS
        if "steps" in trace.metrics:
            assert trace["steps"].sum() == STEPS


def test_counting_adds_a_store_an_event_and_the_build_an_instruction_or_two(finished: Finished) -> None:
    instructions, stores = (
        {
            name: np.mean([t[metric].sum() for t in finished.traces() if t.attributes["configuration"] == name])
            for name in ("baseline", "anchor", "steps")
        }
        for metric in ("PAPI_TOT_INS", "PAPI_SR_INS")
    )
    # One for the count or its no-op; the loop around it is so short that the compiler unrolls it no longer.
    assert 0.5 < (instructions["anchor"] - instructions["baseline"]) / STEPS < 2.5
    assert abs(instructions["steps"] - instructions["anchor"]) < 1e-3 * STEPS
    assert abs((stores["steps"] - stores["anchor"]) / STEPS - 1) < 0.01


def test_the_size_of_the_environment_varies_and_is_recorded(finished: Finished) -> None:
    pads = {trace.attributes["block"]: trace.attributes["environment_pad_bytes"] for trace in finished.traces()}
    assert len(set(pads.values())) > 2
    for trace in finished.traces():
        assert trace.attributes["environment_pad_bytes"] == pads[trace.attributes["block"]]


def test_verdicts_for_every_pair_and_metric(finished: Finished) -> None:
    said = verdicts(finished.campaign)
    by_name = {entry["configuration"]: entry for entry in said["verdicts"]}
    assert set(by_name) == {"anchor", "steps"}
    for entry in by_name.values():
        inner = {(change["first"], change["second"]) for change in entry["changes"] if change["check"] == "inner"}
        # The cycle estimate and IPC share events with all others: their correlations are built in.
        assert inner == {
            ("PAPI_TOT_INS", "PAPI_L1_DCM"), ("PAPI_TOT_INS", "PAPI_BR_MSP"), ("PAPI_TOT_INS", "PAPI_SR_INS"),
            ("PAPI_L1_DCM", "PAPI_BR_MSP"), ("PAPI_L1_DCM", "PAPI_SR_INS"), ("PAPI_BR_MSP", "PAPI_SR_INS"),
            ("PAPI_SR_INS", "PAPI_TOT_CYC"), ("PAPI_SR_INS", "IPC"),
        }  # fmt: skip
        outer = {change["first"] for change in entry["changes"] if change["check"] == "outer"}
        assert outer == {*SPEC["measure"]["hardware"], "IPC"}
        assert entry["overhead"]["time"] is None
        for change in entry["changes"]:
            assert change["low"] <= change["effect"] <= change["high"]
            assert change["verdict"] in SEVERITY
    added = {name: entry["overhead"]["instructions"] for name, entry in by_name.items()}
    assert abs(added["steps"] - added["anchor"]) < 1e-4, "both run one build"
    assert added["anchor"] > -0.01
    expected = 4 if any(entry["verdict"] == "perturbed" for entry in by_name.values()) else 0
    assert finished.last.returncode == expected


def test_the_table_says_the_same(finished: Finished) -> None:
    for entry in verdicts(finished.campaign)["verdicts"]:
        assert entry["configuration"] in finished.last.stdout
        assert entry["verdict"] in finished.last.stdout
    assert "report.html" in finished.last.stdout


def test_running_again_runs_nothing_and_says_the_same(finished: Finished) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.campaign.glob("runs/*/trace.parquet")}
    again = unperturbed(finished.folder, "run", finished.spec, "--json")
    assert again.returncode == finished.last.returncode
    assert before == {path: path.stat().st_mtime_ns for path in finished.campaign.glob("runs/*/trace.parquet")}
    assert '"verdicts"' in again.stdout


def test_check_and_report_need_no_spec(finished: Finished) -> None:
    written = (finished.campaign / "report.html").stat().st_mtime_ns
    done = unperturbed(finished.folder, "check", finished.campaign)
    assert done.returncode == finished.last.returncode
    assert "verdicts per configuration" in done.stdout
    done = unperturbed(finished.folder, "report", finished.campaign)
    assert done.returncode == 0
    assert (finished.campaign / "report.html").stat().st_mtime_ns > written


def test_two_campaigns_stand_side_by_side(finished: Finished, tmp_path: Path) -> None:
    other = tmp_path / "yesterday"
    shutil.copytree(finished.campaign, other)
    untouched = (other / "report.html").stat().st_mtime_ns
    done = unperturbed(finished.folder, "report", finished.campaign, "--compare", other)
    assert done.returncode == 0
    page = finished.campaign / "comparison.html"
    assert str(page) in done.stdout
    text = page.read_text()
    assert f"<h1>yesterday and {finished.campaign.name}</h1>" in text
    assert "Both campaigns agree on all" in text
    assert (other / "report.html").stat().st_mtime_ns == untouched
    assert not (other / "comparison.html").exists()
    page.unlink()
    done = unperturbed(finished.folder, "report", finished.campaign, "--compare", tmp_path / "nowhere")
    assert done.returncode == 2
    assert "no file or folder" in done.stderr
    assert not page.exists()


@pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())
def test_the_report_opens_offline_and_shows_what_was_found(finished: Finished) -> None:
    report = finished.campaign / "report.html"
    assert report.stat().st_size < 1_500_000
    with open_report(report) as page:
        page.wait_drawn()
        page.unfold()
        assert page.console() == []
        assert page.requests() == [report.resolve().as_uri()]
        drawn = page.drawn()
        assert drawn["forest"] > 0
        assert drawn["alignment-signals"] > 0
        assert all(drawn.values())
        text = page.text("body")
    assert "Simulated counters" in text
    assert verdicts(finished.campaign)["headline"]["command"].startswith(str(finished.campaign / "builds"))
    for entry in verdicts(finished.campaign)["verdicts"]:
        assert entry["configuration"] in text
        assert entry["verdict"] in text


def test_comments_do_not_make_another_spec_but_values_do(finished: Finished) -> None:
    text = finished.spec.read_text()
    try:
        finished.spec.write_text("# a remark\n" + text)
        assert unperturbed(finished.folder, "run", finished.spec).returncode == finished.last.returncode
        other = write_spec(finished.folder, campaign__seed=4)
        done = unperturbed(finished.folder, "run", other)
        assert done.returncode == 2
        assert "contains a campaign of another spec" in done.stderr
        assert "; changed keys: campaign.seed): choose another folder" in done.stderr
        assert len(done_runs(finished.campaign)) == RUNS
    finally:
        finished.spec.write_text(text)


def test_host_state_is_kept_with_every_run(finished: Finished) -> None:
    with sqlite3.connect(f"file:{finished.campaign / 'campaign.sqlite'}?mode=ro", uri=True) as database:
        rows = database.execute("SELECT host_before, host_after FROM runs").fetchall()
    database.close()
    assert len(rows) == RUNS
    for before, after in rows:
        assert "load_1min" in before
        assert "pyperf_aslr" in after
    for row in verdicts(finished.campaign)["runs"]:
        assert row["host_after"]["pyperf_aslr"]
        assert "context switches" in row["host"]


def test_an_interrupt_ends_with_130_and_a_second_process_is_refused(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    campaign = tmp_path / "campaigns" / "phases"
    process = Forked(tmp_path, "run", spec)
    _wait_for(campaign, 1, process)
    other = unperturbed(tmp_path, "run", spec)
    assert other.returncode == 2
    assert f"another process (pid {process.pid}) is working on this campaign" in other.stderr
    os.kill(process.pid, signal.SIGINT)
    said = "".join(process.communicate(timeout=60))
    assert process.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert 1 <= len(done_runs(campaign)) < RUNS


def test_a_run_that_fails_is_retried_named_and_outranks_the_verdict(tmp_path: Path) -> None:
    """One run of one configuration fails every time it is tried; the others are judged all the same."""
    # The program crashes in the fifth run, which it knows by the name of its record.
    spec = write_spec(
        tmp_path,
        campaign__seed=9,
        analysis__anchor=None,
        campaign__subsets={"steps": ["steps", "rounds"]},
    )
    source = tmp_path / "phases" / "phases.c"
    text = source.read_text().replace(
        "int main(int argc, char **argv)\n{", FAILING + "int main(int argc, char **argv)\n{\n    fail_now_and_then();"
    )
    source.write_text(text)
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode == 1, done.stderr
    campaign = tmp_path / "campaigns" / "phases"
    assert len(done_runs(campaign)) == 7
    assert "ended with exit code 9" in done.stderr
    assert "has no result after 2 attempts" in done.stderr
    assert list(campaign.glob("runs/*-failed-2"))
    assert (campaign / "report.html").exists()


FAILING = """
static void fail_now_and_then(void)
{
    const char *record = getenv("UNPERTURBED_RECORD");
    if (record && strstr(record, "/0005/")) {
        fprintf(stderr, "this run is not for me\\n");
        exit(9);
    }
}

"""


def test_merge_joins_all_runs_into_one_trace(finished: Finished, tmp_path: Path) -> None:
    done = unperturbed(finished.folder, "merge", finished.campaign, "--json", "--force")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [source["configuration"] for source in found["sources"]] == ["anchor", "steps"]
    assert found["sources"][0]["repetitions"] == 5
    merged = Trace.read(finished.campaign / "merged.parquet")
    assert found["trace"] == str(finished.campaign / "merged.parquet")
    assert set(merged.metrics) >= {
        *SPEC["measure"]["hardware"],
        "IPC",
        "rounds",
        "steps",
        "minor_faults",
        "spread:steps/main",
    }
    assert merged["steps"].sum() == pytest.approx(STEPS)
    assert merged["rounds"].sum() == ROUNDS
    # Rounds come from one run, steps from another, and every round has its steps.
    assert np.corrcoef(np.cumsum(merged["rounds"]), np.cumsum(merged["steps"]))[0, 1] > 0.99
    csv = unperturbed(finished.folder, "merge", finished.campaign, "--out", tmp_path / "merged.csv", "--force")
    assert csv.returncode == 0, csv.stderr
    assert len((tmp_path / "merged.csv").read_text().splitlines()) == len(merged) + 1
    assert "reference" in csv.stdout


def test_merge_refuses_what_the_outer_check_rejects_and_marks_it_when_forced(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked_and_one_rejected(spec: CampaignSpec, traces: Traces) -> CampaignVerdicts:
        found = check(spec, traces)
        spoilt = next(verdict for verdict in found.verdicts if verdict.configuration == "steps")
        changes = [
            replace(change, **outer) if change.check == "outer" else replace(change, verdict="unperturbed")
            for change in spoilt.changes
        ]
        return replace(found, verdicts=(replace(spoilt, changes=tuple(changes)),))

    outer: dict[str, Any] = {"verdict": "undecided", "effect": -0.46}
    monkeypatch.setattr(merging, "check", checked_and_one_rejected)
    first, *_ = merging.merge_campaign(finished.campaign).notes
    assert first.startswith("Not shown to match the runs that they are compared with: steps: the correlation of PAPI_")
    outer = {"verdict": "shifted", "effect": -0.05}
    assert not merging.merge_campaign(finished.campaign).rejected
    for verdict in ("shifted", "perturbed"):
        outer = {"verdict": verdict, "effect": -0.46}
        with pytest.raises(
            SpecError, match=r"^steps: the correlation of PAPI_\w+ between runs changes .*change -0\.46"
        ):
            merging.merge_campaign(finished.campaign, budget=None, force=False)
    left = merging.merge_campaign(finished.campaign, without=["steps"])
    assert {source.configuration for source in left.merged.sources} == {"anchor"}
    with pytest.raises(SpecError, match="no such configuration; the configurations are baseline, anchor, steps"):
        merging.merge_campaign(finished.campaign, without=["stops"])
    forced = merging.merge_campaign(finished.campaign, budget=4, force=True)
    assert forced.rejected == ("steps",)
    assert forced.notes[0].startswith("Rejected, but merged because of --force: steps: ")
    assert forced.merged.trace.attributes["merged"]["rejected"] == ["steps"]
    assert len(forced.merged.sources[1].alignment.anchors) == 4


def test_a_rejected_configuration_that_gives_no_metric_does_not_stop_a_merge(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked_and_baseline_rejected(spec: CampaignSpec, traces: Traces) -> CampaignVerdicts:
        found = check(spec, traces)
        changes = [replace(one, verdict="perturbed", effect=-0.46) for one in found.verdicts[0].changes]
        return replace(found, verdicts=(replace(found.verdicts[0], configuration="baseline", changes=tuple(changes)),))

    monkeypatch.setattr(merging, "check", checked_and_baseline_rejected)
    made = merging.merge_campaign(finished.campaign)
    assert {source.configuration for source in made.merged.sources} == {"anchor", "steps"}
    assert not made.rejected
    # Notes on the anchor, whose change is about as large as the tolerance, and on its totals name the baseline too.
    of_anchor = ("The anchor 'rounds' alone", "Hardware metrics are from runs of anchor, whose totals differ")
    assert not [note for note in made.notes if "baseline" in note and not note.startswith(of_anchor)]


def test_merge_names_a_configuration_that_is_perturbed_within_its_runs(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked_and_one_perturbed(spec: CampaignSpec, traces: Traces) -> CampaignVerdicts:
        found = check(spec, traces)
        spoilt = next(verdict for verdict in found.verdicts if verdict.configuration == "steps")
        first = next(change for change in spoilt.changes if change.check == "inner")
        changes = [
            replace(change, verdict="perturbed" if change is first else "unperturbed") for change in spoilt.changes
        ]
        return replace(found, verdicts=(replace(spoilt, verdict="perturbed", changes=tuple(changes)),))

    monkeypatch.setattr(merging, "check", checked_and_one_perturbed)
    (note,) = [one for one in merging.merge_campaign(finished.campaign).notes if "perturbed" in one]
    assert note.startswith("steps is perturbed within its runs: PAPI_")
    assert note.endswith(". Leave steps out with --without steps, or do not use these correlations.")
    left = merging.merge_campaign(finished.campaign, without=["steps"])
    assert not [one for one in left.notes if "perturbed within" in one]


def test_merge_says_whose_verdict_is_open_only_of_what_is_merged(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked_and_all_open(spec: CampaignSpec, traces: Traces) -> CampaignVerdicts:
        found = check(spec, traces)
        return replace(found, verdicts=tuple(replace(verdict, verdict="undecided") for verdict in found.verdicts))

    monkeypatch.setattr(merging, "check", checked_and_all_open)
    for without, named in ((), "anchor, steps"), (["steps"], "anchor"):
        notes = merging.merge_campaign(finished.campaign, without=without, force=True).notes
        assert f"Configurations with an open verdict (shifted or undecided): {named}." in notes


def test_align_says_how_two_runs_belong_together(finished: Finished, tmp_path: Path) -> None:
    first, second = [
        path.parent
        for path in sorted(finished.campaign.glob("runs/00[01]?/trace.parquet"))
        if Trace.read(path).attributes["configuration"] == "steps" and path.parent.name != "0000"
    ][:2]
    page = tmp_path / "aligned.html"
    by_spec = unperturbed(finished.folder, "align", first, second / "trace.parquet", "--json")
    assert list(json.loads(by_spec.stdout)["on"]) == ["PAPI_TOT_INS"], "as `align_on` of the spec has it"
    (alone := tmp_path / "alone").mkdir()
    shutil.copy(second / "trace.parquet", alone)
    elsewhere = unperturbed(finished.folder, "align", first, alone / "trace.parquet", "--json")
    assert list(json.loads(elsewhere.stdout)["on"]) != ["PAPI_TOT_INS"], "the two are not of one campaign's folder"
    arguments = ("align", first, second / "trace.parquet", "--on", "PAPI_TOT_INS", "--region", "5:20")
    shown = unperturbed(finished.folder, *arguments, "--anchor", "rounds", "--anchors", "8", "--html", page)
    assert shown.returncode == 0, shown.stderr
    # As many as the library finds: 8, or fewer where two places for an anchor are nearest to the same milestone.
    traces = [Trace.read(run / "trace.parquet") for run in (first, second)]
    expected = len(align(*traces, on=["PAPI_TOT_INS"], anchor="rounds", budget=8).anchors)
    assert 5 <= expected <= 8
    assert f"{expected} milestones of rounds" in shown.stdout
    assert "steps" in shown.stdout
    assert "intervals 5:20 of the first run correspond to intervals" in shown.stdout
    assert "by the milestones, the start is between" in shown.stdout
    text = page.read_text()
    assert "alignment-signals" in text
    assert "alignment-scores" in text
    # The anchor bounds regions too, where it is the only counter that both runs have.
    anchors = [
        finished.campaign / "runs" / trace.attributes["run"]
        for trace in finished.traces()
        if "steps" not in trace.metrics and "rounds" in trace.metrics
    ]
    bounded = unperturbed(finished.folder, "align", *anchors[:2], "--anchor", "rounds", "--region", "5:20")
    assert "by the milestones, the start is between" in bounded.stdout, bounded.stderr
    found = json.loads(unperturbed(finished.folder, *arguments, "--json").stdout)
    a, b = Trace.read(first / "trace.parquet"), Trace.read(second / "trace.parquet")
    assert (found["x_index"][-1], found["y_index"][-1]) == (len(a) - 1, len(b) - 1)
    assert set(found["scores"]) == {"rounds", "steps"}
    assert found["region"]["start"] < found["region"]["stop"]
    paper = json.loads(unperturbed(finished.folder, *arguments, "--method", "paper", "--json").stdout)
    assert (paper["penalty"], paper["pace"], paper["evened"]) == (0.0, "time", False)
    if not chromium_missing():
        with open_report(page) as opened:
            opened.wait_drawn()
            assert opened.console() == []


@pytest.mark.long
def test_a_kernel_that_is_compiled_for_the_first_time_says_so(finished: Finished, tmp_path: Path) -> None:
    run = finished.campaign / "runs" / "0001"
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    first, again = (
        unperturbed(finished.folder, "align", run, run, "--on", "PAPI_TOT_INS", environment=cache) for _ in "12"
    )
    assert first.returncode == again.returncode == 0, first.stderr
    assert "compiling the loops of the alignment analysis, at first use only" in first.stderr
    assert again.stderr == ""
    assert first.stdout == again.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--region", "5-20"), "--region 5-20: give START:STOP as interval numbers, such as 120:480"),
        (("--anchors", "3"), "--anchors needs --anchor: give --anchor COUNTER too"),
        (("--anchor", "rounds", "--anchors", "-3"), "--anchors -3: give a whole number, 0 or more"),
        (("--penalty", "-1"), "--penalty -1: give a finite number, 0 or more"),
        (("--penalty", "nan"), "--penalty nan: give a finite number, 0 or more"),
        (("--html", "missing/x.html"), "does not exist"),
        (("--method", "paper", "--penalty", "1"), "--penalty cannot be used with --method paper"),
        (("--on", "NOTHING"), "the trace has no metric 'NOTHING'"),
    ],
)
def test_align_refuses_in_one_sentence(finished: Finished, arguments: tuple[str, ...], said: str) -> None:
    run = finished.campaign / "runs" / "0001"
    done = unperturbed(finished.folder, "align", run, run, *arguments)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_lost_damaged_and_foreign_traces_are_named_left_out_and_measured_again(
    finished: Finished, tmp_path: Path
) -> None:
    campaign = tmp_path / "copy[1]"
    shutil.copytree(finished.campaign, campaign)
    runs = sorted(path.parent.name for path in campaign.glob("runs/00*/trace.parquet"))[-4:]
    lost, cut, changed, foreign = (campaign / "runs" / run / "trace.parquet" for run in runs)
    lost.unlink()
    cut.write_bytes(cut.read_bytes()[:200])
    content = bytearray(changed.read_bytes())
    content[40:44] = b"\0\1\2\3"
    changed.write_bytes(content)
    other = next(path for path in campaign.glob("runs/0001/trace.parquet"))
    shutil.copy(other, foreign)

    refused = unperturbed(finished.folder, "check", campaign, "--no-write")
    assert refused.returncode == 2
    for file, why in (
        (lost, "is missing"),
        (cut, "not a readable"),
        (changed, ""),
        (foreign, "is the trace of run 0001"),
    ):
        assert any(str(file) in line and why in line for line in refused.stderr.splitlines()), refused.stderr
    assert "repeat `unperturbed run` to make these runs again" in refused.stderr
    without = [word for run in runs for word in ("--without", run)]
    assert unperturbed(finished.folder, "check", campaign, "--no-write", *without).returncode in (0, 4)

    kept = {path: path.stat().st_mtime_ns for path in campaign.glob("runs/00*/trace.parquet")}
    again = unperturbed(finished.folder, "run", finished.spec, "--campaign", campaign)
    assert again.returncode in (0, 4), again.stderr
    assert f"the traces of 2 runs are lost; measuring these runs again: {runs[0]} and {runs[1]}" in again.stderr
    changed_files = {path for path, written in kept.items() if path.stat().st_mtime_ns != written}
    assert changed_files == {cut, changed, foreign} & set(kept)
    assert len(done_runs(campaign)) == RUNS
    assert Trace.read(foreign).attributes["run"] == foreign.parent.name


def test_a_campaign_that_cannot_be_written_to_still_has_its_verdict(finished: Finished, tmp_path: Path) -> None:
    campaign = tmp_path / "copy"
    shutil.copytree(finished.campaign, campaign)
    expected = unperturbed(finished.folder, "check", campaign)
    verdict = (expected.returncode, expected.stdout.partition("report:")[0])
    for command, said, outcome in (
        ("check", "cannot write report.html and verdicts.json: ", verdict),
        ("report", "cannot write the report: ", (3, "")),
    ):
        line = f"ulimit -f 1; {sys.executable} -m unperturbed.harness.cli {command} {campaign}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert f"{said}{campaign}: File too large" in done.stderr
        assert (done.returncode, done.stdout) == outcome
    assert not list(campaign.glob(".*"))


def test_a_manifest_that_another_process_writes_to_is_said(finished: Finished, tmp_path: Path) -> None:
    campaign = tmp_path / "copy"
    shutil.copytree(finished.campaign, campaign)
    other = sqlite3.connect(campaign / "campaign.sqlite", isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        done = unperturbed(finished.folder, "check", campaign)
    finally:
        other.close()
    assert done.returncode == 2
    assert "another process is writing to this campaign's manifest; try again" in done.stderr
