"""Campaigns with hardware metrics that are counted within a function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.harness.campaign.test_own_events import write
from tests.harness.campaign.test_sampling_campaign import traces
from tests.harness.phases_campaign import unperturbed, verdicts, write_spec
from unperturbed.harness.exports import title_of

_METRICS = """    draws: {enter: draw}
    block_ins: {within: block, of: PAPI_TOT_INS}
    block_mis: {within: block, of: PAPI_L1_DCM}
"""


def with_regions(folder: Path, more: str = "builds: one") -> Path:
    """Write the spec of a program, whose `block` does nearly all its work, with metrics of that function."""
    spec = write(folder, more)
    spec.write_text(spec.read_text().replace("    draws: {enter: draw}\n", _METRICS))
    return spec


@pytest.mark.parametrize("builds", ["one", pytest.param("separate", marks=pytest.mark.long)])
def test_a_subset_counts_within_a_function_and_is_judged(tmp_path: Path, builds: str) -> None:
    spec = with_regions(
        tmp_path,
        f"builds: {builds}, subsets: {{within: [block_ins], two: [block_ins, block_mis], rest: [compares, draws]}}",
    )
    campaign = tmp_path / "campaigns" / "own"
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    assert {"within", "two"} <= {row["configuration"] for row in verdicts(campaign)["verdicts"]}
    (first, *others) = traces(campaign, "within")
    assert "block_ins" not in traces(campaign, "baseline")[0].metrics
    described = first.metrics["block_ins"]
    assert described.kind == "software"
    assert described.meaning == "simulated: PAPI_TOT_INS from the entry of block until it is left"
    assert title_of(described) == "block_ins (simulated)"
    counts, whole = first["block_ins"], first["PAPI_TOT_INS"]
    assert (counts < whole).all() and (counts[:-1] > 0.9 * whole[:-1]).all()
    for trace in others:
        assert np.abs(trace["block_ins"] - counts).max() < 20
    both = traces(campaign, "two")[0]
    # The calls of `block_mis` are 20 instructions within `block_ins`, in place of 6 no-ops in one build.
    more = 10 * (14 if builds == "one" else 20)
    assert (both["block_ins"] - counts)[1:-1].tolist() == [more] * (len(counts) - 2)
    assert (both["block_mis"] <= both["PAPI_L1_DCM"]).all()


def test_the_kernels_counts_within_a_function(tmp_path: Path) -> None:
    clock, faults = "perf::task-clock", "perf::page-faults"
    spec = write(tmp_path, "builds: one", f'"{clock}", "{faults}"')
    metrics = _METRICS.replace("PAPI_TOT_INS", f'"{clock}"').replace("PAPI_L1_DCM", f'"{faults}"')
    spec.write_text(spec.read_text().replace("    draws: {enter: draw}\n", metrics))
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode in (0, 4), result.stderr
    for trace in traces(tmp_path / "campaigns" / "own", "all"):
        assert trace.metrics["block_ins"].unit == "ns"
        assert (trace["block_ins"] > 0).all()
        assert (trace["block_ins"] <= trace[clock]).all()
        assert (trace["block_mis"] <= trace[faults]).all()


def test_several_threads_are_refused_by_the_simulator(tmp_path: Path) -> None:
    spec = with_regions(tmp_path)
    text = (tmp_path / "program.c").read_text()
    starts = "pthread_t other;\n    pthread_create(&other, 0, nothing, 0);\n    pthread_join(other, 0);"
    text = text.replace(
        "int main(void)\n{", f"static void *nothing(void *x) {{ return x; }}\nint main(void)\n{{ {starts}"
    )
    (tmp_path / "program.c").write_text("#include <pthread.h>\n" + text)
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode == 1, result.stderr
    told = " ".join(result.stderr.split())
    assert "the program started threads, and the simulator cannot separate what others count" in told


def test_a_run_that_fails_each_time_is_made_once(tmp_path: Path) -> None:
    spec = with_regions(tmp_path, "builds: one, retries: 3, subsets: {within: [block_ins, block_mis, compares, draws]}")
    text = (tmp_path / "program.c").read_text()
    text = text.replace(
        "static unsigned seed", "#include <setjmp.h>\nstatic jmp_buf place;\nstatic long last;\nstatic unsigned seed"
    )
    text = text.replace("static long block", "__attribute__((noinline)) static void block")
    text = text.replace("    return sum;\n}\nint main", "    last = sum;\n    longjmp(place, 1);\n}\nint main")
    text = text.replace(
        "long sum = 0;\n    for (int i = 0; i < 405", "volatile long sum = 0;\n    for (volatile int i = 0; i < 405"
    )
    text = text.replace(
        "sum += block(20 + i * 37 % 90 + (i / 100 % 2) * 60);",
        "{ if (!setjmp(place)) block(20 + i * 37 % 90); sum += last; }",
    )
    (tmp_path / "program.c").write_text(text)
    result = unperturbed(tmp_path, "run", spec)
    assert result.returncode == 1, result.stderr
    assert "(within, main) have no result after 1 attempt: " in " ".join(result.stderr.split())


_OFTEN = """
#include <stdio.h>
static volatile long sum;
__attribute__((noinline)) static void small(long i) { sum += i; }
int main(void) { for (long i = 0; i < 3000000; i++) small(i); printf("%ld\\n", sum); return 0; }
"""


@pytest.mark.long
def test_too_many_calls_are_named_where_the_simulator_takes_too_long(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(_OFTEN)
    (tmp_path / "often.yaml").write_text(
        "name: often\n"
        'program: {source: ., build: "{cc} -O1 main.c -o often", run: "{build}/often", timeout: 15 s}\n'
        "measure:\n  source: simulated\n  hardware: [PAPI_TOT_INS]\n"
        "  software: {w: {within: small, of: PAPI_TOT_INS}}\n"
        "campaign: {baseline_runs: 5, runs: 3, retries: 0}\n"
    )
    result = unperturbed(tmp_path, "run", "often.yaml")
    assert "calls of a function that a metric counts `within`: the simulator stops at each" in result.stderr
    assert not list(tmp_path.glob("campaigns/often/runs/*/dumps*"))


def test_the_sites_say_what_a_call_costs(tmp_path: Path) -> None:
    result = unperturbed(tmp_path, "sites", with_regions(tmp_path))
    assert result.returncode == 0, result.stderr
    told = " ".join(result.stdout.split())
    assert "20 instructions per call, and a reading of the counters at its entry and at its end" in told


def test_a_tick_may_come_in_the_functions_own_part_of_the_stack(tmp_path: Path) -> None:
    within = {"walked": {"within": "walk", "of": "PAPI_TOT_INS"}}
    alone = {"measure__software": within, "campaign__subsets": {"walked": ["walked"]}, "analysis__anchor": None}
    result = unperturbed(tmp_path, "run", write_spec(tmp_path, **alone), "--no-check")
    assert result.returncode == 0, result.stderr
    for trace in traces(tmp_path / "campaigns" / "phases", "walked"):
        assert 0 < trace["walked"].sum() < trace["PAPI_TOT_INS"].sum()
        assert (trace["walked"] <= trace["PAPI_TOT_INS"]).all()
