"""A dependence in the data that the directed graph denies."""

from __future__ import annotations

import math
from dataclasses import dataclass

from unperturbed.analysis.causal.discovery.equivalence import WORTH_A_PARENT
from unperturbed.common.wording import listing


@dataclass(frozen=True)
class Contradiction:
    """A dependence in the data that a model denies."""

    # target, other: The variable, and one that is neither its cause nor its effect in the model, although they are
    # related.
    target: str
    other: str
    given: tuple[str, ...]  # The target's parents
    # By how much the target's description is shorter with the other one: of a dependence that only the test finds,
    # too few for another parent; NaN if knowledge forbids this parent.
    bits: float
    p_value: float  # Of the test of their independence

    def __str__(self) -> str:
        given = f" given {listing(self.given)}" if self.given else ""
        p_value = "" if math.isnan(self.p_value) else f" (p = {self.p_value:.2g})"
        text = f"{self.target} depends on {self.other}{given}{p_value}"
        if math.isnan(self.bits):
            return f"{text}, but background knowledge forbids that {self.other} acts on {self.target}"
        if self.bits <= WORTH_A_PARENT:
            return f"{text}, but no formula with {self.other} that was tried is worth another cause"
        return (
            f"{text}, and {self.other} would shorten its description by {self.bits:.0f} bits, but no graph that was "
            "tried holds both; give the order of the two (tiers)"
        )
