"""Kinds of calibration curve on the smoothers: bins, isotonic, linear smoothers, splines.

Each has the abscissae ``prob_pred`` and heights ``prob_true`` of the curve, shape (m,);
``refit(labels)``, its heights for other labels (n, B) of the same forecasts by the same rule, shape
(m, B); and ``confidence(level, n_resamples, rng)``, an interval of the true heights.
"""

import numpy as np
from sklearn.base import clone

from skcalib.errors.isotonic_curve import IsotonicCurve, spread
from skcalib.inference import clopper_pearson
from skcalib.smoothers import IsotonicSmoother, SplineSmoother
from skcalib.smoothers.partition import PartitionSmoother
from skcalib.smoothers.spline import SplineCurve

_GROUPS = 1000  # of neighbouring scores, for the many fits of a consistency band


def make_curve(smoother, forecast, target, weight):
    """The curve that suits the smoother; the isotonic one is that of CORP (D21)."""
    if isinstance(smoother, IsotonicSmoother):
        return IsotonicCurve(forecast[:, 1], target[:, 1], weight)
    if isinstance(smoother, PartitionSmoother):
        return BinnedCurve(smoother, forecast, target, weight)
    if isinstance(smoother, SplineSmoother):
        return SplinedCurve(smoother, forecast, target, weight)
    return SmoothCurve(smoother, forecast, target, weight)


def kish_size(mass, square_mass):
    """Number of equally weighted samples whose mean varies as much (Kish)."""
    return mass**2 / square_mass


def score_grid(score):
    """Scores to draw a smooth curve at: some of those that occur, and some between them."""
    score = np.unique(score)
    return np.union1d(score[spread(score)], np.linspace(score[0], score[-1], 101))


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


class SmoothCurve:
    """A linear smoother (kernel, nearest neighbours) on a grid of scores."""

    joined = True

    def __init__(self, smoother, forecast, target, weight):
        self._fitted = clone(smoother).fit(forecast, target, weight)
        self.prob_pred = score_grid(forecast[:, 1])
        self._grid = np.column_stack([1 - self.prob_pred, self.prob_pred])
        self.prob_true = np.clip(self._fitted.predict(self._grid)[:, 1], 0, 1)

    def refit(self, labels):
        return self._apply(labels.astype(np.float64))

    def confidence(self, level, n_resamples, rng):
        # The estimate is a weighted mean; averages of random signs show the sum of its squared
        # weights, the inverse of its effective size, whatever the smoother.
        signs = rng.choice([-1.0, 1.0], size=(len(self._fitted.forecast_), n_resamples))
        size = 1 / np.mean(self._apply(signs) ** 2, axis=1)
        return clopper_pearson(self.prob_true, np.maximum(size, 1), level)

    def _apply(self, values):
        again = clone(self._fitted)
        if hasattr(self._fitted, "bandwidth_"):  # chosen from the forecasts, which are the same
            again.set_params(bandwidth=self._fitted.bandwidth_)
        again.fit(self._fitted.forecast_, values, self._fitted.weight_)
        return again.predict(self._grid)


class SplinedCurve:
    """Logistic regression on a spline of the logit, with a band by the delta method."""

    joined = True

    def __init__(self, smoother, forecast, target, weight):
        self._fitted = clone(smoother).fit(forecast, target, weight)
        self.prob_pred = score_grid(forecast[:, 1])
        self._grid = np.column_stack([1 - self.prob_pred, self.prob_pred])
        self.prob_true = self._fitted.predict(self._grid)[:, 1]

    def refit(self, labels):
        score, weight = self._fitted.forecast_[:, 1], self._fitted.weight_
        distinct, group = np.unique(score, return_inverse=True)
        if len(distinct) > _GROUPS:  # neighbours share a mean score: the curve hardly moves
            group = group * _GROUPS // len(distinct)
        mass = np.bincount(group, weight)
        score = np.bincount(group, weight * score) / mass
        # The curve scales its weights to the effective size, which is that of the samples.
        size = kish_size(weight.sum(), np.sum(weight**2))
        heights = []
        for one in labels.T:
            mean = np.bincount(group, weight * one) / mass
            curve = SplineCurve(self._fitted.n_knots).fit(score, mean, mass, size=size)
            heights.append(curve(self._grid)[:, 1])
        return np.stack(heights, axis=1)

    def confidence(self, level, n_resamples, rng):
        return self._fitted.interval(self._grid, level)
