"""Compiled loops that evaluate many candidate words at once, each in addition to the words of a dictionary.

Each candidate has a vector lane. All lanes pass through the sequence together, with the bits of their LCS (see
`decomposition.kernels`) and their minimum costs so far. Costs are integers in a small unit, and only the latest are
kept; so the loops over lanes have no branch and are vectorised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unperturbed.analysis.compiling import compilable

_NONE = 1 << 29
"""Marks a missing cost: it exceeds any cost, and twice this value still fits 32 bits."""
_LANES, _FULL = 256, 32
"""Number of candidates that are evaluated together: the costs of the last positions remain in the nearest caches, and
the variants of most words need only one pass through the sequence. With half as many, 150 or more candidates take 1.2
to 1.5 times as long. Loops over lanes process a multiple of the second number."""


def mark_symbols(masks: Any, numbers: Any, lengths: Any) -> Any:
    """Set the bits of masks (see `Lanes`) for concatenated words of these lengths; return the words' first symbols."""
    bits = masks.dtype.type
    firsts = np.empty(len(lengths), np.int32)
    begin = 0
    for lane in range(len(lengths)):
        firsts[lane] = numbers[begin]
        bit = 8 * masks.itemsize - lengths[lane]
        for symbol in numbers[begin : begin + lengths[lane]]:
            masks[symbol, lane] |= bits(1) << bits(bit)
            bit += 1
        begin += lengths[lane]
    return firsts


@compilable
def _start_segment(
    ones: Any,
    distances: Any,
    full: Any,
    whole: Any,
    firsts: Any,
    before: int,
    merging: bool,
    edit_price: Any,
    merged_price: int,
) -> None:
    """Start a segment after the symbol `before` (−1 for none), with the state `full` and `whole` of whole words.

    With `merging`, a word that begins with `before` starts without its first symbol.
    """
    bits, number = ones.dtype.type, distances.dtype.type
    ones[:] = full
    distances[:] = whole
    if merging and before >= 0:
        for lane in range(len(ones)):
            if firsts[lane] == before:
                ones[lane] = full[lane] << bits(1)
                distances[lane] = number(whole[lane] - edit_price + merged_price)


@compilable
def _whole_words(full: Any, whole: Any, lengths: Any, prices: Any, edit_price: Any) -> None:
    """Set the state of empty segments: ones at the upper end, with all symbols of the word deleted."""
    bits, number = full.dtype.type, whole.dtype.type
    for lane in range(len(full)):
        full[lane] = bits(bits(0) - bits(1)) << bits(8 * full.itemsize - lengths[lane])
        whole[lane] = number(edit_price * lengths[lane] + prices[lane])


@compilable
def _extend(ones: Any, masks: Any, symbol: int, distances: Any, lanes: int, edit_price: Any) -> Any:
    """Append a symbol to the segments of the first lanes; return the minimum of their costs."""
    bits, number = ones.dtype.type, distances.dtype.type
    least = number(_NONE)
    for lane in range(lanes):
        before = ones[lane]
        kept = bits(before & masks[symbol, lane])
        total = bits(before + kept)
        ones[lane] = bits(total | (before ^ kept))
        distance = number(distances[lane] + (number(-edit_price) if total < before else edit_price))
        distances[lane] = distance
        least = min(least, distance)
    return least


def cheapest_words(
    codes: Any,
    masks: Any,
    lengths: Any,
    firsts: Any,
    reaches: Any,
    prices: Any,
    edit_price: int,
    merging: bool,
    merged_price: int,
    stretch_price: int,
    before: Any,
) -> Any:
    """Return the cheapest word's cost and lane, and the second-lowest cost, for each start and length of a segment.

    They are `_NONE` and −1 if a stretch costs no more. Lanes are words, the longest reach first; other arguments are
    those of `costs_with`. `before` are the costs of the symbols before each position as stretches: int64, shape
    (n + 1,), or empty if a stretch gives no bound.
    """
    count = len(lengths)
    widest = min(reaches[0], len(codes)) if count else 0
    least, second = np.full((len(codes), widest), _NONE, np.int32), np.full((len(codes), widest), _NONE, np.int32)
    which = np.full((len(codes), widest), -1, np.int32)
    # Words that reach a length are the first lanes, so each step of a segment visits as few lanes as possible.
    active = np.zeros(widest, np.int64)
    for at in range(widest):
        active[at] = (reaches > at).sum()
    edit = np.int32(edit_price)
    full, ones = np.empty(count, masks.dtype), np.empty(count, masks.dtype)
    whole, distances = np.empty(count, np.int32), np.empty(count, np.int32)
    _whole_words(full, whole, lengths, prices, edit)
    for start in range(len(codes)):
        _start_segment(
            ones, distances, full, whole, firsts, codes[start - 1] if start else -1, merging, edit, merged_price
        )
        for at in range(min(widest, len(codes) - start)):
            lanes = active[at]
            best = _extend(ones, masks, codes[start + at], distances, lanes, edit)
            if len(before) and best >= stretch_price + before[start + at + 1] - before[start]:
                continue
            # The searches for the cheapest lane and the second minimum run only if a word costs less than a stretch,
            # which is rare; the loop over all lanes in `_extend` has no branch.
            cheapest = 0
            while cheapest < lanes - 1 and distances[cheapest] != best:
                cheapest += 1
            least[start, at], which[start, at] = best, cheapest
            distances[cheapest] = _NONE
            following = np.int32(_NONE)
            for lane in range(lanes):
                following = min(following, distances[lane])
            distances[cheapest], second[start, at] = best, following
    return least, which, second


