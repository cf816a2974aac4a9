"""Functions of the score, and what is left of other quantities beside them."""

import numpy as np
from scipy.linalg import qr
from scipy.special import ndtri, softmax

from skcalib.grouping.partition import order_of
from skcalib.links.averaging import averaged_map
from skcalib.links.logits import detection_limit, log_forecast
from skcalib.recalibration.corrected_model import MOST_COMPONENTS, Components
from skcalib.smoothers import LogitSmoother

_FEWEST, _MOST = 3, 30  # intervals of functions of the position
_DOUBT = 5.0  # log evidence by which the ranks of scores must be better than the scores
_ROUNDING = 1e-9  # share of a step that the functions leave by rounding
_TIED = 1e-13  # largest difference of centred logits that are equal up to rounding
_LEAST = 1e-15  # smallest share of the mass below a score
_SAMPLES = 100  # of each component
_ROWS = 2000  # of a regression, if there are as many


class ScoreCurve(LogitSmoother):
    """`LogitSmoother` of the forecasts, or of their ranks where the evidence for these is larger.

    Its curves are not finer than cells of log odds, and most scores may lie in one cell.
    """

    def _fit_one(self, forecast, target, weight, cluster=None):
        ranks = _Ranks(forecast, weight)
        plain, ranked = (
            averaged_map(each, target, weight, None, cluster)
            for each in (forecast, ranks(forecast))
        )
        if not ranked.log_evidence > plain.log_evidence + _DOUBT:
            return plain
        return lambda new: ranked(ranks(new))


class _Ranks:
    """Forecasts whose logits are normal scores of the ranks of the centred logits of each class.

    Between and beyond the forecasts that it was learned from, it is linear and constant.
    """

    def __init__(self, forecast, weight):
        self.limit, self.scores = detection_limit(forecast), []
        for column in self._places(forecast).T:
            order = np.argsort(column, kind="stable")
            values, which = column[order], np.empty(len(column), dtype=int)
            first = np.append(True, np.diff(values) > _TIED * np.maximum(1, np.abs(values[1:])))
            which[order], values = np.cumsum(first) - 1, values[first]
            mass = np.bincount(which, weight)
            share = (np.cumsum(mass) - mass / 2) / mass.sum()  # 0 and 1 by rounding
            self.scores.append((values, ndtri(np.clip(share, _LEAST, 1 - _LEAST))))

    def __call__(self, forecast):
        columns = zip(self._places(forecast).T, self.scores, strict=True)
        scores = [np.interp(column, *known) for column, known in columns]
        return softmax(np.column_stack(scores), axis=1)

    def _places(self, forecast):
        log = log_forecast(forecast, self.limit)
        return log - log.mean(axis=1, keepdims=True)


def intervals_for(size):
    """Number of intervals of the functions of the position for an effective number of samples."""
    return int(np.clip(round(size ** (1 / 3)), _FEWEST, _MOST))


def functions_of_position(score, mass, n_intervals):
    """Functions of scores (n,), and their positions, the shares of the mass (n,) below them.

    The functions are piecewise linear in the position, with an indicator of each frequent score; or
    there is an indicator of each score, if these are few.
    """
    values, which = np.unique(score, return_inverse=True)
    mass = np.bincount(which, mass)
    position = ((np.cumsum(mass) - mass / 2) / mass.sum())[which]
    often = np.arange(len(values))
    if len(values) > n_intervals + 1:
        often = np.flatnonzero(mass >= 0.5 * mass.sum() / n_intervals)
    columns = (which[:, None] == often).astype(np.float64)
    if len(values) > n_intervals + 1:
        knots = np.arange(n_intervals + 1)
        hats = np.clip(1 - np.abs(position[:, None] * n_intervals - knots), 0.0, None)
        columns = np.hstack([hats, columns])
    return columns, position


def steps_beside_score(forecast, curve, weight, predict, train, test):
    """Steps (L, m, K) of a model at the rows `test`, minus their regression on the forecasts.

    ``predict(rows)`` has the steps at any rows. The regression is that of this model alone, on the
    test rows and, if these are few, on some of its training rows. One regression of the steps of
    all folds would follow the labels of all folds, and take away what the models have found.
    """
    more = np.linspace(0, len(train) - 1, min(max(_ROWS - len(test), 0), len(train))).astype(int)
    rows = np.append(test, train[more])
    steps = predict(rows)
    beside = beside_score(np.concatenate(steps, axis=1), forecast[rows], curve[rows], weight[rows])
    return np.stack(np.split(beside[: len(test)], len(steps), axis=1))


def beside_score(values, forecast, curve, weight):
    r"""Values (n, m) minus their regression on functions of the forecasts (n, K).

    The residual :math:`\tilde m` of a step m fulfils :math:`E[\tilde m | S] \approx 0`. Then
    :math:`E \langle Y - \hat C, \tilde m \rangle = E \langle Q - C, \tilde m \rangle` for the curve
    :math:`\hat C` (n, K), up to the product of the errors with which the functions approximate C
    and m: a step finds grouping loss only, no calibration error that the curve has left.

    The functions are piecewise linear in the position of the probability of the event or of the top
    label. They are also linear in principal components of the logits and of the probabilities of
    the curve, and linear and quadratic in those of the forecasts and of their ranks: at most ten
    components, one for each hundred samples.
    """
    root = np.sqrt(weight)[:, None]
    # With pivots, functions that depend on others come last, and can be left out.
    basis, triangle, _ = qr(root * _basis(forecast, curve, weight), mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    basis = basis[:, size > 1e-8 * size.max()]
    beside = values - (basis @ (basis.T @ (root * values))) / root
    size, least = (np.linalg.norm(root * one, axis=0) for one in (beside, values))
    return np.where(size > _ROUNDING * least, beside, 0.0)


def _basis(forecast, curve, weight):
    n_samples, n_classes = forecast.shape
    n_used = int(np.clip(n_samples // _SAMPLES, 1, min(n_classes - 1, MOST_COMPONENTS)))
    parts = [functions_of_position(order_of(forecast), weight, intervals_for(n_samples))[0]]
    for proba in (forecast, _Ranks(forecast, weight)(forecast), curve):
        logits = np.log(np.maximum(proba, proba[proba > 0].min()))
        own, shares = (Components(one, n_used).read(one) for one in (logits, proba))
        parts += [own, shares]
        if proba is not curve:
            first, second = np.triu_indices(min(own.shape[1], 3), 1)
            parts += [own**2, shares**2, own[:, first] * own[:, second]]
    return np.hstack(parts)
