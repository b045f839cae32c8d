"""A decomposition as the paper's equations (1), (6) and (7) write it, and the tie rules in words: slow and obvious."""

from functools import cache
from itertools import pairwise


def indel(one, other):
    """Fewest insertions and deletions, by the table of section 2's planar graph."""
    row = list(range(len(other) + 1))
    for i, symbol in enumerate(one):
        above, row = row, [i + 1]
        for j, facing in enumerate(other):
            row.append(above[j] if symbol == facing else 1 + min(above[j + 1], row[j]))
    return row[-1]


def best(sequence, words, longest, word_prices=None, edit_price=1, stretch_price=None, symbol_prices=None):
    """Return (cost, segments), least first, of all ways to cut and to choose words, by recursion over the end."""
    word_prices = word_prices or [0] * len(words)

    @cache
    def until(end, after_stretch):
        """The cheapest decomposition up to an end; after a stretch no other one may follow: two in a row are one."""
        if end == 0:
            return (0, 0)
        ways = []
        for start in range(max(0, end - longest), end):
            for word, price in zip(words, word_prices, strict=True):
                cost, segments = until(start, False)
                ways.append((cost + (edit_price * indel(sequence[start:end], word) + price), segments + 1))
        if stretch_price is not None and not after_stretch:
            for start in range(end):
                cost, segments = until(start, True)
                ways.append((cost + stretch_price + sum(symbol_prices[start:end]), segments + 1))
        return min(ways, default=(float("inf"), 0))

    return until(len(sequence), False)


def ways(sequence, longest):
    """All cuts of a short sequence, as tuples of positions."""
    if not sequence:
        return [(0,)]
    return [
        (*cuts, len(sequence))
        for length in range(1, min(longest, len(sequence)) + 1)
        for cuts in ways(sequence[:-length], longest)
    ]


def preferred(sequence, words, longest):
    """Return the preferred cuts and words by trying all: cost, number, longest last segment, first word."""

    def nearest(segment):
        return min((indel(segment, word), index) for index, word in enumerate(words))

    def order(cuts):
        segments = [nearest(sequence[a:b]) for a, b in pairwise(cuts)]
        return (sum(cost for cost, _ in segments), len(segments), cuts[::-1])

    cuts = min(ways(sequence, longest), key=order)
    return cuts, [nearest(sequence[a:b])[1] for a, b in pairwise(cuts)]
