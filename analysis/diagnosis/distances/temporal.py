"""Temporal distance: the cost of turning one trace into another by deleting, inserting and moving events.

It is definition 4 in section III-C of the paper, which adapts a distance of Mannila and Ronkainen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.distances.counts import EventDistance, require_one_unit
from unperturbed.analysis.diagnosis.distances.temporal_search import (
    CheapestPath,
    Variant,
    best_matches,
    cells_of,
    search,
)
from unperturbed.analysis.diagnosis.events import TICKS_A_SECOND, EventTrace, EventType, shared_ids
from unperturbed.errors import DataError

EQUAL_TIME_S = Fraction(1, 10)
"""Default shift in time that costs as much as deleting and inserting the lightest event; viewers notice this shift."""

_FINEST = 10**9
"""Maximum denominator of the simple fractions that floats are read as, such as 1/10 for 0.1."""


@dataclass(frozen=True)
class Operation:
    """Operation of an edit script, in the paper's notation Ins(e, t), Del(e, t) or Move(e, t, t′).

    Attributes
    ----------
    kind : {"delete", "insert", "move"}
        The operation.
    event : EventType
        Type of the event.
    time : int or None
        Timestamp in the reference, as read; None for an insertion.
    new_time : int or None
        Timestamp in the trace, as read; None for a deletion.
    cost : float
        Cost, in the unit of the weights.
    """

    kind: Literal["delete", "insert", "move"]
    event: EventType
    time: int | None
    new_time: int | None
    cost: float


@dataclass(frozen=True, eq=False)
class EditScript:
    """Cheapest sequence of operations that turns the reference into the trace.

    A match that costs as much as a deletion and an insertion is replaced by these two operations.

    Attributes
    ----------
    reference, trace : EventTrace
        The traces.
    matches : array of int64, shape (matches, 2)
        Indices of matched events in the reference and in the trace; both increase.
    match_costs : array of float64, shape (matches,)
        Cost of each match's change in time.
    weights : mapping of EventType to float
        Weight w(e) of each event type.
    """

    reference: EventTrace
    trace: EventTrace
    matches: NDArray[np.int64]
    match_costs: NDArray[np.float64]
    weights: Mapping[EventType, float]

    @property
    def deleted(self) -> NDArray[np.int64]:
        """Indices of the reference's events that the trace lacks."""
        return np.delete(np.arange(len(self.reference)), self.matches[:, 0])

    @property
    def inserted(self) -> NDArray[np.int64]:
        """Indices of the trace's events that the reference lacks."""
        return np.delete(np.arange(len(self.trace)), self.matches[:, 1])

    @property
    def cost_in_time(self) -> float:
        """The total cost of moves."""
        return float(self.match_costs.sum())

    @property
    def cost_in_events(self) -> float:
        """The total cost of deletions and insertions."""
        return sum(self._edits().values())

    def by_type(self) -> dict[EventType, float]:
        """Return the cost of the operations on each event type, the largest first; types without a cost are omitted."""
        costs = self._edits()
        moved = np.bincount(self.reference.events[self.matches[:, 0]], self.match_costs, len(self.reference.types))
        for kind, cost in zip(self.reference.types, moved.tolist(), strict=True):
            costs[kind] += cost
        return dict(sorted(((kind, cost) for kind, cost in costs.items() if cost), key=lambda item: -item[1]))

    def operations(self, *, least_cost: float = 0.0) -> Iterator[Operation]:
        """Yield the operations that cost more than `least_cost`, in order."""
        row, column = 0, 0
        ends = np.array([[len(self.reference), len(self.trace)]], dtype=np.int64)
        costs = [*self.match_costs.tolist(), 0.0]
        for (next_row, next_column), cost in zip(np.vstack((self.matches, ends)).tolist(), costs, strict=True):
            for deleted in range(row, next_row):
                yield from self._edit("delete", deleted, least_cost)
            for inserted in range(column, next_column):
                yield from self._edit("insert", inserted, least_cost)
            if cost > least_cost:
                kind = self.reference.types[self.reference.events[next_row]]
                time, new_time = int(self.reference.timestamps[next_row]), int(self.trace.timestamps[next_column])
                yield Operation("move", kind, time, new_time, cost)
            row, column = next_row + 1, next_column + 1

    def _edit(self, kind: Literal["delete", "insert"], number: int, least_cost: float) -> Iterator[Operation]:
        trace = self.reference if kind == "delete" else self.trace
        event, time = trace.types[trace.events[number]], int(trace.timestamps[number])
        if self.weights[event] > least_cost:
            old, new = (time, None) if kind == "delete" else (None, time)
            yield Operation(kind, event, old, new, self.weights[event])

    def _edits(self) -> dict[EventType, float]:
        costs: dict[EventType, float] = {}
        for trace, numbers in ((self.reference, self.deleted), (self.trace, self.inserted)):
            counts = np.bincount(trace.events[numbers], minlength=len(trace.types)).tolist()
            for kind, number in zip(trace.types, counts, strict=True):
                costs[kind] = costs.get(kind, 0.0) + number * self.weights[kind]
        return costs


