"""Tests of a model against the data: the Markov check of each node, and screening off.

Lemeire et al., "Causal analysis for performance modeling of computer programs", eq. (1), sections 3.3 and 8.2. Section
8.2 checks the node C_op by hand and finds that an edge cannot be left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unperturbed.analysis.causal.independence.methods import IndependenceOutcome, IndependenceTest
from unperturbed.analysis.causal.independence.methods.regression import RegressionTest
from unperturbed.analysis.causal.model.prediction import causal_order
from unperturbed.analysis.causal.model_text import claims_table, markov_sentences
from unperturbed.analysis.causal.regression.curve_mechanism import CurveMechanism
from unperturbed.analysis.causal.regression.mechanism import Mechanism
from unperturbed.analysis.multiple_testing import benjamini_hochberg, holm
from unperturbed.common.result import Result, finite_or_none
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from unperturbed.common.table import Table


@dataclass(frozen=True)
class Claim:
    """Independence that a model claims, with its test result.

    Attributes
    ----------
    one, other : str
        The variables that the model claims to be independent.
    given : tuple of str
        The conditioning set.
    p_value : float
        The p-value of the test; NaN if the test has none.
    adjusted : float
        The p-value after correction for all claims of the check.
    bits : float
        Mutual information of the two variables given the conditioning set, in bits per row; 0 if the claim is exact.
    refuted : bool
        Whether the data contradict the claim.
    determined : str
        The variable that the conditioning set determines, empty if there is none: the claim then holds trivially and
        does not count.
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


def claim_dict(claim: Claim) -> dict[str, Any]:
    """Return a claim as plain data; NaN becomes None."""
    return {name: finite_or_none(value) if isinstance(value, float) else value for name, value in vars(claim).items()}


class CheckedClaims(Result):
    """Independence claims with their test results."""

    claims: tuple[Claim, ...]

    def tables(self) -> Sequence[Table]:
        """Return the claims with their test results, refuted claims first."""
        return (claims_table(self),)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per claim."""
        return pl.DataFrame(
            [claim_dict(claim) for claim in self.claims], schema_overrides={"given": pl.List(pl.String)}
        )

    @property
    def refuted(self) -> tuple[Claim, ...]:
        """Claims that the data refute, strongest dependence first."""
        return tuple(sorted((claim for claim in self.claims if claim.refuted), key=lambda claim: -claim.bits))


@dataclass(frozen=True, repr=False)
class MarkovCheck(CheckedClaims):
    """Result of the Markov check: is each node independent of its non-descendants, given its parents?

    Attributes
    ----------
    claims : tuple of Claim
        All claims of the graph.
    alpha : float
        False-discovery rate among the refutations, or the level of each test if tests have no p-value.
    refuted_share : float
        Share of the nontrivial claims that single tests refute, without correction for the number of tests; permuted
        graphs are compared by this share.
    permuted_shares : tuple of float
        The same share for each graph with permuted nodes, ascending.
    seed : int
        Seed of the permutations.
    """

    claims: tuple[Claim, ...]
    alpha: float
    refuted_share: float
    permuted_shares: tuple[float, ...]
    seed: int

    def headline(self) -> str:
        """Return how many claims the data refute."""
        return markov_sentences(self)[0]

    def to_dict(self) -> dict[str, Any]:
        """Return claims, refuted shares and p-value as plain data; NaN becomes None."""
        return {
            "alpha": self.alpha,
            "claims": [claim_dict(claim) for claim in self.claims],
            "refuted": len(self.refuted),
            "refuted_share": self.refuted_share,
            "permuted_shares": self.permuted_shares,
            "permutation_p_value": finite_or_none(self.permutation_p_value),
            "seed": self.seed,
        }

    @property
    def permutation_p_value(self) -> float:
        """Probability that a graph of the same shape agrees equally well by chance; NaN if no graph was tried."""
        if not self.permuted_shares:
            return math.nan
        as_good = sum(share <= self.refuted_share for share in self.permuted_shares)
        return (1 + as_good) / (1 + len(self.permuted_shares))


@dataclass(frozen=True, repr=False)
class ScreeningOff(CheckedClaims):
    """Result of the screening-off test: do characteristics carry all effects of an application on its performance?

    Attributes
    ----------
    application, performance, by : tuple of str
        The three parts of eq. (1): variables of the application, of its performance, and the characteristics.
    claims : tuple of Claim
        One claim for each pair of an application variable and a performance variable.
    without : tuple of IndependenceOutcome
        Test results of the same pairs with nothing held fixed: if a pair is independent anyway, there is nothing to
        screen off.
    alpha : float
        Probability of refuting any claim if all hold.
    """

    application: tuple[str, ...]
    performance: tuple[str, ...]
    by: tuple[str, ...]
    claims: tuple[Claim, ...]
    without: tuple[IndependenceOutcome, ...]
    alpha: float

    def headline(self) -> str:
        """Return the verdict in one sentence."""
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Return verdict and pairs as plain data; NaN becomes None."""
        pairs = zip(self.claims, self.without, strict=True)
        return {
            "application": self.application,
            "by": self.by,
            "performance": self.performance,
            "alpha": self.alpha,
            "holds": self.holds,
            "words": str(self),
            "pairs": [
                {
                    **claim_dict(claim),
                    "bits_without": finite_or_none(without.bits),
                    "p_value_without": finite_or_none(without.p_value),
                }
                for claim, without in pairs
            ],
        }

    @property
    def holds(self) -> bool:
        """Whether no pair refutes eq. (1), but some pair could, because it is dependent without the characteristics."""
        return not self.refuted and any(not outcome.independent for outcome in self.without)

    def __str__(self) -> str:
        by, off, effect = (", ".join(names) for names in (self.by, self.application, self.performance))
        text = (
            f"{by} screen{'s' if len(self.by) == 1 else ''} {off} off from {effect}"
            if by
            else f"{off} and {effect} are independent"
        )
        if self.refuted:
            worst, pairs = self.refuted[0], f"{len(self.refuted)} of {len(self.claims)} pairs"
            return (
                f"refuted by {pairs}: the claim that {text}. {worst.one} still carries {worst.bits:.2g} bits per row "
                f"about {worst.other}"
            )
        if not self.holds:
            return f"nothing to test: {off} and {effect} are independent even with nothing held fixed"
        return f"not refuted: {text}"


