"""What a build without counting executes in addition to the untouched program, function by function.

A no-op at every site is executed once for each event. Around it, the compiler may generate other code: it may inline
another function, or keep another variable in a register. Both are counted instruction by instruction under callgrind.
What changes in functions without a no-op, such as those of the host's libraries, is named by function: the profile does
not tell why. A second run of the untouched program shows which functions differ by themselves, as in a program that
hashes with a seed from the clock.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import listing, percent

_MOST = 12
"""Maximum number of functions in the table, those with most additional instructions first."""

MOST_ADDED = 0.01
"""Share of a run's instructions by which a build may change them, if the spec has no tolerance: as for totals."""

_NOTABLE = 1e-4
"""Minimum share of a run's instructions by which a function must differ to be named."""


_OWN = 2
"""Differences of so many times that of two runs of the untouched program, or less, may be its own."""

_CLONE = re.compile(r"(?:\.(?:constprop|isra|part|cold|lto_priv|localalias|llvm)(?:\.\d+)*)+$")

_KINDS = {
    "vector": "vector instructions",
    "call": "calls",
    "branch": "branches",
    "memory": "memory accesses",
    "other": "other instructions",
}
"""Kinds of instructions (`instrument.binaries.instruction_kinds`), as sentences name them."""


@dataclass(frozen=True)
class FunctionCost:
    """Instructions that one function executes in a run, in the untouched program and in the build without counting."""

    name: str
    file: str  # The program or its library, relative to the build; of the host's libraries, an absolute path
    before: int
    after: int
    no_ops: Mapping[str, int] = field(default_factory=dict)  # Executed no-ops, by metric
    # Additional executed instructions that are not no-ops, by kind: `vector`, `call`, `branch`, `memory`, `other`.
    kinds: Mapping[str, int] = field(default_factory=dict)
    spread: int = 0  # Difference between two runs of the untouched program

    @property
    def varies(self) -> bool:
        """Return whether the difference may be the program's own variation."""
        return self.spread > 0 and (not self.no_ops or abs(self.by_compiler) <= _OWN * self.spread)

    @property
    def by_compiler(self) -> int:
        """Return the additional instructions that are not no-ops; negative if the compiler saved some."""
        return self.after - self.before - sum(self.no_ops.values())

    @property
    def title(self) -> str:
        """Return the function's name, with its library if this is not built with the program."""
        return f"{self.name} of {PurePath(self.file).name}" if self.file.startswith("/") else self.name


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


