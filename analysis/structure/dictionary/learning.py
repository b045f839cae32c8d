"""Learning of a sequence's dictionary, by description length or by the paper's method, and test of its adequacy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from unperturbed.analysis.structure.dictionary.adequacy import Adequacy, Bound, Null, judge_encoded
from unperturbed.analysis.structure.dictionary.candidates import LONGEST
from unperturbed.analysis.structure.dictionary.description_length import DescriptionLength, shortest_decomposition
from unperturbed.analysis.structure.dictionary.greedy import Cover, learn_words
from unperturbed.analysis.structure.dictionary.monotone import (
    POWERS,
    THETAS,
    Alternation,
    Round,
    alternate,
    starts,
)
from unperturbed.analysis.structure.segmentation import Decomposition
from unperturbed.analysis.structure.symbols import AnySequence, Word, encode
from unperturbed.common.result import Result
from unperturbed.common.table import Table
from unperturbed.common.wording import counted

if TYPE_CHECKING:
    import polars as pl

Method: TypeAlias = Literal["description_length", "monotone"]


@dataclass(frozen=True, eq=False, repr=False)
class Dictionary(Result):
    """Dictionary of words, learned from a sequence.

    Attributes
    ----------
    words : tuple of Word
        The words; empty if no word shortens the description.
    decomposition : Decomposition
        The sequence over these words, as encoded in `bits`.
    bits : DescriptionLength
        Description length of the sequence with these words.
    baseline_bits : float
        Bits of the sequence symbol by symbol, without words.
    method : str
        "description_length" or "monotone".
    adequacy : Adequacy
        Whether the words describe the sequence better than similar words describe a shuffled sequence.
    rounds : tuple of Round
        Intermediate dictionaries, in order. For a long sequence, the dictionaries of a sample come first, with the
        sample's bits.
    stopped : str
        Why the search ended.
    """

    words: tuple[Word, ...]
    decomposition: Decomposition
    bits: DescriptionLength
    baseline_bits: float
    method: str
    adequacy: Adequacy
    rounds: tuple[Round, ...]
    stopped: str

    @property
    def is_adequate(self) -> bool:
        """Whether the words describe the sequence, equation (9)."""
        return self.adequacy.is_adequate

    @property
    def saved_share(self) -> float:
        """Share of the bits that the words save; negative if they cost more than they save."""
        return 1 - self.bits.total / self.baseline_bits if self.baseline_bits else 0.0

    def headline(self) -> str:
        """Return one line with the number of words, the bits that they save, and the verdict."""
        if not self.words:
            return "No words: nothing in the sequence recurs more often than by chance."
        words = counted(len(self.words), "word describes", "words describe")
        verdict = "adequate" if self.is_adequate else "inadequate"
        return (
            f"{words} the sequence in {self.bits.total:,.0f} bits instead of {self.baseline_bits:,.0f}; the model is "
            f"{verdict}."
        )

    def tables(self) -> Sequence[Table]:
        """Return a table of the words: their numbers of segments, insertions and deletions."""
        return self.decomposition.tables()

    def to_frame(self) -> pl.DataFrame:
        """Return a data frame with one row for each segment of the decomposition."""
        return self.decomposition.to_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return words, segments, bits and adequacy as plain data, ready for JSON."""
        bits = {**vars(self.bits), "total": self.bits.total, "without_words": self.baseline_bits}
        return {
            "method": self.method,
            "bits": bits,
            "adequacy": self.adequacy.to_dict(),
            "decomposition": self.decomposition.to_dict(),
            "stopped": self.stopped,
        }


