"""`unperturbed metrics`, on this host."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from unperturbed.collectors.sources import source_names
from unperturbed.collectors.sources.callgrind import FORMULAS
from unperturbed.collectors.sources.catalogue import PRESETS
from unperturbed.harness.cli import main
from unperturbed.harness.spec.load import parse_spec

SPEC = """\
name: perf-names
program: {run: /bin/true}
measure:
  interval: 10 ms
  source: perf_event
  hardware: [PAPI_TOT_INS, "%s"]
"""


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["metrics", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def rows(output: str, name: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line.split()[:1] == [name]]


def test_every_source_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["metrics", "--help"])
    assert f"list only metrics of this source: {', '.join(source_names())}" in " ".join(capsys.readouterr().out.split())


def test_every_metric_that_can_be_counted_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(capsys)
    assert code == 0
    (line,) = rows(output, "minor_faults")
    assert " ".join(line) == "minor_faults events os page faults served without reading from disk"
    assert "metrics that fit into one run" in output
    assert all(source in output for source in source_names())


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_simulated_metrics_say_so_in_every_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, output, _ = run(capsys, "--source", "simulated")
    assert f"simulated by callgrind ({len(FORMULAS)})" in output
    (line,) = rows(output, "PAPI_L1_DCM")
    assert line[2:4] == ["simulated", "simulated:"]


def test_what_cannot_be_counted_is_summed_up_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    everything = json.loads(run(capsys, "--json")[1])["metrics"]
    dead = [metric["name"] for metric in everything if not metric["available"]]
    if not dead:
        pytest.skip("this host counts everything")
    _, brief, _ = run(capsys)
    assert "cannot be counted here (--all lists them)" in brief
    assert not rows(brief, dead[0])
    _, full, _ = run(capsys, "--all")
    for name in dead:
        (line,) = rows(full, name)
        assert len(line) > 5, "the reason is there"
    _, asked, _ = run(capsys, dead[0])
    assert rows(asked, dead[0])


def test_json_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(capsys, "--json")
    listing = json.loads(output)
    assert code == 0
    assert [source["name"] for source in listing["sources"]] == list(source_names())
    by_name = {metric["name"]: metric for metric in listing["metrics"]}
    assert set(PRESETS) <= set(by_name)
    assert by_name["perf::cycles"]["aliases"] == ["perf::cpu-cycles"]
    faults = by_name["perf::page-faults"]
    assert {key: faults[key] for key in ("kind", "unit", "meaning")} == {
        "kind": "os",
        "unit": "events",
        "meaning": "page faults",
    }
    for metric in listing["metrics"]:
        ways = metric["sources"]
        assert metric["available"] == any(way["available"] for way in ways)
        assert (metric["source"] is None) != metric["available"]
        assert all(way["available"] or way["problem"] for way in ways)


def test_a_pattern_and_a_source_narrow_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(capsys, "*_faults", "--source", "getrusage", "--json")
    assert code == 0
    assert [metric["name"] for metric in json.loads(output)["metrics"]] == ["minor_faults", "major_faults"]
    _, table, _ = run(capsys, "*_faults")
    assert "metrics that fit into one run" not in table
    assert rows(table, "major_faults")


def test_a_pattern_that_matches_nothing_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, error = run(capsys, "papi_tot_isn")
    assert (code, output) == (2, "")
    assert "no metric matches 'papi_tot_isn'; the nearest names are" in error
    assert "PAPI_TOT_INS" in error
    assert run(capsys, "%%%%%", "--source", "papi")[2] == (
        "unperturbed: no metric of source papi matches '%%%%%'; `unperturbed metrics --all` lists every metric\n"
    )


def test_a_missing_compiler_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(capsys, "--compiler", "no-such-compiler")
    assert code == 3
    assert "there is no C compiler 'no-such-compiler'" in error


@pytest.mark.parametrize(
    "name",
    [
        "perf::L1-dcache-load-misses",
        "perf::r1a8",
        "perf::sched:sched_switch",
        "perf::cycles:u",
        "perf::cpu/event=0x3c,umask=0/",
        "perf::armv8_pmuv3_0/inst_retired/k",
    ],
)
def test_a_spec_takes_perfs_names(name: str, tmp_path: Path) -> None:
    spec = parse_spec(SPEC % name, "spec.yaml", tmp_path)
    assert spec.measure.hardware == ("PAPI_TOT_INS", name)
