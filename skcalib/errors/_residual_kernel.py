r"""The function h of two samples that every kernel calibration error and test is made of (W19).

.. math::

    h_{ij} = w_i w_j\, (y_i - S_i)^\top k(S_i, S_j) (y_j - S_j),

with weights of mean one. A notion with several problems has the mean (or sum) of their h, which is
a function of the same kind. Estimators and tests are patterns of indices (i, j) over h; they never
see kernels or notions. Matrices of h are made in blocks and given up again: sums take O(n^2 K)
time and O(n K) memory.
"""

from dataclasses import dataclass, replace
from math import fsum

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

_SIDE = 256  # rows and columns of a block: half a megabyte, which stays in the cache
_TASK = 16  # blocks that a thread takes at a time
_PAIRS = 1 << 14  # pairs of samples at a time


@dataclass(frozen=True)
class Part:
    """One scalar kernel of one problem: `left` is the residual times matrix and share."""

    kernel: object
    forecast: np.ndarray
    left: np.ndarray
    residual: np.ndarray

    def take(self, rows):
        """The part with some of its samples."""
        arrays = {name: getattr(self, name)[rows] for name in ("forecast", "left", "residual")}
        return replace(self, **arrays)

    def sum(self, i, j):
        """Sum of h over a block: the kernel times residuals needs no matrix of products."""
        kernel = self.kernel(self.forecast[i], self.forecast[j])
        return float(np.vdot(self.left[i], kernel @ self.residual[j]))

    def block(self, i, j):
        """Values of h in a block."""
        kernel = self.kernel(self.forecast[i], self.forecast[j])
        return kernel * (self.left[i] @ self.residual[j].T)

    def pairs(self, i, j):
        """Values of h for samples i[m] and j[m]."""
        kernel = self.kernel.pairs(self.forecast[i], self.forecast[j])
        return kernel * np.einsum("...k,...k->...", self.left[i], self.residual[j])


class ResidualKernel:
    """The function h of a sample, as a sum of parts.

    Parameters
    ----------
    parts : sequence of Part
        Scalar kernels with their residuals.
    weight : ndarray of shape (n,)
        Weights of mean one, which the residuals contain.
    n_problems : int
        Number of problems of the notion.
    n_jobs : int or None
        Number of threads.
    """

    def __init__(self, parts, weight, n_problems=1, n_jobs=None):
        self.parts, self.weight = tuple(parts), weight
        self.n_problems, self.n_jobs = n_problems, n_jobs

    @classmethod
    def of_problem(cls, problem, kernel, notion, n_jobs=None):
        """Arguments of a public function, validated -> the function h."""
        weight = problem.weight / problem.weight.mean()
        problems = list(notion.problems(problem.forecast, problem.target))
        share = 1 / len(problems) if notion.reduce == "mean" else 1.0
        parts = []
        for forecast, target in problems:
            residual = weight[:, None] * (target - forecast)
            for scalar, matrix in kernel.for_data(forecast).terms(forecast.shape[1]):
                left = share * (residual if matrix is None else residual @ matrix)
                parts.append(Part(scalar, forecast, left, residual))
        return cls(parts, weight, len(problems), n_jobs)

    def __len__(self):
        return len(self.weight)

    def take(self, rows):
        """The function h of some of the samples."""
        parts = [part.take(rows) for part in self.parts]
        return ResidualKernel(parts, self.weight[rows], self.n_problems, self.n_jobs)

    def pairs(self, i, j):
        """Values of h for samples i[m] and j[m], in arrays of any equal shape."""
        flat_i, flat_j = np.ravel(i), np.ravel(j)
        values = np.empty(len(flat_i))
        for start in range(0, len(flat_i), _PAIRS):
            some = slice(start, start + _PAIRS)
            values[some] = sum(part.pairs(flat_i[some], flat_j[some]) for part in self.parts)
        return values.reshape(np.shape(i))

    def diagonal(self):
        """Values h(i, i), shape (n,)."""
        rows = np.arange(len(self))
        return self.pairs(rows, rows)

    def matrix(self):
        """All values, shape (n, n)."""
        values = np.empty((len(self), len(self)))
        for i, j in _upper_blocks(len(self)):
            values[i, j] = sum(part.block(i, j) for part in self.parts)
            values[j, i] = values[i, j].T
        return values

    def total(self):
        """Sum of h over all pairs, the diagonal included."""
        blocks = _upper_blocks(len(self))
        tasks = [blocks[start : start + _TASK] for start in range(0, len(blocks), _TASK)]
        return fsum(self._in_threads(self._sum_blocks, tasks))

    def multiply(self, columns):
        """The product H v for each column v of (n, R), in memory O(n R)."""
        strips = _slices(len(self))
        products = self._in_threads(self._multiply_strip, strips, columns, strips)
        return np.concatenate(products)

    def _sum_block(self, i, j):
        return (1 if i == j else 2) * sum(part.sum(i, j) for part in self.parts)

    def _sum_blocks(self, blocks):
        return fsum(self._sum_block(i, j) for i, j in blocks)

    def _multiply_strip(self, i, columns, strips):
        return sum(part.block(i, j) @ columns[j] for j in strips for part in self.parts)

    def _in_threads(self, run, tasks, *arguments):
        """Results of tasks in their order; they do not depend on the number of threads."""
        if len(tasks) == 1:
            return [run(tasks[0], *arguments)]
        # Products this small gain nothing from several threads; blocks do.
        with threadpool_limits(1, user_api="blas"):
            return Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(run)(task, *arguments) for task in tasks
            )


def _slices(n_samples):
    return [slice(i, min(i + _SIDE, n_samples)) for i in range(0, n_samples, _SIDE)]


def _upper_blocks(n_samples):
    slices = _slices(n_samples)
    return [(i, j) for a, i in enumerate(slices) for j in slices[a:]]
