"""Make the facts of some days of deliveries: the same file from the same arguments, on every machine."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

_OTHER_STATES = ("delivered", "cancelled", "postponed")
_SIDE = 100_000  # of the city, in metres


def _orders(count: int, customers: list[str], chance: random.Random) -> Iterator[tuple[str, str]]:
    """Yield orders with customer and state: two open ones a customer on average, so that one in eight gets nothing."""
    share_open = 2 * len(customers) / count
    for _ in range(count):
        state = "open" if chance.random() < share_open else chance.choice(_OTHER_STATES)
        yield chance.choice(customers), state


def _roads(places: dict[str, tuple[int, int]]) -> Iterator[str]:
    """Yield a road from each place to every other, as long as the streets of a city of square blocks make it."""
    for start, (x, y) in places.items():
        for end, (other_x, other_y) in places.items():
            if start != end:
                yield f"(fact road {start} {end} {abs(x - other_x) + abs(y - other_y)})"


def _positions(count: int, chance: random.Random) -> Iterator[str]:
    """Yield what vehicles report on their way, which no rule asks for."""
    for _ in range(count):
        yield f"(fact position vehicle-{chance.randrange(40)} {chance.randrange(_SIDE)} {chance.randrange(_SIDE)})"


def _facts(days: int, customers: int, orders: int, positions: int, chance: random.Random) -> Iterator[str]:
    names = [f"customer-{number}" for number in range(customers)]
    places = {name: (chance.randrange(_SIDE), chance.randrange(_SIDE)) for name in ["depot", *names]}
    for _ in range(days):
        placed = list(_orders(orders, names, chance))
        yield from (f"(fact order {number} {customer} {state})" for number, (customer, state) in enumerate(placed))
        yield "(fact stop depot)"
        yield "(run)"
        yield from _roads(places)
        yield "(fact phase plan)"
        yield "(run)"
        for _ in {customer for customer, state in placed if state == "open"}:
            yield from _positions(round(positions * chance.uniform(0.3, 1.7)), chance)
            yield "(fact tick)"
            yield "(run)"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, required=True, help="days, a round each")
    parser.add_argument("--customers", type=int, required=True)
    parser.add_argument("--orders", type=int, required=True, help="orders that are looked through each day")
    parser.add_argument("--positions", type=int, required=True, help="positions reported between two stops, on average")
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    facts = _facts(options.days, options.customers, options.orders, options.positions, random.Random(1))
    options.file.write_text("".join(f"{fact}\n" for fact in facts))


if __name__ == "__main__":
    main()
