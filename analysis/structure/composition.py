"""A run's composition: which words recur in its structural sequence, when, and how much of its time each takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.adequacy import Adequacy
from unperturbed.analysis.structure.decomposition import Decomposition
from unperturbed.analysis.structure.dictionary import Dictionary
from unperturbed.analysis.structure.encoding import Word
from unperturbed.analysis.structure.learning import Bound, Method, learn_dictionary
from unperturbed.analysis.structure.sequence import StructuralSequence, letters_of

__all__ = [
    "Composition",
    "Span",
    "WordUse",
    "adequacy_json",
    "classes_in",
    "compose",
    "foreign_spans",
    "is_plain_sequence",
    "spans_of",
    "uses_of",
    "with_foreign",
]


_TAKING_TURNS = 2
"""Symbols of a sequence without equal neighbours that has one order alone."""


@dataclass(frozen=True)
class Span:
    """A segment of a decomposition, in elements of what was measured.

    Attributes
    ----------
    first, stop : int
        Its first interval (or access), and the one behind its last.
    word : int
        Index into the dictionary; −1 where no word describes it.
    edits : int
        Insertions and deletions between it and its word; its symbols where it has none.
    continues : bool
        It is the rest of the word before it, which a stretch of no class has interrupted.
    """

    first: int
    stop: int
    word: int
    edits: int
    continues: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return what `json` can write."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class WordUse:
    """What a word stands for in a run.

    Attributes
    ----------
    word : Word
    letters : str
        The same, a letter a class; empty for all stretches that no word describes.
    durations : float64, shape (times,)
        Of each of its segments, in the unit of the sequence's durations.
    share : float
        Of the run's duration, from 0 to 1.
    edits : int
        Insertions and deletions in all its segments.
    """

    word: Word
    letters: str
    durations: NDArray[np.float64]
    share: float
    edits: int

    @property
    def times(self) -> int:
        """How often it occurs."""
        return len(self.durations)

    def to_json(self) -> dict[str, Any]:
        """Return what `json` can write."""
        known = {"letters": self.letters, "times": self.times, "share": self.share, "edits": self.edits}
        spread = np.quantile(self.durations, (0, 0.5, 1)).tolist() if self.times else [0.0, 0.0, 0.0]
        return known | dict(zip(("shortest", "median", "longest"), spread, strict=True))


def spans_of(sequence: StructuralSequence, found: Decomposition) -> tuple[Span, ...]:
    """Return the segments of a sequence's decomposition in elements of what was measured."""
    borders = np.append(sequence.starts, sequence.elements)[found.cuts].tolist()
    rows = zip(borders[:-1], borders[1:], found.words.tolist(), found.distances.tolist(), strict=True)
    return tuple(Span(*row) for row in rows)


def foreign_spans(sequence: StructuralSequence) -> tuple[Span, ...]:
    """Return the stretches of a run that are of no class."""
    ends = np.append(sequence.starts[1:], sequence.elements)
    odd = np.flatnonzero(sequence.symbols >= len(sequence.classes))
    return tuple(Span(int(sequence.starts[number]), int(ends[number]), -1, 1) for number in odd)


def is_plain_sequence(sequence: StructuralSequence) -> bool:
    """Tell whether a sequence has one symbol, or two that take turns as they must."""
    return len(sequence) > 0 and len(np.unique(sequence.symbols)) <= _TAKING_TURNS


def classes_in(sequence: StructuralSequence) -> frozenset[int]:
    """Return the classes that occur in a run."""
    return frozenset(symbol for symbol in sequence.symbols.tolist() if symbol < len(sequence.classes))


