"""Distances between forecasts: all pairs of two sets, and points that belong together.

Both metrics offer ``outer``, (n, K) and (m, K) to (n, m), and ``paired``, arrays (..., K) that
broadcast to (...). They return distances, or their squares where those are asked for.
"""

import numpy as np
from scipy.spatial.distance import cdist

# From this number of columns a matrix product pays, although it needs a correction.
_PRODUCT = 8
# Squared distances of a product have an absolute error of some 1e-16. Below this one the error of
# the distance itself would exceed 1e-14, so these few are computed again from the differences.
_NEAR = 1e-4
_MANY = 1 / 16  # share of near pairs from which all pairs are computed from the differences


class TotalVariation:
    """Half of the sum of absolute differences, between 0 and 1."""

    @staticmethod
    def outer(x, y, *, squared=False):
        distances = cdist(x, y, "cityblock")
        distances *= 0.5
        return np.square(distances, out=distances) if squared else distances

    @staticmethod
    def paired(x, y, *, squared=False):
        distances = 0.5 * np.abs(x - y).sum(axis=-1)
        return distances**2 if squared else distances


class Euclidean:
    """Root of the sum of squared differences, between 0 and the root of 2."""

    @staticmethod
    def outer(x, y, *, squared=False):
        squares = _squared_euclidean(x, y)
        return squares if squared else np.sqrt(squares, out=squares)

    @staticmethod
    def paired(x, y, *, squared=False):
        squares = np.square(x - y).sum(axis=-1)
        return squares if squared else np.sqrt(squares)


def _squared_euclidean(x, y):
    r"""One product of :math:`[-2x, \|x\|^2, 1]` and :math:`[y, 1, \|y\|^2]`, corrected nearby."""
    if x.shape[1] < _PRODUCT:
        return cdist(x, y, "sqeuclidean")
    left = np.column_stack([-2 * x, np.square(x).sum(axis=1), np.ones(len(x))])
    right = np.column_stack([y, np.ones(len(y)), np.square(y).sum(axis=1)])
    squares = left @ right.T
    near = np.flatnonzero(squares < _NEAR)
    if len(near) > _MANY * squares.size:
        return cdist(x, y, "sqeuclidean")
    i, j = np.divmod(near, len(y))
    squares.flat[near] = np.square(x[i] - y[j]).sum(axis=1)
    return squares


METRICS = {"total_variation": TotalVariation, "euclidean": Euclidean}
