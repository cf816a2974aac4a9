"""Three kinds of calibration curve on the smoothers: bins, isotonic, smooth.

Each has the abscissae ``prob_pred`` and heights ``prob_true`` of the curve, shape (m,);
``refit(labels)``, its heights for other labels (n, B) of the same forecasts by the same rule, shape
(m, B); and ``confidence(level, n_resamples, rng)``, an interval of the true heights.
"""

import numpy as np
from sklearn.base import clone
from sklearn.isotonic import isotonic_regression

from skcalib.displays._bands import isotonic_interval
from skcalib.intervals import clopper_pearson
from skcalib.smoothers import IsotonicSmoother
from skcalib.smoothers.partition import PartitionSmoother

_POINTS = 200  # abscissae of a curve over many distinct scores, besides the knots that it has


def make_curve(smoother, forecast, target, weight):
    """The curve that suits the smoother."""
    if isinstance(smoother, IsotonicSmoother):
        return IsotonicCurve(smoother, forecast, target, weight)
    if isinstance(smoother, PartitionSmoother):
        return BinnedCurve(smoother, forecast, target, weight)
    return SmoothCurve(smoother, forecast, target, weight)


def kish_size(mass, square_mass):
    """Number of equally weighted samples whose mean varies as much (Kish)."""
    return mass**2 / square_mass


class BinnedCurve:
    """Mean label against mean forecast, cell by cell."""

    joined = False

    def __init__(self, smoother, forecast, target, weight):
        self._bins = clone(smoother).fit(forecast, target, weight)
        prob_pred = self._bins.cell_means(forecast)[:, 1]
        self._order = np.argsort(prob_pred)
        self.prob_pred = prob_pred[self._order]
        self.prob_true = self._bins.cell_means()[self._order, 1]

    def refit(self, labels):
        return self._bins.cell_means(labels)[self._order]

    def confidence(self, level, n_resamples, rng):
        square_mass = np.bincount(self._bins.cells_, self._bins.weight_**2)
        size = kish_size(self._bins.mass_, square_mass)[self._order]
        return clopper_pearson(self.prob_true, size, level)


class IsotonicCurve:
    """Isotonic regression, drawn at every distinct score or at all of its knots and more."""

    joined = True

    def __init__(self, smoother, forecast, target, weight):
        fitted = clone(smoother).fit(forecast, target, weight)
        score = forecast[:, 1]
        self._order = np.argsort(score, kind="stable")
        score, self._first = np.unique(score[self._order], return_index=True)
        self._weight = weight[self._order]
        self._mass = np.add.reduceat(self._weight, self._first)
        self._mean = self._means(target[:, 1])
        self._points = _spread(score, np.append(fitted.lower_, fitted.upper_))
        self.prob_pred = score[self._points]
        self.prob_true = fitted.predict(np.column_stack([1 - self.prob_pred, self.prob_pred]))[:, 1]

    def refit(self, labels):
        # Ties are merged once and the scores stay sorted: a refit is one pass, where the smoother
        # would sort again.
        means = (self._means(column) for column in labels.T)
        fits = [isotonic_regression(m, sample_weight=self._mass)[self._points] for m in means]
        return np.stack(fits, axis=1)

    def confidence(self, level, n_resamples, rng):
        share = self._weight.sum() / np.sum(self._weight**2)
        return isotonic_interval(self._mean, share * self._mass, self._points, level)

    def _means(self, labels):
        return np.add.reduceat(self._weight * labels[self._order], self._first) / self._mass


class SmoothCurve:
    """A linear smoother (kernel, nearest neighbours) on a grid of scores."""

    joined = True

    def __init__(self, smoother, forecast, target, weight):
        self._fitted = clone(smoother).fit(forecast, target, weight)
        score = np.unique(forecast[:, 1])
        self.prob_pred = np.union1d(score[_spread(score)], np.linspace(score[0], score[-1], 101))
        self._grid = np.column_stack([1 - self.prob_pred, self.prob_pred])
        self.prob_true = np.clip(self._fitted.predict(self._grid)[:, 1], 0, 1)

    def refit(self, labels):
        return self._apply(labels.astype(np.float64))

    def confidence(self, level, n_resamples, rng):
        # The estimate is a weighted mean; averages of random signs show the sum of its squared
        # weights, the inverse of its effective size, without a look inside the smoother.
        signs = rng.choice([-1.0, 1.0], size=(len(self._fitted.forecast_), n_resamples))
        size = 1 / np.mean(self._apply(signs) ** 2, axis=1)
        return clopper_pearson(self.prob_true, np.maximum(size, 1), level)

    def _apply(self, values):
        again = clone(self._fitted)
        if hasattr(self._fitted, "bandwidth_"):  # chosen from the forecasts, which are the same
            again.set_params(bandwidth=self._fitted.bandwidth_)
        again.fit(self._fitted.forecast_, values, self._fitted.weight_)
        return again.predict(self._grid)


def _spread(score, knots=()):
    """Indices of the knots, and of distinct scores spread evenly in rank and in value."""
    if len(score) <= 2 * _POINTS:
        return np.arange(len(score))
    rank = np.linspace(0, len(score) - 1, _POINTS).astype(int)
    value = np.searchsorted(score, np.linspace(score[0], score[-1], _POINTS))
    return np.unique(np.concatenate([rank, value, np.searchsorted(score, knots)]))
