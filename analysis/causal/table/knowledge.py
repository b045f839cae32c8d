"""Prior knowledge: an order of the variables, required edges, forbidden edges (Lemeire et al., section 5).

Tiers do more than direct edges. A variable that comes after both ends of an edge can neither carry nor block their
dependence, so no conditioning set for the two contains such a variable. This keeps {T, #op}, which determines C because
T = #op·C, from separating C from its causes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter

from unperturbed.common.wording import no_such_column
from unperturbed.errors import DataError

Arrow = tuple[str, str]
"""The source and the target of a directed edge."""


@dataclass(frozen=True)
class Knowledge:
    """Prior knowledge about the variables of a model and their edges.

    Attributes
    ----------
    tiers : sequence of sequences of str
        Variables in causal order: a variable of a later tier never causes one of an earlier tier. Within a tier, any
        direction is possible. A variable in no tier is not restricted.
    required : sequence of (source, target)
        Edges that the model must have.
    forbidden : sequence of (source, target)
        Edges that the model must not have; the opposite edge stays possible. A pair that is forbidden both ways is
        never tested.
    inputs : sequence of str
        Input parameters of the experiment, which nothing else causes: all edges to them are forbidden.
    outputs : sequence of str
        Variables that are only effects, such as the time taken and partial derivatives: they cause nothing.
    definitions : mapping of str to sequence of str
        For each derived variable, the columns that it is computed from (`derive` returns them). These edges are
        required, and the derived variable has no other cause. If it is computed from several columns, it adds no
        information to them, and causes nothing unless its tier is before others or an edge from it is required: instr
        and instr / #op determine #op, which would separate #op from all its effects. `restricted_to` drops definitions
        with missing columns.

    Raises
    ------
    DataError
        A variable in two tiers; an edge from a variable to itself; an edge both required and impossible; a cycle of
        required edges.
    """

    tiers: Sequence[Sequence[str]] = ()
    required: Sequence[Arrow] = ()
    forbidden: Sequence[Arrow] = ()
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    definitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _tier: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _required: frozenset[Arrow] = field(init=False, repr=False, compare=False)
    _forbidden: frozenset[Arrow] = field(init=False, repr=False, compare=False)
    _results: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _settle(self, "tiers", tuple(_names(tier, f"tier {number}") for number, tier in enumerate(self.tiers, 1)))
        _settle(self, "required", _edges(self.required, "required"))
        _settle(self, "forbidden", _edges(self.forbidden, "forbidden"))
        _settle(self, "inputs", _names(self.inputs, "`inputs`"))
        _settle(self, "outputs", _names(self.outputs, "`outputs`"))
        made = {name: _names(parts, f"the definition of {name}") for name, parts in self.definitions.items()}
        _settle(self, "definitions", made)
        _settle(self, "_tier", _numbered(self.tiers))
        definitional = {(part, name) for name, parts in made.items() for part in parts}
        _settle(self, "_required", frozenset({*self.required, *definitional}))
        _settle(self, "_forbidden", frozenset(self.forbidden))
        causing, last = {source for source, _ in self._required}, len(self.tiers) - 1
        results = (name for name, parts in made.items() if len(parts) > 1 and name not in causing)
        _settle(self, "_results", frozenset(name for name in results if self.tier(name) in (None, last)))
        self._check()

    @property
    def names(self) -> frozenset[str]:
        """All variables that the knowledge names."""
        edges = {name for edge in (*self.required, *self.forbidden) for name in edge}
        made = {name for target, parts in self.definitions.items() for name in (target, *parts)}
        return frozenset({*self._tier, *edges, *self.inputs, *self.outputs, *made})

    def tier(self, name: str) -> int | None:
        """Return a variable's tier, counted from 0; None if it is in no tier."""
        return self._tier.get(name)

    def requires(self, source: str, target: str) -> bool:
        """Return whether an edge is required."""
        return (source, target) in self._required

    def required_edges(self) -> tuple[Arrow, ...]:
        """Return all required edges, including those of definitions, in order of names."""
        return tuple(sorted(self._required))

    def is_definitional(self, source: str, target: str) -> bool:
        """Return whether a variable is computed from another."""
        return source in self.definitions.get(target, ())

    def allows(self, source: str, target: str) -> bool:
        """Return whether an edge is possible."""
        return not self._why_not(source, target)

    def precedes(self, one: str, other: str) -> bool:
        """Return whether a variable certainly comes before another: as an input, by tier, or as a required cause."""
        first, last = self.tier(one), self.tier(other)
        earlier = first is not None and last is not None and first < last
        return (one in self.inputs and other not in self.inputs) or earlier or self.requires(one, other)

    def never_adjacent(self, one: str, other: str) -> bool:
        """Return whether two variables cannot have an edge, in either direction, so no test is needed."""
        return not self.allows(one, other) and not self.allows(other, one)

    def always_adjacent(self, one: str, other: str) -> bool:
        """Return whether an edge between two variables is required."""
        return self.requires(one, other) or self.requires(other, one)

    def may_condition(self, member: str, one: str, other: str) -> bool:
        """Return whether a variable may be in a set that separates two others.

        It must not come after both, and must not be a mere result of several variables. If one of the two is in no
        tier, it could be the last.
        """
        if member in self._results:
            return False
        if member in self.outputs and one not in self.outputs and other not in self.outputs:
            return False
        own, first, last = self.tier(member), self.tier(one), self.tier(other)
        return own is None or first is None or last is None or own <= max(first, last)

    def causal_order_key(self, name: str) -> tuple[int, int]:
        """Return a sort key that puts causes before effects, as far as known: inputs, then tiers, then outputs."""
        tier = self.tier(name)
        if name in self.inputs:
            return 0, -1 if tier is None else tier
        return (2 if name in self.outputs else 1), len(self.tiers) if tier is None else tier

    def restricted_to(
        self, variables: Collection[str], left_out: Collection[str] = (), constant: Collection[str] = ()
    ) -> Knowledge:
        """Return the knowledge restricted to some variables.

        A definition stays if all its columns are variables or constant. If other columns are missing, it implies
        nothing about the rest: without C, C_op = C / ops is the cost of an operation, and not an effect of ops. Its
        causes are then learnt.

        Parameters
        ----------
        variables : collection of str
            Variables of the model.
        left_out : collection of str
            Columns of the table that are not variables of the model: constants and duplicates.
        constant : collection of str
            Columns of `left_out` with the same value in all rows.

        Raises
        ------
        DataError
            The knowledge names columns that are neither. Only definitions may use columns that were not analysed.
        """
        parts = {part for used in self.definitions.values() for part in used}
        elsewhere = replace(self, definitions={}).names
        for name in sorted(self.names):
            if name not in variables and name not in left_out and (name in elsewhere or name not in parts):
                raise DataError(
                    "the knowledge names a variable that the table does not have: "
                    f"{no_such_column(name, sorted(variables))}"
                )
        kept = set(variables)
        varied = {
            target: tuple(part for part in parts if part in kept or part not in constant)
            for target, parts in self.definitions.items()
            if target in kept
        }
        return Knowledge(
            tiers=[[name for name in tier if name in kept] for tier in self.tiers],
            required=[edge for edge in self.required if kept.issuperset(edge)],
            forbidden=[edge for edge in self.forbidden if kept.issuperset(edge)],
            inputs=[name for name in self.inputs if name in kept],
            outputs=[name for name in self.outputs if name in kept],
            definitions={target: parts for target, parts in varied.items() if parts and kept.issuperset(parts)},
        )

    def _why_not(self, source: str, target: str) -> str:
        """Return why an edge is impossible; empty if it is possible."""
        first, last = self.tier(source), self.tier(target)
        late = first is not None and last is not None and first > last
        made_of = self.definitions.get(target, (source,))
        faults = (
            (source == target, "it leads from a variable to itself"),
            ((source, target) in self._forbidden, "it is forbidden"),
            (late, f"{source} is in tier {(first or 0) + 1}, after {target} in tier {(last or 0) + 1}"),
            (target in self.inputs, f"{target} is an input, which nothing causes"),
            (source in self.outputs, f"{source} is an output, which causes nothing"),
            (
                source in self._results,
                f"{source} is computed from variables of the model, and adds no information",
            ),
            (self.requires(target, source), f"the edge from {target} to {source} is required"),
            (source not in made_of, f"{target} is computed only from {' and '.join(made_of) or 'nothing'}"),
        )
        return next((why for holds, why in faults if holds), "")

    def _check(self) -> None:
        for source, target in self.required_edges():
            reason = "given by a definition" if self.is_definitional(source, target) else "required"
            if why := self._why_not(source, target):
                remove = "one of the two rules" if source != target else "this edge"
                raise DataError(
                    f"the edge from {source} to {target} is {reason} but impossible: {why}; remove {remove}"
                )
        if circle := _circle(self._required):
            raise DataError(f"required edges form a cycle: {' → '.join(circle)}; remove one of these edges")


