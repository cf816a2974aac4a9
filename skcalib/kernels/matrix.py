"""Kernels whose values are matrices."""

from dataclasses import dataclass

import numpy as np

from skcalib.kernels._base import Kernel, only_matrix


@dataclass(frozen=True)
class MatrixKernel(Kernel):
    r"""A scalar kernel times a fixed positive semi-definite matrix, :math:`k(s, s') M`.

    The matrix says how residuals of different classes count: :math:`h = k(s, s')\, r^\top M r'`
    (W19). The identity, the default, counts all alike; a diagonal matrix weights classes,
    :math:`v v^\top` measures one contrast v only.

    Parameters
    ----------
    kernel : Kernel
        A scalar kernel.
    matrix : array-like of shape (K, K), default=None
        Symmetric and positive semi-definite; None is the identity.

    Examples
    --------
    >>> from skcalib import LaplacianKernel, MatrixKernel
    >>> only_second_class = MatrixKernel(LaplacianKernel(0.4), [[0, 0], [0, 1]])
    >>> only_second_class.bound()
    1.0
    >>> both = only_second_class + 2 * LaplacianKernel(0.4)
    >>> len(both.terms(2))
    2
    """

    kernel: Kernel
    matrix: tuple | None = None

    def __post_init__(self):
        if not isinstance(self.kernel, Kernel):
            raise ValueError(f"kernel must be a scalar Kernel, got {self.kernel!r}.")
        if self.matrix is not None:
            rows = _check_matrix(self.matrix)
            # Tuples, so that kernels can be compared and hashed.
            object.__setattr__(self, "matrix", tuple(map(tuple, rows.tolist())))

    def __call__(self, x, y):
        raise TypeError("The values of a MatrixKernel are matrices: use kernel.terms(n_columns).")

    def bound(self):
        largest = 1.0 if self.matrix is None else np.linalg.eigvalsh(self.matrix)[-1]
        return float(self.kernel.bound() * largest)

    def for_data(self, forecast):
        return MatrixKernel(self.kernel.for_data(forecast), self.matrix)

    def terms(self, n_columns):
        if self.matrix is None:
            return self.kernel.terms(n_columns)
        if len(self.matrix) != n_columns:
            raise ValueError(
                f"The matrix of the kernel has {len(self.matrix)} rows, but forecasts have "
                f"{n_columns} columns (2 for the notions 'classwise' and 'top_label')."
            )
        terms, matrix = self.kernel.terms(n_columns), np.array(self.matrix)
        return tuple((scalar, only_matrix(inner, matrix)) for scalar, inner in terms)


def _check_matrix(matrix):
    """A symmetric positive semi-definite array of floats."""
    rows = np.asarray(matrix, dtype=np.float64)
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
    return rows
