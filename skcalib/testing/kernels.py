"""Laws of kernels on the simplex."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skcalib.kernels import Kernel
from skcalib.testing._laws import checker, duplicate, need, need_close, run_laws, simplex_points


@checker
def check_kernel(
    kernel: Kernel, *, n_classes: Sequence[int] = (2, 3, 5), random_state: int = 0
) -> None:
    r"""Check that an object satisfies the laws of kernels on the simplex.

    The laws, for forecasts that are spread out, tied, near corners and at corners:

    - it is a `Kernel` and equals its pickled copies;
    - ``for_data`` returns a kernel without parameters left to estimate, and does not change the
      kernel itself;
    - shapes: (n, K) and (m, K) go to (n, m); ``pairs`` has the same values for corresponding
      points; inputs are not modified;
    - symmetric: :math:`k(s, s') = k(s', s)^\top`;
    - positive semi-definite: the matrix of all values at any points, up to rounding;
    - bounded: no value, and no eigenvalue of a matrix value, exceeds ``bound()``.

    Parameters
    ----------
    kernel : Kernel
        Instance to check.
    n_classes : sequence of int, default=(2, 3, 5)
        Numbers of classes to try. A kernel with a fixed matrix has one.

    See Also
    --------
    skcalib.kernels.Kernel : The base class.

    Examples
    --------
    >>> from skcalib.kernels import GaussianKernel, LaplacianKernel
    >>> from skcalib.testing import check_kernel
    >>> check_kernel(2 * LaplacianKernel() + GaussianKernel(0.1))
    """
    run_laws(kernel, [_is_a_kernel])
    for k in n_classes:
        rng = np.random.default_rng(random_state)
        points = np.vstack([simplex_points(rng, 36, k), np.eye(k)])
        run_laws(kernel, LAWS, np.vstack([points, points[::5]]))


def _is_a_kernel(kernel):
    """It is a Kernel that equals its copies."""
    need(isinstance(kernel, Kernel), "an instance that derives from Kernel is needed")
    need(duplicate(kernel) == kernel, "a copy, as made by pickle, is not equal to it")
    bound = kernel.bound()
    need(isinstance(bound, float) and 0 <= bound < np.inf, f"bound() is {bound!r}")


def _learns_once(kernel, points):
    """for_data returns a kernel without parameters left to estimate, and changes nothing."""
    before = duplicate(kernel)
    copy = points.copy()
    learned = kernel.for_data(points)
    need(kernel == before, "the kernel was changed")
    need(np.array_equal(points, copy), "the forecasts were modified")
    need(isinstance(learned, Kernel), f"a Kernel is needed, got {learned!r}")
    need(learned.for_data(points[:3]) == learned, "what was learned changes with other forecasts")


def _values(kernel, points):
    """Matrices of all scalar terms at the points, each with its matrix."""
    n_columns = points.shape[1]
    terms = kernel.for_data(points).terms(n_columns)
    identity = np.eye(n_columns)
    return [(term, identity if matrix is None else matrix) for term, matrix in terms]


def _shapes(kernel, points):
    """Shapes are (n, m), pairs agree with them, and inputs are not modified."""
    x, y = points.copy(), points[3:10].copy()
    for term, matrix in _values(kernel, points):
        values = term(x, y)
        need(np.shape(values) == (len(x), 7), f"the shape is {np.shape(values)}")
        need(np.isfinite(values), "a value is not finite")
        pairs = term.pairs(x[:, None], y[None])
        need_close(pairs, values, "pairs(x, y) against k(x, y)", tolerance=1e-11)
        k = points.shape[1]
        need(np.shape(matrix) == (k, k), f"a matrix of shape {np.shape(matrix)} for {k} columns")
    need(np.array_equal(x, points) and np.array_equal(y, points[3:10]), "an input was modified")


def _symmetric(kernel, points):
    """Values are symmetric."""
    some = points[:9]
    for term, matrix in _values(kernel, points):
        need_close(term(some, points), term(points, some).T, "k(s, s')", tolerance=1e-12)
        need_close(matrix, matrix.T, "the matrix and its transpose", tolerance=1e-12)


def _positive(kernel, points):
    """The matrix of all values is positive semi-definite."""
    total = sum(np.kron(term(points, points), matrix) for term, matrix in _values(kernel, points))
    values = np.linalg.eigvalsh((total + total.T) / 2)
    violation = f"an eigenvalue of {values[0]:.3g} next to {values[-1]:.3g}"
    need(values[0] >= -1e-9 * max(values[-1], 1e-300), violation)


def _bounded(kernel, points):
    """Values are bounded by bound()."""
    terms, bound = _values(kernel, points), kernel.bound()
    for x in points:
        here = sum(term(x[None], x[None])[0, 0] * matrix for term, matrix in terms)
        largest = np.linalg.norm(here, 2)
        need(largest <= bound * (1 + 1e-9), f"{largest:.6g} exceeds the bound {bound:.6g}")


LAWS = (_learns_once, _shapes, _symmetric, _positive, _bounded)
