"""Compile the loops of phases ahead of their first use."""

from __future__ import annotations

from unperturbed.harness.cli.warming import recurring_phases

_SEED = 1


def warm() -> None:
    """Compile classes of intervals, decompositions and the search for a dictionary."""
    from unperturbed.analysis.structure import compare_structure, compose, structural_sequence

    one, other = recurring_phases(_SEED)
    first = compose(structural_sequence(one, seed=_SEED), seed=_SEED)
    second = compose(structural_sequence(other, seed=_SEED, classes=first.sequence.classes), seed=_SEED)
    compare_structure(first, second, seed=_SEED)
