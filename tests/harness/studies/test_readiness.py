"""What the doctor says of specs on this host."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness.phases_campaign import unperturbed, write_spec
from unperturbed.harness.cli.host.doctor import show, to_json
from unperturbed.harness.host.doctor import Examination, examine
from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.studies.readiness import Readiness, check_spec


@pytest.fixture(scope="module")
def host() -> Examination:
    return examine()


def ready(host: Examination, spec: Path) -> tuple[Readiness, dict[str, Any]]:
    checked = check_spec(load_spec(spec), host)
    found: dict[str, Any] = to_json(host, checked)["spec"]
    return checked, found


def test_of_a_spec_with_one_metric_too_many_the_rest_is_planned(
    tmp_path: Path, host: Examination, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = ["PAPI_TOT_INS", "PAPI_L2_TCM", "PAPI_L3_TCM", "PAPI_BR_MSP"]
    checked, found = ready(host, write_spec(tmp_path, measure__hardware=metrics, measure__derived=None))
    assert found["exit_code"] == 3
    assert len(found["problems"]) == 1
    assert found["problems"][0]["what"].startswith("PAPI_L3_TCM cannot be counted on this host")
    assert found["passes"][0]["metrics"] == ["PAPI_TOT_INS", "PAPI_L2_TCM", "PAPI_BR_MSP"]
    show(host, checked)
    assert "✗ cannot run here: 1 reason\n" in capsys.readouterr().out


def test_metrics_that_cannot_meet_are_named_with_what_to_do(
    tmp_path: Path, host: Examination, capsys: pytest.CaptureFixture[str]
) -> None:
    changes: dict[str, Any] = {
        "measure__hardware": ["PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_BR_MSP", "PAPI_L1_DCM", "PAPI_TLB_DM"],
        "measure__simulator": {"counters": 1},
        "analysis__together": [["IPC", "PAPI_L1_DCM"], ["PAPI_BR_MSP", "PAPI_L1_DCM"], ["IPC", "PAPI_TLB_DM"]],
    }
    checked, _ = ready(host, write_spec(tmp_path, **changes))
    assert checked.exit_code == 0
    show(host, checked)
    assert (
        "but never seen together: PAPI_BR_MSP with PAPI_L1_DCM, because they need more counters than there are: raise "
        "`counters` under `simulator`, or let them take turns with `multiplex: true`, without `together`; never seen "
        "together: IPC with PAPI_TLB_DM, because they need two simulated data caches, one with lines of a page: count "
        "them on a processor"
    ) in " ".join(capsys.readouterr().out.split())
    checked, _ = ready(host, write_spec(tmp_path, **changes | {"analysis__together": [["IPC", "PAPI_L1_DCM"]]}))
    assert checked.never_together == ""


def test_a_dry_run_draws_which_metrics_meet(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"measure__simulator": {"counters": 2}, "analysis__together": "all"}
    changes["measure__hardware"] = ["PAPI_TOT_INS", "PAPI_BR_MSP", "PAPI_L1_DCM", "PAPI_SR_INS", "PAPI_TOT_CYC"]
    done = unperturbed(tmp_path, "run", "--dry-run", write_spec(tmp_path, **changes))
    drawn = [line.split() for line in done.stdout.splitlines() if line.startswith("  PAPI_")]
    assert [line[0] for line in drawn] == changes["measure__hardware"]
    assert [line.count("●") for line in drawn] == [3, 2, 2, 2, 3]
    assert all(line[-3:] == ["4", "of", "4"] for line in drawn)
    assert "metrics meet in 3 passes, the fewest possible (by greedy search)\n" in done.stdout
    assert "\n39 runs (baseline 15, anchor 15, steps 9)\n" in done.stdout


def test_only_its_own_limit_keeps_a_spec_from_running(tmp_path: Path, host: Examination) -> None:
    checked, found = ready(host, write_spec(tmp_path, campaign__max_runs=12))
    assert checked.exit_code == 2
    assert [problem["subject"] for problem in found["problems"]] == ["runs"]
    assert "the plan has 13 runs, but `max_runs` is 12" in found["problems"][0]["what"]


NOT_BUILT = {
    "program__source": None,
    "program__build": None,
    "measure__software": None,
    "campaign__subsets": None,
    "analysis__anchor": None,
}


def test_a_static_program_that_nobody_builds(tmp_path: Path, host: Examination) -> None:
    source = tmp_path / "x.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", source, "-o", tmp_path / "static"], check=True)
    checked, found = ready(host, write_spec(tmp_path, program__run="{spec}/static", **NOT_BUILT))
    assert checked.exit_code == 3
    assert "is linked statically" in found["problems"][0]["what"]


def test_the_sampler_outside_needs_no_dynamic_linker_and_a_cpu_that_is_there(tmp_path: Path, host: Examination) -> None:
    source = tmp_path / "x.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", source, "-o", tmp_path / "static"], check=True)
    asked = {
        "measure__interval": "8 ms",
        "measure__sampler": "outside",
        "measure__source": "auto",
        "measure__hardware": ["perf::page-faults"],
    }
    changes = {
        **NOT_BUILT,
        **asked,
        "measure__derived": None,
        "analysis__align_on": None,
        "program__run": "{spec}/static",
    }
    _, found = ready(host, write_spec(tmp_path, **changes))
    assert "program" not in {problem["subject"] for problem in found["problems"]}
    checked, found = ready(host, write_spec(tmp_path, **changes, measure__observer_cpu=4095))
    assert checked.exit_code == 3
    assert "this process may not run on processor 4095" in found["problems"][0]["what"]


def test_a_clock_of_the_simulator_where_the_kernel_counts(tmp_path: Path, host: Examination) -> None:
    metrics = {"measure__hardware": ["perf::page-faults"], "measure__derived": None, "analysis__align_on": None}
    spec = write_spec(
        tmp_path,
        measure__source="auto",
        measure__os=["sched_run_ns"],
        **metrics,
    )
    checked, found = ready(host, spec)
    if any(problem["subject"] == "metric" for problem in found["problems"]):
        pytest.skip("perf_event is not allowed to count here")
    assert checked.exit_code == 2
    assert [problem["subject"] for problem in found["problems"]] == ["clock"]
    sources = {item["metric"]: item["source"] for item in found["metrics"]}
    # Where the processor has counters, PAPI comes first, and knows the kernel's events too.
    assert sources.pop("perf::page-faults") in ("papi", "perf_event")
    assert sources == {
        "sched_run_ns": "schedstat",
        "rounds": "compiled in",
        "steps": "compiled in",
    }


def test_a_shell_that_nobody_builds(tmp_path: Path, host: Examination) -> None:
    checked, found = ready(host, write_spec(tmp_path, program__run="true", program__shell=True, **NOT_BUILT))
    assert checked.exit_code == 2
    assert (
        "write only the program to measure and its arguments in `run`, and remove `shell: true`"
        in found["problems"][0]["what"]
    )
