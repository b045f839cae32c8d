"""Changes to inputs, all drawn from one random number generator: bytes, words of a format, and trees of JSON."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from typing import Any

__all__ = ["mutate_bytes", "mutate_tree"]

_LONGEST = 1 << 16
_NUMBERS = (
    b"0", b"-1", b"1e400", b"-1e-400", b"nan", b"inf", b"9223372036854775807", b"-9223372036854775808",
    b"18446744073709551616", b"1e30", b"4.9e-324", b"0x7f", b"1_0", b"\xd9\xa3", b"\xc2\xbd",
)  # fmt: skip
_TEXTS = (b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\t", b"\x1b[2J", "\u202e".encode(), b"\xed\xa0\x80", b'"')
_LEAVES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, -(2**63), 2**64, 10**40, 1e308, 5e-324, float("nan"), float("inf"), "", " ", "0",
    "\0", "\x1b[2J", "a" * 300, "../..", "`id`", "{}", "{scratch}", "é", "\udcff", "1 ms", "-1 s", "1..2", [], {}, [[]],
)  # fmt: skip


def mutate_bytes(content: bytes, chance: random.Random, words: Sequence[bytes] = (), longest: int = _LONGEST) -> bytes:
    """Return the content with one to six changes: of bits, bytes, numbers, pieces, and words of the format."""
    changed = bytearray(content)
    for _ in range(min(chance.randint(1, 6), chance.randint(1, 6))):
        at = chance.randrange(len(changed) + 1)
        way = chance.randrange(10)
        if way == 0 and changed:
            changed[at % len(changed)] ^= 1 << chance.randrange(8)
        elif way == 1:
            changed[at : at + 1] = bytes([chance.randrange(256)])
        elif way == 2:
            del changed[at : at + chance.randint(1, 40)]
        elif way == 3:
            begin = chance.randrange(len(changed) + 1)
            changed[at:at] = changed[begin : begin + chance.randint(1, 80)]
        elif way == 4 and words:
            changed[at:at] = chance.choice(words)
        elif way == 5:
            changed[at : at + chance.randrange(4)] = chance.choice(_NUMBERS)
        elif way == 6:
            changed[at : at + chance.randrange(2)] = chance.choice(_TEXTS)
        elif way == 7:
            number = chance.choice((0, 1, -1, 2**31 - 1, -(2**31), 255, 65535, 2**63 - 1, chance.randrange(2**32)))
            size = chance.choice((4, 8))
            changed[at : at + size] = struct.pack("<q", number)[:size]
        elif way == 8 and chance.random() < 0.3:
            del changed[at:]
        else:
            lines = bytes(changed).split(b"\n")
            one, other = (chance.randrange(len(lines)) for _ in range(2))
            lines[one], lines[other] = lines[other], lines[one]
            if chance.random() < 0.5:
                lines[one:one] = [lines[other]] * chance.choice((1, 1, 2, 20))
            changed = bytearray(b"\n".join(lines))
    return bytes(changed[:longest])


def mutate_tree(content: bytes, chance: random.Random, words: Sequence[bytes] = ()) -> bytes:
    """Return a text of JSON whose tree has one to four changes: leaves, keys, whole branches."""
    try:
        tree = json.loads(content)
    except ValueError:
        return mutate_bytes(content, chance, words)
    for _ in range(chance.randint(1, 4)):
        tree = _changed(tree, chance, words)
    return json.dumps(tree).encode()


def _changed(tree: Any, chance: random.Random, words: Sequence[bytes]) -> Any:
    """Return a tree with one change, somewhere."""
    if isinstance(tree, dict) and tree and chance.random() < 0.9:
        key = chance.choice(list(tree))
        way = chance.randrange(12)
        if way == 0:
            return {name: value for name, value in tree.items() if name != key}
        if way == 1:
            named = chance.choice(words).decode(errors="replace") if words else "key"
            return {**tree, named: chance.choice((*_LEAVES, tree[key]))}
        if way == 2:
            return {str(chance.choice(_LEAVES)) if name == key else name: value for name, value in tree.items()}
        return {**tree, key: _changed(tree[key], chance, words)}
    if isinstance(tree, list) and tree and chance.random() < 0.9:
        at = chance.randrange(len(tree))
        way = chance.randrange(8)
        if way == 0:
            return tree[:at] + tree[at + 1 :]
        if way == 1:
            return tree[:at] + [tree[at]] * chance.choice((2, 50)) + tree[at:]
        return [*tree[:at], _changed(tree[at], chance, words), *tree[at + 1 :]]
    if isinstance(tree, str) and chance.random() < 0.6:
        text = mutate_bytes(tree.encode(errors="surrogatepass"), chance, words, 2000)
        return text.decode(errors="replace")
    if isinstance(tree, dict | list) and chance.random() < 0.1:
        return [tree] * 3
    return chance.choice(_LEAVES)
