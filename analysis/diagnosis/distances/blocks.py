"""Traces abstracted into timestamped blocks, sequences of events that distances compare as units.

In the paper, section V, a timestamped block is a pair (t, B), where t is the timestamp of the block's first event. The
paper leaves distances between traces of blocks to future work, with the idea "to consider occurrence of a block as a
strict sequence of events".
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
    """Trace of timestamped blocks.

    Attributes
    ----------
    trace : EventTrace
        Trace with one event for each block, at the time of the block's first event; all distances accept it. The name
        of a block's type is its events' names, joined by " + ". It has their plugin and level if they share one. A
        single event outside any block keeps its type.
    sizes : int64, shape (blocks,)
        Number of events in each block.
    contents : tuple of Block
        The events in each of the trace's types.
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
        """Weights for the temporal distance, by name of type: a block's weight is its number of events."""
        return {kind.name: float(len(content)) for kind, content in zip(self.trace.types, self.contents, strict=True)}


def abstract(trace: EventTrace, dictionary: Iterable[Sequence[EventType | str]]) -> AbstractTrace:
    """Rewrite a trace as the smallest number of blocks.

    Parameters
    ----------
    trace : EventTrace
        The trace to rewrite.
    dictionary : iterable of sequence of EventType or str
        Blocks: strict sequences of events, given as types or as names of types. Blocks with an event that the trace
        lacks are ignored.

    Returns
    -------
    AbstractTrace
        Blocks without overlaps; events outside any block are single. Among rewrites with equally few blocks, the one
        with the longest first blocks is chosen.

    Raises
    ------
    DataError
        A block without events, or a name that several types of the trace share.
    """
    blocks = _numbered(trace.types, dictionary)
    edges, targets, block_of = _tree(blocks, len(trace.types))
    events = np.require(trace.events, requirements=("C", "W"))  # required by compiled code
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
    """Return recurring sequences of events that describe traces with fewer symbols.

    Parameters
    ----------
    traces : sequence of EventTrace
        Usually the references; then events that only the diagnosed trace has remain single and visible.
    longest : int, default 64
        Maximum number of events in a block. Without it, blocks of a loop's body would grow to two, four … iterations.
    most : int, default 1000
        Maximum number of blocks.

    Returns
    -------
    tuple of Block
        Blocks in the order of their discovery, the most frequent pair of events first. They include parts of other
        blocks, which describe a trace that breaks a long block.

    Raises
    ------
    ValueError
        `longest` below 2 or `most` below 0.

    Notes
    -----
    Re-Pair (Larsson and Moffat): repeatedly replace the most frequent pair of neighbours with a new token, while this
    shortens the description. Each token of traces and dictionary takes log₂ of the number of different tokens. Times do
    not matter, because a block may be slow. Each block takes time linear in the traces' length.
    """
    if longest < 2 or most < 0:
        raise ValueError(
            f"`longest` is {longest} and `most` is {most}: use 2 or more events for `longest`, and 0 or more blocks "
            "for `most`"
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
    """Return the blocks that can occur in a trace, as numbers of types."""
    numbers: dict[EventType | str, list[int]] = {}
    for number, kind in enumerate(types):
        numbers[kind] = [number]
        numbers.setdefault(kind.name, []).append(number)
    blocks: dict[tuple[int, ...], None] = {}
    for position, block in enumerate(dictionary):
        if isinstance(block, str) or not len(block):
            raise DataError(
                f"block {position} (counted from 0) of the dictionary is {block!r}: give a sequence of one or more "
                "events"
            )
        meant = [numbers.get(event, []) for event in block]
        for event, several in zip(block, meant, strict=True):
            if len(several) > 1:
                raise DataError(
                    f"block {position} (counted from 0) of the dictionary contains {event!r}, the name of several "
                    "event types: give the `EventType` instead"
                )
        if len(block) > 1 and all(meant):
            blocks[tuple(number for (number,) in meant)] = None
    return list(blocks)


def _tree(
    blocks: Sequence[tuple[int, ...]], types: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return a prefix tree of blocks: its sorted edges, their target nodes, and the block that ends at each node."""
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