def p_value_of_residuals(test: RegressionTest, mechanism: Mechanism, other: str) -> float:
    """Return the p-value of a dependence of a formula's residuals on another variable; NaN for a discrete target."""
    if not isinstance(mechanism, CurveMechanism):
        return math.nan
    return 1.0 if mechanism.exact else test.p_value_of_residuals(mechanism.residuals, other, mechanism.parents)


def check_markov(
    test: IndependenceTest,
    parents: Mapping[str, Sequence[str]],
    *,
    inputs: Collection[str] = (),
    confirm: Callable[[str, str], float] | None = None,
    alpha: float = 0.05,
    permutations: int = 20,
    seed: int = 0,
) -> MarkovCheck:
    """Test whether each variable is independent of its non-descendants when its parents are held fixed.

    `test`: A test on the table that the model is checked against, preferably not the table that it was learnt from.
    `inputs`: Input parameters: whether they are independent depends on the experiment's design alone.
    `confirm`: Returns the p-value of a second test between a variable and another one, given the first one's parents;
    or NaN. The larger p-value counts.
    `permutations`: Number of graphs of the same shape with permuted nodes that are checked for comparison: a dense
    graph claims little and is hard to refute even if it is wrong (Eulig et al., "Toward falsifying causal graphs using
    a permutation-based test", 2023).
    """
    _check_alpha(alpha)
    if permutations < 0:
        raise ValueError(f"`permutations` must be 0 or more, not {permutations}")
    claimed = _claims(parents, inputs)
    outcomes = [test.test(*claim) for claim in claimed]
    names = list(parents)
    random = np.random.default_rng(seed)
    shares = []
    for _ in range(permutations):
        renamed = dict(zip(names, (names[at] for at in random.permutation(len(names)).tolist()), strict=True))
        permuted = {renamed[name]: [renamed[parent] for parent in of] for name, of in parents.items()}
        shares.append(
            _refuted_share(
                [test.test(*claim) for claim in _claims(permuted, [renamed[name] for name in inputs])], alpha
            )
        )
    share = _refuted_share(outcomes, alpha)
    if confirm is not None:
        # The test uses features of the parents and mistakes what they miss for a dependence; a formula may miss less.
        for at, (outcome, (variable, other, _)) in enumerate(zip(outcomes, claimed, strict=True)):
            p_value = math.nan if outcome.p_value > alpha else confirm(variable, other)
            if p_value > outcome.p_value:
                outcomes[at] = replace(outcome, p_value=p_value)
    made = _checked(claimed, outcomes, benjamini_hochberg, alpha)
    return MarkovCheck(made, alpha, share, tuple(sorted(shares)), seed)


