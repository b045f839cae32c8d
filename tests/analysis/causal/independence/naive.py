"""The measures of independence as their definitions say them: slow and obvious."""

import math

import numpy as np


def canonical_squares(one, other):
    """Squared canonical correlations: eigenvalues of Sxx⁻¹ Sxz Szz⁻¹ Szx."""
    sxx, szz, sxz = one.T @ one, other.T @ other, one.T @ other
    found = np.linalg.eigvals(np.linalg.solve(sxx, sxz) @ np.linalg.solve(szz, sxz.T)).real
    return np.sort(found)[::-1][: min(one.shape[1], other.shape[1])]


def residuals(columns, basis):
    """What least squares leaves of each column."""
    return columns - basis @ np.linalg.lstsq(basis, columns, rcond=None)[0]


def information(x, y, z, at):
    """Mean of log₂ p(xyz) p(z) / (p(xz) p(yz)) at some points.

    x, y, z are lists of columns of rows in units of their bandwidth, or of codes (integers); `at` the same three lists
    of points.
    """

    def weight(columns, points, row, point):
        product = 1.0
        for column, values in zip(columns, points, strict=True):
            if np.issubdtype(column.dtype, np.integer):
                product *= column[row] == values[point]
            else:
                product *= math.exp(-0.5 * (column[row] - values[point]) ** 2)
        return product

    rows = range(len((x + y)[0]))
    points = range(len((at[0] + at[1])[0]))
    total = 0.0
    for point in points:
        xyz = xz = yz = only_z = 0.0
        for row in rows:
            wx, wy, wz = (weight(side, where, row, point) for side, where in zip((x, y, z), at, strict=True))
            xyz += wx * wy * wz
            xz += wx * wz
            yz += wy * wz
            only_z += wz
        total += math.log2(xyz * only_z / (xz * yz))
    return total / len(points)
