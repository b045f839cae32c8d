"""Does a model agree with the data: the Markov check of each node, and whether characteristics screen an application off from its performance.

Lemeire et al., "Causal analysis for performance modeling of computer programs", eq. (1) and section 8.2, where the check of the
node C_op, by hand, shows that an edge cannot be left out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unperturbed.analysis.causal.independence.outcome import IndependenceTest, Outcome
from unperturbed.analysis.causal.prediction import causal_order
from unperturbed.errors import DataError

__all__ = ["Claim", "MarkovCheck", "ScreeningOff", "check_markov", "screens_off"]


@dataclass(frozen=True)
class Claim:
    """An independence that a model claims, and what a test says of it.

    Attributes
    ----------
    one, other : str
    given : tuple of str
    p_value : float
        Of the test; NaN where the test has none.
    adjusted : float
        The p-value that stands for all claims of the check together.
    bits : float
        Mutual information of the two given the others, a row; 0 if the claim were exactly so.
    refuted : bool
    determined : str
        The variable that the others determine: the claim then holds trivially, and does not count. Empty where there is none.
    """

    one: str
    other: str
    given: tuple[str, ...]
    p_value: float
    adjusted: float
    bits: float
    refuted: bool
    determined: str = ""

    def __str__(self) -> str:
        given = f" | {', '.join(self.given)}" if self.given else ""
        return f"{self.one} ⊥ {self.other}{given}"


@dataclass(frozen=True)
class MarkovCheck:
    """Whether each node is independent of its non-descendants, given its parents.

    Attributes
    ----------
    claims : tuple of Claim
    alpha : float
        Rate of false refutations among all refutations, or of each test where tests have no p-value.
    refuted_share : float
        Of the claims that are not trivial, those that single tests refute, without control over all: what permuted graphs are
        compared by.
    permuted_shares : tuple of float
        The same of each graph with its nodes permuted, rising.
    seed : int
    """

    claims: tuple[Claim, ...]
    alpha: float
    refuted_share: float
    permuted_shares: tuple[float, ...]
    seed: int

    @property
    def refuted(self) -> tuple[Claim, ...]:
        """Claims that the data refute, most information first."""
        return tuple(sorted((one for one in self.claims if one.refuted), key=lambda one: -one.bits))

    @property
    def permutation_p_value(self) -> float:
        """How often a graph of the same shape agrees with the data as well by chance; NaN where none was tried."""
        if not self.permuted_shares:
            return math.nan
        as_good = sum(share <= self.refuted_share for share in self.permuted_shares)
        return (1 + as_good) / (1 + len(self.permuted_shares))


@dataclass(frozen=True)
class ScreeningOff:
    """Whether characteristics carry all that an application does to its performance: eq. (1).

    Attributes
    ----------
    application, performance, by : tuple of str
    claims : tuple of Claim
        One for each pair of an application's and a performance variable.
    without : tuple of Outcome
        Of the same pairs with nothing held fixed: where they are independent anyhow, there is nothing to screen off.
    alpha : float
        Chance of refuting any where all hold.
    """

    application: tuple[str, ...]
    performance: tuple[str, ...]
    by: tuple[str, ...]
    claims: tuple[Claim, ...]
    without: tuple[Outcome, ...]
    alpha: float

    @property
    def refuted(self) -> tuple[Claim, ...]:
        """Pairs that are dependent although the characteristics are held fixed, most information first."""
        return tuple(sorted((one for one in self.claims if one.refuted), key=lambda one: -one.bits))

    @property
    def holds(self) -> bool:
        """Whether no pair refutes eq. (1), and some pair is dependent without the characteristics, so that there was something to refute."""
        return not self.refuted and any(not one.independent for one in self.without)

    def __str__(self) -> str:
        by, off, effect = (", ".join(names) for names in (self.by, self.application, self.performance))
        said = (
            f"{by} screen{'s' if len(self.by) == 1 else ''} {off} off from {effect}"
            if by
            else f"{off} and {effect} are independent"
        )
        if self.refuted:
            worst, pairs = self.refuted[0], f"{len(self.refuted)} of {len(self.claims)} pairs"
            return f"not so: {said}. {worst.one} still tells {worst.bits:.2g} bits a run of {worst.other} ({pairs})"
        if not self.holds:
            return f"nothing to tell: {off} and {effect} are independent anyhow"
        return f"not refuted: {said}"


def check_markov(
    test: IndependenceTest,
    parents: Mapping[str, Sequence[str]],
    *,
    inputs: Collection[str] = (),
    alpha: float = 0.05,
    permutations: int = 20,
    seed: int = 0,
) -> MarkovCheck:
    """Test whether each variable is independent of those it does not act on, when its parents are held fixed.

    Parameters
    ----------
    test : IndependenceTest
        On the table that the model is checked with; best another one than it was learnt from.
    parents : mapping of str to sequence of str
        Of each variable.
    inputs : collection of str
        Parameters that were set. Whether these are independent is a matter of the experiment's design, and nothing is claimed of them.
    alpha : float
        False refutations among all refutations (Benjamini and Hochberg).
    permutations : int
        Graphs of the same shape with permuted nodes that are checked too: a dense graph claims little, and is hard to refute
        whatever it says.
    seed : int
        Of the permutations.

    Returns
    -------
    MarkovCheck

    Raises
    ------
    DataError
        Parents that are no variables, causes in a circle.
    ValueError
        Alpha that is not between 0 and 1, a negative number of permutations.

    Notes
    -----
    The Markov condition of section 3, checked as in section 8.2. The comparison with permuted nodes is that of Eulig et al.,
    "Toward falsifying causal graphs using a permutation-based test" (2023).
    """
    _check_alpha(alpha)
    if permutations < 0:
        raise ValueError(f"permutations cannot be {permutations}")
    claimed = _claims(parents, inputs)
    outcomes = [test.test(*claim) for claim in claimed]
    names = list(parents)
    random = np.random.default_rng(seed)
    shares = []
    for _ in range(permutations):
        renamed = dict(zip(names, (names[at] for at in random.permutation(len(names)).tolist()), strict=True))
        permuted = {renamed[name]: [renamed[one] for one in of] for name, of in parents.items()}
        shares.append(
            _refuted_share([test.test(*claim) for claim in _claims(permuted, [renamed[one] for one in inputs])], alpha)
        )
    adjusted = _false_discovery([one.p_value if not one.determined else math.nan for one in outcomes])
    made = tuple(_claim(*three, alpha) for three in zip(claimed, outcomes, adjusted, strict=True))
    return MarkovCheck(made, alpha, _refuted_share(outcomes, alpha), tuple(sorted(shares)), seed)


def screens_off(
    test: IndependenceTest, application: Sequence[str], performance: Sequence[str], by: Sequence[str], *, alpha: float = 0.05
) -> ScreeningOff:
    """Test the paper's eq. (1): application ⊥ performance | characteristics.

    Parameters
    ----------
    test : IndependenceTest
    application, performance : sequence of str
    by : sequence of str
        The characteristics, all held fixed together.
    alpha : float
        Chance of refuting any pair where all are independent (Holm).

    Returns
    -------
    ScreeningOff

    Raises
    ------
    DataError
        No application or performance variable, or a variable with two parts.
    ValueError
        Alpha that is not between 0 and 1.

    Notes
    -----
    Each application variable is tested with each performance variable. Variables that act only together (an exclusive or) are
    not found so.
    """
    _check_alpha(alpha)
    if not application or not performance:
        raise DataError("name at least one variable of the application, and one of its performance")
    every = [*application, *performance, *by]
    twice = next((name for name in every if every.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{twice} has two parts: a variable is of the application, of its performance, or a characteristic")
    given = tuple(by)
    claimed = [(one, other, given) for one in application for other in performance]
    outcomes = [test.test(*claim) for claim in claimed]
    adjusted = _holm([one.p_value if not one.determined else math.nan for one in outcomes])
    made = tuple(_claim(*three, alpha) for three in zip(claimed, outcomes, adjusted, strict=True))
    without = tuple(test.test(one, other) for one, other, _ in claimed)
    return ScreeningOff(tuple(application), tuple(performance), given, made, without, alpha)


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha lies between 0 and 1, not {alpha}")


def _claims(parents: Mapping[str, Sequence[str]], inputs: Collection[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return each node with each non-descendant that is no parent, and its parents; of two that are neither's descendants, both ways."""
    order = causal_order(parents)
    ancestors: dict[str, set[str]] = {}
    for name in order:
        ancestors[name] = set(parents[name]).union(*(ancestors[one] for one in parents[name]))
    claimed = [
        (name, other, tuple(of))
        for name, of in parents.items()
        if name not in inputs
        for other in parents
        if other != name and other not in of and name not in ancestors[other]
    ]
    # Of two without parents both ways are one claim.
    return [one for one in claimed if one[2] or parents[one[1]] or one[1] in inputs or one[0] < one[1]]


