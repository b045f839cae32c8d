"""Candidate functions of parents, and those that follow from the terms chosen so far.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.2: "The model class M is populated
with functions appropriate for the system under study."
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.regression.forms import CONSTANT, Factor, Function, Log, Power, Term

__all__ = ["FollowUp", "compared_products", "functions_of", "highest_degree", "logarithmic_functions_of", "times"]

Floats = NDArray[np.float64]

_HIGHEST_DEGREE = 5
_EXPONENTS = (-3.0, -1.5, -0.75, -0.25, 0.25, 0.75, 1.25, 1.5, 1.75, 2.25, 2.5, 2.75, 3.5)
"""Where the search for a fitted exponent starts."""
_HIGHEST_EXPONENT = 6.0
_MOST_IN_PRODUCTS = 8
"""Parents beyond these are not multiplied with each other: their products would outnumber all else."""


def functions_of(numbers: Mapping[str, Floats]) -> list[Function]:
    """Return candidates for a curve: each parent's powers, roots, inverse and logarithm, and products of two and three parents."""
    found = [CONSTANT]
    for name, x in numbers.items():
        distinct = _distinct(x)
        found += [Function((Power(name, float(degree)),)) for degree in range(1, highest_degree(x) + 1)]
        if distinct < 3:
            continue
        if (x != 0).all():
            found += [Function((Power(name, -1.0),)), Function((Power(name, -2.0),))]
        if (x >= 0).all():
            found.append(Function((Power(name, 0.5),)))
        if (x > 0).all():
            found += [Function((Log(name),)), Function((Power(name), Log(name)))]
            if distinct > 3:
                found += [Function((Power(name, exponent, fitted=True),)) for exponent in _EXPONENTS]
    names = list(numbers)[:_MOST_IN_PRODUCTS]
    for one, other in combinations(names, 2):
        found.append(Function((Power(one), Power(other))))
    for one, other in permutations(names, 2):
        found.append(Function((Power(one, 2.0), Power(other))))
        if (numbers[other] != 0).all():
            found.append(Function((Power(one), Power(other, -1.0))))
    found += [Function(tuple(Power(one) for one in three)) for three in combinations(names, 3)]
    return found


def logarithmic_functions_of(numbers: Mapping[str, Floats]) -> list[Function]:
    """Return candidates for the logarithm of a curve that is a product: powers of positive parents, exponentials of all."""
    found = [CONSTANT]
    for name, x in numbers.items():
        if (x > 0).all():
            found.append(Function((Log(name),)))
        found.append(Function((Power(name),)))
    return found


def highest_degree(x: Floats) -> int:
    """Return the highest degree of a polynomial of a parent."""
    return min(_HIGHEST_DEGREE, _distinct(x) - 1)


def times(function: Function, factor: Factor) -> Function:
    """Return a function multiplied by a factor: exponents of the same parent are added."""
    if not isinstance(factor, Power) or factor.fitted:
        return Function((*function.factors, factor))
    kept: list[Factor] = []
    exponent = factor.exponent
    for one in function.factors:
        if isinstance(one, Power) and not one.fitted and one.name == factor.name:
            exponent += one.exponent
        else:
            kept.append(one)
    if exponent:
        kept.append(Power(factor.name, exponent))
    return Function(tuple(sorted(kept, key=_kind)))


class FollowUp:
    """The functions of terms, each multiplied and divided by each parent, without those that are known."""

    def __init__(self, numbers: Mapping[str, Floats], known: Container[Function]) -> None:
        self._factors = [Power(name) for name in numbers]
        self._factors += [Power(name, -1.0) for name, x in numbers.items() if (x != 0).all()]
        self._known = known
        self._made: dict[Function, list[Function]] = {}

    def of(self, terms: Iterable[Term]) -> list[Function]:
        """Return what follows from some terms; their own functions first."""
        found: dict[Function, None] = {}
        for term in terms:
            if term.function not in self._made:
                every = [term.function, *(times(term.function, factor) for factor in self._factors)]
                self._made[term.function] = [one for one in every if one not in self._known and _is_moderate(one)]
            found |= dict.fromkeys(self._made[term.function])
        return list(found)


def _is_moderate(function: Function) -> bool:
    return all(abs(factor.exponent) <= _HIGHEST_EXPONENT for factor in function.factors if isinstance(factor, Power))


def compared_products(numbers: Mapping[str, Floats]) -> list[tuple[Power, ...]]:
    """Return what a step may compare with a threshold: a parent, or the product of two positive ones, one of them squared or not."""
    varied = [name for name, x in numbers.items() if _distinct(x) > 2]
    found: list[tuple[Power, ...]] = [(Power(name),) for name in varied]
    positive = [name for name in varied if (numbers[name] > 0).all()][:_MOST_IN_PRODUCTS]
    found += [(Power(one), Power(other)) for one, other in combinations(positive, 2)]
    found += [(Power(one, 2.0), Power(other)) for one, other in permutations(positive, 2)]
    return found


def _distinct(x: Floats) -> int:
    """Return how many different values there are; whether more than a few is told from the first rows where it can."""
    first = len(np.unique(x[:200]))
    return first if first > _HIGHEST_DEGREE else len(np.unique(x))


def _kind(factor: Factor) -> tuple[int, str]:
    order: Sequence[type] = (Power, Log)
    return (order.index(type(factor)) if type(factor) in order else len(order), getattr(factor, "name", ""))
