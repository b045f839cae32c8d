"""Words by the paper's own method: kernel of the segments, decomposition over the kernel's words, and so on in turn.

"Structural analysis of measurement paths", sections 2 and 3. No quantity is made smaller by both steps: the kernel is the exact solution of (3), the
decomposition that of (7), and what one gains the other may lose. So every dictionary on the way is scored by its description length and the
shortest one is kept; dictionaries that have been seen before are recognised, since the alternation may go round in a cycle.

What the paper leaves open: its kernel takes one power p, here several are tried. It ends when the dictionary does not change, here also in a cycle
or after so many rounds. "With a new starting vocabulary" it runs again where the model is inadequate: here by other thresholds of the window
that makes the first decomposition, then by random cuts. And segments of twice the longest word become words, so that words may double until two of
them spell out the whole sequence, with J = 0: here they have a greatest length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.adequacy import Adequacy
from unperturbed.analysis.structure.decomposition import Decomposition, cut, decompose
from unperturbed.analysis.structure.description_length import DescriptionLength, shortest_decomposition, told
from unperturbed.analysis.structure.dictionary import Dictionary, Round
from unperturbed.analysis.structure.distances import indel_distances
from unperturbed.analysis.structure.encoding import AnySequence, Encoded, encode
from unperturbed.analysis.structure.kernel import kernel
from unperturbed.analysis.structure.symbol_code import SymbolCode
from unperturbed.analysis.structure.windows import first_decomposition
from unperturbed.errors import DataError

__all__ = ["POWERS", "THETAS", "Alternation", "Start", "alternate", "best_alternation", "learn_monotone", "starts"]

POWERS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
"""1 keeps nearly every segment as a word and 16 nearly none; beyond, nothing changes."""
THETAS = (0.3, 0.15, 0.5)

_SHORTEST, _LONGEST = 3, 12
"""Symbols between random cuts."""
_MOST_SEGMENTS = 5000
"""Different ones whose pairs are compared: 200 MB for each matrix of them."""

_Codes: TypeAlias = tuple[int, ...]
_Told: TypeAlias = tuple[Decomposition, DescriptionLength]


@dataclass(frozen=True, eq=False)
class Start:
    """Where an alternation starts from: a first decomposition.

    Attributes
    ----------
    name : str
    cuts : int64, shape (segments + 1,)
    """

    name: str
    cuts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Alternation:
    """One run of kernel and decomposition in turn.

    Attributes
    ----------
    start : Start
    power : float
        p of the kernel.
    decomposition : Decomposition
        What is told in the fewest bits over words of the best round; without those that no segment stands for, and without any where that is shorter.
    bits : DescriptionLength
        Of this decomposition.
    rounds : tuple of Round
        Each with the words that its decomposition (7) has segments for, the bits of that decomposition, and its J.
    stopped : str
        "fixed point", "cycle of n rounds" or "limit of n rounds".
    """

    start: Start
    power: float
    decomposition: Decomposition
    bits: DescriptionLength
    rounds: tuple[Round, ...]
    stopped: str


def learn_monotone(
    sequence: AnySequence,
    judge: Callable[[Decomposition], Adequacy],
    *,
    words: Iterable[AnySequence] = (),
    powers: Sequence[float] = POWERS,
    thetas: Sequence[float] = THETAS,
    random_starts: int = 3,
    longest: int = 32,
    most_rounds: int = 30,
    literal: bool = False,
    seed: int = 0,
) -> Dictionary:
    """Learn words by the paper's method, from one start after another until a model is adequate.

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
    judge : Decomposition → Adequacy
        Tells whether a model is adequate, (9).
    words : iterable of the same, optional
        A starting vocabulary, tried before all other starts.
    powers : float
        p of the kernel, each tried from each start.
    thetas : ratio
        θ of `first_decomposition`, one start each.
    random_starts : int
        Starts by random cuts, after these.
    longest : symbols
        Of a word.
    most_rounds : int
        Of one alternation.
    literal : bool
        Whether equal segments take part in the kernel each by itself. The paper does not say; a frequent phase then has a small sum of distances
        and is the first to be taken away.
    seed : int
        Of the random cuts.

    Returns
    -------
    Dictionary
        Of the first start with an adequate model, or of all if there is none, what is told in the fewest bits. Without words where none makes the
        description shorter.

    Raises
    ------
    DataError
        An empty word, symbols that cannot be compared, or more than 5,000 different segments.
    ValueError
        No start, no power, less than 1 round or symbol, or a power or θ out of range.

    Notes
    -----
    For sequences of some hundred or thousand symbols, as the paper says: a round takes all distances of d segments, O(d²), and a
    decomposition over as many words as the kernel keeps.
    """
    encoded = encode(sequence)
    best: tuple[Alternation, Adequacy] | None = None
    for start in starts(encoded, words=words, thetas=thetas, random_starts=random_starts, longest=longest, seed=seed):
        found = best_alternation(encoded, start, powers=powers, longest=longest, most_rounds=most_rounds, literal=literal)
        adequacy = judge(found.decomposition)
        if best is None or adequacy.is_adequate or found.bits.total < best[0].bits.total:
            best = found, adequacy
        if adequacy.is_adequate or not len(encoded.codes):
            break
    if best is None:
        raise ValueError("there is nothing to start from; give words, thetas or random_starts")
    found, adequacy = best
    spelt_out = shortest_decomposition(encoded)[1].total
    stopped = f"{found.stopped}, power {found.power:g}, start: {found.start.name}"
    dictionary = found.decomposition.dictionary
    return Dictionary(dictionary, found.decomposition, found.bits, spelt_out, "monotone", adequacy, found.rounds, stopped)


def starts(
    encoded: Encoded,
    *,
    words: Iterable[AnySequence] = (),
    thetas: Sequence[float] = THETAS,
    random_starts: int = 3,
    longest: int = 32,
    seed: int = 0,
) -> Iterator[Start]:
    """Yield first decompositions: over given words if there are any, by the window at each θ, then by random cuts."""
    given = list(words)
    if given:
        found = decompose(encoded.decode(encoded.codes), given)
        yield Start("given words", _not_above(found.cuts, longest))
    for theta in thetas:
        yield Start(f"window, θ = {theta:g}", _not_above(first_decomposition(encoded.codes, theta=theta), longest))
    for number in range(random_starts):
        lengths = np.random.default_rng([seed, number]).integers(_SHORTEST, _LONGEST + 1, len(encoded.codes) // _SHORTEST + 1)
        ends = np.cumsum(lengths)
        inner = ends[ends < len(encoded.codes)]
        last = [len(encoded.codes)] if len(encoded.codes) else []
        cuts = np.concatenate(([0], inner, last)).astype(np.int64)
        yield Start(f"random cuts {number + 1}", _not_above(cuts, longest))


def best_alternation(
    encoded: Encoded,
    start: Start,
    *,
    powers: Sequence[float] = POWERS,
    longest: int = 32,
    most_rounds: int = 30,
    literal: bool = False,
) -> Alternation:
    """Return the alternation whose words are told in the fewest bits, of one for each power."""
    if not len(powers):
        raise ValueError("there are no powers; give one or more")
    found = [alternate(encoded, start, power, longest=longest, most_rounds=most_rounds, literal=literal) for power in powers]
    return min(found, key=lambda one: one.bits.total)


def alternate(
    encoded: Encoded, start: Start, power: float, *, longest: int = 32, most_rounds: int = 30, literal: bool = False
) -> Alternation:
    """Make kernels and decompositions in turn until the dictionary is one that has been seen (section 3).

    A dictionary is a set, so that each follows from the one before it alone, and one that comes back goes on as it did.
    """
    if most_rounds < 1:
        raise ValueError(f"most_rounds is {most_rounds}; make 1 round or more")
    if longest < 1:
        raise ValueError(f"longest is {longest}; a word has 1 symbol or more")
    code = SymbolCode.of(encoded)
    segments, seen, rounds = _segments(encoded, start.cuts), dict[tuple[_Codes, ...], int](), list[Round]()
    best: _Told | None = None
    stopped = f"limit of {most_rounds} rounds"
    while len(rounds) < most_rounds:
        words = _kernel_words(segments, power, literal=literal)
        if words in seen:
            length = len(rounds) - seen[words]
            stopped = "fixed point" if length == 1 else f"cycle of {length} rounds"
            break
        seen[words] = len(rounds)
        found = _over(encoded, words, longest)
        bits = told(found, code)
        rounds.append(Round(found.dictionary, bits.total, found.cost))
        if best is None or bits.total < best[1].total:
            best = found, bits
        segments = _segments(encoded, found.cuts)
    assert best is not None
    return Alternation(start, power, *_shortest(best[0], code), tuple(rounds), stopped)


def _segments(encoded: Encoded, cuts: NDArray[np.int64]) -> list[_Codes]:
    codes = encoded.codes.tolist()
    return [tuple(codes[first:last]) for first, last in pairwise(cuts.tolist())]


def _kernel_words(segments: list[_Codes], power: float, *, literal: bool) -> tuple[_Codes, ...]:
    """Return the kernel's segments, each once and in order of their symbols."""
    taking_part = segments if literal else list(dict.fromkeys(segments))
    if len(taking_part) > _MOST_SEGMENTS:
        raise DataError(
            f"the kernel compares all pairs of segments, and there are {len(taking_part):,} different ones, more than {_MOST_SEGMENTS:,}; "
            f"use the method by description length, or a shorter sequence"
        )
    members = kernel(indel_distances(taking_part), power).members
    return tuple(sorted({taking_part[member] for member in members.tolist()}))


