"""The prefilter and the reading of preprocessed text below it."""

from __future__ import annotations

import pytest

from unperturbed.instrument.events import parse_event
from unperturbed.instrument.events.event import select
from unperturbed.instrument.finding.prefilter import can_hold_site
from unperturbed.instrument.finding.preprocessed import PreprocessedText, after_parentheses, next_token
from unperturbed.instrument.missing.names import lexical_names

MARKED = b"""\
# 0 "src/a.c"
# 1 "/build//"
# 0 "<built-in>"
# 1 "/usr/include/x.h" 1 3 4
extern int sys(int);

int more;
# 2 "src/a.c" 2
int own(int n) { label: return n; }
#pragma once
int last;
# 1 "src/we\\"ird\\\\.h" 1
struct { int field; } v;
"""


def test_offsets_are_given_the_files_and_lines_of_the_markers():
    text = PreprocessedText(MARKED)
    assert text.locate(MARKED.index(b"sys")) == ("/usr/include/x.h", 1)
    assert text.locate(MARKED.index(b"more")) == ("/usr/include/x.h", 3)
    assert text.locate(MARKED.index(b"own")) == ("src/a.c", 2)
    assert text.locate(MARKED.index(b"last")) == ("src/a.c", 4)
    assert text.locate(MARKED.index(b"field")) == ('src/we"ird\\.h', 1)
    assert text.is_system(MARKED.index(b"more"))
    assert not text.is_system(MARKED.index(b"own"))
    assert text.user_files() == {"src/a.c", 'src/we"ird\\.h'}
    assert MARKED[text.prologue_offset() :].startswith(b'# 0 "<built-in>"')
    assert PreprocessedText(b"int x;\n").prologue_offset() == 0
    assert PreprocessedText(b"int x;\n\nint y;").locate(9) == ("", 3)


def test_brackets_in_text_do_not_count():
    data = b"""( ")" ')' '\\'' R"x( )" )x" 1'000 /* ) */ // )
# 12 "a)"
 [ { } ] u8")" ) tail"""
    assert data[after_parentheses(data, 0) :] == b" tail"
    assert after_parentheses(b"((", 0) == 2
    assert next_token(b' \n# 1 "x" 2\n  ->y', 0) == (b"->", 14)
    assert next_token(b"  ", 0) == (b"", 2)


def holds(event: dict[str, str], text: str) -> bool:
    return can_hold_site(PreprocessedText(text.encode()), [select("", 0, parse_event(event)).need])


@pytest.mark.parametrize(
    "text",
    [
        "int f(int n) { return n; }",
        "int f(a, b) int a; { return a; }",
        "int (f)(int n) { }",
        "static int f (int (*g)(int), char c) __attribute__((noinline)) { }",
        "auto f(int n) -> int { }",
        "S::f(int n) : x(n) { }",
        'int f(int c)\n# 12 "x.c"\n{ }',
        'int f(const char *s = ")") noexcept(true) { }',
        "int f(void) [[gnu::pure]] { }",
        "auto f = [](int n) { return n; };",
        "template <> int f<int>(int n) { }",
        "int g(void) { return f(1); } int f(int n) { }",
    ],
)
def test_definitions_pass(text):
    for kind in ("enter", "return", "loop"):
        assert holds({kind: "f"}, text)
    assert holds({"label": "f::f"}, text)


@pytest.mark.parametrize(
    "text",
    [
        "extern int f(int);",
        "extern int f (int) __attribute__ ((__nothrow__ , __leaf__)) __attribute__ ((__const__));",
        "int g(void) { return f(1) + f((2)); }",
        "int g(void) { h(f); }",
        "int ff(int n) { } int f2(void) { } int f;",
        "int g(void) { x = f(1), f(2); }",
    ],
)
def test_what_only_declares_or_calls_does_not(text):
    assert not holds({"enter": "f"}, text)


