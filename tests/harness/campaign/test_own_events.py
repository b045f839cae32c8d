"""Campaigns whose intervals end at events of a software metric, in programs too short for intervals of work."""

from __future__ import annotations

import html
from pathlib import Path

import numpy as np
import pytest

from tests.harness.campaign.test_sampling_campaign import traces
from tests.harness.phases_campaign import unperturbed, verdicts
from unperturbed.collectors.data import Trace
from unperturbed.harness.campaign.plan import Configuration, configurations, counted_in
from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.spec.sections.campaign import default_subsets
from unperturbed.harness.studies.partition.software import wanted_metrics

_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
static unsigned seed = 1;
static unsigned draw(void) { return (seed = seed * 1103515245u + 12345u) >> 8; }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static long block(int n)
{
    int *v = malloc((size_t)n * sizeof *v);
    long sum = 0;
    for (int i = 0; i < n; i++)
        v[i] = (int)(draw() % 1000);
    qsort(v, (size_t)n, sizeof *v, compare);
    for (int i = 0; i < n; i++)
        sum += (long)v[i] * i;
    free(v);
    return sum;
}
int main(void)
{
    long sum = 0;
    for (int i = 0; i < 405; i++)
        sum += block(20 + i * 37 % 90 + (i / 100 % 2) * 60);
    printf("%ld\\n", sum);
    return 0;
}
"""
_SPEC = """
name: own
program:
  source: .
  build: "{cc} -O2 -o {build}/program program.c"
  run: "{build}/program"
measure:
  interval: {every: 10, of: blocks}
  hardware: [HARDWARE]
  software:
    blocks: {enter: block}
    compares: {enter: compare}
    draws: {enter: draw}
