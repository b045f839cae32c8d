"""Traces abstracted into timestamped blocks of events, so that distances work on what events do together.

The paper, section V: a timestamped block is a pair (t, B), t the timestamp of the block's first event. It leaves the
distances on such traces to future work, with the idea "to consider occurrence of a block as a strict sequence of
events".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.diagnosis.events import EventTrace, EventType, by_first_occurrence, shared_ids
from unperturbed.errors import DataError

Block = tuple[EventType, ...]

_MODULE = "unperturbed.analysis.diagnosis.distances.kernels"
_COVER = ("const int32[::1], int64, const int64[::1], const int32[::1], const int32[::1]",)
_PAIRS = ("int32[::1], int64, int64, int64",)
_JOINED = " + "


@dataclass(frozen=True, eq=False)
class AbstractTrace:
    """A trace of timestamped blocks.

    Attributes
    ----------
    trace : EventTrace
        One event a block, at the time of the block's first event. A block's type is named by its events, joined by " +
        ", and has their plugin and level where they share one; a single event that no block covers keeps its type. All
        distances take it.
    sizes : int64, shape (blocks,)
        Events of each block.
    contents : tuple of Block
        The events of each of the trace's types.
    """

    trace: EventTrace
    sizes: NDArray[np.int64]
    contents: tuple[Block, ...]

    def __len__(self) -> int:
        """|T|, the number of blocks."""
        return len(self.trace)

    @property
    def size(self) -> int:
        """‖T‖, the number of events."""
        return int(self.sizes.sum())

    @property
    def weights(self) -> dict[str, float]:
        """Weights for the temporal distance, by name of the type: a block weighs as much as its events, 1 each."""
        return {kind.name: float(len(content)) for kind, content in zip(self.trace.types, self.contents, strict=True)}


def abstract(trace: EventTrace, dictionary: Iterable[Sequence[EventType | str]]) -> AbstractTrace:
    """Rewrite a trace into the fewest blocks.

    Parameters
    ----------
    trace : EventTrace
        The trace to rewrite.
    dictionary : iterable of sequence of EventType or str
        Blocks: strict sequences of events, by type or by the type's name. One with an event that the trace lacks does
        not occur.

    Returns
    -------
    AbstractTrace
        Blocks do not overlap; events that none covers stand alone. Of several ways with as few blocks, the one whose
        first blocks are the longest.

    Raises
    ------
    DataError
        A block without events, or a name that several types of the trace have.
    """
    blocks = _numbered(trace.types, dictionary)
    edges, targets, block_of = _tree(blocks, len(trace.types))
    events = np.require(trace.events, requirements=("C", "W"))  # what compiled code takes
    starts, chosen = compiled(_MODULE, "cover", _COVER)(events, max(len(trace.types), 1), edges, targets, block_of)
    sizes = np.diff(starts, append=len(trace)).astype(np.int64)
    # A block of one event is that event.
    single = len(trace.types)
    present, numbered = by_first_occurrence(np.where(chosen >= 0, chosen + single, trace.events[starts]))
    numbers = [blocks[code - single] if code >= single else (code,) for code in present]
    contents = tuple(tuple(trace.types[number] for number in block) for block in numbers)
    types = tuple(_type_of(block) for block in contents)
    made = replace(trace, timestamps=trace.timestamps[starts], events=numbered, types=types)
    return AbstractTrace(made, sizes, contents)


def learn_blocks(traces: Sequence[EventTrace], *, longest: int = 64, most: int = 1000) -> tuple[Block, ...]:
    """Return recurring sequences of events, with which traces are described in fewer symbols.

    Parameters
    ----------
    traces : sequence of EventTrace
        References, as a rule: what a trace does that they do not then stays visible event by event.
    longest : int, default 64
        Most events of a block. A loop's body would otherwise grow into two, four … turns of the loop.
    most : int, default 1000
        Most blocks.

    Returns
    -------
    tuple of Block
        In the order in which they were found, the most frequent pair of events first. Parts of blocks are among them,
        so that a trace that breaks a long one can still be described by its parts.

    Raises
    ------
    ValueError
        `longest` below 2 or `most` below 0.

    Notes
    -----
    Re-Pair (Larsson and Moffat): the most frequent pair of neighbours becomes one token, again and again, while that
    makes the description shorter, each token of traces and dictionary at log₂ of the number of different tokens. Time
    does not matter, as a block may be slow. Linear in the traces' length for each block.
    """
    if longest < 2 or most < 0:
        raise ValueError(
            f"longest is {longest} and most is {most}; give a longest of 2 events or more and a most of 0 blocks or "
            "more"
        )
    types, events = shared_ids(traces)
    end = np.array([-1], dtype=np.int32)
    tokens = np.concatenate([part for ids in events for part in (ids, end)] or [end])
    rules = compiled(_MODULE, "recurring_pairs", _PAIRS)(tokens, len(types), longest, most)
    meanings: list[tuple[int, ...]] = [(number,) for number in range(len(types))]
    for first, second in rules.tolist():
        meanings.append(meanings[first] + meanings[second])
    return tuple(dict.fromkeys(tuple(types[number] for number in meaning) for meaning in meanings[len(types) :]))


def _type_of(block: Block) -> EventType:
    if len(block) == 1:
        return block[0]
    plugins, levels = {kind.plugin for kind in block}, {kind.level for kind in block}
    return EventType(
        _JOINED.join(kind.name for kind in block),
        plugins.pop() if len(plugins) == 1 else "",
        levels.pop() if len(levels) == 1 else "",
    )


def _numbered(types: tuple[EventType, ...], dictionary: Iterable[Sequence[EventType | str]]) -> list[tuple[int, ...]]:
    """Return the blocks that can occur, as numbers of types."""
    numbers: dict[EventType | str, list[int]] = {}
    for number, kind in enumerate(types):
        numbers[kind] = [number]
        numbers.setdefault(kind.name, []).append(number)
    blocks: dict[tuple[int, ...], None] = {}
    for position, block in enumerate(dictionary):
        if isinstance(block, str) or not len(block):
            raise DataError(f"block {position} of the dictionary is {block!r}; give a sequence of one event or more")
        meant = [numbers.get(event, []) for event in block]
        for event, several in zip(block, meant, strict=True):
            if len(several) > 1:
                raise DataError(
                    f"block {position} of the dictionary names {event!r}, the name of several event types; give the "
                    "EventType"
                )
        if len(block) > 1 and all(meant):
            blocks[tuple(number for (number,) in meant)] = None
    return list(blocks)


def _tree(
    blocks: Sequence[tuple[int, ...]], types: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return a prefix tree of blocks: its edges in order, where each leads, and the block that ends at each node."""
    nodes: dict[int, int] = {}
    ends = [-1]
    for number, block in enumerate(blocks):
        node = 0
        for event in block:
            edge = node * types + event
            if edge not in nodes:
                nodes[edge] = len(ends)
                ends.append(-1)
            node = nodes[edge]
        ends[node] = number
    edges = np.array(sorted(nodes), dtype=np.int64)
    return edges, np.array([nodes[edge] for edge in edges.tolist()], dtype=np.int32), np.array(ends, dtype=np.int32)
