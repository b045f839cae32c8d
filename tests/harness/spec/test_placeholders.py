"""Placeholders in commands and paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.errors import SpecError
from unperturbed.harness.spec.text import PLACEHOLDERS, find_placeholders, substitute


@pytest.mark.parametrize(
    ("text", "found", "put_in"),
    [
        ("make CC={cc}", ("cc",), "make CC=gcc"),
        ("{cc} {spec}/a {cc}", ("cc", "spec"), "gcc /s p/a gcc"),
        ("no braces", (), "no braces"),
        ("${HOME} {cc}", ("cc",), "${HOME} gcc"),
        ("{{cc}} {cc}", ("cc",), "{cc} gcc"),
        ("awk '{print $1}' {}", (), "awk '{print $1}' {}"),
        ('{"a": 1, "b": {}}', (), '{"a": 1, "b": {}}'),
        ("{cc}{cc}", ("cc",), "gccgcc"),
        ("{{{cc}}}", (), "{{cc}}"),
        ("{1} {a-b} { cc }", (), "{1} {a-b} { cc }"),
    ],
)
def test_finds_and_substitutes(text: str, found: tuple[str, ...], put_in: str) -> None:
    assert find_placeholders(text) == found
    assert substitute(text, {"cc": "gcc", "spec": "/s p"}) == put_in


def test_a_value_is_not_looked_into_again() -> None:
    assert substitute("{a}", {"a": "{b}", "b": "x"}) == "{b}"


def test_a_placeholder_without_a_value_is_an_error() -> None:
    with pytest.raises(SpecError) as caught:
        substitute("run {build}/x", {"spec": "/s", "inputs": "/i"})
    assert str(caught.value) == "`run {build}/x`: unknown placeholder {build}; use {spec} or {inputs}"


@given(st.text("{}$abc ", max_size=40))
def test_what_is_found_is_what_is_replaced(text: str) -> None:
    names = find_placeholders(text)
    replaced = substitute(text, dict.fromkeys(names, ""))
    assert len(replaced) <= len(text)
    for name in names:
        with pytest.raises(SpecError):
            substitute(text, dict.fromkeys(set(names) - {name}, ""))


def test_the_table_is_complete() -> None:
    fields = {"build", "prepare", "run", "ready", "load", "tool", "stdin", "working_folder", "environment"}
    assert set().union(*(placeholder.fields for placeholder in PLACEHOLDERS.values())) == fields
    assert all(placeholder.meaning for placeholder in PLACEHOLDERS.values())
    assert {name for name, placeholder in PLACEHOLDERS.items() if placeholder.fields == {"build"}} == {"cc", "cxx"}
