"""Smoothers that average over the cells of a partition of the forecasts.

`PartitionSmoother` is the base class; averaging over its cells is a projection. Cells are bins
(`UniformBins`, `QuantileBins`, cut by `quantile_cuts`), the distinct values of the forecast
(`LevelSets`), cells cut at medians (`MedianCells`), or the blocks of isotonic regression, which
depend on the labels (`IsotonicSmoother`).
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import isotonic_regression
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from skcalib._util.arithmetic import (
    RESOLUTION,
    bin_ends,
    level_starts,
    merge_ties,
    reach_of,
    split_centre,
)
from skcalib._util.parallel import fit_once
from skcalib._util.types import ArrayLike, BinCount, Bins
from skcalib._util.validation import check_count, number_of_samples
from skcalib.smoothers._base import (
    Smoother,
    check_at_least_two,
    check_folds,
    cross_predict,
    free_columns,
    sums_by_cell,
)
from skcalib.stats.bins import parse_bins

_ROUNDING = 1e-5  # of the sums of targets
_ENTRIES = 1 << 20  # of the forecasts whose variances are computed at a time


class PartitionSmoother(Smoother):
    r"""Base class: replace every value by the mean over the cell of its forecast.

    To add a partition, implement `_fit_cells` (learn the cells) and `_cell_keys` (a row of integers
    per forecast that names its cell). In sample, `smooth` is the orthogonal projection on functions
    that are constant in each cell, so divergences of every proper score add up along nested
    partitions. `smooth_held_out` leaves each sample out of its own cell mean; the only sample of a
    cell gets the mean over all other samples.

    New forecasts in a cell without samples get the prediction of the occupied cell whose mean
    forecast is nearest.

    Attributes
    ----------
    cells_ : array of shape (n,)
        Cell of each fitted forecast, 0 to ``n_cells_ - 1``.
    n_cells_ : int
        Number of cells that hold samples.
    """

    projection = True

    def fit(
        self, forecast: np.ndarray, target: np.ndarray, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn the cells from forecasts (n, K) and their means from target (n, C)."""
        return self.fit_rows(forecast, target, sample_weight)

    def fit_rows(
        self,
        forecast: np.ndarray,
        target: np.ndarray,
        sample_weight: ArrayLike | None,
        count: np.ndarray | None = None,
    ) -> Self:
        """As `fit`, for rows that stand for ``count`` (n,) samples each; without held-out means."""
        self._store(forecast, target, sample_weight)
        self._count = count
        self._fit_cells(self.forecast_)
        keys = self._cell_keys(self.forecast_)
        if keys.shape[1] == 1 and keys.min() >= 0 and keys.max() <= len(keys):  # no need to sort
            occupied = np.bincount(keys[:, 0]) > 0
            self.keys_ = np.flatnonzero(occupied)[:, None]
            self.cells_ = (np.cumsum(occupied) - 1)[keys[:, 0]]
        else:
            self.keys_, cells = np.unique(keys, axis=0, return_inverse=True)
            self.cells_ = cells.ravel()
        self.n_cells_ = len(self.keys_)
        self.mass_ = np.bincount(self.cells_, self.weight_, self.n_cells_)
        return self

    def _fit_cells(self, forecast):
        """Learn what `_cell_keys` needs; nothing by default."""

    def _cell_keys(self, forecast):
        """Integer rows (m, D) that name the cell of each forecast."""
        raise NotImplementedError

    def cell_means(self, values: ArrayLike | None = None) -> np.ndarray:
        """Mean of `values` over each cell, shape (n_cells_, C)."""
        values = self._values(values)
        flat = values.reshape(len(values), -1)
        return sums_by_cell(self.cells_, self.weight_[:, None] * flat) / self.mass_[:, None]

    def label_means(self, column: np.ndarray, n_columns: int) -> np.ndarray:
        """The `cell_means` (n_cells_, n_columns) of one-hot rows, from the column of each (n,)."""
        check_is_fitted(self)
        place = self.cells_ * n_columns + column
        sums = np.bincount(place, self.weight_, self.n_cells_ * n_columns)
        return sums.reshape(self.n_cells_, n_columns) / self.mass_[:, None]

    def smooth(self, values: ArrayLike | None = None) -> np.ndarray:
        """Mean of `values` over the cell of each forecast: a projection."""
        values = self._values(values)
        return self.cell_means(values)[self.cells_].reshape(values.shape)

    def smooth_held_out(self, values: ArrayLike | None = None) -> np.ndarray:
        """Mean of `values` over the *other* samples of the cell, or over all others if none."""
        values = self._values(values)
        check_at_least_two(len(values))
        flat = values.reshape(len(values), -1)
        result = np.empty_like(flat)
        todo = np.ones(len(flat), dtype=bool)
        equal, one_cell = np.ones(len(flat)), np.zeros_like(self.cells_)
        # First the cell, then all samples; unweighted only where the weight of the others is
        # negligible.
        for cells in (self.cells_, one_cell):
            for weight in (self.weight_, equal):
                mass = np.bincount(cells, weight)[cells]
                mass_of_others = mass - weight
                usable = todo & (mass_of_others > 1e-12 * mass)
                sums = sums_by_cell(cells, weight[:, None] * flat)[cells] - weight[:, None] * flat
                result[usable] = sums[usable] / mass_of_others[usable, None]
                todo &= ~usable
                if not todo.any():
                    return result.reshape(values.shape)
        raise AssertionError("two samples always leave one out")  # pragma: no cover

    def predict(self, forecast: np.ndarray) -> np.ndarray:
        """Mean of the fitted target over the cell of each new forecast."""
        return self.cell_means()[self.assign(forecast)]

    def assign(self, forecast: np.ndarray) -> np.ndarray:
        """Cell of each new forecast; the nearest occupied one where its own holds no sample."""
        check_is_fitted(self)
        forecast = np.asarray(forecast, dtype=np.float64)
        keys = np.concatenate([self.keys_, self._cell_keys(forecast)])
        _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        cells = first[inverse.ravel()[self.n_cells_ :]]
        new = cells >= self.n_cells_
        if new.any():
            neighbors = NearestNeighbors(n_neighbors=1).fit(self.cell_means(self.forecast_))
            cells[new] = neighbors.kneighbors(forecast[new], return_distance=False)[:, 0]
        return cells

    def _write(self, add, x):
        edges, centres = self.edges_, np.sort(self.cell_means(self.forecast_)[:, 1])
        edges = edges[0] if isinstance(edges, list) else edges
        # In bins without samples the nearest cell changes between the means of two others.
        ends = bin_ends(split_centre(edges))
        ends = np.concatenate([ends, (centres[1:] + centres[:-1]) / 2])
        breaks = np.unique(np.nextafter(ends, 2))
        first = np.append(0.0, breaks)
        return add.stairs(x, breaks, self.predict(np.column_stack([1 - first, first]))[:, 1])


