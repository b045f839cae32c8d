"""Which events of a pass lead, and which are to be in one pass: passes packed by trying.

Some events are counted only behind another one that leads their group (Intel's topdown events behind `slots`): it is
added where nobody asked for it. Events that share a leader, and metrics that something is computed from interval by
interval, are put into one pass where they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from unperturbed.collectors.sources import Event, Source

_TWO_LEADERS = "they need two leaders ({}), and a run has one group"

Trial = Callable[[Sequence[Event]], str | None]
"""Opens events that are arranged; returns why they cannot be counted together, or None."""


@dataclass(frozen=True)
class Leaders:
    """The leaders of events."""

    of: Mapping[str, Event]  # By the name of each event that needs one

    @classmethod
    def needed(cls, events: Sequence[Event], source: Source) -> Leaders:
        """Ask a source for the leaders of events."""
        return cls({event.name: lead for event in events if (lead := source.leader(event)) is not None})

    def arrange(self, events: Sequence[Event], *, turns: bool = False) -> list[Event] | str:
        """Return events in the order in which they are opened, leaders before those that follow them.

        `events`: The events of a pass, in the order in which they were asked for.
        `turns`: Events take turns on the counters: each leads a group of its own, or follows.
        Result: With the leaders that nobody asked for; or why they cannot be in one run.
        """
        led: dict[tuple[object, ...], list[Event]] = {}
        for event in events:
            if lead := self.of.get(event.name):
                asked = next((one for one in events if one.counted == lead.counted), lead)
                led.setdefault(lead.counted, [asked]).append(replace(event, follows=True) if turns else event)
        if len(led) > 1 and not turns:
            return _TWO_LEADERS.format(", ".join(group[0].name for group in led.values()))
        placed = [event for group in led.values() for event in group]
        names = {event.name for event in placed}
        return [*placed, *(event for event in events if event.name not in names)]

    def alike(self, events: Sequence[Event]) -> list[frozenset[str]]:
        """Return the names of events that share a leader, with its own name if it is among them."""
        sets: dict[tuple[object, ...], set[str]] = {}
        for event in events:
            if lead := self.of.get(event.name):
                asked = {one.name for one in events if one.counted == lead.counted}
                sets.setdefault(lead.counted, asked).add(event.name)
        return [frozenset(names) for names in sets.values()]


def pack(
    events: Sequence[Event], shared_names: frozenset[str], together: Sequence[frozenset[str]], trial: Trial
) -> tuple[list[list[Event]], dict[str, str]]:
    """Group events by first fit into what can be counted together all the time, the shared ones in every group.

    `shared_names`: Names of those that every group holds, as many as fit together, the first ones before the others.
    `together`: Names that shall be in one group. A set that does not fit one is divided. An event may be in several
    groups for it.
    Result: The groups.
    Result: Why an event is in none: it leaves no room for the shared ones.
    """
    shared = [event for event in events if event.name in shared_names]
    while shared and trial(shared):
        shared.pop()
    named = ", ".join(event.name for event in shared)
    groups: list[list[Event]] = [[*shared]] if shared else []
    refused = {}
    for unit in _units(events, together):
        if any(all(event in group for event in unit) for group in groups):
            continue
        problem = _place(unit, groups, shared, trial)
        if problem and len(unit) == 1:
            refused[unit[0].name] = f"{problem} (with {named}, which every pass shares)"
    return groups, refused


def _units(events: Sequence[Event], together: Sequence[frozenset[str]]) -> Iterator[list[Event]]:
    """Yield what is placed at once: the sets, the larger before the smaller, then each event."""
    for names in sorted(together, key=len, reverse=True):
        unit = [event for event in events if event.name in names]
        if len(unit) > 1:
            yield unit
    yield from ([event] for event in events)


def _place(unit: list[Event], groups: list[list[Event]], shared: Sequence[Event], trial: Trial) -> str | None:
    """Add a unit to the first group that has room for it, or to a new one; return why neither is possible."""
    for group in groups:
        more = [event for event in unit if event not in group]
        if trial([*group, *more]) is None:
            group.extend(more)
            return None
    new = [*shared, *(event for event in unit if event not in shared)]
    problem = trial(new)
    if problem is None:
        groups.append(new)
    return problem
