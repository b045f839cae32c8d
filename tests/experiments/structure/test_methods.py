"""The paper's method beside the default: what the page says can be computed again from what is kept."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from experiments.common.evaluation import EVIDENCE
from experiments.structure import methods
from experiments.structure.accesses import lengths_of_files, read_path
from unperturbed.analysis.structure import description_length, indel_distances, kernel, structural_sequence


def test_the_page_has_the_words_of_the_kept_path() -> None:
    path = read_path()
    sequence = structural_sequence(path.pages, element="access")
    page = (EVIDENCE / "structure_methods.md").read_text(encoding="utf-8")
    for table in (methods.access_table(path, sequence), methods.access_scores(sequence)):
        assert "\n".join(table) in page


@pytest.mark.parametrize("method", methods.METHODS)
def test_a_word_of_the_kept_path_recurs_with_the_large_files(method: str) -> None:
    path = read_path()
    sequence = structural_sequence(path.pages, element="access")
    decomposition = methods.learn(sequence, method)[0].decomposition
    longest = int(np.argmax([len(word) for word in decomposition.dictionary]))
    begins = sequence.starts[decomposition.cuts[:-1][decomposition.words == longest]]
    # The last file's end is the program's, where the path differs.
    assert lengths_of_files().count(14_000) - len(begins) in (0, 1)
    assert len(Counter(path.stages[place] for place in begins)) == 1


def test_the_kernel_keeps_further_copies_of_a_cluster() -> None:
    # Eq. (2) sums over the members: the first copies alone weigh less than all, whatever the power.
    copies = [word + end for word in methods.APART for end in ("y", "z", "yz")]
    distances = indel_distances(copies)
    for exponent in (1, 4, 8):
        chosen = kernel(distances, exponent)
        singles = kernel(distances[::3, ::3], exponent)
        assert chosen.value > singles.value
        assert len(chosen.members) > len(methods.APART)


def test_an_alternation_is_told_as_it_ended() -> None:
    sequence, motifs = methods.sequence_of(1, 0.05)
    ended = methods.alternation(sequence, 8)
    assert 0 < ended.kept < 1
    assert ended.pruned <= ended.bits
    assert ended.stopped == "fixed point" or ended.stopped.startswith(("cycle", "limit"))
    assert len(methods.alternation_table([sequence], [description_length(sequence, motifs).total])) == 2 + len(
        methods.POWERS
    )


def test_motifs_far_apart_have_no_common_symbol() -> None:
    assert len(set("".join(methods.APART))) == sum(map(len, methods.APART))
