"""Campaigns on a simulated processor with few counters: metrics in passes, and metrics that take turns."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collectors.sources.test_limits import rotate
from tests.harness.campaign.test_sampling_campaign import traces
from tests.harness.phases_campaign import unperturbed, write_spec
from unperturbed.collectors.sources.limits import Limits, Turns
from unperturbed.harness.campaign.manifest import Manifest

METRICS = ["PAPI_TOT_INS", "PAPI_LD_INS", "PAPI_SR_INS", "PAPI_BR_INS", "PAPI_BR_MSP", "PAPI_L1_DCM", "PAPI_L1_ICM"]
ALL: dict[str, Any] = {"measure__interval": {"records": 1000}}
TURNS: dict[str, Any] = {
    "measure__interval": {"records": 40},
    "measure__simulator": {"counters": 4, "multiplex_every": "100 us"},
    "measure__multiplex": True,
}
PASSES: dict[str, Any] = {"measure__interval": {"records": 40}, "measure__simulator": {"counters": 3}}
BASELINE_ALONE: dict[str, Any] = {
    "measure__hardware": METRICS,
    "measure__derived": None,
    "measure__software": None,
    "program__run": "{build}/phases 60",
    "campaign__subsets": None,
    "analysis__anchor": None,
}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name, changes in {"all": ALL, "turns": TURNS, "passes": PASSES}.items():
        folder = tmp_path_factory.mktemp(name)
        done = unperturbed(folder, "run", write_spec(folder, **BASELINE_ALONE | changes))
        assert done.returncode in (0, 4), done.stderr
        made[name] = folder / "campaigns" / "phases"
    return made


def test_metrics_that_take_turns_count_parts_of_what_there_is(campaigns: dict[str, Path]) -> None:
    whole, shared = (traces(campaigns[name], "baseline") for name in ("all", "turns"))
    for full, scaled in zip(whole, shared, strict=True):
        quanta, turn = (int(scaled.attributes[name]) for name in ("interval_ns", "turn_quanta"))
        assert quanta > 1
        assert len(scaled) == -(-len(full) // quanta)
        counts = {name: full[name].astype(np.int64).tolist() for name in METRICS}
        made = rotate(counts, Limits(4), Turns(quanta, turn), full["PAPI_TOT_CYC"].astype(np.int64).tolist())
        for name in METRICS:
            # The last interval ends with the program, and contains what it does at its end.
            counted, enabled, running = np.array(made[name][:-1], np.float64).T
            difference = np.abs(scaled[name][:-1] * running - counted * enabled)
            assert difference.sum() <= 0.01 * (counted * enabled).sum()
            assert (scaled.metrics[name].scaled, name in Limits.fixed) in ((True, False), (False, True))


def test_the_report_says_from_how_much_time_counts_are(campaigns: dict[str, Path]) -> None:
    page = (campaigns["turns"] / "report.html").read_text()
    assert "PAPI_L1_ICM was multiplexed: its counts are extrapolated from 6" in page
    assert "4 counters, and one each for PAPI_TOT_INS and PAPI_TOT_CYC" in page


def test_passes_count_all_the_time(campaigns: dict[str, Path]) -> None:
    whole = traces(campaigns["all"], "baseline")[0]
    totals: dict[str, float] = {}
    for trace in traces(campaigns["passes"], "baseline"):
        counted = [name for name in METRICS if name in trace.metrics]
        assert len(set(counted) - set(Limits.fixed)) <= 3
        totals |= {name: float(trace[name].sum()) for name in counted}
    assert set(totals) == set(METRICS)
    for name, total in totals.items():
        assert abs(total - whole[name].sum()) <= 0.01 * whole[name].sum() + 10


def test_a_campaign_in_whose_passes_all_pairs_meet_judges_each_once_and_keeps_its_passes(tmp_path: Path) -> None:
    changes = {
        "measure__hardware": METRICS[:5],
        "measure__derived": None,
        "measure__simulator": {"counters": 2},
        "analysis__together": "all",
    }
    spec = write_spec(tmp_path, **changes)
    done = unperturbed(tmp_path, "run", spec)
    assert done.returncode in (0, 4), done.stderr
    folder = tmp_path / "campaigns" / "phases"
    verdicts = json.loads((folder / "verdicts.json").read_text())
    inner = [
        frozenset((change["first"], change["second"]))
        for verdict in verdicts["verdicts"]
        if verdict["configuration"] == "steps"
        for change in verdict["changes"]
        if change["check"] == "inner"
    ]
    assert len(inner) == len(set(inner))
    assert set(inner) == {frozenset(pair) for pair in combinations(METRICS[:5], 2)}
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        passes = manifest.required_fact("passes")
    assert [len(item["metrics"]) for item in passes] == [3] * 6
    assert {item["division"] for item in passes} == {"6 passes, the fewest possible (by greedy search)"}
    assert "Metrics by pass: 6 passes" in (folder / "report.html").read_text()
    spec.write_text(spec.read_text().replace("runs: 3", "runs: 4"))
    assert unperturbed(tmp_path, "run", spec).returncode in (0, 4)
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        assert manifest.required_fact("passes") == passes


def test_too_short_intervals_are_refused_with_what_to_do(tmp_path: Path) -> None:
    changes = TURNS | {"measure__interval": {"records": 1000}, "program__run": "{build}/phases 16"}
    done = unperturbed(tmp_path, "run", write_spec(tmp_path, **BASELINE_ALONE | changes))
    assert done.returncode == 2
    assert "because the metrics take turns on the counters and it had none then" in done.stderr
    assert "use longer intervals" in done.stderr
