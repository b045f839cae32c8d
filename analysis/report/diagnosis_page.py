"""A page of its own for the diagnosis of an event trace: the verdict, both timelines, what carries it, what noise there is."""

from __future__ import annotations

from importlib import metadata
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.analysis.diagnosis.words import against, say_amount, say_change, say_time
from unperturbed.analysis.report.document import document, navigation
from unperturbed.analysis.report.figures_diagnosis import timelines
from unperturbed.analysis.report.markup import Html, table, tag
from unperturbed.analysis.report.sections_figures import frame

if TYPE_CHECKING:
    from unperturbed.analysis.diagnosis import Diagnosis, EventTrace, Finding

__all__ = ["render_diagnosis"]

_NOISY = 40
"""Event types of the noise floor that are listed."""
_PLACES = (
    ("picture", "Timelines"),
    ("carriers", "Carriers"),
    ("noise", "Noise floor"),
    ("reading", "Left out"),
    ("references", "References"),
)


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as one HTML document, as self-contained as the report."""
    name = PurePath(diagnosis.trace).name or "trace"
    header = tag(
        "header",
        tag("p", "Unperturbed: what is wrong with this trace?", class_="kicker"),
        tag("h1", name),
        tag("p", _sentence(diagnosis), class_="answer"),
        [_finding(one, diagnosis.unit) for one in diagnosis.findings],
        tag("noscript", tag("p", "Figures need JavaScript. Every number is in the tables too.", class_="note")),
    )
    sections = [_picture(diagnosis), _carriers(diagnosis), _noise(diagnosis), _reading(diagnosis), _references(diagnosis)]
    return document(
        f"{name}: {diagnosis.verdict}",
        navigation(_PLACES),
        header,
        tag("main", sections),
        version=metadata.version("unperturbed"),
    )


def _section(identity: str, *content: Html | list[Html] | None) -> Html:
    return tag("section", tag("h2", dict(_PLACES)[identity]), *content, id=identity)


def _sentence(diagnosis: Diagnosis) -> str:
    kinds = ", ".join(dict.fromkeys(one.kind for one in diagnosis.findings))
    perhaps = "perhaps " if diagnosis.verdict == "undecided" else ""
    found = f": {perhaps}{kinds}" if kinds else ""
    return f"The trace is {diagnosis.verdict}{found}, {against(diagnosis)}."


def _finding(finding: Finding, unit: str) -> Html:
    floor = "not known" if finding.floor is None else say_amount(finding, finding.floor, unit)
    rows = [
        ("since", "" if finding.since is None else f"{say_time(finding.since, unit)} after the first event"),
        ("plugin", finding.plugin),
        ("element", finding.element),
        ("measured", f"{say_amount(finding, finding.measured, unit)} {finding.amount_of}"),
        ("an anomaly from", say_amount(finding, finding.threshold, unit)),
        ("between references", floor),
        (
            "confidence",
            "" if finding.confidence == "full" else "weaker: one reference does not tell how much clean runs differ",
        ),
    ]
    return tag(
        "div",
        tag("h3", f"{finding.kind}: {finding.summary}"),
        tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in rows if value], class_="facts"),
    )


def _picture(diagnosis: Diagnosis) -> Html:
    several = "the median of the references" if len(diagnosis.references) > 1 else "the reference"
    return _section(
        "picture",
        frame(
            timelines(diagnosis),
            f"Each lane: events of {several} upward, of the trace downward, in short intervals; heights are square roots of counts, each lane "
            "scaled to its highest. Marked: fewer or more events than references have around that time, so what is late is missing first and "
            "added later. Below: how much later each stream gets to the same point of its way; shaded: the references' own range.",
        ),
    )


def _carriers(diagnosis: Diagnosis) -> Html:
    if not any(one.carriers for one in diagnosis.findings):
        return _section("carriers", tag("p", "Nothing was found, so no event type carries it."))
    tables = []
    for finding in diagnosis.findings:
        rows = [
            (
                f"{one.share:.0%}",
                say_change(finding, one.change, diagnosis.unit),
                one.event.plugin,
                one.event.element,
                one.event.name,
            )
            for one in finding.carriers
        ]
        tables.append(table(f"Event types that carry: {finding.kind}", ("share", "change", "plugin", "element", "event"), rows))
    return _section("carriers", tables)


def _noise(diagnosis: Diagnosis) -> Html:
    comparison = diagnosis.comparison
    if len(comparison.references) == 1:
        return _section(
            "noise", tag("p", "One reference does not tell how much clean runs differ. Give several; six are good.")
        )
    vary = comparison.highest - comparison.lowest
    differing: list[int] = [int(number) for number in np.argsort(-vary, kind="stable") if vary[number] > 0]
    told = f"{len(differing):,} of {len(comparison.types):,} event types occur more often in one reference than in another."
    rows = [
        (
            comparison.types[number].name,
            comparison.types[number].plugin,
            f"{comparison.lowest[number]:,} to {comparison.highest[number]:,}",
            f"{comparison.observed.counts[number]:,}",
        )
        for number in differing[:_NOISY]
    ]
    caption = "Those that vary most" if len(differing) > _NOISY else "All of them"
    listed = table(caption, ("event", "plugin", "in references", "in the trace"), rows) if rows else None
    return _section("noise", tag("p", told), tag("div", listed, class_="tall") if listed else None)


def _reading(diagnosis: Diagnosis) -> Html:
    comparison = diagnosis.comparison
    traces = [one.trace for one in (comparison.observed, *comparison.references)]
    heads = (
        "log",
        "format",
        "lines",
        "events",
        "start-up",
        "bad",
        "continued",
        "other processes",
        "lost by the tracer",
        "sorted",
    )
    bad = [
        tag("li", f"{one.name}, line {line.number}: {line.text}")
        for one in traces
        if one.reading is not None
        for line in one.reading.first_bad_lines[:3]
    ]
    return _section(
        "reading",
        table("What the reader made of each log, and what it left out", heads, [_read(one) for one in traces]),
        [tag("h3", "First bad lines"), tag("ul", bad)] if bad else None,
    )


def _read(trace: EventTrace) -> list[str]:
    read = trace.reading
    if read is None:
        return [trace.name or "trace", "", "", f"{len(trace):,}", *[""] * 6]
    numbers = (
        read.lines,
        len(trace),
        read.start_up_lines,
        read.bad_lines,
        read.further_lines,
        read.other_process_lines,
        read.lost_events,
        read.out_of_order,
    )
    return [trace.name, read.format, *(f"{number:,}" for number in numbers)]


def _references(diagnosis: Diagnosis) -> Html:
    listed = [tag("li", name or "a reference") for name in diagnosis.references]
    looked = tag("p", f"Looked for: {', '.join(diagnosis.kinds)}.") if diagnosis.kinds else None
    distances = [
        (one.name, f"{one.value:.6g}", f"{one.normalised:.4f}", "" if one.floor is None else f"{one.floor:.6g}")
        for one in diagnosis.distances
    ]
    heads = ("distance", "from the first reference", "normalised", "of other references, up to")
    return _section(
        "references",
        tag("ul", listed),
        looked,
        table("The paper's distances", heads, distances) if distances else None,
        [tag("p", note, class_="note") for note in diagnosis.notes],
    )
