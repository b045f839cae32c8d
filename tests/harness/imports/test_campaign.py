"""Campaigns of runs that other tools recorded: every command works on them, and says where they come from."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

import unperturbed as up
from tests.harness.phases_campaign import unperturbed
from unperturbed.analysis.perturbation import SEVERITY
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError
from unperturbed.harness.campaign.importing import Group, doubts_on_sides, import_campaign
from unperturbed.harness.campaign.plan import configurations
from unperturbed.harness.cli.terminal import TerminalProgress
from unperturbed.harness.cli.verdicts import show_judgement
from unperturbed.harness.results.judge import judge
from unperturbed.harness.results.recorded import recorded_campaign
from unperturbed.harness.spec.sections.analysis import FailOn

EVENTS = ("cycles", "instructions", "cache-misses", "page-faults")


def write_runs(folder: Path, runs: int, *, spoilt: bool = False, seed: int = 1, intervals: int = 60) -> Path:
    """Write recordings of a program with phases, as perf stat -x, writes them."""
    folder.mkdir()
    chance = np.random.default_rng(seed)
    for run in range(runs):
        lines, at = [f"# started on Mon Nov  3 10:00:{run:02d} 2031", ""], 0.0
        for interval in range(intervals):
            at += 0.02 + 1e-4 * chance.random()
            phase = np.sin(interval / 4) + 0.3 * chance.normal()
            for place, event in enumerate(EVENTS):
                other = chance.normal() if spoilt and place == 2 else phase * (-1) ** place + 0.3 * chance.normal()
                lines.append(f"{at:.9f},{int(1e6 + 2e5 * other)},,{event},20000000,100.00,,")
        (folder / f"run{run}.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    write_runs(folder / "base", 6)
    write_runs(folder / "same", 5, seed=2)
    write_runs(folder / "new", 5, seed=3, spoilt=True)
    write_runs(folder / "few", 3, seed=4, intervals=32)
    words = ("import", "perf-stat", "base/*.csv", "--as", "baseline", "same/*.csv", "--as", "same")
    done = unperturbed(folder, *words, "new", "--as", "new", "-o", "campaign")
    assert (done.returncode, done.stdout) == (0, "campaign\n"), done.stderr
    return folder


def test_its_verdicts_and_what_the_report_says(recorded: Path) -> None:
    done = unperturbed(recorded, "check", "campaign", "--json")
    assert done.returncode == 4, done.stderr
    content = json.loads(done.stdout)
    verdicts = {one["configuration"]: one for one in content["verdicts"]}
    assert verdicts["new"]["verdict"] == "perturbed"
    assert verdicts["same"]["verdict"] != "perturbed"
    compared = {change["first"] for change in verdicts["new"]["changes"]}
    assert compared == set(EVENTS)
    page = (recorded / "campaign" / "report.html").read_text()
    assert "Imported from perf stat -I" in page
    assert "page-faults is reported by the operating system" in page
    assert "do the metrics of these set-ups correlate alike?" in page
    digest = hashlib.sha256((recorded / "base" / "run0.csv").read_bytes()).hexdigest()
    assert digest in page
    assert digest in (recorded / "campaign" / "imported.yaml").read_text()


def test_the_other_commands(recorded: Path) -> None:
    assert "16 of 16" in unperturbed(recorded, "list", ".").stdout
    runs = ("campaign/runs/0001", "campaign/runs/0002")
    aligned = unperturbed(recorded, "align", *runs)
    assert aligned.returncode == 0
    assert " aligned on  instructions (" in aligned.stdout, "what its verdicts are aligned on"
    assert unperturbed(recorded, "structure", runs[0]).returncode in (0, 4)
    assert unperturbed(recorded, "merge", "campaign", "--without", "new", "-o", "merged.parquet").returncode == 0
    assert unperturbed(recorded, "export", "campaign", "-o", "all.csv").returncode == 0
    assert unperturbed(recorded, "import", "csv", "all.csv", "-o", "again").returncode == 0
    first, again = up.load(recorded / "campaign"), up.load(recorded / "again")
    assert again.configurations == first.configurations == ("baseline", "same", "new")
    assert again["new"][0]["cycles"].tolist() == first["new"][0]["cycles"].tolist()
    model = unperturbed(recorded, "model", "campaign", "--json")
    assert model.returncode == 0, model.stderr
    assert "configuration" in model.stdout
    refused = unperturbed(recorded, "run", "campaign/imported.yaml")
    assert refused.returncode == 2
    assert "the record of an import" in refused.stderr


@pytest.mark.parametrize("form", ["csv", "parquet", "perfetto", "paraver"])
def test_round_trips_keep_every_count(recorded: Path, form: str) -> None:
    """What was exported and imported again has the same totals, run by run."""
    suffix = {"perfetto": "pftrace", "paraver": "prv"}.get(form, form)
    exported = unperturbed(recorded, "export", "campaign", "--format", form, "-o", f"round.{suffix}")
    assert exported.returncode == 0, exported.stderr
    mapping = {"tasks": "runs"} if form == "paraver" else {}
    again = up.read_traces(recorded / f"round.{suffix}", form, **mapping)
    campaign = up.load(recorded / "campaign")
    wanted = [[trace[event].sum() for event in EVENTS] for name in campaign for trace in campaign[name]]
    found = [[trace[event].sum() for event in EVENTS] for trace in again]
    assert sorted(map(list, found)) == sorted(wanted)
    assert len(again) == 16


def test_check_in_one_step(recorded: Path) -> None:
    words = ("check", "--from", "perf-stat", "--baseline", "base/*", "--checked", "new/*")
    done = unperturbed(recorded, *words)
    assert done.returncode == 4, done.stderr
    assert "perturbed" in done.stdout
    assert not (recorded / "report.html").exists()
    missing = unperturbed(recorded, *words[:-2])
    assert missing.returncode == 2
    assert "--checked FILES" in missing.stderr


def test_the_library(recorded: Path) -> None:
    baseline = up.Baseline(up.read_perf_stat(str(recorded / "base" / "*.csv")))
    assert baseline.metrics == ("cycles", "instructions", "cache-misses")
    assert baseline.inner(up.read_perf_stat(str(recorded / "new" / "*.csv"))).verdict == "perturbed"
    assert baseline.outer(up.read_perf_stat(str(recorded / "same"))).verdict != "perturbed"


def test_the_right_command_is_named(recorded: Path) -> None:
    for words in (
        *(("check", "base"), ("check", "base/run0.csv"), ("report", "base"), ("align", "base/run0.csv", "x")),
        *(("merge", "base", "-o", "m.parquet"), ("structure", "base/run0.csv"), ("model", "base/run0.csv")),
        ("export", "base/run0.csv", "--format", "perfetto"),
    ):
        done = unperturbed(recorded, *words)
        assert done.returncode == 2
        assert "check --from perf-stat" in done.stderr, done.stderr


def test_one_trace_of_another_tool_in_the_library(recorded: Path) -> None:
    with pytest.raises(DataError, match=r"is perf stat -I output; .*in Python, use `read_traces\('.*run0.csv'\)`"):
        up.read_trace(recorded / "base" / "run0.csv")


def test_what_is_refused(recorded: Path, tmp_path: Path) -> None:
    def refusal(*words: str) -> str:
        done = unperturbed(recorded, *words)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        return done.stderr

    imported = ("import", "perf-stat")
    out = ("-o", str(tmp_path / "c"))
    assert "is not empty: choose a new folder" in refusal(*imported, "base", "--as", "x", "-o", "campaign")
    assert "put --as NAME after each configuration's files" in refusal(*imported, "base", *out)
    twice = refusal(*imported, "base", "--as", "a", "base/run0.csv", "--as", "b", *out)
    assert "base/run0.csv is given more than once: give each file once" in twice
    copied = tmp_path / "copied.csv"
    copied.write_bytes((recorded / "base/run0.csv").read_bytes())
    identical = refusal(*imported, "base", "--as", "a", str(copied), "--as", "b", *out)
    assert f"{copied} and base/run0.csv are identical, byte for byte: import each run only once" in identical
    assert "--as anchor: this name is reserved" in refusal(*imported, "base", "--as", "anchor", *out)
    assert "--as '_a': this name is not valid" in refusal(*imported, "base", "--as", "_a", *out)
    table = tmp_path / "runs.csv"
    table.write_text("time,configuration,b\n1,anchor,2\n2,anchor,3\n")
    told = refusal("import", "csv", str(table), *out)
    assert f"{table}: configuration anchor: this name is reserved; choose another name with --as" in told
    without = ("check", "campaign", "--no-write", "--without", "0099")
    assert "--without 0099: no such finished run; finished runs have numbers from 0001 to 0016" in refusal(*without)
    assert "no such configuration" in refusal(*imported, "base", "--as", "b", "--baseline", "a", *out)
    assert "not all runs have this metric" in refusal(*imported, "base", "--as", "b", "--align-on", "IPC", *out)
    assert "-o CAMPAIGN" in refusal(*imported, "base", "--as", "b")
    assert not (tmp_path / "c").exists()


def test_a_format_that_is_not_named_is_recognised(recorded: Path) -> None:
    (recorded / "noise").write_text("nothing that a tool wrote")

    def answer(*words: str, code: int = 2) -> str:
        done = unperturbed(recorded, "import", *words)
        assert done.returncode == code, done.stdout + done.stderr
        return " ".join(done.stderr.split())

    for number, files in enumerate(("base", "base/*.csv")):
        assert "note: the format is perf-stat" in answer(files, "--as", "baseline", "-o", f"made{number}", code=0)
    assert "unperturbed import perf-stat base" in (recorded / "made0" / "imported.yaml").read_text()
    said = "noise has no format that this tool recognises: write `unperturbed import FORMAT noise --as old` with a "
    assert said in answer("noise", "--as", "old")
    assert "unknown import format 'pref-stat'; did you mean perf-stat" in answer("pref-stat", "--as", "baseline")


def test_a_baseline_of_another_name_and_metrics_of_some_runs(tmp_path: Path) -> None:
    write_runs(tmp_path / "old", 5)
    write_runs(tmp_path / "new", 3, seed=4)
    for path in (tmp_path / "new").iterdir():
        lines = path.read_text().splitlines()
        path.write_text("\n".join(line for line in lines if "cache-misses" not in line) + "\n")
    groups = [Group("new", [str(tmp_path / "new")]), Group("old", [str(tmp_path / "old")])]
    made = import_campaign("perf-stat", groups, tmp_path / "c", baseline="old")
    assert dict(made.configurations) == {"baseline": 5, "new": 3}
    assert made.notes == (
        "old was imported as the baseline.",
        "cache-misses is not compared: the metric is only in 5 of 8 runs.",
    )
    assert up.load(tmp_path / "c").check("new").verdict != "perturbed"


def test_too_few_baseline_runs(tmp_path: Path) -> None:
    write_runs(tmp_path / "base", 3)
    write_runs(tmp_path / "new", 3, seed=4)
    words = ("check", "--from", "perf-stat", "--baseline", "base", "--checked", "new", "--json")
    done = unperturbed(tmp_path, *words)
    assert done.returncode == 0
    (verdict,) = json.loads(done.stdout)["verdicts"]
    assert verdict["verdict"] == "undecided"
    assert "3 of at least 5 runs" in str(verdict)


def test_a_campaign_of_a_baseline_alone_shows_its_correlations(tmp_path: Path) -> None:
    """And its import tells which number each run of a file has, and that a full check needs more of them."""
    rows = ["time,test,reads,writes\n"]
    chance = np.random.default_rng(1)
    for run in range(6):
        reads = chance.integers(1000, 2000, 60)
        writes = reads * 2 + chance.integers(0, 900, 60)
        rows += [f"{at / 10},{run},{reads[at - 1]},{writes[at - 1]}\n" for at in range(1, 61)]
    (tmp_path / "all.csv").write_text("".join(rows))
    (tmp_path / "few.csv").write_text("".join(rows[:241]))
    ending = ("run=test", "--as", "baseline", "-o")
    done = unperturbed(tmp_path, "import", "csv", "all.csv", *ending, "c")
    assert "Runs of all.csv have numbers: 0001 is 0, 0002 is 1, " in done.stderr
    few = unperturbed(tmp_path, "import", "csv", "few.csv", *ending, "few").stderr
    assert "The baseline has 4 runs: from fewer than 5" in few
    shown = unperturbed(tmp_path, "check", "c").stdout
    assert re.search(r"reads – writes\W+0\.[6-9]\d+\W+0\.[6-9]", shown), shown
    page = (tmp_path / "c" / "report.html").read_text()
    assert "smallest ρ of a run" in page
    assert "baseline: 6 runs, 2 metrics: reads and writes" in page


def test_a_run_that_is_too_short_is_named_by_its_file(recorded: Path) -> None:
    write_runs(recorded / "short", 5, intervals=12)
    words = ("--from", "perf-stat", "--baseline", "base/*.csv", "--checked", "short/*.csv")
    done = unperturbed(recorded, "check", *words)
    assert done.returncode == 2
    assert "run0.csv) has 1" in done.stderr
    assert "at least 30 are needed" in done.stderr


@pytest.mark.parametrize(("checked", "possible"), [("few", ("shifted", "undecided")), ("new", ("perturbed",))])
def test_the_exit_code_is_4_from_the_verdict_on_that_is_given(
    recorded: Path, checked: str, possible: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """By the option and by the spec's key; by default for *perturbed* alone."""
    words = ("check", "--from", "perf-stat", "--baseline", "base/*.csv", "--checked", f"{checked}/*.csv")
    done = unperturbed(recorded, *words, "--json")
    found = json.loads(done.stdout)["verdicts"][0]["verdict"]
    assert found in possible
    assert done.returncode == (4 if found == "perturbed" else 0)
    spec = recorded_campaign(recorded / "campaign")
    judgement = judge(recorded / "campaign", spec, write=False)
    verdicts = {verdict.configuration: verdict.verdict for verdict in judgement.verdicts.verdicts}
    for strict in SEVERITY[:3]:
        expected = 4 if SEVERITY.index(found) <= SEVERITY.index(strict) else 0
        assert unperturbed(recorded, *words, "--fail-on", strict).returncode == expected
        stricter = spec.model_copy(
            update={"analysis": spec.analysis.model_copy(update={"fail_on": FailOn(correlations=strict)})}
        )
        by_key = show_judgement(stricter, judgement, None, as_json=True)
        assert by_key == (4 if any(SEVERITY.index(one) <= SEVERITY.index(strict) for one in verdicts.values()) else 0)
    capsys.readouterr()


