"""Write a day of a bus company as a minimum-cost flow problem: which vehicle makes which trip.

    python make_day.py --trips 1500 FILE

As in mcf, the program of SPEC CPU2006 that the paper took: vehicles leave a depot, make trips with a fixed start and
end, drive empty from the end of one to the start of a later one, and return. Every trip is made once; vehicles and
empty kilometres cost. FILE is in the DIMACS format.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

MINUTES = 18 * 60
SIDE = 120
"""Minutes that crossing the town takes."""
VEHICLE, WAITING, EMPTY = 5000, 1, 3
LONGEST_BREAK = 120


def problem(trips: int, seed: int) -> str:
    """Return the problem: node 1 is the depot, 2 i the start of trip i and 2 i + 1 its end."""
    chance = random.Random(seed)
    starts = sorted(chance.randrange(MINUTES) for _ in range(trips))
    places = [[chance.randrange(SIDE) for _ in range(4)] for _ in range(trips)]
    ends = [start + 5 + _apart(place[:2], place[2:]) for start, place in zip(starts, places, strict=True)]
    arcs = []
    for i in range(trips):
        start, end = 2 * i + 2, 2 * i + 3
        arcs += [(1, start, VEHICLE), (end, 1, EMPTY * _apart(places[i][2:], [SIDE // 2, SIDE // 2]))]
        for j in range(i + 1, trips):
            empty = _apart(places[i][2:], places[j][:2])
            waiting = starts[j] - ends[i] - empty
            if 0 <= waiting <= LONGEST_BREAK:
                arcs.append((end, 2 * j + 2, EMPTY * empty + WAITING * waiting))
    # A trip takes one vehicle at its start and gives one at its end, and the depot has as many as it is asked for.
    lines = [f"p min {2 * trips + 1} {len(arcs)}"]
    lines += [f"n {2 * i + 2} -1\nn {2 * i + 3} 1" for i in range(trips)]
    lines += [f"a {source} {target} 0 {trips if 1 in (source, target) else 1} {cost}" for source, target, cost in arcs]
    return "\n".join(lines) + "\n"


def _apart(place: list[int], other: list[int]) -> int:
    return abs(place[0] - other[0]) + abs(place[1] - other[1])


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--trips", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    settings = parser.parse_args()
    settings.file.write_text(problem(settings.trips, settings.seed))


if __name__ == "__main__":
    main()
