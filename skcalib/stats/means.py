"""Intervals of means, rates, ratios and the concordance, also with few events.

Weights are importance weights. Distributions that depend on the number of samples use the effective
number.

An event is rare, or a forecast is confident, if its label is nearly certain. Sums over such labels
are far from normal, however many samples there are: what counts is the number of labels that the
forecasts leave uncertain. Below `FEW` of them, tests draw labels from the forecasts, and intervals
use exact limits of the number of events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr, ndtri, stdtrit
from scipy.stats import beta
from sklearn.metrics import roc_auc_score

from skcalib._util.arithmetic import merge_ties
from skcalib._util.formatting import Record, record_text
from skcalib._util.types import ArrayLike
from skcalib._util.validation import check_confidence_level
from skcalib.data.clusters import (
    cluster_sums,
    effective_size,
    independent_size,
    inflation,
    student_level,
)
from skcalib.scores import weighted_mean
from skcalib.stats.squared_norm import SMALLEST

#: Uncertain labels from which asymptotic laws hold.
FEW = 40.0
#: Events or wrong predictions below which intervals use exact limits.
FEW_LABELS = 20.0
_FAR = 1000.0  # log odds beyond those of all forecasts, where there is no spread
_TINY = 1e-300


@dataclass(frozen=True)
class MeanInterval(Record):
    """An estimate with its confidence interval [low, high] and standard error."""

    estimate: float
    low: float
    high: float
    standard_error: float

    def __str__(self) -> str:
        return record_text(self)


def mean_interval(
    values: ArrayLike,
    weight: np.ndarray | None = None,
    confidence_level: float = 0.95,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
    *,
    estimate: float | None = None,
) -> MeanInterval:
    r"""Student's confidence interval of a weighted mean.

    The standard error is :math:`\sqrt{\sum_i w_i^2 (v_i - \bar v)^2} / \sum_i w_i` times
    :math:`\sqrt{m / (m - 1)}`, with the effective size :math:`m = (\sum w)^2 / \sum w^2`, and the
    quantile is Student's with m - 1 degrees of freedom. With clusters (numbers (n,) from 0), the
    sums of :math:`w_i (v_i - \bar v)` over each cluster are squared instead of the single terms,
    and m is the effective number of clusters. Where a row stands for several samples of the same
    value, `square` (n,) has its sum of squared weights.

    Infinite values give an infinite mean, and an interval of that point. With a single effective
    sample or cluster the interval is the whole line. If `estimate` is given, it is the centre, and
    the values only determine the spread.
    """
    check_confidence_level(confidence_level)
    values = np.asarray(values, dtype=np.float64)
    weight = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=np.float64)
    mean = float(np.clip(weighted_mean(values, weight), values.min(), values.max()))  # rounding
    estimate = mean if estimate is None else float(estimate)
    if not (np.isfinite(mean) and np.isfinite(estimate)):
        return MeanInterval(estimate, estimate, estimate, 0.0)
    size, total = independent_size(weight, square, cluster), weight.sum()
    if size - 1 < 1e-9:
        return MeanInterval(estimate, -np.inf, np.inf, np.inf)
    share = weight / total if square is None else np.sqrt(square) / total
    influence = cluster_sums(share * (values - mean), cluster)
    error = float(np.sqrt(np.sum(influence**2) * size / (size - 1)))
    reach = float(stdtrit(size - 1, 0.5 + confidence_level / 2)) * error
    return MeanInterval(estimate, estimate - reach, estimate + reach, error)


def mean_loss_interval(
    loss: Callable[[np.ndarray], np.ndarray],
    forecast: np.ndarray,
    target: np.ndarray,
    confidence_level: float = 0.95,
    *,
    weight: np.ndarray,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
    estimate: float | None = None,
) -> MeanInterval:
    r"""Interval of the mean of losses, or of differences of losses, that labels decide.

    `loss` maps targets (n, K) to values (n,), linearly in the target, as proper scores do. With
    many uncertain labels it is `mean_interval`. With fewer than 40 events or non-events (for
    several classes: wrong or right predictions), expected or observed, the labels at hand may lack
    those that matter, and their spread is too small. Then the labels are random in the model
    :math:`logit P(Y = 1) = logit S + t g`, where g is what an event adds to the loss, and the
    interval is that of `few_label_limits`. The other arguments are those of `mean_interval`.
    """
    losses = loss(target)
    rows: dict[str, Any] = {"square": square, "cluster": cluster}
    plain = mean_interval(losses, weight, confidence_level, estimate=estimate, **rows)
    few = has_few_labels(forecast, target, weight, square)
    if not (few and np.isfinite([plain.estimate, plain.standard_error]).all()):
        return plain
    several = forecast.shape[1] > 2
    chance, without, event = _events(forecast), np.zeros_like(forecast), forecast
    if several:
        without[np.arange(len(forecast)), forecast.argmax(axis=1)] = 1.0
    else:
        without[:, 0] = 1.0
        event = without[:, ::-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        least, most = np.sort([loss(without), loss(event)], axis=0)
        gain = (loss(event) - loss(without)) / (chance if several else 1.0)
    gain = np.where(np.isfinite(gain), gain, 0.0)
    interval, _ = few_label_limits(
        chance,
        _events(forecast, target),
        losses,
        gain,
        weight,
        confidence_level,
        plain.estimate,
        **rows,
    )
    if several:
        return interval
    least, most = (float(weighted_mean(values, weight)) for values in (least, most))
    low = max(interval.low, min(least, interval.estimate))
    high = min(interval.high, max(most, interval.estimate))
    return replace(interval, low=low, high=high)


def has_few_labels(
    forecast: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    square: np.ndarray | None = None,
) -> bool:
    """Whether fewer than `FEW` labels are uncertain, or of the rarer kind.

    The kinds of two classes are events and non-events; of several, wrong and right predictions.
    """
    rate = float(np.clip(weighted_mean(_events(forecast, target), weight), 0.0, 1.0))
    rarer = effective_size(weight, square) * min(rate, 1 - rate)
    return min(rarer, uncertain_labels(forecast, weight, square)) < FEW


def _events(forecast, rows=None):
    """Probability (n,) of the last of two classes, or that the prediction is wrong.

    It is that of `rows` (n, K), such as labels; by default of the forecasts.
    """
    rows = forecast if rows is None else rows
    if forecast.shape[1] == 2:
        return rows[:, 1]
    return np.maximum(1 - rows[np.arange(len(rows)), forecast.argmax(axis=1)], 0.0)


def between_forecasts(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Forecasts (n, K) halfway between two in the log odds; equal ones where no class is common."""
    root = np.sqrt(first) * np.sqrt(second)
    total = root.sum(axis=1, keepdims=True)
    return np.where(total > 0, root / np.where(total > 0, total, 1.0), (first + second) / 2)


