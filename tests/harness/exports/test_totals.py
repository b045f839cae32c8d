"""Formats of totals: pyperf's own commands read the one, Prometheus' own parser the other."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import jsonschema
import numpy as np
import pyperf
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.harness.phases_campaign import unperturbed
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError
from unperturbed.harness.exports import export, title_of
from unperturbed.harness.exports.content.runs import read_runs, single_run


@pytest.fixture
def trace() -> Trace:
    metrics = [
        Metric("PAPI_TOT_INS", "simulated", source="callgrind", meaning="instructions"),
        Metric("perf::task-clock", "hardware", unit="ns", scaled=True),
        Metric("perf::task:clock", "os", unit="bytes"),
        Metric("lost", "os"),
        Metric("grown", "os"),
        Metric("resident", "os", semantics="gauge"),
        Metric("IPC", "derived", unit=""),
    ]
    columns = {
        "PAPI_TOT_INS": [2**53 + 1, 2],
        "perf::task-clock": [1.5e9, 0.5e9],
        "perf::task:clock": [4096, 0],
        "lost": [0, 0],
        "grown": [1, -3],
        "resident": [5, 6],
        "IPC": [1.0, 2.0],
    }
    facts = {"configuration": 'a "b" \\', "run": "0007", "campaign": "c", "wall_seconds": 2.5, "host": "h"}
    return Trace.from_columns(metrics, columns, begin_ns=[0, 1], end_ns=[1, 2], attributes=facts)


def python(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False)


def test_pyperf_has_the_totals_and_what_they_are(trace: Trace, tmp_path: Path) -> None:
    export(trace, "trace", tmp_path / "a.json", name="pyperf")
    suite = pyperf.BenchmarkSuite.load(str(tmp_path / "a.json"))
    found = {one.get_name(): (one.get_values(), one.get_unit(), one.get_metadata()) for one in suite}
    assert {name: values for name, (values, _, _) in found.items()} == {
        "wall time": (2.5,),
        "PAPI_TOT_INS": (2**53 + 3,),
        "perf::task-clock": (2.0,),
        "perf::task:clock": (4096,),
    }
    assert [unit for _, unit, _ in found.values()] == ["second", "integer", "second", "byte"]
    assert found["wall time"][2]["unperturbed_simulated"] == "yes"
    assert "simulator" in found["wall time"][2]["description"]
    assert found["PAPI_TOT_INS"][2]["unperturbed_simulated"] == "yes"
    assert found["perf::task-clock"][2]["unperturbed_scaled"] == "yes"
    assert found["perf::task-clock"][2]["unperturbed_run"] == "0007"


def test_pyperf_compares_two_configurations(campaign: Path, tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "export", campaign, "-o", "c.json", "--format", "pyperf", "--split", "configuration")
    assert done.returncode == 0, done.stderr
    compared = python(
        "-m", "pyperf", "compare_to", tmp_path / "c.anchor.json", tmp_path / "c.subset-01.json", "--table"
    )
    assert compared.returncode == 0, compared.stderr
    assert "milestones" in compared.stdout + compared.stderr
    shown = python("-m", "pyperf", "stats", tmp_path / "c.anchor.json")
    assert shown.returncode == 0, shown.stderr
    assert "Number of run with values: 5" in shown.stdout


def test_pyperf_names_configurations_where_there_are_several(campaign: Path, tmp_path: Path) -> None:
    runs = read_runs(campaign)
    export(runs, "campaign", tmp_path / "c.json", name="pyperf")
    suite = pyperf.BenchmarkSuite.load(str(tmp_path / "c.json"))
    values = {one.get_name(): sorted(one.get_values()) for one in suite}
    assert values["baseline: wall time"] == [4.0] * 5
    wanted = sorted(run.totals()["calls_01"] for run in runs if run.configuration == "subset-01")
    assert values["subset-01: calls_01"] == wanted


def test_pyperf_has_no_benchmark_without_values(tmp_path: Path) -> None:
    empty = Trace.from_columns([Metric("lost", "os")], {"lost": [0]}, begin_ns=[0], end_ns=[1])
    with pytest.raises(DataError, match="no run has a wall time"):
        export(empty, "trace", tmp_path / "a.json", name="pyperf")
    assert not list(tmp_path.iterdir())


def test_openmetrics_is_what_prometheus_reads(trace: Trace, tmp_path: Path) -> None:
    export(trace, "trace", tmp_path / "a.om")
    text = (tmp_path / "a.om").read_text()
    assert text.endswith("\n# EOF\n")
    families = {one.name: one for one in text_string_to_metric_families(text)}
    assert {name: (one.type, [sample.value for sample in one.samples]) for name, one in families.items()} == {
        "unperturbed_wall_seconds": ("gauge", [2.5]),
        "unperturbed_PAPI_TOT_INS": ("counter", [2**53 + 3]),
        "unperturbed_perf__task_clock": ("counter", [2e9]),
        "unperturbed_perf__task_clock_2": ("counter", [4096]),
        "unperturbed_lost": ("counter", [0]),
        "unperturbed_grown": ("gauge", [-2]),
    }
    assert f"}} {2**53 + 3}\n" in text
    labels = {"campaign": "c", "configuration": 'a "b" \\', "run": "0007", "kind": "simulated"}
    assert families["unperturbed_PAPI_TOT_INS"].samples[0].labels == labels
    assert families["unperturbed_PAPI_TOT_INS"].documentation == (
        "PAPI_TOT_INS [events], run total (simulated, from callgrind): instructions"
    )


def test_openmetrics_has_every_run_of_a_campaign(campaign: Path, tmp_path: Path) -> None:
    assert unperturbed(tmp_path, "export", campaign, "-o", "c.om").returncode == 0
    found = {
        (sample.labels["run"], family.name): sample.value
        for family in text_string_to_metric_families((tmp_path / "c.om").read_text())
        for sample in family.samples
    }
    for run in read_runs(campaign):
        assert found[run.id, "unperturbed_wall_seconds"] == 4.0
        for name, total in run.totals().items():
            assert found[run.id, f"unperturbed_{name.replace(':', '_')}"] == total
    assert len(found) == 5 * (4 + 5 + 6 + 6)


BENCHER = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {key: {"type": "number"} for key in ("value", "lower_value", "upper_value")},
                    "required": ["value"],
                }
            },
        }
    },
}
"""The schema that Bencher publishes for its format (bencher.dev/bmf.json)."""

GITHUB = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "unit": {"type": "string"},
            "value": {"type": "number"},
            "range": {"type": "string"},
            "extra": {"type": "string"},
        },
        "required": ["name", "unit", "value"],
    },
}
"""What github-action-benchmark's README asks of custom benchmarks."""


