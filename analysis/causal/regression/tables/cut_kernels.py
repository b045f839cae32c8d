"""The compiled loop that finds where a continuous parent is best cut."""

from __future__ import annotations

from typing import Any

import numpy as np


def cut_lengths(
    target: Any,
    cells: Any,
    order: Any,
    x: Any,
    cell_count: int,
    categories: int,
    price: float,
    fewest: int,
    lengths: Any,
) -> None:
    """Compute the length of a probability table and its data for each cut of a parent into two intervals.

    `target`: int64, shape (rows,). Codes of the discrete variable.
    `cells`: int64, shape (rows,). Cells before the cut, which halves each.
    `order`: int64, shape (rows,). Rows by rising `x`.
    `x`: float64, shape (rows,). The numbers that are cut.
    `lengths`: float64, shape (rows,). Filled: with the cut behind the first, the second, … row of `order`; infinite
    where it is none.
    """
    rows = len(target)
    counts = np.zeros((2, cell_count, categories), np.int64)
    totals = np.zeros((2, cell_count), np.int64)
    of = np.zeros(rows + 2)  # m·log₂ m
    for many in range(1, rows + 2):
        of[many] = many * np.log2(many)
    for row in range(rows):
        counts[1, cells[row], target[row]] += 1
        totals[1, cells[row]] += 1
    bits, present = 0.0, 0
    for cell in range(cell_count):
        bits += of[totals[1, cell]]
        present += totals[1, cell] > 0
        for category in range(categories):
            bits -= of[counts[1, cell, category]]
    # Rows move from the upper interval (1) to the lower one (0) in the order of rising x. `bits` stays the code length
    # of all counts, Σ m·log₂ m over cells less that over categories: each move changes four of its summands.
    for at in range(rows):
        row = order[at]
        cell, category = cells[row], target[row]
        for side, change in ((1, -1), (0, 1)):
            many, all_of_them = counts[side, cell, category], totals[side, cell]
            bits += of[all_of_them + change] - of[all_of_them] - of[many + change] + of[many]
            present += int(all_of_them + change > 0) - int(all_of_them > 0)
            counts[side, cell, category] = many + change
            totals[side, cell] = all_of_them + change
        usable = at + 1 >= fewest and rows - at - 1 >= fewest and x[order[min(at + 1, rows - 1)]] > x[row]
        lengths[at] = bits + present * price if usable else np.inf
