"""What is learnt of a sequence: its words, the segments they stand for, and how good they are."""

from __future__ import annotations

from dataclasses import dataclass

from unperturbed.analysis.structure.adequacy import Adequacy
from unperturbed.analysis.structure.decomposition import Decomposition
from unperturbed.analysis.structure.description_length import DescriptionLength
from unperturbed.analysis.structure.encoding import Word

__all__ = ["Dictionary", "Round"]


@dataclass(frozen=True)
class Round:
    """A dictionary on the way to the one that was learnt.

    Attributes
    ----------
    words : tuple of Word
    bits : float
        Its description length in all.
    cost : float
        J of the paper's (6): insertions and deletions of the decomposition that these bits are of.
    """

    words: tuple[Word, ...]
    bits: float
    cost: float


@dataclass(frozen=True, eq=False)
class Dictionary:
    """A dictionary of words, learnt of a sequence.

    Attributes
    ----------
    words : tuple of Word
        None where no word makes the sequence shorter to tell.
    decomposition : Decomposition
        The sequence over these words, as it is told in these bits.
    bits : DescriptionLength
    baseline_bits : float
        Of the sequence spelt out, without any words.
    method : str
        "description_length" or "monotone".
    adequacy : Adequacy
        Whether the words describe the sequence better than such words describe a shuffled one.
    rounds : tuple of Round
        What was gone through, in order. Those of a sample, for a long sequence, come first and have its bits.
    stopped : str
        Why no further round was made.
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
        """Equation (9)."""
        return self.adequacy.is_adequate

    @property
    def saved_share(self) -> float:
        """Share of the bits that the words save, from 0 on; below 0 where they cost more than they save."""
        return 1 - self.bits.total / self.baseline_bits if self.baseline_bits else 0.0
