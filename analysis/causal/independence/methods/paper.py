"""The paper's own test: kernel mutual information with a fixed threshold.

Lemeire et al., sections 6.1 and 7.1. X and Z are independent given S if

    I(X; Z | S) = E log₂ p(xzs) p(s) / (p(xs) p(zs))

is below 0.4 bits, or below 0.2 if X or Z is discrete. Densities are kernel estimates: Gaussian with a bandwidth of 4 ·
range / n in each dimension, equality for discrete variables. The factor 1/(nb) in eq. (13) is for one dimension, and
should be 1/(n·∏ b_d); here both cancel. Eq. (11) mixes the integral with a sum over bins; here the integral is computed
as a mean over draws from the estimated density itself.

The bandwidth is proportional to 1/n, so the value for independent variables grows with n: for two uniform variables, it
is about 0.15 bits at 50 rows, 0.3 at 100, 1.2 at 400 and 2.1 at 1,000. The other tests are calibrated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from unperturbed.analysis.causal.independence.loops import compiled_loop
from unperturbed.analysis.causal.independence.methods import IndependenceOutcome, IndependenceTest
from unperturbed.analysis.causal.table.variables import Data

_CONTINUOUS_BITS, _DISCRETE_BITS = 0.4, 0.2
"""Section 6.1: "a threshold on the mutual information is used, of 0.4 for continuous and 0.2 for discrete
variables"."""
_BANDWIDTH = 4.0
"""Section 7.1: "4 times the range divided by the number of data points"."""


class PaperTest(IndependenceTest):
    """Test of X ⊥ Z | S by the paper's threshold.

    Parameters
    ----------
    data : Data
        The table.
    seed : int
        Random seed of the draws.
    draws : int
        Minimum number of draws for the integral, rounded up to the same number for each row.
    continuous_bits, discrete_bits : float
        Thresholds on the mutual information; the second applies if X or Z is discrete.
    """

    name: ClassVar[str] = "paper"

    def __init__(
        self,
        data: Data,
        *,
        seed: int = 0,
        draws: int = 1000,
        continuous_bits: float = _CONTINUOUS_BITS,
        discrete_bits: float = _DISCRETE_BITS,
    ) -> None:
        self._data = data
        self._thresholds = continuous_bits, discrete_bits
        repeats = -(-draws // data.rows)
        self._from = np.repeat(np.arange(data.rows), repeats)
        random = np.random.default_rng(seed)
        self._shifts = {name: random.standard_normal(len(self._from)) for name in data.names}
        self._known: dict[tuple[frozenset[str], frozenset[str]], IndependenceOutcome] = {}

    @classmethod
    def create(cls, data: Data, *, alpha: float, seed: int) -> PaperTest:  # noqa: ARG003
        """Return the test for a table; it uses its own thresholds instead of `alpha`."""
        return cls(data, seed=seed)

    def test(self, one: str, other: str, given: Sequence[str] = ()) -> IndependenceOutcome:
        """Test whether two variables are independent when some others are held fixed. The outcome has no p-value."""
        key = frozenset((one, other)), frozenset(given)
        if key not in self._known:
            bits = self.information(min(one, other), max(one, other), sorted(given))
            discrete = "discrete" in {self._data.kinds[one], self._data.kinds[other]}
            self._known[key] = IndependenceOutcome(bits < self._thresholds[discrete], float("nan"), bits)
        return self._known[key]

    def information(self, one: str, other: str, given: Sequence[str] = ()) -> float:
        """Return I(one; other | given) in bits, as section 7.1 estimates it."""
        sides = {one: 0, other: 1, **dict.fromkeys(given, 2)}
        continuous = [name for name in sides if self._data.kinds[name] == "continuous"]
        discrete = [name for name in sides if name not in continuous]
        rows = np.zeros((self._data.rows, len(continuous)))
        for column, name in enumerate(continuous):
            values = self._data.values(name)
            rows[:, column] = values / (_BANDWIDTH * np.ptp(values) / self._data.rows)
        codes = np.zeros((self._data.rows, len(discrete)), np.int64)
        for column, name in enumerate(discrete):
            codes[:, column] = self._data.codes(name)
        points = rows[self._from]
        for column, name in enumerate(continuous):
            points[:, column] += self._shifts[name]
        return float(
            compiled_loop("information_at")(
                points,
                codes[self._from],
                rows,
                codes,
                np.array([sides[name] for name in continuous], np.int64),
                np.array([sides[name] for name in discrete], np.int64),
            )
        )
