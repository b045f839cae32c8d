"""Forms of a curve, which is a weighted sum of products of powers, logarithms and steps; candidates for these.

Lemeire et al., section 7.2: "we added the polynomials, the inverse, power, square root and step function." Its list of
operations includes logarithms; products of parents are needed for T = #op · C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.regression.cells import Scope
from unperturbed.analysis.causal.table.variables import Floats

Ids = Callable[[Scope], NDArray[np.int64]]
"""Returns the index of each row's value in a scope."""

DIGITS, _ALL_DIGITS = 4, 17
"""Digits of exponents in formulas: the default, and all that a number has. Thresholds have one more."""
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Power:
    """Power of a parent."""

    name: str
    exponent: float = 1.0
    fitted: bool = False  # Whether the exponent is a parameter; otherwise it is encoded as an operation

    @property
    def operations(self) -> int:
        """Number of operations, without the product or division that joins the factor to others."""
        return int(self.fitted or self.exponent not in {1.0, -1.0})

    @property
    def is_reciprocal(self) -> bool:
        """Whether a division joins the factor to others."""
        return self.exponent == -1.0 and not self.fitted

    @property
    def parameters(self) -> int:
        """Number of fitted numbers."""
        return int(self.fitted)

    @property
    def integer_bits(self) -> float:
        """Bits of a whole-number exponent; section 7.2: "an integer value i requires log(i) bits"."""
        whole = not self.fitted and self.exponent == round(self.exponent)
        return math.log2(abs(self.exponent)) if whole else 0.0

    def values(self, numbers: Mapping[str, Floats], ids: Ids) -> Floats:
        """Return the factor's value in each row."""
        del ids
        x = numbers[self.name]
        match self.exponent:
            case 1.0:
                return x
            case 2.0:
                return x * x
            case 0.5:
                return np.asarray(np.sqrt(x))
            case -1.0:
                return np.asarray(1 / x)
        if self.exponent == round(self.exponent) and 0 < self.exponent <= 8:
            power = x * x
            for _ in range(int(self.exponent) - 2):
                power = power * x
            return power
        return np.asarray(np.power(x, self.exponent))

    def text(self, digits: int = DIGITS) -> str:
        """Return the factor as text of a formula."""
        if self.exponent == 1 and not self.fitted:
            return self.name
        if self.exponent == 0.5 and not self.fitted:
            return f"√{self.name}"
        if self.exponent == round(self.exponent):
            return self.name + str(int(self.exponent)).translate(_SUPERSCRIPTS)
        return f"{self.name}^{self.exponent:.{digits}g}"


@dataclass(frozen=True)
class Log:
    """Natural logarithm of a parent."""

    name: str

    operations = 1
    parameters = 0
    integer_bits = 0.0

    def values(self, numbers: Mapping[str, Floats], ids: Ids) -> Floats:
        """Return the factor's value in each row."""
        del ids
        return np.asarray(np.log(numbers[self.name]))

    def text(self, digits: int = DIGITS) -> str:
        """Return the factor as text of a formula."""
        del digits
        return f"ln {self.name}"


def product_of(factors: Iterable[Power], numbers: Mapping[str, Floats], ids: Ids) -> Floats:
    """Return the product of powers for each row."""
    product = np.ones(())
    for factor in factors:
        product = product * factor.values(numbers, ids)
    return product


