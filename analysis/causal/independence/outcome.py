"""What a test of independence says, and what every such test is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["IndependenceTest", "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """The result of one test of X ⊥ Z | S.

    Attributes
    ----------
    independent : bool
        Whether independence is taken to hold.
    p_value : float
        Chance of so strong a dependence if there were none; NaN for a test that has none (the paper's).
    bits : float
        Conditional mutual information of X and Z given S in bits a row, as the test estimates it; not below 0.
    determined : str
        The one of X and Z that S determines, so that independence is trivial and says nothing of causes; empty where none is.
    """

    independent: bool
    p_value: float
    bits: float
    determined: str = ""


class IndependenceTest(Protocol):
    """A test of conditional independence on one table. Its outcomes are the same for (X, Z) and (Z, X), and kept."""

    def test(self, one: str, other: str, given: Sequence[str] = ()) -> Outcome:
        """Test whether two variables are independent when some others are held fixed."""
        ...
