r"""The kernel calibration error of Gaussian forecasts (Widmann et al. 2021).

With a kernel on forecasts, the Laplacian of the Wasserstein distance of two normal distributions,
and a Gaussian kernel on outcomes, every expectation over the forecasts has a closed form:

.. math::

    E\, k(Z, y') = \frac{\ell}{\sqrt{\ell^2 + v}} e^{-(y' - \mu)^2 / (2 (\ell^2 + v))}, \qquad
    Z \sim N(\mu, v).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.spatial.distance import cdist, pdist
from sklearn.utils import check_random_state

from skcalib._util.messages import is_finite, shown
from skcalib._util.parameters import checks_parameters
from skcalib._util.types import ArrayLike, RandomState, RowIndex
from skcalib._util.validation import check_count, mean_one, weighted_rows
from skcalib.errors.kernel import ResidualKernel, check_statistic, estimate
from skcalib.regression.reliability import check_moments, check_numbers
from skcalib.significance.kernel import run_test

if TYPE_CHECKING:
    from skcalib.stats.pvalues import CalibrationTest

_SUBSAMPLE = 2000  # forecasts used to choose a bandwidth


@dataclass(frozen=True)
class GaussianPart:
    """Function h of two samples, for the statistics of the kernel calibration error.

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
    mean = check_numbers(y_mean, "y_mean")
    mean = mean[weighted_rows(sample_weight, len(mean))]
    # Kernels depend on differences only: a common shift would lose precision.
    mean = mean - mean.mean()
    place = np.column_stack([mean, np.sqrt(moments.variance)])
    weight, spread = mean_one(moments.weight), moments.variance.mean() + mean.var()
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
    if len(distance) == 0 or distance.max() == 0:
        return 1.0
    return float(np.median(distance) or distance.mean())
