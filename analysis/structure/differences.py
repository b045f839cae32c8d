"""Comparison of two runs' structure: the second run is described with the first run's words.

Section 3 of "Structural analysis of measurement paths" calls a model adequate if J ≤ a(L), equation (9), but does not
define a(L). For two runs of the same program, it can be computed: it is the cost of the first run's segments, drawn at
random until they are as long as the second run. If a word begins with the class that ends the segment before it, both
became one symbol when runs were collapsed; this is not an edit here.

The intervals at which two runs begin the same word are anchors for their alignment (Mytkowicz et al., "Aligning Traces
for Performance Evaluation", section 5.3), for programs without milestones.
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

from unperturbed.analysis.structure import phase_text
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
"""Minimum increase, over the first run, in the share of a word's segments that have a habitual edit."""
_DRAWS = 1000
_LEVEL = 0.05
_SUPPORTED = 3
"""Minimum number of segments from which a word is considered typical of the run."""
_FOREIGN_SHARE = 0.01
"""Share of the second run's elements outside all classes of the first from which its structure differs."""


@dataclass(frozen=True)
class HabitualEdit:
    """Symbol that most of a word's segments in the second run lack, or have in addition.

    Attributes
    ----------
    word : int
        Index into the first run's dictionary.
    place : int
        Position in the word, from 0, of the missing symbol, or of the symbol before which one is added.
    symbol : int
        Class of the missing or added symbol.
    missing : bool
        Whether segments lack the symbol; otherwise they have it in addition.
    times, segments : int
        Number of segments with this edit, and of all segments of the word.
    """

    word: int
    place: int
    symbol: int
    missing: bool
    times: int
    segments: int

    def to_dict(self) -> dict[str, Any]:
        """Return the edit as plain data, ready for JSON."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False, repr=False)
class StructuralComparison(Result):
    """Comparison of a second run's structure with a first run's.

    Attributes
    ----------
    first, second : Composition
        The two runs, each with its own words. The second run's elements are classified by the first run's classes.
    under_first : Decomposition
        The second run over the first run's words, by the shortest description; stretches that no word describes have
        the word −1.
    bits : DescriptionLength
        Bits of this decomposition, without those of the first run's words, which are known.
    adequacy : Adequacy
        Whether the first run's words describe the second run: J of (6) without merged symbols, compared with the cost
        of an equally long run of the first run's segments. They do not if at least a hundredth more of the second run
        than of the first is outside the first run's classes. If the first run has one class, or two that alternate,
        words add nothing; then the question is whether the second run has the same classes.
    foreign : tuple of Span
        Stretches of the second run that are far from all classes of the first; each is a single symbol, however long.
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
        """J of the second run with its own words."""
        return self.second.dictionary.adequacy.cost

    @property
    def is_adequate(self) -> bool:
        """Whether the first run's words describe the second run."""
        return self.adequacy.is_adequate

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The second run's segments with the first run's words, in elements of the run; outliers have no word."""
        return spans_of(self.second.sequence, self.under_first)

    @cached_property
    def uses(self) -> tuple[WordUse, ...]:
        """The uses of the first run's words in the second run, followed by the stretches without a word, if any."""
        return word_uses(self.second.sequence, self.under_first.dictionary, self.spans)

    @property
    def unmatched(self) -> tuple[Span, ...]:
        """Stretches of the second run that no word of the first run describes in fewer bits."""
        return tuple(span for span in self.spans if span.word < 0)

    @cached_property
    def habitual_edits(self) -> tuple[HabitualEdit, ...]:
        """Symbols that most of a word's segments lack or have in addition, but not in the first run."""
        before = {key: times / many for key, times, many in _edits_by_position(self.first.dictionary.decomposition)}
        return tuple(
            HabitualEdit(*key, times, many)
            for key, times, many in _edits_by_position(self.under_first)
            if times > 1 and times / many >= _MOSTLY + before.get(key, 0.0)
        )

    def headline(self) -> str:
        """Return a sentence on how the second run differs."""
        return phase_text.difference_sentence(self)

    def tables(self) -> Sequence[Table]:
        """Return tables of the words in both runs, of stretches without a word, and of both runs' classes."""
        return [
            phase_text.words_table(self.first, self),
            *([phase_text.unmatched_table(self)] if self.unmatched else []),
            phase_text.classes_table(self.first, self),
        ]

    def to_frame(self) -> pl.DataFrame:
        """Return the second run's segments with the first run's words, like `Composition.to_frame`."""
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
    """Compare the structure of a second run with that of a first run.

    Parameters
    ----------
    first, second : Composition
        Runs whose elements have the same classes: `structural_sequence(…, classes=first.sequence.classes)`.
    seed : int, default 0
        Seed of the draws for the bound.
    level : float, default 0.05
        Share, from 0 to 1, of runs with the first run's structure that would be called inadequate.

    Returns
    -------
    StructuralComparison
        The second run with the first run's words.

    Raises
    ------
    ValueError
        The runs were classified differently, or the level is out of range.
    """
    if first.sequence.classes is not second.sequence.classes:
        raise ValueError(
            "the runs' elements were classified differently: classify the second run with "
            "`classes=first.sequence.classes`"
        )
    if not 0 < level < 1:
        raise ValueError(f"`level` is {level}: use a probability above 0 and below 1")
    words = first.dictionary.words
    encoded = encode(second.sequence, words)
    under_first, bits = shortest_decomposition(encoded)
    known = DescriptionLength(0.0, bits.indices, bits.edits, bits.stretches)
    cost = float(_segment_edits(decompose(second.sequence, words)).sum())
    draws = simulate_run_costs(decompose(first.sequence, words), len(second.sequence), seed=seed)
    bound = float(np.floor(np.quantile(draws, 1 - level, method="higher")))  # J is an integer
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
    """Return the intervals of two runs at which both begin the same word.

    Parameters
    ----------
    comparison : StructuralComparison
        Comparison of the runs.
    most_edits : int, default 0
        Maximum number of insertions and deletions of a segment whose beginning is trusted.

    Returns
    -------
    tuple of tuple of int
        Pairs of an interval of the first run and an interval of the second, both in increasing order, as `anchored_dtw`
        requires. The runs' sequences of words are matched with the fewest insertions and deletions; stretches without a
        word are not anchors.
    """
    first, second = comparison.first.spans, comparison.spans
    blocks = Indel.opcodes([span.word for span in first], [span.word for span in second])
    return tuple(
        (span.first, other.first)
        for block in blocks
        if block.tag == "equal"
        for span, other in zip(first[block.src_start : block.src_end], second[block.dest_start :], strict=False)
        if span.word >= 0 and max(span.edits, other.edits) <= most_edits
    )


