"""Cells: the value combinations of discrete parents, and which of them share a value.

Lemeire et al., section 7.2: "several distinct curves are considered: one for each value combination of the discrete
variables. The total complexity is the summation over all individual functions, except that equal parameter values or
function types are only counted once."
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from unperturbed.analysis.causal.table.variables import Category, Codes
from unperturbed.common.wording import first_of
from unperturbed.errors import DataError

_ALL_SUBSETS = 3
"""With more discrete parents than this, values depend on none, one, two or all of them."""
_FEWEST_ROWS = 4
"""Minimum average rows per cell; separate values for smaller cells would mostly fit noise."""


@dataclass(frozen=True)
class Scope:
    """Cells with separate values: one for each combination of discrete parents' values, or for each group of them."""

    names: tuple[str, ...] = ()  # Discrete parents; empty: one value everywhere
    groups: tuple[int, ...] = ()  # The group of each combination; empty if each has its own value

    @property
    def ungrouped(self) -> Scope:
        """The scope with a value for each combination."""
        return Scope(self.names)

    def within(self, other: Scope) -> bool:
        """Return whether another scope's values can replace this scope's: it distinguishes at least the same cells."""
        return not other.groups and set(self.names) <= set(other.names)


EVERYWHERE = Scope()


@dataclass(frozen=True, eq=False)
class Cells:
    """Combinations of discrete parents' values that occur in the table."""

    categories: Mapping[str, tuple[Category, ...]]  # Values of each discrete parent, in the order of its codes
    scopes: tuple[Scope, ...]  # `EVERYWHERE`, then scopes of some parents, then the scope of all
    sharing: bool  # Whether cells may share a value that others do not have
    _keys: Mapping[tuple[str, ...], Codes] = field(repr=False)

    @classmethod
    def of(
        cls,
        codes: Mapping[str, Codes],
        categories: Mapping[str, tuple[Category, ...]],
        rows: int,
        *,
        sharing: bool = True,
    ) -> Cells:
        """Return the cells of some rows, by the codes and the values of each discrete parent."""
        names = tuple(codes)
        sizes: Iterable[int] = {0, 1, 2, len(names)} if sharing else {0, len(names)}
        if sharing and len(names) <= _ALL_SUBSETS:
            sizes = range(len(names) + 1)
        subsets = [subset for size in sorted(sizes) for subset in combinations(names, size)]
        keys = {subset: np.unique(_keys_of(subset, codes, categories, rows)) for subset in subsets}
        kept = [
            subset
            for subset in subsets
            if len(subset) <= 1 or len(keys[subset]) * _FEWEST_ROWS <= rows or subset == names
        ]
        return cls(categories, tuple(Scope(subset) for subset in kept), sharing, keys)

    @property
    def full(self) -> Scope:
        """Scope with a value for each combination of all discrete parents."""
        return self.scopes[-1]

    def scope(self, names: Sequence[str]) -> Scope:
        """Return the smallest scope of `scopes` that has a value for each combination of some parents."""
        return next(scope for scope in self.scopes if set(names) <= set(scope.names))

    def size(self, scope: Scope) -> int:
        """Return the number of values of a scope."""
        return max(scope.groups) + 1 if scope.groups else len(self._keys[scope.names])

    def ids(self, scope: Scope, codes: Mapping[str, Codes], rows: int) -> Codes:
        """Return the index of each row's value in a scope: int64, shape (rows,); −1 for an unknown combination."""
        keys = self._keys[scope.names]
        wanted = _keys_of(scope.names, codes, self.categories, rows)
        positions = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        ids = np.where(keys[positions] == wanted, positions, -1)
        if scope.groups:
            ids = np.where(ids >= 0, np.array(scope.groups, np.int64)[ids], -1)
        return ids.astype(np.int64)

    def combinations(self, scope: Scope) -> tuple[Mapping[str, Category], ...]:
        """Return the combinations of a scope's parents' values, ordered like the `ids` of the ungrouped scope."""
        left = self._keys[scope.names]
        codes: dict[str, Codes] = {}
        for name in reversed(scope.names):
            left, codes[name] = np.divmod(left, len(self.categories[name]))
        return tuple(
            {name: self.categories[name][int(codes[name][at])] for name in scope.names}
            for at in range(len(self._keys[scope.names]))
        )

    def coded(self, name: str, values: Sequence[object]) -> Codes:
        """Return the codes of a discrete parent's values; raise DataError for values that did not occur."""
        known: dict[object, int] = {value: code for code, value in enumerate(self.categories[name])}
        for value in values:
            if value not in known:
                shown = first_of([str(category) for category in self.categories[name]], 12)
                numbers = not any(isinstance(category, str | bool) for category in self.categories[name])
                kind = f'`kinds={{"{name}": "continuous"}}`'
                between = f"; for other values, make {name} continuous: {kind}" if numbers else ""
                raise DataError(
                    f"{name} never has the value {value!r} in the model's data; use one of {shown}{between}"
                )
        return np.array([known[value] for value in values], np.int64)


def _keys_of(
    names: Sequence[str], codes: Mapping[str, Codes], categories: Mapping[str, tuple[Category, ...]], rows: int
) -> Codes:
    """Return a number for each row's combination."""
    keys = np.zeros(rows, np.int64)
    for name in names:
        keys = keys * len(categories[name]) + codes[name]
    return keys
