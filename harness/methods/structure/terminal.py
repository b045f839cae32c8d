"""A run's structure in the terminal: its words, a strip in their colours, and how a second run differs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from unperturbed.analysis.structure import Composition, Span, StructuralComparison, phase_text
from unperturbed.analysis.structure.classes.classifiers import class_letter
from unperturbed.common.table import SERIES_STYLES
from unperturbed.harness.cli.terminal import terminal

_NO_WORD = "red"
_MARKS = "123456789"
_STRETCHES_SHOWN = 8


def show_structure(composition: Composition, comparison: StructuralComparison | None) -> None:
    """Print the words of a run and, if there is a second run, how it differs."""
    console = terminal()
    console.print(escape(composition.headline()), soft_wrap=True)
    sequence = composition.sequence
    if not sequence.is_plain:
        reason = phase_text.adequacy_sentence(composition.dictionary.adequacy, "shuffled sequences")
        console.print(escape(reason), soft_wrap=True)
        series = phase_text.word_series([use.share for use in composition.uses if use.letters])
        console.print()
        console.print(_strip(composition.spans, series, console.width - 1))
        if comparison is not None:
            console.print(_strip(comparison.spans, series, console.width - 1))
        console.print(phase_text.words_table(composition, comparison).to_rich())
    shares = sequence.class_shares
    odd = shares[-1] or (comparison is not None and comparison.foreign)
    for number, name in enumerate([*sequence.classes.names, *(["unlike all of these"] if odd else [])]):
        head = "" if number else "classes"
        console.print(f"{head:>8}  {class_letter(number)}  {shares[number]:>4.0%}  {escape(name)}", soft_wrap=True)
    if comparison is not None:
        _show_difference(console, comparison)


def _show_difference(console: Console, comparison: StructuralComparison) -> None:
    style = "green" if comparison.is_adequate else "bold red"
    console.print()
    console.print(f"[{style}]{escape(comparison.headline())}[/{style}]", soft_wrap=True)
    if comparison.first.sequence.is_plain:
        return
    elements = phase_text.plural(comparison.second.sequence.element)
    longest = sorted(comparison.unmatched, key=len, reverse=True)
    for span in longest[:_STRETCHES_SHOWN]:
        console.print(f"  no word: {elements} from {span.first:,} up to, but not including, {span.stop:,}")
    if len(longest) > _STRETCHES_SHOWN:
        console.print(f"  and {len(longest) - _STRETCHES_SHOWN} shorter stretches")


def _strip(spans: Sequence[Span], series: Sequence[int], width: int) -> Text:
    """Return a line coloured by the word with the largest share at each position, with marks where words begin."""
    line = Text()
    if not spans:
        return line
    whole = spans[-1].stop - spans[0].first
    places = min(width, whole)
    edges = np.linspace(0, whole, places + 1)
    taken = np.zeros((places, len(series) + 1))
    for span in spans:
        overlap = np.minimum(edges[1:], span.stop) - np.maximum(edges[:-1], span.first)
        taken[:, span.word] += np.maximum(0, overlap)  # −1, no word, is the last column
    starts = [span.first - spans[0].first for span in spans if span.word >= 0 and not span.continues]
    begins = False
    for word, many in zip(taken.argmax(axis=1).tolist(), np.histogram(starts, edges)[0].tolist(), strict=True):
        begins = begins or many > 0
        if word == len(series):
            line.append("·", style=_NO_WORD)
        else:  # a word that begins where no word has most is marked at the next position
            mark = _MARKS[word] if word < len(_MARKS) else "+"
            line.append(mark if begins else "─", style=SERIES_STYLES[series[word]])
            begins = False
    return line