def _settle(knowledge: Knowledge, name: str, value: object) -> None:
    object.__setattr__(knowledge, name, value)


def _names(given: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise DataError(f'{what} must be a list of names: write ["{given}"]')
    names = tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise DataError(f"{what} must be a list of names; {name!r} is not a name")
        if names.count(name) > 1:
            raise DataError(f"{what} names {name} twice: name it only once")
    return names


def _edges(given: Iterable[Arrow], what: str) -> tuple[Arrow, ...]:
    edges = []
    for edge in given:
        ends = () if isinstance(edge, str) else tuple(edge)
        if len(ends) != 2 or not all(isinstance(end, str) for end in ends):
            raise DataError(f"{what} edges must be pairs of names, the cause first; {edge!r} is not a pair of names")
        edges.append((ends[0], ends[1]))
    return tuple(dict.fromkeys(edges))


def _numbered(tiers: Sequence[Sequence[str]]) -> dict[str, int]:
    tier_of: dict[str, int] = {}
    for number, tier in enumerate(tiers):
        for name in tier:
            if name in tier_of:
                raise DataError(
                    f"{name} is in tier {tier_of[name] + 1} and in tier {number + 1}: keep it in only one tier"
                )
            tier_of[name] = number
    return tier_of


def _circle(edges: Collection[Arrow]) -> list[str]:
    """Return the names along a directed cycle, with the first name again at the end; empty if there is no cycle."""
    causes: dict[str, list[str]] = {}
    for source, target in sorted(edges):
        causes.setdefault(target, []).append(source)
    try:
        TopologicalSorter(causes).prepare()
    except CycleError as error:
        names = error.args[1][:-1]  # causes first; starts where the search closed the cycle
        start = names.index(min(names))
        return [*names[start:], *names[: start + 1]]
    return []
