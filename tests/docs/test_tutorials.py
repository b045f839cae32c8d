"""Each tutorial is followed as a reader would: its files are written, its commands run, its outputs compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import notebook, site
from tools.tutorials import AFTER, PAGES, blocks, follow, is_printed
from unperturbed.harness.spec.load import parse_spec

_LONG = ("campaign", "jvm", "subsets", "warm_up")
"""Dozens of runs: `make validate` follows these pages, `make test` reads their specs."""

_LIGHTER = {
    "first_answer": {'glob("*.py")': 'glob("[a-i]*.py")'},  # its command as it stands: other tests give options
    "services": {"s/pid: 1234/": "s/duration: 2 s/duration: 300 ms/; s/pid: 1234/"},
    "own_traces": {"range(16)": "range(8)", "-I 20": "-I 10"},
}
"""Half the text for programs that are run a dozen times and more, and shorter windows; `perf` gives as many intervals
of half the length."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name in _LONG else []) for name in PAGES if name not in AFTER],
)
@pytest.mark.timeout(900)
def test_a_tutorial_can_be_followed(name: str, tmp_path: Path) -> None:
    for one in (name, *(later for later, first in AFTER.items() if first == name)):
        assert blocks(PAGES[one])
        assert all(text in PAGES[one].read_text() for text in _LIGHTER.get(one, {})), "a text to replace is gone"
        _follow_on_a_busy_host(PAGES[one], tmp_path, _LIGHTER.get(one, {}))


def _follow_on_a_busy_host(page: Path, folder: Path, lighter: Mapping[str, str]) -> None:
    """Follow a page again, up to twice, if a busy host made perf's intervals too uneven to compare."""
    for left in (2, 1, 0):
        try:
            follow(page, folder, lighter)
        except AssertionError as error:
            if not left or "a busy host made intervals uneven" not in str(error):
                raise
        else:
            return


@pytest.mark.parametrize("name", _LONG)
def test_the_spec_of_a_long_tutorial_is_right(name: str, tmp_path: Path) -> None:
    """Else a page that names a key that is gone would be seen by `make validate` alone."""
    (tmp_path / "phases").mkdir()
    (tmp_path / "index").mkdir()
    (tmp_path / "text.txt").touch()
    (tmp_path / "search.pl").touch()
    specs = [block for block in blocks(PAGES[name]) if block.title.endswith(".yaml")]
    assert specs
    for block in specs:
        spec = parse_spec(block.text, block.title, tmp_path)
        assert spec.analysis.anchor is None or spec.analysis.anchor in spec.measure.software


def test_outputs_are_compared() -> None:
    assert is_printed("run 1 of …", "run 7 of 20: baseline")
    assert not is_printed("run 1 of …", "no run")


def test_a_page_may_show_a_verdict_that_is_one_of_several(tmp_path: Path) -> None:
    page = _page(tmp_path, "'calls  ✓ unperturbed'", "word = 'calls  ? undecided'")
    with pytest.raises(AssertionError, match="is not in"):
        follow(page, tmp_path)
    page.write_text(page.read_text().replace("```text", "<!-- any verdict -->\n```text"))
    assert len(follow(page, tmp_path).cells) == 1


def _page(folder: Path, shown: str, code: str = "word = 'right'") -> Path:
    page = folder / "page.md"
    page.write_text(f"```python\n{code}\nword\n```\n\n```text\n{shown}\n```\n")
    return page


def test_a_cell_that_fails_or_shows_another_text_is_refused(tmp_path: Path) -> None:
    assert follow(_page(tmp_path, "'right'"), tmp_path).cells[0].values == ("right",)
    with pytest.raises(AssertionError, match=r"page.md:\n'wrong'\nis not in\n'right'"):
        follow(_page(tmp_path, "'wrong'"), tmp_path)
    with pytest.raises(AssertionError, match=r"page.md: ZeroDivisionError: .* in\nword = 1 / 0"):
        follow(_page(tmp_path, "", "word = 1 / 0"), tmp_path)


def test_the_build_of_the_site_fails_where_the_notebook_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "inputs", lambda: tmp_path)
    monkeypatch.setattr(notebook, "PAGE", _page(tmp_path, "'wrong'"))
    with pytest.raises(SystemExit, match=r"the notebook tutorial: page\.md"):
        site.main()
