"""What the installed perf lists: its two layouts, and real tables of other processors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.collectors.perf_metrics.listings import ALDER_LAKE, DETAILS_OF_6_1, SAPPHIRE_RAPIDS
from unperturbed.collectors.sources.perf.formula import parse_formula
from unperturbed.collectors.sources.perf.tables import (
    PerfMetric,
    PerfTables,
    TableEvent,
    parse_json,
    parse_text,
    read_tables,
)

read_again = read_tables.__wrapped__


def test_json_has_a_metric_once_with_all_its_groups() -> None:
    tables = parse_json(SAPPHIRE_RAPIDS)
    (retiring,) = tables.named("tma_retiring")
    assert retiring.groups == ("TopdownL1", "Default")
    assert (retiring.meaning, retiring.pmu, retiring.scale_unit) == ("own words on tma_retiring", "", "100%")
    assert tables.named("TMA_Retiring") == (retiring,)
    assert tables.named("tma_info_inst_mix_bptkbranch")[0].groups == ("Branches", "Fed")
    taken = TableEvent("br_inst_retired.near_taken", "cpu", ("event=0xc4", "umask=0x20"))
    assert tables.events["br_inst_retired.near_taken"] == (taken,)


def test_a_hybrid_processor_has_metrics_of_each_kind_of_core() -> None:
    tables = parse_json(ALDER_LAKE)
    assert [metric.asked for metric in tables.named("tma_frontend_bound")] == [
        "cpu_core/tma_frontend_bound/",
        "cpu_atom/tma_frontend_bound/",
    ]
    assert [event.pmu for event in tables.events["inst_retired.any"]] == ["cpu_core", "cpu_atom"]


def test_the_text_of_older_versions_says_the_same() -> None:
    tables = parse_text(DETAILS_OF_6_1)
    assert tables.metrics == (
        PerfMetric(
            "BpTkBranch",
            "INST_RETIRED.ANY / BR_INST_RETIRED.NEAR_TAKEN",
            ("Branches", "Fed"),
            "Own words on branches",
            "cpu_core",
        ),
        PerfMetric("UpTB", "(tma_retiring * SLOTS) / BR_INST_RETIRED.NEAR_TAKEN", ("Branches",), "Own words"),
    )
    assert set(tables.events) == {"br_inst_retired.near_taken", "inst_retired.any"}
    assert tables.events["br_inst_retired.near_taken"][0].terms == ("event=0xc4", "umask=0x20")


@pytest.mark.parametrize("text", ["", "[", "[1, null]", "{}", '[{"MetricName": 3}]', "\0"])
def test_damaged_output_gives_nothing(text: str) -> None:
    assert parse_json(text) == parse_text(text) == PerfTables()


def test_without_perf_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install linux-perf" in read_again().problem


def test_a_perf_that_lists_nothing_is_named_with_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    perf = tmp_path / "perf"
    perf.write_text('#!/bin/sh\n[ "$1" = --version ] && echo perf version 4.9 || exit 1\n')
    perf.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    problem = "perf 4.9 has no metrics for this processor; a newer version may have some"
    assert read_again() == PerfTables("4.9", problem)


@pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf")
@pytest.mark.parametrize("processor", ["GenuineIntel-6-97-2", "GenuineIntel-6-8F-8", "AuthenticAMD-25-1-1"])
def test_every_formula_of_this_perfs_tables_is_read(processor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alder Lake, Sapphire Rapids and Zen 3, whatever processor this is."""
    monkeypatch.setenv("PERF_CPUID", processor)
    tables = read_again()
    if tables.problem:
        pytest.skip(tables.problem)
    assert len(tables.metrics) > 10
    for metric in tables.metrics:
        assert parse_formula(metric.formula), metric.name
        assert metric.groups, metric.name
