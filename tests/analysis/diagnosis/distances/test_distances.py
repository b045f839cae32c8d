import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.analysis.diagnosis import (
    EventTrace,
    count_types,
    dropping_distance,
    normalize,
    occurrence_distance,
    temporal_distance,
)

names = st.lists(st.sampled_from(["v:a", "v:b", "w:a", "x", "w:c"]), max_size=40)


def trace_of(events):
    return EventTrace.from_pairs(list(enumerate(events)))


# The paper's pictures are not in its text; these traces fit what the text says of them.
def test_example_1_counts_the_event_that_occurs_three_times_as_often():
    one, other = trace_of(["It", "CS", "It", "It", "X"]), trace_of(["CS", "It", "It", "CS", "It", "CS", "It"])
    found = occurrence_distance(one, other, theta=0.5)
    ratios = {kind.name: ratio for kind, ratio in zip(found.counts.types, found.counts.ratios.tolist(), strict=True)}
    assert ratios == {"It": 3 / 4, "CS": 1 / 3, "X": 0}
    assert found.total == 1
    assert [kind.name for kind in found.types] == ["CS"]
    assert found.normalised == 0.5
    assert occurrence_distance(one, other, theta=0.5, one_sided=True).total == 2


def test_example_2_counts_the_events_of_one_trace_alone():
    found = dropping_distance(trace_of(["X", "CS", "It", "E"]), trace_of(["CS", "It", "U", "It"]))
    assert found.total == 3
    assert {kind.name for kind in found.missing} == {"X", "E"}
    assert {kind.name for kind in found.added} == {"U"}
    assert found.normalised == 0.75


@given(names, names, st.sampled_from([0, 0.25, 1 / 3, 0.5, 1]), st.booleans())
def test_both_distances_are_the_naive_twins_in_total_and_for_each_plugin(one, other, theta, one_sided):
    a, b = Counter(one), Counter(other)
    everything = a.keys() | b.keys()
    both = {name for name in everything if min(a[name], b[name]) / max(a[name], b[name]) <= theta}
    if not one_sided:
        both &= a.keys() & b.keys()
    found = occurrence_distance(trace_of(one), trace_of(other), theta=theta, one_sided=one_sided)
    assert {kind.name for kind in found.types} == both
    assert found.total == len(both) == sum(found.by_plugin.values())
    dropped = dropping_distance(trace_of(one), trace_of(other))
    assert {kind.name for kind in dropped.types} == a.keys() ^ b.keys()
    assert dropped.total == len(dropped.missing) + len(dropped.added)
    plugins = Counter(name.partition(":")[0] if ":" in name else "" for name in a.keys() ^ b.keys())
    assert {plugin: number for plugin, number in dropped.by_plugin.items() if number} == plugins


def test_a_ratio_of_exactly_theta_counts():
    assert occurrence_distance(trace_of("aaaa"), trace_of("a")).total == 1
    assert occurrence_distance(trace_of("aaa"), trace_of("a"), theta=1 / 3).total == 1
    assert occurrence_distance(trace_of("aaa"), trace_of("a")).total == 0


def test_empty_traces_are_at_no_distance_from_each_other():
    empty = trace_of([])
    assert occurrence_distance(empty, empty).total == dropping_distance(empty, empty).total == 0
    assert dropping_distance(empty, trace_of(["a"])).by_plugin == {"": 1}
    assert count_types(empty, empty).ratios.shape == (0,)


def test_theta_is_a_ratio():
    with pytest.raises(ValueError, match=r"`theta` is 1\.5: use a ratio from 0 to 1"):
        occurrence_distance(trace_of("a"), trace_of("a"), theta=1.5)


def test_g_brings_distances_between_0_and_1():
    assert [normalize(distance) for distance in (0, 1, 3, math.inf)] == [0, 0.5, 0.75, 1]
    for wrong in (-1, math.nan):
        with pytest.raises(ValueError, match="0 or more"):
            normalize(wrong)


def test_distances_are_results(tmp_path: Path) -> None:
    one = EventTrace.from_pairs([(0, "a:x"), (1, "b:y"), (2, "b:z")])
    other = EventTrace.from_pairs([(0, "a:x"), (1, "c:y")])
    for distance, total in ((dropping_distance(one, other), 3), (occurrence_distance(one, other), 0)):
        assert distance.headline().endswith(f"distance {total} (normalised {total / (1 + total):.4f})")
        assert distance.to_dict()["by_plugin"] == dict(distance.by_plugin)
        assert dict(distance.to_frame().rows()) == distance.by_plugin
        assert repr(distance) == f"<{type(distance).__name__}: {distance.headline()}>"
        assert "By plugin" in distance.write_html(tmp_path / "page.html").read_text()
    assert temporal_distance(one, other).headline().startswith("temporal distance ")