@compilable
def _step(
    ones: Any, masks: Any, symbol: int, distances: Any, ahead: Any, here: int, there: int, edit_price: Any, price: Any
) -> None:
    """Append a symbol to all lanes' segments; update the minimum costs of row `there` with lanes and dictionary.

    Rows of arrays are given by index, because creating views would take longer than the loop.
    """
    bits, number = ones.dtype.type, ahead.dtype.type
    for lane in range(len(ones)):
        before = ones[lane]
        kept = bits(before & masks[symbol, lane])
        total = bits(before + kept)
        ones[lane] = bits(total | (before ^ kept))
        # The distance includes the price; if the LCS has grown, the symbol adds no edit and saves one.
        distance = number(distances[lane] + (number(-edit_price) if total < before else edit_price))
        distances[lane] = distance
        ahead[there, lane] = min(ahead[there, lane], number(ahead[here, lane] + min(distance, price)))


@compilable
def _relax(ahead: Any, here: int, there: int, price: Any) -> None:
    """Update the minimum costs of row `there` with the dictionary's words."""
    number = ahead.dtype.type
    for lane in range(ahead.shape[1]):
        ahead[there, lane] = min(ahead[there, lane], number(ahead[here, lane] + price))


def costs_with(
    codes: Any,
    least: Any,
    which: Any,
    second: Any,
    without: int,
    masks: Any,
    lengths: Any,
    firsts: Any,
    reaches: Any,
    prices: Any,
    edit_price: int,
    merging: bool,
    merged_price: int,
    stretch_price: int,
    symbol_prices: Any,
) -> Any:
    """Return the minimum cost of a decomposition over the dictionary and each candidate.

    `codes`: array of int32, shape (n,). The sequence.
    `least`, `which`, `second`: array of int32, shape (n, widest). Costs of the dictionary's own words, see
    `SegmentCosts`; the word `without` is excluded.
    `masks`: array of uint32 or uint64, shape (symbols, candidates). Bits at the positions of each symbol in each
    candidate, the word's end at the highest bit. A candidate has at most as many symbols as bits.
    `lengths`, `firsts`, `reaches`, `prices`: array of int32, shape (candidates,). Each candidate's length, first
    symbol, maximum segment length, and price. Evaluation is faster if neighbours have similar reaches.
    Result: array of int32, shape (candidates,). The minimum cost with each candidate.
    """
    size, widest = least.shape
    costs = np.empty(len(lengths), np.int32)
    edit, nothing = np.int32(edit_price), np.int32(_NONE)
    for first in range(0, len(lengths), _LANES):
        part = slice(first, min(first + _LANES, len(lengths)))
        lanes = part.stop - first
        reach = reaches[part].max()
        # `ahead` is a ring of the minimum costs up to the next positions, and `here` is the row of the current
        # position; `opened` are the minimum costs with an open stretch.
        rows = max(widest, reach) + 1
        width = -(-lanes // _FULL) * _FULL  # lanes after the last candidate are empty words
        ahead = np.full((rows, width), nothing, np.int32)
        ahead[0] = 0
        opened = np.full(width, nothing, np.int32)
        full, ones = np.zeros(width, masks.dtype), np.empty(width, masks.dtype)
        whole, distances = np.zeros(width, np.int32), np.empty(width, np.int32)
        _whole_words(full[:lanes], whole[:lanes], lengths[part], prices[part], edit)
        of_lanes, begins_with = np.zeros((len(masks), width), masks.dtype), np.full(width, -1, np.int32)
        of_lanes[:, :lanes], begins_with[:lanes] = masks[:, part], firsts[part]
        here = 0
        for start in range(size):
            base = ahead[here]
            for lane in range(width):
                base[lane] = min(base[lane], opened[lane])
            _start_segment(
                ones,
                distances,
                full,
                whole,
                begins_with,
                codes[start - 1] if start else -1,
                merging,
                edit,
                merged_price,
            )
            there = here
            for at in range(min(max(widest, reach), size - start)):
                price = nothing
                if at < widest:
                    price = least[start, at] if which[start, at] != without else second[start, at]
                there = there + 1 if there < rows - 1 else 0
                if at < reach:
                    _step(ones, of_lanes, codes[start + at], distances, ahead, here, there, edit, price)
                elif price < nothing:
                    _relax(ahead, here, there, price)
            for lane in range(width):
                opened[lane] = min(opened[lane], np.int32(base[lane] + stretch_price)) + symbol_prices[start]
            base[:] = nothing  # the row becomes the furthest one
            here = here + 1 if here < rows - 1 else 0
        costs[part] = np.minimum(ahead[here], opened)[:lanes]
    return costs
