"""Segments by their nearest prototype, and the other kind of prototype that the paper names: the medoids of classes.

"Structural analysis of measurement paths", section 2, eq. (4), and section 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.structure.distances import square
from unperturbed.errors import DataError

__all__ = ["medoids", "nearest_prototype"]


def nearest_prototype(distances: ArrayLike, members: ArrayLike) -> NDArray[np.int64]:
    """Give each segment the class of its nearest prototype, eq. (4).

    Parameters
    ----------
    distances : shape (d, d)
        Of all segments; see `indel_distances`.
    members : int, shape (k,)
        Rows of the prototypes, such as `Kernel.members`; one or more where there are segments, none twice.

    Returns
    -------
    int64, shape (d,)
        For each segment the position of its prototype in `members`. Each prototype has its own class, also where another one is at distance 0. Of
        several nearest ones the first in `members`.

    Raises
    ------
    DataError
        A matrix that is not square, or members that are not rows of it.
    """
    matrix, chosen = square(distances), np.asarray(members, dtype=np.int64).reshape(-1)
    outside = chosen[(chosen < 0) | (chosen >= len(matrix))]
    if len(outside):
        raise DataError(f"member {outside[0]} is no row of the distances, which has {len(matrix)}")
    if len(np.unique(chosen)) < len(chosen):
        raise DataError("a member is given twice; give each row once")
    if not len(matrix):
        return np.empty(0, np.int64)
    if not len(chosen):
        raise DataError("there are no members; give the row of one prototype at least")
    labels: NDArray[np.int64] = matrix[:, chosen].argmin(axis=1)
    labels[chosen] = np.arange(len(chosen))
    return labels


def medoids(distances: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    """Return of each class the segment that is nearest to all others of its class on average (section 1).

    Parameters
    ----------
    distances : shape (d, d)
        Of all segments; see `indel_distances`.
    labels : int, shape (d,)
        Class of each segment, numbered from 0; see `nearest_prototype`.

    Returns
    -------
    int64, shape (classes,)
        Row of each class's medoid; of several the lowest.

    Raises
    ------
    DataError
        A matrix that is not square, labels that do not fit it, or a number without segments below the highest one.
    """
    matrix, classes = square(distances), np.asarray(labels)
    if classes.shape != (len(matrix),):
        raise DataError(f"labels have the shape {classes.shape}; give one for each of the {len(matrix)} segments")
    if not len(matrix):
        return np.empty(0, np.int64)
    if classes.min() < 0:
        raise DataError(f"label {classes.min()} of segment {classes.argmin()} is below 0; number classes from 0")
    found = np.empty(int(classes.max()) + 1, np.int64)
    for number in range(len(found)):
        rows = np.flatnonzero(classes == number)
        if not len(rows):
            raise DataError(f"class {number} has no segments; number classes from 0 without gaps")
        found[number] = rows[matrix[np.ix_(rows, rows)].sum(axis=1).argmin()]
    return found
