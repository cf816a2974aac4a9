"""Kernels on the simplex: laws, values, bandwidths, composition, refusals."""

import pickle
from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from skcalib import GaussianKernel, Kernel, LaplacianKernel, MatrixKernel
from skcalib.kernels import median_distance
from skcalib.testing import check_kernel

SEMI_DEFINITE = [[2.0, -1.0, 0.0], [-1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
SCALAR = [
    LaplacianKernel(),
    LaplacianKernel("median_pairs", "euclidean"),
    LaplacianKernel(0.05),
    LaplacianKernel(1e-200),
    LaplacianKernel(5e-324, "euclidean"),
    GaussianKernel(),
    GaussianKernel(0.3, max_samples=None),
    GaussianKernel(1e-200),
    2 * LaplacianKernel(0.4),
    0 * GaussianKernel(0.4),
    LaplacianKernel(0.3) + GaussianKernel("median_pairs"),
    LaplacianKernel() * GaussianKernel(0.5),
    0.5 * (LaplacianKernel(0.2) + 3 * LaplacianKernel(1.0)) * GaussianKernel(),
]
MATRICES = [
    MatrixKernel(LaplacianKernel(), SEMI_DEFINITE),
    MatrixKernel(LaplacianKernel(0.1), SEMI_DEFINITE) + 0.5 * GaussianKernel(),
    LaplacianKernel() * MatrixKernel(GaussianKernel(), SEMI_DEFINITE),
    2 * MatrixKernel(LaplacianKernel(0.3) + GaussianKernel(0.3), np.ones((3, 3))),
]


@pytest.mark.parametrize("kernel", SCALAR, ids=str)
def test_laws(kernel):
    check_kernel(kernel)
    check_kernel(MatrixKernel(kernel))


@pytest.mark.parametrize("kernel", MATRICES, ids=range(len(MATRICES)))
def test_laws_of_matrix_kernels(kernel):
    check_kernel(kernel, n_classes=[3])


def test_gaussian_on_total_variation_of_two_classes():
    kernel = GaussianKernel(metric="total_variation")
    check_kernel(kernel, n_classes=[2])
    with pytest.raises(ValueError, match="not positive semi-definite for more than two classes"):
        kernel.for_data(np.eye(3))(np.eye(3), np.eye(3))


# --- the law checker finds what is wrong ----------------------------------------------------------


@dataclass(frozen=True)
class Planted(LaplacianKernel):
    bandwidth: float = 0.5


class Asymmetric(Planted):
    def __call__(self, x, y):
        return super().__call__(x, y) * x[:, :1]

    def pairs(self, x, y):
        return super().pairs(x, y) * x[..., 0]


class Squared(Planted):
    squared = True  # exp(-TV^2) is not positive semi-definite

    def _slope(self):
        return -30.0


class Unbounded(Planted):
    def bound(self):
        return 0.9


class OtherPairs(Planted):
    def pairs(self, x, y):
        return 0.5 * super().pairs(x, y)


class Forgetful(LaplacianKernel):
    def for_data(self, forecast):
        return Planted(1.0 + len(forecast))


class Mutating(Planted):
    def __call__(self, x, y):
        values = super().__call__(x, y)
        x *= 1.0 + 1e-9
        return values


@pytest.mark.parametrize(
    ("kernel", "law"),
    [
        (Asymmetric(), "symmetric"),
        (Squared(), "positive semi-definite"),
        (Unbounded(), "bounded by bound"),
        (OtherPairs(), "pairs agree"),
        (Forgetful(), "nothing left to learn"),
        (Mutating(), "inputs are not modified"),
        ("laplacian", "is a Kernel"),
    ],
)
def test_the_checker_names_the_broken_law(kernel, law):
    if isinstance(kernel, Forgetful):
        kernel.for_data = None if False else kernel.for_data  # noqa: F841
    with pytest.raises(AssertionError, match=law):
        check_kernel(kernel, n_classes=[2, 5])