@dataclass(frozen=True)
class Step:
    """Step: 1 where a product of parents is above a threshold, else 0."""

    compared: tuple[Power, ...]  # Product that is compared with the threshold
    scope: Scope  # Scope of the threshold
    thresholds: tuple[float, ...]  # One for each value of the scope

    @property
    def operations(self) -> int:
        """Number of operations: the comparison, and those of the product that is compared."""
        return 1 + len(self.compared) - 1 + sum(power.operations for power in self.compared)

    @property
    def parameters(self) -> int:
        """Number of fitted numbers."""
        return len(self.thresholds)

    @property
    def integer_bits(self) -> float:
        """Bits of the exponents in the product that is compared."""
        return sum(power.integer_bits for power in self.compared)

    def values(self, numbers: Mapping[str, Floats], ids: Ids) -> Floats:
        """Return the factor's value in each row."""
        compared = product_of(self.compared, numbers, ids)
        return (compared > np.array(self.thresholds)[ids(self.scope)]).astype(np.float64)

    def compared_text(self) -> str:
        """Return the product that is compared as text of a formula."""
        return "·".join(power.text() for power in self.compared)

    def text(self, digits: int = DIGITS) -> str:
        """Return the factor as text of a formula, with all thresholds."""
        return f"[{self.compared_text()} > {' | '.join(f'{limit:.{digits + 1}g}' for limit in self.thresholds)}]"


Factor = Power | Log | Step


@dataclass(frozen=True)
class CurveFunction:
    """Product of factors; 1 if there are none."""

    factors: tuple[Factor, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.factors)

    @property
    def operations(self) -> int:
        """Number of operations, without a coefficient; reciprocals alone need one more: 1 is divided by them."""
        reciprocal = bool(self.factors) and all(
            isinstance(factor, Power) and factor.is_reciprocal for factor in self.factors
        )
        return sum(factor.operations for factor in self.factors) + max(len(self.factors) - 1, 0) + reciprocal

    @property
    def parameters(self) -> int:
        """Number of fitted numbers: exponents and thresholds."""
        return sum(factor.parameters for factor in self.factors)

    @property
    def integer_bits(self) -> float:
        """Bits of exponents that are whole numbers."""
        return sum(factor.integer_bits for factor in self.factors)

    @cached_property
    def scopes(self) -> frozenset[Scope]:
        """Scopes of the thresholds."""
        return frozenset(factor.scope for factor in self.factors if isinstance(factor, Step))

    @cached_property
    def is_logarithm(self) -> bool:
        """Whether the function is ln x, so e to the power of a multiple of it is a power of x."""
        return len(self.factors) == 1 and isinstance(self.factors[0], Log)

    @cached_property
    def has_exponent(self) -> bool:
        """Whether an exponent is fitted."""
        return any(isinstance(factor, Power) and factor.fitted for factor in self.factors)

    @cached_property
    def names(self) -> frozenset[str]:
        """Parents that occur as numbers."""
        names: set[str] = set()
        for factor in self.factors:
            names |= {power.name for power in factor.compared} if isinstance(factor, Step) else {factor.name}
        return frozenset(names)

    def values(self, numbers: Mapping[str, Floats], ids: Ids, rows: int) -> Floats:
        """Return the product's value in each row: float64, shape (rows,)."""
        product = np.ones(rows)
        for factor in self.factors:
            product = product * factor.values(numbers, ids)
        return product

    def text(self, digits: int = DIGITS) -> str:
        """Return the product as text of a formula."""
        return "·".join(factor.text(digits) for factor in self.factors) or "1"


def digits_of(functions: Collection[CurveFunction]) -> int:
    """Return the number of digits that exponents need for different functions to look different."""
    different = len(set(functions))
    return next(
        (
            digits
            for digits in range(DIGITS, _ALL_DIGITS)
            if len({function.text(digits) for function in functions}) == different
        ),
        _ALL_DIGITS,
    )


CONSTANT = CurveFunction()


@dataclass(frozen=True)
class Term:
    """Function with a coefficient for each value of a scope."""

    function: CurveFunction
    scope: Scope


def steps_of(terms: Iterable[Term]) -> list[Step]:
    """Return the different steps that occur in terms."""
    return list(dict.fromkeys(factor for term in terms for factor in term.function.factors if isinstance(factor, Step)))


_HIGHEST_DEGREE = 5
_EXPONENTS = (-3.0, -1.5, -0.75, -0.25, 0.25, 0.75, 1.25, 1.5, 1.75, 2.25, 2.5, 2.75, 3.5)
"""Start values of the search for a fitted exponent."""
_HIGHEST_EXPONENT = 6.0
_MOST_IN_PRODUCTS = 8
"""Maximum number of parents that are multiplied with each other: more products would outnumber all else."""


