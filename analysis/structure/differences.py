"""How a second run differs in structure from a first: the second under the first one's words, beside its own.

Section 3 of "Structural analysis of measurement paths" calls a model adequate when J ≤ a(L), equation (9), and leaves
a(L) open. For another run of the same program there is an answer: the cost of the first run's own segments, drawn at
random until they are as long as the second run. Where a word begins with the class that the segment before it ends in,
collapsing runs has made one symbol of both; that is not an edit here.

Where two runs begin the same word are anchors for their alignment (Mytkowicz et al., "Aligning Traces for Performance
Evaluation", section 5.3), for programs that count no milestones.
"""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Indel

from unperturbed.analysis.structure import describe
from unperturbed.analysis.structure.composition import (
    Composition,
    Span,
    WordUse,
    foreign_spans,
    frame_of_spans,
    spans_of,
    word_uses,
)
from unperturbed.analysis.structure.dictionary.adequacy import Adequacy
from unperturbed.analysis.structure.dictionary.description_length import DescriptionLength, shortest_decomposition
from unperturbed.analysis.structure.segmentation import Decomposition, decompose
from unperturbed.analysis.structure.symbols import encode, indel_distance, indel_distances
from unperturbed.common.result import Result
from unperturbed.common.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

_MOSTLY = 0.5
"""Share of a word's segments, beyond that of the first run's, from which an edit is habitual."""
_DRAWS = 1000
_LEVEL = 0.05
_SUPPORTED = 3
"""Segments from which a word belongs to the run, and not to those segments alone."""
_FOREIGN_SHARE = 0.01
"""Share of the second run's elements in no class of the first that makes it another structure."""


@dataclass(frozen=True)
class HabitualEdit:
    """A symbol that most of a word's segments in the second run lack, or have in addition.

    Attributes
    ----------
    word : int
        Index into the first run's dictionary.
    place : int
        In the word, from 0: of the symbol that is missing, or of the one before which the other is added.
    symbol : int
        Class of what is missing or added.
    missing : bool
        Whether segments lack it; otherwise they have it in addition.
    times, segments : int
        Segments with this edit, and all of the word.
    """

    word: int
    place: int
    symbol: int
    missing: bool
    times: int
    segments: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, ready for JSON."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False, repr=False)