@dataclass(frozen=True, eq=False, repr=False)
class TemporalDistance(EventDistance):
    """The temporal distance of two traces; see `temporal_distance`.

    Attributes
    ----------
    total : float
        The cost of the cheapest sequence of operations.
    by_plugin : mapping of str to float
        Distance between the events of each plugin alone. Empty if not requested.
    variant : {"gaps", "paper", "mannila"}
        How the cost of a match is computed.
    move_cost : float
        V, the cost of each tick of the traces' unit.
    exact : bool
        Whether no solution outside the band can be cheaper, for all computed parts.
    """

    _called: ClassVar[str] = "temporal"

    total: float
    by_plugin: Mapping[str, float]
    variant: Variant
    move_cost: float
    exact: bool
    _traces: tuple[EventTrace, EventTrace]
    _path: CheapestPath | None
    _weights: Mapping[EventType, float]

    def script(self) -> EditScript:
        """Return operations that cost `total`, in twice the distance's time and in memory linear in the events.

        Raises
        ------
        DataError
            Only single plugins were compared.
        """
        if self._path is None:
            raise DataError(
                'there is no edit script, because only single plugins were compared: omit `per_plugin="only"`, or '
                "compare `trace.of(plugin)` of both traces"
            )
        matches = best_matches(self._path)
        cells = self._path.cells
        costs = (cells.costs(matches[:, 0], matches[:, 1]) * float(cells.unit)).astype(np.float64)
        return EditScript(*self._traces, matches, costs, self._weights)


