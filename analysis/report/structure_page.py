"""A page of its own for a run's structure: what it is made of and when, and how a second run differs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.analysis.report.document import document, navigation
from unperturbed.analysis.report.figures_structure import StripRow, adequacy_figure, strips, word_colours
from unperturbed.analysis.report.markup import Cell, Html, table, tag
from unperturbed.analysis.report.sections_figures import frame
from unperturbed.analysis.structure.classes import letter_of
from unperturbed.analysis.structure.words import adequacy_sentence, composition_sentence, difference_sentence, is_plain, plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.analysis.structure import Adequacy, Composition, Span, StructuralComparison, WordUse

    Signal = tuple[str, NDArray[np.float64]]

__all__ = ["render_structure"]

_LONGEST_WORD = 48
"""Letters of a word that are shown."""


def render_structure(
    composition: Composition,
    comparison: StructuralComparison | None = None,
    *,
    signals: Sequence[Signal] = (),
    element: str = "interval",
) -> str:
    """Return a run's structure as one HTML document, as self-contained as the report.

    Parameters
    ----------
    composition : Composition
    comparison : StructuralComparison, optional
        Of a second run with this one.
    signals : (name, values), one for each run, each value of shape (elements,)
        What is drawn above the strips; none where there are no numbers to draw.
    element : str
        What was classified: "interval", "access".
    """
    dictionary = composition.dictionary
    name = composition.sequence.name or "run"
    title = name if comparison is None else f"{name} against {comparison.second.sequence.name or 'second run'}"
    header = tag(
        "header",
        tag("p", "Unperturbed: what is this run made of?", class_="kicker"),
        tag("h1", title),
        tag("p", composition_sentence(composition, element), class_="answer"),
        tag("p", difference_sentence(comparison, element), class_="answer") if comparison is not None else None,
        tag("noscript", tag("p", "Figures need JavaScript. Every number is in the tables too.", class_="note")),
    )
    shown = [_letters(use.letters) for use in composition.uses if use.letters]
    colours = word_colours([use.share for use in composition.uses if use.letters])
    sections = [
        _section("strips", "Over time", _strips(composition, comparison, signals, shown, colours, element)),
        _section("words", "Words", _words(composition, comparison, colours, element)),
    ]
    # Of a run that can have no other order the header says all there is.
    told_by_words = not is_plain(composition)
    if comparison is not None and comparison.unmatched and told_by_words:
        sections.append(_section("unmatched", "What no word describes", _unmatched(comparison, element)))
    if told_by_words:
        sections.append(_section("adequacy", "Is the model adequate?", _adequacy(dictionary.adequacy, "shuffled sequences")))
    if comparison is not None and told_by_words:
        further = _adequacy(comparison.adequacy, "draws of the first run's segments", "structure-adequacy-second")
        sections.append(_section("difference", "Does it describe the second run?", further))
    sections.append(_section("classes", "Classes", _classes(composition, comparison, element)))
    places = [(identity, heading) for identity, heading, _ in sections]
    return document(
        f"{title}: structure",
        navigation(places),
        header,
        tag("main", [markup for _, _, markup in sections]),
        version=metadata.version("unperturbed"),
    )


def _section(identity: str, heading: str, content: list[Html]) -> tuple[str, str, Html]:
    return identity, heading, tag("section", tag("h2", heading), content, id=identity)


def _strips(
    composition: Composition,
    comparison: StructuralComparison | None,
    signals: Sequence[Signal],
    shown: Sequence[str],
    colours: Sequence[str],
    element: str,
) -> list[Html]:
    named: list[tuple[str, Sequence[Span]]] = [(composition.sequence.name or "run", composition.spans)]
    if comparison is not None:
        named.append((comparison.second.sequence.name or "second run", comparison.spans))
    drawn = [*signals, *[("", np.empty(0))] * len(named)]
    rows = [StripRow(title, drawn[at][1], drawn[at][0], spans) for at, (title, spans) in enumerate(named)]
    caption = (
        f"Below each signal a strip: the words of {named[0][0]}, in colour, and what none of them describes, in red. Words that take the "
        f"largest share of the run have colours of their own. Place the pointer on a stretch for its word, its {plural(element)} and its edits."
    )
    return [frame(strips(rows, shown, colours, element), caption)]


def _words(
    composition: Composition, comparison: StructuralComparison | None, colours: Sequence[str], element: str
) -> list[Html]:
    if not composition.dictionary.words:
        return [tag("p", "No word makes this sequence shorter to tell: nothing recurs in it beyond what chance gives.")]
    heads = ["word", "classes", "times", "share of time", f"{plural(element)}: shortest", "median", "longest", "edits"]
    seconds: dict[str, WordUse] = {}
    if comparison is not None:
        heads += ["second run: times", "share of time", "median", "edits"]
        seconds = {use.letters: use for use in comparison.uses}
    rows = []
    for number, use in enumerate(composition.uses):
        if use.letters:
            swatch = tag("span", style=f"background:var(--{colours[number].removeprefix('@')})", class_="swatch")
            first: list[Cell | Html | str] = [
                tag("span", swatch, f"{number + 1}", class_="word"),
                tag("code", _letters(use.letters), class_="word"),
            ]
        else:
            first = ["no word", ""]
        row = [*first, *_numbers(use)]
        if comparison is not None:
            other = seconds.get(use.letters)
            row += (
                ["0", "", "", ""]
                if other is None
                else [str(other.times), f"{other.share:.1%}", _median(other), str(other.edits)]
            )
        rows.append(row)
    return [table("What each word stands for; a letter is a class", heads, rows)]


def _numbers(use: WordUse) -> list[str]:
    least, most = (f"{use.durations.min():.6g}", f"{use.durations.max():.6g}") if use.times else ("", "")
    return [str(use.times), f"{use.share:.1%}", least, _median(use), most, str(use.edits)]


def _median(use: WordUse) -> str:
    return f"{np.median(use.durations):.6g}" if use.times else ""


def _unmatched(comparison: StructuralComparison, element: str) -> list[Html]:
    longest = sorted(comparison.unmatched, key=lambda span: span.first - span.stop)
    rows = [(f"{span.first:,}", f"{span.stop:,}", f"{span.stop - span.first:,}") for span in longest]
    caption = (
        "Stretches of the second run that are shorter to spell out than to tell by any word of the first, the longest first"
    )
    return [tag("div", table(caption, (f"from {element}", f"to before {element}", f"{plural(element)}"), rows), class_="tall")]


def _adequacy(adequacy: Adequacy, what: str, name: str = "") -> list[Html]:
    figure = adequacy_figure(adequacy, what, name)
    drawn = [frame(figure, f"J, and what {what} cost. Dotted: the bound.")] if figure is not None else []
    return [tag("p", adequacy_sentence(adequacy, what)), *drawn]


def _classes(composition: Composition, comparison: StructuralComparison | None, element: str) -> list[Html]:
    sequences = [composition.sequence] if comparison is None else [composition.sequence, comparison.second.sequence]
    heads = ["class", f"share of {plural(element)}", *(["in the second run"] if comparison is not None else [])]
    shares = []
    for sequence in sequences:
        totals = np.bincount(sequence.symbols, sequence.durations, len(sequence.classes) + 1)
        shares.append(totals / (totals.sum() or 1.0))
    described = [*sequences[0].classes.describe(), f"{letter_of(len(sequences[0].classes))}  unlike all of these"]
    rows = [(said, *(f"{share[number]:.1%}" for share in shares)) for number, said in enumerate(described)]
    if not any(share[-1] for share in shares):
        rows.pop()
    return [table(f"Classes of {plural(element)}", heads, rows)]


def _letters(word: str) -> str:
    return word if len(word) <= _LONGEST_WORD else f"{word[: _LONGEST_WORD - 1]}…"
