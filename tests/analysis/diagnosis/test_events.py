"""Traces of events: built from pairs, cut, renumbered; wrong ones refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.analysis.diagnosis import EventTrace, EventType, shared_ids
from unperturbed.errors import DataError

_NAMES = st.sampled_from(["It", "CS", "ffmpeg:chain:Received", "ffmpeg:frame:data", "queue:push:x", "", ":odd"])
_PAIRS = st.lists(st.tuples(st.integers(0, 1000), _NAMES), max_size=40).map(
    lambda pairs: sorted(pairs, key=lambda pair: pair[0])
)


@given(_PAIRS)
def test_pairs_are_kept_and_counted(pairs: list[tuple[int, str]]) -> None:
    trace = EventTrace.from_pairs(pairs, unit="ms", name="mine")
    assert [(int(t), trace.types[e].name) for t, e in zip(trace.timestamps, trace.events, strict=True)] == pairs
    assert len(trace) == len(pairs)
    assert [kind.name for kind in trace.types] == list(dict.fromkeys(name for _, name in pairs))
    names = [name for _, name in pairs]
    assert trace.counts().tolist() == [names.count(kind.name) for kind in trace.types]
    assert trace.since_start.tolist() == [time - pairs[0][0] for time, _ in pairs]


@given(_PAIRS, st.integers(0, 1000), st.integers(0, 1000))
def test_parts_of_a_trace_are_as_if_only_they_had_been_recorded(
    pairs: list[tuple[int, str]], start: int, end: int
) -> None:
    trace = EventTrace.from_pairs(pairs)
    expected = EventTrace.from_pairs([(time, name) for time, name in pairs if start <= time < end])
    found = trace.between(start, max(start, end))
    assert found.types == expected.types
    assert found.events.tolist() == expected.events.tolist()
    assert found.timestamps.tolist() == expected.timestamps.tolist()
    for plugin in ("ffmpeg", "", "absent"):
        part = trace.of(plugin)
        kept = [(time, name) for time, name in pairs if (name.partition(":")[0] if ":" in name else "") == plugin]
        assert [(int(t), part.types[e].name) for t, e in zip(part.timestamps, part.events, strict=True)] == kept
        assert part.types == EventTrace.from_pairs(kept).types


@given(st.lists(_PAIRS, max_size=4))
def test_shared_ids_name_the_same_types(many: list[list[tuple[int, str]]]) -> None:
    traces = [EventTrace.from_pairs(pairs) for pairs in many]
    types, shared = shared_ids(traces)
    assert len(set(types)) == len(types)
    for trace, events in zip(traces, shared, strict=True):
        assert [types[event] for event in events] == [trace.types[event] for event in trace.events]


def test_plugin_is_what_stands_before_the_first_colon() -> None:
    assert EventType.from_name("ffmpeg:gst_ffmpegdec_chain:Received").plugin == "ffmpeg"
    assert EventType.from_name("It").plugin == ""


def test_wrong_traces_are_refused() -> None:
    with pytest.raises(DataError, match=r"time goes backwards from event 1 \(5\) to event 2 \(4\)"):
        EventTrace.from_pairs([(1, "a"), (5, "b"), (4, "a")])
    with pytest.raises(DataError, match="first timestamp is -1"):
        EventTrace.from_pairs([(-1, "a")])
    with pytest.raises(TypeError, match=r"event 1: the timestamp must be an integer, not 1\.5"):
        EventTrace.from_pairs([(1, "a"), (1.5, "b")])  # type: ignore[list-item]
    ids = np.zeros(2, np.int32)
    with pytest.raises(DataError, match="one-dimensional arrays of the same length"):
        EventTrace(np.zeros(3, np.int64), ids, (EventType("a"),))
    with pytest.raises(DataError, match="`events` must contain indices of `types`, 0 or more and below 1"):
        EventTrace(np.zeros(2, np.int64), ids + 1, (EventType("a"),))
    with pytest.raises(TypeError, match="float64"):
        EventTrace(np.zeros(2), ids, (EventType("a"),))  # type: ignore[arg-type]
