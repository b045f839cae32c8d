"""The compiled loops of blocks: recurring pairs become one token (Re-Pair), and a trace is covered by fewest blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unperturbed.analysis.compiling import compilable

_EMPTY = -1


@compilable
def _slot(keys: Any, key: Any) -> Any:
    """Return the slot of a key in a hash table of a power of two slots, or the free one where it belongs."""
    mask = len(keys) - 1
    at = ((key * 0x1E3779B97F4A7C15) >> 20) & mask
    while keys[at] not in (_EMPTY, key):
        at = (at + 1) & mask
    return at


@compilable
def _count(keys: Any, counts: Any, filled: int, first: Any, second: Any, more: int) -> Any:
    """Add to the count of a pair; the hash table is doubled when it is half full."""
    if first < 0 or second < 0:  # nothing pairs with the end of a trace
        return keys, counts, filled
    key = (np.int64(first) << 32) | np.int64(second)
    at = _slot(keys, key)
    if keys[at] == _EMPTY:
        keys[at] = key
        filled += 1
    counts[at] += more
    if 2 * filled < len(keys):
        return keys, counts, filled
    wider, wider_counts = np.full(2 * len(keys), _EMPTY, np.int64), np.zeros(2 * len(keys), np.int64)
    filled = 0
    for old in range(len(keys)):
        if keys[old] != _EMPTY and counts[old] > 0:
            new = _slot(wider, keys[old])
            wider[new], wider_counts[new] = keys[old], counts[old]
            filled += 1
    return wider, wider_counts, filled


def recurring_pairs(tokens: Any, types: int, longest: int, most: int) -> Any:
    """Replace the most frequent pair of neighbours by a new token, as long as the description gets shorter (Re-Pair).

    The description is the tokens and the two of each rule, at log₂ of the number of different tokens each.

    `tokens`: array of int32, shape (tokens,). Types of events, from 0; −1 after each trace. It is overwritten.
    Result: array of int32, shape (rules, 2). The pair that each token from `types` on represents.
    """
    rules = np.empty((most, 2), np.int32)
    lengths = np.ones(types + most, np.int64)
    keys, counts, filled = np.full(1 << 16, _EMPTY, np.int64), np.zeros(1 << 16, np.int64), 0
    size, present = len(tokens), 0
    for at in range(size):
        present += tokens[at] >= 0
        if at + 1 < size:
            keys, counts, filled = _count(keys, counts, filled, tokens[at], tokens[at + 1], 1)
    made = 0
    # Each turn replaces the most frequent pair, while the description gets shorter. The table's counts stay those of
    # the tokens: replacing a pair only changes the pairs with the tokens before and after it.
    while made < most:
        best, best_count = np.int64(_EMPTY), np.int64(0)
        for place in range(len(keys)):
            key, count = keys[place], counts[place]
            better = count > best_count or (count == best_count and key < best)
            if key != _EMPTY and count > 0 and better and lengths[key >> 32] + lengths[key & 0xFFFFFFFF] <= longest:
                best, best_count = key, count
        different, described = types + made, present + 2 * made
        shorter = (described - best_count + 2) * math.log2(different + 1)
        if best == _EMPTY or shorter >= described * math.log2(max(different, 2)):
            break
        first, second, new = np.int32(best >> 32), np.int32(best & 0xFFFFFFFF), np.int32(types + made)
        rules[made, 0], rules[made, 1] = first, second
        lengths[new] = lengths[first] + lengths[second]
        written, at = 0, 0
        while at < size:
            if at + 1 < size and tokens[at] == first and tokens[at + 1] == second:
                before = tokens[written - 1] if written else np.int32(-1)
                after = tokens[at + 2] if at + 2 < size else np.int32(-1)
                keys, counts, filled = _count(keys, counts, filled, before, first, -1)
                keys, counts, filled = _count(keys, counts, filled, before, new, 1)
                keys, counts, filled = _count(keys, counts, filled, second, after, -1)
                keys, counts, filled = _count(keys, counts, filled, new, after, 1)
                tokens[written] = new
                present -= 1
                at += 2
            else:
                tokens[written] = tokens[at]
                at += 1
            written += 1
        size = written
        counts[_slot(keys, best)] = 0
        made += 1
    return rules[:made]


def cover(events: Any, types: int, edges: Any, targets: Any, block_of: Any) -> Any:
    """Cut a trace into the fewest blocks and single events; of equally few, the first block is the longest.

    `events`: array of int32, shape (events,). Types of the trace's events.
    `edges`: array of int64, shape (edges,). Of a prefix tree of the blocks, sorted: node × types + event. The root is
    0.
    `targets`: array of int32, shape (edges,). The node to which each edge leads.
    `block_of`: array of int32, shape (nodes,). The block that ends at a node, −1 where none does.
    Result `starts`: int64, shape (blocks,). The first event of each block.
    Result `blocks`: int32, shape (blocks,). Which block it is, −1 for a single event.
    """
    size = len(events)
    fewest, taken, chosen = np.zeros(size + 1, np.int64), np.ones(size, np.int64), np.full(size, -1, np.int32)
    # From the end: fewest[start] is the least number of pieces for the events from `start` on, taken[start] the length
    # of the first piece. The prefix tree gives all blocks that begin there; a longer one that is as good replaces a
    # shorter one.
    for start in range(size - 1, -1, -1):
        fewest[start] = fewest[start + 1] + 1
        node, at = np.int64(0), start
        while at < size:
            edge = node * types + events[at]
            place = np.searchsorted(edges, edge)
            if place == len(edges) or edges[place] != edge:
                break
            node, at = np.int64(targets[place]), at + 1
            if block_of[node] >= 0 and fewest[at] + 1 <= fewest[start]:
                fewest[start], taken[start], chosen[start] = fewest[at] + 1, at - start, block_of[node]
    starts, blocks = np.empty(fewest[0], np.int64), np.empty(fewest[0], np.int32)
    at = 0
    for number in range(fewest[0]):
        starts[number], blocks[number] = at, chosen[at]
        at += taken[at]
    return starts, blocks