def with_foreign(spans: tuple[Span, ...], foreign: tuple[Span, ...]) -> tuple[Span, ...]:
    """Cut foreign stretches out of the spans that hold them; the first part of a span keeps its other edits."""
    made: list[Span] = []
    left = list(foreign)
    for span in spans:
        at, edits, begun = span.first, span.edits, False
        while left and left[0].first < span.stop:
            odd = left.pop(0)
            edits -= 1
            if odd.first > at:
                made.append(Span(at, odd.first, span.word, max(0, edits), begun))
                edits, begun = 0, span.word >= 0
            made.append(odd)
            at = odd.stop
        if at < span.stop:
            made.append(Span(at, span.stop, span.word, max(0, edits), begun))
    return tuple(made)


def uses_of(sequence: StructuralSequence, dictionary: Sequence[Word], spans: Sequence[Span]) -> tuple[WordUse, ...]:
    """Return what each word stands for in a run's spans, in the dictionary's order; last, what has no word, if anything."""
    before = np.concatenate(([0.0], np.cumsum(sequence.durations)))
    borders = np.append(sequence.starts, sequence.elements)
    whole = float(before[-1]) or 1.0
    uses = []
    for number, word in enumerate((*dictionary, ())):
        mine = [span for span in spans if span.word == (number if number < len(dictionary) else -1)]
        if number == len(dictionary) and not mine:
            continue
        ends = np.array([(span.first, span.stop) for span in mine], np.int64).reshape(-1, 2)
        spent = np.diff(before[np.searchsorted(borders, ends)], axis=1)[:, 0]
        times = np.flatnonzero([not span.continues for span in mine])
        spent = np.add.reduceat(spent, times) if len(times) else spent
        uses.append(WordUse(word, letters_of(word), spent, float(spent.sum()) / whole, sum(span.edits for span in mine)))
    return tuple(uses)


def compose(
    sequence: StructuralSequence,
    *,
    method: Method = "description_length",
    adequate: Bound | None = None,
    longest: int = 32,
    seed: int = 0,
) -> Composition:
    """Learn the words that a run is made of.

    Parameters
    ----------
    sequence : StructuralSequence
    method, adequate, longest, seed
        As for `learn_dictionary`.

    Raises
    ------
    ValueError
        As `learn_dictionary`.
    """
    return Composition(sequence, learn_dictionary(sequence, method=method, adequate=adequate, longest=longest, seed=seed))


@dataclass(frozen=True, eq=False)
class Composition:
    """A run as words.

    Attributes
    ----------
    sequence : StructuralSequence
    dictionary : Dictionary
        Learnt of it, with its decomposition and whether the model is adequate.
    """

    sequence: StructuralSequence
    dictionary: Dictionary

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The segments of the decomposition, in elements of what was measured; what is far from all classes has no word."""
        return with_foreign(spans_of(self.sequence, self.dictionary.decomposition), foreign_spans(self.sequence))

    @cached_property
    def uses(self) -> tuple[WordUse, ...]:
        """What each word stands for, and last what has none."""
        return uses_of(self.sequence, self.dictionary.words, self.spans)

    def to_json(self) -> dict[str, Any]:
        """Return what `json` can write."""
        sequence, dictionary = self.sequence, self.dictionary
        return {
            "name": sequence.name,
            "elements": sequence.elements,
            "unit": sequence.unit,
            "classes": list(sequence.classes.names),
            "sequence": sequence.letters,
            "starts": sequence.starts.tolist(),
            "durations": sequence.durations.tolist(),
            "method": dictionary.method,
            "bits": {**vars(dictionary.bits), "total": dictionary.bits.total, "without_words": dictionary.baseline_bits},
            "adequacy": adequacy_json(dictionary.adequacy),
            "words": [use.to_json() for use in self.uses],
            "segments": [span.to_json() for span in self.spans],
        }


def adequacy_json(adequacy: Adequacy) -> dict[str, Any]:
    """Return what `json` can write of an adequacy; a bound that was given has no level."""
    level = None if math.isnan(adequacy.level) else adequacy.level
    return {"cost": adequacy.cost, "bound": adequacy.bound, "level": level, "is_adequate": adequacy.is_adequate}
