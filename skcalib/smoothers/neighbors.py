"""Nearest neighbours in the simplex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from skcalib._values import is_whole, shown
from skcalib.smoothers._base import Smoother

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_ENTRIES = 4_000_000  # entries of the arrays of a chunk, to bound the memory
_SAME = 1e-12  # distances that differ by no more are equal, as rounding separates them


class NearestNeighborsSmoother(Smoother):
    r"""Mean over the nearest forecasts in Euclidean distance, each sample left out.

    Samples at the same distance count alike, so the order of the samples has no influence. If the
    k-th nearest is one of m samples at its distance, of which only j are needed, each of these
    m has the weight j / m, times its own.

    Parameters
    ----------
    n_neighbors : "auto" or int, default="auto"
        Neighbours to average over; "auto" is a tenth of the samples and at most 2,000, as in the
        published code of L23. Never more than the other samples.

    Attributes
    ----------
    n_neighbors_ : int
        Neighbours in use.

    See Also
    --------
    skcalib.smoothers.DirichletKernel : A kernel in place of neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.smoothers import NearestNeighborsSmoother
    >>> p = np.array([0.1, 0.2, 0.8, 0.9])
    >>> smoother = NearestNeighborsSmoother(1).fit(np.column_stack([1 - p, p]), p[:, None])
    >>> smoother.smooth().ravel()
    array([0.2, 0.1, 0.9, 0.8])
    """

    def __init__(self, n_neighbors: int | Literal["auto"] = "auto") -> None:
        self.n_neighbors = n_neighbors

    def fit(
        self, forecast: np.ndarray, target: np.ndarray, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Index the forecasts (n, K) and store target (n, C)."""
        self._store(forecast, target, sample_weight)
        n_samples = len(self.forecast_)
        if isinstance(self.n_neighbors, str) and self.n_neighbors == "auto":
            wanted = min(2000, max(1, n_samples // 10))
        elif is_whole(self.n_neighbors) and self.n_neighbors >= 1:
            wanted = int(self.n_neighbors)
        else:
            raise ValueError(
                f"n_neighbors must be 'auto' or a positive whole number, got "
                f"{shown(self.n_neighbors)}."
            )
        self.n_neighbors_ = min(wanted, max(1, n_samples - 1))
        # Two columns are redundant, and a tree over one coordinate is fast.
        points, inverse = np.unique(self._coordinates(self.forecast_), axis=0, return_inverse=True)
        self._point, self._count = inverse.ravel(), np.bincount(inverse.ravel())
        self._index = NearestNeighbors().fit(points)
        return self

    def smooth(self, values: ArrayLike | None = None) -> np.ndarray:
        """Mean of `values` over the nearest *other* samples."""
        check_is_fitted(self)
        self._need_two()
        values = self._values(values)
        flat = values.reshape(len(values), -1)
        return self._average(self.forecast_, flat, leave_out=True).reshape(values.shape)

    def smooth_held_out(self, values: ArrayLike | None = None) -> np.ndarray:
        """Identical to `smooth`, which leaves each sample out."""
        return self.smooth(values)

    def predict(self, forecast: np.ndarray) -> np.ndarray:
        """Mean of the fitted target over the nearest fitted forecasts."""
        check_is_fitted(self)
        target = self.target_.reshape(len(self.target_), -1)
        return self._average(np.asarray(forecast, dtype=np.float64), target)

    @staticmethod
    def _coordinates(forecast):
        return forecast[:, 1:] if forecast.shape[1] == 2 else forecast

    def _average(self, points, values, leave_out=False):
        """Weighted means of values (n, C) over the nearest samples."""
        weighted = np.column_stack([self.weight_[:, None] * values, self.weight_])
        sums = np.column_stack([np.bincount(self._point, column) for column in weighted.T])
        points = self._coordinates(points)
        out = np.empty((len(points), values.shape[1]))
        nearest = min(self.n_neighbors_ + 1 + leave_out, len(sums))
        rows = max(1, _ENTRIES // (nearest * weighted.shape[1]))
        for start in range(0, len(points), rows):
            here = np.arange(start, min(start + rows, len(points)))
            own = self._point[here] if leave_out else np.full(len(here), -1)
            found, share = self._shares(points[here], own, nearest)
            total = np.einsum("ij,ijc->ic", share, sums[found])
            if leave_out:
                at_own = np.sum(share * (found == own[:, None]), axis=1)
                total -= at_own[:, None] * weighted[here]
                # The difference is inaccurate where one weight is far above those beside it.
                for i in np.flatnonzero(total[:, -1] < 1e-9 * at_own * self.weight_[here]):
                    each = dict(zip(found[i], share[i], strict=True))
                    each = np.array([each.get(point, 0.0) for point in self._point])
                    each[here[i]] = 0.0
                    total[i] = each @ weighted
            out[here] = total[:, :-1] / total[:, -1:]
        return out

    def _shares(self, points, own, nearest):
        """The nearest different forecasts of each point, and the share of each that counts.

        One sample at the forecast ``own`` does not count. Where the last distance is not complete,
        more forecasts are asked for.
        """
        distance, found = self._index.kneighbors(points, nearest)
        count = self._count[found] - (found == own[:, None])
        first = np.diff(distance, axis=1, prepend=-1.0) > _SAME
        last = np.column_stack([first[:, 1:], np.ones(len(points), dtype=bool)])
        reached = np.cumsum(count, axis=1)
        before = np.maximum.accumulate(np.where(first, reached - count, 0), axis=1)
        after = np.where(last, reached, reached[:, -1:])
        after = np.minimum.accumulate(after[:, ::-1], axis=1)[:, ::-1]
        share = np.clip((self.n_neighbors_ - before) / np.maximum(after - before, 1), 0.0, 1.0)
        if nearest < len(self._count) and np.any(before[:, -1] < self.n_neighbors_):
            return self._shares(points, own, min(2 * nearest, len(self._count)))
        return found, share
