"""The temporal distance: what it costs to turn one trace into the other by deleting, inserting and moving events.

Section III-C of the paper, definition 4, and the distance of Mannila and Ronkainen that it adapts.
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
"""Default: moving an event by this costs as much as deleting and inserting the lightest one. Viewers notice as much."""

_FINEST = 10**9
"""Floats are read as fractions with denominators up to this where the fraction's float is the same: 0.1 as 1/10."""


@dataclass(frozen=True)
class Operation:
    """One operation of a script, as the paper writes them: Ins(e, t), Del(e, t), Move(e, t, t′).

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
        In the unit of the weights.
    """

    kind: Literal["delete", "insert", "move"]
    event: EventType
    time: int | None
    new_time: int | None
    cost: float


@dataclass(frozen=True, eq=False)
class EditScript:
    """A cheapest sequence of operations that turns the reference into the trace.

    A match that would cost as much as a deletion and an insertion is given as these two.

    Attributes
    ----------
    reference, trace : EventTrace
        The traces.
    matches : array of int64, shape (matches, 2)
        Indices of matched events of the reference and of the trace; both rise.
    match_costs : array of float64, shape (matches,)
        Cost of the change in time of each.
    weights : mapping of EventType to float
        w(e).
    """

    reference: EventTrace
    trace: EventTrace
    matches: NDArray[np.int64]
    match_costs: NDArray[np.float64]
    weights: Mapping[EventType, float]

    @property
    def deleted(self) -> NDArray[np.int64]:
        """Events of the reference that the trace lacks, by number."""
        return np.delete(np.arange(len(self.reference)), self.matches[:, 0])

    @property
    def inserted(self) -> NDArray[np.int64]:
        """Events of the trace that the reference lacks, by number."""
        return np.delete(np.arange(len(self.trace)), self.matches[:, 1])

    @property
    def cost_in_time(self) -> float:
        """The moves' total cost."""
        return float(self.match_costs.sum())

    @property
    def cost_in_events(self) -> float:
        """The total cost of deletions and insertions."""
        return sum(self._edits().values())

    def by_type(self) -> dict[EventType, float]:
        """Return the cost of the operations on each event type, the largest first, without types that cost nothing."""
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
        Of each plugin's events alone. Empty if not requested.
    variant : {"gaps", "paper", "mannila"}
        The cost of a match.
    move_cost : float
        V, for each tick of the traces' unit.
    exact : bool
        Whether nothing outside the band can be cheaper; for all parts that were computed.
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
        """Return operations that cost `total`, in twice the time of the distance and in memory linear in the traces.

        Raises
        ------
        DataError
            Only plugins were compared, each by itself.
        """
        if self._path is None:
            raise DataError(
                'only the plugins were compared, each by itself; leave out per_plugin="only",'
                " or compare trace.of(plugin)"
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
    """Return what it costs to turn the reference into the trace, exactly.

    Deleting or inserting an event e costs w(e); keeping it where it is in order costs what it is late or early:

    `variant="gaps"`
        V·|(t_i − t_{i−1}) − (t'_j − t'_{j−1})|, the change of the time since the event before, for all i and j. A sound
        form of definition 4: a shift of the whole trace costs nothing, a delay is paid once, where it arises, and an
        inserted event costs its weight and at most the change of one gap, so that what follows is matched as before.
        Blind to what does not change a gap: a drift below one tick an event; and a gap that grows by more than 2 w/V
        costs no more than 2 w.
    `variant="paper"`
        Definition 4 to the letter. Where i = j the same as above, elsewhere V·|t_i − t'_j|, times counted from each
        trace's first event (the paper leaves t_0 open). One inserted event makes all that follow pay for their times,
        not their gaps, and the further they are late the more; two events fewer and two more elsewhere bring the way
        back to the diagonal. Not a metric.
    `variant="mannila"`
        V·|t_i − t'_j| for all i and j, timestamps as they are: the distance that the paper starts from (examples 3 and
        4). A metric. Sees a shift (example 5), and all that follows a delay pays for it again.

    That a gap is counted from the last event that is *kept* would make an insertion cost its weight alone, but what a
    match costs then depends on the match before it, and no table of cells holds that.

    Parameters
    ----------
    reference, trace : EventTrace
        In the same unit. Blocks (`blocks.abstract`) are compared as events are. Empty traces are allowed: everything is
        inserted.
    move_cost : float or Fraction, optional
        V, weight a tick of the traces' unit. By default so that 0.1 s, or one tick where that is more, costs as much as
        the deletion and the insertion of the lightest event, 2 w; in ticks of an unknown unit, so that the longer
        trace's duration does.
    weight : float or mapping of str to float
        w(e) for all events, or by the name of the event's type; 1 for names that it lacks.
    variant : {"gaps", "paper", "mannila"}, default "gaps"
        The cost of a match, see above.
    band : int, optional
        Events are matched only if their indices differ by no more than this, beyond the difference in length; the
        result is an upper bound then, and `exact` tells whether it is proven to be the distance. None searches
        everything.
    per_plugin : bool or "only"
        Whether each plugin's events are compared by themselves too (section III-D). With "only", the traces as a whole
        are not compared, and `total` is the plugins' sum: for long traces, as the time grows with the square of the
        length.

    Returns
    -------
    TemporalDistance
        With the edit script on request.

    Raises
    ------
    DataError
        Different units; times and weights that are too far apart for whole numbers of 62 bits.
    ValueError
        A V that is negative or more than 2 w(e) for some event ("it would always be better to do a deletion and an
        insertion"); a negative weight; a negative band; an unknown variant.

    Notes
    -----
    Recurrence of definition 4. All numbers are whole ones in a unit that divides V and all 2 w(e), which are taken as
    the simple fractions that they are; so the result is exact, rounded once. Weights that no unit divides are rounded
    to what a fraction of a tick costs. O(nm) time on vectors of 32 bits, or O(k log m) for k matches that save
    something, whichever is faster; traces that differ little are compared in a band that is proven to hold the cheapest
    way. O(n + m) memory, for the script too.

    Example 4 costs 3 V + w(U) as `mannila` and V + w(U) as `paper`. The paper applies definition 4 to "the traces of
    example 2" and gets 0; it must mean those of example 5, as the ones of example 2 have different events.
    """
    require_one_unit((reference, trace))
    if variant not in get_args(Variant):
        raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, not {variant!r}")
    if band is not None and band < 0:
        raise ValueError(f"band must be a number of events, 0 or more, not {band}")
    types, _ = shared_ids((reference, trace))
    weights = _weights(types, weight)
    each_tick = _move_cost(move_cost, weights, max(reference.duration, trace.duration, 1), reference.unit)
    plugins = tuple(dict.fromkeys(kind.plugin for kind in types)) if per_plugin else ()

    def compare(one: EventTrace, other: EventTrace) -> CheapestPath:
        return search(cells_of(one, other, weights, each_tick, variant), band)

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
    """Return a number as the simple fraction whose nearest float it is."""
    if isinstance(value, Fraction):
        exactly = value
    elif not np.isfinite(value):
        raise ValueError(f"{what} is {value}; give a finite number")
    else:
        exactly = Fraction(value).limit_denominator(_FINEST)
        if float(exactly) != float(value):
            exactly = Fraction(value)
    if exactly < 0:
        raise ValueError(f"{what} is {value}; give a cost of 0 or more")
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
    move_cost = _fraction(given, "move_cost")
    if lightest is not None and move_cost > 2 * weights[lightest]:
        raise ValueError(
            f"move_cost is {float(move_cost):g} a tick and {lightest.name} weighs {float(weights[lightest]):g}, but V "
            "≤ 2 w(e) must hold: otherwise deleting and inserting an event would always be better than moving it. "
            "Give a smaller move_cost or a larger weight."
        )
    return move_cost
