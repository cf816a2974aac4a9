"""Confidence intervals of means."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta
from scipy.stats import t as student

from skcalib._texts import record_text
from skcalib.tower import weighted_mean


@dataclass(frozen=True)
class MeanInterval:
    """An estimate with its confidence interval [low, high] and standard error."""

    estimate: float
    low: float
    high: float
    standard_error: float

    def __str__(self):
        return record_text(self)


def check_confidence_level(confidence_level):
    """A number strictly between 0 and 1."""
    if not (isinstance(confidence_level, (int, float)) and 0 < confidence_level < 1):
        raise ValueError(
            f"confidence_level must lie strictly between 0 and 1, got {confidence_level!r}."
        )


def mean_interval(values, weight=None, confidence_level=0.95, *, estimate=None):
    r"""Student interval of a weighted mean.

    The standard error is :math:`\sqrt{\sum_i w_i^2 (v_i - \bar v)^2} / \sum_i w_i` times
    :math:`\sqrt{m / (m - 1)}`, with the effective size :math:`m = (\sum w)^2 / \sum w^2`, and the
    quantile is Student's with m - 1 degrees of freedom.

    Parameters
    ----------
    values : array of shape (n,)
        Terms of the mean. Infinite terms give an infinite mean, and an interval of that point.
    weight : array of shape (n,), optional
        Positive weights.
    confidence_level : float, default=0.95
        Level of the two-sided interval.
    estimate : float, optional
        Centre of the interval where it is not the mean of `values`, whose spread it then borrows.

    Returns
    -------
    MeanInterval
        With a single effective sample the interval is the whole line.

    Examples
    --------
    >>> from skcalib.intervals import mean_interval
    >>> interval = mean_interval([0.0, 1.0, 2.0])
    >>> round(interval.estimate, 3), round(interval.low, 3), round(interval.high, 3)
    (1.0, -1.484, 3.484)
    """
    check_confidence_level(confidence_level)
    values = np.asarray(values, dtype=np.float64)
    weight = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=np.float64)
    mean = float(weighted_mean(values, weight))
    estimate = mean if estimate is None else float(estimate)
    if not (np.isfinite(mean) and np.isfinite(estimate)):
        return MeanInterval(estimate, estimate, estimate, 0.0)
    share = weight / weight.sum()
    size = 1 / np.sum(share**2)
    if size - 1 < 1e-9:
        return MeanInterval(estimate, -np.inf, np.inf, np.inf)
    error = float(np.sqrt(np.sum((share * (values - mean)) ** 2) * size / (size - 1)))
    reach = float(student.ppf(0.5 + confidence_level / 2, size - 1)) * error
    return MeanInterval(estimate, estimate - reach, estimate + reach, error)


def first_within_one_standard_error(losses, weight=None):
    """The one-standard-error rule: the simplest candidate that may be the best.

    The error is that of the paired difference, so that candidates which nearly agree are told
    apart.

    Parameters
    ----------
    losses : array of shape (m, n)
        Held-out losses of m candidates, from simple to complex.
    weight : array of shape (n,), optional
        Positive weights.

    Returns
    -------
    first : int
        The first candidate whose mean exceeds that of the best by its standard error at the most.
    best : int
        The candidate of lowest mean.
    intervals : list of MeanInterval
        Of every candidate's difference from the best.

    Examples
    --------
    >>> from skcalib.intervals import first_within_one_standard_error
    >>> losses = [[0.9, 0.8, 0.7], [0.5, 0.2, 0.3], [0.4, 0.3, 0.2]]
    >>> first_within_one_standard_error(losses)[:2]
    (1, 2)
    """
    losses = np.asarray(losses, dtype=np.float64)
    best = int(np.argmin([weighted_mean(row, weight) for row in losses]))
    intervals = [mean_interval(row - losses[best], weight) for row in losses]
    within = [interval.estimate <= interval.standard_error for interval in intervals]
    return within.index(True), best, intervals


def clopper_pearson(mean, size, confidence_level):
    """Exact binomial interval of a mean of `size` labels; `size` need not be whole."""
    tail = (1 - confidence_level) / 2
    hits = np.clip(mean, 0, 1) * size
    misses = size - hits
    # Next to no hit counts as none: the limit is 0 there, and the beta quantile would underflow.
    some_hits, some_misses = hits > 1e-4, misses > 1e-4
    low = beta.ppf(tail, np.where(some_hits, hits, 1), misses + 1)
    high = beta.ppf(1 - tail, hits + 1, np.where(some_misses, misses, 1))
    return np.where(some_hits, low, 0.0), np.where(some_misses, high, 1.0)
