"""An encoder and a decoder for the code of `description_length`, an arithmetic coder in fractions: slow and obvious.

One function, `transmit`, goes through the description. While encoding it is told what to say; while decoding it hears
it. Both have the same probabilities of each choice at that moment.
"""

import math
from fractions import Fraction
from itertools import pairwise


class Encoder:
    """Narrows an interval of [0, 1) by each choice."""

    def __init__(self):
        self.low, self.width, self.bits = Fraction(0), Fraction(1), 0.0

    def choose(self, chances, wanted):
        chances = [Fraction(chance) for chance in chances]
        total = sum(chances)
        self.low += self.width * sum(chances[:wanted]) / total
        self.width *= chances[wanted] / total
        self.bits -= math.log2(chances[wanted] / total)
        return wanted

    def message(self):
        """Return the shortest binary fraction whose interval lies within: its digits."""
        length = 0
        while True:
            unit = Fraction(1, 2**length)
            number = math.ceil(self.low / unit)
            if (number + 1) * unit <= self.low + self.width:
                return format(number, f"0{length}b") if length else ""
            length += 1


class Decoder:
    """Finds each choice in a message."""

    def __init__(self, message):
        self.at = Fraction(int(message or "0", 2), 2 ** len(message))

    def choose(self, chances, _):
        chances = [Fraction(chance) for chance in chances]
        total, low = sum(chances), Fraction(0)
        for number, chance in enumerate(chances):
            if self.at < low + chance / total:
                self.at = (self.at - low) * total / chance
                return number
            low += chance / total
        raise AssertionError("a message from 0 to 1")


class Adaptive:
    """A choice whose possibilities count what came before, and half."""

    def __init__(self, possibilities):
        self.counts = [Fraction(1, 2)] * possibilities

    def choose(self, coder, wanted):
        chosen = coder.choose(self.counts, wanted)
        self.counts[chosen] += 1
        return chosen


def edit_script(word, segment):
    """Return for each symbol of the word, and its end, the symbols inserted before it and whether it is kept."""
    table = [[0] * (len(segment) + 1) for _ in range(len(word) + 1)]
    for i in reversed(range(len(word))):
        for j in reversed(range(len(segment))):
            table[i][j] = 1 + table[i + 1][j + 1] if word[i] == segment[j] else max(table[i + 1][j], table[i][j + 1])
    script, j = [], 0
    for i in range(len(word)):
        inserted = []
        while j < len(segment) and word[i] != segment[j] and table[i][j + 1] >= table[i + 1][j]:
            inserted.append(segment[j])
            j += 1
        kept = j < len(segment) and word[i] == segment[j] and table[i][j] == 1 + table[i + 1][j + 1]
        script.append((inserted, kept))
        j += kept
    return [*script, (list(segment[j:]), False)]


def transmit(coder, size, weights, is_collapsed, words=None, units=None):
    """Tell or hear words and sequence.

    `size`, `weights` and `is_collapsed` are known to both sides. `words` are lists of symbols 0, 1, …; `units` are
    (word or −1, segment).
    """
    telling = words is not None
    letters = len(weights)

    def bit(wanted):
        return coder.choose([1, 1], wanted)

    def number(wanted):
        """Elias's γ: as many zeros as digits after the first, then the digits."""
        digits = 1
        while not bit(int(digits == wanted.bit_length()) if telling else None):
            digits += 1
        heard = 1
        for shift in reversed(range(digits - 1)):
            heard = 2 * heard + bit((wanted >> shift) & 1 if telling else None)
        return heard

    def spell(wanted, before, excluded):
        chances = [0 if excluded and symbol == before else weight for symbol, weight in enumerate(weights)]
        return coder.choose(chances, wanted)

    count = number(len(words) + 1 if telling else None) - 1
    heard_words = []
    if count and is_collapsed:
        equal = any(a == b for word in words for a, b in pairwise(word)) if telling else None
        excluded = not bit(int(equal) if telling else None)
    else:
        excluded = False
    for index in range(count):
        length = number(len(words[index]) if telling else None)
        word = []
        for place in range(length):
            word.append(spell(words[index][place] if telling else None, word[-1] if word else None, excluded))
        heard_words.append(word)

    told = []
    if not count:
        while len(told) < size:
            wanted = units[0][1][len(told)] if telling else None
            told.append(spell(wanted, told[-1] if told else None, is_collapsed))
        return heard_words, told

    which, insertion, deletion, more = Adaptive(count + 1), Adaptive(2), Adaptive(2), Adaptive(2)
    remaining = iter(units) if telling else None
    while len(told) < size:
        word, segment = next(remaining) if telling else (None, None)
        chosen = which.choose(coder, (count if word < 0 else word) if telling else None)
        if chosen == count:
            position = 0
            while True:
                wanted = segment[position] if telling else None
                told.append(spell(wanted, told[-1] if told else None, is_collapsed))
                position += 1
                if not more.choose(coder, int(position < len(segment)) if telling else None):
                    break
            continue
        rest = heard_words[chosen]
        if is_collapsed and told and told[-1] == rest[0]:  # merged with what stands before it
            rest = rest[1:]
        script = edit_script(rest, segment) if telling else [(None, None)] * (len(rest) + 1)
        for place, (inserted, kept) in enumerate(script):
            done = 0
            while insertion.choose(coder, int(done < len(inserted)) if telling else None):
                before = told[-1] if told else letters - 1
                others = [symbol for symbol in range(letters) if not is_collapsed or symbol != before]
                wanted = others.index(inserted[done]) if telling else None
                told.append(others[coder.choose([1] * len(others), wanted)])
                done += 1
            if place < len(rest) and deletion.choose(coder, int(kept) if telling else None):
                told.append(rest[place])
    return heard_words, told
