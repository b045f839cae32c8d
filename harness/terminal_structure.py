"""What a run's structure shows in the terminal: its words, a strip coloured by them, and how a second run differs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from unperturbed.analysis.structure import Composition, Span, StructuralComparison, WordUse
from unperturbed.analysis.structure.classes import letter_of
from unperturbed.analysis.structure.words import adequacy_sentence, composition_sentence, difference_sentence, is_plain, plural

__all__ = ["show_structure"]

_COLOURS = ("blue", "dark_orange", "green", "magenta", "yellow", "cyan")
_FURTHER, _NO_WORD = "bright_black", "red"
_MARKS = "123456789"
_LONGEST_WORD = 32
_STRETCHES_SHOWN = 8


def show_structure(composition: Composition, comparison: StructuralComparison | None, element: str) -> None:
    """Print what a run is made of and, if there is a second run, how it differs."""
    console = Console(highlight=False, emoji=False)
    console.print(escape(composition_sentence(composition, element)), soft_wrap=True)
    if not is_plain(composition):
        console.print(escape(adequacy_sentence(composition.dictionary.adequacy, "shuffled sequences")), soft_wrap=True)
        uses = [use for use in composition.uses if use.letters]
        console.print()
        console.print(_strip(composition.spans, uses, console.width - 1))
        if comparison is not None:
            console.print(_strip(comparison.spans, uses, console.width - 1))
        console.print(_table(composition, comparison, uses))
    sequence = composition.sequence
    totals = np.bincount(sequence.symbols, sequence.durations, len(sequence.classes) + 1)
    odd = totals[-1] or (comparison is not None and comparison.foreign)
    for number, name in enumerate([*sequence.classes.names, *(["unlike all of these"] if odd else [])]):
        share = totals[number] / (totals.sum() or 1.0)
        console.print(f"{'' if number else 'classes':>8}  {letter_of(number)}  {share:>4.0%}  {escape(name)}", soft_wrap=True)
    if comparison is not None:
        _show_difference(console, comparison, element)


def _show_difference(console: Console, comparison: StructuralComparison, element: str) -> None:
    style = "green" if comparison.adequacy.is_adequate else "bold red"
    console.print()
    console.print(f"[{style}]{escape(difference_sentence(comparison, element))}[/{style}]", soft_wrap=True)
    if is_plain(comparison.first):
        return
    longest = sorted(comparison.unmatched, key=lambda span: span.first - span.stop)
    for span in longest[:_STRETCHES_SHOWN]:
        console.print(f"  no word: {plural(element)} from {span.first:,} to before {span.stop:,}")
    if len(longest) > _STRETCHES_SHOWN:
        console.print(f"  and {len(longest) - _STRETCHES_SHOWN} shorter stretches")


def _table(composition: Composition, comparison: StructuralComparison | None, uses: Sequence[WordUse]) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("word", no_wrap=True)
    table.add_column("classes", overflow="fold", min_width=8)
    for header in ("times", "of time", "median", "edits"):
        table.add_column(header, justify="right")
    seconds: dict[str, WordUse] = {}
    if comparison is not None:
        for header in ("2nd: times", "of time", "edits"):
            table.add_column(header, justify="right")
        seconds = {use.letters: use for use in comparison.uses}
    for number, use in enumerate(composition.uses):
        mark = Text(_mark(number), style=_style(number, uses)) if use.letters else Text("no word", style=_NO_WORD)
        row: list[str | Text] = [mark, escape(_short(use.letters)), *_numbers(use)]
        if comparison is not None:
            other = seconds.get(use.letters)
            row += (
                ["0", "", ""]
                if other is None
                else [f"{other.times}", f"{other.share:.0%}", f"{other.edits}" if use.letters else ""]
            )
        table.add_row(*row)
    if comparison is not None and "" in seconds and not any(not use.letters for use in composition.uses):
        alone = seconds[""]
        table.add_row(Text("no word", style=_NO_WORD), "", "0", "", "", "", f"{alone.times}", f"{alone.share:.0%}", "")
    return table


def _numbers(use: WordUse) -> list[str]:
    median = f"{np.median(use.durations):.6g}" if use.times else ""
    return [f"{use.times}", f"{use.share:.0%}", median, f"{use.edits}"]


def _strip(spans: Sequence[Span], uses: Sequence[WordUse], width: int) -> Text:
    """Return a line in the colours of the words that take most of each place's share of the run; a mark tells where one begins."""
    line = Text()
    if not spans:
        return line
    whole = spans[-1].stop - spans[0].first
    places = min(width, whole)
    edges = np.linspace(0, whole, places + 1)
    taken = np.zeros((places, len(uses) + 1))
    for span in spans:
        overlap = np.minimum(edges[1:], span.stop) - np.maximum(edges[:-1], span.first)
        taken[:, span.word] += np.maximum(0, overlap)  # −1, no word, is the last column
    begun = np.histogram([span.first - spans[0].first for span in spans if span.word >= 0 and not span.continues], edges)[0]
    begins = False
    for word, many in zip(taken.argmax(axis=1).tolist(), begun.tolist(), strict=True):
        begins = begins or many > 0
        if word == len(uses):
            line.append("·", style=_NO_WORD)
        else:  # a word that begins where most is of none has its mark behind that
            line.append(_mark(word) if begins else "─", style=_style(word, uses))
            begins = False
    return line


def _mark(number: int) -> str:
    return _MARKS[number] if number < len(_MARKS) else "+"


def _style(number: int, uses: Sequence[WordUse]) -> str:
    order = sorted(range(len(uses)), key=lambda one: -uses[one].share)
    place = order.index(number)
    return _COLOURS[place] if place < len(_COLOURS) else _FURTHER


def _short(letters: str) -> str:
    return letters if len(letters) <= _LONGEST_WORD else f"{letters[: _LONGEST_WORD - 1]}…"
