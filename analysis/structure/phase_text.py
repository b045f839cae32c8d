"""Texts and tables of a run's structure, for the terminal, the HTML page and notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.analysis.structure.classes.classifiers import class_letter
from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import counted

if TYPE_CHECKING:
    from unperturbed.analysis.structure.composition import Composition, WordUse
    from unperturbed.analysis.structure.dictionary.adequacy import Adequacy
    from unperturbed.analysis.structure.differences import StructuralComparison
    from unperturbed.analysis.structure.sequence import StructuralSequence

_EDITS, _SHIFTS = 4, 3
"""Maximum numbers of habitual edits, and of words whose share changes, in a sentence."""
_SHIFT = 0.1
"""Minimum change of a word's share of the time that is reported."""
_LONGEST_WORD = 48
"""Maximum number of a word's letters that are shown."""
COLOURS = 6
"""Number of words that have a colour of their own."""


def composition_sentence(composition: Composition) -> str:
    """Describe a run's elements, classes and words, and whether the words are adequate."""
    sequence, dictionary = composition.sequence, composition.dictionary
    name = f"{sequence.name}: " if sequence.name else ""
    elements = _elements(sequence.elements, sequence)
    if sequence.is_plain:
        return f"{name}{elements} of {': '.join(_plain_classes(sequence))}."
    classes, symbols = counted(len(sequence.classes), "class", "classes"), counted(len(sequence), "symbol")
    reduced = f"{name}{elements} of {classes} form a sequence of {symbols}"
    if not dictionary.words:
        return f"{reduced}; nothing in it recurs more often than by chance."
    return f"{reduced}. {dictionary.headline()}"


def _plain_classes(sequence: StructuralSequence) -> tuple[str, str]:
    """Name the classes of a run with only one possible order, and explain why the run has no words."""
    if len(sequence.occurring_classes) > 1:
        why = "no other order is possible, so words add nothing to the durations"
        return f"two classes that alternate in {len(sequence):,} stretches", why
    odd = counted(len(sequence.foreign_stretches), "stretch", "stretches")
    return "one class", "there is a single phase" + (f", except in {odd}" if sequence.foreign_stretches else "")


def difference_sentence(comparison: StructuralComparison) -> str:
    """Describe how a second run differs in structure from the first."""
    first, second, adequacy = comparison.first, comparison.second.sequence, comparison.adequacy
    name = second.name or "the second run"
    if first.sequence.is_plain:
        classes = "classes" if len(first.sequence.occurring_classes) > 1 else "class"
        other = f"the same {classes}" if adequacy.is_adequate else "different classes"
        return f"The first run has {_plain_classes(first.sequence)[0]}; {name} has {other}."
    if not first.dictionary.words:
        return (
            f"The first run has no words that could describe {name}; with its own words, {name} has "
            f"J = {comparison.own_cost:g} insertions and deletions."
        )
    parts = [
        f"The first run's words {'describe' if adequacy.is_adequate else 'do not describe'} {name}: J without merged "
        f"symbols is {adequacy.cost:g}, and the same structure would give up to {adequacy.bound:g}"
    ]
    foreign = sum(map(len, comparison.foreign))
    if foreign > sum(stop - start for start, stop in first.sequence.foreign_stretches):
        parts.append(f"{foreign:,} of {_elements(second.elements, second)} match no class of the first run")
    unmatched = sum(map(len, comparison.unmatched)) - foreign
    if unmatched > 0:
        further = "further " if foreign else ""
        parts.append(f"no word describes {unmatched:,} {further}{plural(second.element)}")
    return "; ".join([*parts, *_habitual_edits(comparison), *_shifts(comparison)]) + "."


def _habitual_edits(comparison: StructuralComparison) -> list[str]:
    """Describe the symbols that most segments of a word lack or have in addition."""
    return [
        f"{class_letter(edit.symbol)} {'is missing' if edit.missing else 'is added'} at position {edit.place + 1} of "
        f"word {edit.word + 1} in {edit.times:,} of {edit.segments:,} segments"
        for edit in comparison.habitual_edits[:_EDITS]
    ]


def _shifts(comparison: StructuralComparison) -> list[str]:
    """Describe the words whose shares differ between the two runs; J does not show such differences."""
    shares = {use.letters: use.share for use in comparison.uses}
    changes = [
        (abs(use.share - (after := shares.get(use.letters, 0.0))), number, use.share, after)
        for number, use in enumerate(comparison.first.uses, 1)
        if use.letters
    ]
    return [
        f"word {number} takes {before:.0%} of the first run and {after:.0%} of the second run"
        for change, number, before, after in sorted(changes, key=lambda change: -change[0])[:_SHIFTS]
        if change >= _SHIFT
    ]


