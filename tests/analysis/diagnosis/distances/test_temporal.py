import dataclasses
import itertools
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.diagnosis.distances import naive_distances as naive
from unperturbed.analysis.diagnosis.distances import kernels, temporal_search
from unperturbed.analysis.diagnosis.distances.temporal import temporal_distance
from unperturbed.analysis.diagnosis.distances.temporal_search import search
from unperturbed.analysis.diagnosis.events import EventTrace
from unperturbed.errors import DataError

VARIANTS = ("gaps", "paper", "mannila")


def trace_of(pairs, **what):
    return EventTrace.from_pairs(pairs, **what)


def made(times, names):
    return list(zip(itertools.accumulate(times), names, strict=True))


@st.composite
def pairs(draw, most=30, names="abcd", longest=12):
    size = draw(st.integers(0, most))
    gaps = draw(st.lists(st.integers(0, longest), min_size=size, max_size=size))
    return made(gaps, draw(st.lists(st.sampled_from(names), min_size=size, max_size=size)))


costs = st.sampled_from(
    [
        (Fraction(1), {}),
        (Fraction(1, 3), {}),
        (Fraction(0), {}),
        (Fraction(3, 10), {"a": 0.7, "b": 2.5, "c": 0.15}),
        (Fraction(2), {}),
    ]
)


def cells_of(one, other, variant, move_cost=Fraction(1, 3), weights=None):
    """The cells as the distance makes them."""
    a, b = trace_of(one), trace_of(other)
    kinds = {kind: Fraction(1) for kind in (*a.types, *b.types)}
    return temporal_search.cells_of(a, b, weights or kinds, move_cost, variant)


@pytest.mark.parametrize("variant", VARIANTS)
@given(one=pairs(), other=pairs(), cost=costs, band=st.none() | st.integers(0, 8))
@settings(max_examples=150, deadline=None)
def test_the_distance_and_its_script_are_the_naive_twins(variant, one, other, cost, band):
    move_cost, weights = cost

    weight = {name: Fraction(str(weights.get(name, 1.0))) for name in "abcd"}.__getitem__
    expected = naive.temporal(one, other, move_cost, weight, variant, band)
    found = temporal_distance(
        trace_of(one), trace_of(other), move_cost=move_cost, weight=weights, variant=variant, band=band
    )
    assert found.total == float(expected)
    if band is not None and found.exact:
        assert expected == naive.temporal(one, other, move_cost, weight, variant)
    script = found.script()
    assert script.cost_in_time + script.cost_in_events == pytest.approx(found.total)
    operations = list(script.operations())
    assert sum(operation.cost for operation in operations) == pytest.approx(found.total)
    assert sum(script.by_type().values()) == pytest.approx(found.total)
    assert (np.diff(script.matches, axis=0) > 0).all()
    names = [
        [kind.name for kind in map(trace.types.__getitem__, trace.events)] for trace in (script.reference, script.trace)
    ]
    assert all(names[0][i] == names[1][j] for i, j in script.matches.tolist())


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("narrow", [False, True])
@given(one=pairs(80), other=pairs(80), band=st.none() | st.tuples(st.integers(-90, 10), st.integers(-10, 90)))
@settings(max_examples=150, deadline=None)
def test_all_ways_to_compute_the_cells_agree(variant, narrow, one, other, band):
    cells = cells_of(one, other, variant)
    if not min(cells.shape):
        return
    if band is not None:
        cells = dataclasses.replace(cells, band=band)
    dense = dataclasses.replace(cells, is_sparse=False, narrow=narrow).saved()
    sparse = dataclasses.replace(cells, is_sparse=True).saved()
    assert dense.tolist() == sparse.tolist()
    assert cells.backwards.saved()[-1] == dense[-1]
    matched = cells.matched()
    rows = np.flatnonzero(matched >= 0)
    assert (cells.reach[rows] - cells.costs(rows, matched[rows])).sum() == dense[-1]


