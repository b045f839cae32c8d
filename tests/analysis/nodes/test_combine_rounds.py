"""Verdicts over nodes within rounds: against a slow twin, as on one host, and on twins that share a round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, variance

import numpy as np
import pytest
from scipy import stats

from experiments.calibration.nodes import node_in_rounds
from experiments.calibration.rounds import Check, InRounds, draw_in_rounds
from tests.analysis import simulate
from tests.analysis.perturbation import naive
from unperturbed.analysis.nodes.combine import combine_nodes
from unperturbed.analysis.perturbation import Baseline, Change, Verdict
from unperturbed.collectors.data import Trace

ALPHA, TOLERANCE = 0.05, 0.1
SHARES = ((10, 5), (6, 6), (9, 7))
"""Baseline runs and checked runs of each node."""


def within_rounds(nodes: Sequence[InRounds], metric: int) -> tuple[float, float, float, float, int]:
    """Effect, low, high and p of one metric's change within the rounds of all nodes, by loops."""
    runs = []
    for node in nodes:
        before = [naive.fisher(rho) for rho in node.reference[:, metric].tolist()]
        after = [naive.fisher(rho) for rho in node.observed[:, metric].tolist()]
        runs.append((before, [before[at] for at in node.rounds], after))
    weights = [len(before) * len(after) / (len(before) + len(after)) for before, _, after in runs]
    share = [weight / sum(weights) for weight in weights]
    start = change = 0.0
    variances = []
    for of, node, (before, own, after) in zip(share, nodes, runs, strict=True):
        differences = [z - partner for z, partner in zip(after, own, strict=True)]
        level, moved = fmean(before), fmean(differences)
        start, change = start + of * level, change + of * moved
        rho, rho_after = naive.from_fisher(level), naive.from_fisher(level + moved)
        ratio = naive.slope(rho_after) / naive.slope(rho)
        if node.of_pairs is None:
            spreads = [variance([naive.fisher(rho) for rho in column]) for column in node.reference.T.tolist()]
            hidden = (1 - ratio) ** 2 * max(variance(before), fmean(spreads) / 2) / len(before)
        else:
            follows = min(1.0, rho_after * ratio / rho)
            hidden = node.of_pairs[metric] / (len(before) - 1) ** 2
            hidden += (1 - follows) ** 2 * variance(before) / len(before)
        least = (variance(own) + variance(after)) / 16
        variances.append(max(variance(differences), least) / len(after) + hidden)
    freedoms = [len(after) - 1 for *_, after in runs]
    of_a_round = [known * len(after) for known, (*_, after) in zip(variances, runs, strict=True)]
    pooled = sum(known * freedom for known, freedom in zip(of_a_round, freedoms, strict=True)) / sum(freedoms)
    together = sum(of**2 * pooled / len(after) for of, (*_, after) in zip(share, runs, strict=True))
    parts = [of**2 * known for of, known in zip(share, variances, strict=True)]
    freedom = sum(parts) ** 2 / sum(part**2 / known for part, known in zip(parts, freedoms, strict=True))
    errors = [(0.0, together, sum(freedoms)), (0.0, sum(parts), freedom)]
    low, high = naive.widest(start, start + change, errors, ALPHA / 2)
    p = min(1.0, 2 * 2 * float(stats.t.sf(abs(change) / math.sqrt(together), sum(freedoms))))
    return naive.from_fisher(start + change) - naive.from_fisher(start), low, high, p, sum(freedoms)


@pytest.mark.parametrize("check", ["inner", "outer"])
@pytest.mark.parametrize("fall", [0.0, 0.1])
def test_equals_the_textbook(check: Check, fall: float) -> None:
    rng = np.random.default_rng([1, check == "outer", round(10 * fall)])
    nodes = [draw_in_rounds(rng, check, "normal", 0.9, runs, fall) for runs in SHARES]
    combined = combine_nodes({str(at): node_in_rounds(node, check, TOLERANCE) for at, node in enumerate(nodes)})
    compared = 0
    for metric, change in enumerate(combined.these.changes):
        assert change.designs == 2
        *expected, freedom = within_rounds(nodes, metric)
        if change.freedom == freedom:
            compared += 1
            assert (change.effect, change.low, change.high, change.p) == pytest.approx(expected, rel=1e-6, abs=1e-9)
            partners = [change.reference_runs[at] for at in change.partners]
            assert partners == [f"a{at}" for node in nodes for at in node.rounds]
        else:
            assert change.high - change.low <= expected[2] - expected[1]
    assert compared >= 3


