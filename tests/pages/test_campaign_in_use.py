"""The page as it is used: by keyboard, narrow and wide, light and dark, folded, and saved from."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.report.browser import ReportPage, chromium_missing, open_report
from unperturbed.analysis.report.campaign.content import ReportContent, to_json
from unperturbed.analysis.report.campaign.page import write_report

pytestmark = pytest.mark.skipif(bool(chromium_missing()), reason=chromium_missing())


@pytest.fixture(scope="module")
def opened(content: ReportContent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportPage]:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, content)
    with open_report(path, width=1400) as page:
        page.wait_drawn()
        yield page
        assert page.console() == []
        assert page.requests() == [path.resolve().as_uri()]


def resize(opened: ReportPage, width: int) -> None:
    opened.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    opened.wait(f"return innerWidth === {width}")


def press(opened: ReportPage, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        ActionChains(opened.driver).send_keys(key).perform()


def test_a_folded_part_is_not_drawn_before_it_is_opened(content: ReportContent, tmp_path: Path):
    write_report(tmp_path / "report.html", content)
    with open_report(tmp_path / "report.html") as page:
        page.wait_drawn()
        folded = page.js("return [...document.querySelectorAll('main details h2')].map((head) => head.textContent)")
        assert folded == [
            *("Correlations", "Alignment of two runs", "Where the numbers come from", "How to read this page", "Method")
        ]
        assert not page.js("return document.querySelector('#baseline-by-run svg')")


@pytest.mark.parametrize("width", [600, 1400])
def test_the_first_screen_answers(opened: ReportPage, width: int):
    resize(opened, width)
    opened.js("scrollTo(0, 0)")
    seen = opened.js(
        "return ['.answer', 'details.banner', '.trust thead'].map((place) => "
        "document.querySelector(place).getBoundingClientRect().bottom)"
    )
    assert seen == sorted(seen)
    assert seen[-1] < 900
    one_line = opened.js("return document.querySelector('details.banner').getBoundingClientRect().height")
    assert one_line < (50 if width == 1400 else 75)
    assert opened.js("return [innerWidth, document.documentElement.scrollWidth]") == [width, width]


CONTRAST = """
const parse = (colour) => { const found = colour.match(/[\\d.]+/g).map(Number); return found.length < 4 ?
  [...found, 1] : found; };
