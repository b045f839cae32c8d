"""A campaign's verdicts as Markdown, for the page of a pipeline's job, and as JUnit XML, for its list of tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

from unperturbed.analysis.perturbation import SEVERITY, VerdictName, verdict_table
from unperturbed.analysis.perturbation.verdict_text import decisive_change
from unperturbed.analysis.report.campaign.content import ReportContent
from unperturbed.analysis.totals.total_text import HOW_COMPARED, total_table, totals_sentence
from unperturbed.analysis.totals.verdict import joint_verdict
from unperturbed.common.table import markdown
from unperturbed.common.wording import counted

_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_markdown(content: ReportContent) -> str:
    """Return the verdicts, what decided them, the totals of whole runs, and all notes."""
    totals = {name: changes for name, changes in content.totals.items() if changes}
    lines = [f"## {markdown(content.campaign)}", "", markdown(_headline(content)), ""]
    if content.verdicts:
        worst = {name: joint_verdict(changes) for name, changes in totals.items()}
        lines += [verdict_table(content.verdicts, totals=worst).to_markdown(), ""]
        lines += [f"- **{markdown(name)}**: {markdown(said)}." for name, said in _sentences(content)]
        lines.append("")
    if totals:
        lines += ["### Totals of whole runs", "", total_table(totals).to_markdown(), "", HOW_COMPARED, ""]
    if content.source.simulated:
        lines += ["Hardware metrics are **simulated**, not counted by a processor.", ""]
    lines += [f"- failed: {markdown(failure)}" for failure in content.failures]
    lines += [f"- {markdown(note)}" for note in (*content.doubts, *content.notes)]
    return "\n".join(lines).rstrip() + "\n"


def to_junit(content: ReportContent, fails: Callable[[str, str, VerdictName], bool]) -> str:
    """Return a test for each configuration's correlations and totals; those that neither pass nor fail are skipped.

    `fails`: Whether a verdict on `correlations` or `totals` of a configuration fails, by configuration and subject.
    """
    suite = ElementTree.Element("testsuite", name=_xml(content.campaign))
    counts = {"tests": 0, "failures": 0, "errors": len(content.failures), "skipped": 0}
    for name, about, verdict, said in _cases(content):
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(f"{content.campaign}.{name}"), name=about)
        counts["tests"] += 1
        if fails(name, about, verdict):
            counts["failures"] += 1
            failure = ElementTree.SubElement(case, "failure", message=_xml(said), type=verdict)
            failure.text = _xml(said)
        elif verdict != "unperturbed":
            counts["skipped"] += 1
            ElementTree.SubElement(case, "skipped", message=_xml(f"{verdict}: {said}"))
    for reason in content.failures:
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(content.campaign), name="runs")
        counts["tests"] += 1
        ElementTree.SubElement(case, "error", message=_xml(reason))
    suite.attrib.update({key: str(value) for key, value in counts.items()})
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _headline(content: ReportContent) -> str:
    """Return how many configurations have each verdict."""
    found = [verdict.verdict for verdict in content.verdicts]
    if not found:
        return "No configuration was compared."
    said = ", ".join(f"{found.count(name)} {name}" for name in SEVERITY if name in found)
    return f"Correlations of {counted(len(found), 'configuration')}: {said}."


def _cases(content: ReportContent) -> Iterator[tuple[str, str, VerdictName, str]]:
    """Yield configuration, subject, verdict, and the sentence that explains it."""
    advice = content.looks is None
    for verdict in content.verdicts:
        yield verdict.configuration, "correlations", verdict.verdict, decisive_change(verdict, advice=advice)
    for name, changes in content.totals.items():
        if changes:
            yield name, "totals", joint_verdict(changes), totals_sentence(name, changes, "the baseline", advice=advice)


def _sentences(content: ReportContent) -> Iterator[tuple[str, str]]:
    for name, about, verdict, said in _cases(content):
        if verdict != "unperturbed":
            yield f"{name}, {about}", said.removesuffix(".")


def _xml(text: str) -> str:
    """Return text without the characters that XML cannot hold."""
    return _NO_XML.sub("�", text)
