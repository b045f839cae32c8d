"""Phases as anchors: where two runs of one program begin the same word.

An alignment of two runs can be led through milestones (Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 5.3). Where a program
counts none, the beginnings of its phases are candidates.
"""

from __future__ import annotations

from rapidfuzz.distance import Indel

from unperturbed.analysis.structure.comparing import StructuralComparison

__all__ = ["phase_anchors"]


def phase_anchors(comparison: StructuralComparison, *, most_edits: int = 0) -> tuple[tuple[int, int], ...]:
    """Return intervals of two runs at which both begin the same word.

    Parameters
    ----------
    comparison : StructuralComparison
    most_edits : insertions and deletions
        Of a segment whose beginning is trusted.

    Returns
    -------
    tuple of (interval of the first run, interval of the second)
        In order from either side, as `anchored_dtw` takes them. The runs' sequences of words are matched with the fewest insertions and
        deletions; stretches without a word are no anchors.
    """
    first, second = comparison.first.spans, comparison.spans
    blocks = Indel.opcodes([span.word for span in first], [span.word for span in second])
    pairs = [
        (first[block.src_start + step], second[block.dest_start + step])
        for block in blocks
        if block.tag == "equal"
        for step in range(block.src_end - block.src_start)
    ]
    return tuple(
        (one.first, other.first) for one, other in pairs if one.word >= 0 and max(one.edits, other.edits) <= most_edits
    )