def temporal_distance(
    reference: EventTrace,
    trace: EventTrace,
    *,
    move_cost: float | Fraction | None = None,
    weight: float | Mapping[str, float] = 1.0,
    variant: Variant = "gaps",
    band: int | None = None,
    per_plugin: bool | Literal["only"] = True,
) -> TemporalDistance:
    """Return the exact cost of turning the reference into the trace.

    Deleting or inserting an event e costs w(e); keeping an event in its order costs its change in time:

    `variant="gaps"`
        V·|(t_i − t_{i−1}) − (t'_j − t'_{j−1})|, the change of the time since the preceding event, for all i and j. This
        is a sound form of definition 4: a shift of the whole trace costs nothing, a delay costs once, where it arises,
        and an inserted event costs its weight and at most the change of one gap; later events are matched as before. It
        does not measure changes that leave gaps unchanged, such as a drift below one tick per event. A gap that grows
        by more than 2 w/V costs no more than 2 w.
    `variant="paper"`
        Literal definition 4. The cost is the same as above if i = j, else V·|t_i − t'_j|, with times counted from each
        trace's first event (the paper does not define t_0). After one inserted event, all later events cost their
        changes in time, not in gaps, and more the later they are; two fewer events and two more elsewhere return the
        path to the diagonal. It is not a metric.
    `variant="mannila"`
        V·|t_i − t'_j| for all i and j, with unchanged timestamps: the distance that the paper starts from (examples 3
        and 4). It is a metric. It measures a shift (example 5), and all events after a delay cost the delay again.

    If gaps were counted from the last *kept* event, an insertion would cost its weight alone. But then the cost of a
    match would depend on the preceding match, and no table of cells can represent that.

    Parameters
    ----------
    reference, trace : EventTrace
        Traces in the same unit. Blocks (`blocks.abstract`) are compared like events. Empty traces are allowed; then all
        events are inserted or deleted.
    move_cost : float or Fraction, optional
        V, the cost of each tick of the traces' unit. By default, 0.1 s (at least one tick) costs as much as deleting
        and inserting the lightest event, 2 w; if the unit is unknown, the longer trace's duration costs as much.
    weight : float or mapping of str to float
        w(e) for all events, or by name of the event's type; 1 for names that are not in the mapping.
    variant : {"gaps", "paper", "mannila"}, default "gaps"
        How the cost of a match is computed; see above.
    band : int, optional
        Maximum difference between the indices of matched events, beyond the traces' difference in length. The result is
        then an upper bound, and `exact` tells whether it is proven to be the distance. None searches all matches.
    per_plugin : bool or "only"
        Whether each plugin's events are also compared by themselves (section III-D). With "only", the whole traces are
        not compared, and `total` is the sum over plugins; use it for long traces, because time grows with the square of
        the length.

    Returns
    -------
    TemporalDistance
        The distance; its `script` computes the operations.

    Raises
    ------
    DataError
        Different units; times and weights that are too far apart for 62-bit integers.
    ValueError
        A V that is negative or exceeds 2 w(e) for some event ("it would always be better to do a deletion and an
        insertion"); a negative weight; a negative band; an unknown variant.

    Notes
    -----
    The recurrence of definition 4. V and all 2 w(e) are converted to simple fractions, and all costs are integers in a
    unit that divides them; so the result is exact and rounded once. Weights without a common unit are rounded to the
    cost of a fraction of a tick. Time is O(nm) on 32-bit vectors or O(k log m) for k matches that save cost, whichever
    is faster; traces that differ little are compared in a band that is proven to contain the cheapest path. Memory is
    O(n + m), also for the script.

    Example 4 costs 3 V + w(U) with `mannila` and V + w(U) with `paper`. The paper applies definition 4 to "the traces
    of example 2" and gets 0; it must mean those of example 5, because the traces of example 2 have different events.
    """
    require_one_unit((reference, trace))
    if variant not in get_args(Variant):
        raise ValueError(f"unknown variant {variant!r}: use one of {', '.join(get_args(Variant))}")
    if band is not None and band < 0:
        raise ValueError(f"`band` is {band}: use a number of events, 0 or more")
    types, _ = shared_ids((reference, trace))
    weights = _weights(types, weight)
    each_tick = _move_cost(move_cost, weights, max(reference.duration, trace.duration, 1), reference.unit)
    plugins = tuple(dict.fromkeys(kind.plugin for kind in types)) if per_plugin else ()

    def compare(source: EventTrace, other: EventTrace) -> CheapestPath:
        return search(cells_of(source, other, weights, each_tick, variant), band)

    whole = None if per_plugin == "only" else compare(reference, trace)
    if whole and len(plugins) == 1:
        parts = {plugins[0]: whole}
    else:
        parts = {plugin: compare(reference.of(plugin), trace.of(plugin)) for plugin in plugins}
    by_plugin = {plugin: part.cost for plugin, part in parts.items()}
    total = whole.cost if whole else sum(by_plugin.values())
    exact = all(part.exact for part in (*parts.values(), whole) if part)
    as_floats = {kind: float(of_type) for kind, of_type in weights.items()}
    return TemporalDistance(total, by_plugin, variant, float(each_tick), exact, (reference, trace), whole, as_floats)


def _fraction(value: float | Fraction, what: str) -> Fraction:
    """Return the simple fraction whose nearest float is the given number."""
    if isinstance(value, Fraction):
        exactly = value
    elif not np.isfinite(value):
        raise ValueError(f"{what} is {value}: use a finite number")
    else:
        exactly = Fraction(value).limit_denominator(_FINEST)
        if float(exactly) != float(value):
            exactly = Fraction(value)
    if exactly < 0:
        raise ValueError(f"{what} is {value}: use a number of 0 or more")
    return exactly


def _weights(types: tuple[EventType, ...], weight: float | Mapping[str, float]) -> dict[EventType, Fraction]:
    if not isinstance(weight, Mapping):
        return dict.fromkeys(types, _fraction(weight, "the weight of all events"))
    return {kind: _fraction(weight.get(kind.name, 1.0), f"the weight of {kind.name}") for kind in types}


def _move_cost(
    given: float | Fraction | None, weights: Mapping[EventType, Fraction], longest: int, unit: str
) -> Fraction:
    lightest = min(weights, key=weights.__getitem__, default=None)
    if given is None:
        least = Fraction(1) if lightest is None else weights[lightest]
        ticks = EQUAL_TIME_S * TICKS_A_SECOND[unit] if unit in TICKS_A_SECOND else Fraction(longest)
        return 2 * least / max(ticks, Fraction(1))
    move_cost = _fraction(given, "`move_cost`")
    if lightest is not None and move_cost > 2 * weights[lightest]:
        raise ValueError(
            f"`move_cost` is {float(move_cost):g} per tick, more than twice the weight of {lightest.name}, "
            f"{float(weights[lightest]):g}; deleting and inserting such an event would always cost less than moving "
            "it. Use a smaller `move_cost` or a larger weight."
        )
    return move_cost
