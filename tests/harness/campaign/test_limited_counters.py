"""Campaigns on a simulated processor with few counters: metrics in passes, and metrics that take turns."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collectors.sources.test_limits import rotate
from tests.harness.campaign.test_sampling_campaign import traces
from tests.harness.phases_campaign import unperturbed, write_spec
from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.trace import SCALING
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
JUDGED: dict[str, Any] = {
    "measure__interval": {"records": 70},
    "measure__simulator": {"counters": 3, "multiplex_every": "100 us"},
    "measure__multiplex": {"estimate": "interpolated"},
    "campaign__multiplexed": True,
}
BASELINE_ALONE: dict[str, Any] = {
    "measure__hardware": METRICS,
    "measure__derived": None,
    "measure__software": None,
    "program__run": "{build}/phases 60",
    "campaign__subsets": None,
    "analysis__anchor": None,
}


def every_trace(folder: Path) -> list[Trace]:
    found = sorted(folder.glob("runs/0*/trace.parquet"))
    return [Trace.read(file) for file in found if file.parent.name != "0000"]


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name, changes in {"all": ALL, "turns": TURNS, "passes": PASSES, "judged": JUDGED}.items():
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
            # Rare events vary by one or two from run to run, also between runs of one campaign.
            assert difference.sum() <= 0.01 * (counted * enabled).sum() + enabled.sum()
            assert (scaled.metrics[name].scaled, name in Limits.fixed) in ((True, False), (False, True))


def test_the_report_says_from_how_much_time_counts_are(campaigns: dict[str, Path]) -> None:
    page = (campaigns["turns"] / "report.html").read_text()
    assert "PAPI_L1_ICM was multiplexed: its counts are extrapolated from 6" in page
    assert "4 counters, and one each for PAPI_TOT_INS and PAPI_TOT_CYC" in page
    assert ">PAPI_L1_ICM.running_ns</th>" not in page  # the times are in the table of all metrics alone


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


def test_passes_are_merged_though_one_lacks_the_metric_that_runs_are_aligned_on(tmp_path: Path) -> None:
    """The pass with a cache of pages counts no cycles, so it has no IPC."""
    changes = {
        "measure__hardware": ["PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_TLB_DM"],
        "measure__derived": {"IPC": "PAPI_TOT_INS / PAPI_TOT_CYC"},
        "measure__interval": {"records": 40},
        "analysis__align_on": None,
    }
    done = unperturbed(tmp_path, "run", write_spec(tmp_path, **BASELINE_ALONE | changes))
    assert done.returncode in (0, 4), done.stderr
    done = unperturbed(tmp_path, "merge", "campaigns/phases", "-o", "merged.parquet")
    assert done.returncode == 0, done.stderr
    assert "Not every pass counts IPC, so the runs are aligned on PAPI_TOT_INS." in done.stdout
    assert {"IPC", "PAPI_TLB_DM"} <= set(Trace.read(tmp_path / "merged.parquet").metrics)


def test_a_campaign_in_whose_passes_all_pairs_meet_judges_each_once_and_keeps_its_passes(tmp_path: Path) -> None:
    changes = {
        "measure__hardware": METRICS[:4],
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
    assert set(inner) == {frozenset(pair) for pair in combinations(METRICS[:4], 2)}
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        passes = manifest.required_fact("passes")
    assert [len(item["metrics"]) for item in passes] == [3] * 3
    assert {item["division"] for item in passes} == {"3 passes, the fewest possible (by greedy search)"}
    assert "Metrics by pass: 3 passes" in (folder / "report.html").read_text()
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


def test_multiplexed_counts_are_held_against_passes(campaigns: dict[str, Path]) -> None:
    folder = campaigns["judged"]
    planned = Counter((trace.attributes["configuration"], trace.attributes["pass"]) for trace in every_trace(folder))
    assert planned == {("baseline", "main"): 5, ("baseline", "simulated"): 5, ("multiplexed", "multiplexed"): 3}
    described = json.loads(unperturbed(folder.parents[1], "run", "spec.yaml", "--dry-run", "--json").stdout)
    assert (described["configurations"], described["runs"]) == ({"baseline": 10, "multiplexed": 3}, 13)
    assert len({trace.attributes["interval_ns"] for trace in every_trace(folder)}) == 1
    made = json.loads((folder / "verdicts.json").read_text())["multiplexing"]
    rows = [(row["intervals"], row["estimate"]) for row in made["rows"]]
    assert rows[0][1] == "interpolated"
    assert {estimate for _, estimate in rows} == {"scaled", "interpolated", "cleaned", "smoothed"}
    assert len({intervals for intervals, _ in rows}) == 2
    turning = set(METRICS) - set(Limits.fixed)
    for row in made["rows"]:
        assert {outcome["metric"] for outcome in row["outcomes"]} == turning
    assert "metrics may be multiplexed at intervals of" in made["notes"][0]
    assert "Multiplexed metrics" in (folder / "report.html").read_text()


def test_outcomes_are_those_of_the_true_totals(campaigns: dict[str, Path]) -> None:
    """A metric whose total is far from the truth, known from a campaign that counts all, may not be multiplexed."""
    folder = campaigns["judged"]
    truth = {name: float(traces(campaigns["all"], "baseline")[0][name].sum()) for name in METRICS}
    shared = traces(folder, "multiplexed")
    row = json.loads((folder / "verdicts.json").read_text())["multiplexing"]["rows"][0]
    for outcome in row["outcomes"]:
        ratios = [float(trace[outcome["metric"]].sum()) / truth[outcome["metric"]] for trace in shared]
        if min(abs(ratio - 1) for ratio in ratios) > 0.03:
            assert outcome["verdict"] in ("perturbed", "shifted", "undecided")
            assert outcome["why"].startswith("total")


def test_counts_of_turns_are_in_no_merged_trace(campaigns: dict[str, Path]) -> None:
    done = unperturbed(campaigns["judged"].parent, "merge", campaigns["judged"], "--force")
    assert done.returncode == 0, done.stderr
    merged = Trace.read(campaigns["judged"] / "merged.parquet")
    assert set(METRICS) <= set(merged)
    assert not [name for name in merged if name.endswith(SCALING)]


def test_correlations_of_metrics_that_never_met_are_estimated(campaigns: dict[str, Path]) -> None:
    done = unperturbed(campaigns["passes"].parent, "merge", campaigns["passes"], "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    together = [{*trace.metrics} for trace in traces(campaigns["passes"], "baseline")]
    pairs = [{pair["first"], pair["second"]} for pair in found["across_passes"]]
    # LD, SR and BR are counted in one pass, the other three in another; BR_MSP is a part of no other metric.
    assert len(pairs) == 9
    assert not any(pair <= metrics for pair in pairs for metrics in together)
    reliable = sum(pair["is_reliable"] for pair in found["across_passes"])
    assert reliable > 4
    assert f"{reliable} of 9 correlations of metrics that no run counts together" in " ".join(found["notes"])
    merged = Trace.read(campaigns["passes"] / "merged.parquet")
    assert merged.attributes["merged"]["across_passes"] == found["across_passes"]


@pytest.mark.skipif(Path("/sys/bus/event_source/devices/cpu").exists(), reason="this processor has counters")
@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_turns_without_counters_are_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    changes = JUDGED | {"measure__simulator": None, "measure__source": "auto", "measure__clock": "monotonic"}
    done = unperturbed(tmp_path, "run", write_spec(tmp_path, **BASELINE_ALONE | changes), *options)
    said = done.stdout + done.stderr
    assert (
        "metrics take turns on a processor's counters, and this host cannot count them: to try it on the"
        in " ".join(said.split())
    )


def test_turns_without_need_are_refused(tmp_path: Path) -> None:
    changes = JUDGED | {"measure__simulator": {"counters": 9}}
    done = unperturbed(tmp_path, "run", write_spec(tmp_path, **BASELINE_ALONE | changes))
    assert done.returncode == 2
    assert "all metrics can be counted at once here, and none takes turns: remove `multiplexed`" in done.stderr
