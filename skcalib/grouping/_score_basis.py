"""Functions of the score, and what is left of other quantities beside them."""

import numpy as np
from scipy.linalg import qr

from skcalib.recalibration._corrected_model import MOST_COMPONENTS, Components

_SAMPLES = 100  # of each component
_PLACES = np.linspace(0, 1, 9)
_ROWS = 2000  # of a regression, if there are as many


def steps_beside_score(forecast, weight, predict, train, test):
    """Steps (L, m, K) of a model at the rows `test`, minus their regression on the forecasts.

    ``predict(rows)`` has the steps at any rows. The regression is that of this model alone, on the
    test rows and, if these are few, on some of its training rows. One regression of the steps of
    all folds would follow the labels of all folds, and take away what the models have found.
    """
    more = np.linspace(0, len(train) - 1, min(max(_ROWS - len(test), 0), len(train))).astype(int)
    rows = np.append(test, train[more])
    steps = predict(rows)
    beside = beside_score(np.concatenate(steps, axis=1), forecast[rows], weight[rows])
    return np.stack(np.split(beside[: len(test)], len(steps), axis=1))


def beside_score(values, forecast, weight):
    r"""Values (n, m) minus their regression on functions of the forecasts (n, K).

    The residual :math:`\tilde m` of a step m fulfils :math:`E[\tilde m | S] \approx 0`. Then
    :math:`E \langle Y - \hat C, \tilde m \rangle = E \langle Q - C, \tilde m \rangle` for any curve
    :math:`\hat C`, up to the product of the errors of the curve and of this regression: a step
    finds grouping loss only, no calibration error that the curve has left.

    The functions are piecewise linear in the probability of the event or of the top label, and
    linear and quadratic in principal components of the logits and of the probabilities: at most
    ten, one for each hundred samples.
    """
    root = np.sqrt(weight)[:, None]
    # With pivots, functions that depend on others come last, and can be left out.
    basis, triangle, _ = qr(root * _basis(forecast), mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    basis = basis[:, size > 1e-8 * size.max()]
    return values - (basis @ (basis.T @ (root * values))) / root


def _basis(forecast):
    n_samples, n_classes = forecast.shape
    n_used = int(np.clip(n_samples // _SAMPLES, 1, min(n_classes - 1, MOST_COMPONENTS)))
    positive = forecast[forecast > 0].min()
    logits = np.log(np.maximum(forecast, positive))
    own, shares = (Components(one, n_used).read(one) for one in (logits, forecast))
    place = forecast[:, 1] if n_classes == 2 else forecast.max(axis=1)
    knots = np.unique(np.quantile(place, _PLACES).round(12))  # slopes are finite
    hats = [np.interp(place, knots, row) for row in np.eye(len(knots))]
    first, second = np.triu_indices(min(own.shape[1], 3), 1)
    pairs = own[:, first] * own[:, second]
    return np.column_stack([*hats, own, own**2, shares, shares**2, pairs])
