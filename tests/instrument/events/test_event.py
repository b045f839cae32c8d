from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.errors import SpecError
from unperturbed.instrument.events import Event, event_keys, event_kinds, parse_event


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
        ({"enter": "push", "threads": "exact"}, Event("enter", "push", threads="exact")),
        ({"gauge": "server.c::queue.length"}, Event("gauge", "server.c::queue.length")),
        ({"gauge": "ns::Pool::used[2]", "file": "*.cc"}, Event("gauge", "ns::Pool::used[2]", file="*.cc")),
        ({"probe": {"uprobe": "xz:lzma_code"}}, Event("uprobe", "xz:lzma_code")),
        ({"probe": {"uprobe": "/usr/lib/libz.so.1:ns::f(int)"}}, Event("uprobe", "/usr/lib/libz.so.1:ns::f(int)")),
        (
            {"probe": {"usdt": "libc.so.6:libc:setjmp", "max_rate": 50000}},
            Event("usdt", "libc.so.6:libc:setjmp", max_rate=50000),
        ),
        ({"preload": "malloc"}, Event("preload", "malloc")),
        ({"preload": "malloc", "threads": "exact"}, Event("preload", "malloc", threads="exact")),
        ({"python": {"enter": "json.decoder.JSONDecoder.decode"}}, Event("python", "json.decoder.JSONDecoder.decode")),
    ],
)
def test_events_are_read_and_written_back(mapping, event):
    assert parse_event(mapping) == event
    assert parse_event(event.to_json()) == event


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"entr": "f"}, "unknown key `entr` in an event: use one of `enter`, `call`"),
        ({"entr": "f"}, "; did you mean `enter`?"),
        ({"enter": "f", "qqq": "x"}, "unknown key `qqq` in an event: use one of `enter`, `call`"),
        (
            {"file": "x.c"},
            f"needs exactly one of the keys {', '.join(dict.fromkeys(f'`{kind.keys[0]}`' for kind in event_kinds().values()))}; "
            "found none",
        ),
        ({"enter": "f", "call": "g"}, "found `enter` and `call`"),
        ({}, "expected a mapping such as `{enter: FUNCTION}`"),
        (["enter"], "expected a mapping"),
        ({"enter": 3}, "`enter`: expected text in quotes, not 3"),
        ({"enter": ""}, "`enter` has no value"),
        ({"enter": "f g"}, "`enter`: 'f g' is not a valid target: expected a function's name"),
        ({"enter": "S<int>::push"}, "leave out <…>"),
        ({"line": 120}, "`line`: expected text in quotes, not 120"),
        ({"line": "compress.c"}, "`line`: 'compress.c' is not a valid target: expected file.c:120"),
        ({"line": "compress.c:0"}, "is not a valid target"),
        ({"label": "again"}, "function::label"),
        ({"loop": "f#0"}, "f, f#1 or file.c:120"),
        ({"write": "p->x"}, "a variable x, a field Type.field"),
        ({"enter": "f", "in": "g"}, "`in`: only `call` and `write` events support this filter, not `enter` events"),
        ({"call": "f", "in": "a b"}, "`in`: 'a b' is neither a function's name nor a glob"),
        ({"enter": "f", "add": "n; m"}, "`add`: 'n; m' is not valid: expected one C expression on one line"),
        ({"enter": "f", "add": "g(n"}, "with balanced brackets"),
        ({"enter": "f", "add": True}, "`add`: expected text in quotes, not True"),
        ({"enter": "f", "threads": "all"}, "`threads`: 'all' is neither `plain`"),
        ({"gauge": "p->n"}, "a variable x, file.c::x, ns::x or function::x"),
        ({"gauge": "x", "in": "f"}, "`gauge` events do not support `in`"),
        ({"gauge": "x", "add": "n"}, "`gauge` events do not support `add`"),
        ({"preload": "mall*"}, "a function's name, such as malloc"),
        ({"preload": "malloc", "file": "x.c", "add": "n"}, "`preload` events do not support `file` or `add`"),
        ({"probe": "xz:lzma_code"}, "`probe`: expected a mapping such as `{uprobe: binary:function}`"),
        ({"probe": {"uprob": "xz:f"}}, "unknown key `uprob`"),
        ({"probe": {"uprobe": "xz:f", "usdt": "a:b:c"}}, "with exactly one of the keys `uprobe`, `usdt`"),
        ({"probe": {"uprobe": "lzma_code"}}, "binary:function, such as liblzma.so.5:lzma_code"),
        ({"probe": {"usdt": "libc:setjmp"}}, "binary:provider:name"),
        ({"probe": {"uprobe": "xz:f", "max_rate": 0}}, "`max_rate`: 0 is not a positive integer (hits per second)"),
        ({"python": {"enter": "decode"}}, "module.function or module.Class.method"),
        ({"python": {"enter": "json.<lambda>"}}, "a lambda or comprehension has no name"),
        ({"python": {"enter": "work.f.<listcomp>"}}, "define a function with `def` instead"),
        ({"call": "a b", "in": "c d", "fil": "x.c"}, "did you mean `file`?"),
        ({"call": "a b", "in": "c d", "fil": "x.c"}, "; `call`: 'a b' is not a valid target"),
        ({"call": "a b", "in": "c d", "fil": "x.c"}, "; `in`: 'c d' is neither a function's name nor a glob"),
        (
            {"enter": "a b", "in": "f", "add": ")"},
            "`in`: only `call` and `write` events support this filter, not `enter` events; `enter`: 'a b' is not a valid target",
        ),
        ({"python": "json.loads"}, "`python`: expected a mapping such as `{enter: module.function}`"),
    ],
)
def test_each_mistake_has_one_clear_message(mapping, message):
    with pytest.raises(SpecError) as error:
        parse_event(mapping)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_every_kind_is_explained_in_one_line():
    compiled = [name for name, kind in event_kinds().items() if kind.means == "compiled"]
    assert {"enter", "call", "write", "loop", "line", "label", "return", "gauge"} <= set(compiled)
    assert set(event_kinds()) - set(compiled) >= {"uprobe", "usdt", "preload", "python", "jvm", "jvm_event"}
    assert all(kind.meaning and "\n" not in kind.meaning for kind in event_kinds().values())
    assert all(
        parse_event(Event(name, kind.example, of="A" if "of" in kind.filters else None).to_json())
        for name, kind in event_kinds().items()
    )


def test_an_event_tells_by_what_means_it_is_counted_and_what_its_values_mean():
    means = {
        "enter": "compiled",
        "gauge": "compiled",
        "uprobe": "kernel",
        "usdt": "kernel",
        "preload": "preload",
        "python": "python",
        "jvm": "jvm",
        "jvm_event": "jvm",
    }
    assert {kind: Event(kind, "x").means for kind in means} == means
    assert {kind: Event(kind, "x").semantics for kind in means} == {
        kind: "gauge" if kind == "gauge" else "counter" for kind in means
    }


@given(
    st.dictionaries(
        st.sampled_from([*event_keys(), "in", "file", "add", "threads", "x"]),
        st.one_of(
            st.text(max_size=8),
            st.integers(),
            st.none(),
            st.dictionaries(
                st.sampled_from(["uprobe", "usdt", "enter", "max_rate"]),
                st.text(max_size=8) | st.integers(),
                max_size=2,
            ),
        ),
    )
)
def test_whatever_is_given_the_answer_is_an_event_or_a_message(mapping):
    try:
        event = parse_event(mapping)
    except SpecError:
        return
    assert parse_event(event.to_json()) == event
