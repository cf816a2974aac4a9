"""Nearest neighbours in the simplex."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from skcalib._util.messages import is_whole, shown
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike
from skcalib.smoothers._base import Smoother, check_at_least_two, free_columns, sums_by_cell

_ENTRIES = 4_000_000  # entries of the arrays of a chunk, to bound the memory
_SAME = 1e-12  # distances that differ by no more are equal, as rounding separates them
_CHAIN = 20  # distances, each the same as the next, that an interval may end with
_SHARE = 1e-6  # of the weight: differences of cumulative sums of less are inaccurate


class NearestNeighborsSmoother(Smoother):
    r"""Mean over the nearest forecasts in Euclidean distance, each sample left out.

    Samples at the same distance are treated alike, so the order of the samples does not matter. If
    the k-th nearest is one of m samples at its distance, of which only j are needed, each of these
    m samples has j / m times its own weight.

    Cost: for two columns the neighbours are an interval of the sorted scores. This takes O(n log^2
    n) for any number of neighbours, a second for 100,000 samples. For more columns a tree finds k
    neighbours in O(n k) or more.

    Parameters
    ----------
    n_neighbors : "auto" or int, default="auto"
        Number of neighbours to average over. "auto" is a tenth of the samples and at most 2,000, as
        in the published code of L23. At most all other samples are used.

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
        # A tree over one coordinate is fast.
        points, inverse = np.unique(free_columns(self.forecast_), axis=0, return_inverse=True)
        self._point, self._count = inverse.ravel(), np.bincount(inverse.ravel())
        self._index = NearestNeighbors().fit(points)
        return self

    def smooth(self, values: ArrayLike | None = None) -> np.ndarray:
        """Mean of `values` over the nearest *other* samples."""
        values = self._values(values)
        check_at_least_two(len(values))
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

    def _average(self, points, values, leave_out=False):
        """Weighted means of values (n, C) over the nearest samples."""
        weighted = np.column_stack([self.weight_[:, None] * values, self.weight_])
        sums = sums_by_cell(self._point, weighted)
        points = free_columns(points)
        out = np.empty((len(points), values.shape[1]))
        nearest = min(self.n_neighbors_ + 1 + leave_out, len(sums))
        todo = np.arange(len(points))
        if points.shape[1] == 1 and nearest > SIZES.interval_neighbors:
            total, at_own, exact = self._interval_sums(points[:, 0], sums, leave_out)
            if leave_out:
                total -= at_own[:, None] * weighted
            exact &= total[:, -1] > _SHARE * sums[:, -1].sum()
            out[exact] = total[exact, :-1] / total[exact, -1:]
            todo = np.flatnonzero(~exact)
        rows = max(1, _ENTRIES // (nearest * weighted.shape[1]))
        for start in range(0, len(todo), rows):
            here = todo[start : start + rows]
            own_point = self._point[here] if leave_out else np.full(len(here), -1)
            neighbours, share = self._shares(points[here], own_point, nearest)
            total = np.einsum("ij,ijc->ic", share, sums[neighbours])
            if leave_out:
                at_own = np.sum(share * (neighbours == own_point[:, None]), axis=1)
                total -= at_own[:, None] * weighted[here]
                # The difference is inaccurate where one weight is far above those beside it.
                for i in np.flatnonzero(total[:, -1] < 1e-9 * at_own * self.weight_[here]):
                    shares = dict(zip(neighbours[i], share[i], strict=True))
                    shares = np.array([shares.get(point, 0.0) for point in self._point])
                    shares[here[i]] = 0.0
                    total[i] = shares @ weighted
            out[here] = total[:, :-1] / total[:, -1:]
        return out

    def _shares(self, points, own_point, nearest):
        """Nearest different forecasts of each point, and their shares, without one at its own."""
        distance, neighbours = self._index.kneighbors(points, nearest)
        count = self._count[neighbours] - (neighbours == own_point[:, None])
        first = np.diff(distance, axis=1, prepend=-1.0) > _SAME
        last = np.column_stack([first[:, 1:], np.ones(len(points), dtype=bool)])
        reached = np.cumsum(count, axis=1)
        before = np.maximum.accumulate(np.where(first, reached - count, 0), axis=1)
        after = np.where(last, reached, reached[:, -1:])
        after = np.minimum.accumulate(after[:, ::-1], axis=1)[:, ::-1]
        share = np.clip((self.n_neighbors_ - before) / np.maximum(after - before, 1), 0.0, 1.0)
        # Where the last distance is not complete, more forecasts are asked for.
        if nearest < len(self._count) and np.any(before[:, -1] < self.n_neighbors_):
            return self._shares(points, own_point, min(2 * nearest, len(self._count)))
        return neighbours, share

    def _interval_sums(self, points, sums, leave_out):
        """Sums (n, C) on a line, shares of the own forecast, and whether an interval was found."""
        # Sums are differences of cumulative ones; the count of each interval is that of `_shares`.
        x, k = self._index._fit_X[:, 0], self.n_neighbors_
        if leave_out:
            at, place = x, self._point
        else:
            at, place = np.unique(points, return_inverse=True)
        count = np.append(0, np.cumsum(self._count))
        inner, outer, exact = _intervals(x, at, count, k + leave_out)
        before, after = (count[high] - count[low] for low, high in (inner, outer))
        if leave_out:
            points_themselves = np.arange(len(x))
            inside = (inner[0] <= points_themselves) & (points_themselves < inner[1])
            before, after = before - inside, after - 1
        share = np.clip((k - before) / np.maximum(after - before, 1), 0.0, 1.0)
        cumulative = np.concatenate([np.zeros((1, sums.shape[1])), np.cumsum(sums, axis=0)])
        within, all_of_it = (cumulative[high] - cumulative[low] for low, high in (inner, outer))
        total = within + share[:, None] * (all_of_it - within)
        at_own = np.where(inside, 1.0, share) if leave_out else share
        return total[place], at_own[place], exact[place]


def _intervals(x, at, count, k):
    """Intervals [low, high) of sorted points x around sorted places, and whether they are exact."""
    # The outer one holds the k nearest samples and those at the distance of the k-th; the inner one
    # is without all samples at that distance. `count` holds the cumulative counts of the samples.
    middle = np.searchsorted(x, at)
    reach = np.full(len(at), np.inf)

    def within(distance):
        low = np.searchsorted(x, at - distance - _SAME / 2, side="left")
        return low, np.searchsorted(x, at + distance + _SAME / 2, side="right")

    for side, most in ((-1, middle), (1, len(x) - middle)):
        # Bisection: the first point on this side within whose distance there are k samples.
        low, high = np.zeros(len(at), dtype=np.intp), np.minimum(most, k) + 1
        while np.any(high - low > 1):
            step = np.maximum((low + high) // 2, 1)
            point = middle - step if side < 0 else middle + step - 1
            distance = np.abs(x[np.clip(point, 0, len(x) - 1)] - at)
            first, last = within(distance)
            enough = count[last] - count[first] >= k
            low, high = np.where(enough, low, step), np.where(enough, step, high)
        reached = high <= most
        point = np.clip(middle - high if side < 0 else middle + high - 1, 0, len(x) - 1)
        reach = np.where(reached, np.minimum(reach, np.abs(x[point] - at)), reach)
    low, high = within(reach)

    def ends(low, high):
        """Distances of the first and the last point of intervals."""
        return at - x[np.minimum(low, len(x) - 1)], x[np.maximum(high - 1, 0)] - at

    for _ in range(_CHAIN):  # further points at the same distance
        furthest = np.maximum(*ends(low, high)) + _SAME
        left, right = ends(low - 1, high + 1 - (high == len(x)))
        left, right = (low > 0) & (left <= furthest), (high < len(x)) & (right <= furthest)
        low, high = low - left, high + right
        if not np.any(left | right):
            break
    exact = ~(left | right)
    outer = low, high
    nearest = np.maximum(*ends(low, high))
    for _ in range(_CHAIN):
        left, right = ends(low, high)
        left = (low < high) & (left >= nearest - _SAME)
        right_alone = (low < high) & (right >= nearest - _SAME)
        right = right_alone & (high - low > left)
        nearest = np.minimum(nearest, np.where(left, ends(low, high)[0], np.inf))
        nearest = np.minimum(nearest, np.where(right, ends(low, high)[1], np.inf))
        low, high = low + left, high - right
        if not np.any(left | right):
            break
    return (low, high), outer, exact & ~(left | right)
