"""How a second run differs in structure from a first: the second under the first one's words, beside its own.

Section 3 of "Structural analysis of measurement paths" calls a model adequate when J ≤ a(L), equation (9), and leaves a(L) open. For another run of
the same program it can be said: what the first run's own segments cost, drawn at random until they are as long as the second run. Where a word begins
with the class that the segment before it ends in, collapsing runs has made one symbol of both; that is no edit here.
"""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Indel

from unperturbed.analysis.structure.adequacy import Adequacy
from unperturbed.analysis.structure.composition import (
    Composition,
    Span,
    WordUse,
    adequacy_json,
    classes_in,
    foreign_spans,
    is_plain_sequence,
    spans_of,
    uses_of,
    with_foreign,
)
from unperturbed.analysis.structure.decomposition import Decomposition, decompose
from unperturbed.analysis.structure.description_length import DescriptionLength, shortest_decomposition
from unperturbed.analysis.structure.distances import indel_distance, indel_distances
from unperturbed.analysis.structure.encoding import encode

__all__ = ["HabitualEdit", "StructuralComparison", "compare_structure", "cost_of_another_run"]

_MOSTLY = 0.5
"""Share of a word's segments, beyond that of the first run's, from which on an edit is told of."""
_DRAWS = 1000
_LEVEL = 0.05
_SUPPORTED = 3
"""Segments from which on a word is one of the run's, and not of those segments alone."""
_FOREIGN_SHARE = 0.01
"""Of the second run's elements: so much of no class of the first makes it another."""


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
    times, segments : int
        Of so many segments, so many have this edit.
    """

    word: int
    place: int
    symbol: int
    missing: bool
    times: int
    segments: int

    def to_json(self) -> dict[str, Any]:
        """Return what `json` can write."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class StructuralComparison:
    """A second run beside a first.

    Attributes
    ----------
    first, second : Composition
        Each with its own words. The second's elements are classified as the first's.
    under_first : Decomposition
        The second over the first one's words, told in the fewest bits; stretches that no word describes have the word −1.
    bits : DescriptionLength
        Of that, without those of the first one's words, which are known.
    adequacy : Adequacy
        Whether the first one's words describe the second: J of (6) for them, joints apart, against what as long a run of the first's segments would
        cost. Never where a hundredth of the second run or more is of no class of the first, beyond what the first has of that itself. Where the first
        run is of one class, or of two that take turns, no words can tell: it is whether the second is of the same classes.
    foreign : tuple of Span
        Stretches of the second run that are far from all classes of the first, however long: each is a single symbol.
    """

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

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The second run's segments under the first one's words, in elements of what was measured; what is foreign has no word."""
        return with_foreign(spans_of(self.second.sequence, self.under_first), self.foreign)

    @property
    def unmatched(self) -> tuple[Span, ...]:
        """Stretches of the second run that none of the first one's words describes in fewer bits than spelling them out."""
        return tuple(span for span in self.spans if span.word < 0)

    @cached_property
    def habitual_edits(self) -> tuple[HabitualEdit, ...]:
        """What most segments of a word lack, or have in addition, and those of the first run did not."""
        before = {key: times / many for key, times, many in _edits_by_place(self.first.dictionary.decomposition)}
        return tuple(
            HabitualEdit(*key, times, many)
            for key, times, many in _edits_by_place(self.under_first)
            if times > 1 and times / many >= _MOSTLY + before.get(key, 0.0)
        )

    def to_json(self) -> dict[str, Any]:
        """Return what `json` can write."""
        return {
            "habitual_edits": [edit.to_json() for edit in self.habitual_edits],
            "own_cost": self.own_cost,
            "bits": self.bits.total,
            "adequacy": adequacy_json(self.adequacy),
            "words": [use.to_json() for use in self.uses],
            "segments": [span.to_json() for span in self.spans],
            "unmatched": [span.to_json() for span in self.unmatched],
            "foreign": [span.to_json() for span in self.foreign],
        }

    @cached_property
    def uses(self) -> tuple[WordUse, ...]:
        """What the first one's words stand for in the second run; last, what has none."""
        return uses_of(self.second.sequence, self.under_first.dictionary, self.spans)


