"""Sections that mostly hold figures: signals over time, correlations, the alignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.analysis.report.chart import Figure
from unperturbed.analysis.report.figures_correlation import SCALES, colour_key
from unperturbed.analysis.report.figures_traces import RUNS_SHOWN, SOFTWARE_SHOWN, neighbours, selectable_metrics
from unperturbed.analysis.report.markup import Html, json_block, tag
from unperturbed.analysis.report.names import plain_name
from unperturbed.analysis.report.words import change_sentence, number, plural

if TYPE_CHECKING:
    from unperturbed.analysis.report.content import AlignmentExample, ReportContent
    from unperturbed.analysis.report.figures import Figures
    from unperturbed.analysis.report.figures_traces import BeforeAfter
    from unperturbed.analysis.report.results import Result

__all__ = ["alignment_section", "choice", "correlation_section", "frame", "signals_section"]

_RADIO_MOST = 3


def frame(figure: Figure, caption: str | Html | None = None) -> Html:
    """Return a figure's element, its data and its caption. The script draws it when it comes into view or time is left."""
    return tag(
        "figure",
        tag(
            "div",
            id=figure.name,
            class_="chart",
            role="img",
            aria_label=figure.description,
            style=f"height:{figure.layout['height']}px",
        ),
        json_block(f"{figure.name}-data", figure.to_json()),
        tag("figcaption", caption) if caption else None,
    )


def choice(group: str, name: str, options: Sequence[tuple[str, str]], chosen: str) -> Html:
    """Return a control that chooses what all figures of a group show: buttons for a few options, a list for more."""
    if len(options) > _RADIO_MOST or group != "scale":
        shown = [tag("option", said, value=value, selected=value == chosen) for value, said in options]
        return tag("p", tag("label", f"{name} ", tag("select", shown, data_group=group)), class_="choice")
    radios = [
        tag("label", tag("input", type="radio", name=group, value=value, data_group=group, checked=value == chosen), f" {said}")
        for value, said in options
    ]
    return tag("fieldset", tag("legend", name), radios, class_="choice")


def signals_section(content: ReportContent, figures: Figures) -> Html:
    """Return the signals over time: the worst pair before and after, then every configuration."""
    return tag(
        "section",
        tag("h2", "The signals over time"),
        _before_after(figures.before_after),
        _traces(content, figures),
        id="signals",
    )


def _before_after(shown: BeforeAfter | None) -> Html | None:
    if shown is None:
        return None
    change = shown.change
    pair = f"{plain_name(change.first)} and {plain_name(change.second)}"
    if change.verdict == "perturbed":
        head = f"The worst pair, before and after: {pair}"
    else:
        head = f"The pair with the most room for a change: {pair} ({change.verdict})"
    software = (
        f"Bottom right: the software metric {shown.software} that came in (of several, the one with the most events). "
        if shown.software
        else ""
    )
    return tag(
        "div",
        tag("h3", head),
        tag("p", f"{change_sentence(change, shown.result.alpha)}."),
        frame(
            shown.figure,
            f"Left a run of the reference, right one of {shown.result.configuration}: those whose ρ lies nearest to their mean. {software}"
            "Events in each sampling interval, the same scale left and right. If the two upper signals go together otherwise on the "
            "right than on the left, you see the perturbation. After figure 5 of the paper.",
        ),
    )


