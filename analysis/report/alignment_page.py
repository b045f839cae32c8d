"""A page of its own for the alignment of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING

from unperturbed.analysis.report.document import document
from unperturbed.analysis.report.figures_alignment import alignment_figures
from unperturbed.analysis.report.markup import table, tag
from unperturbed.analysis.report.sections_figures import frame

if TYPE_CHECKING:
    from unperturbed.analysis.report.content import AlignmentExample

__all__ = ["render_alignment"]


def render_alignment(
    example: AlignmentExample, facts: Sequence[tuple[str, str]], scores: Sequence[Sequence[str]], warning: str = ""
) -> str:
    """Return a self-contained HTML page with the signals joined by the path, the path, and the scores.

    Parameters
    ----------
    example : what to draw; its flat stretches are shaded.
    facts : (name, value), as the terminal shows them.
    scores : a row a milestone: name, elements, share of 0, share of at most 1, largest.
    warning : what is not to be trusted.
    """
    signals, *rest = alignment_figures(example)
    captions = {
        "alignment-path": "Level or upright pieces: one run waits while the other goes on.",
        "alignment-scores": "0 means that the aligned intervals hold the same milestone.",
    }
    header = tag(
        "header",
        tag("p", "Unperturbed: which interval of one run is which of the other?", class_="kicker"),
        tag("h1", f"{example.first} and {example.second}, aligned"),
        tag("p", example.description, class_="answer"),
        tag("p", warning, class_="note") if warning else None,
        tag("noscript", tag("p", "Figures need JavaScript. Every number is in the tables too.", class_="note")),
    )
    sections = [
        tag(
            "section",
            tag("h2", "Both runs"),
            frame(
                signals,
                f"{example.metric} of {example.first} (top) and {example.second} (bottom), each scaled to the same height; thin lines join "
                "intervals that were aligned (not all are drawn). Shaded: flat but for noise.",
            ),
            tag("div", [frame(figure, captions[figure.name]) for figure in rest], class_="pair"),
        ),
        tag(
            "section",
            tag("h2", "How they were aligned"),
            tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts], class_="provenance"),
        ),
    ]
    if scores:
        heads = ("milestone", "scored elements", "in the very interval", "within one", "largest, intervals")
        sections.append(
            tag(
                "section",
                tag("h2", "Judged by milestones"),
                table("Scores: by how many intervals the path misses", heads, scores),
            )
        )
    title = f"{example.first} and {example.second}, aligned"
    return document(title, header, tag("main", sections), version=metadata.version("unperturbed"))