def random_pairs(chance, size, types, longest):
    names = chance.integers(0, types, size)
    return made(chance.integers(0, longest, size).tolist(), [f"p{name % 3}:{name}" for name in names])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("sizes", "types", "longest"),
    [((2500, 3100), 3, 12), ((3000, 1100), 40, 200), ((1, 3000), 3, 9), ((2100, 2100), 900, 5)],
)
def test_long_traces_over_many_strips_agree(variant, sizes, types, longest):
    chance = np.random.default_rng(7)
    one, other = (random_pairs(chance, size, types, longest) for size in sizes)
    cells = cells_of(one, other, variant, Fraction(1, 9))
    kept = [
        dataclasses.replace(cells, is_sparse=sparse, narrow=narrow)
        for sparse, narrow in ((False, True), (False, False), (True, True))
    ]
    for part in (cells.band, (-300, 250), (min(0, sizes[1] - sizes[0]) - 40, max(0, sizes[1] - sizes[0]) + 40)):
        narrow, wide, sparse = (dataclasses.replace(made, band=part).saved() for made in kept)
        assert narrow.tolist() == wide.tolist() == sparse.tolist()
        backwards = dataclasses.replace(kept[0], band=part).backwards
        assert backwards.saved()[-1] == narrow[-1]
    for made_of in kept:
        found = search(made_of, None)
        assert len(temporal_search.best_matches(found)) > 0


@pytest.mark.parametrize("variant", ["gaps", "mannila"])
def test_matching_cells_alone_are_gone_through_where_they_are_few(variant):
    chance = np.random.default_rng(2)
    few, many = ([random_pairs(chance, 3000, types, 1000) for _ in range(2)] for types in (2, 3000))
    assert cells_of(*many, variant, Fraction(1, 10**6)).is_sparse
    assert not cells_of(*few, variant, Fraction(1, 10**6)).is_sparse


def test_the_choice_of_32_bits_knows_how_many_rows_a_strip_has():
    assert temporal_search._STRIP_ROWS == kernels._ROWS


def test_the_script_is_found_in_parts_too(monkeypatch):
    monkeypatch.setattr(temporal_search, "_WHOLE_CELLS", 40)
    chance = np.random.default_rng(3)
    for variant in VARIANTS:
        for size in (2, 17, 120):
            one, other = (random_pairs(chance, size + more, 4, 9) for more in (0, 5))
            found = temporal_distance(trace_of(one), trace_of(other), move_cost=Fraction(1, 4), variant=variant)
            script = found.script()
            assert script.cost_in_time + script.cost_in_events == pytest.approx(found.total)


def test_a_band_that_is_proven_gives_the_distance_of_all_cells(monkeypatch):
    monkeypatch.setattr(temporal_search, "_WORTH_A_BAND", 0)
    monkeypatch.setattr(temporal_search, "_FIRST_BAND", 8)
    chance = np.random.default_rng(5)
    one = random_pairs(chance, 1500, 5, 1000)
    other = [(time + int(chance.integers(0, 3)), name) for number, (time, name) in enumerate(one) if number % 400]
    other.sort(key=lambda pair: pair[0])
    cells = dataclasses.replace(cells_of(one, other, "gaps", Fraction(1, 1000)), is_sparse=False)
    found = search(cells, None)
    assert found.exact
    assert found.cells.band[1] < 100
    assert found.saved == int(cells.saved()[-1])


# The paper's pictures are not in its text; these traces fit what the text says of them.
MOVES = [(2, "It"), (4, "It")], [(1, "It"), (2, "It"), (5, "U")]


def test_example_3_a_move_keeps_the_order():
    one, other = trace_of([(2, "CS"), (3, "It")]), trace_of([(1, "It"), (2, "CS")])
    found = temporal_distance(one, other, move_cost=1, weight=5, variant="mannila")
    assert found.total == 10  # moving It from 3 to 1 would cost 2, but it would pass CS
    assert {operation.kind for operation in found.script().operations()} == {"delete", "insert"}


def test_example_4_costs_two_moves_and_an_insertion():
    one, other = map(trace_of, MOVES)
    found = temporal_distance(one, other, move_cost=1, weight={"It": 2, "U": 7}, variant="mannila")
    assert found.total == 3 * 1 + 7
    moves = [(o.kind, o.event.name, o.time, o.new_time, o.cost) for o in found.script().operations()]
    assert moves == [("move", "It", 2, 1, 1.0), ("move", "It", 4, 2, 2.0), ("insert", "U", None, 5, 7.0)]


@pytest.mark.parametrize("variant", ["paper", "gaps"])
def test_definition_4_gives_example_4_another_value(variant):
    one, other = map(trace_of, MOVES)
    assert temporal_distance(one, other, move_cost=1, weight={"It": 2, "U": 7}, variant=variant).total == 1 + 7


def test_example_5_a_shift_costs_nothing_but_in_mannilas_distance():
    one = trace_of([(1, "It"), (3, "CS"), (4, "It")])
    other = trace_of([(6, "It"), (8, "CS"), (9, "It")])
    totals = [temporal_distance(one, other, move_cost=1, weight=4, variant=variant).total for variant in VARIANTS]
    assert totals == [0, 0, 15]


