import random
from itertools import groupby, pairwise
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.structure.dictionary.coder import Decoder, Encoder, transmit
from unperturbed.analysis.structure.dictionary.description_length import (
    SymbolCode,
    description_length,
    shortest_decomposition,
)
from unperturbed.analysis.structure.segmentation import decompose
from unperturbed.analysis.structure.symbols import encode

PRICES = st.integers(1, 20).map(lambda quarters: quarters / 4)
LETTERS = st.text("abcd", max_size=40)
WORDS = st.lists(st.text("abcde", min_size=1, max_size=9), max_size=4)


def collapsed(text):
    return "".join(symbol for symbol, _ in groupby(text))


def transmitted(found):
    """Encode a decomposition, decode it, and return the bits that its choices have, and how many were sent."""
    encoded, code = found.sequence, SymbolCode.of(found.sequence)
    known = (len(encoded.codes), code.weights.tolist(), code.is_collapsed)
    words = [word.tolist() for word in encoded.words]
    parts = np.split(encoded.codes, found.cuts[1:-1])
    units = [(word, part.tolist()) for word, part in zip(found.words.tolist(), parts, strict=True)]
    encoder = Encoder()
    transmit(encoder, *known, words, units)
    message = encoder.message()
    heard_words, heard = transmit(Decoder(message), *known)
    assert heard_words == words
    assert heard == encoded.codes.tolist()
    return encoder.bits, len(message)


@given(LETTERS.filter(bool), WORDS, st.booleans(), st.none() | PRICES, st.sampled_from([0.5, 1, 3]))
@settings(max_examples=60)
def test_a_decoder_gets_the_sequence_back_from_as_many_bits(text, words, without_equals, stretch, edit):
    sequence = collapsed(text) if without_equals else text
    if len(set(sequence) | set("".join(words))) < 2:
        return  # nothing to tell: a single symbol has no alternative
    found = decompose(sequence, words, stretch_price=stretch, symbol_prices=0.75, edit_price=edit)
    bits, sent = transmitted(found)
    assert description_length(sequence, found).total == pytest.approx(bits, abs=1e-6)
    assert sent <= bits + 2


@given(LETTERS, WORDS, st.booleans())
@settings(max_examples=60)
def test_the_shortest_decomposition_is_no_longer_than_the_paper_s(text, words, without_equals):
    sequence = collapsed(text) if without_equals else text
    bits = description_length(sequence, words)
    found, of_found = shortest_decomposition(encode(sequence, words))
    assert bits == of_found == description_length(sequence, found)
    assert bits.total <= description_length(sequence, decompose(sequence, words)).total
    assert min(bits.dictionary, bits.indices, bits.edits, bits.stretches) >= 0


def test_by_hand():
    """abcabcabcabx: neighbours differ; a, b, c, x are 4, 4, 3 and 1 of 12."""
    sequence, words = "abcabcabcabx", ["abc"]
    weights = SymbolCode.of(encode(sequence)).weights
    shares = weights * (1 - weights)
    assert shares / shares.sum() == pytest.approx(np.array([4, 4, 3, 1]) / 12)
    a, b, c, _ = weights
    bits = description_length(sequence, decompose(sequence, words))
    # γ(2) and γ(3) are 3 bits each, and one tells that words have no equal neighbours.
    assert bits.dictionary == pytest.approx(3 + 1 + 3 - log2(a * b / (1 - a) * c / (1 - b)))
    # Four segments with the word, of two possibilities, word or stretch.
    assert bits.indices == pytest.approx(-log2(1 / 2 * 3 / 4 * 5 / 6 * 7 / 8))
    # Of 12 symbols one is left out, of 17 places one has an insertion, of one of three symbols.
    assert bits.edits == pytest.approx(adaptive(1, 11) + adaptive(1, 16) + log2(3))
    assert bits.stretches == 0
    spelt = description_length(sequence, [])
    assert (spelt.dictionary, spelt.indices, spelt.edits) == (1, 0, 0)
    before = {"a": 1 - a, "b": 1 - b, "c": 1 - c}
    by_letter = dict(zip("abcx", weights, strict=True))
    assert spelt.stretches == pytest.approx(
        -log2(a) - sum(log2(by_letter[y] / before[x]) for x, y in pairwise(sequence))
    )


def adaptive(yes, no):
    """Krichevsky and Trofimov's bits, choice by choice."""
    counts, bits = [0.5, 0.5], 0.0
    for choice in [0] * yes + [1] * no:
        bits -= log2(counts[choice] / sum(counts))
        counts[choice] += 1
    return bits


def test_words_pay_where_they_recur_and_only_there():
    rng = random.Random(1)
    random_text = collapsed("".join(rng.choices("abcde", k=300)))
    words = ["abcbd", "edaceb"]
    recurring = collapsed("".join(rng.choices(words, k=50)))
    assert description_length(recurring, words).total < 0.5 * description_length(recurring, []).total
    assert description_length(random_text, words).total > description_length(random_text, []).total


def test_a_stretch_that_words_do_not_describe_is_spelt_out():
    words, start = ["abcab"], "dedfdgefegdfegdedgfgedgfdefgdefgefde"
    found, bits = shortest_decomposition(encode(start + "abcab" * 30, words))
    assert found.words.tolist() == [-1] + [0] * 30
    assert found.cuts[1] == len(start)
    assert bits.edits < 15  # two choices that never went the other way
    assert bits.stretches > 2 * len(start)


@pytest.mark.parametrize("sequence", ["", "a", "aaaa", "abab", "abaca"])
@pytest.mark.parametrize("words", [[], ["a"], ["ab"], ["aa", "xyz"]])
def test_small_sequences_have_a_length(sequence, words):
    bits = description_length(sequence, words)
    assert np.isfinite(bits.total)
    assert bits.total == pytest.approx(sum((bits.dictionary, bits.indices, bits.edits, bits.stretches)))


def test_a_collapsed_sequence_of_two_symbols_says_nothing():
    assert description_length("ab" * 100, []).stretches == 1  # which of them is first


def test_every_second_symbol_the_same():
    weights = SymbolCode.of(encode("abacadabac")).weights
    assert weights.sum() == pytest.approx(1)
    assert (weights > 0).all()
    assert description_length("abacad" * 20, []).total == pytest.approx(60 * log2(3), rel=0.02)


def test_a_decomposition_of_another_sequence_is_refused():
    with pytest.raises(ValueError, match="`model` is a decomposition of a different sequence: decompose `sequence`"):
        description_length("abab", decompose("abc", ["ab"]))