def screens_off(
    test: IndependenceTest,
    application: Sequence[str],
    performance: Sequence[str],
    by: Sequence[str],
    *,
    alpha: float = 0.05,
) -> ScreeningOff:
    """Test eq. (1), application ⊥ performance | characteristics, pair by pair; joint effects such as XOR are missed."""
    _check_alpha(alpha)
    if not application or not performance:
        raise DataError("screening off needs at least one application variable and one performance variable")
    every = [*application, *performance, *by]
    twice = next((name for name in every if every.count(name) > 1), None)
    if twice is not None:
        raise DataError(
            f"{twice} is named twice: name each variable once, in the application, its performance or the "
            "characteristics"
        )
    given = tuple(by)
    claimed = [(variable, other, given) for variable in application for other in performance]
    made = _checked(claimed, [test.test(*claim) for claim in claimed], holm, alpha)
    without = tuple(test.test(variable, other) for variable, other, _ in claimed)
    return ScreeningOff(tuple(application), tuple(performance), given, made, without, alpha)


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"`alpha` must be above 0 and below 1, not {alpha}")


def _claims(parents: Mapping[str, Sequence[str]], inputs: Collection[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return all claims, each as a node, a non-descendant that is not its parent, and the node's parents."""
    order = causal_order(parents)
    ancestors: dict[str, set[str]] = {}
    for name in order:
        ancestors[name] = set(parents[name]).union(*(ancestors[parent] for parent in parents[name]))
    claimed = [
        (name, other, tuple(of))
        for name, of in parents.items()
        if name not in inputs
        for other in parents
        if other != name and other not in of and name not in ancestors[other]
    ]
    # For two nodes without parents, both directions are the same claim.
    return [claim for claim in claimed if claim[2] or parents[claim[1]] or claim[1] in inputs or claim[0] < claim[1]]


def _is_refuted(outcome: IndependenceOutcome, p_value: float, alpha: float) -> bool:
    """Return whether a claim is refuted: by its p-value or, for tests without p-values, by the test's own verdict."""
    return not outcome.independent if math.isnan(outcome.p_value) else p_value <= alpha


def _refuted_share(outcomes: Sequence[IndependenceOutcome], alpha: float) -> float:
    nontrivial = [outcome for outcome in outcomes if not outcome.determined]
    return (
        sum(_is_refuted(outcome, outcome.p_value, alpha) for outcome in nontrivial) / len(nontrivial)
        if nontrivial
        else 0.0
    )


def _checked(
    claimed: Sequence[tuple[str, str, tuple[str, ...]]],
    outcomes: Sequence[IndependenceOutcome],
    correct: Callable[[Sequence[float]], NDArray[np.float64]],
    alpha: float,
) -> tuple[Claim, ...]:
    adjusted = correct([math.nan if outcome.determined else outcome.p_value for outcome in outcomes]).tolist()
    claims = []
    for claim, outcome, p_value in zip(claimed, outcomes, adjusted, strict=True):
        refuted = not outcome.determined and _is_refuted(outcome, p_value, alpha)
        claims.append(Claim(*claim, outcome.p_value, p_value, outcome.bits, refuted, outcome.determined))
    return tuple(claims)
