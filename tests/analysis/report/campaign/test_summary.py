"""Verdicts for pipelines: Markdown, which a parser reads back, and JUnit XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import markdown as python_markdown

from unperturbed.analysis.perturbation import verdict_table
from unperturbed.analysis.report.campaign.content import ReportContent
from unperturbed.analysis.report.campaign.summary import to_junit, to_markdown
from unperturbed.common.table import Cell, Column, Table


def cells(text: str) -> list[list[str]]:
    """Return the rows of the tables in a Markdown text, as a parser reads them."""
    page = ET.fromstring(f"<p>{python_markdown.markdown(text, extensions=['tables'], output_format='xhtml')}</p>")
    return [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]


def test_a_table_is_read_back_whatever_its_cells_hold() -> None:
    odd = ["a|b", "*x*", "_y_", "`z`", "<b>", "[a](b)", "line\nend", "\x1b[31m", "~~no~~", "\\|", "ρ ✓ −0.3"]
    table = Table(
        (Column("what|ever"), Column("n", "right")), [[text, Cell(str(place))] for place, text in enumerate(odd)]
    )
    shown = [text.replace("\n", " ").replace("\x1b", "\\x1b") for text in odd]
    assert cells(table.to_markdown()) == [["what|ever", "n"], *([text, str(place)] for place, text in enumerate(shown))]
    assert table.to_markdown().splitlines()[1] == "| --- | ---: |"


def test_markdown_has_every_verdict_with_its_reason_and_all_notes(content: ReportContent) -> None:
    told = replace(content, notes=("A note with a | and *stars*.",))
    text = to_markdown(told)
    wanted = verdict_table(content.verdicts)
    assert cells(text)[: len(content.verdicts) + 1] == [
        [column.head for column in wanted.columns],
        *([cell.text if isinstance(cell, Cell) else cell for cell in row] for row in wanted.rows),
    ]
    assert text.startswith("## quickstart\n")
    for verdict in content.verdicts:
        assert (f"- **{verdict.configuration}, correlations**: " in text) == (verdict.verdict != "unperturbed")
    assert "Hardware metrics are **simulated**, not counted by a processor." in text
    assert r"- A note with a \| and \*stars\*." in text
    assert all(f"- failed: {failure[:12]}" in text for failure in content.failures)


def test_junit_fails_what_the_exit_code_fails(content: ReportContent) -> None:
    text = to_junit(content, lambda name, subject, verdict: verdict == "perturbed" and name != "light")
    suite = ET.fromstring(text.encode()).find("testsuite")
    assert suite is not None
    cases = {(case.get("classname"), case.get("name")): case for case in suite.iter("testcase")}
    kinds = {key: [child.tag for child in case] for key, case in cases.items() if key[1] == "correlations"}
    assert kinds == {
        (f"quickstart.{verdict.configuration}", "correlations"): {"perturbed": ["failure"], "unperturbed": []}.get(
            verdict.verdict, ["skipped"]
        )
        for verdict in content.verdicts
    }
    assert int(suite.get("tests", "")) == len(list(suite.iter("testcase")))
    assert int(suite.get("failures", "")) == len(list(suite.iter("failure"))) > 0
    assert int(suite.get("skipped", "")) == len(list(suite.iter("skipped"))) > 0
    assert int(suite.get("errors", "")) == len(list(suite.iter("error"))) == len(content.failures) > 0


def test_junit_is_xml_whatever_a_run_printed(content: ReportContent) -> None:
    told = replace(content, failures=('run 7: "<&>\x00\x1b[31m \ud800 ]]>',))
    (error,) = ET.fromstring(to_junit(told, lambda *_: False).encode()).iter("error")
    assert error.get("message") == 'run 7: "<&>��[31m � ]]>'
