"""Kernels of a distance between forecasts."""

from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np

from skcalib.kernels._base import Kernel
from skcalib.kernels._distances import METRICS

#: Rules for the bandwidth, with whether the distances of points from themselves count.
RULES = {"median": True, "median_pairs": False}
# exp is ten times slower where its result is not a normal number; the difference is nil.
_LOWEST = -700.0
_STEEPEST = 1e300  # one over a bandwidth, or over its square, may overflow


def median_distance(forecast, *, metric="total_variation", rule="median", max_samples=2000):
    r"""Median distance between forecasts, the usual bandwidth of a kernel.

    Parameters
    ----------
    forecast : array-like of shape (n, K)
        Forecasts.
    metric : {"total_variation", "euclidean"}, default="total_variation"
        The distance.
    rule : {"median", "median_pairs"}, default="median"
        "median" is W19's: the median of the full n x n matrix, zero diagonal included;
        "median_pairs" is the median over pairs i < j.
    max_samples : int or None, default=2000
        Of more forecasts a random subset of this size is taken, always the same one in whatever
        order they come; None for all, in O(n^2) memory.

    Returns
    -------
    float
        The median, positive. If more than half of the distances are 0, the median of the
        others, and 1 if all forecasts are equal, where any bandwidth does.

    Raises
    ------
    ValueError
        For forecasts that are no matrix of finite numbers, and unknown metrics and rules.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.kernels import median_distance
    >>> points = np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    >>> median_distance(points), median_distance(points, metric="euclidean", rule="median_pairs")
    (0.5, 0.7071067811865476)
    """
    _check_options(metric, max_samples)
    _check_name(rule, RULES, "rule")
    forecast = np.asarray(forecast)
    if forecast.dtype.kind not in "biuf" or forecast.ndim != 2 or forecast.size == 0:
        raise ValueError(
            f"forecast must hold numbers of shape (n, K), got shape {forecast.shape} of type "
            f"{forecast.dtype}."
        )
    forecast = forecast.astype(np.float64, copy=False)
    if not np.isfinite(forecast).all():
        raise ValueError("forecast contains NaN or infinity: remove these rows first.")
    if max_samples is not None and len(forecast) > max_samples:
        chosen = np.random.default_rng(0).choice(len(forecast), max_samples, replace=False)
        forecast = forecast[_any_order(forecast)[chosen]]
    distances = METRICS[metric].outer(forecast, forecast)
    if not RULES[rule]:
        distances = distances[np.triu_indices(len(forecast), 1)]
    median = np.median(distances) if distances.size else 0.0
    if median == 0:
        positive = distances[distances > 0]
        median = np.median(positive) if positive.size else 1.0
    return float(median)


def _check_name(value, table, name):
    """A key of the table."""
    if not (isinstance(value, str) and value in table):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, table))}, got {value!r}.")


def _check_options(metric, max_samples):
    """What kernels and the rule for their bandwidth have in common."""
    _check_name(metric, METRICS, "metric")
    if max_samples is not None and not (isinstance(max_samples, Integral) and max_samples >= 2):
        raise ValueError(
            f"max_samples must be None or a whole number of at least 2, got {max_samples!r}."
        )


