"""Isotonic regression: the partition is found from the labels."""

import numpy as np
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from skcalib.smoothers._base import Smoother
from skcalib.smoothers.partition import PartitionSmoother


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
        score, rank = np.unique(forecast[:, 1], return_inverse=True)
        mass = np.bincount(rank, self.weight_)
        mean = np.bincount(rank, self.weight_ * self.target_[:, -1]) / mass
        curve = isotonic_regression(mean, sample_weight=mass)
        first = np.flatnonzero(np.diff(curve, prepend=-np.inf))
        self.lower_ = score[first]
        self.upper_ = score[np.append(first[1:], len(score)) - 1]
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
        p = np.interp(np.asarray(forecast)[:, 1], knots, np.repeat(self.level_, 2))
        return p[:, None] if self.target_.shape[1] == 1 else np.column_stack([1 - p, p])
