"""Metrics of perf's tables in a spec: asked of a perf that lists a few, and recorded so that no other perf is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from unperturbed.collectors.sources.perf.tables import read_tables
from unperturbed.errors import SpecError
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import parse_spec

SPEC = """\
name: asking
program:
  run: sh -c true
measure:
  interval: 10 ms
  hardware: [perf::instructions]
  derived:
    ipc: perf-metric:ipc
    faults: "perf-metric: faults_per_switch"
    own: "'perf::instructions' * 2"
"""
LISTED = [
    {"MetricName": "ipc", "MetricExpr": "instructions / cycles", "MetricGroup": "Own"},
    {"MetricName": "faults_per_switch", "MetricExpr": r"d_ratio(page\-faults, context\-switches)"},
    {"MetricName": "seconds", "MetricExpr": "duration_time / 1e9"},
]


@pytest.fixture
def perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put a program named perf first that lists these metrics in perf's own layout, and prints nothing when removed."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/perf"
    (tmp_path / "listed.json").write_text(json.dumps(LISTED))
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo perf version 7 || cat {tmp_path / "listed.json"}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    read_tables.cache_clear()
    yield program
    read_tables.cache_clear()


def without_perf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    read_tables.cache_clear()


def same(spec: CampaignSpec, other: CampaignSpec) -> bool:
    return (spec.digest, spec.measure, dict(spec.perf_metrics)) == (
        other.digest,
        other.measure,
        dict(other.perf_metrics),
    )


@pytest.mark.usefixtures("perf")
def test_formulas_are_put_in_and_events_are_counted(tmp_path: Path) -> None:
    measure = parse_spec(SPEC, "s.yaml", tmp_path).measure
    assert measure.derived["ipc"].text == "'perf::instructions' / 'perf::cycles'"
    assert measure.derived["faults"].names == ("perf::page-faults", "perf::context-switches")
    assert measure.hardware == (
        "perf::instructions",
        "perf::cycles",
        "perf::page-faults",
        "perf::context-switches",
    )


@pytest.mark.usefixtures("perf")
@pytest.mark.parametrize("layout", ["block", "flow", "json", "ended", "begun"])
def test_what_is_recorded_means_the_same_where_there_is_no_perf(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = yaml.safe_load(SPEC)
    text = {
        "block": SPEC,
        "flow": yaml.safe_dump(data, default_flow_style=True),
        "json": json.dumps(data),
        "ended": f"---\n{SPEC}...\n",
        "begun": SPEC + "perf_metrics: {ipc: \"'perf::instructions' / 3\"}\n",
    }[layout]
    asked = parse_spec(text, "s.yaml", tmp_path)
    if layout == "block":
        assert asked.text.startswith(SPEC), "positions in it stay what they are"
    without_perf(monkeypatch, tmp_path)
    recorded = parse_spec(asked.text, "s.yaml", tmp_path, recorded=True)
    assert same(asked, recorded)
    assert recorded.text == asked.text
    with pytest.raises(SpecError, match="perf is not installed"):
        parse_spec(text, "s.yaml", tmp_path)


def test_a_formula_that_the_spec_has_is_taken_and_perf_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_perf(monkeypatch, tmp_path)
    given = {"ipc": "'perf::instructions' / 4", "faults_per_switch": "max('perf::page-faults', 1)"}
    spec = parse_spec(f"{SPEC}perf_metrics: {json.dumps(given)}\n", "s.yaml", tmp_path)
    assert spec.measure.derived["ipc"].text == given["ipc"]
    assert spec.measure.hardware == ("perf::instructions", "perf::page-faults")


@pytest.mark.usefixtures("perf")
def test_another_formula_is_another_campaign(tmp_path: Path) -> None:
    before = parse_spec(SPEC, "s.yaml", tmp_path)
    (tmp_path / "listed.json").write_text(json.dumps([{**LISTED[0], "MetricExpr": "cycles"}, *LISTED[1:]]))
    read_tables.cache_clear()
    assert parse_spec(SPEC, "s.yaml", tmp_path).digest != before.digest


@pytest.mark.usefixtures("perf")
@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("ipcc", "perf 7 has no metric ipcc for this processor; did you mean ipc?"),
        (
            "seconds",
            "perf's metric seconds cannot be measured here: its formula needs duration_time, ",
        ),
    ],
)
def test_what_cannot_be_measured_is_one_fault_at_its_place(metric: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(SPEC.replace("perf-metric:ipc", f"perf-metric:{metric}"), "s.yaml", tmp_path)
    assert str(caught.value).startswith(f"s.yaml:8:10: {why}")
    assert "\n" not in str(caught.value)


def test_a_metric_of_perfs_tables_is_no_hardware_metric(tmp_path: Path) -> None:
    text = SPEC.partition("  derived:")[0].replace("[perf::instructions]", "[perf::instructions, perf-metric:ipc]")
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "s.yaml", tmp_path)
    assert str(caught.value) == (
        "s.yaml:6:34: unknown metric `perf-metric:ipc`; list a metric from perf's tables under `derived`, as in "
        "`mine: perf-metric:ipc`"
    )
