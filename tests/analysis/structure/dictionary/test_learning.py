import json
import random
from functools import cache

import numpy as np
import pytest

from tests.analysis.structure.planted import collapsed, planted, structureless
from unperturbed.analysis.structure.dictionary import greedy
from unperturbed.analysis.structure.dictionary.adequacy import Null
from unperturbed.analysis.structure.dictionary.description_length import description_length
from unperturbed.analysis.structure.dictionary.learning import learn_dictionary
from unperturbed.analysis.structure.segmentation import decompose
from unperturbed.errors import DataError

SEEDS = range(5)


@cache
def learnt(seed, noise):
    return learn_dictionary(planted(seed, noise)[0])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("weights", [(1, 1, 1, 1, 1), (8, 4, 2, 1, 1), (1, 1, 1)])
@pytest.mark.thorough
def test_a_sequence_without_structure_has_no_words(seed, weights):
    found = learn_dictionary(structureless(seed, weights=weights))
    assert found.words == ()
    assert not found.is_adequate
    assert found.bits.total == found.baseline_bits
    assert found.saved_share == 0
    assert found.decomposition.words.tolist() == [-1]
    assert found.adequacy.cost == 290


def test_what_is_returned_fits_together():
    sequence, _ = planted(1, 0.15)
    found = learnt(1, 0.15)
    assert "".join(found.decomposition.segments) == sequence
    assert found.decomposition.dictionary == found.words
    assert description_length(sequence, found.decomposition) == found.bits
    assert found.baseline_bits == description_length(sequence, []).total
    assert found.adequacy.cost == decompose(sequence, found.words).cost
    assert len(found.adequacy.null_costs) == 19
    assert found.method == "description_length"
    assert found.stopped
    totals = [one.bits for one in found.rounds]
    assert totals == sorted(totals, reverse=True)
    assert totals[-1] >= found.bits.total
    assert found.rounds[-1].words == found.words


@pytest.mark.thorough
def test_the_same_seed_finds_the_same():
    sequence, _ = planted(2, 0.15, size=150)
    one, other = learn_dictionary(sequence, seed=5), learn_dictionary(sequence, seed=5)
    assert one.words == other.words
    assert one.adequacy.null_costs.tolist() == other.adequacy.null_costs.tolist()


def test_words_are_given_back_as_the_sequence_came():
    text, motifs = planted(3, 0)
    numbers = [ord(symbol) for symbol in text]
    found = learn_dictionary(np.array(numbers))
    assert sorted(found.words) == sorted(tuple(map(ord, motif)) for motif in motifs)


def test_equal_neighbours_are_taken_as_they_are():
    rng = random.Random(4)
    words = ["aabba", "ccab", "bccca"]
    found = learn_dictionary("".join(rng.choices(words, k=80)))
    assert sorted(found.words) == sorted(words)


def test_a_stretch_of_its_own_is_left_without_a_word():
    phases, motifs = planted(5, 0, size=400)
    start = structureless(6, size=60)
    found = learn_dictionary(collapsed(start + phases))
    first = found.decomposition
    assert set(motifs) <= set(found.words)
    outside = int(first.lengths[first.words < 0].sum())
    assert 40 < outside < 80
    assert first.words[0] == -1


def test_a_period_is_one_word_however_often_it_comes():
    found = learn_dictionary("abcbd" * 60, longest=32)
    assert found.bits.total <= description_length("abcbd" * 60, ["abcbd"]).total
    assert found.is_adequate


@pytest.mark.parametrize("sequence", ["", "a", "ab", "aaaaaaaaaa", "abababababab", "abcabc"])
def test_small_sequences(sequence):
    found = learn_dictionary(sequence)
    assert found.bits.total <= found.baseline_bits
    assert "".join(found.decomposition.segments) == sequence
    assert found.adequacy.cost == decompose(sequence, found.words).cost
    assert found.is_adequate <= bool(found.words)


@pytest.mark.thorough
def test_long_sequences_are_sampled_and_then_searched_as_a_whole(monkeypatch):
    monkeypatch.setattr(greedy, "_WHOLE", 1500)
    monkeypatch.setattr(greedy, "_SAMPLE", 750)
    sequence, motifs = planted(7, 0.02, size=1800)
    late, other = planted(8, 0.02, size=300, motifs=2, lengths=(9, 9))
    # The last phase is beyond all but one block of the sample.
    found = learn_dictionary(collapsed(sequence + late), null=Null(relearn=False))
    assert set(motifs) | set(other) <= set(found.words)
    assert found.rounds[0].bits < found.rounds[-1].bits  # of the sample, and of all


def test_longest_bounds_words():
    sequence, _ = planted(9, 0)
    assert max(map(len, learnt_words(sequence, 32))) > 7
    assert {len(word) <= 7 for word in learnt_words(sequence, 7)} == {True}


def learnt_words(sequence, longest):
    return learn_dictionary(sequence, longest=longest, adequate=0.0).words


@pytest.mark.parametrize(
    ("bound", "expected"),
    [(300.0, True), (0.0, False), (lambda length: length / 2, True), (lambda length: length / 100, False)],
)
def test_a_bound_that_is_given(bound, expected):
    sequence, _ = planted(1, 0.15, size=150)
    found = learn_dictionary(sequence, adequate=bound)
    assert found.is_adequate is expected
    assert found.adequacy.bound == (bound(len(sequence)) if callable(bound) else bound)
    assert len(found.adequacy.null_costs) == 0


def test_the_paper_s_method_is_a_choice():
    sequence, _ = planted(1, 0)
    found = learn_dictionary(sequence, method="monotone")
    assert found.method == "monotone"
    assert found.words
    assert found.adequacy.cost == decompose(sequence, found.words).cost
    assert found.bits.total >= learnt(1, 0).bits.total
    short = learn_dictionary(sequence, method="monotone", longest=4)
    assert max(map(len, short.words)) <= 4 < max(map(len, found.words))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, 'unknown method \'magic\': use "description_length" or "monotone"'),
        ({"longest": 1}, "`longest` is 1: use 2 to 64 symbols"),
        ({"longest": 65}, "`longest` is 65"),
        ({"adequate": float("nan")}, "bound for a sequence of 6 symbols is NaN"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        learn_dictionary("abcabc", **options)


def test_symbols_that_cannot_be_compared_are_refused():
    with pytest.raises(DataError, match="symbol 1 of the sequence is NaN"):
        learn_dictionary([1.0, float("nan")])


def test_a_dictionary_and_its_decomposition_are_text_tables_frames_and_pages(tmp_path):
    found = learn_dictionary("abcde" * 20 + "xy" + "abcde" * 5, adequate=100)
    assert repr(found).startswith("<Dictionary: 1 word describes the sequence in ")
    assert repr(found.decomposition).startswith("<Decomposition: ")
    assert "abcde" in found.summary()
    frame = found.to_frame()
    assert frame["stop"].to_list()[-1] == 127
    assert frame["edits"].sum() == found.decomposition.edits
    assert "abcde" in found.write_html(tmp_path / "words.html").read_text()
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["decomposition"]["dictionary"] == ["abcde"]
    assert len(plain["decomposition"]["segments"]) == len(found.decomposition)
    assert learn_dictionary("ab").headline() == "No words: nothing in the sequence recurs more often than by chance."
