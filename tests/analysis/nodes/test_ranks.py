"""Verdicts by rank as one family; imbalance and waiting against obvious computations."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.analysis.nodes.simulate import Case, runs_of, verdicts_of
from tests.analysis.report.synthetic import make_content
from tests.harness.results.schema_faults import schema_faults
from unperturbed.analysis.multiple_testing import holm
from unperturbed.analysis.nodes.combine import combine_nodes
from unperturbed.analysis.nodes.ranks import Estimate, describe_ranks
from unperturbed.analysis.nodes.strata import combine_strata
from unperturbed.analysis.nodes.verdicts import NodeVerdicts
from unperturbed.analysis.report import render, render_nodes, to_json
from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.trace import Metric
from unperturbed.errors import DataError


def _run(*ranks: tuple[float, float, float], launcher: str = "") -> Trace:
    """Return a run whose ranks have these instructions, times of waiting and durations, in seconds."""
    told = [
        {
            "rank": at,
            "image": "heat",
            "seconds": seconds,
            "totals": {"INS": count, "mpi_waits": 10.0 * (at + 1), "mpi_wait_ns": 1e9 * waiting},
        }
        for at, (count, waiting, seconds) in enumerate(ranks)
    ]
    starters = [{"image": launcher}] if launcher else []
    return Trace.from_columns(
        [Metric("INS", "hardware")],
        {"INS": np.array([1])},
        begin_ns=np.array([0]),
        end_ns=np.array([1]),
        attributes={"processes": told, "launchers": starters},
    )


def test_imbalance_and_waiting() -> None:
    runs = [_run((30, 1, 4), (10, 3, 4)), _run((28, 1, 5), (12, 2, 4), launcher="mpirun")]
    found = describe_ranks([], runs, level=0.9)
    ratios = [30 / 20, 28 / 20]
    half = stats.t.ppf(0.95, 1) * np.std(ratios, ddof=1) / np.sqrt(2)
    assert vars(found.imbalance["INS"]) == pytest.approx({"mean": 1.45, "low": 1.45 - half, "high": 1.45 + half})
    assert found.largest == {"INS": "rank 0"}
    assert found.waiting["rank 0"].mean == pytest.approx((1 / 4 + 1 / 5) / 2)
    assert found.waiting["rank 1"].mean == pytest.approx((3 / 4 + 2 / 4) / 2)
    assert found.waits == {"rank 0": 10, "rank 1": 20}
    assert found.sentences() == ("The counts of mpirun, which only start ranks, are left out.",)
    assert "1.450" in found.tables()[0].to_text()


def test_calls_that_nobody_sees_are_said() -> None:
    run = _run((3, 0, 4), (1, 0, 4))
    for told in run.attributes["processes"]:
        told["totals"]["mpi_waits"] = 0.0
    found = describe_ranks([], [run, run], level=0.9)
    assert "If MPI is linked statically" in found.sentences()[0]
    assert not found.waiting


def test_one_run_has_no_interval() -> None:
    assert Estimate.over_runs([2.0], 0.9) == Estimate(2.0, float("-inf"), float("inf"))


def test_all_ranks_are_one_family() -> None:
    (verdicts,) = verdicts_of(runs_of(Case("", ((8, 5),) * 3, effect=1.0), 1, seed=4), alpha=0.05, tolerance=0.1)
    combined = combine_strata(verdicts)
    every = [change for verdict in verdicts.values() for change in verdict.changes]
    assert len(combined.these.changes) == len(every)
    corrected = holm([change.p for change in every])
    assert [change.p_corrected for change in combined.these.changes] == pytest.approx(corrected.tolist())
    assert combined.by_node == verdicts
    assert combined.type is None
    found = describe_ranks([combined], [_run((3, 1, 4), (1, 3, 4)), _run((3, 1, 4), (1, 2, 4))], level=0.9)
    assert found.at_least("unperturbed") == ("steps",)
    assert [row[1] for row in found.tables()[0].rows] == ["node0", "node1", "node2", "all ranks"]
    data = json.loads(json.dumps(to_json(replace(make_content(baseline_runs=6, runs=4), ranks=found)), allow_nan=False))
    assert schema_faults("verdicts", data) == []
    assert 'id="ranks"' in render(replace(make_content(baseline_runs=6, runs=4), ranks=found))


def test_all_nodes_show_their_ranks() -> None:
    (verdicts,) = verdicts_of(runs_of(Case("", ((8, 5),) * 3), 1, seed=4), alpha=0.05, tolerance=0.1)
    ranks = combine_strata({f"a/{name}": verdict for name, verdict in verdicts.items()})
    found = NodeVerdicts((combine_nodes(verdicts),), strata={"rank": (ranks,)})
    assert "a/node1" in found.tables()[1].to_text()
    assert list(found.to_dict()["ranks"][0]["by_rank"]) == ["a/node0", "a/node1", "a/node2"]
    assert "Verdicts by rank" in render_nodes(found)
    threads = NodeVerdicts((combine_nodes(verdicts),), strata={"thread": (ranks,)}).to_dict()
    assert list(threads["threads"][0]["by_thread"]) == ["a/node0", "a/node1", "a/node2"]
    assert threads["ranks"] == []


def test_no_rank_is_refused() -> None:
    with pytest.raises(DataError, match="no rank or thread to combine"):
        combine_strata({})
