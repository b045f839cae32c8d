"""Motifs that were planted into a sequence are found again."""

from functools import cache

import pytest

from tests.analysis.structure.planted import planted
from unperturbed.analysis.structure.dictionary.description_length import description_length
from unperturbed.analysis.structure.dictionary.learning import learn_dictionary

SEEDS = range(5)


@cache
def learnt(seed, noise):
    return learn_dictionary(planted(seed, noise)[0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("noise", [0, 0.05, 0.15])
def test_planted_motifs_are_recovered(seed, noise):
    sequence, motifs = planted(seed, noise)
    found = learnt(seed, noise)
    assert found.bits.total <= 1.1 * description_length(sequence, motifs).total
    assert found.bits.total < found.baseline_bits
    assert found.is_adequate
    if noise == 0:
        assert sorted(found.words) == sorted(motifs)
