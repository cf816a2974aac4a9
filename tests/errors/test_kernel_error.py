"""The kernel calibration error: random blocks, golden values, mean embeddings."""

from itertools import combinations

import numpy as np
import pytest
from conftest import peak_memory
from golden import golden_input, golden_rows, needs_golden

from skcalib import kernel_calibration_error
from skcalib.data.notions import NOTIONS, Canonical
from skcalib.data.problem import check_problem
from skcalib.errors import unconditional_mean_embedding_error
from skcalib.errors.kernel import ResidualKernel, random_blocks
from skcalib.kernels import LaplacianKernel, MatrixKernel, median_distance


def skce(y, proba, statistic="unbiased", block_size=None, **arguments):
    return kernel_calibration_error(
        y, proba, statistic=statistic, block_size=block_size, **arguments
    )


@pytest.mark.parametrize("notion", NOTIONS)
def test_many_samples_take_random_blocks(notion, multiclass, set_sizes):
    """The pair-weighted mean of the unbiased estimates of the blocks, one by one."""
    set_sizes(paired_samples=100, pair_block_samples=20)
    y, proba = multiclass
    weight = np.random.default_rng(1).uniform(0.2, 2, 150)
    rows = random_blocks(150)
    assert rows.shape == (3, 50) and len(np.unique(rows)) == 150
    arguments = {"kernel": LaplacianKernel(0.3), "notion": notion, "labels": np.arange(3)}
    estimate = kernel_calibration_error(y, proba, sample_weight=weight, **arguments)
    estimates = [skce(y[b], proba[b], sample_weight=weight[b], **arguments) for b in rows]
    pairs = [weight[b].sum() ** 2 - np.sum(weight[b] ** 2) for b in rows]
    assert estimate == pytest.approx(np.average(estimates, weights=pairs), rel=1e-11)
    exact = skce(y, proba, "unbiased", kernel=LaplacianKernel(0.3))
    assert kernel_calibration_error(y, proba, kernel=LaplacianKernel(0.3)) != exact


@pytest.mark.parametrize("n_samples", [20_001, 28_285, 100_000, 10**6, 1_999_999])
def test_random_blocks_use_nearly_all_samples_and_no_more_pairs_than_before(n_samples):
    rows = random_blocks(n_samples)
    assert rows.size > 0.997 * n_samples and rows.shape[1] >= 400
    assert rows.size * rows.shape[1] <= max(20_000**2, 401 * n_samples)
    assert rows.size * rows.shape[1] > 0.499 * 20_000**2


def test_memory_does_not_grow_with_the_square(forecasts):
    y, proba = forecasts(6000, 5)
    _, peak = peak_memory(lambda: skce(y, proba, kernel=LaplacianKernel(0.3)))
    assert peak < 2e7  # a matrix of all pairs has 2.9e8


@needs_golden
@pytest.mark.parametrize("name", ["bin500", "tri300"])
def test_published_medians_and_mmce(name):
    y, proba = golden_input(name)
    for row in golden_rows(name):
        if row["quantity"] == "median_distance":
            rule = "median" if row["params"]["pairs"].startswith("all") else "median_pairs"
            error = median_distance(proba, metric=row["params"]["dist"], rule=rule)
            assert error == pytest.approx(row["value"], rel=1e-12)
            if rule == "median" and row["params"]["dist"] == "total_variation":
                default = skce(y, proba)
                by_hand = skce(y, proba, kernel=LaplacianKernel(row["value"]))
                assert default == pytest.approx(by_hand, rel=1e-10)
        elif row["quantity"] == "mmce":
            kernel = 0.5 * LaplacianKernel(0.4)
            error = skce(y, proba, "biased", kernel=kernel, notion="top_label") ** 0.5
            assert error == pytest.approx(row["value"], rel=1e-9)


LOCATIONS = np.array([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3]])
TOP = {"locations": [0.9, 0.5], "notion": "top_label"}


