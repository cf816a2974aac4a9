"""Kernels on the simplex, which can be scaled, added and multiplied.

`Kernel` is the base class. Multiples, sums and products of kernels are kernels. `MatrixKernel` has
matrices as values. `LaplacianKernel` and `GaussianKernel` are functions of a distance between
forecasts; `median_distance` chooses their bandwidth. The distances come last.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from itertools import product
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.spatial.distance import cdist, pdist

from skcalib._util.messages import is_finite, is_whole, shown
from skcalib._util.sizes import SIZES
from skcalib._util.types import ArrayLike
from skcalib._util.validation import look_up

__all__ = [
    "KERNELS",
    "GaussianKernel",
    "Kernel",
    "LaplacianKernel",
    "MatrixKernel",
    "median_distance",
]


class Kernel:
    r"""Base class of positive semi-definite kernels on the simplex.

    A scalar kernel implements `__call__` and `bound`, and `for_data` if it has parameters that
    depend on forecasts. Kernels are immutable. They are combined by ``2 * k``, ``k1 + k2`` and
    ``k1 * k2``, which are kernels again.

    In a kernel calibration error (W19) kernels are matrix-valued. A scalar kernel k stands for k
    times the identity. Use :class:`~skcalib.kernels.MatrixKernel` for other matrices.

    See Also
    --------
    skcalib.testing.check_kernel : Checks the laws of kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.kernels import GaussianKernel, LaplacianKernel
    >>> kernel = 0.5 * LaplacianKernel(1.0) + GaussianKernel(0.2)
    >>> kernel(np.eye(2), np.eye(2)).round(4)
    array([[1.5   , 0.1839],
           [0.1839, 1.5   ]])
    >>> kernel.bound()
    1.5
    """

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Values for all pairs of the rows of x (n, K) and y (m, K), shape (n, m)."""
        raise NotImplementedError

    def pairs(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Values for corresponding points.

        Parameters
        ----------
        x, y : ndarray of shape (..., K)
            Points; the shapes broadcast.

        Returns
        -------
        ndarray of shape (...)
            The kernel of each pair of points.
        """
        x, y = np.broadcast_arrays(x, y)
        rows = zip(x.reshape(-1, 1, x.shape[-1]), y.reshape(-1, 1, y.shape[-1]), strict=True)
        return np.array([self(a, b)[0, 0] for a, b in rows]).reshape(x.shape[:-1])

    def bound(self) -> float:
        """A bound of the values over the simplex; for matrices, of their largest eigenvalues.

        Returns
        -------
        float
            An upper bound. For scalar kernels of this library it is the largest value.
        """
        raise NotImplementedError

    def for_data(self, forecast: np.ndarray) -> Kernel:
        """The kernel with parameters chosen from forecasts, such as a bandwidth.

        Parameters
        ----------
        forecast : ndarray of shape (n, K)
            Forecasts.

        Returns
        -------
        Kernel
            A new kernel, or this one if it has no such parameters.
        """
        return self

    def terms(self, n_columns: int) -> tuple[tuple[Kernel, np.ndarray | None], ...]:
        r"""The kernel as a sum of scalar kernels times matrices, :math:`\sum_t k_t(s, s') M_t`.

        Parameters
        ----------
        n_columns : int
            Number of columns K of the forecasts.

        Returns
        -------
        tuple of (Kernel, ndarray of shape (K, K) or None)
            Scalar kernels and matrices; None is the identity.
        """
        return ((self, None),)

    def __add__(self, kernel: Kernel) -> Kernel:
        return Sum(self, kernel) if isinstance(kernel, Kernel) else NotImplemented

    def __mul__(self, factor: Kernel | float) -> Kernel:
        if isinstance(factor, Kernel):
            return Product(self, factor)
        return Scaled(self, float(factor)) if isinstance(factor, Real) else NotImplemented

    __rmul__ = __mul__


# --- Multiples, sums and products -----------------------------------------------------------------


@dataclass(frozen=True)
class Scaled(Kernel):
    """A multiple of a kernel."""

    kernel: Kernel
    factor: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.factor) and self.factor >= 0):
            raise ValueError(
                f"A kernel may be multiplied by a finite number of at least 0, got "
                f"{shown(self.factor)}: a negative multiple is not positive semi-definite."
            )

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.factor * self.kernel(x, y)

    def pairs(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.factor * self.kernel.pairs(x, y)

    def bound(self) -> float:
        return self.factor * self.kernel.bound()

    def for_data(self, forecast: np.ndarray) -> Kernel:
        return Scaled(self.kernel.for_data(forecast), self.factor)

    def terms(self, n_columns: int) -> tuple[tuple[Kernel, np.ndarray | None], ...]:
        terms = self.kernel.terms(n_columns)
        return tuple((Scaled(kernel, self.factor), matrix) for kernel, matrix in terms)


@dataclass(frozen=True)
class Combination(Kernel):
    """Two kernels, whose values are combined by `combine`."""

    left: Kernel
    right: Kernel

    combine = staticmethod(operator.add)

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.combine(self.left(x, y), self.right(x, y))

    def pairs(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.combine(self.left.pairs(x, y), self.right.pairs(x, y))

    def bound(self) -> float:
        return self.combine(self.left.bound(), self.right.bound())

    def for_data(self, forecast: np.ndarray) -> Kernel:
        return type(self)(self.left.for_data(forecast), self.right.for_data(forecast))


@dataclass(frozen=True)
class Sum(Combination):
    """The sum of two kernels."""

    def terms(self, n_columns: int) -> tuple[tuple[Kernel, np.ndarray | None], ...]:
        return self.left.terms(n_columns) + self.right.terms(n_columns)


@dataclass(frozen=True)
class Product(Combination):
    """The product of two kernels, at most one of which has matrices as values."""

    combine = staticmethod(operator.mul)

    def terms(self, n_columns: int) -> tuple[tuple[Kernel, np.ndarray | None], ...]:
        pairs = product(self.left.terms(n_columns), self.right.terms(n_columns))
        return tuple((Product(k1, k2), only_matrix(m1, m2)) for (k1, m1), (k2, m2) in pairs)


def only_matrix(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray | None:
    """The matrix of a product; one of the two factors must be scalar."""
    if left is not None and right is not None:
        raise ValueError(
            "The product of two matrix-valued kernels need not be a kernel: multiply scalar "
            "kernels, MatrixKernel(k1 * k2, matrix)."
        )
    return right if left is None else left


# --- Matrix-valued kernels ------------------------------------------------------------------------


@dataclass(frozen=True)
class MatrixKernel(Kernel):
    r"""A scalar kernel times a fixed positive semi-definite matrix, :math:`k(s, s') M`.

    The matrix weights the residuals of different classes: :math:`h = k(s, s')\, r^\top M r'` (W19).
    The identity, the default, weights all classes equally. A diagonal matrix gives each class its
    own weight, and :math:`v v^\top` measures only the contrast v.

    Parameters
    ----------
    kernel : Kernel
        A scalar kernel.
    matrix : array-like of shape (K, K), default=None
        Symmetric and positive semi-definite; None is the identity.

    See Also
    --------
    skcalib.kernels.LaplacianKernel : A scalar kernel.
    skcalib.kernel_calibration_error : The error of a kernel.

    Examples
    --------
    >>> from skcalib.kernels import LaplacianKernel, MatrixKernel
    >>> only_second_class = MatrixKernel(LaplacianKernel(0.4), [[0, 0], [0, 1]])
    >>> only_second_class.bound()
    1.0
    >>> both = only_second_class + 2 * LaplacianKernel(0.4)
    >>> len(both.terms(2))
    2
    """

    kernel: Kernel
    matrix: Any = None  # array-like; rows as tuples once it is set

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise ValueError(f"kernel must be a scalar Kernel, got {shown(self.kernel)}.")
        if self.matrix is None:
            return
        rows = np.asarray(self.matrix, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[0] != rows.shape[1] or not np.isfinite(rows).all():
            raise ValueError(f"matrix must be finite and square, got shape {rows.shape}.")
        scale = np.abs(rows).max()
        if np.abs(rows - rows.T).max() > 1e-12 * scale:
            raise ValueError("matrix must be symmetric.")
        rows = (rows + rows.T) / 2
        lowest = np.linalg.eigvalsh(rows)[0]
        if lowest < -1e-10 * scale:
            raise ValueError(
                f"matrix must be positive semi-definite, but has the eigenvalue {lowest:.3g}."
            )
        # Tuples make kernels comparable and hashable.
        object.__setattr__(self, "matrix", tuple(map(tuple, rows.tolist())))

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        raise TypeError("The values of a MatrixKernel are matrices: use kernel.terms(n_columns).")

    def bound(self) -> float:
        largest = 1.0 if self.matrix is None else np.linalg.eigvalsh(self.matrix)[-1]
        return float(self.kernel.bound() * largest)

    def for_data(self, forecast: np.ndarray) -> Kernel:
        return MatrixKernel(self.kernel.for_data(forecast), self.matrix)

    def terms(self, n_columns: int) -> tuple[tuple[Kernel, np.ndarray | None], ...]:
        if self.matrix is None:
            return self.kernel.terms(n_columns)
        if len(self.matrix) != n_columns:
            raise ValueError(
                f"The matrix of the kernel has {len(self.matrix)} rows, but forecasts have "
                f"{n_columns} columns (2 for the notions 'classwise' and 'top_label')."
            )
        terms, matrix = self.kernel.terms(n_columns), np.array(self.matrix)
        return tuple((scalar, only_matrix(inner, matrix)) for scalar, inner in terms)


# --- Kernels of a distance ------------------------------------------------------------------------


METRICS = ("total_variation", "euclidean")
#: Rules for the bandwidth, and whether each includes the distances of points from themselves.
RULES = {"median": True, "median_pairs": False}
# exp is ten times slower if its result is subnormal; such values are negligible.
_LOWEST = -700.0
_STEEPEST = 1e300  # bound of 1 / bandwidth or of its square, which may overflow


def median_distance(
    forecast: ArrayLike,
    *,
    metric: Literal["total_variation", "euclidean"] = "total_variation",
    rule: Literal["median", "median_pairs"] = "median",
    max_samples: int | None = 2000,
) -> float:
    r"""Median distance between forecasts, the usual bandwidth of a kernel.

    Parameters
    ----------
    forecast : array-like of shape (n, K)
        Forecasts.
    metric : {"total_variation", "euclidean"}, default="total_variation"
        The distance.
    rule : {"median", "median_pairs"}, default="median"
        "median" is the median of the full n x n matrix, with its zero diagonal, as in W19.
        "median_pairs" is the median over pairs i < j.
    max_samples : int or None, default=2000
        If there are more forecasts, a random subset of this size is used, which does not depend on
        their order. None uses all, in O(n^2) memory.

    Returns
    -------
    float
        The median, or the median of the positive distances if it is 0. If all forecasts are equal,
        1, because any bandwidth gives the same result.

    Raises
    ------
    ValueError
        For forecasts that are not a matrix of finite numbers, and unknown metrics and rules.

    See Also
    --------
    skcalib.kernels.LaplacianKernel : Uses it with ``bandwidth="median"``.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.kernels import median_distance
    >>> points = np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    >>> median_distance(points), median_distance(points, metric="euclidean", rule="median_pairs")
    (0.5, 0.7071067811865476)
    """
    _check_options(metric, max_samples)
    look_up(rule, RULES, "rule")
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
        forecast = forecast[any_order(forecast)[chosen]]
    if metric == "total_variation":
        pairs = pdist(forecast, "cityblock")
        pairs *= 0.5
    elif forecast.shape[1] < SIZES.product_columns:
        pairs = pdist(forecast)
    else:
        pairs = distances(forecast, forecast, metric)[np.tri(len(forecast), k=-1, dtype=bool)]
    median = 0.0
    if pairs.size:  # the places of the middle ones of some zeros and of the pairs, repeated
        n_zeros, repeats = (len(forecast), 2) if RULES[rule] else (0, 1)
        size = n_zeros + repeats * len(pairs)
        places = (np.array([(size - 1) // 2, size // 2]) - n_zeros) // repeats
        pairs.partition(np.maximum(places, 0))
        median = np.where(places < 0, 0.0, pairs[places]).mean()
    if median == 0:
        positive = pairs[pairs > 0]
        median = np.median(positive) if positive.size else 1.0
    return float(median)


def any_order(forecast: np.ndarray) -> np.ndarray:
    """A sorting order of the rows of nonnegative numbers, the same for any permutation of them.

    Rows are sorted by their bytes, the highest first, in one sort for any number of columns.
    """
    rows = np.ascontiguousarray(forecast + 0.0, dtype=">f8")  # -0.0 becomes 0.0
    return np.argsort(rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel())


def _check_options(metric, max_samples):
    """Validate the options that kernels and `median_distance` share."""
    look_up(metric, METRICS, "metric")
    if max_samples is not None and not (is_whole(max_samples) and max_samples >= 2):
        raise ValueError(
            f"max_samples must be None or a whole number of at least 2, got {shown(max_samples)}."
        )


@dataclass(frozen=True)
class DistanceKernel(Kernel):
    """A kernel that is a function of distance over bandwidth."""

    bandwidth: float | Literal["median", "median_pairs"] = "median"
    metric: Literal["total_variation", "euclidean"] = "total_variation"
    max_samples: int | None = 2000

    squared = False  # whether the exponent has the square of the distance

    def __post_init__(self) -> None:
        bandwidth: Any = self.bandwidth
        if not self._is_rule():
            if not (is_finite(bandwidth) and bandwidth > 0):
                names = ", ".join(map(repr, RULES))
                raise ValueError(
                    f"bandwidth must be a positive number or one of {names}, got "
                    f"{shown(bandwidth)}."
                )
            object.__setattr__(self, "bandwidth", float(bandwidth))
        _check_options(self.metric, self.max_samples)

    def _is_rule(self):
        return isinstance(self.bandwidth, str) and self.bandwidth in RULES

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self._values(x, y, paired=False)

    def pairs(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self._values(x, y, paired=True)

    def bound(self) -> float:
        return 1.0

    def for_data(self, forecast: np.ndarray) -> DistanceKernel:
        if not self._is_rule():
            return self
        rule: Any = self.bandwidth
        bandwidth = median_distance(
            forecast, metric=self.metric, rule=rule, max_samples=self.max_samples
        )
        return replace(self, bandwidth=bandwidth)

    def _values(self, x, y, *, paired):
        if self._is_rule():
            raise ValueError(
                f"The bandwidth of {self!r} depends on data: use kernel.for_data(forecast) first."
            )
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if self.squared and self.metric == "total_variation" and x.shape[-1] > 2:
            raise ValueError(
                "GaussianKernel(metric='total_variation') is not positive semi-definite for more "
                "than two classes: use metric='euclidean', or LaplacianKernel."
            )
        bandwidth: Any = self.bandwidth
        slope = -0.5 / bandwidth / bandwidth if self.squared else -1 / bandwidth
        values = np.asarray(distances(x, y, self.metric, squared=self.squared, paired=paired))
        values *= max(slope, -_STEEPEST)
        if values.min(initial=0.0) < _LOWEST:
            np.maximum(values, _LOWEST, out=values)
        return np.exp(values, out=values)


@dataclass(frozen=True)
class LaplacianKernel(DistanceKernel):
    r"""The Laplacian kernel :math:`\exp(-d(s, s') / \nu)`, used by W19.

    Values lie in (0, 1]. The kernel is positive semi-definite for both metrics, and characteristic:
    the kernel calibration error is zero for calibrated forecasts only.

    Parameters
    ----------
    bandwidth : float or {"median", "median_pairs"}, default="median"
        The bandwidth :math:`\nu`, in units of the distance; or a rule that
        :meth:`~skcalib.kernels.Kernel.for_data` applies to the forecasts, see
        :func:`skcalib.kernels.median_distance`.
    metric : {"total_variation", "euclidean"}, default="total_variation"
        Half of the sum of absolute differences, or the Euclidean distance.
    max_samples : int or None, default=2000
        Number of forecasts that a rule uses; None for all.

    See Also
    --------
    skcalib.kernels.GaussianKernel : The squared distance in the exponent.
    skcalib.kernel_calibration_error : The error of a kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.kernels import LaplacianKernel
    >>> LaplacianKernel(bandwidth=0.5)(np.eye(2), np.eye(2)).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    >>> LaplacianKernel().for_data(np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])).bandwidth
    0.5
    """


@dataclass(frozen=True)
class GaussianKernel(DistanceKernel):
    r"""The Gaussian kernel :math:`\exp(-d(s, s')^2 / (2 \nu^2))`.

    Values lie in (0, 1]. It is smoother than the Laplacian kernel, with more power against broad
    errors and less against narrow ones.

    Parameters
    ----------
    bandwidth : float or {"median", "median_pairs"}, default="median"
        The bandwidth :math:`\nu`, as for :class:`~skcalib.kernels.LaplacianKernel`.
    metric : {"euclidean", "total_variation"}, default="euclidean"
        The distance. Total variation is allowed for two classes only, because the kernel is not
        positive semi-definite for more.
    max_samples : int or None, default=2000
        Number of forecasts that a rule uses; None for all.

    See Also
    --------
    skcalib.kernel_calibration_error : The error of a kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib.kernels import GaussianKernel
    >>> GaussianKernel(bandwidth=1.0)(np.eye(2), np.eye(2)).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    metric: Literal["total_variation", "euclidean"] = "euclidean"

    squared = True


