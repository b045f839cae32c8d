"""Steps at their best thresholds.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 8.3, eq. (17): cache misses
that jump where the cache is full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from unperturbed.analysis.causal.regression.cells import EVERYWHERE, Scope
from unperturbed.analysis.causal.regression.curves.candidates import compared_products, multiply
from unperturbed.analysis.causal.regression.curves.forms import CONSTANT, Function, Power, Step, steps_of
from unperturbed.analysis.causal.regression.curves.problem import Problem, State, compiled_loop
from unperturbed.analysis.causal.table.variables import Codes, Floats

_FEWEST_ABOVE = 3
"""Rows on each side of a threshold: fewer would be outliers."""


class Steps:
    """Finds steps that may be added to the terms of a problem.

    Attributes
    ----------
    problem : Problem
        The regression.
    """

    def __init__(self, problem: Problem, scopes: Sequence[Scope]) -> None:
        """Give thresholds and jumps a value for each combination of a scope; the last scope is the largest."""
        self.problem = problem
        self._pairs = list(dict.fromkeys([*((scope, scope) for scope in scopes), (EVERYWHERE, scopes[-1])]))

    @cached_property
    def _compared(self) -> list[tuple[Power, ...]]:
        return compared_products(self.problem.numbers)

    @cached_property
    def _values(self) -> Floats:
        """What each step may compare: shape (compared, rows)."""
        found = np.ones((len(self._compared), self.problem.rows))
        for number, factors in enumerate(self._compared):
            for one in factors:
                found[number] *= one.values(self.problem.numbers, self.problem.ids)
        return found

    @cached_property
    def _falling(self) -> Codes:
        return np.argsort(-self._values, axis=1, kind="stable").astype(np.int64)

    def best(self, state: State) -> list[Function]:
        """Return steps at their best thresholds.

        All that may be compared are tried; what explains most by thresholds of some scope is tried multiplied by
        parents and terms, too.
        """
        everything = range(len(self._compared))
        found = list(self._steps(state, [(number, CONSTANT) for number in everything]))
        functions = [function for _, function, _ in found]
        if self.problem.errors == "factor":
            return list(dict.fromkeys(functions))
        best: dict[Scope, tuple[float, int]] = {}
        for gained, function, number in found:
            for scope in function.scopes:
                best[scope] = max(best.get(scope, (0.0, number)), (gained, number))
        weights = [Function((Power(name),)) for name in self.problem.numbers]
        weights += [term.function for term in state.terms if term.function.factors and not steps_of([term])]
        # By thresholds of several scopes the same may be best.
        numbers = dict.fromkeys(number for _, number in best.values())
        further = [(number, weight) for number in numbers for weight in dict.fromkeys(weights)]
        functions += [function for _, function, _ in self._steps(state, further)]
        return list(dict.fromkeys(functions))

    def _steps(self, state: State, tried: Iterable[tuple[int, Function]]) -> Iterator[tuple[float, Function, int]]:
        """Yield what each step explains, the step, and what it compares, for several comparisons and weights."""
        tried = list(tried)
        if not tried:
            return
        numbers = [number for number, _ in tried]
        weights = np.array([self.problem.values(weight) for _, weight in tried])
        for thresholds_by, jumps_by in self._pairs:
            known = (self._values[numbers], self._falling[numbers], weights)
            for (number, weight), best in zip(
                tried, best_thresholds(state, *known, thresholds_by, jumps_by), strict=True
            ):
                if not np.isnan(best[:, 1]).any():
                    step = Step(self._compared[number], thresholds_by, tuple(best[:, 1].tolist()))
                    yield float(best[:, 0].sum()), multiply(weight, step), number


def best_thresholds(
    state: State, compared: Floats, falling: Codes, weights: Floats, thresholds_by: Scope, jumps_by: Scope
) -> Floats:
    """Return what steps explain at their best thresholds, and these; see `kernels.scan`.

    `compared`, `weights`: float64, shape (steps, rows). What each step compares with its threshold, and what it is
    multiplied by.
    `falling`: int64, shape (steps, rows). Rows in the order of falling `compared`.
    Result: float64, shape (steps, thresholds, 2). What is explained, and the threshold; NaN where there is none.
    """
    problem = state.problem
    sizes = np.array([problem.cells.size(thresholds_by), problem.cells.size(jumps_by)])
    best = np.empty((len(compared), sizes[0], 2))
    compiled_loop("scan")(
        state.residual,
        state.transposed,
        compared,
        falling,
        weights,
        problem.ids(thresholds_by),
        problem.ids(jumps_by),
        sizes,
        _FEWEST_ABOVE,
        best,
    )
    return best
