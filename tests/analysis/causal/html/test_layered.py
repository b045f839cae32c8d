"""Places for the nodes of a graph: layers, crossings, nothing on top of anything else."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from unperturbed.analysis.causal.html.graph import layered

ARROWS = st.integers(1, 9).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] != pair[1]),
            unique=True,
        ),
    )
)


@given(ARROWS)
@settings(max_examples=150, deadline=None)
def test_nothing_overlaps_and_arrows_lead_right(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, arrows = graph
    laid = layered([80.0] * count, arrows)
    assert len(laid.middles) == count
    for one, other in combinations(range(count), 2):
        (x0, y0), (x1, y1) = laid.middles[one], laid.middles[other]
        assert abs(x0 - x1) >= 80 or abs(y0 - y1) >= 57.9
    for x, y in laid.middles:
        assert 40 <= x <= laid.width - 40
        assert 17 <= y <= laid.height - 17
    forward = [(source, target) for source, target in arrows if source < target]
    straight = layered([80.0] * count, forward)
    assert all(straight.layers[source] < straight.layers[target] for source, target in forward)
    for (source, target), route in zip(arrows, laid.routes, strict=True):
        assert (route[0], route[-1]) == (laid.middles[source], laid.middles[target])
        passed = max(0, abs(laid.layers[source] - laid.layers[target]) - 1)
        assert len(route) == 2 + 2 * passed
        for x, y in route[1:-1]:  # around the nodes of the layers that it passes through
            assert all(abs(y - other) >= 41.9 or abs(x - middle) > 40.1 for middle, other in laid.middles)


def test_tiers_are_kept_where_arrows_allow() -> None:
    laid = layered([80.0] * 4, [(0, 1)], [[2], [0], [1, 3]])
    assert laid.layers[2] < laid.layers[0] < laid.layers[1]
    assert laid.layers[3] > laid.layers[0]
    against = layered([80.0] * 2, [(0, 1)], [[1], [0]])
    assert against.layers == (0, 1)


def test_crossings_that_need_not_be_are_undone() -> None:
    laid = layered([80.0] * 6, [(0, 5), (1, 4), (2, 3)])
    order = sorted(range(3), key=lambda node: laid.middles[node][1])
    assert [5 - node for node in order] == sorted((3, 4, 5), key=lambda node: laid.middles[node][1])


def test_no_nodes_and_no_arrows() -> None:
    assert layered([], []).middles == ()
    assert layered([80.0], []).layers == (0,)
