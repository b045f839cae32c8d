"""Compiled loops: of classes (fit, distances, labels) and of decompositions (distances to words, the cheapest path).

ρ(segment, y) = |segment| + |y| − 2 · LCS. From each start the segment grows by a symbol at a time, and the LCS with it:
V holds a bit for each symbol of the word, 1 at first, and a new symbol with the mask M of its places in the word makes
it

    V = (V + (V & M)) | (V & ~M),

where a carry out of the word's last bit means that the LCS has grown (Hyyrö, "Bit-parallel LCS-length computation
revisited", 2004). Words are at the upper end of their 64-bit blocks, so that this carry is the overflow; longer words
take several blocks.

Where runs are collapsed, a word whose first symbol equals the one before the segment has lost it to that run.
Decompositions may take such a word without it: its first bit is not set then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unperturbed.analysis.compiling import compilable

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def word_masks(codes: Any, joined: Any, lengths: Any) -> Any:
    """Return the arrays of `WordMasks` for a sequence and the symbols of words of these lengths, one after another."""
    size = 0
    for symbol in codes:
        size = max(size, symbol + 1)
    for symbol in joined:
        size = max(size, symbol + 1)
    column_of = np.zeros(size, np.int32)
    for symbol in joined:
        column_of[symbol] = 1
    # Symbols that words have get a column each, all others the last one.
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
    """Set V for a word of this length, or of its last symbols: ones at the upper end of its blocks."""
    blocks[:] = _ALL
    blocks[0] = _ones(length - 64 * (len(blocks) - 1))


@compilable
def _ones(length: int) -> Any:
    return _ALL << np.uint64(64 - length) if length else np.uint64(0)


@compilable
def _extend_lcs(blocks: Any, masks: Any, symbol: int) -> Any:
    """Append a symbol to the segment; return 1 where its LCS with the word grows, else 0."""
    # An addition over several blocks: a carry comes of the block's own sum, or of the carry added to it.
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
    """Tell whether a word that begins with this symbol has lost it to the run before the segment."""
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
    found: Any,
) -> None:
    """Try a word for all segments from a start, and keep the ends that become cheaper.

    `before` are the costs of all symbols before each position as stretches, infinite for no bound; `found` the arrays
    that the search fills: costs, segments, starts, words.
    """
    costs, segments, starts, chosen = found
    base, more = costs[start], segments[start] + 1
    one_block, bounded = len(masks) == 1, np.isfinite(stretch)
    ones, places = _ones(length) if one_block else _ALL, masks[0]
    blocks = np.empty(0 if one_block else len(masks), np.uint64)
    if not one_block:
        _reset_lcs(blocks, length)
    # Views that begin at the start: an index that may be negative would be wrapped, at a test each.
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
            # Insertions never go away. Should the rest of the word match from here on, a stretch over the same symbols
            # would be cheaper still; and beyond that each further symbol is one more insertion.
            last = min(start + length + inserted, len(before) - 1)
            if base + price + edit_price * inserted > as_stretch + before[last]:
                break


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

    Of equal costs the fewest segments, then the earliest start of each segment from the last one on, then the first
    word. `merged_price` is added where a word has lost its first symbol to the run before; NaN where words never do.
    """
    size = len(codes)
    costs, segments = np.full(size + 1, np.inf), np.zeros(size + 1, np.int64)
    starts, chosen = np.zeros(size + 1, np.int64), np.full(size + 1, -1, np.int64)
    costs[0] = 0.0
    found = (costs, segments, starts, chosen)
    open_cost, opened = np.inf, 0
    merging = not np.isnan(merged_price)
    before = _stretch_costs(symbol_prices, edit_price)
    # When `start` is reached, costs[start] is final but for a stretch that ends there. `open_cost` is the least cost of
    # all up to `start` with an open stretch at the end, which began at `opened`: stretches of any length in O(n).
    for start in range(size + 1):
        more = segments[opened] + 1
        if open_cost < costs[start] or (open_cost == costs[start] and more < segments[start]):
            costs[start], segments[start], starts[start], chosen[start] = open_cost, more, opened, -1
        if start == size:
            break
        ahead = codes[start : start + longest]
        for word in range(len(lengths)):
            of_word = masks[blocks[word] : blocks[word + 1]]
            length, price = lengths[word], prices[word]
            if merging and _has_lost_first_symbol(codes, start, firsts[word]):
                length, price = length - 1, price + merged_price
            _relax(ahead, of_word, length, price, edit_price, start, word, before, stretch_price, found)
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

    Infinite where a stretch bounds nothing, as a symbol of it may cost more than an insertion, or less than nothing.
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
    """Return each segment's distance to its word (its length without one), and which words lost their first symbol."""
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


def fit_rounds(
    values: Any,
    centre: Any,
    variances: Any,
    least: Any,
    prior_weight: float,
    floor: Any,
    rounds: int,
    freedom: float,
) -> tuple[Any, Any]:
    """Return centre and variances after some rounds of reweighting, from those of the start (see `fit_student_t`).

    `least` are the prior variances; all arrays but the values, shape (n, metrics), have the shape (metrics,).
    """
    n, metrics = values.shape
    centre, variances = centre.copy(), variances.copy()
    weights, sums = np.empty(n), np.empty(metrics)
    for _ in range(rounds):
        total = 0.0
        sums[:] = 0.0
        for row in range(n):
            weights[row] = (freedom + metrics) / (freedom + _distance(values, row, centre, variances))
            total += weights[row]
            for metric in range(metrics):
                sums[metric] += weights[row] * values[row, metric]
        for metric in range(metrics):
            centre[metric] = sums[metric] / total
        sums[:] = 0.0
        for row in range(n):
            for metric in range(metrics):
                away = values[row, metric] - centre[metric]
                sums[metric] += weights[row] * (away * away)
        for metric in range(metrics):
            variances[metric] = (sums[metric] + prior_weight * least[metric]) / (n + prior_weight) + floor[metric]
    return centre, variances


