"""Kernels on the simplex: laws, composition, bandwidths, and refusals."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from public_functions import others
from scipy.spatial.distance import cdist

from skcalib import kernels
from skcalib.kernels import (
    METRICS,
    GaussianKernel,
    Kernel,
    LaplacianKernel,
    MatrixKernel,
    distances,
    median_distance,
)
from skcalib.testing import check_kernel

LAPLACIAN, GAUSSIAN = LaplacianKernel(0.3), GaussianKernel(0.3)
SCALAR = [
    LaplacianKernel(), LaplacianKernel("median_pairs", "euclidean"), LaplacianKernel(1e-4),
    LaplacianKernel(50.0, "euclidean"), GaussianKernel(), GaussianKernel(1e-4),
    0.5 * LaplacianKernel(0.4), 0 * LAPLACIAN, LaplacianKernel() + GaussianKernel(0.1),
    LaplacianKernel() * GaussianKernel(0.1) * 3, MatrixKernel(GaussianKernel()),
]  # fmt: skip
EVERY = [*SCALAR, *others(kernels, Kernel, SCALAR)]
MATRIX = [[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
THREE_CLASSES = [
    MatrixKernel(LaplacianKernel(), MATRIX),
    2 * MatrixKernel(LAPLACIAN + GAUSSIAN, MATRIX) + GaussianKernel(),
    GAUSSIAN * MatrixKernel(LAPLACIAN, MATRIX),
]
BY_IDENTITY = MatrixKernel(LAPLACIAN, np.eye(2))
P = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])


@dataclass(frozen=True)
class Linear(Kernel):
    """A kernel of an extender, with no `pairs` of its own: the inner product."""

    seen: float = 0.0

    def __call__(self, x, y):
        return x @ y.T

    def bound(self):
        return 1.0


@pytest.mark.parametrize(
    "kernel", [*EVERY, *THREE_CLASSES, Linear(), Linear() * LAPLACIAN], ids=repr
)
def test_laws(kernel):
    check_kernel(kernel, **({"n_classes": (3,)} if kernel in THREE_CLASSES else {}))


def test_gaussian_of_total_variation_is_a_kernel_for_two_classes():
    kernel = GaussianKernel(0.3, "total_variation")
    check_kernel(kernel, n_classes=(2,))
    with pytest.raises(ValueError, match="not positive semi-definite for more than two"):
        kernel(P, P)


def tilted(self, x, y):
    return x @ y.T + 0.1 * x[:, :1] - 0.1 * y[:, 0]


#: The law that a member of a kernel violates, and the member.
PLANTED = {
    "Values are symmetric": {"__call__": tilted},
    "positive semi-definite": {"__call__": lambda self, x, y: x @ y.T - 0.9},
    "Shapes are": {"__call__": lambda self, x, y: (x @ y.T)[0]},
    "pairs agree": {"pairs": lambda self, x, y: 2 * Linear().pairs(x, y)},
    "bounded by": {"bound": lambda self: 0.9},
    "for_data": {"for_data": lambda self, forecast: replace(self, seen=forecast.sum())},
}


@pytest.mark.parametrize("law", PLANTED)
def test_the_checker_finds_planted_faults(law):
    with pytest.raises(AssertionError, match=law):
        check_kernel(type("Planted", (Linear,), PLANTED[law])())
    with pytest.raises(AssertionError, match="It is a Kernel"):
        check_kernel(np.dot)


def test_values_by_their_formulas():
    tv, euclidean = cdist(P, P, "cityblock") / 2, cdist(P, P)
    gaussian = np.exp(-(euclidean**2) / (2 * 0.3**2))
    for kernel, expected in (
        (LAPLACIAN, np.exp(-tv / 0.3)),
        (GAUSSIAN, gaussian),
        (LaplacianKernel(0.3, "euclidean"), np.exp(-euclidean / 0.3)),
        (2 * LAPLACIAN + GAUSSIAN * LAPLACIAN, (2 + gaussian) * np.exp(-tv / 0.3)),
    ):
        np.testing.assert_allclose(kernel(P, P), expected, rtol=1e-13, atol=0)


def test_bounds_follow_the_structure():
    for kernel, bound in (
        (LAPLACIAN, 1.0),
        (2 * LAPLACIAN, 2.0),
        (2 * LAPLACIAN + 3 * GAUSSIAN, 5.0),
        ((2 * LAPLACIAN) * (3 * GAUSSIAN), 6.0),
        # The eigenvalue of the matrix is rounded.
        (MatrixKernel(2 * LAPLACIAN, MATRIX), pytest.approx(6.0, rel=1e-14)),
        (MatrixKernel(LAPLACIAN, MATRIX) + GAUSSIAN, pytest.approx(4.0, rel=1e-14)),
    ):
        assert kernel.bound() == bound


@pytest.mark.parametrize("n_classes", [2, 3, 10, 40])
@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-9, 0.0])
@pytest.mark.parametrize("squared", [False, True])
def test_euclidean_distances_are_accurate_near_and_far(n_classes, spread, squared):
    """A plain product would lose half of the digits of forecasts that crowd together."""
    rng = np.random.default_rng(0)
    x, y = (
        0.9 * np.eye(n_classes)[rng.integers(n_classes, size=m)]
        + 0.1 / n_classes
        + spread * 0.05 * rng.random((m, n_classes))
        for m in (40, 50)
    )
    y[:5] = x[:5]
    square = np.sum((x[:, None].astype(np.longdouble) - y[None]) ** 2, axis=-1)
    exact = (square if squared else np.sqrt(square)).astype(float)
    outer = distances(x, y, "euclidean", squared=squared)
    paired = distances(x[:, None], y[None], "euclidean", squared=squared, paired=True)
    for values in (outer, paired):
        np.testing.assert_allclose(values, exact, rtol=1e-12, atol=1e-13)
    assert (np.diag(outer)[:5] == 0).all()


@pytest.mark.parametrize("metric", METRICS)
def test_the_median_of_the_full_matrix_has_its_diagonal(metric):
    points = np.random.default_rng(0).dirichlet(np.ones(3), 30)
    plain = cdist(points, points)
    full = cdist(points, points, "cityblock") / 2 if metric == "total_variation" else plain
    pairs = full[np.triu_indices(30, 1)]
    assert median_distance(points, metric=metric) == pytest.approx(np.median(full), rel=1e-14)
    median = median_distance(points, metric=metric, rule="median_pairs")
    assert median == pytest.approx(np.median(pairs), rel=1e-14)
    assert np.median(full) < np.median(pairs)
    learned = LaplacianKernel("median_pairs", metric).for_data(points)
    assert learned == LaplacianKernel(median, metric)


def test_many_forecasts_are_subsampled_always_alike():
    points = np.random.default_rng(0).dirichlet(np.ones(4), 3000)
    full = median_distance(points, max_samples=None)
    some = [median_distance(points, max_samples=500) for _ in range(2)]
    assert some[0] == some[1] != full
    assert some[0] == pytest.approx(full, rel=0.03)
    assert median_distance(points[:500], max_samples=500) == median_distance(points[:500])
    assert LaplacianKernel(max_samples=500).for_data(points).bandwidth == some[0]
    zeros = np.where(points < 0.1, 0.0, points)
    assert median_distance(np.where(zeros == 0, -0.0, zeros), max_samples=500) == median_distance(
        zeros, max_samples=500
    )
    assert median_distance(P[[0, 1]], max_samples=2) == median_distance(P[[0, 1, 1, 0]][:2])


@pytest.mark.parametrize("rule", ["median", "median_pairs"])
def test_equal_forecasts_have_a_bandwidth(rule):
    for points, expected in (
        (P[:1], 1.0),
        (P[[0] * 5], 1.0),
        (P[[0] * 9 + [1]], 0.6),  # half are equal
        (P[[0] * 12 + [1, 2, 3]], 0.45),  # the median of the positive ones
    ):
        assert median_distance(points, rule=rule) == pytest.approx(expected, rel=1e-12)


def test_values_of_distant_points_are_not_subnormal():
    values = LaplacianKernel(1e-4)(P[:3], P[:3])
    np.testing.assert_array_equal(values, np.where(np.eye(3) == 1, 1, np.exp(-700)))
    pairs = np.random.default_rng(0).dirichlet(np.ones(2), (4, 3))
    kernel = GaussianKernel(0.5, "total_variation")
    distance = np.abs(pairs - pairs[::-1])[..., 0]
    np.testing.assert_allclose(kernel.pairs(pairs, pairs[::-1]), np.exp(-2 * distance**2))


def test_refused_combinations():
    both = MatrixKernel(LAPLACIAN, np.eye(2)) * MatrixKernel(GAUSSIAN, np.eye(2))
    for make, message in (
        (lambda: LaplacianKernel()(P, P), "for_data"),
        (lambda: GaussianKernel(max_samples=1), "max_samples"),
        (lambda: median_distance(np.empty((0, 2))), "must hold numbers of shape"),
        (lambda: median_distance([[0.5, np.nan], [0.5, 0.5]]), "NaN or infinity"),
        (lambda: MatrixKernel(LAPLACIAN, [[1.0, np.nan], [0.0, 1.0]]), "finite and square"),
        (lambda: -1 * LAPLACIAN, "at least 0"),
        (lambda: np.nan * LAPLACIAN, "at least 0"),
        (lambda: MatrixKernel(LAPLACIAN, [[1.0, 2.0]]), "square"),
        (lambda: MatrixKernel(LAPLACIAN, [[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
        (lambda: MatrixKernel(LAPLACIAN, [[1.0, 2.0], [2.0, 1.0]]), "positive semi-definite"),
        (lambda: BY_IDENTITY.terms(3), "2 rows"),
        (lambda: both.terms(2), "need not be a kernel"),
        (lambda: MatrixKernel(BY_IDENTITY, np.eye(2)).terms(2), "need not be a kernel"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    MatrixKernel(LAPLACIAN, [[1.0, 1e-13], [0.0, 1.0]])  # symmetric up to rounding
    for wrong in (
        lambda: LAPLACIAN + 1, lambda: LAPLACIAN * "2", lambda: MatrixKernel(GAUSSIAN)(P, P),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            wrong()