class UniformBins(PartitionSmoother):
    """Equal-width bins of every coordinate, with the edges i / B.

    A probability on an edge belongs to the bin nearer to 1/2; those of 1/2 itself have a separate
    cell if 1/2 is an edge. Thus the cells do not depend on which class is the event. For K =
    2 the bins cut the probability of the second column; for K > 2 the cells are products of bins
    over all K coordinates, most of them empty.

    Parameters
    ----------
    n_bins : int, "auto", "cube_root" or array-like of edges, default=15
        Bins per coordinate. "auto" is :func:`~skcalib.optimal_n_bins` of the number of samples for
        bins of equal mass, which is for errors and not for a curve, "cube_root" the cube root,
        rounded; at most 10^6. An array lists the edges, increasing from 0 to 1.

    Attributes
    ----------
    edges_ : ndarray
        Inner edges of the bins of each coordinate.

    See Also
    --------
    skcalib.smoothers.QuantileBins : Bins of equal mass.
    skcalib.calibration_error : Errors of these bins.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.smoothers import UniformBins
    >>> p = np.array([0.0, 0.1, 0.5, 0.6, 1.0])
    >>> bins = UniformBins(2).fit(np.column_stack([1 - p, p]), np.array([0, 1, 0, 1, 1.0])[:, None])
    >>> bins.cells_
    array([0, 0, 1, 2, 2])
    >>> bins.smooth().ravel().round(3)
    array([0.5, 0.5, 0. , 1. , 1. ])
    """

    def __init__(self, n_bins: Bins = 15) -> None:
        self.n_bins = n_bins

    def _fit_cells(self, forecast):
        bins = parse_bins(self.n_bins, number_of_samples(forecast, self._count), "uniform")
        self.edges_ = np.arange(1, bins) / bins if isinstance(bins, int) else bins[1:-1]

    def _cell_keys(self, forecast):
        ends = bin_ends(split_centre(self.edges_))
        return np.searchsorted(ends, free_columns(forecast), side="left")


