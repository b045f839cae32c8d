"""Nodes whose baseline is unlike that of the others. The rule sees baselines alone, and so favours no verdict."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unperturbed.analysis.multiple_testing import holm
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.wording import p_value

special = LazyLibrary("scipy.special")

FEWEST = 5
"""With fewer nodes, the spread of the others is known from less than four of them."""
LEVEL = 0.01
"""Family-wise, over nodes and quantities: a node is named in 1 % of campaigns on nodes that are alike."""


def apart(quantities: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Return the nodes that are apart in their baselines, each with what differs.

    `quantities`: Quantity (such as the mean logarithm of a metric's total in the baseline) to node to its value.
    Result: A clause for each such node; empty with fewer than 5 nodes.

    Notes
    -----
    Each node is compared with the mean of the others by its prediction interval (a studentised deleted residual, n - 2
    degrees of freedom), corrected by Holm over nodes and quantities, at 1 %.
    """
    tested: list[tuple[str, str]] = []
    ps: list[float] = []
    for name, by_node in quantities.items():
        values = np.array(list(by_node.values()), np.float64)
        if len(values) < FEWEST or not np.isfinite(values).all():
            continue
        for at, node in enumerate(by_node):
            others = np.delete(values, at)
            error = others.std(ddof=1) * np.sqrt(1 + 1 / len(others))
            distance = abs(values[at] - others.mean())
            if distance <= 1e-12 * max(1.0, abs(float(others.mean()))):
                p = 1.0
            else:
                p = float(2 * special.stdtr(len(others) - 1, -distance / error)) if error else 0.0
            tested.append((node, name))
            ps.append(p)
    found: dict[str, list[str]] = {}
    for (node, name), p in zip(tested, holm(ps).tolist() if ps else [], strict=True):
        if p <= LEVEL:
            found.setdefault(node, []).append(f"{name} (p {p_value(p)})")
    return {node: ", ".join(what) for node, what in found.items()}
