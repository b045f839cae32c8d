"""Verdicts on totals of a campaign: counts of the simulator, times of native runs, the exit code, nodes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.floor.simulate import runs_of_totals
from tests.harness.phases_campaign import unperturbed, verdicts, write_spec
from unperturbed.analysis.totals import check_totals
from unperturbed.analysis.totals.total_text import totals_sentence
from unperturbed.analysis.totals.verdict import TotalChange, combine_totals
from unperturbed.collectors.data import Trace


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("totals")
    done = unperturbed(folder, "run", write_spec(folder), "--progress", "json")
    assert done.returncode in (0, 4), done.stderr
    return folder / "campaigns" / "phases"


def test_each_configuration_has_verdicts_on_counts_and_times(campaign: Path) -> None:
    found = verdicts(campaign)["totals"]
    assert list(found) == ["anchor", "steps"]
    for changes in found.values():
        by_metric = {change["metric"]: change for change in changes}
        assert {"PAPI_TOT_INS", "PAPI_L1_DCM", "time_s", "cpu_s"} <= set(by_metric)
        assert by_metric["PAPI_TOT_INS"]["simulated"]
        assert not by_metric["cpu_s"]["simulated"]
        assert by_metric["cpu_s"]["tolerance"] == 0.02
        assert len(by_metric["PAPI_TOT_INS"]["reference"]) == 5
    of_steps = {change["metric"]: change for change in found["steps"]}
    assert of_steps["PAPI_SR_INS"]["verdict"] == "perturbed"  # a store an event
    assert of_steps["PAPI_SR_INS"]["change"] > 0.01


def test_times_are_those_of_native_runs(campaign: Path) -> None:
    for file in sorted(campaign.glob("runs/*/trace.parquet"))[1:]:
        attributes = Trace.read(file).attributes
        if "repetition" in attributes:
            assert 0 < attributes["cpu_s"] < attributes["seconds"] / 3  # a simulated run takes 25 times as long
            assert attributes["time_s"] >= attributes["cpu_s"] * 0.5


def test_the_page_has_a_forest_plot_and_the_table(campaign: Path) -> None:
    page = (campaign / "report.html").read_text()
    assert 'id="totals"' in page
    assert 'id="totals-forest"' in page
    assert "more stores" in page


@pytest.mark.parametrize(("totals", "code"), [("perturbed", 4), ("never", 0)])
def test_totals_decide_the_exit_code_where_the_spec_says_so(
    campaign: Path, tmp_path: Path, totals: str, code: int
) -> None:
    spec = write_spec(tmp_path, analysis__fail_on={"correlations": "never", "totals": totals})
    done = unperturbed(tmp_path, "run", spec, "--campaign", campaign)
    assert done.returncode == code, done.stderr
    assert "more stores" in done.stdout


def test_a_tolerance_of_the_spec_is_used(campaign: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, analysis__totals={"PAPI_TOT_INS": "50 %"})
    done = unperturbed(tmp_path, "run", spec, "--campaign", campaign, "--json")
    changes = {change["metric"]: change for change in json.loads(done.stdout)["totals"]["steps"]}
    assert (changes["PAPI_TOT_INS"]["verdict"], changes["PAPI_TOT_INS"]["tolerance"]) == ("unperturbed", 0.5)
    assert changes["PAPI_SR_INS"]["tolerance"] == 0.01


def _change(change: float, error: float) -> TotalChange:
    half = 2.0 * error
    apart = math.exp(math.sqrt(2) * error)  # of the two runs of a side
    return TotalChange(
        "PAPI_TOT_INS",
        (100.0, apart * 100.0),
        (100.0 * (1 + change), apart * 100.0 * (1 + change)),
        ("1", "2"),
        ("3", "4"),
        change,
        math.expm1(math.log1p(change) - half),
        math.expm1(math.log1p(change) + half),
        standard_error=error,
        freedom=8.0,
    )


def test_nodes_have_equal_shares_of_the_joint_change() -> None:
    (joint,) = combine_totals({"a": [_change(0.02, 0.001)], "b": [_change(0.04, 0.002)]}, alpha=0.05)
    assert joint.change == pytest.approx(math.sqrt(1.02 * 1.04) - 1)
    assert joint.standard_error == pytest.approx(math.hypot(0.001, 0.002) / 2)
    assert joint.verdict == "perturbed"
    assert joint.reference_runs == ("a", "b")
    assert joint.low > 0.02
    assert joint.nodes == (_change(0.02, 0.001), _change(0.04, 0.002))
    (alike,) = combine_totals({"a": [_change(0.0, 0.0005)], "b": [_change(0.001, 0.0005)]}, alpha=0.05)
    assert alike.verdict == "unperturbed"
    assert combine_totals({"a": [_change(0.0, 0.1)], "b": []}, alpha=0.05) == ()


def _of(reference: tuple[float, ...], observed: tuple[float, ...], *, in_rounds: bool = False) -> TotalChange:
    names = tuple(str(run) for run in range(len(reference)))
    return TotalChange("PAPI_L2_TCM", reference, observed, names, names, 0.0, 0.0, 0.0, equal_in_rounds=in_rounds)


@pytest.mark.parametrize(
    ("nodes", "equal", "in_rounds"),
    [
        # All means are 4084.8, but one run of each five counts 4084.
        ([((4085.0,) * 4 + (4084.0,),) * 2] * 2, False, True),
        ([((4085.0,) * 4 + (4084.0,), (4084.0,) + (4085.0,) * 4)] * 2, False, False),
        ([((4085.0,) * 5,) * 2] * 2, True, False),
        # Each node has a count of its own.
        ([((4085.0,) * 5,) * 2, ((4090.0,) * 5,) * 2], False, True),
        ([((4085.0,) * 5,) * 2, ((4085.0,) * 4 + (4086.0,),) * 2], False, True),
    ],
)
def test_totals_on_nodes_are_equal_only_if_all_runs_are(
    nodes: list[tuple[tuple[float, ...], tuple[float, ...]]], equal: bool, in_rounds: bool
) -> None:
    by_node = {
        str(at): [_of(*sides, in_rounds=sides[0] == sides[1] and len({*sides[0]}) > 1)]
        for at, sides in enumerate(nodes)
    }
    (joint,) = combine_totals(by_node, alpha=0.05)
    counts = {count for sides in nodes for side in sides for count in side}
    assert joint.equal == (len(counts) == 1) == equal
    assert (joint.equal_in_rounds, joint.verdict) == (in_rounds, "unperturbed")
    written = joint.to_dict()
    assert (written["equal"], written["equal_in_rounds"]) == (equal, in_rounds)
    said = totals_sentence("B", [joint], "A")
    assert ("exactly equal" in said, "equal in every round" in said) == (equal, in_rounds)


def test_the_total_of_one_node_has_the_interval_of_the_host() -> None:
    rng = np.random.default_rng(4)
    spreads = {"a": 0.001, "b": 0.01}
    sides = (runs_of_totals(name, 1e9 * np.exp(of * rng.standard_normal(5))) for name, of in spreads.items())
    changes = check_totals(*sides, ["cycles"])
    (joint,) = combine_totals({"a": changes}, alpha=0.05)
    assert (joint.low, joint.high) == pytest.approx((changes[0].low, changes[0].high))