@pytest.mark.parametrize("matrix", [None, [[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.5]]])
def test_embedding_by_its_formula(matrix, multiclass):
    y, proba = (array[:13] for array in multiclass)
    weight = np.random.default_rng(0).uniform(0.2, 3, 13)
    m = np.eye(3) if matrix is None else np.array(matrix)
    k = np.exp(-np.abs(LOCATIONS[:, None] - proba).sum(axis=2) / 2 / 0.3)
    means = k * weight @ (np.eye(3)[y] - proba) @ m / weight.sum()
    kernel = MatrixKernel(LaplacianKernel(0.3), matrix)
    options = {"locations": LOCATIONS, "sample_weight": weight, "kernel": kernel}
    for labels, chosen in ((None, means), ([0, 2], means[[0, 1], [0, 2], None])):
        error = unconditional_mean_embedding_error(y, proba, location_labels=labels, **options)
        assert error == pytest.approx(np.mean(np.sum(chosen**2, axis=1)), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"locations": LOCATIONS, "location_labels": [0]}, "There are 2 locations, but 1 location"),
        ({**TOP, "location_labels": [0, 1]}, "location_labels name classes, and need notion='can"),
        ({"locations": [0.9, 0.5]}, "locations have 2 columns, but the forecasts have 3"),
        ({"locations": [0.9], "notion": "classwise"}, "3 problems, but locations belong to one"),
    ],
)
def test_locations_that_are_refused(arguments, words, multiclass):
    with pytest.raises(ValueError, match=words):
        unconditional_mean_embedding_error(*multiclass, **arguments)


def test_sums_over_clusters_by_loops(set_sizes):
    """Sums of weights and of h, in the units of the mean; of many clusters or samples a part."""
    rng = np.random.default_rng(0)
    proba, y, cluster = rng.dirichlet(np.ones(3), 24), rng.integers(3, size=24), np.arange(24) % 7
    problem = check_problem(y, proba, sample_weight=rng.uniform(0.2, 2, 24))
    h = ResidualKernel.of_problem(problem, LaplacianKernel(0.3), Canonical())

    def by_hand(rows):
        one = (cluster[rows] == np.unique(cluster[rows])[:, None]).astype(float)
        weight = one @ h.weight[rows]
        scale = len(weight) / weight.sum()
        return scale * weight, scale**2 * one @ h.matrix()[np.ix_(rows, rows)] @ one.T

    def taken(size, kind):
        """The rows of a part, found by the weights."""
        set_sizes(**{"kernel_clusters": 7, "paired_samples": 24, kind: size})
        part = h.of_clusters(cluster, "auto")
        if kind == "kernel_clusters":
            parts = [np.flatnonzero(np.isin(cluster, c)) for c in combinations(range(7), size)]
        else:
            parts = [np.delete(np.arange(24), out) for out in combinations(range(24), 24 - size)]
        for rows in parts:
            weight, values = by_hand(rows)
            if len(weight) == len(part) and np.allclose(part.weight, weight, rtol=1e-12):
                np.testing.assert_allclose(part.matrix(), values, rtol=1e-9, atol=1e-14)
                return len(rows)

    assert taken(7, "kernel_clusters") == taken(24, "paired_samples") == 24
    assert taken(4, "kernel_clusters") in range(12, 17)
    assert taken(22, "paired_samples") == 22
    whole = h.of_clusters(cluster)
    assert len(whole) == 7 and whole.total() == pytest.approx(by_hand(np.arange(24))[1].sum())
    np.testing.assert_allclose(whole.take([2, 0]).matrix(), whole.matrix()[[2, 0]][:, [2, 0]])
    np.testing.assert_allclose(whole.multiply(np.eye(7)[:, :2]), whole.matrix()[:, :2])
    np.testing.assert_array_equal(whole.diagonal(), np.diag(whole.matrix()))


def test_embedding_in_slices_and_of_the_top_label(set_sizes, multiclass):
    y, proba = multiclass
    error = unconditional_mean_embedding_error
    top, places = error(y, proba, **TOP), TOP["locations"]
    by_hand = error(y == proba.argmax(axis=1), proba.max(axis=1), locations=places)
    assert top == pytest.approx(by_hand, rel=1e-12)
    set_sizes(feature_rows=7)
    assert error(y, proba, **TOP) == pytest.approx(top, rel=1e-12)