def few_label_limits(
    chance: np.ndarray,
    label: np.ndarray,
    losses: np.ndarray,
    gain: np.ndarray,
    weight: np.ndarray,
    confidence_level: float,
    estimate: float,
    *,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
) -> tuple[MeanInterval, MeanInterval]:
    r"""Intervals of a mean loss (n,) and of the tilt of the forecasts, with few events.

    An event with the forecast S, `chance` (n,), adds `gain` g to the loss. In the model
    :math:`logit P(Y = 1) = logit S + t g` the limits of t are those of the score test: its variance
    is that of the tested t, not of the labels. The variation of the expected losses is added to
    that of the labels. `estimate` is the mean loss; the centre of the tilt is its estimate.
    """
    units = independent_size(weight, square, cluster)
    sure = (chance <= 0) | (chance >= 1)
    gain, total = np.where(sure, 0.0, gain), weight.sum()
    x = np.zeros(len(chance))
    x[~sure] = logit(chance[~sure])
    fixed, share = losses - label * gain, weight / total
    square = share**2 if square is None else square / total**2
    unit = np.abs(gain).max(initial=0.0) or 1.0
    reach = float(stdtrit(max(units - 1, 1.0), 0.5 + confidence_level / 2))

    def gap(tilt):
        return share @ (gain * (label - expit(x + tilt * gain / unit)))

    def spread(tilt):
        linear = x + tilt * gain / unit
        return reach**2 * (square @ (gain**2 * expit(linear) * expit(-linear)))

    def root(function):
        ends = function(-_FAR), function(_FAR)
        return brentq(function, -_FAR, _FAR) if ends[0] > 0 > ends[1] else _FAR * np.sign(ends[1])

    fitted = root(gap)
    expected = fixed + expit(x + fitted * gain / unit) * gain
    factor = 1.0
    if cluster is not None and spread(fitted) > 0:
        residual = label - expit(x + fitted * gain / unit)
        sums = cluster_sums(np.sqrt(square) * gain * residual, cluster)
        factor = max(1.0, reach**2 * inflation(units) * np.sum(sums**2) / spread(fitted))
    variation = reach**2 * (square @ (expected - share @ expected) ** 2)
    low, high = (
        root(lambda t, s=sign: gap(t) + s * np.sqrt(factor * spread(t) + _TINY)) for sign in (-1, 1)
    )
    down, up = (float(np.hypot(gap(tilt), np.sqrt(variation))) for tilt in (low, high))
    mean = MeanInterval(estimate, estimate - down, estimate + up, (down + up) / (2 * reach))
    centre, error = float(np.clip(fitted, low, high)), (high - low) / (2 * reach)
    return mean, MeanInterval(centre, float(low), float(high), error)


