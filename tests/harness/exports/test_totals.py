"""Formats of totals: pyperf's own commands read the one, Prometheus' own parser the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyperf
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.harness.phases_campaign import unperturbed
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError
from unperturbed.harness.exports import export
from unperturbed.harness.exports.content.runs import read_runs


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
