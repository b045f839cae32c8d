"""How often edges come back when a model is learnt from parts of the table.

Subsamples of three quarters of the rows, without repetition: a bootstrap's duplicates would make every variable look
determined by any other. What comes back is precise; what was never found because it is weak does not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from unperturbed.analysis.causal.adjacency import Pair
from unperturbed.analysis.causal.variables import Data

__all__ = ["SHARE", "stability_of"]

SHARE = 0.75
"""Of the rows, in each subsample."""


def stability_of(
    data: Data, adjacencies: Callable[[Data], Iterable[Pair]], *, subsamples: int, seed: int
) -> Mapping[Pair, float]:
    """Return for each pair of variables in how many of the subsamples they are adjacent, as a share.

    Parameters
    ----------
    data : Data
    adjacencies : callable
        Learns which variables are adjacent from some rows.
    subsamples : int
        How many; 0 gives no shares.
    seed : int

    Returns
    -------
    mapping of Pair to float
        Pairs that were never adjacent are not in it.
    """
    random = np.random.default_rng(seed)
    counts: Counter[Pair] = Counter()
    size = max(3, round(SHARE * data.rows))
    for _ in range(subsamples):
        counts.update(adjacencies(data.take(np.sort(random.choice(data.rows, size, replace=False)))))
    return {pair: count / subsamples for pair, count in counts.items()}