@pytest.mark.parametrize(("text", "expected"), [
    ("extern int f(int);", False),
    ("static int f(int n) { return 1; }", False),
    ("int g(void) { return f(1); }", True),
    ("int g(void) { if (x) y(); else f(1); }", True),
    ("int g(void) { (f)(1); }", True),
    ("int g(void) { __extension__ f(1); }", True),
    ("int g(void) { x = f\n(1); }", True),
    ('int g(void) {\n# 3 "x.c" 2\nf(1); }', True),
    ("int g(void) { h(f); }", True),
])  # fmt: skip
def test_calls(text, expected):
    assert holds({"call": "f"}, text) is expected


@pytest.mark.parametrize(("text", "expected"), [
    ("struct T { int f; };", False),
    ("struct T { int *f, g; unsigned f : 3; int f[4]; };", False),
    ("int g(struct T *t) { return t->f; }", True),
    ("struct T { int f; void set() { f = 1; } };", True),
    ("struct T { int f; void set() { if (f) x(); else f++; } };", True),
    ("struct T { int f; void set() { ++f; } };", True),
    ("struct T { int f, h; void set() { else f[2] = 1; } };", True),
])  # fmt: skip
def test_writes(text, expected):
    assert holds({"write": "T.f"}, text) is expected


def test_files_and_globs():
    text = MARKED.decode()
    assert holds({"line": "a.c:3"}, text)
    assert not holds({"line": "b.c:3"}, text)
    assert holds({"loop": "src/a.c:1"}, text)
    assert holds({"enter": "own", "file": "*.c"}, text)
    assert not holds({"enter": "own", "file": "*.cc"}, text)
    assert holds({"enter": "*"}, text)
    assert holds({"enter": "o?n"}, text)
    assert not holds({"enter": "absent_*"}, text)
    assert holds({"call": "own", "in": "absent"}, "int x = own(1);") is False


def test_names_of_the_users_own_text():
    text = MARKED + b'int go(void) { s.part = call(p->other, "not(this)"); goto out; out: return 1; }\n'
    names = lexical_names(PreprocessedText(text).user_text().decode())
    assert names["function"] == {"own", "go", "call"}
    assert names["field"] == {"part", "other"}
    assert names["label"] == {"label", "out"}
    assert {"last", "field", "s", "p"} <= names["variable"]
    assert not {"sys", "more", "not", "return", "int"} & set().union(*names.values())


@pytest.mark.parametrize(
    "text",
    [
        "int x;",
        "static unsigned long int x = 3, y;",
        "int y, *x;",
        "int a[] = {1, 2}, x;",
        "struct { int a; } x;",
        "struct s { int a; } *const x = 0;",
        "enum e x, y;",
        "std::atomic<int> x{0};",
        "int C::x = 0;",
        "int (*x)(void);",
        "int (x) = 3;",
        "extern int x = 3;",
        "int x __attribute__((aligned(8)));",
        "__attribute__((aligned(8))) int x;",
        "alignas(8) x_t y; _Atomic(int) x;",
        "typeof(int) x;",
        '# 3 "a.c"\nstatic int\n# 4 "a.c"\nx\n;',
        "int f(void) { static int x; return x; }",
        "class C { inline static int x{3}; };",
        "int x[] = {1};",
        'int x asm("y") = 3;',
    ],
)
def test_texts_that_may_define_a_variable(text):
    assert holds({"gauge": "x"}, text)
    assert holds({"gauge": "::x.part[2]"}, text)


@pytest.mark.parametrize(
    "text",
    [
        "int y;",
        "extern int x;",
        "__extension__ extern int x, y;",
        "struct s { int a; }; extern struct s x;",
        "int f(void) { return x; }",
        "int f(void) { x = 3; g(x); g(1, x); if (x > 2) g(p->x); else x = 4; return s.x; }",
        "int f(int x);",
        "void x2(void);",
    ],
)
def test_texts_that_only_use_a_variable(text):
    assert not holds({"gauge": "x"}, text)


def test_the_file_of_a_gauge_is_looked_for_in_the_markers():
    text = '# 1 "src/queue.c"\nint x;\n'
    assert holds({"gauge": "queue.c::x"}, text)
    assert holds({"gauge": "src/*.c::x", "file": "queue.c"}, text)
    assert not holds({"gauge": "stack.c::x"}, text)
    assert not holds({"gauge": "queue.c::f::x"}, text)
