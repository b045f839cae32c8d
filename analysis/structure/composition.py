"""Composition of a run: the words that recur in its structural sequence, when, and their shares of the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure import phase_text
from unperturbed.analysis.structure.dictionary.adequacy import Bound
from unperturbed.analysis.structure.dictionary.learning import Dictionary, Method, learn_dictionary
from unperturbed.analysis.structure.segmentation import Decomposition
from unperturbed.analysis.structure.sequence import StructuralSequence, letters_of, structural_sequence
from unperturbed.analysis.structure.symbols import Word
from unperturbed.common.result import Result
from unperturbed.common.table import Table

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Span:
    """Segment of a decomposition, in elements of the run.

    Attributes
    ----------
    first, stop : int
        The segment's first interval (or access), and the one after its last.
    word : int
        Index into the dictionary; −1 if no word describes the segment.
    edits : int
        Insertions and deletions between the segment and its word; without a word, its number of symbols.
    continues : bool, default False
        Whether the segment is the rest of the preceding word, which a stretch outside all classes interrupted.
    """

    first: int
    stop: int
    word: int
    edits: int
    continues: bool = False

    def __len__(self) -> int:
        return self.stop - self.first

    def to_dict(self) -> dict[str, Any]:
        """Return the segment as plain data, ready for JSON."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class WordUse:
    """Use of a word in a run: its segments.

    Attributes
    ----------
    word : Word
        The word; empty for all stretches that no word describes.
    letters : str
        The word as text, with a letter for each class.
    durations : array of float64, shape (times,)
        Duration of each segment, in the unit of the sequence's durations.
    share : float
        Share of the run's duration, from 0 to 1.
    edits : int
        Insertions and deletions in all segments of the word.
    """

    word: Word
    letters: str
    durations: NDArray[np.float64]
    share: float
    edits: int

    @property
    def times(self) -> int:
        """Number of the word's segments."""
        return len(self.durations)

    def to_dict(self) -> dict[str, Any]:
        """Return the use as plain data, ready for JSON."""
        known = {"letters": self.letters, "times": self.times, "share": self.share, "edits": self.edits}
        spread = np.quantile(self.durations, (0, 0.5, 1)).tolist() if self.times else [0.0, 0.0, 0.0]
        return known | dict(zip(("shortest", "median", "longest"), spread, strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class Composition(Result):
    """Composition of a run: its structural sequence and its words.

    Attributes
    ----------
    sequence : StructuralSequence
        The run.
    dictionary : Dictionary
        The words learned from the run, the run's decomposition, and whether the words are adequate.
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
        """Each word's use, followed by the stretches without a word, if any."""
        return word_uses(self.sequence, self.dictionary.words, self.spans)

    @property
    def is_adequate(self) -> bool:
        """Whether the words describe the run, (9), or the run has only one possible order and needs no model."""
        return self.sequence.is_plain or self.dictionary.is_adequate

    def headline(self) -> str:
        """Return one or two sentences with the run's elements, classes, words and verdict."""
        return phase_text.composition_sentence(self)

    def tables(self) -> Sequence[Table]:
        """Return tables of the words and of the classes."""
        return [phase_text.words_table(self), phase_text.classes_table(self)]

    def to_frame(self) -> pl.DataFrame:
        """Return a data frame of the segments: first element, end (exclusive), word (null for none), letters, edits."""
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
        See `learn_dictionary`.
    adequate : float or callable, optional
        See `learn_dictionary`.
    longest : int, default 32
        Maximum number of symbols in a word, from 2 to 64.
    seed : int, default 0
        Seed of all random draws.

    Returns
    -------
    Composition
        The run and its dictionary.

    Raises
    ------
    ValueError
        An error of `learn_dictionary`.
    """
    learned = learn_dictionary(sequence, method=method, adequate=adequate, longest=longest, seed=seed)
    return Composition(sequence, learned)


def structure(source: Any, *, seed: int = 0, **options: Any) -> Composition:
    """Find the phases of a run: its classes of intervals, and the recurring words that they form.

    Parameters
    ----------
    source : Trace, array of shape (n,) or (n, metrics), or sequence
        As for `structural_sequence`.
    seed : int, default 0
        Seed of random choices.
    **options : object
        Further arguments of `structural_sequence`: `metrics`, `classes`, `per`, `dwell`, …

    Returns
    -------
    Composition
        The words, their occurrences, and whether they describe the run.
    """
    return compose(structural_sequence(source, seed=seed, **options), seed=seed)


def foreign_spans(sequence: StructuralSequence) -> tuple[Span, ...]:
    """Return the stretches of a run that are outside all classes."""
    return tuple(Span(first, stop, -1, 1) for first, stop in sequence.foreign_stretches)


def spans_of(sequence: StructuralSequence, decomposition: Decomposition) -> tuple[Span, ...]:
    """Return a decomposition's segments in elements of the run, cut at stretches that are outside all classes."""
    bounds = np.append(sequence.starts, sequence.elements)[decomposition.cuts].tolist()
    rows = zip(bounds[:-1], bounds[1:], decomposition.words.tolist(), decomposition.distances.tolist(), strict=True)
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
    """Return each word's use among a run's spans, in the dictionary's order, then stretches without a word."""
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
        # Count the parts of an interrupted segment as one segment.
        starts = np.flatnonzero([not span.continues for span in own])
        lasted = np.add.reduceat(lasted, starts) if len(starts) else lasted
        edits = sum(span.edits for span in own)
        uses.append(WordUse(word, letters_of(word), lasted, float(lasted.sum()) / whole, edits))
    return tuple(uses)


def frame_of_spans(spans: Sequence[Span], uses: Sequence[WordUse]) -> pl.DataFrame:
    """Return a data frame with one row for each span."""
    import polars as pl  # noqa: PLC0415  only this needs it

    letters = [use.letters for use in uses if use.letters]
    rows = [
        (span.first, span.stop, *((span.word, letters[span.word]) if span.word >= 0 else (None, None)), span.edits)
        for span in spans
    ]
    schema = {"first": pl.Int64, "stop": pl.Int64, "word": pl.Int64, "letters": pl.String, "edits": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")
