"""Structure in words: what a run is made of and whether that is adequate, as the terminal and the page both say it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from unperturbed.analysis.structure.classes import letter_of
from unperturbed.analysis.structure.composition import classes_in, foreign_spans, is_plain_sequence

if TYPE_CHECKING:
    from unperturbed.analysis.structure.adequacy import Adequacy
    from unperturbed.analysis.structure.comparing import StructuralComparison
    from unperturbed.analysis.structure.composition import Composition

__all__ = ["adequacy_sentence", "composition_sentence", "difference_sentence", "is_plain", "plural"]

_HABITS = 4
"""Edits that are said."""
_SHIFT = 0.1
"""Change of a word's share of the time that is said."""


def composition_sentence(composition: Composition, element: str = "interval") -> str:
    """Say what a run is made of."""
    sequence, dictionary = composition.sequence, composition.dictionary
    elements = _count(sequence.elements, element, plural(element))
    name = f"{sequence.name}: " if sequence.name else ""
    if is_plain(composition):
        return f"{name}{elements} of {_only_classes(composition)}: {_all_there_is(composition)}."
    made = f"{name}{elements} of {_count(len(sequence.classes), 'class', 'classes')} make a sequence of {_count(len(sequence), 'symbol')}"
    if not dictionary.words:
        return f"{made}; nothing in it recurs beyond what chance gives."
    tell = _count(len(dictionary.words), "word tells", "words tell")
    told = f"{tell} it in {dictionary.bits.total:,.0f} bits where {dictionary.baseline_bits:,.0f} spell it out"
    verdict = "adequate" if dictionary.is_adequate else "inadequate"
    return f"{made}. {told}; the model is {verdict}."


def is_plain(composition: Composition) -> bool:
    """Tell whether a run stays in one class, or goes to and fro between two: no other order is possible, and there is nothing to model."""
    return is_plain_sequence(composition.sequence)


def _only_classes(composition: Composition) -> str:
    """Say which classes a plain run has."""
    if len(classes_in(composition.sequence)) < 2:
        return "one class"
    return f"two classes, one after the other {len(composition.sequence):,} times"


def _all_there_is(composition: Composition) -> str:
    """Say why there are no words for a plain run."""
    if len(classes_in(composition.sequence)) < 2:
        odd = len(foreign_spans(composition.sequence))
        return "there is a single phase" + (f", but for {_count(odd, 'stretch', 'stretches')} unlike it" if odd else "")
    return "no other order is possible, so that words tell nothing of it, and how long each lasts is all there is"


def difference_sentence(comparison: StructuralComparison, element: str = "interval") -> str:
    """Say how a second run differs from a first."""
    name = comparison.second.sequence.name or "the second run"
    if is_plain(comparison.first):
        other = "the same" if comparison.adequacy.is_adequate else "other classes, or of more or fewer"
        return f"The first run is of {_only_classes(comparison.first)}; {name} is of {other}."
    if not comparison.first.dictionary.words:
        return f"The first run has no words, so that nothing can be said of {name} by them; its own words reach J = {comparison.own_cost:g}."
    elements = comparison.second.sequence.elements
    said = [
        f"The first run's words {'describe' if comparison.adequacy.is_adequate else 'do not describe'} {name}: J, joints apart, is "
        f"{comparison.adequacy.cost:g}, and up to {comparison.adequacy.bound:g} would be expected of the same structure"
    ]
    foreign = sum(span.stop - span.first for span in comparison.foreign)
    had = sum(span.stop - span.first for span in foreign_spans(comparison.first.sequence))
    if foreign > had:
        said.append(f"{foreign:,} of {_count(elements, element, plural(element))} are of no class of the first run")
    unmatched = sum(span.stop - span.first for span in comparison.unmatched) - foreign
    if unmatched > 0:
        said.append(f"none of the words describes {unmatched:,} {'further ' if foreign else ''}{plural(element)}")
    return "; ".join([*said, *_habits(comparison), *_shifts(comparison)]) + "."


def _habits(comparison: StructuralComparison) -> list[str]:
    """Say what most segments of a word lack or have in addition."""
    return [
        f"{letter_of(one.symbol)} {'is missing' if one.missing else 'is added'} at place {one.place + 1} of word {one.word + 1} in {one.times:,} of "
        f"{one.segments:,} segments"
        for one in comparison.habitual_edits[:_HABITS]
    ]


def _shifts(comparison: StructuralComparison) -> list[str]:
    """Say which words take another share of the second run, which J does not see."""
    shares = {use.letters: use.share for use in comparison.uses}
    changes = [
        (number, use.share, shares.get(use.letters, 0.0)) for number, use in enumerate(comparison.first.uses, 1) if use.letters
    ]
    told = sorted((one for one in changes if abs(one[1] - one[2]) >= _SHIFT), key=lambda one: -abs(one[1] - one[2]))
    return [
        f"word {number} takes {before:.0%} of the first run and {after:.0%} of this one" for number, before, after in told[:3]
    ]


def adequacy_sentence(adequacy: Adequacy, what: str) -> str:
    """Say why a model is adequate or not; `what` names that from which the bound was made."""
    verdict = "Adequate" if adequacy.is_adequate else "Not adequate"
    bound = (
        "which was given"
        if math.isnan(adequacy.level)
        else f"at the level {adequacy.level:g}, from {len(adequacy.null_costs):,} {what}"
    )
    sign = "≤" if adequacy.cost <= adequacy.bound else ">"
    return f"{verdict}: J = {adequacy.cost:g} {sign} a(L) = {adequacy.bound:g}, {bound}."


def plural(element: str) -> str:
    """Return the plural of what was classified."""
    return f"{element}es" if element.endswith("s") else f"{element}s"


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"
