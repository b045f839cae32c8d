"""A run's composition: which words recur in its structural sequence, when, and how much of its time each takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure import describe
from unperturbed.analysis.structure.dictionary.adequacy import Bound
from unperturbed.analysis.structure.dictionary.learning import Dictionary, Method, learn_dictionary
from unperturbed.analysis.structure.segmentation import Decomposition
from unperturbed.analysis.structure.sequence import StructuralSequence, letters_of
from unperturbed.analysis.structure.symbols import Word
from unperturbed.common.result import Result
from unperturbed.common.table import Table

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Span:
    """A segment of a decomposition, in elements of the run.

    Attributes
    ----------
    first, stop : int
        Its first interval (or access), and the one behind its last.
    word : int
        Index into the dictionary; −1 where no word describes it.
    edits : int
        Insertions and deletions between it and its word; its symbols where it has none.
    continues : bool, default False
        Whether it is the rest of the word before it, which a stretch of no class has interrupted.
    """

    first: int
    stop: int
    word: int
    edits: int
    continues: bool = False

    def __len__(self) -> int:
        return self.stop - self.first

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, ready for JSON."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class WordUse:
    """The segments of a word in a run.

    Attributes
    ----------
    word : Word
        The word; empty for all stretches that no word describes.
    letters : str
        The same, a letter a class.
    durations : array of float64, shape (times,)
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

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, ready for JSON."""
        known = {"letters": self.letters, "times": self.times, "share": self.share, "edits": self.edits}
        spread = np.quantile(self.durations, (0, 0.5, 1)).tolist() if self.times else [0.0, 0.0, 0.0]
        return known | dict(zip(("shortest", "median", "longest"), spread, strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class Composition(Result):
    """A run as words.

    Attributes
    ----------
    sequence : StructuralSequence
        The run.
    dictionary : Dictionary
        Learned from it, with its decomposition and whether the model is adequate.
    """

    _page: ClassVar[str] = "unperturbed.analysis.structure.page:render_structure"

    sequence: StructuralSequence
    dictionary: Dictionary

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The segments of the decomposition, in elements of the run; outliers have no word."""
        return spans_of(self.sequence, self.dictionary.decomposition)

    @cached_property
    def uses(self) -> tuple[WordUse, ...]:
        """Each word's segments, and last what has no word, if anything."""
        return word_uses(self.sequence, self.dictionary.words, self.spans)

    @property
    def is_adequate(self) -> bool:
        """Whether the words describe the run, (9), or there is nothing to model: a run that has one order alone."""
        return self.sequence.is_plain or self.dictionary.is_adequate

    def headline(self) -> str:
        """Return the run's elements, classes, words and verdict in a sentence or two."""
        return describe.composition_sentence(self)

    def tables(self) -> Sequence[Table]:
        """Return the table of words and the one of classes."""
        return [describe.words_table(self), describe.classes_table(self)]

    def to_frame(self) -> pl.DataFrame:
        """Return the run's segments: first element, the one behind the last, word (null for none), letters, edits."""
        return frame_of_spans(self.spans, self.uses)

    def to_dict(self) -> dict[str, Any]:
        """Return the composition as plain data, ready for JSON."""
        sequence, dictionary, bits = self.sequence, self.dictionary, self.dictionary.bits
        return {
            "name": sequence.name,
            "elements": sequence.elements,
            "unit": sequence.unit,
            "classes": list(sequence.classes.names),
            "sequence": sequence.letters,
            "starts": sequence.starts.tolist(),
            "durations": sequence.durations.tolist(),
            "method": dictionary.method,
            "bits": {**vars(bits), "total": bits.total, "without_words": dictionary.baseline_bits},
            "adequacy": dictionary.adequacy.to_dict(),
            "words": [use.to_dict() for use in self.uses],
            "segments": [span.to_dict() for span in self.spans],
        }


def compose(
    sequence: StructuralSequence,
    *,
    method: Method = "description_length",
    adequate: Bound | None = None,
    longest: int = 32,
    seed: int = 0,
) -> Composition:
    """Learn the words that recur in a run.

    Parameters
    ----------
    sequence : StructuralSequence
        The run.
    method : {"description_length", "monotone"}, default "description_length"
        As for `learn_dictionary`.
    adequate : float or callable, optional
        As for `learn_dictionary`.
    longest : int, default 32
        Symbols of a word, from 2 to 64.
    seed : int, default 0
        Of all that is drawn at random.

    Returns
    -------
    Composition
        The run and its dictionary.

    Raises
    ------
    ValueError
        As `learn_dictionary`.
    """
    learned = learn_dictionary(sequence, method=method, adequate=adequate, longest=longest, seed=seed)
    return Composition(sequence, learned)


def foreign_spans(sequence: StructuralSequence) -> tuple[Span, ...]:
    """Return the stretches of a run that are of no class."""
    return tuple(Span(first, stop, -1, 1) for first, stop in sequence.foreign_stretches)


def spans_of(sequence: StructuralSequence, found: Decomposition) -> tuple[Span, ...]:
    """Return a decomposition's segments in elements of the run, cut where stretches of no class are in them."""
    bounds = np.append(sequence.starts, sequence.elements)[found.cuts].tolist()
    rows = zip(bounds[:-1], bounds[1:], found.words.tolist(), found.distances.tolist(), strict=True)
    parts: list[Span] = []
    left = list(foreign_spans(sequence))
    for first, end, word, distance in rows:
        at, edits, continues = first, distance, False
        while left and left[0].first < end:
            stretch = left.pop(0)
            edits -= 1
            if stretch.first > at:
                parts.append(Span(at, stretch.first, word, max(0, edits), continues))
                edits, continues = 0, word >= 0  # the first part keeps the other edits
            parts.append(stretch)
            at = stretch.stop
        if at < end:
            parts.append(Span(at, end, word, max(0, edits), continues))
    return tuple(parts)


def word_uses(sequence: StructuralSequence, dictionary: Sequence[Word], spans: Sequence[Span]) -> tuple[WordUse, ...]:
    """Return each word's segments among a run's spans, in the dictionary's order; last, stretches without a word."""
    before = np.concatenate(([0.0], np.cumsum(sequence.durations)))
    bounds = np.append(sequence.starts, sequence.elements)
    whole = float(before[-1]) or 1.0
    uses = []
    for number, word in [*enumerate(dictionary), (-1, ())]:
        own = [span for span in spans if span.word == number]
        if number < 0 and not own:
            continue
        ends = np.array([(span.first, span.stop) for span in own], np.int64).reshape(-1, 2)
        lasted = np.diff(before[np.searchsorted(bounds, ends)], axis=1)[:, 0]
        # The parts of an interrupted segment are one.
        starts = np.flatnonzero([not span.continues for span in own])
        lasted = np.add.reduceat(lasted, starts) if len(starts) else lasted
        edits = sum(span.edits for span in own)
        uses.append(WordUse(word, letters_of(word), lasted, float(lasted.sum()) / whole, edits))
    return tuple(uses)


def frame_of_spans(spans: Sequence[Span], uses: Sequence[WordUse]) -> pl.DataFrame:
    """Return spans as a table: a row a segment."""
    import polars as pl  # noqa: PLC0415  only this needs it

    letters = [use.letters for use in uses if use.letters]
    rows = [
        (span.first, span.stop, *((span.word, letters[span.word]) if span.word >= 0 else (None, None)), span.edits)
        for span in spans
    ]
    schema = {"first": pl.Int64, "stop": pl.Int64, "word": pl.Int64, "letters": pl.String, "edits": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")
