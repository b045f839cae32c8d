"""A section of a page is replaced by its heading, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

from experiments.common.sections import sections_of, write_section

TEXT = "# Page\n\nMade by …\n\n## One\n\nold\n\n### Part\n\n## Two\n\nkept\n"


def test_a_section_is_replaced_and_a_new_one_comes_last(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(TEXT)
    assert "".join(sections_of(TEXT)) == TEXT
    write_section(page, "## One\n\nnew\n\n")
    assert page.read_text() == "# Page\n\nMade by …\n\n## One\n\nnew\n\n## Two\n\nkept\n"
    write_section(page, "## Three\n\nlast\n")
    assert page.read_text().endswith("## Two\n\nkept\n\n## Three\n\nlast\n")
