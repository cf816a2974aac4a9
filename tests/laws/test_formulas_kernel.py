"""The kernel calibration error, pair by pair: h by its definition, statistics, and words."""

import golden
import numpy as np
import pytest

from skcalib import kernel_calibration_error
from skcalib.data.notions import Canonical
from skcalib.data.problem import check_problem
from skcalib.datasets import make_tempered_simplex
from skcalib.errors.kernel import (
    ResidualKernel,
    block_estimates,
    check_pairs,
    check_statistic,
    estimate,
    pair_weight,
)
from skcalib.kernels import GaussianKernel, LaplacianKernel, MatrixKernel

P3, Y3 = golden.P3[[*range(8), 12]], np.append(golden.Y3[:8], 1)
WEIGHT = np.array([1.0, 2, 0.5, 3, 1, 1, 4, 0.25, 1])
N = len(Y3)
MATRIX = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.5]])


def pairs_of(notion):
    """(forecast, target) of each problem, by hand."""
    target = np.eye(3)[Y3]
    if notion == "canonical":
        return [(P3, target)]
    if notion == "classwise":
        columns = [(P3[:, k], target[:, k]) for k in range(3)]
    else:
        columns = [(P3.max(axis=1), (P3.argmax(axis=1) == Y3).astype(float))]
    return [(np.column_stack([1 - p, p]), np.column_stack([1 - t, t])) for p, t in columns]


def h_by_hand(notion="canonical", weight=None, matrix=None):
    """w_i w_j mean over problems of r_i' k(s_i, s_j) M r_j, weights of mean one."""
    problems = pairs_of(notion)
    w = np.ones(N) if weight is None else weight / np.mean(weight)
    h = np.zeros((N, N))
    for forecast, target in problems:
        residual = target - forecast
        kernel = np.exp(-np.abs(forecast[:, None] - forecast).sum(axis=2) / 2 / 0.3)
        m = np.eye(forecast.shape[1]) if matrix is None else matrix
        h += np.outer(w, w) * kernel * (residual @ m @ residual.T) / len(problems)
    return h


def mean_over(pairs, h, weight=None):
    w = np.ones(N) if weight is None else weight / np.mean(weight)
    i, j = np.transpose(pairs)
    return h[i, j].sum() / (w[i] @ w[j])


ALL = [(i, j) for i in range(N) for j in range(N)]
OFF = [(i, j) for i, j in ALL if i != j]


