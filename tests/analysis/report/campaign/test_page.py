from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from tests.analysis.report.synthetic import make_change, make_content, make_hostile
from tests.analysis.report.unpacking import unpacked
from unperturbed.analysis.looks import Looks
from unperturbed.analysis.pages.glossary import CAMPAIGN_TERMS, GLOSSARY
from unperturbed.analysis.perturbation.verdict import SEVERITY, Overhead, Verdict
from unperturbed.analysis.report.campaign import page
from unperturbed.analysis.report.campaign.changes import shade
from unperturbed.analysis.report.campaign.content import CounterSource, ReportContent, ReportSettings, RunRow
from unperturbed.analysis.report.campaign.page import render, write_report

LIMIT = 2_000_000
UPDATE = Path(__file__).parents[4] / "tools" / "update_plotly.py"
"""Names the checksum of the script that pages hold."""

VOID = {"br", "hr", "input", "meta", "col"}


class Document(HTMLParser):
    """The elements of a page, checked to be well nested."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.stack: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.stack == []

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.stack.append(name)

    def handle_endtag(self, name):
        assert self.stack.pop() == name

    def handle_data(self, data):
        if not {"script", "style"} & set(self.stack):
            self.text.append(data)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for element, attributes in self.elements if element == name]


@pytest.fixture(scope="module")
def document(html: str) -> Document:
    return Document(html)


def test_the_answer_and_every_verdict_stand_in_plain_words(document: Document):
    text = "".join(document.text)
    assert (
        "Measuring changed how metrics move together in at least 1 of 4 configurations: heavy is perturbed; "
        "anchor and light are" in text
    )
    assert "Worst: L1-data misses and mispredicted branches: ρ fell from" in text
    assert "Collect compares and moves in separate runs" in text
    assert "runs per configuration (now 5) would probably decide" in text
    assert "medium-06: no end after 120 s: timed out (2 attempts)" in text
    assert "+17\u00a0%" in text


def test_a_campaign_until_decided_names_the_level_of_each_interval(content: ReportContent):
    at_looks = tuple(
        replace(verdict, level=0.9875 if verdict.configuration == "light" else 0.96) for verdict in content.verdicts
    )
    page = unpacked(render(replace(content, verdicts=at_looks, looks=Looks((5, 10), (5, 10), {"light": 5}))))
    assert "at the level of the look that judged it (" in page
    assert "light 98.8 %, each side at 0.00625" in page
    assert "heavy 96 %, each side at 0.02" in page
    assert "90\u00a0% confidence interval" not in page


def test_the_glossary_has_the_sections_and_verdicts_of_the_report():
    assert {"total", "noise floor", "round", "look", *SEVERITY} <= set(CAMPAIGN_TERMS) <= set(GLOSSARY)
    assert list(GLOSSARY) == sorted(GLOSSARY, key=lambda term: term.replace("ρ", "rho").lower())
    assert "totals" in GLOSSARY["perturbation"]


def test_simulated_counters_are_never_shown_as_hardware(content: ReportContent, html: str):
    assert "Simulated counters: " in html
    assert "they are not hardware counts" in html
    assert "L1-data misses (simulated)" in unpacked(html)
    real = {
        name: tuple(
            replace(
                trace,
                metrics={
                    key: replace(m, kind="hardware", components=(f"papi:{key}",)) for key, m in trace.metrics.items()
                },
            )
            for trace in traces
        )
        for name, traces in content.traces.items()
    }
    other = unpacked(render(replace(content, source=CounterSource("papi", "Counted by the processor."), traces=real)))
    assert "Simulated counters" not in other
    assert "(simulated)" not in other
    assert "Counted by the processor." in other


def test_one_simulated_metric_is_enough_for_the_banner(content: ReportContent):
    assert "Simulated counters: " in render(replace(content, source=CounterSource("papi")))


def test_landmarks_headings_and_names(document: Document):
    names = [name for name, _ in document.elements]
    for landmark in ("header", "nav", "main", "footer"):
        assert names.count(landmark) == 1
    assert names.count("h1") == 1
    levels = [int(name[1]) for name in names if re.fullmatch(r"h[1-6]", name)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    identities = [attributes["id"] for _, attributes in document.elements if attributes.get("id")]
    assert len(identities) == len(set(identities))
    targets = [str(link["href"]).removeprefix("#") for link in document.all("a")]
    assert set(targets) <= set(identities)
    assert document.all("html")[0]["lang"] == "en"


def test_tables_have_captions_and_headers(html: str):
    tables = re.findall(r"<table.*?</table>", html, re.DOTALL)
    assert len(tables) >= 6
    for table in tables:
        assert "<caption>" in table
        assert all("scope=" in head for head in re.findall(r"<th[ >][^>]*", table))


def test_every_verdict_has_a_sign_and_a_word_besides_its_colour(html: str):
    for sign, word in (("✗", "perturbed"), ("?", "undecided"), ("✓", "unperturbed")):
        assert f'<span aria-hidden="true">{sign}</span> {word}' in html
        assert f"{sign} {word}</td>" in html


def test_controls_have_labels(html: str, document: Document):
    assert len(document.all("select")) == len(re.findall(r"<label>[^<]* <select", html))
    assert len(document.all("input")) == len(re.findall(r"<label><input", html))
    assert all(button["type"] == "button" for button in document.all("button"))


def test_plotly_stands_in_it_exactly_once_and_nothing_is_fetched(html: str, document: Document):
    assert html.count('id="plotly-source"') == 1
    packed = html.partition('id="plotly-source">')[2].partition("<")[0]
    script = gzip.decompress(base64.b64decode(packed))
    assert script.startswith(b"/**\n* plotly.js (basic - minified) v")
    assert f'SHA256 = "{hashlib.sha256(script).hexdigest()}"' in UPDATE.read_text()
    for name, attributes in document.elements:
        assert "src" not in attributes, name
        assert str(attributes.get("href", "#")).startswith("#")
        assert name not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert not [key for key in attributes if key.startswith("on")]
    policy = next(meta for meta in document.all("meta") if meta.get("http-equiv"))
    assert str(policy["content"]).startswith("default-src 'none';")
    assert "http" not in str(policy["content"])
    own = "".join(
        resources.files("unperturbed.analysis.pages").joinpath(name).read_text() for name in ("report.css", "report.js")
    )
    assert not re.search(r"https?:|@import|url\(|fetch\(|XMLHttpRequest|WebSocket|</script|<!--", own)


def test_no_text_of_the_user_leaves_its_place(content: ReportContent, document: Document):
    hostile = render(make_hostile(content))
    hostile.encode("utf-8")
    elements = Document(hostile).elements
    harmless = {"img", "br"}
    assert not [name for name, _ in elements if name in harmless]
    assert len([1 for name, _ in elements if name == "script"]) == len(document.all("script"))
    assert "onerror=alert(1)>" not in re.sub(r"&gt;|&quot;", "", hostile.replace("onerror=alert(1)&gt;", ""))
    assert "\u202e" not in hostile


def test_every_run_names_its_layout(content: ReportContent):
    rows = (RunRow("0001", "steps", 1, layout=0), RunRow("0002", "steps", 2, layout=37), RunRow("0003", "steps", 3))
    html = render(replace(content, runs=rows))
    table = re.search(r'id="runs-table".*?</table>', html, re.DOTALL)
    assert table is not None
    heads = [re.sub("<.*?>", "", head) for head in re.findall(r"<th scope=\"col\".*?</th>", table[0])]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)[heads.index("layout")] for row in table[0].split("<tr>")[2:]]
    assert cells == ["0", "37", "–"]


def test_the_spec_is_shown_as_it_was(content: ReportContent):
    spec = 'name: "a" & <b>\n# </pre></script>\n'
    html = render(replace(content, spec_text=spec))
    assert "name: &quot;a&quot; &amp; &lt;b&gt;\n# &lt;/pre&gt;&lt;/script&gt;" in html
    long = render(replace(content, spec_text="x" * 200_000))
    assert "200,000 characters in all" in long


def test_size_of_a_usual_campaign(html: str):
    assert len(html.encode()) < 1_200_000


def large_content() -> ReportContent:
    """24 hardware metrics, 6 configurations, 100 runs of 3,000 intervals: more than a campaign of one event set can
    hold."""
    base = make_content(intervals=3000, baseline_runs=20, runs=16)
    names = [f"HARDWARE_METRIC_WITH_A_LONG_NAME_{number:02d}" for number in range(24)]
    runs = tuple(
        tuple(f"{kind}-{number:02d}" for number in range(count)) for kind, count in (("base", 20), ("here", 16))
    )
    changes = tuple(
        make_change(
            "inner", first, second, [0.5 + 0.001 * i for i in range(20)], [0.45 + 0.002 * i for i in range(16)], runs
        )
        for first, second in combinations(names, 2)
    )
    verdicts = tuple(
        Verdict(f"configuration {number}", "baseline", "undecided", changes, overhead=Overhead(0.01 * number))
        for number in range(6)
    )
    rows = tuple(RunRow(f"run-{number:04d}", "heavy", number, error="e" * 900) for number in range(800))
    return replace(base, verdicts=(*verdicts, *base.verdicts), runs=rows, spec_text="s" * 300_000)


@pytest.mark.thorough
def test_size_of_a_very_large_campaign():
    content = large_content()
    html = render(content)
    assert len(html.encode()) < LIMIT
    assert "changes; verdicts.json has all." in html
    assert "Only 400 of 800 are listed, failures first" in html
    assert "neighbouring intervals, to keep the page small" in html
    assert "The figure shows the 100 most serious of" in html
    whole = sum(len(verdict.changes) for verdict in content.verdicts)
    assert f"Show all {whole:,} changes" in html
    rest = unpacked(html).partition('id="changes-rest">')[2].partition("</script>")[0]
    assert json.loads(rest).count("<tr>") == whole - 100
    assert html.partition('id="changes-table"')[2].partition("</table>")[0].count("<tr>") == 1 + 100
    assert "verdicts.json is in the same folder as this page" in html


@pytest.mark.parametrize(
    "bare",
    [
        lambda c: ReportContent("nothing", (), CounterSource("papi")),
        lambda c: ReportContent("a verdict alone", c.verdicts[:1], CounterSource("papi")),
        lambda c: replace(c, verdicts=(), failures=("every run failed",)),
        lambda c: replace(c, traces={}, alignment=None, runs=(), provenance={}, spec_text=""),
        lambda c: replace(c, verdicts=tuple(replace(v, changes=()) for v in c.verdicts)),
        lambda c: replace(c, verdicts=tuple(replace(v, changes=v.of("outer")) for v in c.verdicts)),
        lambda c: replace(c, traces={"baseline": (), "heavy": c.traces["heavy"]}, settings=ReportSettings()),
        lambda c: replace(
            c, alignment=replace(c.alignment, milestone_scores=(), x=[1.0, 1.0], x_index=[0, 1], y_index=[0, 3])
        ),
    ],
)
def test_a_page_stands_whatever_is_missing(content: ReportContent, bare):
    document = Document(render(bare(content)))
    identities = {attributes.get("id") for _, attributes in document.elements}
    assert {"verdicts", "changes", "provenance", "reading", "method"} <= identities


def test_a_report_appears_whole_or_not_at_all(content: ReportContent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    target = tmp_path / "report.html"
    write_report(target, content)
    first = target.read_text(encoding="utf-8")
    assert first == render(content)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(target, replace(content, campaign="another"))
    assert target.read_text(encoding="utf-8") == first
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_rendering_is_repeatable(content: ReportContent, html: str):
    assert render(content) == html


@pytest.mark.parametrize(
    ("effect", "name"),
    [(0.0, "rose-0"), (-0.024, "fell-0"), (-0.03, "fell-1"), (0.06, "rose-2"), (0.1, "rose-3"), (-0.5, "fell-4")],
)
def test_shades_count_tolerances(effect: float, name: str):
    assert shade(effect, 0.1) == name


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark", "print"])
def test_text_stands_out_from_its_ground(scheme: int):
    css = resources.files("unperturbed.analysis.pages").joinpath("report.css").read_text()
    block = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[scheme]
    colour = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    texts = [
        ("ink", "paper"),
        ("ink", "card"),
        ("muted", "paper"),
        ("muted", "card"),
        ("accent", "card"),
        ("accent", "paper"),
    ]
    texts += [("card", f"series-{number}") for number in range(1, 7)]  # counts and signs on bars and cells
    texts += [(verdict, ground) for verdict in SEVERITY for ground in ("card", f"{verdict}-soft")]
    texts += [("cell-ink", f"{way}-{step}") for way in ("fell", "rose") for step in range(1, 5)]
    for text, ground in texts:
        assert contrast(colour[text], colour[ground]) >= 4.5, (text, ground)
    for line in [f"series-{number}" for number in range(1, 7)]:
        assert contrast(colour[line], colour["card"]) >= 3, line
