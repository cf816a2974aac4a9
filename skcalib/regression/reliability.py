"""The reliability of the variance: squared errors against what was forecast."""

from dataclasses import dataclass

import numpy as np

from skcalib._validation import check_confidence_level
from skcalib.inference import mean_interval
from skcalib.regression.scores import check_moments
from skcalib.smoothers import QuantileBins
from skcalib.tower import weighted_mean


@dataclass(frozen=True)
class VarianceReliability:
    """Mean squared error against mean forecast variance, by bins of the forecast variance.

    All arrays have one entry per bin, in increasing order of the variance.
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


def variance_reliability(
    y_true, y_mean, y_var, *, n_bins=10, confidence_level=0.95, sample_weight=None
):
    r"""Mean squared error over mean forecast variance, in bins of equal mass of the variance.

    In bin b the ratio is

    .. math:: R_b = \frac{\sum_{i \in b} (y_i - \mu_i)^2}{\sum_{i \in b} v_i} .

    It is 1, up to chance, in every bin of a forecast whose variance is calibrated,
    :math:`E[(Y - \mu)^2 \mid v] = v`. Above 1 the regressor is over-confident there, below 1
    over-cautious. The literature also reports the inverse, variance over squared error. An error
    of the mean counts as spread: that is what the forecast variance has to cover.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Outcomes to which the regressor was not fitted.
    y_mean : array-like of shape (n_samples,)
        Forecast means.
    y_var : array-like of shape (n_samples,)
        Forecast variances, positive.
    n_bins : int, default=10
        Number of bins, cut at order statistics of the variance. Equal variances share a bin, so
        that there are fewer bins where there are fewer distinct values.
    confidence_level : float, default=0.95
        Level of the intervals.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the means; they do not move the bins. A sample of weight zero does not count.

    Returns
    -------
    VarianceReliability
        Record with, for each bin, ``predicted_variance`` and ``mean_squared_error`` (in squared
        units of y), their ``ratio`` with its interval ``low``, ``high``, and ``n_samples``; and
        ``overall_ratio, overall_low, overall_high`` of all samples.

    Raises
    ------
    ValueError
        If a variance is not positive, or the arrays do not fit together.

    See Also
    --------
    skcalib.VarianceScaling : Repairs the variances.

    Notes
    -----
    The interval is Student's, with the linearised residuals :math:`((y_i - \mu_i)^2 - R_b v_i) /
    \bar v_b`, on the scale of the logarithm, where the ratio of squares is less skewed. A bin with
    one sample has the interval (0, infinity). Measured coverage of the level 95 % in bins of
    nearly equal variances: for Gaussian errors 91 % at 10 samples in the bin, 92 % at 20, 94 % at
    50 and 95 % at 200 (Student's interval of the ratio itself: 86, 89, 92 and 94 %); for Student
    errors with 6 degrees of freedom 87, 88, 90 and 92 %. Heavy tails need large bins.

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
    >>> bool(np.all((reliability.low < 2) & (2 < reliability.high)))
    True
    """
    check_confidence_level(confidence_level)
    moments = check_moments(y_true, y_mean, y_var, sample_weight)
    squared, variance, weight = np.square(moments.residual), moments.variance, moments.weight
    values = np.column_stack([variance, squared])
    bins = QuantileBins(n_bins).fit(moments.forecast, values, weight)
    means = bins.cell_means()
    parts = [bins.cells_ == cell for cell in range(bins.n_cells_)]
    ratios = [
        _ratio(squared[part], variance[part], weight[part], confidence_level) for part in parts
    ]
    ratio, low, high = np.transpose(ratios)
    return VarianceReliability(
        means[:, 0],
        means[:, 1],
        ratio,
        low,
        high,
        np.bincount(bins.cells_),
        *_ratio(squared, variance, weight, confidence_level),
    )


def _ratio(squared, variance, weight, confidence_level):
    """Ratio of means, and its interval on the scale of the logarithm."""
    mean_variance = weighted_mean(variance, weight)
    ratio = float(weighted_mean(squared, weight) / mean_variance)
    if ratio == 0:
        return 0.0, 0.0, np.inf if len(squared) == 1 else 0.0
    influence = (squared - ratio * variance) / mean_variance
    interval = mean_interval(influence / ratio, weight, confidence_level, estimate=0.0)
    with np.errstate(over="ignore"):  # hardly more than one effective sample: infinity
        low, high = np.exp([interval.low, interval.high])
    return ratio, ratio * float(low), ratio * float(high)