@pytest.mark.parametrize("variant", VARIANTS)
@given(one=pairs(most=14), other=pairs(most=14), third=pairs(most=14), shift=st.integers(0, 10**12))
@settings(max_examples=80, deadline=None)
def test_what_holds_of_a_metric_and_what_does_not(variant, one, other, third, shift):
    a, b, c = map(trace_of, (one, other, third))

    def distance(x, y):
        return temporal_distance(x, y, move_cost=Fraction(1, 4), variant=variant).total

    assert distance(a, a) == 0
    assert distance(a, b) == distance(b, a) >= 0
    if variant != "paper":  # its cost asks whether i = j, which is not carried from pair to pair
        assert distance(a, c) <= distance(a, b) + distance(b, c)
    if variant != "mannila":
        assert distance(a, trace_of([(time + shift, name) for time, name in one])) == 0


def test_definition_4_breaks_the_triangle_inequality():
    first, between, last = map(
        trace_of, ([(5, "a"), (7, "b"), (9, "a")], [(2, "b"), (7, "a")], [(5, "b"), (5, "b"), (10, "a")])
    )

    def distance(one, other):
        return temporal_distance(one, other, move_cost=Fraction(1, 4), variant="paper").total

    assert distance(first, last) == 3.25
    assert distance(first, between) + distance(between, last) == 2.75


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_distance_grows_with_sleep(variant):
    reference = trace_of([(40 * number, name) for number, name in enumerate("dcfqdcfq" * 20)], unit="ms")

    def slept(each):
        return trace_of(
            [(40 * number + each * (number // 4), name) for number, name in enumerate("dcfqdcfq" * 20)], unit="ms"
        )

    totals = [temporal_distance(reference, slept(each), variant=variant).total for each in (0, 1, 5, 30, 80)]
    assert totals[0] == 0
    assert (np.diff(totals) > 0).all()


def test_one_inserted_event_ruins_what_follows_in_the_papers_variant_alone():
    events = [(100 * number + (number * number) % 37, "abc"[number % 3]) for number in range(300)]
    inserted = [*events[:1], (50, "u"), *((time + 60, name) for time, name in events[1:])]
    totals = {
        variant: temporal_distance(
            trace_of(events), trace_of(inserted), move_cost=Fraction(1, 100), variant=variant
        ).total
        for variant in ("gaps", "paper")
    }
    assert totals["gaps"] == pytest.approx(1 + 0.01 * abs(events[1][0] - (events[1][0] + 60 - 50)))
    assert totals["paper"] > 100


def test_the_default_is_the_same_in_every_unit_and_weighs_a_tenth_of_a_second_as_much_as_an_event_lost_and_found():
    pairs_ms = [(0, "a"), (10, "b"), (40, "a")], [(0, "a"), (30, "b"), (60, "a")]
    totals = [
        temporal_distance(
            *(trace_of([(time * factor, name) for time, name in one], unit=unit) for one in pairs_ms)
        ).total
        for unit, factor in (("ms", 1), ("us", 10**3), ("ns", 10**6))
    ]
    assert totals == [pytest.approx(2 * 20 / 100)] * 3
    unknown = temporal_distance(*(trace_of([(time * 7, name) for time, name in one]) for one in pairs_ms))
    assert unknown.total == pytest.approx(2 * 20 / 60)


def test_plugins_are_compared_each_by_itself():
    one = trace_of([(0, "v:a"), (1, "w:a"), (2, "v:b"), (3, "w:b")])
    other = trace_of([(0, "v:a"), (1, "w:a"), (2, "v:b"), (9, "w:b"), (10, "x:c")])
    found = temporal_distance(one, other, move_cost=Fraction(1, 10))
    alone = {
        plugin: temporal_distance(one.of(plugin), other.of(plugin), move_cost=Fraction(1, 10)).total for plugin in "vwx"
    }
    assert found.by_plugin == alone == {"v": 0, "w": 0.6, "x": 1}
    only = temporal_distance(one, other, move_cost=Fraction(1, 10), per_plugin="only")
    assert only.by_plugin == alone
    assert only.total == 1.6
    assert not temporal_distance(one, other, per_plugin=False).by_plugin
    with pytest.raises(DataError, match="only single plugins were compared"):
        only.script()


@pytest.mark.parametrize("variant", VARIANTS)
def test_empty_and_one_event_traces_are_defined(variant):
    empty, one, late = trace_of([]), trace_of([(5, "a")]), trace_of([(9, "a")])

    def total(x, y):
        found = temporal_distance(x, y, move_cost=Fraction(1, 10), variant=variant)
        assert sum(operation.cost for operation in found.script().operations()) == found.total
        return found.total

    assert total(empty, empty) == 0
    assert total(empty, one) == total(one, empty) == 1
    assert total(one, late) == (0.4 if variant == "mannila" else 0)
    assert temporal_distance(empty, empty).normalised == 0
    assert temporal_distance(empty, one).normalised == 0.5


def test_what_is_refused_says_why():
    one = trace_of([(0, "a"), (4, "b")], unit="ms", name="good.log")
    with pytest.raises(ValueError, match=r"`move_cost` is 3 per tick, more than twice the weight of a, 1; deleting"):
        temporal_distance(one, one, move_cost=3)
    with pytest.raises(ValueError, match=r"`move_cost` is 0.3 per tick, more than twice the weight of b, 0.1"):
        temporal_distance(one, one, move_cost=0.3, weight={"b": 0.1})
    with pytest.raises(DataError, match=r"good.log in ms and bad.log in us"):
        temporal_distance(one, trace_of([(0, "a")], unit="us", name="bad.log"))
    with pytest.raises(ValueError, match="the weight of b is -1"):
        temporal_distance(one, one, weight={"b": -1})
    with pytest.raises(ValueError, match="a finite number"):
        temporal_distance(one, one, move_cost=float("nan"))
    with pytest.raises(ValueError, match=r"`band` is .*: use a number of events, 0 or more"):
        temporal_distance(one, one, band=-1)
    with pytest.raises(ValueError, match="unknown variant 'dtw': use one of gaps, paper, mannila"):
        temporal_distance(one, one, variant="dtw")
    far = trace_of([(0, "a"), (1 << 60, "a")])
    with pytest.raises(DataError, match="differ too much"):
        temporal_distance(far, far, move_cost=1e-15, weight={"a": 1e9}, variant="mannila")


def test_costs_without_a_common_unit_are_rounded_by_less_than_it_matters():
    chance = np.random.default_rng(11)
    one, other = random_pairs(chance, 60, 4, 10**9), random_pairs(chance, 70, 4, 10**9)
    weights = {f"p{name % 3}:{name}": float(chance.random() + 1) for name in range(4)}
    found = temporal_distance(trace_of(one), trace_of(other), move_cost=1.2345678901234e-9, weight=weights)
    expected = naive.temporal(one, other, Fraction(1.2345678901234e-9), lambda name: Fraction(weights[name]), "gaps")
    assert found.total == pytest.approx(float(expected), rel=1e-9)


def test_long_pauses_and_epoch_timestamps_do_not_widen_the_numbers():
    start = 1_700_000_000 * 10**9
    one = [(start + 10**6 * number + (10**12 if number > 50 else 0), "ab"[number % 2]) for number in range(100)]
    found = temporal_distance(trace_of(one, unit="ns"), trace_of(one[1:], unit="ns"))
    assert found._path is not None
    assert found._path.cells.narrow
    assert found.total == 1.02  # the first event is gone, and with it the gap before the second


def test_a_comparison_that_takes_minutes_says_so(monkeypatch, caplog):
    for name in ("_WORTH_A_BAND", "_WORTH_A_WORD"):
        monkeypatch.setattr(temporal_search, name, 0)
    caplog.set_level("INFO", "unperturbed.analysis.diagnosis")
    search(dataclasses.replace(cells_of([(0, "a"), (4, "b")], [(0, "b")], "gaps"), is_sparse=False), None)
    assert "comparing 2 × 1 events, which takes minutes; a band, or comparing plugins only, is faster" in caplog.text


SCRIPTED = SimpleNamespace(one=[(0, "a"), (10, "b"), (20, "c")], other=[(0, "a"), (14, "b"), (24, "c"), (30, "d")])


def test_a_script_says_what_moved_and_by_how_much():
    script = temporal_distance(trace_of(SCRIPTED.one), trace_of(SCRIPTED.other), move_cost=0.1).script()
    assert script.cost_in_time == pytest.approx(0.4)
    assert script.cost_in_events == 1
    assert [kind.name for kind in script.by_type()] == ["d", "b"]
    assert [operation.kind for operation in script.operations(least_cost=0.5)] == ["insert"]
    assert script.deleted.tolist() == []
    assert script.inserted.tolist() == [3]