def functions_of(numbers: Mapping[str, Floats]) -> list[CurveFunction]:
    """Return candidates for a curve: powers, roots, inverse and logarithm of each parent; products of two or three."""
    functions = [CONSTANT]
    for name, x in numbers.items():
        distinct = _distinct(x)
        functions += [CurveFunction((Power(name, float(degree)),)) for degree in range(1, highest_degree(x) + 1)]
        if distinct < 3:
            continue
        if (x != 0).all():
            functions += [CurveFunction((Power(name, -1.0),)), CurveFunction((Power(name, -2.0),))]
        if (x >= 0).all():
            functions.append(CurveFunction((Power(name, 0.5),)))
        if (x > 0).all():
            functions += [CurveFunction((Log(name),)), CurveFunction((Power(name), Log(name)))]
            if distinct > 3:
                functions += [CurveFunction((Power(name, exponent, fitted=True),)) for exponent in _EXPONENTS]
    names = list(numbers)[:_MOST_IN_PRODUCTS]
    for parent, other in combinations(names, 2):
        functions.append(CurveFunction((Power(parent), Power(other))))
    for parent, other in permutations(names, 2):
        functions.append(CurveFunction((Power(parent, 2.0), Power(other))))
        if (numbers[other] != 0).all():
            functions.append(CurveFunction((Power(parent), Power(other, -1.0))))
    functions += [CurveFunction(tuple(Power(member) for member in three)) for three in combinations(names, 3)]
    return functions


def logarithmic_functions_of(numbers: Mapping[str, Floats]) -> list[CurveFunction]:
    """Return candidates for the logarithm of a product curve: powers of positive parents, exponentials of all."""
    functions = [CONSTANT]
    for name, x in numbers.items():
        if (x > 0).all():
            functions.append(CurveFunction((Log(name),)))
        functions.append(CurveFunction((Power(name),)))
    return functions


def highest_degree(x: Floats) -> int:
    """Return the highest degree of a polynomial of a parent."""
    return min(_HIGHEST_DEGREE, _distinct(x) - 1)


def multiply(function: CurveFunction, factor: Factor) -> CurveFunction:
    """Return a function multiplied by a factor: exponents of the same parent are added."""
    if not isinstance(factor, Power) or factor.fitted:
        return CurveFunction((*function.factors, factor))
    kept: list[Factor] = []
    exponent = factor.exponent
    for existing in function.factors:
        if isinstance(existing, Power) and not existing.fitted and existing.name == factor.name:
            exponent += existing.exponent
        else:
            kept.append(existing)
    if exponent:
        kept.append(Power(factor.name, exponent))
    return CurveFunction(tuple(sorted(kept, key=_kind)))


def is_moderate(function: CurveFunction) -> bool:
    """Return whether all exponents are in the range that a curve may have."""
    return all(abs(factor.exponent) <= _HIGHEST_EXPONENT for factor in function.factors if isinstance(factor, Power))


def compared_products(numbers: Mapping[str, Floats]) -> list[tuple[Power, ...]]:
    """Return the products that steps may compare: single parents, or two positive parents, one of them also squared."""
    varied = [name for name, x in numbers.items() if _distinct(x) > 2]
    products: list[tuple[Power, ...]] = [(Power(name),) for name in varied]
    positive = [name for name in varied if (numbers[name] > 0).all()][:_MOST_IN_PRODUCTS]
    products += [(Power(parent), Power(other)) for parent, other in combinations(positive, 2)]
    products += [(Power(parent, 2.0), Power(other)) for parent, other in permutations(positive, 2)]
    return products


def _distinct(x: Floats) -> int:
    """Return the number of distinct values; count only the first rows if they already have more than a few."""
    first = len(np.unique(x[:200]))
    return first if first > _HIGHEST_DEGREE else len(np.unique(x))


def _kind(factor: Factor) -> tuple[int, str]:
    return [Power, Log, Step].index(type(factor)), getattr(factor, "name", "")
