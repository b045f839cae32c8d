"""What `unperturbed compare -- A -- TOOL A` measures, with gdb and `perf record` attached, on a machine that counts.

The machine holds no Python: it runs the commands that a campaign runs, the harness's own words and preloaded sampler,
and the verdicts are given here.
"""

from __future__ import annotations

import shlex
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pmu.cases import COMPILER, Case, Result, build_program, no_servers, run_cases
from tests.pmu.machine import Machine
from tests.pmu.packages import fetch_tools
from unperturbed.analysis.perturbation import Baseline, combine_checks
from unperturbed.analysis.totals import check_totals
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.records.assemble import assemble
from unperturbed.collectors.records.file import Setup
from unperturbed.collectors.runtime import build_preload
from unperturbed.collectors.sources import Event, Pass
from unperturbed.harness.drafts.command import Choices, describe_comparison
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import parse_spec

RUNS = 5
ROUNDS = 30
EVENTS = (Event("cycles", 0, 0), Event("instructions", 0, 1))
METRICS = tuple(Metric(name, "hardware") for name in ("PAPI_TOT_CYC", "PAPI_TOT_INS"))
PROGRAM = f"/bin/rounds {ROUNDS}"
SIGNALS = {"gdb": int(signal.SIGURG), "perf": None}
"""At the sampler's usual signal gdb stops the program."""
TOOLS = {
    "gdb": f"gdb -batch -ex run --args {PROGRAM}",
    "perf": f"perf record -o /dev/null {PROGRAM}",
}


def _spec(tool: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> CampaignSpec:
    """Return the spec that `compare` writes of the program and of a tool that starts it."""
    for name in ("rounds", "gdb", "perf"):
        shutil.copy("/bin/true", folder / name)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    own = f"{folder}/rounds {ROUNDS}"
    command = TOOLS[tool].replace(PROGRAM, own)
    made = describe_comparison(
        shlex.split(own), shlex.split(command), Choices(hardware=("PAPI_TOT_CYC",), source="perf_event")
    )
    return parse_spec(made.text("x"), "x.yaml", folder)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_spec_samples_the_program_and_starts_the_tool(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _spec(tool, tmp_path, monkeypatch)
    assert spec.programs["B"].sampled == "rounds"
    assert spec.measure.signal == SIGNALS[tool]
    assert spec.programs["B"].run.replace(str(tmp_path), "/bin") == TOOLS[tool].replace(tool, f"/bin/{tool}", 1)


@pytest.fixture(scope="module")
def runs(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Return the runs of each set-up, in turn: `plain-0`, `gdb-0`, `perf-0`, `plain-1`, …"""
    setup = Setup("perf_event", 2_000_000, "monotonic", EVENTS, program="rounds", capacity=4096)
    setups = {name: replace(setup, signal=SIGNALS.get(name) or setup.signal) for name in ("plain", *TOOLS)}
    cases = {
        f"{name}-{run}": Case(f"LD_PRELOAD=/preload.so {TOOLS.get(name, PROGRAM)}", setups[name])
        for run in range(RUNS)
        for name in setups
    }
    folder = tmp_path_factory.mktemp("compare")
    programs = {
        "rounds": build_program(folder, "rounds.c", runtime=False),
        "/preload.so": build_preload(COMPILER),
        "/lib/aarch64-linux-gnu/libdebuginfod.so.1": no_servers(folder),
        **fetch_tools(),
    }
    return run_cases(machine, programs, cases, folder / "records", timeout_s=400)


def _traces(runs: dict[str, Result], name: str) -> list[Trace]:
    found = []
    for run in range(RUNS):
        result = runs[f"{name}-{run}"]
        assert (result.status, result.sampled.state, result.sampled.message) == (0, "finished", ""), (
            result.stdout + result.stderr
        )
        collected = Pass("main", "perf_event", METRICS, EVENTS)
        made = assemble(
            result.sampled,
            collected,
            software=(),
            os_metrics=(),
            derived={},
            dumps=Path("none"),
            attributes={"run": f"{name}-{run}"},
        )
        found.append(made)
    return found


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_that_is_attached_is_held_against_the_program_alone(runs: dict[str, Result], tool: str) -> None:
    plain, attached = _traces(runs, "plain"), _traces(runs, tool)
    (printed,) = {runs[f"plain-{run}"].stdout for run in range(RUNS)}
    for run in range(RUNS):  # the tool was there, and what it started did its work
        left = runs[f"{tool}-{run}"]
        assert printed in left.stdout
        assert ("exited normally" in left.stdout) if tool == "gdb" else ("perf record: Captured" in left.stderr)
    # What is counted is the program, not the tool that starts it.
    for change in check_totals(plain, attached, [metric.name for metric in METRICS], alpha=0.05):
        assert abs(change.change) < 0.001, change
    baseline = Baseline(plain)
    verdict = combine_checks(
        tool, baseline.inner(attached), baseline.outer(attached, align_on=[metric.name for metric in METRICS])
    )
    # It moves where intervals are cut, and no more: a shift of about the tolerance is not one beyond it.
    assert verdict.verdict != "perturbed", verdict
