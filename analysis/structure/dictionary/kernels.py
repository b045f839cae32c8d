"""Compiled loops that evaluate many words at once, each beside those that a dictionary has already.

A lane of vectors for each candidate: all go through the sequence together, with the bits of their LCS (see
`decomposition.kernels`) and their least costs so far. Costs are whole numbers of a small unit, and only the last ones
are kept, so that the loops over lanes have no branch and are vectorised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unperturbed.analysis.compiling import compilable

_NONE = 1 << 29
"""No cost: more than any, and twice this still fits 32 bits."""
_LANES, _FULL = 256, 32
"""Candidates that are evaluated together: the costs of the last positions stay in the near caches, and the variants of
most words go through the sequence once. Half as many make 150 candidates or more take 1.2 to 1.5 times as long. Loops
over lanes take a multiple of the second."""


def mark_symbols(masks: Any, numbers: Any, lengths: Any) -> Any:
    """Set the bits of masks (see `Lanes`) for words of these lengths, one after another; return their first symbols."""
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
    """Start a segment behind the symbol `before` (−1 for none): the state of whole words, `full` and `whole`.

    Where a word begins with that symbol, merging starts it without its first one.
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
    """Set the state of empty segments: ones at the upper end, and all symbols of the word deleted."""
    bits, number = full.dtype.type, whole.dtype.type
    for lane in range(len(full)):
        full[lane] = bits(bits(0) - bits(1)) << bits(8 * full.itemsize - lengths[lane])
        whole[lane] = number(edit_price * lengths[lane] + prices[lane])


@compilable
def _extend(ones: Any, masks: Any, symbol: int, distances: Any, lanes: int, edit_price: Any) -> Any:
    """Append a symbol to the segments of the first lanes; return the least of their costs."""
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
    """Return the least cost of a word, its lane, and the least of all others, for each start and length of a segment.

    `_NONE` and −1 where a stretch costs no more. Lanes are words, those of the longest reach first; otherwise they are
    as for `costs_with`. `before` are the costs of the symbols before each position as stretches: int64, shape (n + 1,),
    or empty if a stretch bounds nothing.
    """
    count = len(lengths)
    widest = min(reaches[0], len(codes)) if count else 0
    least, second = np.full((len(codes), widest), _NONE, np.int32), np.full((len(codes), widest), _NONE, np.int32)
    which = np.full((len(codes), widest), -1, np.int32)
    # Words that reach a length are the first lanes, so each step of a segment goes over as few as possible.
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
            # The search for the cheapest lane and the second minimum run only where a word beats a stretch, which is
            # rare; the loop over all lanes in `_extend` stays without a branch.
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
    """Append a symbol to all lanes' segments; lower the costs of the row ahead by theirs or those of the dictionary.

    Rows of arrays are given by their number: a view of each would take longer than the loop.
    """
    bits, number = ones.dtype.type, ahead.dtype.type
    for lane in range(len(ones)):
        before = ones[lane]
        kept = bits(before & masks[symbol, lane])
        total = bits(before + kept)
        ones[lane] = bits(total | (before ^ kept))
        # The price is in the distance, and the symbol's own edit is taken back twice where the LCS has grown.
        distance = number(distances[lane] + (number(-edit_price) if total < before else edit_price))
        distances[lane] = distance
        ahead[there, lane] = min(ahead[there, lane], number(ahead[here, lane] + min(distance, price)))


@compilable
def _relax(ahead: Any, here: int, there: int, price: Any) -> None:
    """Lower the costs of the row ahead by those of the dictionary's words."""
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
    """Return the least cost of a decomposition over the dictionary and each candidate.

    `codes`: array of int32, shape (n,). The sequence.
    `least`, `which`, `second`: array of int32, shape (n, widest). Costs of the dictionary's own words, see
    `SegmentCosts`; the word `without` is not among them.
    `masks`: array of uint32 or uint64, shape (symbols, candidates). Bits where a candidate has a symbol, the word's end
    at the highest one. It has no more symbols than there are bits.
    `lengths`, `firsts`, `reaches`, `prices`: array of int32, shape (candidates,). Of each candidate; its first symbol;
    symbols of its longest segment. Neighbours of like reach are evaluated together, which is faster.
    Result: array of int32, shape (candidates,). The least cost with each.
    """
    size, widest = least.shape
    costs = np.empty(len(lengths), np.int32)
    edit, nothing = np.int32(edit_price), np.int32(_NONE)
    for first in range(0, len(lengths), _LANES):
        part = slice(first, min(first + _LANES, len(lengths)))
        lanes = part.stop - first
        reach = reaches[part].max()
        # `ahead` is a ring of the least costs up to the next positions, `here` the row of the present one; `opened` are
        # the least costs with an open stretch.
        rows = max(widest, reach) + 1
        width = -(-lanes // _FULL) * _FULL  # lanes behind the last candidate are empty words
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
