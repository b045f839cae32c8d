"""Outer changes over nodes: against a slow twin, as on one host, and a fall by exactly the tolerance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.nodes.simulate import outer_verdict
from tests.analysis.perturbation import naive
from unperturbed.analysis.nodes.combine import combine_nodes
from unperturbed.analysis.perturbation import SHOWN
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher

ALPHA, TOLERANCE = 0.05, 0.1


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
    verdicts = {f"node{at}": outer_verdict(a, b, np.array([pairs])) for at, (a, b, pairs) in enumerate(nodes)}
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
    verdicts = {name: outer_verdict(reference, observed, np.zeros(2)) for name in ("a", "b")}
    same, fallen = combine_nodes(verdicts).these.changes
    assert same.verdict not in SHOWN and fallen.verdict == "perturbed"
    assert fallen.low < fallen.effect < fallen.high and np.isfinite(same.low)
