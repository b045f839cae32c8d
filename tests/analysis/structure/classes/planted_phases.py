"""Runs whose phases are known."""

import numpy as np


def centres(rng, classes, metrics, apart):
    """Return random places of which the nearest two are so far apart."""
    while True:
        places = rng.random((classes, metrics))
        distances = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2))[np.triu_indices(classes, 1)]
        if distances.min() > 0.5 / classes:
            return places / distances.min() * apart


def phases(rng, elements, classes, dwell):
    """Return the class of each element: phases of random length, the next one another class."""
    labels, label = [], int(rng.integers(classes))
    while len(labels) < elements:
        labels += [label] * int(rng.geometric(1 / dwell))
        label = (label + 1 + int(rng.integers(classes - 1))) % classes
    return np.array(labels[:elements])


def same_partition(one, other):
    """Return the share of elements that lie alike in both, each class matched with the one that it shares most with."""
    table = np.zeros((int(one.max()) + 1, int(other.max()) + 1), int)
    np.add.at(table, (one, other), 1)
    return table.max(axis=1).sum() / len(one) if table.shape[0] == table.shape[1] else 0.0
