"""Isotonic regression: the partition is found from the labels."""

import numpy as np
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from skcalib.smoothers._base import Smoother
from skcalib.smoothers.partition import PartitionSmoother


class TiedScores:
    """Samples in the order of their scores, ties merged: found once, and fitted to any labels.

    ``score`` and ``mass`` hold the m distinct scores, increasing, and the weight at each.
    """

    def __init__(self, score, weight):
        self._order = np.argsort(score, kind="stable")
        ordered = score[self._order]
        self._first = np.flatnonzero(np.diff(ordered, prepend=-np.inf))
        self._weight = weight[self._order]
        self.score = ordered[self._first]
        self.mass = np.add.reduceat(self._weight, self._first)

    def means(self, values):
        """Weighted mean (m,) of values (n,) at each distinct score."""
        return np.add.reduceat(self._weight * values[self._order], self._first) / self.mass

    def isotonic(self, means):
        """The increasing curve (m,) of least squares through the means."""
        return isotonic_regression(means, sample_weight=self.mass)


class IsotonicSmoother(PartitionSmoother):
    """Isotonic regression of the label on the probability of the second column (D21).

    For problems of two columns. Pool-adjacent-violators finds the cells, and `smooth` averages
    over them: the calibration curve of the CORP reliability diagram. Because the labels chose the
    cells, `smooth` of the labels themselves is optimistic; `smooth_held_out` refits on the other
    folds. New forecasts are interpolated linearly between cells, and constant beyond them.

    Attributes
    ----------
    lower_, upper_ : arrays of shape (n_cells_,)
        Smallest and largest probability of each cell.
    level_ : array of shape (n_cells_,)
        Height of the curve over each cell.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import IsotonicSmoother
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
        if self.target_.shape[1] == 2 and not np.allclose(self.target_.sum(axis=1), 1):
            raise ValueError(
                "IsotonicSmoother fits one curve: the rows of a target of two columns must sum "
                "to 1. Pass one column to smooth other values."
            )
        tied = TiedScores(forecast[:, 1], self.weight_)
        curve = tied.isotonic(tied.means(self.target_[:, -1]))
        first = np.flatnonzero(np.diff(curve, prepend=-np.inf))
        self.lower_ = tied.score[first]
        self.upper_ = tied.score[np.append(first[1:], len(curve)) - 1]
        self.level_ = curve[first]

    def _cell_keys(self, forecast):
        cell = np.searchsorted(self.upper_, forecast[:, 1], side="left")
        return np.minimum(cell, len(self.upper_) - 1)[:, None]

    def smooth_held_out(self, values=None):
        """Curves fitted on the other folds, at each sample."""
        return Smoother.smooth_held_out(self, values)

    def predict(self, forecast):
        """The curve at new forecasts, interpolated linearly between cells."""
        check_is_fitted(self)
        knots = np.column_stack([self.lower_, self.upper_]).ravel()
        p = interpolate(np.asarray(forecast)[:, 1], knots, np.repeat(self.level_, 2))
        return p[:, None] if self.target_.shape[1] == 1 else np.column_stack([1 - p, p])


def interpolate(at, knots, levels):
    """Linear between knots, constant beyond; the level below where the slope is no float."""
    value = np.interp(at, knots, levels)
    steep = ~np.isfinite(value)  # knots that differ by less than one over the largest float
    value[steep] = levels[np.searchsorted(knots, at[steep], side="right") - 1]
    return value