#: Kernels by the names that arguments accept.
KERNELS = {"laplacian": LaplacianKernel, "gaussian": GaussianKernel}


# --- Distances ------------------------------------------------------------------------------------


# Squared distances from a product have an absolute error of about 1e-16. Below this value the error
# of the distance itself would exceed 1e-14, so these are computed again from the differences.
_NEAR = 1e-4
_MANY = 1 / 16  # with a larger share of near pairs, all are computed from the differences


def distances(
    x: np.ndarray, y: np.ndarray, metric: str, *, squared: bool = False, paired: bool = False
) -> np.ndarray:
    """Distances of all pairs of the rows of x (n, K) and y (m, K), shape (n, m).

    Or, with `paired`, those of points (..., K) from their partners, shape (...). Total variation is
    half of the sum of absolute differences, between 0 and 1; the Euclidean distance is between 0
    and the root of 2.
    """
    if metric == "euclidean":
        squares = np.square(x - y).sum(axis=-1) if paired else _squared_euclidean(x, y)
        return squares if squared else np.sqrt(squares, out=None if paired else squares)
    values = np.abs(x - y).sum(axis=-1) if paired else cdist(x, y, "cityblock")
    values *= 0.5
    return np.square(values, out=None if paired else values) if squared else values


def _squared_euclidean(x, y):
    r"""One product of :math:`[-2x, \|x\|^2, 1]` and :math:`[y, 1, \|y\|^2]`, corrected if near."""
    if x.shape[1] < SIZES.product_columns:
        return cdist(x, y, "sqeuclidean")
    left = np.column_stack([-2 * x, np.square(x).sum(axis=1), np.ones(len(x))])
    right = np.column_stack([y, np.ones(len(y)), np.square(y).sum(axis=1)])
    squares = left @ right.T
    near = np.flatnonzero(squares < _NEAR)
    if len(near) > _MANY * squares.size:
        return cdist(x, y, "sqeuclidean")
    i, j = np.divmod(near, len(y))
    squares.flat[near] = np.square(x[i] - y[j]).sum(axis=1)
    return squares


KernelLike: TypeAlias = Literal["laplacian", "gaussian"] | Kernel | None