def quantile_cuts(
    score: np.ndarray, n_bins: int, count: np.ndarray | None = None, centre: float = 0.5
) -> np.ndarray:
    """Inner edges of bins of equal mass, midway between the scores on both sides (F24).

    Cut b is where the number of samples below is nearest to n b / B. Ties are never split. If two
    cuts are equally near, the ties between them go to the side nearer to the centre of the scale;
    at the centre itself both cuts are made. A score stands for ``count`` (m,) samples, by default
    for one.
    """
    if count is None:
        ordered, n_samples = np.sort(score), len(score)
        starts = below = level_starts(ordered, np.uint32 if n_samples < 2**32 else np.intp)
    else:
        order = np.argsort(score, kind="stable")
        ordered, total = score[order], np.append(0, np.cumsum(count[order]))
        starts, n_samples = level_starts(ordered), total[-1]
        below = total[starts]
    aim = n_samples * np.arange(1, n_bins)
    # The first level that ends at the sample aim / n_bins, or after it.
    level = np.searchsorted(below[1:], (-(-aim // n_bins)).astype(below.dtype), side="left")
    reached = np.where(level < len(below) - 1, below.take(level + 1, mode="clip"), n_samples)
    down, up = aim - n_bins * below[level].astype(aim.dtype), n_bins * reached - aim
    value = ordered[starts[level]]
    above = (up < down) | (up == down) & (value >= centre - RESOLUTION)
    under = (down < up) | (up == down) & (value <= centre + RESOLUTION)
    cut = np.unique(np.append(level[under], level[above] + 1))
    cut = starts[cut[(cut > 0) & (cut < len(starts))]]
    lower, upper = ordered[cut - 1], ordered[cut]
    # Midway, unless a score would count as tied to the edge.
    middle, near = (lower + upper) / 2, np.where(upper <= 0.5, upper, lower)
    apart = (reach_of(reach_of(lower)) < upper) & (lower < middle)
    return np.where(apart, middle, near)


class QuantileBins(PartitionSmoother):
    """Equal-mass bins, cut between order statistics; ties are never split.

    Cut b lies midway between two neighbouring values, where the number of samples below is nearest
    to n b / B, so that bins hold equally many samples up to ties (F24 take floor(n b / B)). Ties
    that could go to both sides go to the side nearer to 1/2; at 1/2 itself they have a separate
    cell. Thus the cells do not depend on which class is the event. For K = 2 the bins cut the
    probability of the second column; for K > 2 the cells are products over all K coordinates.
    Weights do not affect the edges.

    Parameters
    ----------
    n_bins : int, "auto" or "cube_root", default=15
        Bins per coordinate, as in `UniformBins`. There are at most as many bins as samples, and
        fewer if there are fewer distinct values.

    Attributes
    ----------
    edges_ : list of arrays
        Inner edges of the bins of each coordinate.

    See Also
    --------
    skcalib.calibration_error : Errors of these bins.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.smoothers import QuantileBins
    >>> p = np.array([0.1, 0.2, 0.2, 0.7])
    >>> QuantileBins(2).fit(np.column_stack([1 - p, p]), p[:, None]).cells_
    array([0, 1, 1, 1])
    """

    def __init__(self, n_bins: BinCount = 15) -> None:
        self.n_bins = n_bins

    def _fit_cells(self, forecast):
        bins = parse_bins(self.n_bins, number_of_samples(forecast, self._count), "quantile")
        if not isinstance(bins, int):
            raise ValueError(
                "Bins of equal mass have edges of their own: give edges to UniformBins."
            )
        columns = free_columns(forecast).T
        centre = 0.5 if forecast.shape[1] > 1 else np.inf  # one column: a score without an end
        self.edges_ = [quantile_cuts(column, bins, self._count, centre) for column in columns]

    def _cell_keys(self, forecast):
        columns = free_columns(forecast).T
        pairs = zip(self.edges_, columns, strict=True)
        return np.stack([np.searchsorted(bin_ends(e), c, side="left") for e, c in pairs], axis=1)


class LevelSets(PartitionSmoother):
    """One cell for every distinct forecast: the exact level sets of the forecast.

    This partition suits forecasts that take few values, such as those of a small tree. Forecasts
    that differ by rounding only, by at most 1e-15, share a cell.

    See Also
    --------
    skcalib.smoothers.MedianCells : Cells of all probabilities.
    skcalib.smoothers.QuantileBins : Bins of one score.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.smoothers import LevelSets
    >>> p = np.array([0.25, 0.75, 0.25, 0.75])
    >>> levels = LevelSets().fit(np.column_stack([1 - p, p]), np.array([0, 1, 1, 1.0])[:, None])
    >>> levels.smooth().ravel()
    array([0.5, 1. , 0.5, 1. ])
    """

    def _fit_cells(self, forecast):
        self.levels_ = np.unique(free_columns(forecast), axis=0)

    def _cell_keys(self, forecast):
        stacked = np.concatenate([self.levels_, free_columns(forecast)])
        stacked = np.column_stack([merge_ties(column) for column in stacked.T])
        _, first, inverse = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
        # A new value of the forecast gets a new key, beyond the fitted levels.
        return first[inverse.ravel()[len(self.levels_) :]][:, None]


# --- Cells cut at medians -------------------------------------------------------------------------


class MedianCells(PartitionSmoother):
    """Cells of the simplex, cut at the median of the coordinate of largest variance (W19).

    These are the data-dependent bins of W19. The cell in which some coordinate has the largest
    variance is cut next, at the median of that coordinate, into what lies below it and the rest. A
    cut that would leave fewer than `min_samples` in a half is not made, and its cell remains as it
    is. Ties are never split, so that equal forecasts share a cell. Unlike products of bins over all
    coordinates, the number of cells does not grow with the number of classes. For K = 2, where both
    coordinates have the same variance, the one with halves of more equal size is cut, and of these
    the one with the larger median, so that the cells do not depend on the order of the classes.

    W19 do not cut a cell where its median is its smallest value. Here it is cut above that value:
    otherwise forecasts with many zeros, such as those of trees, would have one cell only.

    Parameters
    ----------
    n_cells : int, default=None
        Maximum number of cells; None for as many as `min_samples` allows. The order of the cuts
        matters only with a maximum.
    min_samples : int, default=10
        Smallest number of samples of a cell, at least 1. All samples share one cell if there are
        fewer than twice as many. Weights are ignored. A value of 100 gives the errors that W19
        publish for 10,000 images. Their simulations of 250 samples cut every cell of ten samples or
        more, which leaves seven or eight in a cell. There a value of 5 gives the published means.

    Attributes
    ----------
    cuts_ : list of tuple
        Splits in the order in which they were made: (cell, coordinate, value, new cell); what
        lies at or above the value goes to the new cell.

    See Also
    --------
    skcalib.smoothers.LevelSets : Cells of equal forecasts.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.smoothers import MedianCells
    >>> forecast = np.array([[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])
    >>> MedianCells(2, min_samples=1).fit(forecast, np.eye(3)[[0, 0, 1, 2]]).cells_
    array([1, 1, 0, 0])
    """

    def __init__(self, n_cells: int | None = None, min_samples: int = 10) -> None:
        self.n_cells = n_cells
        self.min_samples = min_samples

    def _fit_cells(self, forecast):
        most = len(forecast) if self.n_cells is None else check_count(self.n_cells, "n_cells")
        fewest = check_count(self.min_samples, "min_samples")
        members = [np.arange(len(forecast))]
        best = [_widest(forecast, members[0], fewest)]
        self.cuts_ = []
        while len(members) < most and max(best)[0] > 0:
            cell = _largest([variance for variance, *_ in best])
            _, coordinate, value = best[cell]
            above = forecast[members[cell], coordinate] >= value
            self.cuts_.append((cell, coordinate, value, len(members)))
            members.append(members[cell][above])
            members[cell] = members[cell][~above]
            best[cell] = _widest(forecast, members[cell], fewest)
            best.append(_widest(forecast, members[-1], fewest))

    def _cell_keys(self, forecast):
        cells = np.zeros(len(forecast), dtype=np.int64)
        for cell, coordinate, value, new in self.cuts_:
            cells[(cells == cell) & (reach_of(forecast[:, coordinate]) >= value)] = new
        return cells[:, None]


def _widest(forecast, rows, min_samples):
    """(variance, coordinate, median) of the widest coordinate of rows; 0 where none can be cut."""
    never = 0.0, 0, 0.0
    if len(rows) < 2 * min_samples:
        return never
    step = max(2, _ENTRIES // len(rows))  # columns at a time
    parts = (forecast[rows, at : at + step] for at in range(0, forecast.shape[1], step))
    variance = np.concatenate([part.var(axis=0, ddof=1) for part in parts])
    coordinates = [0, 1] if forecast.shape[1] == 2 else [_largest(variance)]
    halves = []  # size of the smaller half, median, coordinate
    for coordinate in coordinates:
        column = np.sort(forecast[rows, coordinate])
        if column[0] == column[-1]:
            return never
        value = np.median(column)
        if value == column[0]:  # more than half are tied at the bottom: cut above them
            value = column[np.searchsorted(column, value, side="right")]
        below = int(np.searchsorted(column, value))
        halves.append((min(below, len(column) - below), float(value), coordinate))
    least, value, coordinate = max(halves)
    return never if least < min_samples else (float(variance[coordinate]), coordinate, value)


def _largest(values):
    """Index of the first of the largest values, which may differ by rounding."""
    values = np.asarray(values)
    return int(np.argmax(values >= (1 - 1e-12) * values.max()))


# --- Isotonic regression --------------------------------------------------------------------------


class TiedScores:
    """Distinct scores (m,), increasing, and their mass, for isotonic fits to several labels."""

    def __init__(self, score: np.ndarray, weight: np.ndarray) -> None:
        self._order = np.argsort(score)
        ordered = score[self._order]
        self._first = level_starts(ordered)
        if len(self._first) < len(score):  # sums over ties take them in their order
            self._order = np.argsort(score, kind="stable")
        self._weight = weight[self._order]
        self.score = ordered[self._first]
        self.mass = np.add.reduceat(self._weight, self._first)

    @property
    def place(self) -> np.ndarray:
        """Number of the distinct score of each sample (n,)."""
        place = np.empty(len(self._order), dtype=np.intp)
        sizes = np.diff(np.append(self._first, len(self._order)))
        place[self._order] = np.repeat(np.arange(len(self._first)), sizes)
        return place

    def means(self, values: np.ndarray) -> np.ndarray:
        """Weighted mean (m,) of values (n,) at each distinct score."""
        return np.add.reduceat(self._weight * values[self._order], self._first) / self.mass

    def isotonic(self, means: np.ndarray) -> np.ndarray:
        """The increasing curve (m,) that fits the means by weighted least squares."""
        return fit_once(isotonic_curve, means, self.mass)


class IsotonicCells(NamedTuple):
    """Cells of an isotonic fit: smallest, largest and mean scores, heights, and mass."""

    lower: np.ndarray
    upper: np.ndarray
    mean: np.ndarray
    level: np.ndarray
    mass: np.ndarray


def isotonic_cells(score: np.ndarray, values: np.ndarray, weight: np.ndarray) -> IsotonicCells:
    """The `IsotonicCells` of values (n,) at scores (n,)."""
    tied = TiedScores(score, weight)
    curve = tied.isotonic(tied.means(values))
    first = np.flatnonzero(np.diff(curve, prepend=-np.inf))
    last = np.append(first[1:], len(curve)) - 1
    mass = np.add.reduceat(tied.mass, first)
    mean = np.add.reduceat(tied.mass * tied.score, first) / mass
    return IsotonicCells(tied.score[first], tied.score[last], mean, curve[first], mass)


def isotonic_curve(means: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The increasing curve (m,) that fits means of these weights by least squares."""
    return isotonic_regression(means, weights=mass).x


class IsotonicSmoother(PartitionSmoother):
    """Isotonic regression of the label on the probability of the second column (D21).

    For problems of two columns. Pool-adjacent-violators finds the cells, and `smooth` averages over
    them: the calibration curve of the CORP reliability diagram. The cells depend on the labels, so
    `smooth` of the labels themselves is optimistic. `smooth_held_out` refits on the other folds.
    New forecasts are interpolated linearly between cells, and constant beyond them.

    Cost: O(n log n), with one sort for `fit` and one for all folds of `smooth_held_out`. A million
    samples take less than a second, and three seconds with the folds.

    Attributes
    ----------
    lower_, upper_ : arrays of shape (n_cells_,)
        Smallest and largest probability of each cell.
    level_ : array of shape (n_cells_,)
        Height of the curve over each cell.

    See Also
    --------
    skcalib.smoothers.QuantileBins : Bins that do not depend on the labels.
    skcalib.IsotonicRecalibrator : The same as a recalibrator.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.smoothers import IsotonicSmoother
    >>> p, y = np.array([0.1, 0.3, 0.6, 0.9]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> smoother = IsotonicSmoother().fit(np.column_stack([1 - p, p]), np.column_stack([1 - y, y]))
    >>> smoother.smooth()[:, 1]
    array([0. , 0.5, 0.5, 1. ])
    """

    def _fit_cells(self, forecast):
        if forecast.shape[1] != 2 or self.target_.ndim != 2 or self.target_.shape[1] > 2:
            raise ValueError(
                "IsotonicSmoother needs a problem of two columns; got forecasts of shape "
                f"{forecast.shape} and a target of shape {self.target_.shape}. Use "
                "notion='classwise' or 'top_label', which are made of such problems."
            )
        if self.target_.shape[1] == 2 and np.abs(self.target_ @ [1, 1] - 1).max() > _ROUNDING:
            raise ValueError(
                "IsotonicSmoother fits one curve: the rows of a target of two columns must sum "
                "to 1. Pass one column to smooth other values."
            )
        cells = isotonic_cells(forecast[:, 1], self.target_[:, -1], self.weight_)
        self.lower_, self.upper_, self.level_ = cells.lower, cells.upper, cells.level

    def _cell_keys(self, forecast):
        cell = np.searchsorted(reach_of(self.upper_), forecast[:, 1], side="left")
        return np.minimum(cell, len(self.upper_) - 1)[:, None]

    def smooth_held_out(self, values: ArrayLike | None = None) -> np.ndarray:
        """Curves fitted on the other folds, at each sample; all folds share one sort."""
        values = self._values(values)
        order = np.argsort(self.forecast_[:, 1], kind="stable")
        folds = []
        for fold in check_folds(5, values, random_state=0):
            held_out = np.zeros(len(order), dtype=bool)
            held_out[fold[1]] = True
            held_out = held_out[order]
            folds.append((np.flatnonzero(~held_out), np.flatnonzero(held_out)))
        smoothed = np.empty_like(values)
        smoothed[order] = cross_predict(
            self.forecast_[order], values[order], self.weight_[order], self._refit, folds
        )
        return smoothed

    def predict(self, forecast: np.ndarray) -> np.ndarray:
        """The curve at new forecasts, interpolated linearly between cells."""
        check_is_fitted(self)
        knots = np.column_stack([self.lower_, self.upper_]).ravel()
        p = interpolate(np.asarray(forecast)[:, 1], knots, np.repeat(self.level_, 2))
        return p[:, None] if self.target_.shape[1] == 1 else np.column_stack([1 - p, p])


def interpolate(at: np.ndarray, knots: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Linear between knots, constant beyond; the lower level where the slope overflows."""
    value = np.interp(at, knots, levels)
    steep = ~np.isfinite(value)  # knots that differ by less than one over the largest float
    value[steep] = levels[np.searchsorted(knots, at[steep], side="right") - 1]
    return value
