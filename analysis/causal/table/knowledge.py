"""Prior knowledge: an order of the variables, required edges, forbidden edges (Lemeire et al., section 5).

Tiers say more here than which way an edge points. What lies later than both ends of an edge can neither carry nor block
their dependence, and no set with such a variable is asked about them. That is what keeps T = #op·C, which makes
{T, #op} tell C exactly, from separating C from its causes.
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
    """Prior knowledge of a model.

    Attributes
    ----------
    tiers : sequence of sequences of str
        Variables in the order of causes: none of a tier is caused by one of a later tier. In one tier anything goes. A
        variable in no tier is bound by none.
    required : sequence of (source, target)
        Edges that the model has.
    forbidden : sequence of (source, target)
        Edges that the model has not; the opposite edge stays possible. A pair that is forbidden both ways is never
        tested.
    inputs : sequence of str
        Parameters that were set: nothing causes them. As if they were forbidden all edges to them.
    outputs : sequence of str
        What is only an effect, as the time taken and partial derivatives: it causes nothing.
    definitions : mapping of str to sequence of str
        For each derived variable the columns it is computed from (`derive` gives them). These edges are required, and
        the derived one has no other cause. One that is computed from several adds nothing to what these say, and causes
        nothing either, unless its tier is before others or it is required to: instr and instr / #op determine #op,
        which would separate #op from all its effects. `restricted_to` drops definitions some of whose columns are not
        there.

    Raises
    ------
    DataError
        A variable in two tiers, an edge from a variable to itself, an edge both required and impossible, required edges
        that form a circle.
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
        _settle(self, "inputs", _names(self.inputs, "inputs"))
        _settle(self, "outputs", _names(self.outputs, "outputs"))
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
        """All variables that it names."""
        edges = {name for edge in (*self.required, *self.forbidden) for name in edge}
        made = {name for target, parts in self.definitions.items() for name in (target, *parts)}
        return frozenset({*self._tier, *edges, *self.inputs, *self.outputs, *made})

    def tier(self, name: str) -> int | None:
        """Return a variable's tier, from 0, or None."""
        return self._tier.get(name)

    def requires(self, source: str, target: str) -> bool:
        """Tell whether this edge must be there."""
        return (source, target) in self._required

    def required_edges(self) -> tuple[Arrow, ...]:
        """Return all edges that must be there, those of definitions included, in order of names."""
        return tuple(sorted(self._required))

    def is_definitional(self, source: str, target: str) -> bool:
        """Tell whether a variable is computed from another."""
        return source in self.definitions.get(target, ())

    def allows(self, source: str, target: str) -> bool:
        """Tell whether this edge may be there."""
        return not self._why_not(source, target)

    def precedes(self, one: str, other: str) -> bool:
        """Tell whether a variable certainly comes before another: as an input, by its tier, or as a required cause."""
        first, last = self.tier(one), self.tier(other)
        earlier = first is not None and last is not None and first < last
        return (one in self.inputs and other not in self.inputs) or earlier or self.requires(one, other)

    def never_adjacent(self, one: str, other: str) -> bool:
        """Tell whether no edge between two variables may be there, so that nothing needs be tested."""
        return not self.allows(one, other) and not self.allows(other, one)

    def always_adjacent(self, one: str, other: str) -> bool:
        """Tell whether an edge between two variables must be there."""
        return self.requires(one, other) or self.requires(other, one)

    def may_condition(self, member: str, one: str, other: str) -> bool:
        """Tell whether a variable may be in a set that separates two others: not later than both, and no mere result of
        several. Where one of the two is in no tier, it could be the last."""
        if member in self._results:
            return False
        if member in self.outputs and one not in self.outputs and other not in self.outputs:
            return False
        own, first, last = self.tier(member), self.tier(one), self.tier(other)
        return own is None or first is None or last is None or own <= max(first, last)

    def causal_order_key(self, name: str) -> tuple[int, int]:
        """Return a sort key by which causes come before effects, as far as is known: inputs, tiers, outputs."""
        tier = self.tier(name)
        if name in self.inputs:
            return 0, -1 if tier is None else tier
        return (2 if name in self.outputs else 1), len(self.tiers) if tier is None else tier

    def restricted_to(
        self, variables: Collection[str], left_out: Collection[str] = (), constant: Collection[str] = ()
    ) -> Knowledge:
        """Return the knowledge restricted to some variables.

        A definition stays where all its columns are variables, or constant. One that lacks others says nothing of what
        is left: C_op = C / ops without C is what an operation costs, and no effect of ops. Its causes are learnt.

        Parameters
        ----------
        variables : collection of str
            Those of the model.
        left_out : collection of str
            Columns that the table has, and that are not variables of the model: constants and duplicates.
        constant : collection of str
            Those of them that have the same value in all rows.

        Raises
        ------
        DataError
            It speaks of what is neither. A definition may use columns that were not analysed, and then says nothing of
            these.
        """
        parts = {part for used in self.definitions.values() for part in used}
        elsewhere = replace(self, definitions={}).names
        for name in sorted(self.names):
            if name not in variables and name not in left_out and (name in elsewhere or name not in parts):
                raise DataError(
                    "the knowledge names variables that the table does not have: "
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
        """Return why an edge cannot be there; empty where it can."""
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
                f"{source} is computed from variables that are all here, and adds nothing to them",
            ),
            (self.requires(target, source), f"the edge from {target} to {source} is required"),
            (source not in made_of, f"{target} is computed from {' and '.join(made_of) or 'nothing'}"),
        )
        return next((why for holds, why in faults if holds), "")

    def _check(self) -> None:
        for source, target in self.required_edges():
            reason = "given by a definition" if self.is_definitional(source, target) else "required"
            if why := self._why_not(source, target):
                raise DataError(
                    f"the edge from {source} to {target} is {reason} and cannot be: {why}; remove one of the two"
                )
        if circle := _circle(self._required):
            raise DataError(f"required edges form a cycle: {' → '.join(circle)}; remove one of them")


def _settle(knowledge: Knowledge, name: str, value: object) -> None:
    object.__setattr__(knowledge, name, value)


def _names(given: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise DataError(f'{what} must be a list of names: write ["{given}"]')
    found = tuple(given)
    for name in found:
        if not isinstance(name, str):
            raise DataError(f"{what} must be a list of names; {name!r} is not a name")
        if found.count(name) > 1:
            raise DataError(f"{what} names {name} twice")
    return found


def _edges(given: Iterable[Arrow], what: str) -> tuple[Arrow, ...]:
    found = []
    for edge in given:
        ends = () if isinstance(edge, str) else tuple(edge)
        if len(ends) != 2 or not all(isinstance(end, str) for end in ends):
            raise DataError(f"{what} edges must be pairs of names, the cause first; {edge!r} is not a pair")
        found.append((ends[0], ends[1]))
    return tuple(dict.fromkeys(found))


def _numbered(tiers: Sequence[Sequence[str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, tier in enumerate(tiers):
        for name in tier:
            if name in found:
                raise DataError(f"{name} is in tier {found[name] + 1} and in tier {number + 1}; keep it in one")
            found[name] = number
    return found


def _circle(edges: Collection[Arrow]) -> list[str]:
    """Return the names along a directed circle, the first one again at the end; empty where there is none."""
    causes: dict[str, list[str]] = {}
    for source, target in sorted(edges):
        causes.setdefault(target, []).append(source)
    try:
        TopologicalSorter(causes).prepare()
    except CycleError as error:
        names = error.args[1][:-1]  # causes first; it begins where the search closed the circle
        start = names.index(min(names))
        return [*names[start:], *names[: start + 1]]
    return []
