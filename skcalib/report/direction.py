r"""Direction of the miscalibration: shifted, too extreme, too moderate, or none of these.

Two classes: on the logit of the event, centred at the mean logit of the forecasts,

.. math:: \mathrm{logit}\, C = m + \alpha + \beta (\mathrm{logit}\, S - m) .

The shift :math:`\alpha` alone, the slope :math:`\beta` alone and both are fitted on four of five
folds. Their gains of the log loss are measured on the fifth, as is the gain of the default
calibration map, which may add a curve. Several classes: the slope is one inverse temperature of all
logits, the shift is a bias of each class.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, log_softmax
from scipy.stats import chi2, norm

from skcalib._parallel import out_of_fold
from skcalib.inference import MeanInterval, effective_size
from skcalib.links import Link, TemperatureMap, fit_link
from skcalib.links._base import detection_limit, log_forecast, logistic_regression
from skcalib.links.temperature import optimal_inverse_temperature
from skcalib.report.findings import Gains, LogisticRecalibration
from skcalib.scores import LogLoss
from skcalib.tower import weighted_mean

if TYPE_CHECKING:
    from skcalib.problem import Problem

#: With more probabilities than this, the maps are fitted to a random part of the rows.
MOST_PROBABILITIES = 5_000_000
_LIMIT = 0.01  # replaces a forecast of exactly 0, unless smaller ones occur
_WEAK = 0.01  # precision of the priors that keep separable fits finite, in samples
_BIAS_PRECISION = 4.0  # of class biases: a prior standard deviation of one half


def logistic_recalibration(
    forecast: np.ndarray, target: np.ndarray, weight: np.ndarray, confidence_level: float
) -> LogisticRecalibration | None:
    """Two columns -> `LogisticRecalibration`; None if all forecasts are equal.

    Correct forecasts of exactly 0 or 1 fit every shift and slope. They are omitted, unless some
    such forecast is wrong.
    """
    certain = (forecast == 0).any(axis=1)
    if certain.any() and not ((forecast == 0) & (target == 1)).any():
        forecast, target, weight = forecast[~certain], target[~certain], weight[~certain]
    if len(forecast) < 2:
        return None
    x, y = _logit(forecast), target[:, 1]
    size = effective_size(weight)
    share = weight / weight.sum()
    centred = x - share @ x
    if np.ptp(centred) < 1e-9:
        return None
    design = np.column_stack([np.ones(len(x)), centred])
    theta, information = logistic_regression(design, x, y, size * share, penalty=_WEAK)
    eta = x + design @ theta
    p = expit(eta)
    statistic = 2 * size * share @ (_loss(x, y) - _loss(eta, y))
    scores = design * (size * share * (p - y))[:, None]
    inverse = np.linalg.inv(information)
    model, robust = np.diag(inverse), np.diag(inverse @ (scores.T @ scores) @ inverse)
    errors = np.sqrt(np.maximum(model, robust))
    reach = norm.ppf(0.5 + confidence_level / 2)
    shift, slope = (
        MeanInterval(float(v), float(v - reach * e), float(v + reach * e), float(e))
        for v, e in zip(theta + [0.0, 1.0], errors, strict=True)
    )
    return LogisticRecalibration(shift, slope, float(chi2.sf(max(statistic, 0.0), 2)))


def held_out_gains(problem: Problem, folds: list, conditional: np.ndarray) -> Gains:
    """Gains of the maps on test folds; `conditional` holds the held-out values of the whole map."""
    rows = np.arange(len(problem.weight))
    n_classes = problem.forecast.shape[1]
    if problem.forecast.size > MOST_PROBABILITIES:
        most = MOST_PROBABILITIES // n_classes
        rows = np.sort(np.random.RandomState(0).choice(len(rows), most, replace=False))
    logits = log_forecast(problem.forecast[rows], _limit(problem.forecast))
    target, weight = problem.target[rows], problem.weight[rows]
    gains = _binary_gains if n_classes == 2 else _multiclass_gains
    base = _log_loss(logits, target)
    masks = [np.isin(rows, test) for test in folds]
    pairs = [(~tested, tested) for tested in masks if tested.any() and not tested.all()]
    losses = np.zeros((len(rows), 2))
    if pairs:
        losses, _ = out_of_fold(partial(gains, logits, target, weight), pairs, len(rows))
    shift, slope = losses.T
    with np.errstate(divide="ignore"):
        whole = _log_loss(np.log(conditional[rows]), target)
    return Gains(*(float(weighted_mean(base - loss, weight)) for loss in (shift, slope, whole)))


def direction_of(gains: Gains, shift_up: float, slope_down: float) -> str | None:
    """The name of the direction from the gains; None if it is none of the simple ones.

    `shift_up` and `slope_down` are +1 if forecasts are clearly too high or too extreme, -1 if they
    are clearly too low or too moderate, and 0 if the data do not decide.
    """
    whole = max(gains.whole, gains.shift, gains.slope)
    half = 0.5 * whole
    if gains.shift > 0 and gains.shift >= max(half, gains.slope) and shift_up:
        return "too_high" if shift_up > 0 else "too_low"
    if gains.slope > 0 and gains.slope >= half and slope_down:
        return "too_extreme" if slope_down > 0 else "too_moderate"
    return None


def _logit(forecast):
    """Log odds of the second column, finite."""
    log = log_forecast(forecast, _limit(forecast))
    return log[:, 1] - log[:, 0]


def _limit(forecast):
    """Replacement for forecasts of exactly 0; hard predictions have no small positive forecasts."""
    return min(detection_limit(forecast), _LIMIT)


def _loss(eta, y):
    return np.logaddexp(0, eta) - y * eta


def _log_loss(logits, target):
    log_p = log_softmax(logits, axis=1)
    return -log_p[np.arange(len(target)), target.argmax(axis=1)]


def _binary_gains(logits, target, weight, train, test):
    """Losses on `test` of the shift and of the slope that were fitted on `train`."""
    x, y = logits[:, 1] - logits[:, 0], target[:, 1]
    mean = weighted_mean(x[train], weight[train])
    losses = []
    for column in (np.ones(len(x)), x - mean):
        design = column[:, None]
        theta, _ = logistic_regression(
            design[train], x[train], y[train], weight[train], penalty=_WEAK
        )
        losses.append(_loss(x[test] + design[test] @ theta, y[test]))
    return np.column_stack(losses)


class _ClassBiases(Link):
    """z -> z + b."""

    def start(self, n_classes):
        return np.zeros(n_classes)

    def apply(self, theta, logits):
        return logits + theta

    def vjp(self, theta, logits, cotangent):
        return cotangent.sum(axis=0)

    def stiffness(self, n_classes):
        return np.ones(n_classes)


def _multiclass_gains(logits, target, weight, train, test):
    """Losses on `test` of class biases and of one temperature that were fitted on `train`."""
    biases = _ClassBiases()
    fit = fit_link(
        biases,
        LogLoss(),
        logits[train],
        target[train],
        weight[train],
        shrinkage=_BIAS_PRECISION,
        tolerance=1e-5,
    )
    beta, _ = optimal_inverse_temperature(
        logits[train], target[train].argmax(axis=1), weight[train]
    )
    mapped = biases.apply(fit.theta, logits[test]), TemperatureMap().apply([beta], logits[test])
    return np.column_stack([_log_loss(one, target[test]) for one in mapped])