def learn_dictionary(
    sequence: AnySequence,
    *,
    method: Method = "description_length",
    adequate: Bound | None = None,
    longest: int = 32,
    null: Null | None = None,
    seed: int = 0,
) -> Dictionary:
    """Learn the words that recur in a sequence, decompose it, and test whether the words are adequate.

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
        Symbols are compared by value.
    method : {"description_length", "monotone"}, default "description_length"
        "description_length": words that give the sequence the shortest description. "monotone": the paper's alternation
        of kernel and decomposition, with the default options of `learn_monotone`.
    adequate : float or callable, optional
        a(L) of (9), in insertions and deletions; a function takes the sequence's length. By default, the bound is
        computed from shuffled sequences.
    longest : int, default 32
        Maximum number of symbols in a word, from 2 to 64.
    null : Null, optional
        Number of shuffled sequences, and level of the test.
    seed : int, default 0
        Seed of all random draws.

    Returns
    -------
    Dictionary
        The words. If no word shortens the description, there are none, and the model is not adequate.

    Raises
    ------
    DataError
        Symbols that cannot be compared.
    ValueError
        An unknown method, or `longest` out of its range.

    Notes
    -----
    By description length: the stretch that saves most bits becomes a word and is changed one symbol at a time while
    this saves more; then words that no longer save bits are dropped. These steps are repeated (`greedy`). Each step
    shortens the description, so there are no cycles; the result is a local minimum. Sequences of more than 5,000
    symbols are sampled first. Time grows with the sequence's length and with the square of the number of words.
    """
    if method not in ("description_length", "monotone"):
        raise ValueError(f'unknown method {method!r}: use "description_length" or "monotone"')
    if not 2 <= longest <= LONGEST:
        raise ValueError(f"`longest` is {longest}: use 2 to {LONGEST} symbols")
    chosen = null or Null(seed=seed)
    if method == "monotone":
        return learn_monotone(
            sequence, lambda candidate: judge_encoded(candidate.sequence, adequate, chosen), longest=longest, seed=seed
        )
    encoded = encode(sequence)
    rounds: list[Round] = []

    def observe(cover: Cover) -> None:
        rounds.append(Round(cover.decomposition.dictionary, cover.total, float(cover.decomposition.edits)))

    cover = learn_words(encoded, longest=longest, seed=seed, observe=observe)
    decomposition = cover.decomposition
    return Dictionary(
        words=decomposition.dictionary,
        decomposition=decomposition,
        bits=cover.bits,
        baseline_bits=shortest_decomposition(encoded)[1].total,
        method=method,
        adequacy=judge_encoded(decomposition.sequence, adequate, chosen),
        rounds=tuple(rounds),
        stopped="no added, dropped or changed word shortens the description",
    )


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
    """Learn words by the paper's method (`monotone`), from one start after another until the words are adequate.

    Parameters
    ----------
    sequence : str, iterable of hashable, array of shape (n,) or StructuralSequence
        Symbols are compared by value.
    judge : callable
        Function from a decomposition to its adequacy, (9).
    words : iterable of str, iterable of hashable, array of shape (length,) or StructuralSequence, optional
        A starting vocabulary, tried before all other starts.
    powers : sequence of float
        Values of the kernel's p, each tried from each start.
    thetas : sequence of float
        Values of θ for `first_decomposition`, each of which gives one start.
    random_starts : int, default 3
        Number of starts by random cuts, tried last.
    longest : int, default 32
        Maximum number of symbols in a word.
    most_rounds : int, default 30
        Maximum number of rounds in one alternation.
    literal : bool, default False
        Whether equal segments enter the kernel separately, which the paper leaves open. A frequent phase then has a
        small sum of distances and is removed first.
    seed : int, default 0
        Seed of the random cuts.

    Returns
    -------
    Dictionary
        The shortest description from the first start with an adequate model, or from all starts if there is none. It
        has no words if no word shortens the description.

    Raises
    ------
    DataError
        An empty word, symbols that cannot be compared, or more than 5,000 different segments.
    ValueError
        No start, no power, fewer than 1 round or symbol, or a power or θ out of range.

    Notes
    -----
    The method is for sequences of some hundreds or thousands of symbols, as in the paper: a round computes all
    distances between d segments, O(d²), and a decomposition over all words in the kernel.
    """
    encoded = encode(sequence)
    best: tuple[Alternation, Adequacy] | None = None
    limits: dict[str, Any] = {"longest": longest, "most_rounds": most_rounds, "literal": literal}
    for start in starts(encoded, words=words, thetas=thetas, random_starts=random_starts, longest=longest, seed=seed):
        if not len(powers):
            raise ValueError("`powers` is empty: give one or more powers")
        alternation = min(
            (alternate(encoded, start, power, **limits) for power in powers), key=lambda candidate: candidate.bits.total
        )
        adequacy = judge(alternation.decomposition)
        if best is None or adequacy.is_adequate or alternation.bits.total < best[0].bits.total:
            best = alternation, adequacy
        if adequacy.is_adequate or not len(encoded.codes):
            break
    if best is None:
        raise ValueError("there is no starting point: give `words`, `thetas` or `random_starts`")
    alternation, adequacy = best
    return Dictionary(
        words=alternation.decomposition.dictionary,
        decomposition=alternation.decomposition,
        bits=alternation.bits,
        baseline_bits=shortest_decomposition(encoded)[1].total,
        method="monotone",
        adequacy=adequacy,
        rounds=alternation.rounds,
        stopped=alternation.stopped,
    )