def _segment_edits(decomposition: Decomposition) -> NDArray[np.float64]:
    """Return each segment's number of edits, except for a first symbol merged with the segment before: (segments,)."""
    edits = decomposition.distances.astype(np.float64)
    codes, words = decomposition.sequence.codes.tolist(), [word.tolist() for word in decomposition.sequence.words]
    for number, (first, last) in enumerate(pairwise(decomposition.cuts.tolist())):
        word = words[decomposition.words[number]] if decomposition.words[number] >= 0 else []
        if edits[number] and first and len(word) > 1 and codes[first - 1] == word[0]:
            edits[number] = min(edits[number], indel_distance(codes[first:last], word[1:]))
    return edits


def _edits_by_position(decomposition: Decomposition) -> list[tuple[tuple[int, int, int, bool], int, int]]:
    """Return each edit (word, position, symbol, whether missing), its count, and the word's number of segments."""
    times: Counter[tuple[int, int, int, bool]] = Counter()
    codes, words = decomposition.sequence.codes.tolist(), [word.tolist() for word in decomposition.sequence.words]
    symbols = [operator.index(symbol) for symbol in decomposition.sequence.alphabet]  # type: ignore[arg-type]
    for number, (first, last) in enumerate(pairwise(decomposition.cuts.tolist())):
        chosen = int(decomposition.words[number])
        if chosen < 0 or not decomposition.distances[number]:
            continue
        word, segment = words[chosen], codes[first:last]
        for edit in Indel.editops(word, segment):
            missing = edit.tag == "delete"
            if missing and edit.src_pos == 0 and first and codes[first - 1] == word[0]:
                continue  # the symbol is merged with the segment before, because runs are collapsed
            symbol = symbols[word[edit.src_pos] if missing else segment[edit.dest_pos]]
            times[chosen, edit.src_pos, symbol, missing] += 1
    many = np.bincount(decomposition.words[decomposition.words >= 0], minlength=len(words)).tolist()
    return [(key, count, many[key[0]]) for key, count in times.most_common()]


def simulate_run_costs(
    decomposition: Decomposition, symbols: int, *, seed: int = 0, draws: int = _DRAWS
) -> NDArray[np.float64]:
    """Simulate J, eq. (6), of further runs with a given run's structure and words: shape (draws,), sorted.

    Segments are drawn with replacement from segments that were drawn with replacement, because a run with few segments
    is uncertain about the average cost as well. One segment with a further edit is added to the observed ones.
    """
    if not symbols or not len(decomposition):
        return np.zeros(draws)
    if not decomposition.dictionary:
        return np.full(draws, float(symbols))
    costs, lengths = _unbiased_costs(decomposition), decomposition.lengths.astype(np.float64)
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


def _unbiased_costs(decomposition: Decomposition) -> NDArray[np.float64]:
    """Return the costs of segments as if their words had not been learned from them: shape (segments,).

    Symbol by symbol, a word is the majority of its m segments; so each of them is nearer to the word than a new segment
    would be, by about (m + 1) / (m − 1), like the residuals of a mean of m values. Words with only one or two segments
    were made for these segments, which then cost nothing. Instead, such a segment has the cost without its word: its
    distance to the nearest other word, or its number of symbols.
    """
    costs = _segment_edits(decomposition)
    support = np.bincount(decomposition.words[decomposition.words >= 0], minlength=len(decomposition.dictionary))
    alone = np.flatnonzero((decomposition.words >= 0) & (support[decomposition.words] < _SUPPORTED))
    others = [
        word for word, times in zip(decomposition.dictionary, support.tolist(), strict=True) if times >= _SUPPORTED
    ]
    if len(alone):
        segments = [decomposition.segments[number] for number in alone.tolist()]
        literal = np.array([len(segment) for segment in segments], np.float64)
        nearest = indel_distances(segments, others).min(axis=1) if others else literal
        costs[alone] = np.maximum(costs[alone], np.minimum(nearest, literal))
    sharing = np.maximum(support[decomposition.words], _SUPPORTED)
    return np.where(decomposition.words >= 0, costs * (sharing + 1) / (sharing - 1), costs)