def compare_structure(first: Composition, second: Composition, *, seed: int = 0, level: float = _LEVEL) -> StructuralComparison:
    """Say how a second run differs in structure from a first.

    Parameters
    ----------
    first, second : Composition
        Of runs whose elements were classified alike: `structural_sequence(…, classes=first.sequence.classes)`.
    seed : int
        Of the draws for the bound.
    level : float
        Share of runs with the first's structure that are called inadequate, from 0 to 1.

    Raises
    ------
    ValueError
        The runs were classified differently, or the level is none.
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
    cost = float(_edits(decompose(second.sequence, words)).sum())
    draws = cost_of_another_run(decompose(first.sequence, words), len(second.sequence), seed=seed)
    bound = float(np.floor(np.quantile(draws, 1 - level, method="higher")))  # J is a whole number
    foreign = foreign_spans(second.sequence)
    had = sum(span.stop - span.first for span in foreign_spans(first.sequence))
    share = (sum(span.stop - span.first for span in foreign) - had) / max(1, second.sequence.elements)
    described = bool(words) and cost <= bound and share < _FOREIGN_SHARE
    if is_plain_sequence(first.sequence):
        described = share < _FOREIGN_SHARE and classes_in(first.sequence) == classes_in(second.sequence)
    return StructuralComparison(first, second, under_first, known, Adequacy(cost, bound, described, level, draws), foreign)


def _edits(found: Decomposition) -> NDArray[np.float64]:
    """Return the insertions and deletions of each segment, but for a first symbol that it shares with the segment before it: shape (segments,)."""
    edits = found.distances.astype(np.float64)
    codes, words = found.sequence.codes.tolist(), [word.tolist() for word in found.sequence.words]
    for number, (first, last) in enumerate(pairwise(found.cuts.tolist())):
        word = words[found.words[number]] if found.words[number] >= 0 else []
        if edits[number] and first and len(word) > 1 and codes[first - 1] == word[0]:
            edits[number] = min(edits[number], indel_distance(codes[first:last], word[1:]))
    return edits


def _edits_by_place(found: Decomposition) -> list[tuple[tuple[int, int, int, bool], int, int]]:
    """Return how many of a word's segments have which edit: word, its place, the symbol, whether it is missing; times; segments of the word."""
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


def cost_of_another_run(found: Decomposition, symbols: int, *, seed: int = 0, draws: int = _DRAWS) -> NDArray[np.float64]:
    """Return what further runs with a run's structure would cost under its words, J of (6), in order: shape (draws,).

    Parameters
    ----------
    found : Decomposition
        Of the run that the words are of.
    symbols : int
        Length of the further runs.

    Notes
    -----
    Segments are drawn with replacement from segments that were drawn with replacement: of a run with few segments is not known either what such runs
    cost on average. A word that only one or two segments support was made for them, and they cost nothing; what such a segment would cost
    without it, at the next best word or as so many symbols, is taken instead. One edit that was not seen is added to what was.
    """
    if not symbols or not len(found):
        return np.zeros(draws)
    if not found.dictionary:
        return np.full(draws, float(symbols))
    costs, lengths = _unflattered(found), found.lengths.astype(np.float64)
    costs, lengths = np.append(costs, costs.mean() + 1), np.append(lengths, lengths.mean())
    chance = np.random.default_rng(seed)
    drawn = np.empty(draws)
    for draw in range(draws):
        seen = chance.integers(0, len(costs), len(costs))
        wanted = int(2 * symbols / lengths[seen].mean()) + 16
        chosen = seen[chance.integers(0, len(seen), wanted)]
        while lengths[chosen].sum() < symbols:
            chosen = np.concatenate((chosen, seen[chance.integers(0, len(seen), wanted)]))
        ends = np.cumsum(lengths[chosen])
        stop = int(np.searchsorted(ends, symbols)) + 1
        drawn[draw] = costs[chosen[:stop]].sum() * symbols / ends[stop - 1]
    return np.sort(drawn)


def _unflattered(found: Decomposition) -> NDArray[np.float64]:
    """Return what each segment would cost under words that were not made for it: shape (segments,).

    A word is, symbol by symbol, what most of its m segments have; so each of them is nearer to it than a further one would be, by about
    (m + 1) / (m − 1), as the residuals of a mean of m are.
    """
    costs = _edits(found)
    support = np.bincount(found.words[found.words >= 0], minlength=len(found.dictionary))
    alone = np.flatnonzero((found.words >= 0) & (support[found.words] < _SUPPORTED))
    others = [word for word, times in zip(found.dictionary, support.tolist(), strict=True) if times >= _SUPPORTED]
    if len(alone):
        segments = [found.segments[number] for number in alone.tolist()]
        spelt = np.array([len(segment) for segment in segments], np.float64)
        nearest = indel_distances(segments, others).min(axis=1) if others else spelt
        costs[alone] = np.maximum(costs[alone], np.minimum(nearest, spelt))
    sharing = np.maximum(support[found.words], _SUPPORTED)
    return np.where(found.words >= 0, costs * (sharing + 1) / (sharing - 1), costs)
