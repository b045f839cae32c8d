"""Verdicts over nodes: against naive twins, false alarms, heterogeneity, leave one out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.analysis.nodes.simulate import LEVEL, SPREAD, Case, runs_of, verdicts_of
from unperturbed.analysis.nodes.combine import Combined, apart, combine_nodes
from unperturbed.analysis.nodes.verdicts import NodeVerdicts
from unperturbed.analysis.perturbation import fisher
from unperturbed.analysis.perturbation.correlation import FloatArray
from unperturbed.analysis.report import render_nodes
from unperturbed.analysis.totals import TotalChange
from unperturbed.errors import DataError

FOUR = ((8, 5),) * 4
UNBALANCED = ((15, 2), (10, 3), (5, 8), (5, 10))


def _combined(case: Case, campaigns: int, seed: int = 1, tolerance: float = 0.1) -> list[Combined]:
    runs = runs_of(case, campaigns, seed)
    return [combine_nodes(one) for one in verdicts_of(runs, alpha=0.05, tolerance=tolerance)]


def seen(z: FloatArray) -> FloatArray:
    """Return simulated values as a check sees them, by their correlations."""
    return fisher(np.tanh(z))


def test_these_nodes_is_a_linear_model_with_a_level_for_each_node() -> None:
    case = Case("", UNBALANCED, effect=1.0)
    runs = runs_of(case, 5, seed=3)
    for at, one in enumerate(verdicts_of(runs, alpha=0.05, tolerance=0.1)):
        found = combine_nodes(one).these.changes[0]
        # The twin: least squares with a column a node and one for the configuration; spread within cells.
        rows, values, cells = [], [], []
        for node, (baseline, checked) in enumerate(runs):
            for group, column in ((0, seen(baseline[:, at])), (1, seen(checked[:, at]))):
                rows += [[float(node == other) for other in range(4)] + [float(group)]] * len(column)
                values += column.tolist()
                cells.append(column)
        design = np.array(rows)
        coefficient = np.linalg.lstsq(design, np.array(values), rcond=None)[0][-1]
        freedom = sum(len(cell) - 1 for cell in cells)
        variance = sum(((cell - cell.mean()) ** 2).sum() for cell in cells) / freedom
        error = np.sqrt(variance * np.linalg.inv(design.T @ design)[-1, -1])
        assert found.standard_error == pytest.approx(error, rel=1e-9) and found.freedom == freedom
        assert found.p == pytest.approx(2 * stats.t.sf(abs(coefficient) / error, freedom), rel=1e-6)


def test_this_type_of_node_is_a_t_test_of_the_changes() -> None:
    runs = runs_of(Case("", FOUR, effect=0.5, interaction=0.7), 5, seed=4)
    for at, one in enumerate(verdicts_of(runs, alpha=0.05, tolerance=0.1)):
        of_type = combine_nodes(one).type
        assert of_type is not None
        changes = [seen(checked[:, at]).mean() - seen(baseline[:, at]).mean() for baseline, checked in runs]
        found = of_type.changes[0]
        assert found.p == pytest.approx(stats.ttest_1samp(changes, 0).pvalue, rel=1e-9)
        # The interval of ρ holds wherever the spread comes from: by the checked runs alone, and by both groups' runs.
        before = np.mean([seen(baseline[:, at]).mean() for baseline, _ in runs])
        reach = stats.t.isf(0.05, 3) * np.std(changes, ddof=1) / 2
        middle = before + np.mean(changes)
        assert found.low <= np.tanh(middle - reach) - np.tanh(before) + 1e-3
        assert found.high >= np.tanh(middle + reach) - np.tanh(before) - 1e-3
        assert found.low < found.effect < found.high


def test_few_nodes_say_nothing_of_their_type() -> None:
    (three,) = _combined(Case("", FOUR[:3]), 1)
    assert three.type is None
    (one,) = _combined(Case("", FOUR[:1]), 1)
    assert one.type is None and one.heterogeneity == {} and one.hangs_on == {}
    change, alone = one.these.changes[0], one.by_node["node0"].changes[0]
    assert (change.p, change.low, change.high) == pytest.approx((alone.p, alone.low, alone.high), rel=1e-6)
    with pytest.raises(DataError, match="no node"):
        combine_nodes({})


def test_a_verdict_that_depends_on_one_node_is_told() -> None:
    still = runs_of(Case("", FOUR), 1, seed=8)
    moved = [(before, after + (12 * SPREAD if at == 2 else 0.0)) for at, (before, after) in enumerate(still)]
    (verdicts,) = verdicts_of(moved, alpha=0.05, tolerance=0.1)
    combined = combine_nodes(verdicts)
    assert "node2" in combined.hangs_on and combined.hangs_on["node2"] == "unperturbed"
    assert next(iter(combined.heterogeneity.values())).p < 1e-6
    result = NodeVerdicts((combined,), {"node2": "total of X (p < 0.001)"}, ("A note.",))
    said = " ".join(result.sentences())
    assert "without node2, the verdict would be unperturbed" in said and "differs from those of the other nodes" in said
    assert result.to_frame().height == 6
    told = result.to_dict()
    assert told["nodes"][0]["verdict_without"]["node2"] == "unperturbed" and told["notes"][0] == "A note."
    page = render_nodes(result)
    assert "nodes-0" in page and "this type of node" in page


def test_a_node_that_is_apart_in_its_baseline_is_named() -> None:
    chance = np.random.default_rng(1)
    alike = {f"total {metric}": {f"n{node}": chance.normal() for node in range(8)} for metric in range(5)}
    assert apart(alike) == {}
    alike["total 3"]["n5"] = 40.0
    assert list(apart(alike)) == ["n5"] and apart(alike)["n5"].startswith("total 3")
    assert apart({"total": {f"n{node}": float(node == 0) for node in range(4)}}) == {}  # too few to know
    assert apart({"total": {f"n{node}": 5.0 for node in range(8)}}) == {}
    alarms = 0
    for seed in range(400):
        noise = np.random.default_rng(seed).normal(size=(4, 6))
        alarms += bool(
            apart(
                {str(at): {str(node): value for node, value in enumerate(row)} for at, row in enumerate(noise.tolist())}
            )
        )
    assert alarms / 400 <= 0.025


def test_the_first_table_has_the_verdict_on_totals() -> None:
    combined = _combined(Case("", FOUR[:2]), 1)
    total = TotalChange("PAPI_TOT_INS", (1.0, 1.0), (1.1, 1.1), ("a", "b"), ("a", "b"), 0.1, 0.09, 0.11)
    verdicts = NodeVerdicts(tuple(combined), totals={"steps": (replace(total, verdict="perturbed"),)})
    first, *_, last = verdicts.tables()
    assert [column.head for column in first.columns][3] == "totals of a run"
    assert "✗ perturbed" in first.to_text() and "steps" in [column.head for column in last.columns]
    assert "totals" not in NodeVerdicts(tuple(combined)).tables()[0].to_text()


def test_an_undecided_total_names_the_runs_of_a_node_that_would_decide() -> None:
    total = TotalChange("PAPI_TOT_INS", (1.0, 1.0), (1.1, 1.1), ("a", "b"), ("a", "b"), 0.1, 0.0, 0.2)
    near = replace(total, runs_to_decide=40, nodes=(total, total))
    far = replace(near, metric="time_s", runs_to_decide=400)
    assert NodeVerdicts((), totals={"steps": (near, far)}).sentences() == (
        "steps: instructions are undecided (40 runs per configuration on each node would probably decide).",
    )
    assert NodeVerdicts((), totals={"steps": (far,)}).sentences() == ()


def test_checked_runs_that_spread_wider_do_not_make_acceptance_easier() -> None:
    """A change of exactly the tolerance; by the spread pooled over both sides alone, 16 % were accepted."""
    level, change = np.arctanh(0.5) - LEVEL, np.arctanh(0.6) - np.arctanh(0.5)
    runs = [
        (baseline + level, checked + level + change)
        for baseline, checked in runs_of(Case("", ((10, 3),) * 4, node=0.0, wider=3.0), 400, 9)
    ]
    found = [combine_nodes(each).these.verdict for each in verdicts_of(runs, alpha=0.05, tolerance=0.1)]
    assert np.mean([verdict == "unperturbed" for verdict in found]) <= 0.075


@pytest.mark.parametrize("wider", [1.0, 4.0])
def test_the_interval_of_one_node_is_that_of_the_host(wider: float) -> None:
    (of_host,) = verdicts_of(runs_of(Case("", ((10, 3),), wider=wider), 1, 10), alpha=0.05, tolerance=0.1)
    (there,), (here,) = (verdict.changes for verdict in (*of_host.values(), combine_nodes(of_host).these))
    assert (here.low, here.high) == pytest.approx((there.low, there.high))
