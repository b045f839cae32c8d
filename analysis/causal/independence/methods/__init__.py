"""Tests of conditional independence: their base class, and the lookup of all tests by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unperturbed.common.extensions import classes_in

if TYPE_CHECKING:
    from unperturbed.analysis.causal.table.variables import Data


@dataclass(frozen=True)
class IndependenceOutcome:
    """Result of one test of X ⊥ Z | S.

    Attributes
    ----------
    independent : bool
        Whether independence is accepted.
    p_value : float
        Probability of a dependence at least this strong under independence; NaN if the test has no p-value (the paper's
        test).
    bits : float
        The test's estimate of the conditional mutual information of X and Z given S, in bits per row; at least 0.
    determined : str, default ""
        The one of X and Z that S determines, which makes independence trivial and without causal information; empty if
        S determines neither.
    """

    independent: bool
    p_value: float
    bits: float
    determined: str = ""


class IndependenceTest(ABC):
    """A test of conditional independence on one table.

    A subclass in a module of `independence.methods`, or behind an entry point in the group
    `unperturbed.independence_tests`, can be selected by its `name` in `learn(…, test=NAME)` and
    `unperturbed model --test NAME`. Outcomes are the same for (X, Z) and (Z, X); cache those that are slow to compute,
    because a search repeats tests.
    """

    name: ClassVar[str] = ""
    """The name by which users select the test."""

    @classmethod
    def create(cls, data: Data, *, alpha: float, seed: int) -> IndependenceTest:
        """Return the test for a table, as `learn` creates it.

        Parameters
        ----------
        data : Data
            The table.
        alpha : float
            Significance level: independence is accepted above it.
        seed : int
            Seed of everything random.

        Returns
        -------
        IndependenceTest
            By default `cls(data, alpha=alpha, seed=seed)`.
        """
        return cls(data, alpha=alpha, seed=seed)  # type: ignore[call-arg]  # other parameters: override this

    @property
    def screening(self) -> IndependenceTest:
        """Faster test that runs first; this test then confirms each independence. The default is this test itself."""
        return self

    @abstractmethod
    def test(self, one: str, other: str, given: Sequence[str] = ()) -> IndependenceOutcome:
        """Test whether two variables are independent given others.

        Parameters
        ----------
        one, other : str
            The variables, in any order.
        given : sequence of str, default ()
            The conditioning set.

        Returns
        -------
        IndependenceOutcome
            The verdict, its p-value, and the information that the two variables share.
        """


def independence_tests() -> dict[str, type[IndependenceTest]]:
    """Return the tests of conditional independence by name, those of other packages last."""
    return classes_in(__name__, IndependenceTest, group="unperturbed.independence_tests")  # type: ignore[type-abstract]
