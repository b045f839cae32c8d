"""Make the list of phases that the program works through.

    python make_order.py --words 40 --seed 1 [--odd 0.05] FILE

Two words of phases recur in random order: `chase compute sort compute stream` and `sort chase sort stream`. How long
each phase lasts is random.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

WORDS = (("chase", "compute", "sort", "compute", "stream"), ("sort", "chase", "sort", "stream"))
"""Neither begins with what one of them ends with, so that no two equal phases meet."""
SHARE_OF_FIRST = 0.65
SHORTEST, LONGEST = 15, 60
"""Amount of a phase: some 10,000 basic blocks each."""


def phases(words: int, seed: int, odd: float) -> Iterator[tuple[str, int]]:
    """Yield phases and their amounts.

    Parameters
    ----------
    words : int
        How many words there are.
    seed : int
        Of all that is random.
    odd : float
        Share of phases that are left out, where that brings no two equal ones together.
    """
    draw = random.Random(seed)
    names = [name for _ in range(words) for name in WORDS[draw.random() >= SHARE_OF_FIRST]]
    before = ""
    for name, after in zip(names, [*names[1:], ""], strict=True):
        if draw.random() < odd and before != after:
            continue
        yield name, draw.randint(SHORTEST, LONGEST)
        before = name


def main() -> None:
    """Write the list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--words", type=int, required=True, help="how many words there are")
    parser.add_argument("--seed", type=int, required=True, help="of all that is random")
    parser.add_argument("--odd", type=float, default=0.0, help="share of phases that are left out (0)")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    lines = [f"{name} {amount}\n" for name, amount in phases(arguments.words, arguments.seed, arguments.odd)]
    arguments.file.write_text("".join(lines))


if __name__ == "__main__":
    main()