class StructuralComparison(Result):
    """A second run compared with a first.

    Attributes
    ----------
    first, second : Composition
        Each with its own words. The second's elements are classified as the first's.
    under_first : Decomposition
        The second over the first one's words, by the shortest description; stretches that no word describes have the
        word −1.
    bits : DescriptionLength
        Of that, without those of the first one's words, which are known.
    adequacy : Adequacy
        Whether the first one's words describe the second: J of (6) for them, joints apart, against what as long a run
        of the first's segments would cost. Never where a hundredth of the second run or more is of no class of the
        first, beyond what the first has of that itself. Where the first run is of one class, or of two that alternate,
        words say nothing: it is whether the second is of the same classes.
    foreign : tuple of Span
        Stretches of the second run that are far from all classes of the first, however long: each is a single symbol.
    """

    _page: ClassVar[str] = "unperturbed.analysis.structure.page:render_comparison"

    first: Composition
    second: Composition
    under_first: Decomposition
    bits: DescriptionLength
    adequacy: Adequacy
    foreign: tuple[Span, ...] = ()

    @property
    def own_cost(self) -> float:
        """J of the second run under its own words."""
        return self.second.dictionary.adequacy.cost

    @property
    def is_adequate(self) -> bool:
        """Whether the first one's words describe the second."""
        return self.adequacy.is_adequate

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The second run's segments under the first one's words, in elements of the run; outliers have no word."""
        return spans_of(self.second.sequence, self.under_first)

    @cached_property
    def uses(self) -> tuple[WordUse, ...]:
        """The segments of the first one's words in the second run, and last what has no word, if anything."""
        return word_uses(self.second.sequence, self.under_first.dictionary, self.spans)

    @property
    def unmatched(self) -> tuple[Span, ...]:
        """Stretches of the second run that are shorter symbol by symbol than by any of the first one's words."""
        return tuple(span for span in self.spans if span.word < 0)

    @cached_property
    def habitual_edits(self) -> tuple[HabitualEdit, ...]:
        """Symbols that most segments of a word lack or add, unlike those of the first run."""
        before = {key: times / many for key, times, many in _edits_by_position(self.first.dictionary.decomposition)}
        return tuple(
            HabitualEdit(*key, times, many)
            for key, times, many in _edits_by_position(self.under_first)
            if times > 1 and times / many >= _MOSTLY + before.get(key, 0.0)
        )

    def headline(self) -> str:
        """Return how the second run differs, in a sentence."""
        return describe.difference_sentence(self)

    def tables(self) -> Sequence[Table]:
        """Return the table of words in both runs, stretches that none describes, and the classes of both."""
        return [
            describe.words_table(self.first, self),
            *([describe.unmatched_table(self)] if self.unmatched else []),
            describe.classes_table(self.first, self),
        ]

    def to_frame(self) -> pl.DataFrame:
        """Return the second run's segments under the first one's words, as `Composition.to_frame`."""
        return frame_of_spans(self.spans, self.uses)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data, ready for JSON."""
        return {
            "habitual_edits": [edit.to_dict() for edit in self.habitual_edits],
            "own_cost": self.own_cost,
            "bits": self.bits.total,
            "adequacy": self.adequacy.to_dict(),
            "words": [use.to_dict() for use in self.uses],
            "segments": [span.to_dict() for span in self.spans],
            "unmatched": [span.to_dict() for span in self.unmatched],
            "foreign": [span.to_dict() for span in self.foreign],
        }


def compare_structure(
    first: Composition, second: Composition, *, seed: int = 0, level: float = _LEVEL
) -> StructuralComparison:
    """Compare the structure of a second run with a first.

    Parameters
    ----------
    first, second : Composition
        Of runs whose elements were classified alike: `structural_sequence(…, classes=first.sequence.classes)`.
    seed : int, default 0
        Of the draws for the bound.
    level : float, default 0.05
        Share of runs with the first's structure that are called inadequate, from 0 to 1.

    Returns
    -------
    StructuralComparison
        The second run under the first one's words.

    Raises
    ------
    ValueError
        The runs were classified differently, or the level is out of range.
    """
    if first.sequence.classes is not second.sequence.classes:
        raise ValueError(
            "the runs' elements were classified differently; give the second sequence classes=first.sequence.classes"
        )
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; give a share between 0 and 1")
    words = first.dictionary.words
    encoded = encode(second.sequence, words)
    under_first, bits = shortest_decomposition(encoded)
    known = DescriptionLength(0.0, bits.indices, bits.edits, bits.stretches)
    cost = float(_segment_edits(decompose(second.sequence, words)).sum())
    draws = simulate_run_costs(decompose(first.sequence, words), len(second.sequence), seed=seed)
    bound = float(np.floor(np.quantile(draws, 1 - level, method="higher")))  # J is a whole number
    foreign = foreign_spans(second.sequence)
    further = sum(map(len, foreign)) - sum(map(len, foreign_spans(first.sequence)))
    same_classes = further / max(1, second.sequence.elements) < _FOREIGN_SHARE
    described = bool(words) and cost <= bound and same_classes
    if first.sequence.is_plain:
        described = same_classes and first.sequence.occurring_classes == second.sequence.occurring_classes
    return StructuralComparison(
        first, second, under_first, known, Adequacy(cost, bound, described, level, draws), foreign
    )


def phase_anchors(comparison: StructuralComparison, *, most_edits: int = 0) -> tuple[tuple[int, int], ...]:
    """Return intervals of two runs at which both begin the same word.

    Parameters
    ----------
    comparison : StructuralComparison
        Of the runs.
    most_edits : int, default 0
        Insertions and deletions of a segment whose beginning is trusted.

    Returns
    -------
    tuple of tuple of int
        Pairs of an interval of the first run and one of the second, in order from either side, as `anchored_dtw` takes
        them. The runs' sequences of words are matched with the fewest insertions and deletions; stretches without a
        word are not anchors.
    """
    first, second = comparison.first.spans, comparison.spans
    blocks = Indel.opcodes([span.word for span in first], [span.word for span in second])
    return tuple(
        (one.first, other.first)
        for block in blocks
        if block.tag == "equal"
        for one, other in zip(first[block.src_start : block.src_end], second[block.dest_start :], strict=False)
        if one.word >= 0 and max(one.edits, other.edits) <= most_edits
    )


def _segment_edits(found: Decomposition) -> NDArray[np.float64]:
    """Return the edits of each segment but for a first symbol shared with the one before: shape (segments,)."""
    edits = found.distances.astype(np.float64)
    codes, words = found.sequence.codes.tolist(), [word.tolist() for word in found.sequence.words]
    for number, (first, last) in enumerate(pairwise(found.cuts.tolist())):
        word = words[found.words[number]] if found.words[number] >= 0 else []
        if edits[number] and first and len(word) > 1 and codes[first - 1] == word[0]:
            edits[number] = min(edits[number], indel_distance(codes[first:last], word[1:]))
    return edits


def _edits_by_position(found: Decomposition) -> list[tuple[tuple[int, int, int, bool], int, int]]:
    """Return each edit (word, position in it, symbol, whether it is missing), how often, and segments of the word."""
    times: Counter[tuple[int, int, int, bool]] = Counter()
    codes, words = found.sequence.codes.tolist(), [word.tolist() for word in found.sequence.words]
    symbols = [operator.index(symbol) for symbol in found.sequence.alphabet]  # type: ignore[arg-type]
    for number, (first, last) in enumerate(pairwise(found.cuts.tolist())):
        chosen = int(found.words[number])
        if chosen < 0 or not found.distances[number]:
            continue
        word, segment = words[chosen], codes[first:last]
        for edit in Indel.editops(word, segment):
            missing = edit.tag == "delete"
            if missing and edit.src_pos == 0 and first and codes[first - 1] == word[0]:
                continue  # it is in the run before, as runs are collapsed
            symbol = symbols[word[edit.src_pos] if missing else segment[edit.dest_pos]]
            times[chosen, edit.src_pos, symbol, missing] += 1
    many = np.bincount(found.words[found.words >= 0], minlength=len(words)).tolist()
    return [(key, count, many[key[0]]) for key, count in times.most_common()]


def simulate_run_costs(
    found: Decomposition, symbols: int, *, seed: int = 0, draws: int = _DRAWS
) -> NDArray[np.float64]:
    """Simulate the costs J of (6) of further runs with a run's structure under its words: shape (draws,), in order.

    Segments are drawn with replacement from segments that were drawn with replacement: a run with few segments does
    not show either what such runs cost on average. One edit that was not seen is added to those that were.
    """
    if not symbols or not len(found):
        return np.zeros(draws)
    if not found.dictionary:
        return np.full(draws, float(symbols))
    costs, lengths = _unbiased_costs(found), found.lengths.astype(np.float64)
    costs, lengths = np.append(costs, costs.mean() + 1), np.append(lengths, lengths.mean())
    rng = np.random.default_rng(seed)
    drawn = np.empty(draws)
    for draw in range(draws):
        seen = rng.integers(0, len(costs), len(costs))
        wanted = int(2 * symbols / lengths[seen].mean()) + 16
        chosen = seen[rng.integers(0, len(seen), wanted)]
        while lengths[chosen].sum() < symbols:
            chosen = np.concatenate((chosen, seen[rng.integers(0, len(seen), wanted)]))
        ends = np.cumsum(lengths[chosen])
        stop = int(np.searchsorted(ends, symbols)) + 1
        drawn[draw] = costs[chosen[:stop]].sum() * symbols / ends[stop - 1]
    return np.sort(drawn)


def _unbiased_costs(found: Decomposition) -> NDArray[np.float64]:
    """Return the costs of segments under words that were not learned from them: shape (segments,).

    A word is, symbol by symbol, what most of its m segments have; so each of them is nearer to it than a further one
    would be, by about (m + 1) / (m − 1), as the residuals of a mean of m are. A word that only one or two segments
    support was made for them, and they cost nothing; instead, such a segment counts what it would cost without the
    word, at the next best one or as so many symbols.
    """
    costs = _segment_edits(found)
    support = np.bincount(found.words[found.words >= 0], minlength=len(found.dictionary))
    alone = np.flatnonzero((found.words >= 0) & (support[found.words] < _SUPPORTED))
    others = [word for word, times in zip(found.dictionary, support.tolist(), strict=True) if times >= _SUPPORTED]
    if len(alone):
        segments = [found.segments[number] for number in alone.tolist()]
        literal = np.array([len(segment) for segment in segments], np.float64)
        nearest = indel_distances(segments, others).min(axis=1) if others else literal
        costs[alone] = np.maximum(costs[alone], np.minimum(nearest, literal))
    sharing = np.maximum(support[found.words], _SUPPORTED)
    return np.where(found.words >= 0, costs * (sharing + 1) / (sharing - 1), costs)