const over = (top, ground) => top.slice(0, 3).map((part, i) => part * top[3] + ground[i] * (1 - top[3]));
const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
function ground(element) {
  const layers = [];
  for (let place = element; place; place = place.parentElement) {
    const colour = parse(getComputedStyle(place).backgroundColor);
    if (colour[3]) layers.push(colour);
    if (colour[3] === 1) break;
  }
  return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
}
const bad = [];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = texts.nextNode(); node; node = texts.nextNode()) {
  const element = node.parentElement;
  if (!node.textContent.trim() || element.closest("script, style, noscript, .hovertext, .bartext")) continue;
  if (!element.checkVisibility()) continue;
  const style = getComputedStyle(element);
  const svg = element.namespaceURI.endsWith("svg");
  const colour = parse(svg ? style.fill : style.color);
  if (svg && (style.fill === "none" || colour[3] === 0)) continue;
  const below = ground(element);
  const [light, dark] = [luminance(over(colour, below)), luminance(below)].sort((a, b) => b - a);
  const ratio = (light + 0.05) / (dark + 0.05);
  const name = `${element.tagName} ${element.className.baseVal ?? element.className}`;
  if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${name}: ${node.textContent.slice(0, 40)}`);
}
return [...new Set(bad)];
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [600, 1400])
def test_every_text_stands_out_from_its_ground(opened: ReportPage, width: int, dark: bool):
    opened.unfold()
    resize(opened, width)
    opened.emulate(dark=dark)
    ink = "rgb(230, 233, 236)" if dark else "rgb(27, 31, 36)"
    opened.wait(f"return getComputedStyle(document.querySelector('#forest .xtick text')).fill === '{ink}'", 20)
    assert opened.js(CONTRAST) == []
    opened.emulate()


def test_the_matrix_is_one_stop_and_arrow_keys_go_round_in_it(opened: ReportPage):
    from selenium.webdriver.common.keys import Keys

    resize(opened, 1400)
    active = (
        "const cell = document.activeElement.closest('td, th');"
        "return cell && [cell.closest('table').rows[0].cells[cell.cellIndex].innerText.trim(),"
        " cell.parentElement.cells[0].innerText.trim(), document.activeElement.tagName]"
    )
    opened.js("document.querySelector('.trust').previousElementSibling.tabIndex = -1")
    opened.js("document.querySelector('.trust').previousElementSibling.focus()")
    press(opened, Keys.TAB)
    first = opened.js(active)
    assert first == ["anchor ✓", "instructions per cycle IPC", "BUTTON"]
    press(opened, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert opened.js(active) == ["light ✓", "instructions PAPI_TOT_INS", "BUTTON"]
    press(opened, Keys.END)
    assert opened.js(active)[0] == "heavy ✗"
    press(opened, Keys.ARROW_RIGHT)
    assert opened.js(active)[0] == "heavy ✗", "it does not leave the table"
    press(opened, Keys.HOME, Keys.ARROW_UP, Keys.ARROW_UP)
    assert opened.js(active) == ["anchor ✓", "metric", "A"], "the heads lead to the cards"
    press(opened, Keys.ARROW_DOWN, Keys.ENTER)
    opened.wait("return document.getElementById('details').open", 20)
    press(opened, Keys.ESCAPE)
    assert opened.js(active) == first, "the window gives the focus back"
    press(opened, Keys.TAB)
    assert not opened.js("return document.querySelector('.trust table').contains(document.activeElement)")
    assert opened.js("return document.activeElement.textContent") == "CSV"
    stops = (
        "return [...document.querySelectorAll('[role=grid]')].map((t) => t.querySelectorAll('[tabindex=\"0\"]').length)"
    )
    assert opened.js(stops) == [1, 1, 1, 1]
    heads = opened.js("return document.querySelector('#changes-table').closest('[tabindex=\"0\"]')")
    assert heads is None


def test_a_stop_that_is_filtered_away_moves_on(opened: ReportPage):
    stop = "return document.querySelector('#changes-table tbody [tabindex=\"0\"]').closest('tr')"
    assert not opened.js(f"{stop}.hidden")
    choose = (
        "const select = document.querySelector(\"select[data-filter='changes-table'][data-column='1']\");"
        "select.value = arguments[0]; select.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    opened.js(choose, "anchor")
    assert opened.js(f"{stop}.cells[1].textContent") == "anchor"
    opened.js(choose, "")


def test_the_section_in_view_is_marked(opened: ReportPage):
    marked = "return [...document.querySelectorAll('nav [aria-current]')].map((link) => link.textContent)"
    for identity, name in (("trust", "Metrics"), ("changes", "What changed"), ("runs", "Runs")):
        opened.js("document.getElementById(arguments[0]).scrollIntoView()", identity)
        opened.wait(f"{marked.replace('return ', 'return (')})[0] === '{name}'", 10)
        assert opened.js(marked) == [name]
    resize(opened, 600)
    opened.js("scrollTo(0, document.documentElement.scrollHeight)")
    opened.wait(f"{marked.replace('return ', 'return (')})[0] === 'Method'", 10)
    left, right = opened.js(
        "const box = document.querySelector('nav [aria-current]').getBoundingClientRect(); return [box.left, box.right]"
    )
    assert 0 <= left < right <= 600, "it is scrolled into the bar"
    resize(opened, 1400)


def test_a_link_into_a_folded_part_opens_it(opened: ReportPage):
    opened.js("for (const folded of document.querySelectorAll('main details')) folded.open = false")
    opened.js("document.querySelector('nav a[href=\"#correlations\"]').click()")
    assert opened.js("return document.querySelector('#correlations > details').open")
    assert not opened.js("return document.querySelector('#method > details').open")
    opened.wait("return document.querySelector('#baseline-by-run svg')")
    opened.wait("return document.querySelector('#baseline-by-run svg').getBoundingClientRect().width > 1000")


def saved(folder: Path, name: str) -> bytes:
    for _ in range(200):
        if (folder / name).is_file() and not list(folder.glob("*.crdownload")):
            return (folder / name).read_bytes()
        time.sleep(0.05)
    raise AssertionError(f"{name} is not among {sorted(path.name for path in folder.iterdir())}")


def test_figures_tables_and_numbers_can_be_saved(opened: ReportPage, content: ReportContent, tmp_path: Path):
    where: dict[str, Any] = {"behavior": "allow", "downloadPath": str(tmp_path)}
    opened.driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    click = 'document.querySelector(`[aria-label^="${arguments[0]}"]`).click()'
    opened.js(click, "Save the figure forest as SVG")
    svg = saved(tmp_path, "quickstart-forest.svg")
    assert svg.startswith(b"<svg")
    assert svg.count(b'class="point ') > 10
    opened.js(click, "Save the figure forest as PNG")
    assert saved(tmp_path, "quickstart-forest.png").startswith(b"\x89PNG")
    opened.js(click, "Save the table as CSV: All changes")
    rows = list(csv.reader(saved(tmp_path, "quickstart-changes-table.csv").decode("utf-8-sig").splitlines()))
    assert rows[0][:4] == ["metrics", "configuration", "check", "verdict"]
    assert len(rows) == 1 + sum(len(verdict.changes) for verdict in content.verdicts)
    effects = sorted(float(row[6]) for row in rows[1:])
    assert effects == sorted(change.effect for verdict in content.verdicts for change in verdict.changes), "exact"
    opened.js("document.querySelector('button[data-packed]').click()")
    assert json.loads(saved(tmp_path, "verdicts.json")) == json.loads(json.dumps(to_json(content)))
    buttons = opened.js(
        "return [document.querySelectorAll('figure .saves').length, document.querySelectorAll('figure .chart').length,"
        " document.querySelectorAll('.saves [aria-label*=CSV]').length, document.querySelectorAll('main table').length]"
    )
    figures, charts, offers, tables = buttons
    assert figures == charts > 12
    assert offers == tables > 6


def test_the_rest_of_a_long_table_comes_when_it_is_wanted(tmp_path: Path):
    from tests.analysis.report.campaign.test_page import large_content

    large = large_content()
    whole = sum(len(verdict.changes) for verdict in large.verdicts)
    write_report(tmp_path / "report.html", large)
    with open_report(tmp_path / "report.html") as page:
        page.wait_drawn()
        rows = "document.querySelector('#changes-table').tBodies[0].rows"
        assert page.js(f"return {rows}.length") == 100
        page.js(
            "const select = document.querySelector(\"select[data-filter='changes-table'][data-column='2']\");"
            "select.value = 'outer'; select.dispatchEvent(new Event('change', {bubbles: true}))"
        )
        page.wait(f"return {rows}.length === {whole}")
        outer = sum(len(verdict.of("outer")) for verdict in large.verdicts)
        page.wait(f"return document.getElementById('changes-count').textContent === '{outer} changes'")
        assert not page.js("return document.querySelector('[data-rest]')")
        stops = "return document.querySelectorAll('#changes-table [tabindex=\"0\"]').length"
        assert page.js(stops) == 1
        assert page.console() == []
