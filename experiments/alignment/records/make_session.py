"""Make an address book and a session of commands on it: the same files from the same arguments, on every machine."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

# fmt: off
_SYLLABLES = (
    "al", "an", "ba", "be", "cor", "da", "el", "fa", "gor", "ha", "il", "ja", "kel", "la", "mi",
    "nor", "o", "pra", "qui", "ro", "sa", "ter", "u", "ven", "wil", "xa", "yo", "zim",
)
# fmt: on
_KEYS = ("name", "balance", "city", "phone")


def _word(chance: random.Random, syllables: int) -> str:
    return "".join(chance.choice(_SYLLABLES) for _ in range(syllables)).capitalize()


def _records(count: int, first: int, cities: list[str], chance: random.Random) -> Iterator[tuple[int, str, str]]:
    """Yield each record's number, its name and its line of text."""
    for number in range(first, first + count):
        name = f"{_word(chance, 3)} {_word(chance, chance.choice((2, 3)))}"
        phone = f"{chance.randrange(10**9):09d}"
        yield number, name, f"{number},{name},{chance.choice(cities)},{phone},{chance.randrange(-500_000, 900_000)}"


def _commands(
    rounds: int, deletes: int, finds: int, book: dict[int, str], cities: list[str], chance: random.Random
) -> Iterator[str]:
    """Yield the session: rounds of sorting, lookups, deletions, additions and reports, each by other keys and sizes."""
    for turn in range(rounds):
        yield f"sort {_KEYS[turn % len(_KEYS)]}"
        yield "totals" if turn % 3 else "listing"
        gone = chance.sample(sorted(book), round(deletes * chance.uniform(0.5, 1.5)))
        half = len(gone) // 2
        yield from (f"delete {number}" for number in gone[:half])
        yield "sort name"
        wanted = chance.choices(sorted(book), k=round(finds * chance.uniform(0.5, 1.5)))
        for position, number in enumerate(gone[half:]):
            yield from (f"find {book[other]}" for other in wanted[position :: len(gone) - half])
            yield f"delete {number}"
        for number in gone:
            del book[number]
        yield "compact"
        for number, name, line in _records(len(gone), max(book) + 1, cities, chance):
            book[number] = name
            yield f"add {line}"
    yield "sort number"
    yield "write"


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, required=True, help="records at the beginning")
    parser.add_argument("--rounds", type=int, required=True, help="rounds of commands")
    parser.add_argument("--deletes", type=int, required=True, help="records deleted in a round, on average")
    parser.add_argument("--finds", type=int, required=True, help="names looked up in a round, on average")
    parser.add_argument("book", type=Path)
    parser.add_argument("session", type=Path)
    options = parser.parse_args()
    chance = random.Random(1)
    cities = sorted({_word(chance, 3) for _ in range(60)})
    records = list(_records(options.records, 1, cities, chance))
    options.book.write_text("".join(f"{line}\n" for _, _, line in records))
    book = {number: name for number, name, _ in records}
    commands = _commands(options.rounds, options.deletes, options.finds, book, cities, chance)
    options.session.write_text("".join(f"{command}\n" for command in commands))


if __name__ == "__main__":
    main()
