"""Interval of the cost that different decisions save, for two classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import norm as normal

from skcalib.clusters import effective_size
from skcalib.errors.terms import SmoothedProblem
from skcalib.inference import MeanInterval, mean_interval, wilson_interval
from skcalib.scores import DecisionCost
from skcalib.tower import weighted_mean


def saving_interval(
    score: DecisionCost,
    solved: SmoothedProblem,
    before: np.ndarray,
    after: np.ndarray,
    confidence_level: float,
) -> MeanInterval:
    r"""Interval of the mean cost of the forecasts `before` (n, 2) minus that of those `after`.

    The samples whose decision changes from a to b have the mean saving
    :math:`d_0 + (d_1 - d_0) r`, with the differences d of the costs of both classes and the rate r
    of the event among them. They are few, and the two differences are of unequal size, so Student's
    interval covers too rarely. The limits follow from Wilson's limits of r. The squared distances
    of the limits from the estimate add up over the pairs (a, b), with the variance of their shares
    (Zou and Donner, Statistics in Medicine 27, 2008).
    """
    weight, event = solved.weight, solved.target[:, 1]
    square = weight**2 if solved.square is None else solved.square
    values = score.loss(solved.target, before) - score.loss(solved.target, after)
    found = mean_interval(values, weight, confidence_level, square=solved.square)
    costs, reach = np.array(score.costs), np.zeros(2)
    one, two = score.decisions(before), score.decisions(after)
    for a, b in {*zip(one.tolist(), two.tolist(), strict=True)}:
        if a == b:
            continue
        here = (one == a) & (two == b)
        share, size = weight[here].sum() / weight.sum(), effective_size(weight[here], square[here])
        rate = float(weighted_mean(event[here], weight[here]))
        rates = np.array([rate, *wilson_interval(rate, size, confidence_level)])
        difference = costs[:, a] - costs[:, b]
        mean, *ends = difference[0] + (difference[1] - difference[0]) * rates
        distances = np.array([mean - min(ends), max(ends) - mean])
        quantile = normal.isf((1 - confidence_level) / 2)
        reach += share**2 * (distances**2 + (quantile * mean) ** 2 * (1 - share) / size)
    low, high = np.sqrt(reach)
    low, high = found.estimate - float(low), found.estimate + float(high)
    return replace(found, low=low, high=high)


def missed_saving(score: DecisionCost, solved: SmoothedProblem) -> float:
    """Half of what recalibration would save if its map were right, beyond what it saves.

    The error of the map makes the mean of the paired differences too small, and the saving that it
    predicts too large, by about as much.
    """
    predicted = score.divergence(solved.conditional, solved.forecast)
    costs = (score.loss(solved.target, s) for s in (solved.forecast, solved.conditional))
    before, after = costs
    return max(float(weighted_mean(predicted - (before - after), solved.weight)), 0.0) / 2
