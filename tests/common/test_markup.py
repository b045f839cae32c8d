from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.common.markup import Html, HtmlCell, json_text, table, tag, text

ANYTHING = st.text(st.characters(codec=None), max_size=60)
CLEAN = st.text(
    st.characters(blacklist_categories=("Cc", "Cs", "Cn", "Co", "Cf"), blacklist_characters="\u2028\u2029"), max_size=60
)


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, name, attributes):
        self.seen.append((name, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


@given(CLEAN, CLEAN)
def test_text_and_attributes_come_back_as_they_were(inside, attribute):
    reader = read(tag("p", inside, title=attribute))
    assert reader.seen == [("p", {"title": attribute})]
    assert "".join(reader.texts) == inside


@given(ANYTHING, ANYTHING)
def test_no_text_makes_an_element(inside, attribute):
    reader = read(tag("p", inside, [inside, None, (inside,)], title=attribute, data_x=attribute))
    assert [name for name, _ in reader.seen] == ["p"]


@given(st.lists(CLEAN))
def test_json_comes_back_as_it_was(value):
    assert json.loads(json_text(value)) == value


def test_json_refuses_nan():
    with pytest.raises(ValueError, match="JSON"):
        json_text([float("nan")])


def test_markup_is_escaped_once():
    assert text([Html("<b>"), "<b>", None]) == "<b>&lt;b&gt;"
    assert tag("br") == "<br>"
    assert tag("p", tag("b", "&"), hidden=True, title=None, open=False) == "<p hidden><b>&amp;</b></p>"
    assert tag("p", class_="a", aria_label='"') == '<p class="a" aria-label="&quot;"></p>'


@pytest.mark.parametrize("sign", ["\x00", "\x1b", "\ud800", "\u202e", "\u2066"])
def test_signs_that_break_or_turn_text_are_replaced(sign):
    assert text(f"a{sign}b") == "a\ufffdb"
    assert sign not in json_text(f"a{sign}b")  # JSON's own escapes keep controls harmless


def test_a_table_has_headers_for_columns_and_rows():
    made = table(
        "Some <numbers>",
        ["name", ("value", "what it is")],
        [["a", HtmlCell("1", 1.0)], ["b", HtmlCell("–", float("nan"))]],
        sortable=True,
    )
    reader = read(made)
    heads = [attributes for name, attributes in reader.seen if name == "th"]
    assert [head["scope"] for head in heads] == ["col", "col", "row", "row"]
    assert heads[1]["title"] == "what it is"
    cells = [attributes for name, attributes in reader.seen if name == "td"]
    assert cells == [{"data-key": "1.0"}, {}]
    assert sum(name == "button" for name, _ in reader.seen) == 2
    assert reader.seen[0][1]["aria-label"] == "Some <numbers>"
