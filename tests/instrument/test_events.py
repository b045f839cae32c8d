from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.errors import SpecError
from unperturbed.instrument.events import EVENT_KINDS, Event, parse_event


@pytest.mark.parametrize(
    ("mapping", "event"),
    [
        ({"enter": "BZ2_compressBlock"}, Event("enter", "BZ2_compressBlock")),
        ({"enter": " ns::f(int, const char *) "}, Event("enter", "ns::f(int, const char *)")),
        ({"enter": "Stack::operator[]"}, Event("enter", "Stack::operator[]")),
        ({"enter": "Shape::~Shape"}, Event("enter", "Shape::~Shape")),
        ({"enter": "sort_[ab]*"}, Event("enter", "sort_[ab]*")),
        ({"enter": "bsW", "add": "n"}, Event("enter", "bsW", add="n")),
        ({"enter": "bsW", "add": 8}, Event("enter", "bsW", add="8")),
        (
            {"call": "mainGtU", "in": "mainSimpleSort", "file": "*.c"},
            Event("call", "mainGtU", within="mainSimpleSort", file="*.c"),
        ),
        ({"write": "EState.nblock"}, Event("write", "EState.nblock")),
        ({"write": "ns::x", "in": "main"}, Event("write", "ns::x", within="main")),
        ({"loop": "mainGtU#1"}, Event("loop", "mainGtU#1")),
        ({"loop": "sub/file.c:120"}, Event("loop", "sub/file.c:120")),
        ({"line": "compress.c:170"}, Event("line", "compress.c:170")),
        ({"label": "BZ2_decompress::save_state_and_return"}, Event("label", "BZ2_decompress::save_state_and_return")),
        ({"return": "full_search"}, Event("return", "full_search")),
    ],
)
def test_events_are_read_and_written_back(mapping, event):
    assert parse_event(mapping) == event
    assert parse_event(event.to_json()) == event


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"entr": "f"}, "unknown key 'entr' in an event; did you mean 'enter'?"),
        ({"enter": "f", "qqq": "x"}, "unknown key 'qqq' in an event; an event has one of enter, call"),
        ({"file": "x.c"}, "needs exactly one of enter, call, write, loop, line, label, return; it has none"),
        ({"enter": "f", "call": "g"}, "it has enter and call"),
        ({}, "an event is a mapping such as {enter: function}"),
        (["enter"], "an event is a mapping"),
        ({"enter": 3}, "enter: 3 is no text"),
        ({"enter": ""}, "enter: '' is no text"),
        ({"enter": "f g"}, "enter: 'f g' has not the form of its target: a function's name"),
        ({"enter": "S<int>::push"}, "leave <…> out"),
        ({"line": 120}, "line: 120 is no text"),
        ({"line": "compress.c"}, "line: 'compress.c' has not the form of its target: file.c:120"),
        ({"line": "compress.c:0"}, "has not the form"),
        ({"label": "again"}, "function::label"),
        ({"loop": "f#0"}, "f, f#1 or file.c:120"),
        ({"write": "p->x"}, "a variable x, a field Type.field"),
        ({"enter": "f", "in": "g"}, "in: has a meaning with call and write only, not with enter"),
        ({"call": "f", "in": "a b"}, "in: 'a b' is no function's name or glob"),
        ({"enter": "f", "add": "n; m"}, "add: 'n; m' is not one C expression"),
        ({"enter": "f", "add": "g(n"}, "with its parentheses closed"),
        ({"enter": "f", "add": True}, "add: True is no text"),
    ],
)
def test_each_mistake_has_one_clear_message(mapping, message):
    with pytest.raises(SpecError) as error:
        parse_event(mapping)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_every_kind_is_explained_in_one_line():
    assert set(EVENT_KINDS) == {"enter", "call", "write", "loop", "line", "label", "return"}
    assert all(meaning and "\n" not in meaning for meaning in EVENT_KINDS.values())


@given(
    st.dictionaries(
        st.sampled_from([*EVENT_KINDS, "in", "file", "add", "x"]), st.one_of(st.text(max_size=8), st.integers(), st.none())
    )
)
def test_whatever_is_given_the_answer_is_an_event_or_a_message(mapping):
    try:
        event = parse_event(mapping)
    except SpecError:
        return
    assert parse_event(event.to_json()) == event