def adequacy_sentence(adequacy: Adequacy, source: str) -> str:
    """Explain why a model is adequate or not; `source` names the sequences from which the bound was computed."""
    verdict = "Adequate" if adequacy.is_adequate else "Not adequate"
    bound = f"level {adequacy.level:g}, from {len(adequacy.null_costs):,} {source}"
    if math.isnan(adequacy.level):
        bound = "set by the user"
    sign = "at most" if adequacy.cost <= adequacy.bound else "more than"
    return (
        f"{verdict}: J = {adequacy.cost:g} insertions and deletions, {sign} the bound "
        f"a(L) = {adequacy.bound:g} ({bound})."
    )


def words_table(composition: Composition, comparison: StructuralComparison | None = None) -> Table:
    """Return a table of words, and of stretches without one: occurrences and durations, also in a second run."""
    unit = composition.sequence.unit
    unit = plural(composition.sequence.element) if unit in ("intervals", "elements", "given") else unit
    numbers = [
        ("times", "number of segments of this word"),
        ("of time", "share of the run"),
        ("duration", "median duration of a segment, with the shortest and the longest"),
        ("edits", "insertions and deletions in all segments"),
    ]
    if comparison is not None:
        numbers += [("2nd: times", "number of segments of this word in the second run"), *numbers[1:]]
    columns = [Column("word"), Column("classes", meaning="each letter is a class")]
    columns += [Column(head, "right", meaning) for head, meaning in numbers]
    used = [composition.uses] if comparison is None else [composition.uses, comparison.uses]
    runs = [{use.letters: use for use in uses} for uses in used]
    words = [letters for letters in runs[0] if letters]
    words += [""] if any("" in uses for uses in runs) else []
    series = word_series([runs[0][letters].share for letters in words if letters])
    rows: list[list[Cell | str]] = []
    for number, letters in enumerate(words):
        head = Cell(f"{number + 1}", key=number, series=series[number]) if letters else Cell("no word", "bad")
        rows.append([head, shorten_word(letters)])
        for uses in runs:
            rows[-1] += _numbers(uses.get(letters))
    return Table(columns, rows, f"Words of the run: each letter is a class, durations are in {unit}")


def _numbers(use: WordUse | None) -> list[Cell | str]:
    if use is None:
        return ["0", "", "", ""]
    lasts: Cell | str = ""
    if use.times:
        least, median, most = np.quantile(use.durations, (0, 0.5, 1)).tolist()
        spread = f" ({least:.6g}–{most:.6g})" if least < most else ""
        lasts = Cell(f"{median:.6g}{spread}", key=median)
    return [str(use.times), f"{use.share:.1%}", lasts, str(use.edits)]


def classes_table(composition: Composition, comparison: StructuralComparison | None = None) -> Table:
    """Return a table of a run's classes, with their shares of the run and of a second run."""
    sequence = composition.sequence
    sequences = [sequence] if comparison is None else [sequence, comparison.second.sequence]
    shares = [run.class_shares for run in sequences]
    elements = plural(sequence.element)
    columns = [Column("class"), Column(f"share of {elements}", "right")]
    if comparison is not None:
        columns.append(Column("in the second run", "right"))
    described = list(sequence.classes.describe())
    if any(share[-1] for share in shares):
        described.append(f"{class_letter(len(sequence.classes))}  unlike all of these")
    rows = [[text, *(f"{share[number]:.1%}" for share in shares)] for number, text in enumerate(described)]
    return Table(columns, rows, f"Classes of {elements}")


def unmatched_table(comparison: StructuralComparison) -> Table:
    """Return a table of the second run's stretches that no word of the first run describes, the longest first."""
    element = comparison.second.sequence.element
    heads = (f"first {element}", "end (exclusive)", plural(element))
    longest = sorted(comparison.unmatched, key=len, reverse=True)
    rows = [[Cell(f"{number:,}", key=number) for number in (span.first, span.stop, len(span))] for span in longest]
    caption = "Stretches of the second run that no word of the first run describes in fewer bits, the longest first"
    return Table([Column(head, "right") for head in heads], rows, caption)


def shorten_word(letters: str) -> str:
    """Return a word's letters; of a long word, the first letters and an ellipsis."""
    return letters if len(letters) <= _LONGEST_WORD else f"{letters[: _LONGEST_WORD - 1]}…"


def word_series(shares: Sequence[float]) -> list[int]:
    """Return each word's colour: 1, 2, … for words with the largest shares of the run, 0 for all others."""
    ranks = [0] * len(shares)
    largest = sorted(range(len(shares)), key=lambda number: -shares[number])[:COLOURS]
    for rank, number in enumerate(largest, 1):
        ranks[number] = rank
    return ranks


def plural(element: str) -> str:
    """Return the plural form of an element's name."""
    return f"{element}es" if element.endswith("s") else f"{element}s"


def _elements(count: int, sequence: StructuralSequence) -> str:
    return counted(count, sequence.element, plural(sequence.element))
