"""Nearest neighbours in the simplex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from skcalib.smoothers._base import Smoother

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_ENTRIES = 4_000_000  # neighbour indices per chunk, to bound the memory


class NearestNeighborsSmoother(Smoother):
    """Mean over the nearest forecasts in Euclidean distance, each sample left out.

    Parameters
    ----------
    n_neighbors : "auto" or int, default="auto"
        Neighbours to average over; "auto" is a tenth of the samples and at most 2,000, as in the
        published code of L23. Never more than the other samples.

    Attributes
    ----------
    n_neighbors_ : int
        Neighbours in use.

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
        elif isinstance(self.n_neighbors, (int, np.integer)) and self.n_neighbors >= 1:
            wanted = int(self.n_neighbors)
        else:
            raise ValueError(
                f"n_neighbors must be 'auto' or a positive whole number, got {self.n_neighbors!r}."
            )
        self.n_neighbors_ = min(wanted, max(1, n_samples - 1))
        # Two columns are redundant, and a tree over one coordinate is fast.
        self._index = NearestNeighbors().fit(self._coordinates(self.forecast_))
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
        k = self.n_neighbors_
        points = self._coordinates(points)
        out = np.empty((len(points), values.shape[1]))
        rows = max(1, _ENTRIES // (k + 1))
        for start in range(0, len(points), rows):
            chunk = points[start : start + rows]
            if leave_out:
                found = self._index.kneighbors(chunk, k + 1, return_distance=False)
                found = _without_self(found, start + np.arange(len(chunk)))
            else:
                found = self._index.kneighbors(chunk, k, return_distance=False)
            weight = self.weight_[found][..., None]
            out[start : start + rows] = (weight * values[found]).sum(axis=1) / weight.sum(axis=1)
        return out


def _without_self(found, rows):
    """Drop each sample from its own list; where ties displace it, drop the farthest."""
    drop = found == rows[:, None]
    drop[~drop.any(axis=1), -1] = True
    return found[~drop].reshape(len(found), -1)
