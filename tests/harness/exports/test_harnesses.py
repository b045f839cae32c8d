"""Beside asv, ReBench and hyperfine, each of which runs here: the page's files, and what comes back from each."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unperturbed as up
from tests.harness.phases_campaign import unperturbed
from tools.tutorials import ROOT, blocks
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError
from unperturbed.harness.exports import export
from unperturbed.harness.exports.content.runs import read_runs

TWO = ("baseline", "subset-01")
PAGE = {block.title: block.text for block in blocks(ROOT / "docs/how-to/harnesses.md")}


def _trace(**facts: object) -> Trace:
    metrics = [Metric("perf::task-clock", "hardware", unit="ns"), Metric("memory", "os", unit="B")]
    metrics += [Metric(f"a metric with a rather long name, {at}", "os") for at in (1, 2)] + [Metric("grown", "os")]
    columns = {metric.name: [at, at] for at, metric in enumerate(metrics[:-1], 1)} | {"grown": [1, -3]}
    return Trace.from_columns(metrics, columns, begin_ns=[0, 1], end_ns=[1, 2], attributes=facts)


@pytest.fixture
def project(campaign: Path, tmp_path: Path) -> Path:
    """Return a folder with the page's files, on the generated campaign's configurations."""
    for title, text in PAGE.items():
        (tmp_path / title).parent.mkdir(exist_ok=True)
        (tmp_path / title).write_text(text.replace("stored", TWO[1]).replace("PAPI_TOT_INS", _first_metric(campaign)))
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns/search").symlink_to(campaign)
    ours = f"{sys.executable} -m unperturbed.harness.cli"
    script = (tmp_path / "measure.sh").read_text()
    assert "/opt/unperturbed/bin/unperturbed" in script
    (tmp_path / "measure.sh").write_text(script.replace("/opt/unperturbed/bin/unperturbed", ours))
    (tmp_path / "measure.sh").chmod(0o755)
    return tmp_path


def _first_metric(campaign: Path) -> str:
    runs = {name: [run.totals() for run in read_runs(campaign, configurations=[name])] for name in TWO}
    return next(name for name in runs[TWO[0]][0] if all(name in total for each in runs.values() for total in each))


def _run(folder: Path, *words: str | Path) -> str:
    environment = {**os.environ, "HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        list(map(str, words)), cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_asv_tracks_a_campaigns_total(campaign: Path, project: Path) -> None:
    (project / "benchmarks/__init__.py").touch()
    # The campaign is there: what would run it copies it.
    text = (project / "benchmarks/counts.py").read_text()
    command = '"unperturbed", "run", SPEC, "--campaign", "campaign", "--no-check"'
    assert command in text
    copy = f'"cp", "-r", "{campaign}", "campaign"'
    (project / "benchmarks/counts.py").write_text(text.replace(command, copy))
    conf = {"version": 1, "project": "search", "repo": ".", "branches": ["main"], "environment_type": "existing"}
    (project / "asv.conf.json").write_text(json.dumps(conf))
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    _run(project, *git, "init", "-q", "-b", "main")
    _run(project, *git, "add", "asv.conf.json")
    _run(project, *git, "commit", "-q", "-m", "one")
    _run(project, "asv", "machine", "--yes")
    _run(project, "asv", "run", "--python=same", "--set-commit-hash", _run(project, "git", "rev-parse", "HEAD").strip())
    (result,) = (file for file in project.glob("results/*/*.json") if file.name != "machine.json")
    values = {trace.attributes["benchmark"]: trace["value"].sum() for trace in up.read_traces(result, "asv")}
    metric = _first_metric(campaign)
    for name in TWO:
        totals = [run.totals()[metric] for run in read_runs(campaign, configurations=[name])]
        assert values[f"counts.Counts.track_instructions('{name}')"] == pytest.approx(statistics.fmean(totals))


def test_rebench_reads_the_totals_of_each_run(campaign: Path, project: Path) -> None:
    shown = _run(project, "rebench", "--no-denoise", "rebench.conf")
    assert all(name in shown for name in TWO)
    rows = [line.split("\t") for line in (project / "search.data").read_text().splitlines() if line[:1].isdigit()]
    metric = _first_metric(campaign)
    for name in TWO:
        runs = list(read_runs(campaign, configurations=[name]))
        times = [float(row[2]) for row in rows if row[5] == name and row[4] == "total"]
        assert times == pytest.approx([1e3 * (run.time_s or 0) for run in runs])
        totals = [
            float(row[2]) for row in rows if row[5] == name and row[4].split(" (")[0] == metric.replace("::", ".")
        ]
        assert totals == pytest.approx([run.totals()[metric] for run in runs])
    (first, _) = up.read_traces(project / "search.data", "rebench")
    assert metric.replace("::", ".") in {name.split(" (")[0] for name in first.metrics}


def test_hyperfines_file_and_ours_are_read_alike(tmp_path: Path) -> None:
    _run(tmp_path, "hyperfine", "-N", "--runs", "3", "--export-json", "theirs.json", "true", "sleep 0.01")
    theirs = up.read_traces(tmp_path / "theirs.json", "hyperfine")
    for run in theirs[:3]:
        export(run, "trace", tmp_path / f"{run.attributes['run']}.hyperfine.json")
    ours = [up.read_traces(file, "hyperfine")[0] for file in sorted(tmp_path.glob("*.hyperfine.json"))]
    assert sorted(float(run["time_s"].sum()) for run in ours) == sorted(
        float(run["time_s"].sum()) for run in theirs[:3]
    )


def test_a_campaigns_times_are_as_hyperfine_writes_them(campaign: Path, tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "export", campaign, "-o", "c.hyperfine.json")
    assert done.returncode == 0, done.stderr
    _run(tmp_path, "hyperfine", "-N", "--runs", "2", "--export-json", "theirs.json", "true")
    (shape,) = json.loads((tmp_path / "theirs.json").read_text())["results"]
    results = json.loads((tmp_path / "c.hyperfine.json").read_text())["results"]
    runs = read_runs(campaign)
    assert [result["command"] for result in results] == list(dict.fromkeys(run.configuration for run in runs))
    for result in results:
        assert result.keys() | {"memory_usage_byte"} == shape.keys() | {"memory_usage_byte"}
        times = [run.time_s for run in runs if run.configuration == result["command"]]
        assert result["times"] == times
        assert (result["mean"], result["median"]) == (np.mean(times), np.median(times))
        assert result["stddev"] == pytest.approx(np.std(times, ddof=1))


def test_times_are_those_without_the_simulator(tmp_path: Path) -> None:
    simulated = [Metric("PAPI_TOT_INS", "simulated")]
    for facts, wanted in (({"time_s": 0.5}, [0.5]), ({}, None)):
        trace = Trace.from_columns(
            simulated, {"PAPI_TOT_INS": [1]}, begin_ns=[0], end_ns=[1], attributes={"wall_seconds": 30.0, **facts}
        )
        if wanted is None:
            with pytest.raises(DataError, match="has no time, which this format needs"):
                export(trace, "trace", tmp_path / "b.hyperfine.json")
            continue
        export(trace, "trace", tmp_path / "a.hyperfine.json")
        assert json.loads((tmp_path / "a.hyperfine.json").read_text())["results"][0]["times"] == wanted


def test_hyperfines_further_fields_are_those_of_the_runs(tmp_path: Path) -> None:
    facts = {"time_s": 0.5, "cpu_s": 0.4, "system_s": 0.1, "exit_code": 3}
    export(_trace(**facts), "trace", tmp_path / "a.hyperfine.json")
    (result,) = json.loads((tmp_path / "a.hyperfine.json").read_text())["results"]
    assert (result["user"], result["system"], result["exit_codes"]) == (pytest.approx(0.3), 0.1, [3])
    assert "memory_usage_byte" not in result, "a sum over intervals is no peak"


@pytest.mark.parametrize("time", [float("nan"), float("inf"), -1.0, "0.5"])
def test_what_is_no_time_is_refused(time: object, tmp_path: Path) -> None:
    for suffix in ("hyperfine.json", "rebench.log"):
        with pytest.raises(DataError, match="has no time"):
            export(_trace(time_s=time), "trace", tmp_path / f"a.{suffix}")


@pytest.mark.parametrize(
    ("unit", "written"), [("µJ", "uJ"), ("m/s", "mpers"), ("2^-32 J", "units"), ("1", "events"), ("", "events")]
)
def test_rebenchs_units_are_letters(unit: str, written: str, tmp_path: Path) -> None:
    trace = Trace.from_columns(
        [Metric("incorrect Error", "os", unit=unit)],
        {"incorrect Error": [7]},
        begin_ns=[0],
        end_ns=[1],
        attributes={"wall_seconds": 1.0, "configuration": "Error"},
    )
    export(trace, "trace", tmp_path / "a.rebench.log")
    # ReBench takes these words for a failure of the benchmark.
    assert (tmp_path / "a.rebench.log").read_text().splitlines()[0] == f"error: Incorrect error: 7{written}"


def test_totals_do_not_wrap(tmp_path: Path) -> None:
    trace = Trace.from_columns(
        [Metric("events", "os")],
        {"events": [2**62, 2**62 + 5]},
        begin_ns=[0, 1],
        end_ns=[1, 2],
        attributes={"wall_seconds": 1.0},
    )
    export(trace, "trace", tmp_path / "a.rebench.log")
    assert f" events: {2**63 + 5}events" in (tmp_path / "a.rebench.log").read_text()


def test_rebenchs_names_are_short_and_differ(tmp_path: Path) -> None:
    export(_trace(wall_seconds=2.5, configuration="a b"), "trace", tmp_path / "a.rebench.log")
    assert (tmp_path / "a.rebench.log").read_text().splitlines() == [
        "a_b: perf.task-clock: 2ns",
        "a_b: memory: 4B",
        "a_b: a metric with a rather long na: 6events",
        "a_b: a metric with a rather long 2: 8events",
        "a_b: iterations=1 runtime: 2500000.0us",
    ]


def test_hyperfine_has_the_memory_if_the_runs_do(tmp_path: Path) -> None:
    trace = Trace.from_columns(
        [Metric("memory", "os", unit="B")],
        {"memory": [4096.0]},
        begin_ns=[0],
        end_ns=[1],
        attributes={"wall_seconds": 2.5},
    )
    export(trace, "trace", tmp_path / "a.hyperfine.json")
    (result,) = json.loads((tmp_path / "a.hyperfine.json").read_text())["results"]
    assert (result["times"], result["memory_usage_byte"], result["stddev"]) == ([2.5], [4096], None)