def _not_above(cuts: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """Return cuts with more of them where segments are too long."""
    parts = [np.arange(first, last, max(longest, 1)) for first, last in pairwise(cuts.tolist())]
    return np.concatenate([*parts, cuts[-1:]])


def _over(encoded: Encoded, words: tuple[_Codes, ...], longest: int) -> Decomposition:
    """Return the decomposition of (7), of the words those that segments stand for."""
    known = replace(encoded, words=tuple(np.array(word, np.int32) for word in words))
    greatest = min(longest, 2 * max(map(len, words), default=1))
    return _with_used_words(cut(known, greatest, np.zeros(len(words)), 1.0, np.inf, np.zeros(len(encoded.codes))))


def _with_used_words(found: Decomposition) -> Decomposition:
    """Return the same decomposition without the words that no segment stands for."""
    used = np.unique(found.words[found.words >= 0])
    numbers = np.where(found.words < 0, -1, np.searchsorted(used, found.words)).astype(np.int64)
    kept = replace(found.sequence, words=tuple(found.sequence.words[word] for word in used.tolist()))
    return replace(found, words=numbers, dictionary=tuple(found.dictionary[word] for word in used.tolist()), sequence=kept)


def _shortest(found: Decomposition, code: SymbolCode) -> _Told:
    """Return what is told in the fewest bits over words of a decomposition, or without any."""
    spelt_out = shortest_decomposition(replace(found.sequence, words=()), code=code)
    best = found, told(found, code)
    while True:
        other, _ = shortest_decomposition(best[0].sequence, code=code)
        pruned = _with_used_words(other)
        bits = told(pruned, code)
        if bits.total >= best[1].total:
            return best if best[1].total < spelt_out[1].total else spelt_out
        best = pruned, bits
