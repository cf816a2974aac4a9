"""Evaluation of forecasts of means and variances.

The reliability of the variance, the Dawid-Sebastiani score and what a map improves of it, the
kernel calibration error of Gaussian forecasts (Widmann et al. 2021) and its test. `check_moments`
validates their arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.spatial.distance import cdist, pdist
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from skcalib._util.formatting import Record
from skcalib._util.messages import is_finite, shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, RandomState, RowIndex
from skcalib._util.validation import (
    check_count,
    check_finite,
    check_indices,
    drop_zero_weights,
    error_sentence,
    refuse_sparse,
    weights_of_mean_one,
)
from skcalib.errors.kernel import ResidualKernel, check_statistic, estimate
from skcalib.recalibration.held_out import CalibrationImprovement, improvement_of_losses
from skcalib.scores import DawidSebastiani, weighted_mean
from skcalib.significance.kernel import run_test
from skcalib.smoothers import QuantileBins
from skcalib.stats.means import mean_interval

if TYPE_CHECKING:
    from skcalib.stats.pvalues import CalibrationTest


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


# --- Improvement by a map -------------------------------------------------------------------------


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


# --- Kernel calibration error of Gaussian forecasts -----------------------------------------------
#
# With a kernel on forecasts, the Laplacian of the Wasserstein distance of two normal distributions,
# and a Gaussian kernel on outcomes, every expectation over the forecasts has a closed form:
# E k(Z, y') = l / sqrt(l^2 + v) exp(-(y' - m)^2 / (2 (l^2 + v))) for Z ~ N(m, v).


_SUBSAMPLE = 2000  # forecasts used to choose a bandwidth


@dataclass(frozen=True)
class GaussianPart:
    r"""Function h of two samples, for the statistics of the kernel calibration error.

    The expectations over the forecasts have a closed form, as

    .. math::

        E\, \kappa(Z, y') = \frac{\ell}{\sqrt{\ell^2 + v}} e^{-(y' - \mu)^2 / (2 (\ell^2 + v))},
        \qquad Z \sim N(\mu, v).

    ``place`` holds mean and standard deviation, shape (n, 2): the Wasserstein distance of two
    normal distributions is the Euclidean distance of these points.
    """

    place: np.ndarray
    outcome: np.ndarray
    weight: np.ndarray
    forecast_bandwidth: float
    target_bandwidth: float

    def take(self, rows: RowIndex) -> GaussianPart:
        """The same function for some of the samples."""
        return replace(
            self, place=self.place[rows], outcome=self.outcome[rows], weight=self.weight[rows]
        )

    def sum(self, i: slice, j: slice) -> float:
        """Sum of h over a block."""
        return float(self.block(i, j).sum())

    def block(self, i: RowIndex, j: RowIndex) -> np.ndarray:
        """Values of h in a block."""
        distance = cdist(self.place[i], self.place[j])
        rows = np.array([self.outcome, *self.place.T, self.weight])
        return self._values(distance, rows[:, i, None], rows[:, None, j])

    def pairs(self, i: RowIndex, j: RowIndex) -> np.ndarray:
        """Values of h for samples i[m] and j[m]."""
        distance = np.sqrt(np.sum((self.place[i] - self.place[j]) ** 2, axis=-1))
        rows = np.array([self.outcome, *self.place.T, self.weight])
        return self._values(distance, rows[:, i], rows[:, j])

    def _values(self, distance, left, right):
        (y, mean, deviation, weight), (z, m, d, w) = left, right
        v, u = deviation**2, d**2
        residual = self._mean_kernel(y - z, 0.0)
        residual = residual - self._mean_kernel(mean - z, v) - self._mean_kernel(y - m, u)
        residual = residual + self._mean_kernel(mean - m, v + u)
        return weight * w * np.exp(-distance / self.forecast_bandwidth) * residual

    def _mean_kernel(self, difference, variance):
        """Gaussian kernel of two independent normal variables, averaged."""
        square = self.target_bandwidth**2
        width = square + variance
        return np.sqrt(square / width) * np.exp(-0.5 * difference**2 / width)


@checks_parameters
def kernel_calibration_error_gaussian(
    y_true: ArrayLike,
    y_mean: ArrayLike,
    y_var: ArrayLike,
    *,
    forecast_bandwidth: float | Literal["median"] = "median",
    target_bandwidth: float | Literal["auto"] = "auto",
    statistic: Literal["auto", "unbiased", "biased", "linear", "block"] = "auto",
    block_size: int | None = None,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> float:
    r"""Squared kernel calibration error of Gaussian forecasts (Widmann et al. 2021).

    Forecasts :math:`N(\mu, v)` are calibrated if the outcome, given the forecast, has that
    distribution: its mean, its variance and its shape. With
    :math:`k = e^{-W_2 / \nu}` on forecasts, :math:`\kappa = e^{-(y - y')^2 / (2 \ell^2)}` on
    outcomes and independent draws :math:`Z_i \sim N(\mu_i, v_i)`,

    .. math::

        h_{ij} = k_{ij} \big[ \kappa(y_i, y_j) - E \kappa(Z_i, y_j) - E \kappa(y_i, Z_j)
        + E \kappa(Z_i, Z_j) \big] .

    The error is E h over independent pairs: zero for calibrated forecasts and positive for all
    others. The statistics are those of :func:`~skcalib.kernel_calibration_error`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Outcomes.
    y_mean, y_var : array-like of shape (n_samples,)
        Means and positive variances of the forecasts.
    forecast_bandwidth : "median" or float, default="median"
        The scale :math:`\nu`: the median Wasserstein distance of two forecasts (of a subsample of
        2,000), their mean distance if that is 0, and 1 if all forecasts are equal.
    target_bandwidth : "auto" or float, default="auto"
        The scale :math:`\ell`: the standard deviation of the outcome according to the forecasts,
        :math:`\sqrt{\bar v + \widehat{var}(\mu)}`. It does not depend on the outcomes.
    statistic : {"auto", "unbiased", "biased", "linear", "block"}, default="auto"
        As in :func:`~skcalib.kernel_calibration_error`: "auto" is "unbiased" for at most 20,000
        samples, and uses random blocks for more.
    block_size : int, optional
        Samples of a block, for "block".
    sample_weight : array-like of shape (n_samples,), optional
        Weights; the weight of a pair is the product.

    Returns
    -------
    float
        Dimensionless. All but "biased" may be negative. The cost is O(n^2), and O(n) for "linear".
        With "auto" it is at most that of 20,000 samples for up to a million samples, and O(n)
        beyond.

    See Also
    --------
    skcalib.regression.kernel_calibration_test_gaussian : Whether the error is significant.
    skcalib.regression.dawid_sebastiani_score : A proper score of mean and variance.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.regression import kernel_calibration_error_gaussian
    >>> rng = np.random.default_rng(0)
    >>> mean, y = rng.normal(size=(2, 500))
    >>> y += mean
    >>> round(kernel_calibration_error_gaussian(y, mean, np.ones(500)), 4)
    0.0003
    >>> round(kernel_calibration_error_gaussian(y, mean, np.full(500, 0.25)), 4)
    0.0083
    """
    scales = forecast_bandwidth, target_bandwidth
    h = _function(y_true, y_mean, y_var, scales, sample_weight, n_jobs)
    check_statistic(statistic, block_size, len(h))
    return estimate(h, statistic, block_size)


@checks_parameters
def kernel_calibration_test_gaussian(
    y_true: ArrayLike,
    y_mean: ArrayLike,
    y_var: ArrayLike,
    *,
    forecast_bandwidth: float | Literal["median"] = "median",
    target_bandwidth: float | Literal["auto"] = "auto",
    statistic: Literal["auto", "unbiased", "linear", "block"] = "auto",
    method: Literal["auto", "spectral", "multipliers", "bootstrap", "asymptotic"] = "auto",
    block_size: int | None = None,
    n_resamples: int = 500,
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> CalibrationTest:
    """Test of calibration for Gaussian forecasts.

    Parameters
    ----------
    y_true, y_mean, y_var, forecast_bandwidth, target_bandwidth, block_size, sample_weight, n_jobs
        As in :func:`~skcalib.regression.kernel_calibration_error_gaussian`.
    statistic : {"auto", "unbiased", "linear", "block"}, default="auto"
        The U-statistic of the error: see
        :func:`~skcalib.regression.kernel_calibration_error_gaussian`.
    method : {"auto", "spectral", "multipliers", "bootstrap", "asymptotic"}, default="auto"
        Null distribution of the estimate, as in :func:`~skcalib.kernel_calibration_test`:
        "spectral" for "auto" and "unbiased", "asymptotic" for the others.
    n_resamples : int, default=500
        Draws of "multipliers" and "bootstrap", as in :func:`~skcalib.kernel_calibration_test`.

    Returns
    -------
    CalibrationTest
        Statistic, p-value, estimate and method.

    See Also
    --------
    skcalib.regression.kernel_calibration_error_gaussian : The estimate.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.regression import kernel_calibration_test_gaussian
    >>> rng = np.random.default_rng(0)
    >>> mean, y = rng.normal(size=(2, 500))
    >>> y += mean
    >>> kernel_calibration_test_gaussian(y, mean, np.ones(500)).rejects()
    False
    >>> kernel_calibration_test_gaussian(y, mean, np.full(500, 0.25)).rejects()
    True
    """
    scales = forecast_bandwidth, target_bandwidth
    h = _function(y_true, y_mean, y_var, scales, sample_weight, n_jobs)
    names = [name for name in (statistic, method) if isinstance(name, str)]
    if not {"biased", "bound", "embedding"}.isdisjoint(names):
        raise ValueError(
            "Gaussian forecasts are tested by statistic='auto', 'unbiased', 'linear' or 'block', "
            "and not by method='bound' or 'embedding'."
        )
    n_resamples = check_count(n_resamples, "n_resamples")
    rng = check_random_state(random_state)
    return run_test(h, statistic, method, block_size, n_resamples, rng)


def _function(y_true, y_mean, y_var, scales, sample_weight, n_jobs):
    moments = check_moments(y_true, y_mean, y_var, sample_weight)
    # Kernels depend on differences only: a common shift would lose precision.
    mean = moments.mean - moments.mean.mean()
    place = np.column_stack([mean, np.sqrt(moments.variance)])
    weight, spread = weights_of_mean_one(moments.weight), moments.variance.mean() + mean.var()
    part = GaussianPart(
        place,
        moments.residual + mean,
        weight,
        _scale(scales[0], "forecast_bandwidth", "median", lambda: _median(place)),
        _scale(scales[1], "target_bandwidth", "auto", lambda: float(np.sqrt(spread))),
    )
    return ResidualKernel([part], weight, n_jobs=n_jobs)


def _scale(bandwidth, name, word, rule):
    if isinstance(bandwidth, str) and bandwidth == word:
        return rule()
    if is_finite(bandwidth) and bandwidth > 0:
        return float(bandwidth)
    raise ValueError(f"{name} must be {word!r} or a positive number, got {shown(bandwidth)}.")


def _median(place):
    if len(place) > _SUBSAMPLE:
        rows = np.random.RandomState(0).choice(len(place), _SUBSAMPLE, replace=False)
        place = place[rows]
    distance = pdist(place)
    return float(np.median(distance) or distance.mean() or 1.0) if len(distance) else 1.0


# --- Validation -----------------------------------------------------------------------------------


#: Largest outcome, mean and standard deviation, and inverse of the smallest standard deviation.
LARGEST = 1e50


@dataclass(frozen=True)
class Moments:
    """Residuals y - mean, forecast variances, positive weights and means, each of shape (n,).

    The score of a mean and a variance does not change if the same constant is added to outcome and
    mean. Moments are therefore taken about the forecast mean: in mean^2 + variance, rounding would
    remove the variance where the mean is large.
    """

    residual: np.ndarray
    variance: np.ndarray
    weight: np.ndarray
    mean: np.ndarray

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
    for values, column, low, high in (
        (variance, var_name, 1 / LARGEST**2, LARGEST**2),
        (y, name, 0.0, LARGEST),
        (mean, "y_mean", 0.0, LARGEST),
    ):
        outside = (np.abs(values) < low) | (np.abs(values) > high)
        if outside.any():  # squares or ratios would overflow or underflow
            row = int(outside.argmax())
            raise ValueError(
                f"{column} holds {values[row]:g} in row {row}, whose squares or ratios leave the "
                f"range of floating point numbers: outcomes and means must lie within {LARGEST:g}, "
                f"variances between {1 / LARGEST**2:g} and {LARGEST**2:g}. Choose another unit."
            )
    weight, residual, variance, mean = drop_zero_weights(sample_weight, y - mean, variance, mean)
    return Moments(residual, variance, weight, mean)


def check_numbers(values: ArrayLike, name: str) -> np.ndarray:
    """Finite real numbers of shape (n,) or (n, 1) -> float64 array (n,)."""
    refuse_sparse(values, name)
    array = np.asarray(values)
    if array.dtype.kind in "cSUV":
        raise ValueError(f"{name} must hold real numbers, got an array of type {array.dtype}.")
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers: {error_sentence(error)}") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), one number per sample; got {array.shape}.")
    check_finite(array, name)
    return array