def test_trackers_have_one_mean_for_each_configuration_and_metric(campaign: Path, tmp_path: Path) -> None:
    runs = read_runs(campaign)
    for suffix in ("bmf.json", "benchmark.json", "otava.csv"):
        done = unperturbed(tmp_path, "export", campaign, "-o", f"c.{suffix}")
        assert done.returncode == 0, done.stderr
    bencher = json.loads((tmp_path / "c.bmf.json").read_text())
    github = json.loads((tmp_path / "c.benchmark.json").read_text())
    jsonschema.validate(bencher, BENCHER)
    jsonschema.validate(github, GITHUB)
    rows = list(csv.DictReader((tmp_path / "c.otava.csv").read_text().splitlines()))
    assert [row["configuration"] for row in rows] == list(dict.fromkeys(run.configuration for run in runs))
    by_name = {item["name"]: item for item in github}
    for row in rows:
        members = [run for run in runs if run.configuration == row["configuration"]]
        datetime.fromisoformat(row["time"])
        measures = bencher[f"{runs.name}/{row['configuration']}"]
        for name in {name for run in members for name in run.totals()}:
            title = title_of(next(run.trace.metrics[name] for run in members if name in run.totals()))
            values = [run.totals()[name] for run in members if name in run.totals()]
            item = by_name[f"{row['configuration']}: {title}"]
            assert float(row[title]) == item["value"] == measures[title]["value"] == pytest.approx(np.mean(values))
            assert measures[title]["lower_value"] == min(values)
            assert measures[title]["upper_value"] == max(values)
            assert item["extra"].startswith(f"mean of {len(values)} runs")


def test_trackers_mark_simulated_counts_and_leave_out_the_simulators_time(trace: Trace, tmp_path: Path) -> None:
    export(trace, "trace", tmp_path / "a.bmf.json")
    export(trace, "trace", tmp_path / "a.benchmark.json")
    export(trace, "trace", tmp_path / "a.otava.csv")
    (measures,) = json.loads((tmp_path / "a.bmf.json").read_text()).values()
    titles = {"PAPI_TOT_INS (simulated)", "perf::task-clock (scaled)", "perf::task:clock", "lost", "grown"}
    assert measures.keys() == titles
    items = json.loads((tmp_path / "a.benchmark.json").read_text())
    assert {item["unit"] for item in items} == {"events", "ns", "bytes"}
    assert all("range" not in item for item in items), "one run has no range"
    (row,) = csv.DictReader((tmp_path / "a.otava.csv").read_text().splitlines())
    assert row.keys() == {"time", "campaign", "configuration", *titles}
    real = trace[["lost", "perf::task:clock"]]
    export(real, "trace", tmp_path / "b.bmf.json")
    (measures,) = json.loads((tmp_path / "b.bmf.json").read_text()).values()
    assert measures["latency"]["value"] == 2.5e9