def in_blocks(size):
    """Pairs i != j of the same block of consecutive samples; an incomplete last block is left."""
    last = N - N % size
    return [(i, j) for i, j in OFF if i // size == j // size and max(i, j) < last]


def skce(statistic="unbiased", kernel=None, **arguments):
    kernel = LaplacianKernel(0.3) if kernel is None else kernel
    return kernel_calibration_error(Y3, P3, statistic=statistic, kernel=kernel, **arguments)


@pytest.mark.parametrize("notion", ["canonical", "classwise", "top_label"])
@pytest.mark.parametrize("weight", [None, WEIGHT, 100 * WEIGHT], ids=["equal", "w", "100 w"])
def test_every_statistic_by_loops(notion, weight):
    h = h_by_hand(notion, weight)
    options = {"notion": notion, "sample_weight": weight}
    assert skce(**options) == pytest.approx(mean_over(OFF, h, weight), rel=1e-11)
    assert skce("biased", **options) == pytest.approx(mean_over(ALL, h, weight), rel=1e-11)
    for size in (2, 3, 4, 5, 9):
        expected = mean_over(in_blocks(size), h, weight)
        error = skce("block", block_size=size, **options)
        assert type(error) is float and error == pytest.approx(expected, rel=1e-11)
    assert skce("linear", **options) == skce("block", block_size=2, **options)


def test_matrices_and_sums_of_kernels():
    scalar = LaplacianKernel(0.3)
    matrix = MatrixKernel(scalar, MATRIX)
    first, both = h_by_hand(matrix=MATRIX), h_by_hand(matrix=MATRIX) + 2 * h_by_hand()
    assert skce(kernel=matrix) == pytest.approx(mean_over(OFF, first), rel=1e-11)
    assert skce(kernel=matrix + 2 * scalar) == pytest.approx(mean_over(OFF, both), rel=1e-11)
    error = skce("block", matrix + 2 * scalar, block_size=3)
    assert error == pytest.approx(mean_over(in_blocks(3), both), rel=1e-11)


def test_default_is_the_laplacian_of_the_median_distance():
    """W19: total variation, and the median of all n^2 distances."""
    bandwidth = float(np.median(np.abs(P3[:, None] - P3).sum(axis=2) / 2))
    error = kernel_calibration_error(Y3, P3)
    assert error == pytest.approx(skce(kernel=LaplacianKernel(bandwidth)), rel=1e-12)
    assert error == skce("unbiased", LaplacianKernel(), notion="canonical", n_jobs=1)
    assert kernel_calibration_error(Y3, P3, kernel="laplacian") == error
    assert kernel_calibration_error(Y3, P3, kernel="gaussian") == skce(kernel=GaussianKernel())


@pytest.mark.parametrize("n_samples", [255, 256, 257, 700])
def test_many_samples_in_blocks(n_samples):
    """Sums and products are those of the whole matrix, on either side of a block's border."""
    sample = make_tempered_simplex(n_samples, 3, random_state=0)
    problem = check_problem(sample.y, sample.y_proba)
    residual = problem.target - problem.forecast
    distance = np.abs(problem.forecast[:, None] - problem.forecast[None]).sum(axis=2) / 2
    expected = np.exp(-distance / 0.3) * (residual @ residual.T)
    columns = np.random.default_rng(0).normal(size=(n_samples, 3))
    i, j = (index.ravel() for index in np.indices((200, 200)))  # more than are taken at a time
    for n_jobs in (None, 2):
        h = ResidualKernel.of_problem(problem, LaplacianKernel(0.3), Canonical(), n_jobs)
        assert h.n_jobs == n_jobs and h.take(slice(3)).n_jobs == n_jobs
        np.testing.assert_allclose(h.matrix(), expected, atol=1e-13)
        assert h.total() == pytest.approx(expected.sum(), rel=1e-9)
        np.testing.assert_allclose(h.multiply(columns), expected @ columns, atol=1e-10)
        np.testing.assert_allclose(h.diagonal(), np.diag(expected), atol=1e-13)
        np.testing.assert_allclose(h.pairs(i, j), expected[i, j], atol=1e-13)


@pytest.mark.parametrize("size", [2, 31, 32, 33, 40, 97])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_by_their_own_matrices(size, weighted, set_sizes):
    """Sum over the pairs of each block over the weight of its pairs; the rest is dropped."""
    sample = make_tempered_simplex(97, 3, random_state=0)
    weight = np.random.default_rng(0).uniform(0.1, 2, 97) if weighted else None
    problem = check_problem(sample.y, sample.y_proba, sample_weight=weight)
    h = ResidualKernel.of_problem(problem, LaplacianKernel(0.3), Canonical())
    matrix, w = h.matrix(), h.weight
    np.testing.assert_array_equal(h.take(slice(2, 7)).weight, w[2:7])
    values, pairs = block_estimates(h, size)
    blocks = [slice(k, k + size) for k in range(0, 97 - 97 % size, size)]
    expected = [w[rows].sum() ** 2 - np.sum(w[rows] ** 2) for rows in blocks]
    sums = [matrix[rows, rows].sum() - np.trace(matrix[rows, rows]) for rows in blocks]
    np.testing.assert_allclose(pairs, expected, rtol=1e-12)
    np.testing.assert_allclose(values, np.divide(sums, expected), rtol=1e-9, atol=1e-14)
    error = estimate(h, "block", size)
    assert error == pytest.approx(np.sum(values * pairs) / np.sum(pairs), rel=1e-12)
    for blocks_at_a_time in (0, 1, 3, 10):
        set_sizes(block_entries=max(blocks_at_a_time * size * (size - 1) // 2, 1))
        np.testing.assert_allclose(block_estimates(h, size), [values, pairs], rtol=1e-12)


def test_a_block_without_pairs_counts_nothing():
    weight = np.array([1.0, 1, 1e-300, 1e-300, 2, 1, 1, 1, 1])
    h = h_by_hand(weight=weight)
    pairs = [(0, 1), (1, 0), (4, 5), (5, 4), (6, 7), (7, 6)]
    expected = mean_over(pairs, h, weight)
    assert skce("linear", sample_weight=weight) == pytest.approx(expected, rel=1e-11)
    assert pair_weight(np.array([1.0, 2, 3])) == 2 * (2 + 3 + 6)
    rows = np.array([[1.0, 2, 3], [1, 0, 0]])
    np.testing.assert_array_equal(pair_weight(rows), [22, 0])
    np.testing.assert_array_equal(check_pairs(rows), [22, 0])
    # beside a large weight small ones keep all of their digits
    assert pair_weight(np.array([1e12, 1e-6])) == 2e6


def test_one_sample_may_have_all_the_weight_in_the_biased_statistic_only():
    words = "^sample_weight gives nearly all of the weight to one sample of every pair, so there"
    lonely = np.full(N, 1e-13)
    lonely[4] = 1.0
    for statistic in ("unbiased", "linear"):
        with pytest.raises(ValueError, match=words):
            skce(statistic, sample_weight=lonely)
    expected = mean_over(ALL, h_by_hand(weight=lonely), lonely)
    assert skce("biased", sample_weight=lonely) == pytest.approx(expected, rel=1e-9)
    for scale in (1e-6, 1.0, 1e6):  # a small second sample is a second sample
        check_pairs(scale * np.array([1.0, 1e-7]))
        for second in (0.0, 1e-10):
            with pytest.raises(ValueError, match=words):
                check_pairs(scale * np.array([1.0, second]))
    check_pairs(np.tile([1.0, 1e-7], (1000, 1)))  # block by block, however many


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("unbiased", None, 1), "^statistic='unbiased' needs at least two samples of positive"),
        (("block", 2, 1), "^statistic='block' needs at least two samples of positive weight"),
        (("linear", 2, 9), "^block_size is for statistic='block', not for 'linear'"),
        (("biased", 0, 9), "^block_size is for statistic='block', not for 'biased'"),
        *(
            (("block", size, 9), "^statistic='block' needs a block_size, a whole number from 2 to ")
            for size in (None, 1, 10, 3.0, "2")
        ),
        (("biased", None, 1), None),
        (("unbiased", None, 2), None),
        (("linear", None, 2), None),
        (("block", 2, 2), None),
        (("block", np.int64(9), 9), None),
    ],
)
def test_statistics_that_pass_and_that_are_refused(arguments, words):
    if words is None:
        return check_statistic(*arguments)
    with pytest.raises(ValueError, match=words):
        check_statistic(*arguments)