@dataclass(frozen=True)
class DistanceKernel(Kernel):
    """A kernel that is a function of distance over bandwidth; subclasses have defaults."""

    bandwidth: float | str = "median"
    metric: str = "total_variation"
    max_samples: int | None = 2000

    squared = False  # whether `_profile` takes the square of the distance

    def __post_init__(self):
        if not (_is_positive(self.bandwidth) or self._is_rule()):
            names = ", ".join(map(repr, RULES))
            raise ValueError(
                f"bandwidth must be a positive number or one of {names}, got {self.bandwidth!r}."
            )
        _check_options(self.metric, self.max_samples)

    def _is_rule(self):
        return isinstance(self.bandwidth, str) and self.bandwidth in RULES

    def __call__(self, x, y):
        return self._values(METRICS[self.metric].outer, x, y)

    def pairs(self, x, y):
        return self._values(METRICS[self.metric].paired, x, y)

    def bound(self):
        return 1.0

    def for_data(self, forecast):
        if not self._is_rule():
            return self
        arguments = {"metric": self.metric, "max_samples": self.max_samples}
        return replace(self, bandwidth=median_distance(forecast, rule=self.bandwidth, **arguments))

    def _values(self, distance, x, y):
        if self._is_rule():
            raise ValueError(
                f"The bandwidth of {self!r} depends on data: use kernel.for_data(forecast) first."
            )
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self._check_columns(x.shape[-1])
        values = np.asarray(distance(x, y, squared=self.squared))
        values *= max(self._slope(), -_STEEPEST)
        np.maximum(values, _LOWEST, out=values)
        return np.exp(values, out=values)

    def _check_columns(self, n_columns):
        """Refuse where the function is not positive semi-definite."""

    def _slope(self):
        raise NotImplementedError


@dataclass(frozen=True)
class LaplacianKernel(DistanceKernel):
    r"""The Laplacian kernel :math:`\exp(-d(s, s') / \nu)`, W19's.

    Values lie in (0, 1]. Positive semi-definite for both metrics and characteristic: the kernel
    calibration error is zero for calibrated forecasts only.

    Parameters
    ----------
    bandwidth : float or {"median", "median_pairs"}, default="median"
        The bandwidth :math:`\nu`, in units of the distance; or a rule that
        :meth:`~skcalib.Kernel.for_data` applies to the forecasts, see
        :func:`skcalib.kernels.median_distance`.
    metric : {"total_variation", "euclidean"}, default="total_variation"
        Half of the sum of absolute differences, or the Euclidean distance.
    max_samples : int or None, default=2000
        Number of forecasts that a rule uses; None for all.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import LaplacianKernel
    >>> LaplacianKernel(bandwidth=0.5)(np.eye(2), np.eye(2)).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    >>> LaplacianKernel().for_data(np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])).bandwidth
    0.5
    """

    def _slope(self):
        return -1 / self.bandwidth


@dataclass(frozen=True)
class GaussianKernel(DistanceKernel):
    r"""The Gaussian kernel :math:`\exp(-d(s, s')^2 / (2 \nu^2))`.

    Values lie in (0, 1]. It is smoother than the Laplacian kernel, with more power against broad
    errors and less against narrow ones.

    Parameters
    ----------
    bandwidth : float or {"median", "median_pairs"}, default="median"
        The bandwidth :math:`\nu`, as for :class:`LaplacianKernel`.
    metric : {"euclidean", "total_variation"}, default="euclidean"
        The distance. With total variation this is no positive semi-definite function for more
        than two classes, and is refused there.
    max_samples : int or None, default=2000
        Number of forecasts that a rule uses; None for all.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import GaussianKernel
    >>> GaussianKernel(bandwidth=1.0)(np.eye(2), np.eye(2)).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    metric: str = "euclidean"

    squared = True

    def _slope(self):
        return -0.5 / self.bandwidth / self.bandwidth

    def _check_columns(self, n_columns):
        if n_columns > 2 and self.metric == "total_variation":
            raise ValueError(
                "GaussianKernel(metric='total_variation') is not positive semi-definite for more "
                "than two classes: use metric='euclidean', or LaplacianKernel."
            )


def _any_order(forecast):
    """An order of the rows that does not depend on the order in which they come.

    It is that of their bytes, which has no meaning, and costs one sort for any number of columns.
    """
    rows = np.ascontiguousarray(forecast + 0.0)  # there is one zero
    return np.argsort(rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel())


def _is_positive(value):
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and 0 < value < np.inf


#: Names at the door; objects inside.
KERNELS = {"laplacian": LaplacianKernel, "gaussian": GaussianKernel}
