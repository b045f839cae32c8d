"""Compiled loops of a decomposition: each segment's distance to each word, and the cheapest path through the sequence.

ρ(segment, y) = |segment| + |y| − 2 · LCS. From each start, the segment and its LCS grow one symbol at a time. V has a
bit for each symbol of the word, initially 1. A new symbol, with the mask M of its positions in the word, updates V:

    V = (V + (V & M)) | (V & ~M),

where a carry out of the word's last bit means that the LCS has grown (Hyyrö, "Bit-parallel LCS-length computation
revisited", 2004). Words are at the upper end of their 64-bit blocks, so this carry is the overflow; longer words take
several blocks.

When runs of equal symbols are collapsed, a word whose first symbol equals the symbol before the segment has lost its
first symbol to that run. Decompositions may use the word without this symbol; then the symbol's bit is not set.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unperturbed.analysis.compiling import compilable

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_FEW, _FULL = 4, 8
"""Number of words from which a vector lane for each word is faster than one word at a time; lanes of a vector."""
_SLACK = 1e-9
"""Rounding error of sums of prices, relative to the total."""


def word_masks(codes: Any, joined: Any, lengths: Any) -> Any:
    """Return the arrays of `WordMasks` for a sequence and words, given as concatenated symbols and their lengths."""
    size = 0
    for symbol in codes:
        size = max(size, symbol + 1)
    for symbol in joined:
        size = max(size, symbol + 1)
    column_of = np.zeros(size, np.int32)
    for symbol in joined:
        column_of[symbol] = 1
    # Each symbol that occurs in a word gets its own column; all others share the last column.
    columns = np.int32(column_of.sum())
    used = np.int32(0)
    for symbol in range(size):
        is_used = column_of[symbol] == 1
        column_of[symbol] = used if is_used else columns
        used += np.int32(is_used)
    blocks = np.zeros(len(lengths) + 1, np.int64)
    for word in range(len(lengths)):
        blocks[word + 1] = blocks[word] + (lengths[word] + 63) // 64
    bits = np.zeros((blocks[-1], columns + 1), np.uint64)
    firsts = np.empty(len(lengths), np.int32)
    begin = 0
    for word in range(len(lengths)):
        firsts[word] = column_of[joined[begin]]
        bit = 64 * blocks[word + 1] - lengths[word]
        for symbol in joined[begin : begin + lengths[word]]:
            bits[bit // 64, column_of[symbol]] |= np.uint64(1) << np.uint64(bit % 64)
            bit += 1
        begin += lengths[word]
    return column_of[codes], bits, blocks, lengths.copy(), firsts


@compilable
def _reset_lcs(blocks: Any, length: int) -> None:
    """Initialise V for the last `length` symbols of a word: ones at the upper end of its blocks."""
    blocks[:] = _ALL
    blocks[0] = _ones(length - 64 * (len(blocks) - 1))


@compilable
def _ones(length: int) -> Any:
    return _ALL << np.uint64(64 - length) if length else np.uint64(0)


@compilable
def _extend_lcs(blocks: Any, masks: Any, symbol: int) -> Any:
    """Append a symbol to the segment; return 1 if its LCS with the word grows, else 0."""
    # Addition over several blocks: a carry comes from the block's own sum, or from adding the previous carry.
    carry = np.uint64(0)
    for block in range(len(blocks)):
        before = blocks[block]
        kept = before & masks[block, symbol]
        half = before + kept
        total = half + carry
        carry = np.uint64(half < before) | np.uint64(total < half)
        blocks[block] = total | (before ^ kept)
    return np.int64(carry)


@compilable
def _has_lost_first_symbol(codes: Any, start: int, first: int) -> Any:
    """Return whether a word has lost its first symbol, `first`, to the run before the segment."""
    return start > 0 and codes[start - 1] == first


@compilable
def _relax(
    codes: Any,
    masks: Any,
    length: int,
    price: float,
    edit_price: float,
    start: int,
    word: int,
    before: Any,
    stretch: float,
    table: Any,
) -> None:
    """Try a word for all segments from a start, and update the ends that become cheaper.

    `before`: Cost of all symbols before each position as stretches; infinite without a bound. `table`: The arrays that
    the search fills: costs, segments, starts, words.
    """
    costs, segments, starts, chosen = table
    base, more = costs[start], segments[start] + 1
    one_block, bounded = len(masks) == 1, np.isfinite(stretch)
    ones, places = _ones(length) if one_block else _ALL, masks[0]
    blocks = np.empty(0 if one_block else len(masks), np.uint64)
    if not one_block:
        _reset_lcs(blocks, length)
    # Views from `start` on: an index that may be negative would need a test for wrapping.
    costs, segments = costs[start + 1 :], segments[start + 1 :]
    as_stretch = base + stretch - before[start]
    distance, inserted = np.int64(length), np.int64(0)
    for at in range(len(codes)):
        if one_block:
            kept = ones & places[codes[at]]
            total = ones + kept
            grown = np.int64(total < ones)
            ones = total | (ones ^ kept)
        else:
            grown = _extend_lcs(blocks, masks, codes[at])
        distance += 1 - 2 * grown
        inserted += 1 - grown
        cost = base + (edit_price * distance + price)
        if cost <= costs[at] and (cost < costs[at] or more < segments[at]):
            costs[at], segments[at] = cost, more
            starts[start + at + 1], chosen[start + at + 1] = start, word
        if bounded and not grown:
            # Insertions are never undone. Even if the rest of the word matches from here on, a stretch over the same
            # symbols is cheaper; after that, each further symbol is one more insertion.
            last = min(start + length + inserted, len(before) - 1)
            if base + price + edit_price * inserted > as_stretch + before[last]:
                break


@compilable
def _lanes(masks: Any, lengths: Any, firsts: Any, prices: Any, reaches: Any, widest: int) -> Any:
    """Return words of up to 64 symbols as vector lanes, the longest reach first, followed by empty lanes.

    The result has, for each lane, the number of its word, the word's first symbol, its masks (shape (symbols, lanes)),
    its V, length and price; and, for each length of a segment, the number of lanes that reach it, in whole vectors.
    """
    words = len(lengths)
    order = np.argsort(-reaches, kind="mergesort")
    width = -(-words // _FULL) * _FULL
    places, full = np.zeros((masks.shape[1], width), np.uint64), np.zeros(width, np.uint64)
    whole, of_lanes = np.zeros(width), np.full(width, np.inf)
    for lane in range(words):
        word = order[lane]
        places[:, lane], full[lane] = masks[word], _ones(lengths[word])
        whole[lane], of_lanes[lane] = lengths[word], prices[word]
    active = np.zeros(widest, np.int64)
    for at in range(widest):
        active[at] = -(-(reaches > at).sum() // _FULL) * _FULL
    return order, firsts[order], places, full, whole, of_lanes, active


@compilable
def _reaches(
    lengths: Any, prices: Any, edit_price: float, longest: int, stretch: float, symbol: float, merged_price: float
) -> Any:
    """Return, for each word, the length of the longest segment that may cost less with the word than as a stretch.

    A segment with x insertions costs at least x insertions with the word, and as a stretch at most x symbols more than
    the word's own symbols. No symbol of a stretch costs more than `symbol`.
    """
    reaches = np.full(len(lengths), longest, np.int64)
    if symbol < edit_price:
        for word in range(len(lengths)):
            price = prices[word] if np.isnan(merged_price) else min(prices[word], prices[word] + merged_price)
            insertions = max((stretch + symbol * lengths[word] - price) / (edit_price - symbol), 0.0)
            reaches[word] = min(longest, lengths[word] + int(min(insertions, float(longest))) + 1)
    return reaches


@compilable
def _extend_lanes(
    ones: Any, masks: Any, symbol: int, distances: Any, prices: Any, lanes: int, base: float, edit: float, limit: float
) -> Any:
    """Append a symbol to the first lanes' segments, in whole vectors; return whether any costs at most `limit`.

    `base` is the cost of all symbols before the segments. The loop has no branch, so that it is vectorised.
    """
    reached = False
    for lane in range(_FULL * (lanes // _FULL)):
        before = ones[lane]
        kept = before & masks[symbol, lane]
        total = before + kept
        ones[lane] = total | (before ^ kept)
        distance = distances[lane] + (-1.0 if total < before else 1.0)
        distances[lane] = distance
        reached |= base + (edit * distance + prices[lane]) <= limit
    return reached


@compilable
def _relax_lanes(
    codes: Any,
    lanes: Any,
    state: Any,
    edit_price: float,
    start: int,
    before: Any,
    stretch: float,
    merged: Any,
    table: Any,
) -> None:
    """Try all words at once for the segments from a start, with the same result as `_relax` for each word.

    `state`: The lanes' arrays for the current segment: V, distances and prices.
    """
    costs, segments, starts, chosen = table
    order, firsts, places, full, whole, of_lanes, active = lanes
    ones, distances, prices = state
    ones[:], distances[:], prices[:] = full, whole, of_lanes
    if not np.isnan(merged):
        for lane in range(len(firsts)):
            if _has_lost_first_symbol(codes, start, firsts[lane]):
                ones[lane] = full[lane] << np.uint64(1)
                distances[lane] -= 1.0
                prices[lane] += merged
    base, more = costs[start], segments[start] + 1
    bounded = np.isfinite(stretch) and np.isfinite(before[-1])
    slack = _SLACK * (abs(stretch) + before[-1]) if bounded else 0.0
    for at in range(min(len(active), len(codes) - start)):
        end, count = start + at + 1, active[at]
        limit = costs[end]
        if bounded:  # a segment that costs more than a stretch is not in the cheapest decomposition
            limit = min(limit, base + stretch + before[end] - before[start] + slack)
        if not _extend_lanes(ones, places, codes[start + at], distances, prices, count, base, edit_price, limit):
            continue
        for lane in range(min(count, len(order))):
            cost = base + (edit_price * distances[lane] + prices[lane])
            # Lanes are not in the order of words: choose the first word among equal costs.
            is_first = more < segments[end] or (starts[end] == start and 0 <= order[lane] < chosen[end])
            if cost < costs[end] or (cost == costs[end] and is_first):
                costs[end], segments[end], starts[end], chosen[end] = cost, more, start, order[lane]


def cheapest(
    codes: Any,
    masks: Any,
    blocks: Any,
    lengths: Any,
    firsts: Any,
    prices: Any,
    edit_price: float,
    longest: int,
    stretch_price: float,
    symbol_prices: Any,
    merged_price: float,
) -> Any:
    """Return the cost, cuts and words of the cheapest decomposition of a sequence over words (see `WordMasks`).

    Among equal costs, prefer the fewest segments, then the earliest start of each segment from the last one backwards,
    then the first word. `merged_price` is added if a word has lost its first symbol to the run before it; NaN if words
    cannot lose symbols.
    """
    size = len(codes)
    costs, segments = np.full(size + 1, np.inf), np.zeros(size + 1, np.int64)
    starts, chosen = np.zeros(size + 1, np.int64), np.full(size + 1, -1, np.int64)
    costs[0] = 0.0
    table = (costs, segments, starts, chosen)
    open_cost, opened = np.inf, 0
    merging = not np.isnan(merged_price)
    before = _stretch_costs(symbol_prices, edit_price)
    together = len(masks) == len(lengths) and len(lengths) >= _FEW  # one block each
    reaches = np.full(len(lengths) if together else 0, longest, np.int64)
    if together and size and np.isfinite(stretch_price) and np.isfinite(before[size]):
        reaches = _reaches(lengths, prices, edit_price, longest, stretch_price, symbol_prices.max(), merged_price)
    joined = len(reaches)
    widest = min(reaches.max(), size) if joined else 0
    lanes = _lanes(masks[:joined], lengths[:joined], firsts[:joined], prices[:joined], reaches, widest)
    state = (lanes[3].copy(), lanes[4].copy(), lanes[5].copy())
    # When `start` is reached, costs[start] is final except for a stretch that ends there. `open_cost` is the minimum
    # cost of all symbols up to `start` with an open stretch at the end, which began at `opened`. So stretches of any
    # length take O(n).
    for start in range(size + 1):
        more = segments[opened] + 1
        if open_cost < costs[start] or (open_cost == costs[start] and more < segments[start]):
            costs[start], segments[start], starts[start], chosen[start] = open_cost, more, opened, -1
        if start == size:
            break
        if together:
            _relax_lanes(codes, lanes, state, edit_price, start, before, stretch_price, merged_price, table)
        ahead = codes[start : start + longest]
        for word in range(0 if together else len(lengths)):
            of_word = masks[blocks[word] : blocks[word + 1]]
            length, price = lengths[word], prices[word]
            if merging and _has_lost_first_symbol(codes, start, firsts[word]):
                length, price = length - 1, price + merged_price
            _relax(ahead, of_word, length, price, edit_price, start, word, before, stretch_price, table)
        if costs[start] + stretch_price < open_cost:
            open_cost, opened = costs[start] + stretch_price, start
        open_cost += symbol_prices[start]
    cuts, words = np.zeros(segments[size] + 1, np.int64), np.empty(segments[size], np.int64)
    end = size
    for segment in range(segments[size] - 1, -1, -1):
        cuts[segment + 1], words[segment] = end, chosen[end]
        end = starts[end]
    return costs[size], cuts, words


@compilable
def _stretch_costs(symbol_prices: Any, edit_price: Any) -> Any:
    """Return the costs of the symbols before each position as stretches: shape (n + 1,).

    They are infinite if a stretch gives no bound: if a symbol costs more than an insertion, or has a negative price.
    """
    before = np.zeros(len(symbol_prices) + 1, symbol_prices.dtype)
    for at in range(len(symbol_prices)):
        if symbol_prices[at] > edit_price or symbol_prices[at] < 0:
            before[:] = np.inf
            before[0] = 0
            return before
        before[at + 1] = before[at] + symbol_prices[at]
    return before


def segment_distances(
    codes: Any, masks: Any, blocks: Any, lengths: Any, firsts: Any, cuts: Any, words: Any, merging: bool
) -> Any:
    """Return each segment's distance to its word (without a word, its length), and whether the word lost a symbol."""
    distances, merged = np.empty(len(words), np.int64), np.zeros(len(words), np.bool_)
    for segment in range(len(words)):
        first, last, word = cuts[segment], cuts[segment + 1], words[segment]
        distances[segment] = last - first
        if word < 0:
            continue
        merged[segment] = merging and _has_lost_first_symbol(codes, first, firsts[word])
        length = lengths[word] - np.int64(merged[segment])
        of_word = masks[blocks[word] : blocks[word + 1]]
        state = np.empty(len(of_word), np.uint64)
        _reset_lcs(state, length)
        distances[segment] += length
        for at in range(first, last):
            distances[segment] -= 2 * _extend_lcs(state, of_word, codes[at])
    return distances, merged