def class_distances(values: Any, centres: Any, variances: Any) -> Any:
    """Return squared distances in standard deviations: shape (n, k), of arrays (n, metrics) and twice (k, metrics)."""
    distances = np.empty((len(values), len(centres)))
    for row in range(len(values)):
        for one in range(len(centres)):
            distances[row, one] = _distance(values, row, centres[one], variances[one])
    return distances


@compilable
def _distance(values: Any, row: int, centre: Any, variances: Any) -> float:
    distance = 0.0
    for metric in range(len(centre)):
        away = values[row, metric] - centre[metric]
        distance += away * away / variances[metric]
    return distance


def cheapest_labels(
    values: Any,
    informative: Any,
    costs: Any,
    outlier: float,
    transitions: Any,
    between: Any,
    variances: Any,
    peaks: Any,
    freedom: float,
) -> tuple[Any, Any, Any, float]:
    """Return the classes of all elements that cost the fewest bits together.

    `values`: array of float64, shape (n, axes). Elements along the classes' axes.
    `informative`: array of bool, shape (n,). False where an element is too short to have a class of its own.
    `costs`: array of float64, shape (n, k). Bits of each element in each class.
    `transitions`: array of float64, shape (k, k). Bits of going from one class to another, or staying.
    `between`: array of float64, shape (k, k, points, axes). Mixtures of two classes, from the first to the second.
    `variances`: array of float64, shape (k, k, axes). Of mixtures.
    `peaks`: array of float64, shape (k, k). Bits of an element that lies on a mixture; infinite where elements are not
    taken for mixtures.
    Result `labels`: array of int64, shape (n,). A mixture has the class that it has more of.
    Result `mixed`: array of bool, shape (n,). Which elements are mixtures.
    Result `bits`: array of float64, shape (n,). Bits of each element in its class, or as a mixture.
    Result `total`: Bits of all elements and of all transitions. No element counts more than an outlier.

    Notes
    -----
    Viterbi's recursion with one step more: the first i elements that end in class b cost

        c(i, b) = min(costs(i, b), outlier)
                  + min over a of transitions(a, b) + min(c(i − 1, a), c(i − 2, a) + mixture(i − 1, a, b)).

    Ties go to the class of the lower number, and to no mixture. O(n k² points axes).
    """
    n, classes = costs.shape
    previous = np.zeros((n, classes), np.int16)
    point = np.full((n, classes), -1, np.int16)
    # The rows c(i − 2, ·), c(i − 1, ·) and c(i, ·) of the recursion; three are enough, as `previous` and `point` hold
    # the choices.
    earlier, before, now = np.full(classes, np.inf), np.minimum(costs[0], outlier), np.empty(classes)
    for i in range(1, n):
        for b in range(classes):
            least = np.inf
            for a in range(classes):
                spent = before[a] + transitions[a, b]
                if spent < least:
                    least, previous[i, b], point[i, b] = spent, a, -1
                # A mixture's own bits are computed only where they could still pay: its peak bounds them from below.
                if a == b or not informative[i - 1] or earlier[a] + transitions[a, b] + peaks[a, b] >= least:
                    continue
                where, taken = _mixture(values[i - 1], between[a, b], variances[a, b], peaks[a, b], freedom)
                spent = earlier[a] + transitions[a, b] + taken
                if spent < least:
                    least, previous[i, b], point[i, b] = spent, a, where
            now[b] = least + min(costs[i, b], outlier)
        earlier, before, now = before, now, earlier
    labels = np.empty(n, np.int64)
    mixed = np.zeros(n, np.bool_)
    bits = np.empty(n)
    # Backtrack from the cheapest last class; a step over a mixture labels two elements.
    i, b = n - 1, int(np.argmin(before))
    while i >= 0:
        labels[i], bits[i] = b, costs[i, b]
        a, where = previous[i, b], point[i, b]
        if i > 0 and where >= 0:
            i -= 1
            mixed[i] = True
            labels[i] = a if 2 * where + 1 <= between.shape[2] else b
            _, bits[i] = _mixture(values[i], between[a, b], variances[a, b], peaks[a, b], freedom)
        i -= 1
        b = a
    return labels, mixed, bits, np.min(before)


@compilable
def _mixture(value: Any, points: Any, variances: Any, peak: float, freedom: float) -> tuple[int, float]:
    """Return the mixture of two classes that an element is nearest to, and the element's bits there."""
    nearest, where = np.inf, 0
    for at in range(len(points)):
        distance = 0.0
        for axis in range(len(value)):
            difference = value[axis] - points[at, axis]
            distance += difference * difference / variances[axis]
        if distance < nearest:
            nearest, where = distance, at
    return where, peak + (freedom + len(value)) / 2 * np.log2(1 + nearest / freedom)
