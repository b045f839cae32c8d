from __future__ import annotations

import pytest

from unperturbed.instrument.events.targets import (
    file_matches,
    last_part,
    name_matches,
    needed_words,
    split_gauge,
    split_line,
)


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("f", "f", True),
        ("f", "F", False),
        ("ns::f", "f", False),
        ("ns::f", "::ns::f", True),
        ("ns::f", "*::f", True),
        ("f(int,char)", "f(int, char)", True),
        ("f(int,char)", "f(*)", True),
        ("f(int,char)", "f", False),
        ("S::operator[]", "S::operator[]", True),
        ("sort_b", "sort_[!a]", True),
        ("app::query(pugi::xml_document &, const char *)", "app::*::*", False),
        ("app::query(pugi::xml_document &, const char *)", "*xml_document*", False),
        ("app::query(pugi::xml_document &, const char *)", "app::q*", True),
        ("app::query(pugi::xml_document &, const char *)", "app::q*(*)", True),
        ("app::Walker::visit(void (*)(int)) const", "app::*::visit", True),
        ("app::Less::operator()", "app::*::operator()", True),
        ("app::Less::operator()(int, int) const", "app::Less*", True),
        ("app::Text::view(pugi::xml_node) const &", "app::*::xml_*", False),
        ("app::Text::view(pugi::xml_node) const &", "app::*::view", True),
        ("f(int)::lambda1", "*lambda1", True),
    ],
)
def test_names(name, pattern, expected):
    assert name_matches(name, pattern) is expected


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("compress.c", "compress.c", True),
        ("./src/../src/compress.c", "src/compress.c", True),
        ("/build/src/compress.c", "src/compress.c", True),
        ("/build/src/decompress.c", "compress.c", False),
        ("/build/src/compress.c", "*.c", True),
        ("src/a/x.c", "src/*.c", True),
        ("x.h", "*.c", False),
    ],
)
def test_files(path, pattern, expected):
    assert file_matches(path, pattern) is expected


def test_an_absolute_pattern_matches_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert file_matches("own.c", str(tmp_path / "own.c"))


def test_lines():
    assert split_line("a/b.c:12") == ("a/b.c", 12)
    assert split_line("f#2") is None
    assert split_line("ns::f") is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mainGtU", ["mainGtU"]),
        ("ns::Class::f", ["ns", "Class", "f"]),
        ("EState.nblock", ["EState", "nblock"]),
        ("sort_*_x", ["sort_"]),
        ("*", []),
        ("[Tt]ag?end", ["end"]),
        ("f(int, char)", ["f"]),
        ("Shape::~Shape", ["Shape", "Shape"]),
        ("ns::S::operator+=", ["operator"]),
        ("main::lambda2", ["main"]),
    ],
)
def test_words_that_a_text_must_hold(name, words):
    assert needed_words(name) == words


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("x", ("", "x", ())),
        ("::x", ("", "x", ())),
        ("ns::C::x.a[1].b", ("", "ns::C::x", ("a", 1, "b"))),
        ("server.c::queue.length", ("server.c", "queue", ("length",))),
        ("src/*.c::f::x[2][3]", ("src/*.c", "f::x", (2, 3))),
        ("*::x", ("", "*::x", ())),
    ],
)
def test_parts_of_a_gauge(target, expected):
    assert split_gauge(target) == expected
    assert split_gauge(target).variable == ("queue" if "queue" in target else "x")


@pytest.mark.parametrize(
    ("target", "last"),
    [("f", "f"), ("ns::f(a::b, int)", "f"), ("ns::f#2", "f"), ("ns::T.x", "x"), ("x.a[2]", "a"), ("f::label", "label")],
)
def test_the_last_part_of_a_target(target, last):
    assert last_part(target) == last
