"""False alarms of the comparison of two runs' phases."""

from __future__ import annotations

from tests.analysis.structure.planted import planted
from unperturbed.analysis.structure import (
    compare_structure,
    compose,
    decompose,
    structural_sequence,
)
from unperturbed.analysis.structure.sequence import StructuralSequence

CLASSES = {letter: number for number, letter in enumerate("abcdef")}


def _runs(seed: int, noise: float, size: int) -> tuple[StructuralSequence, StructuralSequence]:
    both, _ = planted(seed, noise, size=2 * size)
    first = structural_sequence(list(both[:size]), classes=CLASSES, name="one")
    return first, structural_sequence(list(both[size:]), classes=first.classes, name="other")


def test_the_same_structure_is_seldom_called_another() -> None:
    said = []
    for seed in range(10):
        one, other = _runs(seed, 0.05, 290)
        said.append(compare_structure(compose(one, adequate=1e9), compose(other, adequate=1e9), seed=seed))
    assert sum(not each.adequacy.is_adequate for each in said) <= 4, (
        "level .05: more than 4 of 30 would come by chance once in 70"
    )
    for each in said:
        assert each.adequacy.cost == decompose(each.second.sequence, each.first.dictionary.words).cost
        assert each.own_cost == each.second.dictionary.adequacy.cost