def test_each_step_of_a_check_is_announced(recorded: Path) -> None:
    steps = []
    folder = recorded / "campaign"
    spec = recorded_campaign(folder)
    judge(folder, spec, write=False, watch=lambda *step: steps.append(step))
    read = [step for step in steps if step[0] == "reading traces"]
    judged = steps[len(read) :]
    assert [step[1:] for step in read] == [(at, len(read)) for at in range(len(list((folder / "runs").iterdir())))]
    names = ["baseline", *(item.name for item in configurations(spec)[1:])]
    assert judged == [(f"judging {name}", at, len(names)) for at, name in enumerate(names)]


def test_steps_that_take_long_are_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    for show, expected in (("lines", "reading: 3 of 9 …\n"), ("none", "")):
        progress = TerminalProgress(show)
        for done, seconds in ((0, 1), (1, 8), (2, 2), (3, 1)):
            clock[0] += seconds
            progress.watch("reading", done, 9)
        progress.end()
        assert capsys.readouterr().err == expected


def test_gauges_of_a_monitor_are_imported_by_a_recipe_of_the_user(tmp_path: Path) -> None:
    """The format is a path; a gauge's mean is compared in place of its total, unless it is 0 in a run."""
    (tmp_path / "power.yaml").write_text(
        "title: a log of power\nrecognise: '^when;watts'\ntime: {columns: when, format: seconds}\n"
        "columns: [{match: watts|idle, is: gauge, unit: W}, {match: ops, is: counts}]\n"
    )
    for side, seed in (("base", 0), ("new", 1)):
        (tmp_path / side).mkdir()
        for run in range(5):
            rows = (f"{at / 10:.1f};{40 + (at * 7 + run + 5 * seed) % 11};{at * at % 97};0\n" for at in range(1, 41))
            (tmp_path / side / f"{run}.csv").write_text("when;watts;ops;idle\n" + "".join(rows))
    words = ("import", "power.yaml", "base", "--as", "baseline", "new", "--as", "new", "-o", "c")
    done = unperturbed(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    trace = up.Trace.read(tmp_path / "c" / "runs" / "0001")
    assert [(name, metric.semantics, metric.unit) for name, metric in trace.metrics.items()] == [
        ("watts", "gauge", "W"),
        ("ops", "counter", "events"),
        ("idle", "gauge", "W"),
    ]
    content = json.loads(unperturbed(tmp_path, "check", "c", "--json").stdout)
    totals = {change["metric"]: change for change in content["totals"]["new"]}
    assert list(totals) == ["watts", "ops", "time_s"]
    assert (totals["watts"]["mean"], totals["ops"]["mean"]) == (True, False)
    assert totals["watts"]["reference"][0] == pytest.approx(trace["watts"].mean())
    assert "mean watts" in (tmp_path / "c" / "report.html").read_text()
    done = unperturbed(tmp_path, "check", "--from", "power.yaml", "--baseline", "base", "--checked", "new")
    assert done.returncode in (0, 1, 4), done.stderr
    (tmp_path / "power.yaml").write_text("title: a log of power\nrecognize: x\n")
    done = unperturbed(tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("power.yaml:2:1: unknown key `recognize`; did you mean recognise?")


def test_tolerances_and_a_warm_up_of_recorded_runs(tmp_path: Path) -> None:
    """They are kept in the record; lengths of intervals weigh a gauge's mean."""
    chance = np.random.default_rng(1)
    for side, factor in (("base", 1.0), ("new", 1.04)):
        (tmp_path / side).mkdir()
        for run in range(5):
            load = np.where(np.arange(200) < 30, 5.0, 1.0) + 0.05 * chance.normal(size=200)
            level = factor * (100 + chance.normal(size=200))
            times = np.cumsum(np.where(np.arange(200) % 2, 0.1, 0.3))
            rows = (f"{at:.1f},{1000 * x:.0f},{y:.3f}\n" for at, x, y in zip(times, load, level, strict=True))
            (tmp_path / side / f"{run}.csv").write_text("time,work,level\n" + "".join(rows))
    words = ("import", "csv", "gauges=level", "base", "--as", "baseline", "new", "--as", "new")
    done = unperturbed(tmp_path, *words, "-o", "strict")
    assert "The files do not show when each run took place." in done.stderr
    done = unperturbed(
        tmp_path,
        *words,
        "-o",
        "c",
        "--tolerance=2 %",
        "--tolerance",
        "level=6 %",
        "--tolerance",
        "0.3",
        "--after=steady",
    )
    assert done.returncode == 0, done.stderr
    spec = recorded_campaign(tmp_path / "c")
    assert spec.analysis.tolerance == 0.3
    assert dict(spec.analysis.totals) == {"default": 0.02, "time": 0.02, "level": 0.06}
    assert spec.measure.after == "steady"
    verdicts = {}
    for name in ("strict", "c"):
        done = unperturbed(tmp_path, "check", name, "--json")
        content = json.loads(done.stdout)
        verdicts[name] = {change["metric"]: change for change in content["totals"]["new"]}["level"]
    assert (verdicts["strict"]["verdict"], verdicts["c"]["verdict"]) == ("perturbed", "unperturbed")
    assert verdicts["c"]["change"] == pytest.approx(0.04, abs=0.005)
    shown = unperturbed(tmp_path, "check", "c").stdout
    assert "are left out of correlations as warm-up" in shown
    assert (
        "`unperturbed import` with `--after steady` leaves the start out"
        in unperturbed(tmp_path, "check", "strict").stdout
    )


def test_sides_recorded_one_after_the_other_are_noted(tmp_path: Path) -> None:
    write_runs(tmp_path / "old", 5)
    for path in write_runs(tmp_path / "new", 5, seed=4).iterdir():
        path.write_text(path.read_text().replace("10:00:", "11:00:"))
    groups = [Group("baseline", [str(tmp_path / "old")]), Group("new", [str(tmp_path / "new")])]
    done = unperturbed(tmp_path, "import", "old", "--as", "old", "--basline", "old", "-ox")
    assert "unknown option --basline; did you mean --baseline?" in done.stderr
    (note,) = import_campaign("perf-stat", groups, tmp_path / "c").notes
    assert note.startswith("The sides were recorded one after the other (the baseline from 2031-11-03 10:00:00 to 2031")


@pytest.mark.parametrize(("begin", "overlap"), [("10:00:30", True), ("10:00:34", False), ("10:01:00", False)])
def test_sides_that_were_recorded_at_the_same_time_overlap(begin: str, *, overlap: bool) -> None:
    first, second = (
        Trace.from_columns(
            [Metric("a", "os")],
            {"a": [1, 2]},
            begin_ns=[0, 17_000_000_000],
            end_ns=[17_000_000_000, 34_000_000_000],
            attributes={"started": f"2031-11-03T{time}"},
        )
        for time in ("10:00:00", begin)
    )
    (note,) = doubts_on_sides([first], [second], "new")
    assert note.startswith("The recordings of the sides overlap") is overlap
    assert ("(the baseline from 2031-11-03 10:00:00 to 2031-11-03 10:00:34, new from" in note) is not overlap


def test_dates_of_a_table_order_its_runs(tmp_path: Path) -> None:
    for side, minutes in (("old", range(0, 10, 2)), ("new", range(1, 10, 2))):
        rows = [
            f"2031-11-03 10:{minute:02d}:{at:02d};{minute};{at * at % 17};{at % 5}\n"
            for minute in minutes
            for at in range(40)
        ]
        (tmp_path / f"{side}.csv").write_text("when;run;a;b\n" + "".join(rows))
    groups = [Group("old", [str(tmp_path / "old.csv")]), Group("new", [str(tmp_path / "new.csv")])]
    made = import_campaign("csv", groups, tmp_path / "c", options={"time": "when"})
    assert not any("took place" in note or "one after the other" in note for note in made.notes)
    campaign = up.load(tmp_path / "c")
    assert [trace.attributes["order"] for trace in campaign["baseline"]] == [0, 2, 4, 6, 8]
    assert campaign["new"][0].attributes["started"] == "2031-11-03T10:01:00+00:00"