def _traces(content: ReportContent, figures: Figures) -> Html | None:
    metrics = selectable_metrics(content)
    if not figures.traces:
        return tag("p", "No traces are at hand.", class_="empty")
    chosen = next(iter(figures.traces.values())).chosen
    blocks = []
    for configuration, figure in figures.traces.items():
        runs = len(content.traces[configuration])
        software = len(content.traces[configuration][0].names("software"))
        said = [f"{min(RUNS_SHOWN, runs)} of {plural(runs, 'run')} shown"] if runs > RUNS_SHOWN else [plural(runs, "run")]
        said += [f"the first {SOFTWARE_SHOWN} of {software} software metrics"] if software > SOFTWARE_SHOWN else []
        blocks.append(tag("div", tag("h4", configuration, tag("small", f" {', '.join(said)}")), frame(figure)))
    mean = neighbours(content)
    merged = f" Each point is the mean of {mean} neighbouring intervals, to keep the page small." if mean > 1 else ""
    return tag(
        "div",
        tag("h3", "Each configuration"),
        tag(
            "p",
            "The same metric in every configuration, on the same scale, runs laid over one another; software metrics beneath. "
            f"Runs of one configuration should look alike.{merged}",
        ),
        choice("trace-metric", "Metric", [(name, _option(name)) for name in metrics], chosen),
        blocks,
    )


def _option(name: str) -> str:
    plain = plain_name(name)
    return name if plain == name else f"{plain} ({name})"


def correlation_section(found: Sequence[Result], figures: Figures, steadiness: Sequence[str] = ()) -> Html | None:
    """Return the correlations by run and against what was added (figures 3, 4, 6, 7, 8 of the paper)."""
    shown = [figure for figure in (figures.baseline, figures.inner, figures.outer) if figure is not None]
    if not shown:
        return None
    blocks = []
    if figures.baseline is not None:
        blocks += [
            tag("h3", "Without any change: the baseline, run by run"),
            tag("p", "Flat lines mean a quiet set-up. What moves here is noise, and no smaller change can be seen."),
            tag("ul", [tag("li", said) for said in steadiness]) if steadiness else "",
            frame(figures.baseline, f"{colour_key(found, 'inner')} After figure 3 of the paper."),
        ]
    if figures.inner is not None:
        blocks += [
            tag("h3", "Within a run, against what the instrumentation added"),
            tag(
                "p",
                "A line that stays level was left alone. Little added is no promise: a few per cent can be enough to break a line.",
            ),
            frame(
                figures.inner,
                f"{colour_key(found, 'inner')} Faint dots are single runs. Configurations need not contain one another, so lines "
                "only guide the eye. After figures 4 and 6 of the paper.",
            ),
        ]
    if figures.outer is not None:
        blocks += [
            tag("h3", "Across aligned runs, against what the instrumentation added"),
            tag("p", "Each metric against itself in the reference runs. Near 1 the runs can be read as if they were one."),
            frame(figures.outer, f"{colour_key(found, 'outer')} After figures 7 and 8 of the paper."),
        ]
    return tag(
        "section",
        tag("h2", "Correlations"),
        choice("scale", "Scale", list(SCALES.items()), "signed"),
        blocks,
        id="correlations",
    )


def alignment_section(example: AlignmentExample | None, figures: Figures) -> Html | None:
    """Return the alignment of two runs."""
    if example is None or not figures.alignment:
        return None
    signals, *rest = figures.alignment
    scores = np.asarray(example.milestone_scores)
    judged = (
        f"Of the {plural(scores.size, 'aligned step')} that hold a milestone, {number(100 * float(np.mean(scores == 0)), 2)} % meet it in "
        f"the very interval and {number(100 * float(np.mean(scores <= 1)), 2)} % within one."
        if scores.size
        else "No milestone was collected in both runs, so nothing independent judges this alignment."
    )
    captions = {
        "alignment-path": "Level or upright pieces: one run waits while the other goes on.",
        "alignment-scores": "0 means that the aligned intervals hold the same milestone.",
    }
    return tag(
        "section",
        tag("h2", "Two runs, aligned"),
        tag(
            "p",
            "Two runs are never equally fast. Dynamic time warping finds which interval of one belongs to which of the other; "
            f"then metrics can be compared across runs. {example.description} {judged}",
        ),
        frame(
            signals,
            f"{plain_name(example.metric)} in {example.first} (top) and {example.second} (bottom), each scaled to the same height; "
            "thin lines join intervals that were aligned (not all are drawn).",
        ),
        tag("div", [frame(figure, captions[figure.name]) for figure in rest], class_="pair"),
        id="alignment",
    )
