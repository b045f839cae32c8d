"""Notes of a check on passes that lack a metric of `align_on`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.analysis.simulate import equicorrelated, program
from tests.analysis.simulate import run as simulated_run
from tests.harness.phases_campaign import write_spec
from unperturbed.collectors.data import Metric, Trace
from unperturbed.harness.results.check import check_runs
from unperturbed.harness.spec.load import load_spec

METRICS = ("PAPI_L1_DCM", "PAPI_BR_MSP", "PAPI_SR_INS")


def _runs(names: tuple[str, ...]) -> dict[str, tuple[Trace, ...]]:
    """Return baseline runs of a simulated program that count these metrics."""
    same = program(np.random.default_rng(1), correlation=equicorrelated(3, 0.6), run_effect=0.02)
    made = [simulated_run(same, np.random.default_rng([1, at])) for at in range(6)]
    return {
        "baseline": tuple(
            Trace.from_columns(
                [Metric(name, "hardware", source="simulation") for name in names],
                {name: trace[f"H{METRICS.index(name)}"] for name in names},
                begin_ns=trace.begin_ns,
                end_ns=trace.end_ns,
                attributes={**trace.attributes, "run": f"baseline-{at}", "configuration": "baseline"},
            )
            for at, trace in enumerate(made)
        )
    }


def test_the_note_names_only_metrics_of_align_on_that_the_pass_lacks(tmp_path: Path) -> None:
    spec = load_spec(
        write_spec(
            tmp_path,
            analysis__anchor=None,
            analysis__align_on=list(METRICS[:2]),
            measure__software={"steps": {"loop": "walk"}},
            measure__hardware=list(METRICS),
            measure__derived={},
        )
    )
    notes = check_runs(spec, {"first": _runs(METRICS[:2]), "second": _runs(METRICS[1:])}).notes
    assert [note for note in notes if "aligned on" in note] == [
        "Pass 'second' does not count PAPI_L1_DCM, so its runs are aligned on PAPI_BR_MSP."
    ]
    notes = check_runs(spec, {"first": _runs(METRICS[:2]), "second": _runs(METRICS[2:])}).notes
    assert "Pass 'second' does not count PAPI_L1_DCM, PAPI_BR_MSP, so its runs are aligned on PAPI_SR_INS." in notes
