"""The protocol of kernels, and what sums, products and multiples of kernels are."""

from dataclasses import dataclass
from itertools import product
from numbers import Real

import numpy as np


class Kernel:
    r"""Base class of positive semi-definite kernels on the simplex.

    A scalar kernel implements `__call__` and `bound`, and `for_data` if it has something to learn
    from forecasts. Kernels are values: nothing ever changes them. They are combined by
    ``2 * k``, ``k1 + k2`` and ``k1 * k2``, all of which are kernels again.

    In a kernel calibration error (W19) a kernel has matrices as values: a scalar kernel k stands
    for k times the identity, and :class:`MatrixKernel` for other matrices.

    See Also
    --------
    skcalib.testing.check_kernel : The laws that every kernel obeys.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import GaussianKernel, LaplacianKernel
    >>> kernel = 0.5 * LaplacianKernel(1.0) + GaussianKernel(0.2)
    >>> kernel(np.eye(2), np.eye(2)).round(4)
    array([[1.5   , 0.1839],
           [0.1839, 1.5   ]])
    >>> kernel.bound()
    1.5
    """

    def __call__(self, x, y):
        """Values for all pairs of the rows of x (n, K) and y (m, K), shape (n, m)."""
        raise NotImplementedError

    def pairs(self, x, y):
        """Values for points that belong together.

        Parameters
        ----------
        x, y : ndarray of shape (..., K)
            Points; the shapes broadcast.

        Returns
        -------
        ndarray of shape (...)
            The kernel of each point with its partner.
        """
        x, y = np.broadcast_arrays(x, y)
        rows = zip(x.reshape(-1, 1, x.shape[-1]), y.reshape(-1, 1, y.shape[-1]), strict=True)
        return np.array([self(a, b)[0, 0] for a, b in rows]).reshape(x.shape[:-1])

    def bound(self):
        """A bound of the values over the simplex, of matrices of their largest eigenvalues.

        Returns
        -------
        float
            An upper bound, the largest value itself for scalar kernels of this library.
        """
        raise NotImplementedError

    def for_data(self, forecast):
        """The kernel with everything that it learns from forecasts, such as a bandwidth, in place.

        Parameters
        ----------
        forecast : ndarray of shape (n, K)
            Forecasts.

        Returns
        -------
        Kernel
            A new kernel, or this one if it has nothing to learn.
        """
        return self

    def terms(self, n_columns):
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

    def __add__(self, other):
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other):
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, float(other)) if isinstance(other, Real) else NotImplemented

    __rmul__ = __mul__


@dataclass(frozen=True)
class Scaled(Kernel):
    """A multiple of a kernel."""

    kernel: Kernel
    factor: float

    def __post_init__(self):
        if not (np.isfinite(self.factor) and self.factor >= 0):
            raise ValueError(
                f"A kernel may be multiplied by a finite number of at least 0, got {self.factor!r}:"
                " a negative multiple is not positive semi-definite."
            )

    def __call__(self, x, y):
        return self.factor * self.kernel(x, y)

    def pairs(self, x, y):
        return self.factor * self.kernel.pairs(x, y)

    def bound(self):
        return self.factor * self.kernel.bound()

    def for_data(self, forecast):
        return Scaled(self.kernel.for_data(forecast), self.factor)

    def terms(self, n_columns):
        terms = self.kernel.terms(n_columns)
        return tuple((Scaled(kernel, self.factor), matrix) for kernel, matrix in terms)


@dataclass(frozen=True)
class Sum(Kernel):
    """The sum of two kernels."""

    left: Kernel
    right: Kernel

    def __call__(self, x, y):
        return self.left(x, y) + self.right(x, y)

    def pairs(self, x, y):
        return self.left.pairs(x, y) + self.right.pairs(x, y)

    def bound(self):
        return self.left.bound() + self.right.bound()

    def for_data(self, forecast):
        return Sum(self.left.for_data(forecast), self.right.for_data(forecast))

    def terms(self, n_columns):
        return self.left.terms(n_columns) + self.right.terms(n_columns)


@dataclass(frozen=True)
class Product(Kernel):
    """The product of two kernels, at most one of which has matrices as values."""

    left: Kernel
    right: Kernel

    def __call__(self, x, y):
        return self.left(x, y) * self.right(x, y)

    def pairs(self, x, y):
        return self.left.pairs(x, y) * self.right.pairs(x, y)

    def bound(self):
        return self.left.bound() * self.right.bound()

    def for_data(self, forecast):
        return Product(self.left.for_data(forecast), self.right.for_data(forecast))

    def terms(self, n_columns):
        pairs = product(self.left.terms(n_columns), self.right.terms(n_columns))
        return tuple((Product(k1, k2), only_matrix(m1, m2)) for (k1, m1), (k2, m2) in pairs)


def only_matrix(left, right):
    """The matrix of a product of which one factor is a multiple of the identity."""
    if left is not None and right is not None:
        raise ValueError(
            "The product of two matrix-valued kernels need not be a kernel: multiply scalar "
            "kernels, MatrixKernel(k1 * k2, matrix)."
        )
    return right if left is None else left
