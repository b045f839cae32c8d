from collections import Counter
from functools import cache
from itertools import pairwise
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.diagnosis.distances.blocks import _PAIRS, abstract, learn_blocks
from unperturbed.analysis.diagnosis.distances.counts import dropping_distance, occurrence_distance
from unperturbed.analysis.diagnosis.distances.temporal import temporal_distance
from unperturbed.analysis.diagnosis.events import EventTrace, EventType
from unperturbed.errors import DataError


def trace_of(text, step=10):
    return EventTrace.from_pairs([(number * step, name) for number, name in enumerate(text)], unit="ms")


def names(abstracted):
    return [abstracted.trace.types[number].name for number in abstracted.trace.events]


def fewest(text, blocks):
    @cache
    def rest(start):
        if start == len(text):
            return 0
        ways = [len(block) for block in blocks if block and text.startswith(block, start)]
        return 1 + min(rest(start + length) for length in {1, *ways})

    return rest(0)


def test_a_block_stands_at_the_time_of_its_first_event():
    found = abstract(trace_of("xabcab"), [tuple("abc"), ("a", EventType("b"))])
    assert names(found) == ["x", "a + b + c", "a + b"]
    assert found.trace.timestamps.tolist() == [0, 10, 40]
    assert found.sizes.tolist() == [1, 3, 2]
    assert (len(found), found.size) == (3, 6)
    assert [len(content) for content in found.contents] == [1, 3, 2]
    assert found.trace.unit == "ms"


@given(st.text("abc", max_size=30), st.lists(st.text("abcz", min_size=1, max_size=5), max_size=6))
def test_a_trace_becomes_the_fewest_blocks_and_says_the_same(text, blocks):
    found = abstract(trace_of(text), [tuple(block) for block in blocks])
    assert "".join(name.replace(" + ", "") for name in names(found)) == text
    assert len(found) == fewest(text, tuple(blocks))
    assert found.size == len(text)
    starts = np.concatenate(([0], np.cumsum(found.sizes)[:-1]))[: len(found)]
    assert (found.trace.timestamps == starts * 10).all()


@given(st.lists(st.text("abcd", max_size=60), max_size=4), st.integers(2, 9))
@settings(deadline=None)
def test_learnt_blocks_occur_again_and_shorten_the_description(texts, longest):
    blocks = learn_blocks([trace_of(text) for text in texts], longest=longest)
    for block in blocks:
        said = "".join(kind.name for kind in block)
        assert 2 <= len(block) <= longest
        assert sum(text.count(said) for text in texts) >= 2
    if blocks:
        told = sum(len(abstract(trace_of(text), blocks)) for text in texts)
        assert told < sum(map(len, texts))


def repaired(tokens, types, longest):
    """Re-Pair with all pairs counted anew each time."""
    rules, lengths = [], [1] * types
    while True:
        counts = Counter(
            pair for pair in pairwise(tokens) if min(pair) >= 0 and lengths[pair[0]] + lengths[pair[1]] <= longest
        )
        described, different = sum(token >= 0 for token in tokens) + 2 * len(rules), types + len(rules)
        best = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
        if best is None or (described - counts[best] + 2) * log2(different + 1) >= described * log2(max(different, 2)):
            return rules
        rules.append(best)
        lengths.append(lengths[best[0]] + lengths[best[1]])
        replaced, at = [], 0
        while at < len(tokens):
            met = tuple(tokens[at : at + 2]) == best
            replaced.append(different if met else tokens[at])
            at += 2 if met else 1
        tokens = replaced


