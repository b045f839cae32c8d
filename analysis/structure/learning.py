"""Words learnt of a sequence, by either method, and whether they describe it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from unperturbed.analysis.structure.adequacy import Bound, Null, judged
from unperturbed.analysis.structure.description_length import shortest_decomposition
from unperturbed.analysis.structure.dictionary import Dictionary, Round
from unperturbed.analysis.structure.encoding import AnySequence, Encoded, encode
from unperturbed.analysis.structure.greedy import Cover, learn_words
from unperturbed.analysis.structure.lanes import LONGEST
from unperturbed.analysis.structure.monotone import learn_monotone

__all__ = ["Bound", "Method", "learn_dictionary"]

Method: TypeAlias = Literal["description_length", "monotone"]


def learn_dictionary(
    sequence: AnySequence,
    *,
    method: Method = "description_length",
    adequate: Bound | None = None,
    longest: int = 32,
    null: Null | None = None,
    seed: int = 0,
) -> Dictionary:
    """Find words that a sequence is made of, with its decomposition, and tell whether they are adequate.

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
    method : str
        "description_length": words that tell the sequence in the fewest bits. "monotone": the paper's alternation of kernel and decomposition,
        with the options that `learn_monotone` has by default.
    adequate : float or function of the sequence's length, optional
        a(L) of (9), in insertions and deletions. By default from shuffled sequences.
    longest : symbols
        Of a word, from 2 to 64.
    null : Null, optional
        How many shuffled sequences there are, and at which level.
    seed : int
        Of all that is drawn at random.

    Returns
    -------
    Dictionary
        Without words where none makes the description shorter: then there is no model, and it is not adequate.

    Raises
    ------
    DataError
        Symbols that cannot be compared.
    ValueError
        An unknown method, or `longest` out of its range.

    Notes
    -----
    By description length: the stretch that saves most bits becomes a word, is changed by a symbol at a time while that saves more, and words that
    save nothing any more are dropped, again and again (`greedy`). Every step makes the description shorter, so that there is no cycle; the end is
    a local minimum. Sequences of more than 5,000 symbols are sampled first. Time grows with the sequence's length and with the square of the
    number of words.
    """
    if method not in ("description_length", "monotone"):
        raise ValueError(f'there is no method {method!r}; choose "description_length" or "monotone"')
    if not 2 <= longest <= LONGEST:
        raise ValueError(f"longest is {longest}; words have 2 to {LONGEST} symbols at most")
    chosen = null or Null(seed=seed)
    if method == "monotone":
        return learn_monotone(sequence, lambda found: judged(found.sequence, adequate, chosen), longest=longest, seed=seed)
    encoded = encode(sequence)
    rounds: list[Round] = []
    cover = learn_words(encoded, longest=longest, seed=seed, heard=lambda one: rounds.append(_round(encoded, one)))
    found = cover.decomposition
    return Dictionary(
        words=found.dictionary,
        decomposition=found,
        bits=cover.bits,
        baseline_bits=shortest_decomposition(encoded)[1].total,
        method=method,
        adequacy=judged(found.sequence, adequate, chosen),
        rounds=tuple(rounds),
        stopped="no word more, less or other makes the description shorter",
    )


def _round(encoded: Encoded, cover: Cover) -> Round:
    words = tuple(encoded.decode(np.array(word, np.int32)) for word in cover.words)
    return Round(words, cover.total, float(cover.decomposition.edits))
