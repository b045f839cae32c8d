"""A table is written once: the terminal and the page show the same cells."""

from __future__ import annotations

import pytest

from unperturbed.common.table import Cell, Column, Table, markdown

TABLE = Table(
    [Column("metric"), Column("change", "right", "of the correlation")],
    [["lookups", Cell("+0.05", "good", key=0.05)], ["<ties>", Cell("−0.31", "bad", key=-0.31, link="#ties")]],
    "What changed",
)


def test_the_terminal_and_the_page_show_the_same() -> None:
    lines = TABLE.to_text().splitlines()
    assert lines[0] == "What changed"
    assert [line.split() for line in lines if "0." in line] == [["lookups", "+0.05"], ["<ties>", "−0.31"]]
    html = TABLE.to_html(sortable=True)
    assert "&lt;ties&gt;" in html
    assert "<ties>" not in html
    assert '<td data-key="-0.31" class="bad number"><a href="#ties">−0.31</a></td>' in html
    assert 'title="of the correlation"' in html


def test_terminal_markup_in_a_cell_is_text() -> None:
    assert "[red]x[/red]" in Table([Column("a")], [["[red]x[/red]"]]).to_text()


def test_rows_have_as_many_cells_as_columns() -> None:
    with pytest.raises(ValueError, match="row 1 has 2 cells, but the table has 1 columns"):
        Table([Column("a")], [["x", "y"]])


def test_a_series_has_the_colour_of_its_figure_and_long_words_are_whole() -> None:
    table = Table([Column("word"), Column("classes")], [[Cell("1", series=1), "A" * 100], [Cell("8", series=0), ""]])
    assert "background:var(--series-1)" in table.to_html()
    assert "background:var(--muted-bar)" in table.to_html()
    assert table.to_text(width=40).count("A") == 100


def test_text_has_the_width_of_the_terminal_and_leaves_details_out(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(
        [Column("metric"), Column("change"), Column("p beyond", detail=True), Column("smallest", detail=True)],
        [["instructions", "+0.05", "0.013", "0.12"]],
    )
    assert "left out" not in table.to_text(60)
    assert "smallest" in table.to_text(60)
    lines = table.to_text(36).splitlines()
    assert lines[-1] == "Columns left out at width 36: smallest."
    assert any(line.split() == ["instructions", "+0.05", "0.013"] for line in lines)
    assert table.to_text(26).splitlines()[-1] == "Columns left out at width 26: p beyond and smallest."
    monkeypatch.setenv("COLUMNS", "36")
    assert table.to_text() == table.to_text(36)


def test_markdown_reads_nothing_as_markup() -> None:
    assert markdown("$m$") == "<span>$</span>m<span>$</span>", "else GitHub shows a formula"
    assert markdown("a|b_c ~d~ <e>\n#1") == "a\\|b\\_c &#126;d&#126; &lt;e&gt; \\#1"
