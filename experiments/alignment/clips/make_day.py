"""Make a day of a courier service, as commands for CLIPS: the same file from the same arguments, on every machine."""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

_SIDE = 100_000  # of the city, in metres
_PATIENCE = 3  # rounds that a parcel waits for another
_ROUNDS_A_REPORT = 16


def _position(chance: random.Random) -> str:
    """Return the fact of where a courier is."""
    return f"(position (courier c{chance.randrange(40)}) (x {chance.randrange(_SIDE)}) (y {chance.randrange(_SIDE)}))"


def _parcel(number: int, minute: int, chance: random.Random) -> str:
    """Return the fact of where a parcel goes, and from which round on it waits no longer."""
    x, y = chance.randrange(_SIDE), chance.randrange(_SIDE)
    return f"(parcel (number {number}) (x {x}) (y {y}) (due {minute + _PATIENCE}))"


def _commands(rounds: int, parcels: int, positions: int, chance: random.Random) -> Iterator[str]:
    """Yield the commands. How many facts come between two rounds varies widely, so that no round is like another."""
    yield "(reset)"
    numbers = itertools.count()
    for minute in range(rounds):
        for _ in range(round(positions * chance.uniform(0.3, 1.7))):
            yield f"(assert {_position(chance)})"
        for _ in range(round(parcels * chance.uniform(0.6, 1.4))):
            yield f"(assert {_parcel(next(numbers), minute, chance)})"
        yield f"(assert (round {minute}))"
        if minute % _ROUNDS_A_REPORT == _ROUNDS_A_REPORT - 1:
            yield "(assert (report))"
        yield "(run)"
    yield "(exit)"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, required=True, help="rounds of couriers, spread evenly over the day")
    parser.add_argument("--parcels", type=int, required=True, help="parcels that come between two rounds, on average")
    parser.add_argument(
        "--positions", type=int, required=True, help="positions that couriers report between two rounds, on average"
    )
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    commands = _commands(options.rounds, options.parcels, options.positions, random.Random(1))
    options.file.write_text("".join(f"{command}\n" for command in commands))


if __name__ == "__main__":
    main()