@pytest.mark.parametrize(("types", "size"), [(2, 300), (5, 400), (400, 150_000)])
def test_the_pairs_are_the_naive_twins(types, size):
    chance = np.random.default_rng(types)
    tokens = (chance.integers(0, types, size) // chance.integers(1, 8, size)).astype(np.int32)
    tokens[: size // 3] = np.tile([0, 1, 1], size)[: size // 3]
    tokens[chance.integers(0, size, 3)] = -1
    kernel = compiled("unperturbed.analysis.diagnosis.distances.kernels", "recurring_pairs", _PAIRS)
    expected = repaired(tokens.tolist(), types, 7)
    assert expected
    assert kernel(tokens.copy(), types, 7, 1000).tolist() == [list(pair) for pair in expected]


def test_the_body_of_a_loop_is_learnt():
    body = "abcdefgh"
    blocks = learn_blocks([trace_of(body * 200)], longest=8)
    assert any(sorted(kind.name for kind in block) == list(body) for block in blocks)
    told = abstract(trace_of(body * 50 + "x" + body * 50), blocks)
    assert len(told) < 115
    assert learn_blocks([trace_of(body * 200)], most=3) == learn_blocks([trace_of(body * 200)])[:3]


def test_all_distances_work_on_blocks():
    body = "abcd"
    blocks = [tuple(body), ("a", "b")]
    reference = abstract(trace_of(body * 20), blocks)
    lost = abstract(trace_of(body * 10 + "ab" + body * 9), blocks)
    assert dropping_distance(reference.trace, lost.trace).total == 1
    assert occurrence_distance(reference.trace, lost.trace, theta=0.96).total == 1
    found = temporal_distance(reference.trace, lost.trace, move_cost=0.01)
    assert found.total == pytest.approx(2 + 0.01 * 20)
    assert [operation.kind for operation in found.script().operations(least_cost=0.5)] == ["delete", "insert"]


def test_a_lost_block_can_weigh_as_much_as_its_events():
    reference, lost = (abstract(trace_of("abcd" * times), [tuple("abcd")]) for times in (5, 4))
    assert temporal_distance(reference.trace, lost.trace, weight=reference.weights).total == 4


def test_blocks_keep_a_plugin_that_all_their_events_have():
    trace = EventTrace.from_pairs([(0, "v:a"), (1, "v:b"), (2, "w:a"), (3, "v:a")])
    one, mixed = abstract(trace, [("v:a", "v:b")]), abstract(trace, [("w:a", "v:a")])
    assert [kind.plugin for kind in one.trace.types] == ["v", "w", "v"]
    assert [kind.plugin for kind in mixed.trace.types] == ["v", "v", ""]


def test_arrays_that_cannot_be_written_are_read():
    trace = trace_of("abab")
    for array in (trace.events, trace.timestamps):
        array.flags.writeable = False
    assert len(abstract(trace, [tuple("ab")])) == 2
    for variant in ("gaps", "paper", "mannila"):
        assert temporal_distance(trace, trace, variant=variant).script().cost_in_events == 0


def test_empty_traces_and_dictionaries_are_defined():
    assert learn_blocks([]) == learn_blocks([trace_of("")]) == learn_blocks([trace_of("a")]) == ()
    empty = abstract(trace_of(""), [tuple("ab")])
    assert (len(empty), empty.size) == (0, 0)
    same = abstract(trace_of("aba"), [])
    assert names(same) == list("aba")
    assert names(abstract(trace_of("aba"), [("a",)])) == list("aba")


def test_what_is_refused_says_why():
    with pytest.raises(DataError, match=r"block 1 \(counted from 0\) of the dictionary is \(\)"):
        abstract(trace_of("ab"), [("a", "b"), ()])
    with pytest.raises(DataError, match=r"block 0 \(counted from 0\) of the dictionary is 'ab'"):
        abstract(trace_of("ab"), ["ab"])
    twins = EventTrace(np.array([0, 1]), np.array([0, 1], np.int32), (EventType("a", "v"), EventType("a", "w")))
    with pytest.raises(DataError, match="the name of several event types"):
        abstract(twins, [("a", "a")])
    with pytest.raises(ValueError, match="use 2 or more events for `longest`"):
        learn_blocks([], longest=1)
