"""Forecasts of means and variances: reliability, score, improvement by a map, and validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skcalib._util.formatting import Record
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike
from skcalib._util.validation import (
    check_finite,
    check_indices,
    drop_zero_weights,
    in_words,
    refuse_sparse,
)
from skcalib.recalibration.held_out import CalibrationImprovement, improvement_of_losses
from skcalib.scores import DawidSebastiani, weighted_mean
from skcalib.smoothers import QuantileBins
from skcalib.stats.means import mean_interval


@dataclass(frozen=True)
class VarianceReliability(Record):
    """Mean squared error against mean forecast variance, by bins of the forecast variance.

    All arrays have one entry per bin, in increasing order of the variance.

    See Also
    --------
    skcalib.regression.variance_reliability : Makes this record.
    """

    predicted_variance: np.ndarray
    mean_squared_error: np.ndarray
    ratio: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_samples: np.ndarray
    overall_ratio: float
    overall_low: float
    overall_high: float
    instance_ratio: float
    instance_low: float
    instance_high: float

    _rows = ("predicted_variance", "mean_squared_error", "ratio", "low", "high", "n_samples")
    _beside = (
        *("overall_ratio", "overall_low", "overall_high"),
        *("instance_ratio", "instance_low", "instance_high"),
    )


@checks_parameters
def variance_reliability(
    y_true: ArrayLike,
    y_mean: ArrayLike,
    y_var: ArrayLike,
    *,
    n_bins: int = 10,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> VarianceReliability:
    r"""Ratio of mean squared error to mean forecast variance, in bins of equal mass.

    In bin b the ratio is

    .. math:: R_b = \frac{\sum_{i \in b} (y_i - \mu_i)^2}{\sum_{i \in b} v_i} .

    It is 1, up to sampling error, in every bin of a forecast whose variance is calibrated,
    :math:`E[(Y - \mu)^2 \mid v] = v`. Above 1 the regressor is over-confident there, below 1
    over-cautious. The literature also reports the inverse, variance over squared error. An error of
    the mean counts as spread that the forecast variance must include.

    The *instance* ratio is the mean of :math:`(y_i - \mu_i)^2 / v_i` over all samples (G22 table
    2). It is 1 for a calibrated variance too, but the samples of the smallest variances decide it.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Outcomes to which the regressor was not fitted.
    y_mean : array-like of shape (n_samples,)
        Forecast means.
    y_var : array-like of shape (n_samples,)
        Forecast variances, positive.
    n_bins : int, default=10
        Number of bins, 10 as in diagrams of classifiers, cut between order statistics of the
        variance. Equal variances share a bin, so that there are fewer bins where there are fewer
        distinct values.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the means; they do not change the bins. Zero-weight samples are dropped.

    Returns
    -------
    VarianceReliability
        Record with, for each bin, ``predicted_variance`` and ``mean_squared_error`` (in squared
        units of y), their ``ratio`` with its interval ``low``, ``high``, and ``n_samples``; and
        ``overall_ratio, overall_low, overall_high`` of all samples, and ``instance_ratio,
        instance_low, instance_high`` with Student's interval.

    Raises
    ------
    ValueError
        If a variance is not positive, or the arrays have different lengths.

    See Also
    --------
    skcalib.regression.VarianceScaling : Recalibrates the variances.

    Notes
    -----
    The interval is Student's, with the linearised residuals :math:`((y_i - \mu_i)^2 - R_b v_i) /
    \bar v_b`, on the scale of the logarithm, where the ratio of squares is less skewed. A bin with
    one sample has the interval (0, infinity). The coverage at the level 95 % was measured in bins
    of nearly equal variances. For Gaussian errors it was 91 % at 10 samples in the bin, 92 % at 20,
    94 % at 50 and 95 % at 200; for Student errors with 6 degrees of freedom 87, 88, 90 and 92 %.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.regression import variance_reliability
    >>> rng = np.random.default_rng(0)
    >>> variance = rng.uniform(1, 3, 4000)
    >>> y = np.sqrt(2 * variance) * rng.standard_normal(4000)  # the truth is twice the forecast
    >>> reliability = variance_reliability(y, np.zeros(4000), variance, n_bins=4)
    >>> reliability.ratio.round(1)
    array([2.1, 2. , 2. , 2. ])
    """
    moments = check_moments(y_true, y_mean, y_var, sample_weight)
    squared, variance, weight = np.square(moments.residual), moments.variance, moments.weight
    values = np.column_stack([variance, squared])
    bins = QuantileBins(n_bins).fit(moments.forecast, values, weight)
    means = bins.cell_means()
    rows = [bins.cells_ == cell for cell in range(bins.n_cells_)]
    ratios = [_ratio(squared[r], variance[r], weight[r], confidence_level) for r in rows]
    ratio, low, high = np.transpose(ratios)
    overall = _ratio(squared, variance, weight, confidence_level)
    instance = mean_interval(squared / variance, weight, confidence_level)
    return VarianceReliability(
        predicted_variance=means[:, 0],
        mean_squared_error=means[:, 1],
        ratio=ratio,
        low=low,
        high=high,
        n_samples=np.bincount(bins.cells_),
        overall_ratio=overall[0],
        overall_low=overall[1],
        overall_high=overall[2],
        instance_ratio=instance.estimate,
        instance_low=instance.low,
        instance_high=instance.high,
    )


def _ratio(squared, variance, weight, confidence_level):
    """Ratio of means, and its interval on the scale of the logarithm."""
    mean_variance = weighted_mean(variance, weight)
    ratio = float(weighted_mean(squared, weight) / mean_variance)
    if ratio == 0:
        return 0.0, 0.0, np.inf if len(squared) == 1 else 0.0
    influence = (squared - ratio * variance) / mean_variance
    interval = mean_interval(influence / ratio, weight, confidence_level, estimate=0.0)
    with np.errstate(over="ignore"):  # infinite for about one effective sample
        low, high = np.exp([interval.low, interval.high])
    return ratio, ratio * float(low), ratio * float(high)


# --- Score of means and variances -----------------------------------------------------------------


def dawid_sebastiani_score(
    y_true: ArrayLike,
    y_mean: ArrayLike,
    y_var: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Dawid-Sebastiani score of forecast means and variances (G22, section 5).

    .. math:: \frac{1}{n} \sum_i \left( \frac{(y_i - \mu_i)^2}{v_i} + \log v_i \right)

    It is a proper loss: it is lowest in expectation where the forecast has the mean and the
    variance of the outcome, for any distribution. For Gaussian forecasts it is twice the
    negative log-likelihood, less :math:`\log 2 \pi`. Lower is better. It has no lower bound, and a
    change of the unit of y adds a constant. So only differences between forecasts of the same
    outcomes are meaningful.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Outcomes.
    y_mean : array-like of shape (n_samples,)
        Forecast means.
    y_var : array-like of shape (n_samples,)
        Forecast variances, positive. The square of the standard deviation that scikit-learn's
        regressors return.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the mean; zero-weight samples are dropped.

    Returns
    -------
    float
        The mean score, any real number.

    Raises
    ------
    ValueError
        If a variance is not positive, or the arrays have different lengths.

    See Also
    --------
    skcalib.scores.DawidSebastiani : The score as an object, with its entropy and divergence.
    skcalib.regression.VarianceScaling : The map of the variance that minimises it.

    Examples
    --------
    >>> from skcalib.regression import dawid_sebastiani_score
    >>> dawid_sebastiani_score([1.0, 3.0], y_mean=[0.0, 3.0], y_var=[1.0, 1.0])
    0.5
    """
    return mean_score(check_moments(y_true, y_mean, y_var, sample_weight))


def losses(moments: Moments) -> np.ndarray:
    """Dawid-Sebastiani score of each sample of validated `Moments`, (n,)."""
    score = DawidSebastiani()
    return score.loss(score.statistic(moments.residual), moments.forecast)


def mean_score(moments: Moments) -> float:
    """Mean Dawid-Sebastiani score of validated `Moments`."""
    return float(weighted_mean(losses(moments), moments.weight))


# --- Improvement by a map ------------------------------------------------------------------------


@checks_parameters
def dawid_sebastiani_improvement(
    y_true: ArrayLike,
    before: ArrayLike,
    after: ArrayLike | BaseEstimator,
    *,
    confidence_level: float = 0.95,
    injective: bool | None = None,
    sample_weight: ArrayLike | None = None,
) -> CalibrationImprovement:
    r"""Improvement of the Dawid-Sebastiani score by a map of mean and variance, with an interval.

    The estimate is the mean paired difference on data that were used to fit neither the regressor
    nor the map,

    .. math:: \Delta = \frac1n \sum_i \Big( \frac{(y_i - \mu_i)^2}{v_i} + \log v_i
        - \frac{(y_i - \mu_i')^2}{v_i'} - \log v_i' \Big) ,

    with a Student interval and a two-sided p-value. For an injective map its expectation is the
    improvement of the calibration error of this score (G22, proposition 4.5). For any other map it
    is a lower bound, as in :func:`~skcalib.calibration_improvement`. It does not depend on the unit
    of y.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Outcomes of held-out data.
    before : array-like of shape (n_samples, 2)
        Forecast mean and variance without the map, in this order.
    after : array-like of shape (n_samples, 2), or fitted VarianceScaling
        Mean and variance with the map. Or the map itself: it is applied to `before`, and declares
        whether it is injective (``injective_``).
    injective : bool, default=None
        Whether different forecasts remain different. None uses the declaration of the map.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights; zero-weight samples are dropped.

    Returns
    -------
    CalibrationImprovement
        The improvement, in units of the score: twice the nats of a Gaussian log-likelihood.

    Raises
    ------
    ValueError
        For invalid input, variances that are not positive, and fewer than four samples.

    See Also
    --------
    skcalib.regression.VarianceScaling : The map.
    skcalib.regression.variance_reliability : Whether the variances are calibrated, by bins.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.regression import VarianceScaling, dawid_sebastiani_improvement
    >>> rng = np.random.default_rng(0)
    >>> variance = rng.uniform(1, 3, 4000)
    >>> y = np.sqrt(2 * variance) * rng.standard_normal(4000)  # the variance is twice as large
    >>> forecast = np.column_stack([np.zeros(4000), variance])
    >>> scaling = VarianceScaling().fit(forecast[:2000], y[:2000])
    >>> gain = dawid_sebastiani_improvement(y[2000:], forecast[2000:], scaling)
    >>> gain.low > 0, gain.injective  # 1 - log 2 = 0.307 is possible
    (True, True)
    """
    recalibrated: Any = after
    if hasattr(after, "transform"):
        injective = getattr(after, "injective_", None) if injective is None else injective
        recalibrated = after.transform(before)
    without = _moments_of(y_true, before, sample_weight, "before")
    mapped = _moments_of(y_true, recalibrated, sample_weight, "after")
    return improvement_of_losses(
        losses(without),
        losses(mapped),
        without.weight,
        confidence_level,
        injective,
        name="dawid_sebastiani_improvement",
    )


def _moments_of(y_true, values, sample_weight, name):
    """`Moments` of an array of two columns, mean and variance."""
    values = np.asarray(values)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(
            f"{name} must have the shape (n_samples, 2), mean and variance, got {values.shape}."
        )
    var_name = f"the variance, second column of {name},"
    return check_moments(y_true, *values.T, sample_weight, var_name=var_name)


# --- Validation -----------------------------------------------------------------------------------


#: Largest outcome, mean and standard deviation, and inverse of the smallest standard deviation.
LARGEST = 1e50


@dataclass(frozen=True)
class Moments:
    """Residuals y - mean, forecast variances and positive weights, each of shape (n,).

    The score of a mean and a variance does not change if the same constant is added to outcome and
    mean. Moments are therefore taken about the forecast mean: in mean^2 + variance, rounding would
    remove the variance where the mean is large.
    """

    residual: np.ndarray
    variance: np.ndarray
    weight: np.ndarray

    @property
    def forecast(self) -> np.ndarray:
        """First and second moment of the forecast about its mean, (0, v), shape (n, 2)."""
        return centred(self.variance)


def centred(variance: np.ndarray) -> np.ndarray:
    """Variances (n,) -> moments (0, v) about the mean, shape (n, 2)."""
    return np.stack([np.zeros_like(variance), variance], axis=-1)


def check_moments(
    y_true: ArrayLike,
    y_mean: ArrayLike,
    y_var: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    name: str = "y_true",
    var_name: str = "y_var",
) -> Moments:
    """Arguments of a public function -> `Moments`; zero-weight samples are dropped."""
    rows = {name: y_true, "y_mean": y_mean, var_name: y_var, "sample_weight": sample_weight}
    check_indices(**rows)
    y, mean = check_numbers(y_true, name), check_numbers(y_mean, "y_mean")
    variance = check_numbers(y_var, var_name)
    if not len(y) == len(mean) == len(variance):
        raise ValueError(
            f"{name}, y_mean and y_var must have the same number of samples, got {len(y)}, "
            f"{len(mean)} and {len(variance)}."
        )
    if variance.min() <= 0:
        row = int(variance.argmin())
        raise ValueError(
            f"{var_name} must be positive, but row {row} holds {variance[row]:g}: the score of a "
            "forecast without variance is infinite. Give the regressor a noise term, or leave "
            "these rows out."
        )
    _check_range(variance, var_name, 1 / LARGEST**2, LARGEST**2)
    for values, column in ((y, name), (mean, "y_mean")):
        _check_range(values, column, 0.0, LARGEST)
    weight, residual, variance = drop_zero_weights(sample_weight, y - mean, variance)
    return Moments(residual, variance, weight)


def _check_range(values, name, low, high):
    """Raise for numbers whose squares or ratios would overflow or underflow."""
    size = np.abs(values)
    outside = (size < low) | (size > high)
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"{name} holds {values[row]:g} in row {row}, whose squares or ratios leave the range "
            f"of floating point numbers: outcomes and means must lie within {LARGEST:g}, variances "
            f"between {1 / LARGEST**2:g} and {LARGEST**2:g}. Choose another unit."
        )


def check_numbers(values: ArrayLike, name: str) -> np.ndarray:
    """Finite real numbers of shape (n,) or (n, 1) -> float64 array (n,)."""
    refuse_sparse(values, name)
    array = np.asarray(values)
    if array.dtype.kind in "cSUV":
        raise ValueError(f"{name} must hold real numbers, got an array of type {array.dtype}.")
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers: {in_words(error)}") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), one number per sample; got {array.shape}.")
    check_finite(array, name)
    return array