@dataclass(frozen=True)
class Rewriting:
    """Instructions that the rewriting of a program adds to a run."""

    before: int  # Of the untouched program, libraries included
    after: int  # Of the build without counting
    functions: tuple[FunctionCost, ...]  # Those with no-ops or a difference
    per_event: int = 1  # No-ops for each event: as many as a place can hold increments

    @classmethod
    def of(
        cls,
        before: Mapping[tuple[str, str], int],
        after: Mapping[tuple[str, str], int],
        no_ops: Mapping[tuple[str, str], Mapping[str, int]],
        kinds: Mapping[tuple[str, str], Mapping[str, int]],
        per_event: int = 1,
        again: Mapping[tuple[str, str], int] | None = None,
    ) -> Rewriting:
        """Compare two runs: instructions by file and function; no-ops also by metric, all others also by kind.

        Parts and clones that the compiler makes of a function (`probe.isra.0`) belong to it. `again` is a second run of
        the untouched program, None if there is none.
        """
        parts: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for key in {*before, *after, *(again or {})}:
            parts[key[0], _CLONE.sub("", key[1])].append(key)
        costs = [
            FunctionCost(
                name,
                file,
                sum(before.get(key, 0) for key in keys),
                sum(after.get(key, 0) for key in keys),
                _summed(no_ops.get(key, {}) for key in keys),
                _summed(kinds.get(key, {}) for key in keys),
                0 if again is None else abs(sum(again.get(key, 0) - before.get(key, 0) for key in keys)),
            )
            for (file, name), keys in sorted(parts.items())
        ]
        whole = sum(before.values())
        # Of the host's libraries, some functions differ by a few instructions in any two runs.
        least = {True: _NOTABLE * whole, False: 0}
        changed = [
            cost
            for cost in costs
            if cost.file
            and (
                cost.no_ops
                or abs(cost.after - cost.before) > least[cost.file.startswith("/")]
                or cost.spread > least[True]
            )
        ]
        changed.sort(key=lambda cost: -abs(cost.after - cost.before))
        return cls(whole, sum(after.values()), tuple(changed), per_event)

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Rewriting:
        """Return what `to_dict` has written."""
        functions = tuple(FunctionCost(**cost) for cost in written["functions"])
        return cls(written["before"], written["after"], functions, written.get("per_event", 1))

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as JSON types."""
        return asdict(self)

    @property
    def no_ops(self) -> Mapping[str, int]:
        """Return the executed no-ops of each metric, most first."""
        total: Counter[str] = Counter()
        for cost in self.functions:
            total.update(cost.no_ops)
        return dict(total.most_common())

    def sentences(self, build: str) -> tuple[str, ...]:
        """Return how much a build adds, by which metrics, and which functions execute other code."""
        no_ops = self._share(sum(self.no_ops.values()))
        around = sum(cost.by_compiler for cost in self.functions if cost.no_ops)
        elsewhere = self.after - self.before - sum(self.no_ops.values()) - around
        parts = [
            f"{no_ops} are no-ops, {self._each} for each event",
            f"{self._share(around)} come from other code that the compiler generates around them",
        ]
        if abs(elsewhere) > _NOTABLE * self.before:
            parts.append(f"{self._share(elsewhere)} are in functions without a counted place that is executed")
        joined = f"{', '.join(parts[:-1])}, and {parts[-1]}"
        said = [f"Without counting, {build} executes {percent(self.after / self.before - 1)} instructions: {joined}."]
        if self.no_ops:
            shares = [f"{name} {self._share(count)}" for name, count in self.no_ops.items()]
            said.append(f"No-ops of {build} by metric: {', '.join(shares)}.")
        notable = [cost for cost in self.functions if abs(cost.by_compiler) > _NOTABLE * self.before]
        for heading, has_place in (("with other code", True), ("without a counted place that differ", False)):
            parts = [
                f"{cost.title} ({percent(cost.by_compiler / self.before)}{self._kinds(cost)})"
                for cost in notable
                if bool(cost.no_ops) is has_place and not cost.varies
            ][:_MOST]
            if parts:
                said.append(f"Functions of {build} {heading}: {listing(parts)}.")
        own = [f"{cost.title} ({percent(cost.spread / self.before).removeprefix('+')})" for cost in self._own()]
        if own:
            said.append(
                f"Two runs of the untouched program differ in {listing(own[:_MOST])}: the differences of {build} in "
                "these functions may be the program's own."
            )
        return tuple(said)

    def _own(self) -> Iterator[FunctionCost]:
        """Yield functions that differ by themselves, if by a notable number or if their difference is notable."""
        least = _NOTABLE * self.before
        for cost in sorted(self.functions, key=lambda cost: -cost.spread):
            if cost.spread > least or (cost.varies and abs(cost.by_compiler) > least):
                yield cost

    def split(self, subsets: Mapping[str, Sequence[str]], share: float) -> list[tuple[str, ...]]:
        """Return subsets of metrics in few groups that each change at most a share of the run's instructions.

        The changes of a group are its no-ops, and all other code of the functions that have its no-ops. Subsets with
        most changes come first, each into the first group with room (first fit, decreasing). A subset with more changes
        than that is a group of its own. Groups with fewest changes are returned first.
        """
        limit = share * self.before
        costs = {name: self.changes(metrics) for name, metrics in subsets.items()}
        groups: list[list[str]] = []
        for name in sorted(costs, key=lambda name: -costs[name]):
            with_room = (
                group
                for group in groups
                if self.changes([metric for one in (*group, name) for metric in subsets[one]]) <= limit
            )
            group = next(with_room, None)
            if group is None:
                groups.append([name])
            else:
                group.append(name)
        return [tuple(group) for group in reversed(groups)]

    def changes(self, metrics: Sequence[str]) -> int:
        """Return the no-ops of some metrics, with the instructions that functions with them execute more or less."""
        held = set(metrics)
        return sum(
            abs(cost.by_compiler) + sum(count for metric, count in cost.no_ops.items() if metric in held)
            for cost in self.functions
            if held & cost.no_ops.keys()
        )

    def _kinds(self, cost: FunctionCost) -> str:
        """Return the kinds of instructions that a function executes more or less often: `: memory +0.2 %`."""
        notable = [(kind, count) for kind, count in cost.kinds.items() if abs(count) > _NOTABLE * self.before]
        notable.sort(key=lambda item: -abs(item[1]))
        shown = ", ".join(f"{_KINDS[kind]} {percent(count / self.before)}" for kind, count in notable)
        return f": {shown}" if shown else ""

    def _share(self, instructions: int) -> str:
        """Return a part of the untouched program's instructions: `0.27 %`."""
        return percent(instructions / self.before).removeprefix("+")

    @property
    def _each(self) -> str:
        return "one" if self.per_event == 1 else str(self.per_event)

    def table(self, build: str) -> Table:
        """Return a table of a build's functions, those with most additional instructions first."""
        columns = (
            Column("function"),
            Column("instructions", "right", "of a run of the untouched program"),
            Column("added", "right", "by the build without counting"),
            Column("no-ops", "right", f"{self._each} for each event"),
            Column(
                "other",
                "right",
                "other code that the compiler generates around the no-ops; why in other functions, is not known",
            ),
            Column("metrics", meaning="with sites in this function"),
        )
        rows: list[Sequence[Cell | str]] = [
            [
                f"{cost.title} (differs between runs)" if cost.spread else cost.title,
                _count(cost.before),
                _count(cost.after - cost.before),
                _count(sum(cost.no_ops.values())),
                _count(cost.by_compiler),
                ", ".join(cost.no_ops),
            ]
            for cost in self.functions[:_MOST]
        ]
        return Table(columns, rows, f"Instructions that the rewriting adds to a run of {build}, by function")


def _count(number: int) -> Cell:
    return Cell(f"{number:,}", key=number)
