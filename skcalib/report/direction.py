r"""Direction of the miscalibration: shifted, too extreme, too moderate, or none of these.

Two classes: on the logit of the event, centred at the mean logit of the forecasts,

.. math:: \mathrm{logit}\, C = m + \alpha + \beta (\mathrm{logit}\, S - m) .

The shift :math:`\alpha` alone and the slope :math:`\beta` alone are two of the models that the
default calibration error averages (`ModelAverage`). Their gains of the log loss, without the
optimism of the fits, are compared with that of the averaged map, which may contain a curve. Several
classes: the slope is one inverse temperature of all logits, the shift is a bias of each class.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from skcalib.data.clusters import (
    cluster_sums,
    effective_size,
    independent_size,
    inflation,
    student_level,
)
from skcalib.links.logits import detection_limit, log_forecast
from skcalib.links.newton import logistic_regression
from skcalib.report.findings import Confusion, Gains, LogisticRecalibration
from skcalib.scores import LogLoss, weighted_mean
from skcalib.significance.binary import run_test
from skcalib.significance.logistic import JointRatio
from skcalib.stats.means import MeanInterval, rate_interval

if TYPE_CHECKING:
    from skcalib.data.problem import Problem
    from skcalib.proper.map_average import AveragedProblem

_LIMIT = 0.01  # replaces a forecast of exactly 0, unless smaller ones occur
_FEWEST = 10  # samples of a confusion
_WEAK = 0.01  # precision of the priors that keep separable fits finite, in samples


def logistic_recalibration(
    problem: Problem, confidence_level: float
) -> LogisticRecalibration | None:
    """Binary problem -> `LogisticRecalibration`; None if all forecasts are equal.

    Correct forecasts of exactly 0 or 1 fit every shift and slope. They are omitted, unless some
    such forecast is wrong.
    """
    certain = (problem.forecast == 0).any(axis=1)
    if certain.any() and not ((problem.forecast == 0) & (problem.target == 1)).any():
        problem = problem.take(~certain)
    if problem.n_samples < 2:
        return None
    x, y, weight = _logit(problem.forecast), problem.target[:, 1], problem.weight
    size = effective_size(weight, problem.square)
    share, root = weight / weight.sum(), np.sqrt(problem.squares) / weight.sum()
    centred = x - share @ x
    if np.ptp(centred) < 1e-9:
        return None
    design = np.column_stack([np.ones(len(x)), centred])
    theta, information = logistic_regression(design, x, y, size * share, penalty=_WEAK)
    p = expit(x + design @ theta)
    scores = cluster_sums(design * (size * root * (p - y))[:, None], problem.cluster)
    inverse = np.linalg.inv(information)
    sandwich = inverse @ (scores.T @ scores) @ inverse
    level = confidence_level
    if problem.cluster is not None:  # the likelihood is not that of independent labels
        units = independent_size(weight, cluster=problem.cluster)
        sandwich, level = sandwich * inflation(units), student_level(level, units)
    errors = np.sqrt(np.maximum(np.diag(inverse), np.diag(sandwich)))
    reach = norm.ppf(0.5 + level / 2)
    shift, slope = (
        MeanInterval(float(v), float(v - reach * e), float(v + reach * e), float(e))
        for v, e in zip(theta + [0.0, 1.0], errors, strict=True)
    )
    # Rounding may leave forecasts above 1, which would have a negative variance.
    problem = replace(problem, forecast=np.minimum(problem.forecast, 1))
    return LogisticRecalibration(shift, slope, run_test(JointRatio(problem), problem).pvalue)


def gains_of(solved: AveragedProblem) -> Gains:
    """Gains of the log loss by a shift alone, a slope alone and the averaged map.

    They are means over the labels whose log loss is finite.
    """
    shift, slope = _binary_gains(solved) if solved.forecast.shape[1] == 2 else _class_gains(solved)
    whole = solved.errors(LogLoss())
    kept = np.isfinite(whole) & (solved.weight > 0)
    if not kept.any():
        return Gains(0.0, 0.0, np.inf)
    weight = solved.weight[kept]
    return Gains(*(float(weighted_mean(one[kept], weight)) for one in (shift, slope, whole)))


def _class_gains(solved):
    """Gains (n,) of biases of the classes alone, and of one temperature."""
    return (solved.gain(name) for name in ("bias", "slope"))


def _binary_gains(solved):
    """Gains (n,) of a shift and of a slope about the mean logit, without the fit's optimism."""
    x, y = _logit(solved.forecast), solved.target[:, 1]
    size, weight, unit = solved.average.size, solved.average.weight, solved.average.unit
    for column in (np.ones(len(x)), x - weight @ x / size):
        theta, ((information,),) = logistic_regression(column[:, None], x, y, weight, penalty=_WEAK)
        p = expit(x + theta[0] * column)
        leverage = np.clip(unit * p * (1 - p) * column**2 / information, 0.0, 0.5)
        optimism = 0.5 * unit * (column * (y - p)) ** 2 / information / (1 - leverage)
        yield _loss(x, y) - _loss(x + theta[0] * column, y) - optimism


def confusions_of(
    solved: AveragedProblem, classes: np.ndarray, confidence_level: float
) -> tuple[Confusion, ...]:
    """The transitions of the averaged maps' `Extension` as observed frequencies.

    Those whose interval, with Bonferroni's correction, lies above the mean probability.
    """
    more = solved.extension
    pairs = () if more is None else more.transitions
    found = []
    for one in pairs:
        rows = one.predicted(solved.forecast)
        if rows.sum() < _FEWEST:
            continue
        weight, score = solved.weight[rows], solved.forecast[rows, one.target]
        label = solved.targets(rows)[:, one.target]
        level = 1 - (1 - confidence_level) / len(pairs)
        own = {
            "square": None if solved.square is None else solved.square[rows],
            "cluster": None if solved.cluster is None else solved.cluster[rows],
        }
        observed = rate_interval(label, weight, level, **own)
        mean_score = float(weighted_mean(score, weight))
        if observed.low > mean_score:
            names = str(classes[one.source]), str(classes[one.target])
            found.append(Confusion(*names, one.above or 0.0, int(rows.sum()), mean_score, observed))
    return tuple(found)


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
