"""The site, opened from its folder in real Chromium: offline search, narrow windows, contrast, and the API's tables."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import axe_core_python
import pytest

from tests.analysis.report.browser import ReportPage, chromium_missing, open_report
from tools.public import PACKAGES

ROOT = Path(__file__).parents[2]
AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
PAGES = (
    "index.html",
    "tutorials/first_answer.html",
    "how-to/software.html",
    "reference/spec.html",
    "reference/command_line.html",
    "reference/api/unperturbed.collectors.html",
    "explanation/verdicts.html",
    "evidence/perturbation.html",
)

TURN = """
const done = arguments[2];
document.querySelector('base').href = arguments[1];
document.body.replaceWith(document.adoptNode(new DOMParser().parseFromString(arguments[0], 'text/html').body));
Promise.allSettled([...document.images].map((image) => image.decode())).then(() =>
    done(document.documentElement.scrollWidth - document.documentElement.clientWidth));
"""
"""Show the body of another page with the same style sheets, in a third of the time; return how much too wide it is."""


class Looked(NamedTuple):
    """What was seen on the pages: requests to elsewhere by page, the tabs, and what keeps readers out."""

    outside: dict[str, list[str]]
    tabs: list[str]
    barriers: list[str]


pytestmark = pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if built_before := os.environ.get("UNPERTURBED_SITE"):  # by `make check`, of the same files
        return Path(built_before)
    folder = tmp_path_factory.mktemp("site")
    for command in (["-m", "tools.site"], ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]):
        built = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def window(site: Path) -> Iterator[ReportPage]:
    with open_report(site / "index.html", width=600, height=800) as page:
        yield page


def visit(window: ReportPage, path: Path) -> None:
    """Go on to another page in the same process of the browser; a page between them would cost most of the time."""
    window.driver.get(path.resolve().as_uri())


@pytest.fixture(scope="module")
def looked_at(site: Path, window: ReportPage) -> Looked:
    """Open each of the pages once: that takes longer than what is asked of them."""
    found = Looked({}, [], [])
    for name in PAGES:
        visit(window, site / name)
        found.outside[name] = [address for address in window.requests() if not address.startswith("file:")]
        found.tabs[:] = window.js(
            "return [...document.querySelectorAll('.md-tabs__link')].map((tab) => tab.textContent.trim())"
        )
        found.barriers.extend(barriers(window, name))
    return found


def barriers(window: ReportPage, name: str) -> list[str]:
    """Return what keeps some readers out of the page that is open, in either of its colour schemes."""
    window.js(
        "const still = document.createElement('style'); still.textContent = '* { transition: none !important }';"
        "document.head.append(still)"
    )
    window.js(AXE.read_text(encoding="utf-8"))
    serious = []
    # The schemes differ in their colours alone.
    for scheme, options in (("default", "{}"), ("slate", "{runOnly: ['color-contrast']}")):
        found = window.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            f"document.body.setAttribute('data-md-color-scheme', {scheme!r});"
            f"axe.run(document, {{resultTypes: ['violations'], ...{options}}}).then(done)"
        )
        assert found["passes"], f"{name}: nothing was looked at"
        serious += [
            f"{name}, {scheme}: {fault['id']}: {fault['help']}: {fault['nodes'][0]['html'][:200]}"
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical")
        ]
    return serious


def test_five_tabs_and_no_request_to_anywhere(looked_at: Looked) -> None:
    assert looked_at.outside == {name: [] for name in PAGES}
    assert looked_at.tabs == ["Tutorial", "How-to", "Reference", "Explanation", "Evidence"]


def test_nothing_keeps_a_reader_out(looked_at: Looked) -> None:
    assert not looked_at.barriers, "\n".join(looked_at.barriers)


def test_the_search_works_from_a_folder(site: Path, window: ReportPage) -> None:
    window.open(site / "index.html")
    window.js(
        "const field = document.querySelector('.md-search__input'); field.focus(); field.value = 'multiplexing';"
        "for (const name of ['input', 'keyup']) field.dispatchEvent(new Event(name, { bubbles: true }))"
    )
    window.wait("return document.querySelectorAll('.md-search-result__link').length > 0", 30)
    found = window.js("return [...document.querySelectorAll('.md-search-result__link')].map((link) => link.href)")
    assert any("glossary" in link for link in found)


def test_no_page_is_wider_than_a_narrow_window(site: Path, window: ReportPage) -> None:
    exhibits = sorted(site.glob("gallery/*.html"))
    for path in exhibits:
        visit(window, path)
        wide = window.js("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path.relative_to(site)} is {wide} px wider than a window of 600 px"
    # Only scripts draw an exhibit; elsewhere they load the search's index, which takes longer than the page.
    window.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        shown: tuple[str, ...] = ()
        for path in sorted(set(site.rglob("*.html")) - set(exhibits)):
            page = path.read_text(encoding="utf-8")
            if shown != (shown := styles(page, path.parent)):
                visit(window, path)
                window.js("document.head.append(document.createElement('base'))")
            wide = window.driver.execute_async_script(TURN, page, path.resolve().as_uri())
            assert wide <= 0, f"{path.relative_to(site)} is {wide} px wider than a window of 600 px"
    finally:
        window.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def styles(page: str, folder: Path) -> tuple[str, ...]:
    """Return the style sheets and styles of a page's head: what its look depends on beside its body."""
    head = page[: page.index("<body")]
    sheets = [tag for tag in re.findall(r"<link[^>]*>", head) if "stylesheet" in tag]
    assert sheets
    links = [str((folder / re.findall(r'href="([^"]*)"', tag)[0]).resolve()) for tag in sheets]
    return (*links, *re.findall(r"<style.*?</style>", head, re.DOTALL))


def test_a_heading_that_is_linked_stands_below_the_header(site: Path, window: ReportPage) -> None:
    window.open(site / "explanation/verdicts.html")
    anchor = window.js("return [...document.querySelectorAll('h2[id]')][2].id")
    window.js(f"location.hash = {anchor!r}")
    window.wait(
        f"return document.getElementById({anchor!r}).getBoundingClientRect().top >= "
        "document.querySelector('.md-header').getBoundingClientRect().bottom - 1"
    )


def test_every_row_of_the_library_s_tables_has_a_type_and_a_description(site: Path) -> None:
    rows, faults = 0, []
    for path in sorted((site / "reference/api").glob("*.html")):
        for row in re.findall(r'<tr class="doc-section-item">(.*?)</tr>', path.read_text(encoding="utf-8"), re.DOTALL):
            rows += 1
            cells = [
                " ".join(re.sub(r"<[^>]+>", " ", cell).split())
                for cell in re.findall(r"<td>(.*?)</td>", row, re.DOTALL)
            ]
            if not all(cells):
                faults.append(f"{path.name}: {cells}")
    assert rows > 300
    assert not faults, "\n".join(faults)


def test_every_public_name_is_on_its_package_s_page(site: Path) -> None:
    for package in PACKAGES:
        text = (site / f"reference/api/{package}.html").read_text(encoding="utf-8")
        names = getattr(importlib.import_module(package), "__all__", ())
        missing = [name for name in names if not name.startswith("__") and f'id="{package}.{name}"' not in text]
        assert not missing, f"{package}: {missing}"


def _plain(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())
