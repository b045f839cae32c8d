"""d-separation, beside a search over all paths."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.causal.lu_campaign import ALL, draw, knowledge
from unperturbed.analysis.causal import learn
from unperturbed.analysis.causal.discovery.adjacency import separates
from unperturbed.errors import DataError

NAMES = "abcdef"


def blocked(arrows, path, known):
    """Whether some inner variable blocks a path: a collider without a known descendant, or another that is known."""

    def descendants(name):
        return {name}.union(*(descendants(end) for start, end in arrows if start == name))

    for before, name, behind in zip(path, path[1:], path[2:], strict=False):
        collides = (before, name) in arrows and (behind, name) in arrows
        if collides != bool((descendants(name) if collides else {name}) & set(known)):
            return True
    return False


def separated_by_paths(arrows, one, other, known):
    adjacent = set(arrows) | {(end, start) for start, end in arrows}
    rest = [name for name in NAMES if name not in (one, other)]
    paths = ((one, *inner, other) for length in range(len(rest) + 1) for inner in permutations(rest, length))
    return all(blocked(arrows, path, known) for path in paths if all(step in adjacent for step in pairwise(path)))


@given(
    st.sets(st.sampled_from([(a, b) for a in NAMES for b in NAMES if a < b])), st.permutations(NAMES), st.integers(0, 4)
)
@settings(max_examples=150, deadline=None)
def test_equals_a_search_over_all_paths(arrows, names, count):
    one, other, *known = names[: 2 + count]
    assert separates(arrows, one, other, known) == separated_by_paths(arrows, one, other, known)


@pytest.mark.thorough
def test_a_model_is_asked_what_it_implies():
    model = learn(draw(0), knowledge(ALL), subsamples=0)
    assert model.separated("n", "T", ["ops", "C"])
    assert not model.separated("n", "T")
    assert model.separated("n", "datatype")
    assert not model.separated("n", "datatype", ["T"])  # which both cause
    with pytest.raises(DataError, match="no column 'm'"):
        model.separated("m", "T")
    assert model.separated("n", "T", ("ops", "C")) == model.separated("n", "T", ["C", "ops"])
    assert model.separated("n", "T", "ops") == model.separated("n", "T", ["ops"])
    with pytest.raises(DataError, match="must be different variables"):
        model.separated("n", "T", "n")
    with pytest.raises(DataError, match=r"\['n'\] has type list: give the name of one column, as a string"):
        model.separated(["n"], "T")