campaign: {baseline_runs: 5, runs: 3, MORE}
"""


def write(folder: Path, more: str = "sham: true", hardware: str = "PAPI_TOT_INS, PAPI_L1_DCM, PAPI_BR_MSP") -> Path:
    (folder / "program.c").write_text(_PROGRAM)
    (folder / "spec.yaml").write_text(_SPEC.replace("MORE", more).replace("HARDWARE", hardware))
    return folder / "spec.yaml"


def blocks_and_instructions(runs: list[Trace]) -> None:
    """Check that all runs are cut at the same events."""
    for trace in runs:
        assert trace["blocks"].tolist() == [10] * 40 + [5]
        facts = trace.attributes
        assert (facts["clock"], facts["interval_metric"], facts["interval_ns"]) == ("program", "blocks", 10)
        assert trace.overview().caption.endswith("each interval ends after 10 events of blocks")


@pytest.mark.parametrize("builds", ["separate", "one"])
def test_every_configuration_is_cut_at_the_same_events(tmp_path: Path, builds: str) -> None:
    spec = write(tmp_path, f"sham: true, builds: {builds}")
    campaign = tmp_path / "campaigns" / "own"
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    sham = "sham-all" if builds == "separate" else "ready"
    assert {row["configuration"] for row in verdicts(campaign)["verdicts"]} == {"all", sham}
    runs = {name: traces(campaign, name) for name in ("baseline", "all", sham)}
    for each in runs.values():
        blocks_and_instructions(each)
    assert set(runs["baseline"][0].names("software")) == {"blocks"} == set(runs[sham][0].names("software"))
    per_interval = np.stack([trace["compares"] for trace in runs["all"]])
    assert (per_interval == per_interval[0]).all()
    # In one round, the same places execute as many instructions in each interval, counting or not: nothing to align.
    idle = {trace.attributes["block"]: trace["PAPI_TOT_INS"][1:] for trace in runs[sham]}
    together = [trace for trace in runs["all"] if trace.attributes["block"] in idle]
    assert together
    for trace in together:
        assert (trace["PAPI_TOT_INS"][1:] == idle[trace.attributes["block"]]).all()
    assert "but blocks, whose events end intervals" in result.stdout
    report = html.unescape((campaign / "report.html").read_text())
    assert "An interval ends after 10 events of blocks. Every configuration counts blocks, the baseline too" in report
    assert "perturbed" not in {row["verdict"] for row in verdicts(campaign)["verdicts"]}


def test_the_plan_says_what_the_baseline_counts(tmp_path: Path) -> None:
    spec = write(tmp_path, "builds: one")
    result = unperturbed(tmp_path, "run", spec, "--dry-run")
    assert result.returncode == 0, result.stderr
    told = " ".join(result.stdout.split())
    assert "build reference: without software metrics build baseline: with blocks build ready: with blocks, com" in told
    assert "An interval ends after 10 events of blocks. Every configuration counts blocks, the baseline too" in told


def test_native_counts_of_the_kernel(tmp_path: Path) -> None:
    spec = write(tmp_path, hardware='"perf::task-clock"')
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    for name in ("baseline", "all"):
        runs = traces(tmp_path / "campaigns" / "own", name)
        blocks_and_instructions(runs)
        assert (np.stack([trace["perf::task-clock"] for trace in runs]) > 0).all()


@pytest.mark.parametrize(("every", "intervals", "times"), [(100, "5 intervals", "6.6"), (1000, "1 interval", "33")])
def test_too_few_intervals_propose_another_number(tmp_path: Path, every: int, intervals: str, times: str) -> None:
    spec = write(tmp_path)
    spec.write_text(spec.read_text().replace("every: 10", f"every: {every}"))
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode == 1, result.stderr
    assert (
        f"the pilot run has {intervals} of {every:,} events of blocks, but a verdict needs at least 30: use "
        "`every: 2`, which would give about 202 intervals (the run has 405 events of blocks), or give the program "
        f"{times} times as much work" in " ".join(result.stderr.split())
    )
    spec.write_text(spec.read_text().replace(f"every: {every}", "every: 2"))
    assert unperturbed(tmp_path, "run", spec).returncode in (0, 4)


def test_a_metric_with_too_few_events_is_to_be_replaced(tmp_path: Path) -> None:
    spec = write(tmp_path)
    spec.write_text(
        spec.read_text().replace("of: blocks", "of: whole").replace("blocks: {enter: block}", "whole: {enter: main}")
    )
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode == 1, result.stderr
    told = "use a metric with more events in the main thread (the run has 1 event of whole), or give"
    assert told in " ".join(result.stderr.split())


def test_another_number_of_events_is_another_campaign(tmp_path: Path) -> None:
    spec = write(tmp_path)
    digests = {load_spec(spec).digest}
    for other in ("every: 11, of: blocks", "every: 10, of: draws"):
        write(tmp_path).write_text(spec.read_text().replace("every: 10, of: blocks", other))
        digests.add(load_spec(spec).digest)
    assert len(digests) == 3


def test_what_ends_intervals_is_in_every_subset_of_a_partition(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path))
    assert wanted_metrics(spec) == ("compares", "draws")
    assert default_subsets(spec) == {"all": ("compares", "draws")}
    for item in (*configurations(spec), candidate_of(("draws",)), candidate_of(("draws", "blocks"))):
        assert counted_in(spec, item)[0] == "blocks"
        assert counted_in(spec, item).count("blocks") == 1
    (tmp_path / "spec.yaml").write_text(spec.text.replace("every: 10, of: blocks", "records: 100"))
    spec = load_spec(tmp_path / "spec.yaml")
    assert [counted_in(spec, item) for item in configurations(spec)][:2] == [(), ("blocks", "compares", "draws")]


def candidate_of(metrics: tuple[str, ...]) -> Configuration:
    return Configuration("candidate", metrics, 1)


def test_the_sites_are_listed_with_their_cost(tmp_path: Path) -> None:
    result = unperturbed(tmp_path, "sites", write(tmp_path))
    assert result.returncode == 0, result.stderr
    assert "3 instructions per event, and 4 in a library" in " ".join(result.stdout.split())