def difference_interval(
    first: MeanInterval, second: MeanInterval, *, floor: float = -np.inf
) -> MeanInterval:
    r"""Interval of the difference of two independent estimates, first minus second.

    With the limits :math:`[l_j, u_j]` of :math:`q_j` the lower limit is

    .. math:: \hat q_1 - \hat q_2 - \sqrt{(\hat q_1 - l_1)^2 + (u_2 - \hat q_2)^2} ,

    and the upper one is the mirror image: the method of variance estimates recovery of Zou and
    Donner (2008). The level is that of the two intervals, which need not be symmetric. Infinite
    limits remain. The standard error is the root of the sum of the squared ones. An estimate below
    `floor`, the smallest possible value, counts as this value.
    """
    minuend, subtrahend = max(first.estimate, floor), max(second.estimate, floor)
    down = np.hypot(max(minuend - first.low, 0.0), max(second.high - subtrahend, 0.0))
    up = np.hypot(max(first.high - minuend, 0.0), max(subtrahend - second.low, 0.0))
    estimate = first.estimate - second.estimate
    error = float(np.hypot(first.standard_error, second.standard_error))
    low = min(minuend - subtrahend - down, estimate)
    high = max(minuend - subtrahend + up, estimate)
    return MeanInterval(estimate, float(low), float(high), error)


def interval_pvalue(interval: MeanInterval, confidence_level: float) -> float:
    r"""Two-sided p-value of the hypothesis that a quantity is 0, from its interval.

    It is :math:`2 \bar\Phi(z |d| / r)` with the estimate d, the distance r from d to the limit on
    the side of 0, and the normal quantile z of the level. It is below one minus the level if and
    only if the interval excludes 0.
    """
    estimate = interval.estimate
    reach = estimate - interval.low if estimate > 0 else interval.high - estimate
    if estimate == 0 or not np.isfinite(reach):
        return 1.0
    if not reach > 0:
        return SMALLEST
    z = _normal_quantile(confidence_level) * abs(estimate) / reach
    return max(float(2 * ndtr(-z)), SMALLEST)


def mean_difference(
    first: np.ndarray,
    second: np.ndarray,
    weight: np.ndarray | None = None,
    confidence_level: float = 0.95,
    **rows: Any,
) -> MeanInterval:
    """`mean_interval` of the paired differences of two losses; equal infinite losses differ by 0.

    If each is infinite where the other is not, the mean is undefined, and the interval the line.
    """
    infinite, infinite_too = np.isinf(first), np.isinf(second)
    if np.any(infinite & ~infinite_too) and np.any(infinite_too & ~infinite):
        return MeanInterval(0.0, -np.inf, np.inf, np.inf)
    equal = first == second
    difference = np.where(equal, 0.0, first) - np.where(equal, 0.0, second)
    return mean_interval(difference, weight, confidence_level, **rows)


