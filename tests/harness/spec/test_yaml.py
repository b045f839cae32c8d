"""YAML to plain data with positions: what is read, what is refused, and that nothing hostile hangs or blows up."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.harness.spec.yaml import MAX_BYTES, MAX_DEPTH, MAX_VALUES, InvalidSpec, Position, decode, read_yaml


def _refused(text: str) -> str:
    with pytest.raises(InvalidSpec) as caught:
        read_yaml(text, "f")
    return str(caught.value)


def test_every_key_and_value_has_its_position() -> None:
    document = read_yaml("# comment\na:\n  - x\n  - {b: 1, c: 'two'}\nd: |\n  text\n", "f")
    assert document.data == {"a": ["x", {"b": 1, "c": "two"}], "d": "text\n"}
    places = {path: (place.key, place.value) for path, place in document.places.items()}
    assert places == {
        (): (Position(2, 1), Position(2, 1)),
        ("a",): (Position(2, 1), Position(3, 3)),
        ("a", 0): (Position(3, 5), Position(3, 5)),
        ("a", 1): (Position(4, 5), Position(4, 5)),
        ("a", 1, "b"): (Position(4, 6), Position(4, 9)),
        ("a", 1, "c"): (Position(4, 12), Position(4, 15)),
        ("d",): (Position(5, 1), Position(5, 4)),
    }
    assert document.diagnostics == ()


@pytest.mark.parametrize(
    ("scalar", "kind", "value"),
    [
        ("text", "text", "text"),
        ("'5'", "text", "5"),
        ('"no"', "text", "no"),
        ("5", "number", 5),
        ("-5", "number", -5),
        ("+5", "number", 5),
        ("0", "number", 0),
        ("1.5", "number", 1.5),
        (".5", "number", 0.5),
        ("5.", "number", 5.0),
        ("1e-3", "number", 0.001),
        ("1.5E+3", "number", 1500.0),
        ("-.inf", "number", float("-inf")),
        ("true", "boolean", True),
        ("Off", "boolean", False),
        ("yes", "boolean", True),
        ("~", "null", None),
        ("null", "null", None),
        ("", "null", None),
        ("010", "odd number", "010"),
        ("00.5", "odd number", "00.5"),
        ("0x1F", "odd number", "0x1F"),
        ("0o17", "odd number", "0o17"),
        ("0b11", "odd number", "0b11"),
        ("1_000", "odd number", "1_000"),
        ("1:30", "odd number", "1:30"),
        ("1" * 50, "odd number", "1" * 50),
        ("2024-01-01", "text", "2024-01-01"),
        ("1.2.3", "text", "1.2.3"),
        ("deadbeef", "text", "deadbeef"),
        ("10 ms", "text", "10 ms"),
        ("y", "text", "y"),
    ],
)
def test_scalars(scalar: str, kind: str, value: object) -> None:
    document = read_yaml(f"a: {scalar}\n", "f")
    assert document.data == {"a": value}
    assert type(document.data["a"]) is type(value)
    assert document.places["a",].kind == kind


def test_aliases_stand_where_they_are_used() -> None:
    document = read_yaml("a: &x {b: 1}\nc: *x\n", "f")
    assert document.data == {"a": {"b": 1}, "c": {"b": 1}}
    assert document.places["c",].value == Position(2, 4)
    assert document.places["c", "b"].value == Position(1, 11)


@pytest.mark.parametrize(
    ("text", "data", "messages"),
    [
        (
            "a: 1\nb: 2\na: 3\n",
            {"a": 1, "b": 2},
            ["f:3:1: duplicate key `a` (first on line 1); remove one of the two"],
        ),
        ("1: a\n", {"1": "a"}, ['f:1:1: the key `1` is a number in YAML; quote it: "1"']),
        ("no: a\n", {"no": "a"}, ['f:1:1: the key `no` is a boolean in YAML; quote it: "no"']),
        ("'1': a\n", {"1": "a"}, []),
        ("~: a\n", {}, ['f:1:1: the key `~` is null in YAML; quote it: "~"']),
        ("?\n: b\n", {}, ["f:1:2: a key is missing before the `:`"]),
        ("? [x]\n: b\n", {}, ["f:1:3: a list or a mapping cannot be a key; quote text that starts with `{` or `[`"]),
        (
            "a: !x b\n",
            {"a": "b"},
            ["f:1:4: the YAML tag `!x` is not allowed in a spec: quote text that starts with `!`"],
        ),
        (
            "a: !!python/object/apply:os.system [x]\n",
            {"a": ["x"]},
            [
                "f:1:4: the YAML tag `!!python/object/apply:os.system` is not allowed in a spec: quote text that "
                "starts with `!`"
            ],
        ),
        (
            "a: *b\nc: 1\n",
            {"a": None, "c": 1},
            ["f:1:4: the alias `*b` has no anchor `&b` above it: quote text that starts with `*`"],
        ),
        (
            "a: &a [*a]\n",
            {"a": [None]},
            ["f:1:8: the alias `*a` has no anchor `&a` above it: quote text that starts with `*`"],
        ),
        (
            'a: ["\\0", x]\n',
            {"a": [None, "x"]},
            ["f:1:5: this text has an escape sequence for a control character, which is not allowed in a spec"],
        ),
        (
            'a: "\\ud800"\n',
            {"a": None},
            ["f:1:4: this text has an escape sequence for a control character, which is not allowed in a spec"],
        ),
        (
            "<<: {a: 1}\n",
            {},
            ["f:1:1: the merge key `<<` is not supported: write out the keys, or reuse a whole value by its alias"],
        ),
    ],
)
def test_faults_that_do_not_hinder_the_rest(text: str, data: object, messages: list[str]) -> None:
    document = read_yaml(text, "f")
    assert document.data == data
    assert [diagnostic.render("f") for diagnostic in document.diagnostics] == messages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f:1:1: the spec is empty: `unperturbed schema` lists the keys of a spec"),
        ("# nothing\n", "f:1:1: the spec is empty: `unperturbed schema` lists the keys of a spec"),
        ("a: 1\nb\0c: 2\n", "f:2:2: the character U+0000 is not allowed in YAML: the file is binary or damaged"),
        ("a: \ud800\n", "f:1:4: the character U+D800 is not allowed in YAML: the file is binary or damaged"),
        ("a:\n\tb: 1\n", "f:2:1: a tab is not allowed here: use spaces"),
        ("a: @b\n", 'f:1:4: text that starts with `@` must be quoted: "@…"'),
        ("a: %b\n", 'f:1:4: text that starts with `%` must be quoted: "%…"'),
        ("a: *.c\n", 'f:1:4: text that starts with `*` must be quoted: "*…"'),
        ("a: &.c\n", 'f:1:4: text that starts with `&` must be quoted: "&…"'),
        ("a: !x!y z\n", 'f:1:4: text that starts with `!` must be quoted: "!…"'),
        ("a: b: c\n", "f:1:5: a second `: ` in one line: text that contains `: ` must be quoted as a whole"),
        (
            "a: 1\n  b: 2\n",
            "f:2:4: `:` is not allowed here: is this line indented deeper than the line above, which already has a "
            "value?",
        ),
        ("a:1\nb: 2\n", "f:1:1: `a:1`: a space is missing after the `:`"),
        ("x:\n  a:1\n  b: 2\n", "f:2:3: `a:1`: a space is missing after the `:`"),
        (
            "a: {b}/c\n",
            "f:1:7: unexpected text after a closing brace, bracket or quote: quote the whole value, as in run: "
            '"{build}/program"',
        ),
        (
            "a:\n    b: 1\n  c: 2\n",
            "f:3:3: this line does not continue the mapping or list that starts on line 1: check its indentation",
        ),
        ("a: 1\n- b\n", "f:2:1: unexpected list item among the keys of the mapping that starts on line 1"),
        (
            "- a\nb: 1\n",
            "f:2:1: this line does not continue the mapping or list that starts on line 1: check its indentation",
        ),
        (
            "a: [1, 2\nb: 3\n",
            "f:1:4: the list that starts here is not closed: a `,` or `]` is missing (detected on line 2)",
        ),
        (
            "a: {b: 1\n",
            "f:1:4: the mapping that starts here is not closed: a `,` or `}` is missing (detected on line 2)",
        ),
        ("a: [1,,2]\n", "f:1:7: a value is missing before `,`"),
        ("a: }\n", "f:1:4: a value is missing before `}`"),
        ("a: 'b\nc: 1\n", "f:1:4: the quote that starts here is never closed"),
        (
            'a: "\\d"\n',
            "f:1:6: unknown escape sequence: write `\\\\` for a backslash in double quotes, or use single quotes",
        ),
        (
            "a: 1\nbcd\ne: 2\n",
            "f:2:1: this line is neither `key: value` nor part of a longer value: is a `:` missing, or is the "
            "indentation wrong?",
        ),
        ("a: - b\n", "f:1:4: a list with `-` must start on its own line; within a line, write `[a, b]`"),
        (
            "a: | b\n",
            "f:1:6: a line must end after `|` or `>`, and the text below must be indented with spaces; quote text that "
            "starts with `|` or `>`",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "f:2:1: a second document starts here (`---`), but a spec is one document: move the other to its own file",
        ),
        (
            "a: 1\n...\nb\n",
            "f:3:1: unexpected text before the first key or after the end: a spec is one mapping, without lines that "
            "start with `%`",
        ),
        (
            "%YAML 3.0\n---\na: 1\n",
            "f:1:1: unexpected text before the first key or after the end: a spec is one mapping, without lines that "
            "start with `%`",
        ),
        ("%YAML " + "1" * 5000, "f:1:1: a number in a `%YAML` line or a `\\U` escape in double quotes is out of range"),
        ('a: "\\UFFFFFFFF"\n', "f:1:1: a number in a `%YAML` line or a `\\U` escape in double quotes is out of range"),
        (
            "- " * 50,
            f"f:1:41: lists and mappings are nested more than {MAX_DEPTH} levels deep: a spec needs at most 5 levels",
        ),
    ],
)
def test_syntax_errors_in_plain_words(text: str, message: str) -> None:
    assert _refused(text) == message


def test_a_billion_laughs_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 10)]
    assert f"the document has more than {MAX_VALUES:,} values" in _refused("\n".join(lines))


def test_aliases_cannot_smuggle_depth() -> None:
    lines = ["a0: &a0 [[[[[[[[x]]]]]]]]"] + [f"a{level}: &a{level} [[[[[[*a{level - 1}]]]]]]" for level in range(1, 5)]
    assert f"more than {MAX_DEPTH} levels, when its aliases are expanded" in _refused("\n".join(lines))


_MIB = 1 << 20


@pytest.mark.parametrize(
    "text",
    [
        "[" * _MIB,
        "{" * _MIB,
        "{a: " * (_MIB // 4),
        "- " * (_MIB // 2),
        "? " * (_MIB // 2),
        "- a\n" * (_MIB // 4),
        "[" + "a," * (_MIB // 2 - 1),
        "".join(f"k{number}: 1\n" for number in range(80_000)),
        "&a " * (_MIB // 3),
        '"' + "x" * (_MIB - 1),
        "a: " + "9" * (_MIB - 3),
        "a: " + "9_" * (_MIB // 2 - 2),
        "a: " + "1:" * (_MIB // 2 - 2),
        "!" + "a" * (_MIB - 1),
        "a" * (_MIB - 3) + ": 1",
    ],
    ids=lambda text: text[:12],
)
def test_a_mebibyte_of_anything_ends_in_one_message_or_data(text: str) -> None:
    try:
        document = read_yaml(text, "f")
    except InvalidSpec as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert len(document.places) <= 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"a: 1\n" * (MAX_BYTES // 5 + 1),
            "f:1:1: the file is larger than 1 MiB, so it cannot be a spec: check the file's name",
        ),
        (
            b"a: 1\nb: \xc3\xa4 \xff\n",
            "f:2:6: byte 0xff is not UTF-8: the file is binary or has a different encoding; save it as UTF-8 text",
        ),
        (
            "a: 1\n".encode("utf-16"),
            "f:1:1: byte 0xff is not UTF-8: the file is binary or has a different encoding; save it as UTF-8 text",
        ),
    ],
    ids=["large", "latin-1", "utf-16"],
)
def test_content_that_is_no_text(content: bytes, message: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        decode(content, "f")
    assert str(caught.value) == message


def test_a_byte_order_mark_is_no_fault() -> None:
    assert decode(b"\xef\xbb\xbfa: 1\n", "f") == "a: 1\n"


_KEYS = st.text("abcxyz_", min_size=1, max_size=6).filter(lambda text: text not in ("y", "n"))
_EXPONENT = re.compile(r"[-+]?[0-9.]+[eE][-+]?[0-9]+")
"""A number to YAML 1.2 and to us, text to PyYAML."""
_TEXTS = st.text(max_size=20).filter(lambda text: text.isprintable() and not _EXPONENT.fullmatch(text))
_SCALARS = st.none() | st.booleans() | st.integers(-(10**12), 10**12) | _TEXTS
_DATA = st.dictionaries(
    _KEYS,
    st.recursive(
        _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=15
    ),
    max_size=5,
)


@given(_DATA, st.booleans())
def test_agrees_with_the_safe_loader(data: dict[str, object], flow: bool) -> None:
    text = yaml.safe_dump(data, default_flow_style=flow, allow_unicode=True)
    document = read_yaml(text, "f")
    assert document.diagnostics == ()
    assert document.data == data == yaml.safe_load(text)
    lines = text.splitlines()
    for place in document.places.values():
        assert 1 <= place.key.line <= place.value.line <= len(lines)
