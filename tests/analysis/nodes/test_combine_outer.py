"""Outer changes over nodes: against a slow twin, as on one host, and a fall by exactly the tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis import simulate
from tests.analysis.perturbation import naive
from unperturbed.analysis.nodes.combine import combine_nodes
from unperturbed.analysis.perturbation import SHOWN, Verdict
from unperturbed.analysis.perturbation.compare_outer import compare_outer_runs, pair_variance, reference_outer_rho
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
from unperturbed.analysis.perturbation.decide import decide
from unperturbed.analysis.perturbation.verdict import RunGroup, changes_from_comparison

ALPHA, TOLERANCE = 0.05, 0.1


def verdict_of(reference: FloatArray, observed: FloatArray, of_pairs: FloatArray, intervals: int = 300) -> Verdict:
    """Return a node's verdict on outer values, shape (runs, metrics)."""
    groups = [
        RunGroup(name, tuple(f"{name}-{at}" for at in range(len(rho))), rho)
        for name, rho in (("baseline", reference), ("x", observed))
    ]
    compared = compare_outer_runs(reference, observed, of_pairs, intervals=intervals, alpha=ALPHA)
    labels = [(f"M{at}", f"M{at}") for at in range(reference.shape[1])]
    changes = decide(changes_from_comparison("outer", labels, *groups, compared, tolerance=TOLERANCE), alpha=ALPHA)
    return Verdict("x", "baseline", changes[0].verdict, changes, alpha=ALPHA, tolerance=TOLERANCE)


def around(rng: np.random.Generator, rho: float, runs: int, spread: float) -> FloatArray:
    return from_fisher(fisher(np.full((runs, 1), rho)) + spread * rng.standard_normal((runs, 1)))


@given(
    st.lists(st.tuples(st.integers(5, 12), st.integers(1, 6)), min_size=1, max_size=4),
    st.sampled_from([0.1, 0.5, 0.9, 0.99, 0.9995]),
    st.floats(-0.5, 1),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_equals_the_textbook(shares: Sequence[tuple[int, int]], rho: float, kept: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [(around(rng, rho, k, 0.1), around(rng, kept * rho, r, 0.3), rng.choice([0.0, 0.01])) for k, r in shares]
    verdicts = {f"node{at}": verdict_of(a, b, np.array([pairs])) for at, (a, b, pairs) in enumerate(nodes)}
    found = combine_nodes(verdicts).these.changes[0]
    twins = [(a[:, 0].tolist(), b[:, 0].tolist(), pairs / (len(a) * (len(a) - 1))) for a, b, pairs in nodes]
    expected = naive.outer_on_nodes(twins, ALPHA, TOLERANCE)
    assert (found.low, found.high, found.p_beyond) == pytest.approx(expected, rel=1e-5, abs=1e-7)
    if len(nodes) == 1:
        alone = verdicts["node0"].changes[0]
        assert (found.low, found.high, found.p, found.p_beyond) == pytest.approx(
            (alone.low, alone.high, alone.p, alone.p_beyond), rel=1e-6, abs=1e-9
        )


def test_baselines_without_a_spread_show_a_fall_and_no_change_where_there_is_none() -> None:
    reference = np.full((5, 2), 0.9)
    observed = np.array([[0.9, 0.3], [0.9, 0.31], [0.9, 0.3]])
    verdicts = {name: verdict_of(reference, observed, np.zeros(2)) for name in ("a", "b")}
    same, fallen = combine_nodes(verdicts).these.changes
    assert same.verdict not in SHOWN and fallen.verdict == "perturbed"
    assert fallen.low < fallen.effect < fallen.high and np.isfinite(same.low)


def test_a_fall_by_the_tolerance_is_seldom_decided_and_a_large_one_is_found() -> None:
    # Runs of a program and noise, which varies by a factor of e^.3; four nodes. With one spread at all levels, 47 % of
    # such campaigns called a fall perturbed, and 19 % of the falls were called unperturbed.
    rng, rho, spread, metrics, campaigns, k, r = np.random.default_rng(4), 0.999, 0.3, 2, 40, 10, 3
    own = simulate.noise_for(rho)
    noises = {"tolerance": simulate.noise_for(rho, rho - TOLERANCE), "large": simulate.noise_for(rho, rho - 0.3)}
    nodes = []
    for _ in range(4):
        z: dict[str, list[FloatArray]] = {"reference": [], "tolerance": [], "large": []}
        for program in rng.standard_normal((metrics, 300)):
            runs = simulate.noisy_ranks(rng, campaigns, program, own, spread, k)
            groups = {
                name: simulate.noisy_ranks(rng, campaigns, program, each, spread, r) for name, each in noises.items()
            }
            for name, others in {"reference": runs, **groups}.items():
                z[name].append(fisher(np.einsum("cin,cjn->ijc", runs, others)))
            z["reference"][-1][range(k), range(k)] = 0
        nodes.append({name: np.stack(each, axis=-1) for name, each in z.items()})
    within = np.mean([one["reference"].sum(axis=(0, 1, 2)) / (k * (k - 1) * campaigns) for one in nodes], axis=0)
    across = np.mean([one["tolerance"].mean(axis=(0, 1, 2)) for one in nodes], axis=0)
    tolerances = from_fisher(within) - from_fisher(across)
    wrong: dict[str, list[float]] = {"perturbed": [], "unperturbed": [], "found": []}
    for at in range(campaigns):
        for name in noises if at < 10 else ("tolerance",):
            verdicts = {}
            for node, one in enumerate(nodes):
                matrix, observed = one["reference"][:, :, at], from_fisher(one[name][:, :, at].mean(axis=0))
                verdict = verdict_of(reference_outer_rho(matrix), observed, pair_variance(matrix))
                edges = tolerances if name == "tolerance" else np.full(metrics, TOLERANCE)
                changes = (replace(change, tolerance=edge) for change, edge in zip(verdict.changes, edges, strict=True))
                verdicts[f"node{node}"] = replace(verdict, changes=tuple(changes))
            names = [change.verdict for change in combine_nodes(verdicts).these.changes]
            if name == "tolerance":
                wrong["perturbed"].append("perturbed" in names)
                wrong["unperturbed"].append(float(np.mean([each == "unperturbed" for each in names])))
            else:
                wrong["found"].append(names[0] == "perturbed")
    assert np.mean(wrong["perturbed"]) <= 0.05 + 2 * np.sqrt(0.05 / campaigns)
    assert np.mean(wrong["unperturbed"]) <= 0.05 + 2 * np.sqrt(0.05 / campaigns)
    assert np.mean(wrong["found"]) >= 0.9