def _is_refuted(outcome: Outcome, p_value: float, alpha: float) -> bool:
    """A test without p-values has decided itself."""
    return not outcome.independent if math.isnan(outcome.p_value) else p_value <= alpha


def _refuted_share(outcomes: Sequence[Outcome], alpha: float) -> float:
    telling = [one for one in outcomes if not one.determined]
    return sum(_is_refuted(one, one.p_value, alpha) for one in telling) / len(telling) if telling else 0.0


def _claim(claimed: tuple[str, str, tuple[str, ...]], outcome: Outcome, adjusted: float, alpha: float) -> Claim:
    refuted = not outcome.determined and _is_refuted(outcome, adjusted, alpha)
    return Claim(*claimed, outcome.p_value, adjusted, outcome.bits, refuted, outcome.determined)


def _false_discovery(p_values: Sequence[float]) -> list[float]:
    """Return p-values by Benjamini and Hochberg; NaN stays and does not count."""
    p = np.array(p_values)
    here = np.flatnonzero(~np.isnan(p))
    order = here[np.argsort(p[here], kind="stable")]
    adjusted = np.full(len(p), math.nan)
    raised = p[order] * len(order) / np.arange(1, len(order) + 1)
    adjusted[order] = np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1)
    return [float(one) for one in adjusted]


def _holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values by Holm; NaN stays and does not count."""
    p = np.array(p_values)
    here = np.flatnonzero(~np.isnan(p))
    order = here[np.argsort(p[here], kind="stable")]
    adjusted = np.full(len(p), math.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)), 1)
    return [float(one) for one in adjusted]