def test_a_report_for_a_pipeline_is_written_beside_the_page_or_printed(campaign: Path, tmp_path: Path) -> None:
    for name, file in {"markdown": "report.md", "junit": "report.xml", "json": "report.json"}.items():
        done = unperturbed(tmp_path, "report", campaign, "--format", name)
        assert (done.returncode, done.stdout) == (0, f"{campaign / file}\n"), done.stderr
        printed = unperturbed(tmp_path, "report", campaign, "--format", name, "--out", "-")
        assert printed.stdout == (campaign / file).read_text()
    assert (campaign / "report.md").read_text().startswith(f"## {read_runs(campaign).name}\n")
    assert json.loads((campaign / "report.json").read_text())["campaign"] == read_runs(campaign).name
    refused = unperturbed(tmp_path, "report", campaign, "--format", "junit", "--open")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--format junit has no comparison and no page: leave out --compare and --open" in refused.stderr


@pytest.fixture
def taken_names() -> Trace:
    """Return a run whose metrics have the names of columns, of the wall time, and of one another if they are cut."""
    names = ["wall time", "latency", "time", "campaign", "wall time 2", *(f"{'a' * 64}{at}" for at in "12")]
    facts = {"configuration": "base", "run": "0001", "campaign": "c", "wall_seconds": 2.5}
    values = {name: [at] for at, name in enumerate(names, 1)}
    return Trace.from_columns(
        [Metric(name, "os") for name in names], values, begin_ns=[0], end_ns=[1], attributes=facts
    )


def test_pyperf_has_each_name_once(taken_names: Trace, tmp_path: Path) -> None:
    export(taken_names, "trace", tmp_path / "a.json", name="pyperf")
    suite = pyperf.BenchmarkSuite.load(str(tmp_path / "a.json"))
    values = {one.get_name(): one.get_values() for one in suite}
    assert len(values) == 8
    assert [values[name] for name in ("wall time", "wall time 2", "wall time 2 2")] == [(2.5,), (1,), (5,)]


def test_bencher_has_each_measure_once(taken_names: Trace, tmp_path: Path) -> None:
    export(taken_names, "trace", tmp_path / "a.bmf.json")
    measures = json.loads((tmp_path / "a.bmf.json").read_text())["c/base"]
    values = {name: measure["value"] for name, measure in measures.items()}
    assert len(values) == 8
    assert (values["latency"], values["latency 2"], values["wall time"]) == (2.5e9, 2, 1)
    assert (values["a" * 64], values[f"{'a' * 62} 2"]) == (6, 7)
    assert max(map(len, values)) == 64


def test_github_has_each_name_once(taken_names: Trace, tmp_path: Path) -> None:
    export(taken_names, "trace", tmp_path / "a.benchmark.json")
    items = json.loads((tmp_path / "a.benchmark.json").read_text())
    values = {item["name"]: item["value"] for item in items}
    assert len(values) == len(items) == 8
    assert (values["base: wall time"], values["base: wall time 2"]) == (2.5, 1)


def test_otava_has_each_column_once(taken_names: Trace, tmp_path: Path) -> None:
    export(taken_names, "trace", tmp_path / "a.otava.csv")
    (row,) = csv.DictReader((tmp_path / "a.otava.csv").read_text().splitlines())
    assert len(row) == 11
    assert (row["time"], row["campaign"], row["configuration"], row["wall time"]) == ("", "c", "base", "2.5")
    numbered = ("wall time 2", "time 2", "campaign 2", "wall time 2 2")
    assert [row[name] for name in numbered] == ["1.0", "3.0", "4.0", "5.0"]


def test_trackers_name_a_metric_alike_in_each_configuration(tmp_path: Path) -> None:
    runs = []
    for configuration in ("base", "new"):
        facts = {"configuration": configuration, "run": f"of {configuration}", "campaign": "c", "wall_seconds": 2.5}
        one = Trace.from_columns(
            [Metric("latency", "os")], {"latency": [3]}, begin_ns=[0], end_ns=[1], attributes=facts
        )
        runs.append(single_run(one, "c"))
    export(replace(runs[0], runs=(*runs[0].runs, *runs[1].runs)), "campaign", tmp_path / "a.bmf.json")
    found = json.loads((tmp_path / "a.bmf.json").read_text())
    assert [list(measures) for measures in found.values()] == [["latency", "latency 2"]] * 2
