"""What words serve other parts for: anchors of an alignment, blocks of an event trace."""

from __future__ import annotations

import numpy as np

from unperturbed.analysis.alignment import anchored_dtw
from unperturbed.analysis.diagnosis import EventTrace, abstract
from unperturbed.analysis.structure import (
    compare_structure,
    compose,
    learn_dictionary,
    phase_anchors,
    structural_sequence,
)

LEVELS = {"a": 1.0, "b": 5.0, "c": 12.0}


def _run(order: str, seed: int) -> tuple[np.ndarray, list[int]]:
    """Return a run whose phases last 3 to 9 intervals, and where each begins."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 10, len(order))
    values = np.concatenate(
        [LEVELS[phase] + 0.1 * rng.normal(size=length) for phase, length in zip(order, lengths, strict=True)]
    )
    return values, np.concatenate(([0], np.cumsum(lengths)[:-1])).tolist()


def test_phases_begin_at_the_same_places_of_the_work() -> None:
    order = "abcacb" * 15
    (one, begins), (other, others) = _run(order, 1), _run(order, 2)
    first = structural_sequence(one, classes=3)
    second = structural_sequence(other, classes=first.classes)
    found = compare_structure(compose(first, adequate=1e9), compose(second, adequate=1e9))
    anchors = phase_anchors(found)
    assert len(anchors) >= 10
    assert set(anchors) <= set(zip(begins, others, strict=True)), "the same phase of both runs"
    path = anchored_dtw(one, other, anchors)
    assert len(path.anchors) == len(anchors)
    assert len(path.dropped) == 0


def test_a_segment_with_edits_is_trusted_only_when_that_is_allowed() -> None:
    plain, edited = "abcacb" * 15, "abcacb" * 7 + "abcb" + "abcacb" * 7
    first = structural_sequence(_run(plain, 1)[0], classes=3)
    second = structural_sequence(_run(edited, 2)[0], classes=first.classes)
    found = compare_structure(compose(first, adequate=1e9), compose(second, adequate=1e9))
    strict, lenient = phase_anchors(found), phase_anchors(found, most_edits=4)
    assert set(strict) <= set(lenient)
    assert (np.diff(np.array(lenient), axis=0) > 0).all()


def test_words_of_events_are_blocks() -> None:
    frame = ("demux", "decode", "show", "wait")
    names = [name for _ in range(60) for name in frame]
    trace = EventTrace.from_pairs(
        [(10 * at, name) for at, name in enumerate([*names[:120], "seek", *names[120:]])], unit="ms"
    )
    words = learn_dictionary([trace.types[event].name for event in trace.events]).words
    told = abstract(trace, words)
    assert told.size == len(trace) == 241
    assert len(told) <= 62