def first_within_one_standard_error(
    losses: ArrayLike,
    weight: np.ndarray | None = None,
    *,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
) -> tuple[int, int, list[MeanInterval]]:
    """The one-standard-error rule: the simplest candidate that may be the best.

    Losses (m, n) are those of m candidates on held-out samples, from simple to complex; the other
    arguments are those of `mean_interval`. Returns the number of the first candidate whose mean
    exceeds that of the best by at most its standard error, the number of the best, and the interval
    of the difference of every candidate from the best. The standard error is that of the paired
    difference, so that similar candidates are distinguished.
    """
    losses = np.asarray(losses, dtype=np.float64)
    best = int(np.argmin([weighted_mean(row, weight) for row in losses]))
    rows: dict[str, Any] = {"square": square, "cluster": cluster}
    intervals = [mean_difference(row, losses[best], weight, **rows) for row in losses]
    within = [interval.estimate <= interval.standard_error for interval in intervals]
    return within.index(True), best, intervals


def clopper_pearson(
    mean: float | np.ndarray, size: float | np.ndarray, confidence_level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Exact binomial interval of a mean of `size` labels; `size` need not be whole."""
    tail = (1 - confidence_level) / 2
    size = np.minimum(size, 1e100)  # of larger ones SciPy has no quantiles
    hits = np.clip(mean, 0, 1) * size
    misses = size - hits
    # Almost no events count as none: the limit is 0 there, and the beta quantile would underflow.
    some_hits, some_misses = hits > 1e-4, misses > 1e-4
    low = beta.ppf(tail, np.where(some_hits, hits, 1), misses + 1)
    high = beta.ppf(1 - tail, hits + 1, np.where(some_misses, misses, 1))
    return np.where(some_hits, low, 0.0), np.where(some_misses, high, 1.0)


def observed_expected_ratio(
    label: ArrayLike,
    forecast: ArrayLike,
    weight: np.ndarray | None = None,
    confidence_level: float = 0.95,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
) -> MeanInterval:
    r"""Ratio of the observed to the expected number of events, with an exact interval.

    .. math:: O / E = \sum_i w_i y_i \, / \sum_i w_i p_i

    It is above 1 where events are more frequent than predicted. The forecasts are fixed, and the
    labels are independent with arbitrary probabilities. The interval is the Clopper-Pearson
    interval of the mean of these probabilities divided by the mean forecast, from 0 to 1 / (mean
    forecast). The number of events varies most if all probabilities are equal (W. Hoeffding, On the
    distribution of the number of successes in independent trials, Annals of Mathematical Statistics
    27, 1956), so the coverage of the interval is at least its level. It is finite also if there are
    no events or only events.

    With weights the mean label has the effective size :math:`(\sum w)^2 / \sum w^2`, and the
    interval is an approximation. With clusters the effective size is that of `rate_interval`, with
    the variance of the ratio. `square` and `cluster` are those of `mean_interval`; the standard
    error is that of `rate_interval`. Raises a ValueError if every forecast is 0, or so small that
    the ratio is not a floating-point number.
    """
    check_confidence_level(confidence_level)
    forecast = np.asarray(forecast, dtype=np.float64)
    expected = float(weighted_mean(forecast, weight))
    with np.errstate(over="ignore", divide="ignore"):
        largest = np.float64(1) / expected
    if not np.isfinite(largest):
        raise ValueError(
            f"The mean forecast is {expected:.3g}, so the ratio of observed to expected events "
            "does not exist: check that y_proba is the probability of the event."
        )
    return _exact_interval(label, forecast, expected, weight, confidence_level, square, cluster)


def rate_interval(
    label: ArrayLike,
    weight: np.ndarray | None = None,
    confidence_level: float = 0.95,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
) -> MeanInterval:
    r"""Exact (Clopper-Pearson) interval of a mean label, at its effective size.

    For samples in clusters the effective size is that of Korn and Graubard (1998). It is
    :math:`\bar y (1 - \bar y) / v`, with the cluster-robust variance v of the mean, times the
    squared ratio of the quantiles of Student's t distribution for samples and for clusters. It is
    at most that of independent samples. If all labels are equal, it is the effective number of
    clusters.

    `square` and `cluster` are those of `mean_interval`. The standard error is the length of the
    interval over that of a standard normal one.
    """
    check_confidence_level(confidence_level)
    return _exact_interval(label, 1.0, 1.0, weight, confidence_level, square, cluster)


def _exact_interval(label, forecast, expected, weight, confidence_level, square, cluster):
    """Exact interval of the mean label, over the mean `expected` of forecasts."""
    label = np.asarray(label, dtype=np.float64)
    size = len(label) if weight is None else effective_size(np.asarray(weight), square)
    observed = float(np.clip(weighted_mean(label, weight), 0.0, 1.0))
    if cluster is not None:
        residual = label - forecast * (observed / expected)
        size = clustered_size(observed, residual, weight, cluster, confidence_level)
    low, high = clopper_pearson(observed, size, confidence_level)
    return interval_of_limits(
        observed / expected, low / expected, high / expected, confidence_level
    )


def concordance_interval(
    label: ArrayLike,
    score: ArrayLike,
    weight: np.ndarray | None = None,
    confidence_level: float = 0.95,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
) -> MeanInterval:
    """Concordance (area under the ROC curve) of a score, with an interval.

    The concordance is the probability that an event has a higher score than a non-event, where ties
    count one half: 0.5 for a score without information. The standard error is DeLong's [1]_. Let
    :math:`V_i` be the share of the other class against which sample i is ranked correctly. The
    squared standard errors of the means of V over the events and over the others add up. The
    interval is normal on the logit scale. With fewer than 40 effective samples of a class this
    standard error is uncertain, and for separated classes or a single sample it does not exist.
    Then the interval also covers Newcombe's score interval (his method 5 [2]_), which needs no
    variance. For samples in clusters the deviations of V, each over the weight of its class, are
    added by cluster before they are squared (Obuchowski [3]_). `square` and `cluster` are those of
    `mean_interval`. Raises a ValueError if all labels are of one class.

    .. [1] E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson. Comparing the areas under two or
       more correlated receiver operating characteristic curves. Biometrics 44, 1988.
    .. [2] R. G. Newcombe. Confidence intervals for an effect size measure based on the
       Mann-Whitney statistic. Part 2. Statistics in Medicine 25, 2006.
    .. [3] N. A. Obuchowski. Nonparametric analysis of clustered ROC curve data. Biometrics 53,
       1997.
    """
    check_confidence_level(confidence_level)
    event, score = np.asarray(label) == 1, merge_ties(np.asarray(score, dtype=np.float64))
    weight = np.ones(len(event)) if weight is None else np.asarray(weight, dtype=np.float64)
    if event.all() or not event.any():
        raise ValueError(
            "The concordance does not exist: all labels are of one class. Both classes are needed."
        )
    area = min(max(float(roc_auc_score(event, score, sample_weight=weight)), 0.0), 1.0)
    _, place = np.unique(score, return_inverse=True)
    influence, errors, sizes = np.empty(len(event)), [], []
    for outcome in (True, False):
        members = event == outcome
        values = ranked_above(place[members], place[~members], weight[~members])
        if not outcome:
            values = 1 - values  # a non-event is ranked correctly if it is below
        squares = None if square is None else np.asarray(square)[members]
        clusters = None if cluster is None else cluster[members]
        sizes.append(max(independent_size(weight[members], squares, clusters), 1.0))
        if cluster is None:
            errors.append(mean_interval(values, weight[members], square=squares).standard_error)
        else:
            share = weight[members] / weight[members].sum()
            influence[members] = share * (values - share @ values)
    if cluster is None:
        error, level = float(np.hypot(errors[0], errors[1])), confidence_level
    else:
        units = independent_size(weight, cluster=cluster)
        error = float(np.sqrt(np.sum(cluster_sums(influence, cluster) ** 2) * inflation(units)))
        level = student_level(confidence_level, units)
    low, high = area, area
    if exists := 0 < area < 1 and 1e-9 < error < np.inf:
        reach = _normal_quantile(level) * error / (area * (1 - area))
        low, high = (float(expit(logit(area) + end)) for end in (-reach, reach))
    if exists and min(sizes) >= FEW:
        return MeanInterval(area, low, high, error)
    lowest, highest = _newcombe(area, sizes[0], sizes[1], confidence_level)
    wide = interval_of_limits(area, min(low, lowest), max(high, highest), confidence_level)
    return replace(wide, standard_error=error) if exists else wide


def ranked_above(values: np.ndarray, others: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Share of the weight of `others` below each of `values`, ties counted half."""
    at = np.bincount(others, weight, max(values.max(), others.max()) + 1)
    return ((np.cumsum(at) - at / 2) / weight.sum())[values]


def _newcombe(area, n_events, n_others, confidence_level):
    """Limits of Newcombe's interval, with the variance of the area under exponential scores."""
    square = _normal_quantile(confidence_level) ** 2
    many = (n_events + n_others) / 2 - 1

    def excess(theta):
        spread = 1 + many * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return (theta - area) ** 2 - square * theta * (1 - theta) * spread / (n_events * n_others)

    def limit(end):
        near = area + 1e-12 * np.sign(end - area)
        if area == end:
            return end
        return brentq(excess, near, end) if excess(near) < 0 < excess(end) else near

    return limit(0.0), limit(1.0)


def _normal_quantile(confidence_level):
    return float(ndtri(0.5 + confidence_level / 2))


def clustered_size(
    rate: float,
    residual: np.ndarray,
    weight: np.ndarray | None,
    cluster: np.ndarray,
    confidence_level: float,
) -> float:
    """Number of independent samples whose rate is as uncertain as that of clusters."""
    weight = np.ones(len(residual)) if weight is None else np.asarray(weight, dtype=np.float64)
    samples, clusters = effective_size(weight), independent_size(weight, cluster=cluster)
    influence = cluster_sums(weight / weight.sum() * residual, cluster)
    variance = float(np.sum(influence**2)) * inflation(clusters)
    binomial = rate * (1 - rate)
    if not (binomial > 1e-12 and variance > 0):  # rounding errors of labels that are all equal
        return clusters
    quantiles = stdtrit(np.maximum([samples - 1, clusters - 1], 1), 0.5 + confidence_level / 2)
    return min(binomial / variance * float(quantiles[0] / quantiles[1]) ** 2, samples)


def interval_of_limits(
    estimate: float, low: float | np.ndarray, high: float | np.ndarray, confidence_level: float
) -> MeanInterval:
    """`MeanInterval` whose standard error is the length over that of a standard normal one."""
    low, high = min(float(low), estimate), max(float(high), estimate)
    error = (high - low) / (2 * _normal_quantile(confidence_level))
    return MeanInterval(float(estimate), low, high, error)


# --- Few events -----------------------------------------------------------------------------------


def uncertain_labels(
    forecast: np.ndarray, weight: np.ndarray, square: np.ndarray | None = None
) -> float:
    r"""Effective number of labels that the forecasts leave uncertain.

    With :math:`v_i = (1 - \|S_i\|^2) / 2`, which is S (1 - S) for two classes, it is :math:`(\sum w
    v)^2 / \sum w^2 v`. With equal weights and a rare event this is the expected number of events;
    with confident forecasts nearly that of wrong predictions. `square` (n,) has the sums of squared
    weights where a row stands for several samples.
    """
    variance = np.maximum(1 - np.einsum("ik,ik->i", forecast, forecast), 0.0) / 2
    scale = weight.max()  # squares of weights may over- or underflow
    square = np.square(weight / scale) if square is None else square / scale / scale
    weight = weight / scale
    spread = float(square @ variance)
    return float(weight @ variance) ** 2 / spread if spread > 0 else 0.0


def impossible_labels(forecast: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Which samples (n,) have a label with a forecast of exactly 0: it refutes calibration."""
    return ((forecast == 0) & (target > 0)).any(axis=1)


def refutation(forecast: np.ndarray, target: np.ndarray) -> str:
    """The reason why impossible labels refute the forecasts, in words; empty without any."""
    columns = ((forecast == 0) & (target > 0)).any(axis=0)
    if not columns.any():
        return ""
    if len(columns) > 2:
        return "refuted by a label where the forecast said 0"
    words = ("no event where the forecast said 1", "an event where the forecast said 0")
    reasons = [reason for reason, refutes in zip(words, columns, strict=True) if refutes]
    return "refuted by " + " and ".join(reasons)
