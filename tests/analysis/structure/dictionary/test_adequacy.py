from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.structure.planted import collapsed, planted, structureless
from unperturbed.analysis.structure.dictionary.adequacy import Null, adequacy_of, null_costs, shuffle_symbols
from unperturbed.analysis.structure.segmentation import decompose
from unperturbed.analysis.structure.symbols import encode


@given(st.text("abcd", max_size=40), st.booleans(), st.integers(0, 99))
def test_shuffling_keeps_counts_and_collapsed_runs(text, without_equals, seed):
    codes = encode(collapsed(text) if without_equals else text).codes
    made = shuffle_symbols(codes, np.random.default_rng(seed))
    assert sorted(made.tolist()) == sorted(codes.tolist())
    if not (codes[1:] == codes[:-1]).any():
        assert (made[1:] != made[:-1]).all()


@pytest.mark.parametrize("text", ["abcabcb", "abcacbc", "aabbc", "abacada"])
def test_all_orders_are_about_equally_likely(text):
    codes = encode(text).codes
    orders = set(permutations(codes.tolist()))
    if not (codes[1:] == codes[:-1]).any():
        orders = {order for order in orders if all(order[i] != order[i + 1] for i in range(len(order) - 1))}
    rng = np.random.default_rng(1)
    times = 200 * len(orders)
    seen = Counter(tuple(shuffle_symbols(codes, rng).tolist()) for _ in range(times))
    assert set(seen) == orders
    assert min(seen.values()) > 140  # a binomial of mean 200 has a standard deviation of 14
    assert max(seen.values()) < 260


def test_a_period_is_shuffled_too():
    codes = encode("abc" * 100).codes
    made = shuffle_symbols(codes, np.random.default_rng(2))
    assert 0.15 < (made[1:] == (made[:-1] + 1) % 3).mean() < 0.85  # 1 in the period, a half by chance


@pytest.mark.parametrize("noise", [0, 0.15, 0.25])
def test_the_words_of_a_sequence_are_adequate(noise):
    sequence, motifs = planted(11, noise)
    found = adequacy_of(sequence, motifs)
    assert found.is_adequate
    assert found.cost == decompose(sequence, motifs).cost <= found.bound
    assert found.bound == found.null_costs[0] - 1
    assert (np.diff(found.null_costs) >= 0).all()


@pytest.mark.thorough
def test_windows_of_a_sequence_without_structure_are_not():
    adequate = 0
    for seed in range(20):
        sequence = structureless(seed)
        starts = np.random.default_rng(seed).integers(0, 280, 3)
        adequate += adequacy_of(sequence, [sequence[start : start + 8] for start in starts.tolist()]).is_adequate
    assert adequate == 0  # they were not even chosen well


def test_words_from_elsewhere_are_judged_by_themselves():
    false_alarms = 0
    for seed in range(40):
        found = adequacy_of(structureless(seed), ["abcbd", "edcaeb"], null=Null(relearn=False, seed=seed))
        false_alarms += found.is_adequate
    assert false_alarms <= 6  # a binomial of 40 at .05 is above 6 with a chance below .01
    sequence, motifs = planted(12, 0.15)
    assert adequacy_of(sequence, motifs, null=Null(relearn=False)).is_adequate


def test_the_level_says_which_cost_counts():
    sequence, motifs = planted(13, 0.25)
    found = adequacy_of(sequence, motifs, null=Null(shuffles=39))
    assert found.bound == found.null_costs[1] - 1
    assert found.level == 0.05


def test_of_a_long_sequence_a_part_of_each_shuffle_stands_for_all():
    sequence, motifs = planted(14, 0.15, size=6000)
    found = adequacy_of(sequence, motifs, null=Null(relearn=False))
    exact = [
        decompose(
            shuffle_symbols(encode(sequence).codes, np.random.default_rng(seed)),
            [encode(sequence, [one]).words[0] for one in motifs],
        )
        for seed in range(3)
    ]
    assert found.null_costs.mean() == pytest.approx(np.mean([one.cost for one in exact]), rel=0.03)


def test_without_words_nothing_is_adequate():
    found = adequacy_of("abcabc", [])
    assert (found.cost, found.bound, found.is_adequate) == (6, 5, False)
    assert not adequacy_of("", []).is_adequate
    assert not adequacy_of("abcabc", [], bound=100).is_adequate


@given(
    st.text("abc", min_size=1, max_size=20),
    st.lists(st.text("abc", min_size=1, max_size=30), max_size=3),
    st.booleans(),
)
@settings(max_examples=20)
def test_any_words_and_sequences_have_a_bound(text, words, relearn):
    encoded = encode(text, words)
    costs = null_costs(encoded, Null(relearn=relearn))
    assert len(costs) == 19
    assert (costs >= 0).all()
    if not words:
        assert (costs == len(text)).all()


def test_words_of_more_symbols_than_lanes_have_bits():
    sequence = structureless(15, size=200)
    assert len(null_costs(encode(sequence, [sequence[:90], sequence[20:25]]), Null())) == 19


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0.0}, r"`level` is 0\.0: use a probability above 0 and below 1"),
        ({"shuffles": 18}, r"`shuffles` is 18, too few for `level` 0\.05: use 19 or more"),
        ({"level": 0.01}, r"`shuffles` is 19, too few for `level` 0\.01: use 99 or more"),
    ],
)
def test_a_level_that_cannot_be_told_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Null(**options)