@pytest.mark.parametrize(("check", "shared"), [("inner", 0.99), ("outer", 0.0), ("outer", 0.6), ("outer", 0.99)])
def test_one_node_is_one_host(check: Check, shared: float) -> None:
    """Inner changes by the comparison of independent runs are left out: on one host, Welch's interval counts too."""
    node = draw_in_rounds(np.random.default_rng(2), check, "normal", shared, (10, 5), 0.1)
    alone = node_in_rounds(node, check, TOLERANCE)
    joint = combine_nodes({"node": alone}).these
    for change, own in zip(joint.changes, alone.changes, strict=True):
        assert (change.freedom, change.designs, change.partners) == (own.freedom, own.designs, own.partners)
        assert (change.effect, change.low, change.high, change.p, change.p_beyond, change.standard_error) == (
            pytest.approx((own.effect, own.low, own.high, own.p, own.p_beyond, own.standard_error), rel=1e-6, abs=1e-9)
        )


def of_equal_work(program: simulate.Program, node: int, configuration: str, rounds: int, own: float) -> list[Trace]:
    """Runs that differ by their rounds, and a share `own` of one metric's counts by which configurations differ."""
    runs = []
    for block in range(rounds):
        trace = simulate.run(
            program, np.random.default_rng([node, block]), name=f"{configuration}-{block}", configuration=configuration
        )
        columns = {name: trace[name].copy() for name in trace.metrics}
        noise = np.random.default_rng([node, block, configuration == "x"]).normal(size=len(trace))
        columns["H0"] = (columns["H0"] * np.exp(own * noise)).astype(np.int64)
        shared = {"clock": "work", "block": block, "environment_pad_bytes": 16 * block}
        runs.append(
            Trace.from_columns(
                list(trace.metrics.values()),
                columns,
                begin_ns=trace.begin_ns,
                end_ns=trace.end_ns,
                attributes={**trace.attributes, **shared},
            )
        )
    return runs


def outer_by_node(own: float, checked: int, nodes: int = 2) -> dict[str, Verdict]:
    """A against A of equal work, in the same rounds, on each node."""
    rng = np.random.default_rng(3)
    program = simulate.program(rng, correlation=simulate.equicorrelated(3, 0.3), intervals=120, shared=0.6)
    return {
        f"node{node}": Baseline(of_equal_work(program, node, "a", 6, own), metrics=program.names).outer(
            of_equal_work(program, node, "x", 6, own)[:checked],
            align_on=("PAPI_TOT_INS",),
            anchor=simulate.MILESTONE,
        )
        for node in range(nodes)
    }


@pytest.mark.parametrize("checked", [6, 5, 3])
def test_a_run_is_not_correlated_with_its_twin(checked: int) -> None:
    """Runs that are equal within a round have equal values, on one host and on nodes, with however few rounds."""
    verdicts = outer_by_node(0.0, checked)
    for verdict in verdicts.values():
        for change in verdict.changes:
            assert change.observed == pytest.approx(change.reference[:checked], abs=1e-12)
    for change in combine_nodes(verdicts).these.changes:
        assert change.designs == (2 if checked >= 5 else 1)
        if checked != 3:
            assert change.effect == pytest.approx(0, abs=1e-9)


def test_the_mean_change_lies_among_the_changes_of_the_nodes() -> None:
    verdicts = outer_by_node(0.2, 6)
    for change in combine_nodes(verdicts).these.changes:
        effects = [own.effect for own in changes_of(verdicts, change)]
        assert min(effects) - 1e-3 <= change.effect <= max(effects) + 1e-3
        assert max(map(abs, effects)) < 0.05


def changes_of(verdicts: dict[str, Verdict], change: Change) -> list[Change]:
    """Return a change of each node."""
    return [own for verdict in verdicts.values() for own in verdict.changes if own.first == change.first]


def test_the_type_of_node_is_judged_by_the_differences_within_rounds() -> None:
    rng = np.random.default_rng(4)
    nodes = [draw_in_rounds(rng, "inner", "normal", 0.99, (10, 5), 0.0) for _ in range(4)]
    of_type = combine_nodes({str(at): node_in_rounds(node, "inner", TOLERANCE) for at, node in enumerate(nodes)}).type
    assert of_type is not None
    for metric, change in enumerate(of_type.changes):
        differences = [
            fmean(
                naive.fisher(float(after)) - naive.fisher(float(node.reference[at, metric]))
                for after, at in zip(node.observed[:, metric], node.rounds, strict=True)
            )
            for node in nodes
        ]
        assert change.p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, rel=0.02)
        assert change.low < change.effect < change.high


def test_a_node_without_rounds_leaves_the_others_independent() -> None:
    rng = np.random.default_rng(5)
    nodes = [draw_in_rounds(rng, "inner", "normal", 0.9, (10, 5), 0.0) for _ in range(2)]
    first, second = (node_in_rounds(node, "inner", TOLERANCE) for node in nodes)
    alone = replace(
        second,
        changes=tuple(
            replace(each, partners=(), designs=1, standard_error=each.independent_error, freedom=13.0)
            for each in second.changes
        ),
    )
    joint = combine_nodes({"a": first, "b": alone}).these
    both = combine_nodes({"a": first, "b": second}).these
    assert [change.designs for change in joint.changes] == [1] * len(joint.changes)
    assert [change.freedom for change in joint.changes] == [26.0] * len(joint.changes)
    assert all(change.designs == 2 for change in both.changes)
