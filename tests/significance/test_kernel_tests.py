"""Tests on the kernel calibration error: laws under the null, published values, power, refusals."""

import re
from itertools import permutations

import numpy as np
import pytest
from conftest import follow_a_power
from golden import golden_input, golden_rows, needs_golden
from levels import need_level
from scipy.stats import chi2, kstest, norm

import skcalib
from skcalib.data.notions import NOTIONS, Canonical, Classwise
from skcalib.data.problem import check_problem
from skcalib.datasets import make_widmann
from skcalib.errors.kernel import Embedding, ResidualKernel, block_estimates, random_blocks
from skcalib.kernels import GaussianKernel, LaplacianKernel, MatrixKernel
from skcalib.significance.kernel import METHODS
from skcalib.stats.squared_norm import chi_square_mixture_sf

ALL = [(statistic, method) for statistic in METHODS for method in METHODS[statistic]]


def run(samples, statistic="unbiased", **arguments):
    """The test, with blocks of ten for the statistic that needs them."""
    size = 10 if statistic == "block" else None
    arguments = {"random_state": 0, "block_size": size, **arguments}
    return skcalib.kernel_calibration_test(*samples, statistic=statistic, **arguments)


def calibrated(n_samples, n_classes, seed):
    return follow_a_power(n_samples, np.random.default_rng(seed), n_classes=n_classes)


# --- random blocks of many samples ----------------------------------------------------------------


@pytest.fixture
def few_are_many(set_sizes):
    """Random blocks from 101 samples on, of at least 20 samples."""
    set_sizes(paired_samples=100, pair_block_samples=20)


@pytest.mark.slow
def test_level_and_power_of_random_blocks(few_are_many):
    """Of default tests at .1."""

    def rejections(seeds, n_samples, gamma):
        for seed in seeds:
            y, proba = calibrated(n_samples, 3, seed)
            proba = proba**gamma / np.sum(proba**gamma, axis=1, keepdims=True)
            options = {"labels": [0, 1, 2], "random_state": seed, "n_resamples": 19}
            test = skcalib.kernel_calibration_test(y, proba, **options)
            assert "random blocks" in test.method
            yield test.rejects(0.1)

    share = np.mean(list(rejections(range(200), 130, 1.0)))
    assert abs(share - 0.1) < 3 * np.sqrt(0.1 * 0.9 / 200)
    assert np.mean(list(rejections(range(12), 400, 4.0))) > 0.9


def test_the_law_of_random_blocks_by_hand(few_are_many):
    """Pairs within nine blocks of 33; the spectrum of all pairs, once for each block."""
    (y, proba), kernel = calibrated(300, 2, 0), LaplacianKernel(0.5)
    test = skcalib.kernel_calibration_test(y, proba, kernel=kernel)
    h = ResidualKernel.of_problem(check_problem(y, proba), kernel, Canonical()).matrix()
    np.fill_diagonal(h, 0)
    value = np.mean([h[np.ix_(rows, rows)].sum() / (33 * 32) for rows in random_blocks(300)])
    assert test.estimate == pytest.approx(value, rel=1e-9)
    assert test.statistic == pytest.approx(9 * 32 * value, rel=1e-9)
    weights = np.repeat(np.linalg.eigvalsh(h) / 300, 9)
    expected = chi_square_mixture_sf(test.statistic, weights)
    assert test.pvalue == pytest.approx(expected, rel=1e-6) and 0.05 < expected < 0.95
    assert test.method.startswith("kernel, spectral, 9 random blocks of 33 samples; statistic='un")


@pytest.mark.slow
def test_random_blocks_of_the_real_size():
    """20,001 samples: two blocks, and the record says so; all pairs on request and below."""
    y, proba = calibrated(20_001, 2, 0)
    test = skcalib.kernel_calibration_test(y, proba)
    blocks = "2 random blocks of 10,000 samples"
    assert blocks in test.method and "statistic='unbiased'" in test.method
    assert test.pvalue > 0.001
    assert test.estimate == pytest.approx(skcalib.kernel_calibration_error(y, proba), rel=1e-12)
    assert test.statistic == pytest.approx(2 * 9_999 * test.estimate, rel=1e-9)
    bound = skcalib.significance.distribution_free_bound(y, proba)
    assert blocks in bound.method
    assert 0 < bound.pvalue <= 1
    few = skcalib.kernel_calibration_test(y[:500], proba[:500])
    assert few == skcalib.kernel_calibration_test(y[:500], proba[:500], statistic="unbiased")
    assert few.method == "kernel, spectral"


@pytest.mark.parametrize("method", ["multipliers", "bootstrap", "embedding"])
def test_methods_that_need_all_pairs_take_them(method, few_are_many):
    samples = calibrated(150, 3, 0)
    named = run(samples, method=method, n_resamples=49)
    assert run(samples, "auto", method=method, n_resamples=49) == named


def test_bound_of_random_blocks_counts_independent_pairs(few_are_many):
    """Lemma 2 of W19 with 2 blocks of 30 independent pairs in place of floor(n / 2), and B = 2."""
    y, proba = calibrated(122, 2, 0)
    wrong = proba[:, ::-1]
    test = skcalib.significance.distribution_free_bound(y, wrong, kernel=GaussianKernel(0.5))
    n_pairs = 2 * (61 // 2)
    assert "2 random blocks of 61 samples" in test.method and test.estimate > 0
    assert test.pvalue == pytest.approx(np.exp(-n_pairs * test.estimate**2 / 8), rel=1e-9)


def test_large_clusters_take_part_of_their_samples(few_are_many):
    """A thousand samples of 20 clusters: 100 enter by default, all on request."""
    y, proba = calibrated(1000, 2, 0)
    groups = np.arange(1000) % 20
    test = skcalib.kernel_calibration_test(y, proba, groups=groups)
    rows = np.sort(np.random.RandomState(0).choice(1000, 100, replace=False))
    kernel = LaplacianKernel().for_data(proba)
    some = skcalib.kernel_calibration_test(
        y[rows], proba[rows], groups=groups[rows], kernel=kernel, statistic="unbiased"
    )
    assert test.estimate == pytest.approx(some.estimate, rel=1e-9)
    assert test != skcalib.kernel_calibration_test(y, proba, groups=groups, statistic="unbiased")


# --- the mixture of chi-square variables ----------------------------------------------------------


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 300, 1000])
def test_equal_weights_are_chi_square(freedom):
    for weights, copies in ((np.full(freedom, 2.5), 1), (np.array([2.5]), freedom)):
        for x in (0.0, 1e-200, 1e-8, 0.1, 1.0, 5.0, 50.0, 299.0, 600.0, 2000.0, 2200.0):
            above = chi_square_mixture_sf(2.5 * x, weights, copies=copies)
            assert above == pytest.approx(chi2.sf(x, freedom), rel=1e-10, abs=0)
            below = chi_square_mixture_sf(-2.5 * x, -weights, copies=copies)
            assert below == pytest.approx(chi2.cdf(x, freedom), rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("x", [1e-9, 0.1, 1.0, 20.0, 300.0])
def test_two_exponentials(x):
    a, b = 1.0, 0.3
    exact = (a * np.exp(-x / (2 * a)) - b * np.exp(-x / (2 * b))) / (a - b)
    for repeated, copies in ((2, 1), (1, 2)):
        exponentials, laplace = [a, b, 0.0] * repeated, [0.5, -0.5] * repeated
        tail = chi_square_mixture_sf(x, exponentials, copies=copies)
        assert tail == pytest.approx(exact, rel=1e-10, abs=0)
        above, below = (chi_square_mixture_sf(sign * x, laplace, copies=copies) for sign in (1, -1))
        assert above == pytest.approx(0.5 * np.exp(-x), rel=1e-10, abs=0)
        assert below == pytest.approx(1 - 0.5 * np.exp(-x), rel=1e-10)


def test_edges_of_the_mixture():
    for x, weights, expected in (
        (0.0, [], 1.0), (1.0, [], 0.0), (-1.0, [], 1.0), (0.0, [-1.0], 0.0), (-2.0, [1.0], 1.0),
        (2.0, [-1.0, -2.0], 0.0), (1e9, [1.0], 0.0), (1.0, [1e-300], 0.0), (0.0, [0.5, -0.5], 0.5),
        (1e300, [1e-9], 0.0),
    ):  # fmt: skip
        assert chi_square_mixture_sf(x, weights) == pytest.approx(expected, abs=1e-10)


# --- identities -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("statistic", "method"), [pair for pair in ALL if pair[1] != "embedding"])
@pytest.mark.parametrize("notion", ["canonical", "top_label"])
def test_the_estimate_is_the_error_and_the_statistic_its_function(
    statistic, method, notion, multiclass
):
    n, size = len(multiclass[0]), 10 if statistic == "block" else None
    test = run(multiclass, statistic, method=method, notion=notion, n_resamples=9)
    value, biased = (
        skcalib.kernel_calibration_error(
            *multiclass,
            statistic=estimator,
            block_size=size if estimator == statistic else None,
            notion=notion,
        )
        for estimator in (statistic, "biased")
    )
    assert test.estimate == pytest.approx(value, rel=1e-11)
    multiples = dict.fromkeys(("spectral", "multipliers"), (n - 1) * value)
    multiples["bootstrap"] = n / (n - 1) * value - biased
    if method in multiples:
        assert test.statistic == pytest.approx(multiples[method], rel=1e-9)


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_spectral_is_the_limit_of_multipliers(notion, seed):
    samples = calibrated(250, 3, seed)
    exact = run(samples, notion=notion).pvalue
    simulated = run(samples, notion=notion, method="multipliers", n_resamples=4000).pvalue
    assert abs(simulated - exact) < 4 * np.sqrt(exact * (1 - exact) / 4000) + 1e-3


@pytest.mark.parametrize("method", ["multipliers", "bootstrap"])
def test_batches_of_resamples(method, set_sizes, multiclass):
    """In batches as at once: the draws are taken in the same order for the bootstrap."""
    whole = run(multiclass, method=method, n_resamples=500)
    set_sizes(drawn_entries=150 * 7)
    batched = run(multiclass, method=method, n_resamples=500)
    assert abs(batched.pvalue - whole.pvalue) < 0.1
    if method == "bootstrap":
        assert batched == whole


def test_the_spectrum_of_some_rows(set_sizes):
    """Of 600 rows, 200 at random: p-values move by little, and with the seed."""
    simulation = make_widmann(600, model="M1", random_state=7)
    pair = (simulation.y, simulation.y_proba)
    whole = run(pair).pvalue
    assert 0.05 < whole < 0.95
    assert run(pair, random_state=1).pvalue == whole
    set_sizes(spectrum_rows=200)
    some = [run(pair, random_state=seed).pvalue for seed in range(8)]
    assert len(set(some)) == 8
    assert np.abs(np.array(some) - whole).max() < 0.1


def test_scaling_the_kernel_changes_no_pvalue(multiclass):
    for statistic, method in ALL:
        arguments = {"method": method, "n_resamples": 9}
        kernels = LaplacianKernel(0.3), 5 * LaplacianKernel(0.3)
        plain, scaled = (run(multiclass, statistic, kernel=k, **arguments) for k in kernels)
        assert scaled.pvalue == pytest.approx(plain.pvalue, rel=1e-9)
        assert scaled.estimate == pytest.approx(
            (25 if method == "embedding" else 5) * plain.estimate
        )


def test_covariance_of_the_mean_embedding_is_that_of_labels_from_the_forecasts():
    """All labels of four samples, one by one: the exact covariance, by enumeration."""
    proba = calibrated(4, 3, 0)[1]
    points, kernel = np.eye(3)[:2], MatrixKernel(GaussianKernel(0.5), np.diag([1.0, 2.0, 0.5]))
    total, means = 0.0, 0.0
    for code in range(81):
        y = np.array([code // 3**k % 3 for k in range(4)])
        problem = check_problem(y, proba, labels=[0, 1, 2])
        embedding = Embedding(problem, kernel, Canonical(), points)
        mean = embedding.features(slice(None), problem.target).mean(axis=0)
        chance = np.prod(proba[np.arange(4), y])
        total, means = total + chance * np.outer(mean, mean), means + chance * mean
    np.testing.assert_allclose(means, 0, atol=1e-15)
    np.testing.assert_allclose(embedding.null_covariance() / 4, total, rtol=1e-10, atol=1e-16)


def test_embedding_at_given_locations(multiclass):
    arguments = {"locations": np.eye(3), "kernel": GaussianKernel(0.3)}
    test = run(multiclass, method="embedding", **arguments)
    value = skcalib.errors.unconditional_mean_embedding_error(*multiclass, **arguments)
    assert test.estimate == value
    assert test.statistic == pytest.approx(150 * value, rel=1e-12)
    many = calibrated(200, 3, 0)
    drawn = [run(many, method="embedding", random_state=seed, **arguments) for seed in (0, 9)]
    assert drawn[0] == drawn[1]


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic", ["biased", "unbiased", "linear"])
def test_bounds_by_their_formulas(statistic):
    kernel, n = 0.5 * LaplacianKernel(0.4), 250  # whose largest value is 1
    samples = make_widmann(n, model="M2", random_state=0)
    y, proba, options = samples.y, samples.y_proba, {"statistic": statistic, "kernel": kernel}
    test = skcalib.significance.distribution_free_bound(y, proba, **options)
    t = test.estimate
    if statistic == "biased":
        expected = np.exp(-0.5 * max(0, np.sqrt(n * t) - 1) ** 2)
    else:
        expected = np.exp(-(n // 2) * t**2 / 2)
    assert t > 0 and expected < 1
    assert test.pvalue == pytest.approx(expected, rel=1e-12)
    assert run((y, proba), method="bound", **options) == test


def test_a_sum_of_classes_has_a_larger_bound(multiclass):
    arguments = {"statistic": "unbiased", "kernel": LaplacianKernel(0.2)}
    mean, total = (
        skcalib.significance.distribution_free_bound(
            *multiclass, notion=Classwise(reduce), **arguments
        )
        for reduce in ("mean", "sum")
    )
    assert total.estimate == pytest.approx(3 * mean.estimate, rel=1e-12)
    assert total.pvalue == pytest.approx(mean.pvalue, rel=1e-12)
    # No number of samples is too small.
    assert (
        skcalib.significance.distribution_free_bound([1], [0.5], statistic="biased").pvalue == 1.0
    )
    assert skcalib.significance.distribution_free_bound([1, 1], [0.5, 0.5]).pvalue < 1.0


# --- statistics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_gross_errors_are_seen_and_calibrated_forecasts_are_not(seed):
    m1, m2 = (make_widmann(250, model=m, random_state=seed) for m in ("M1", "M2"))
    for statistic, method in ALL:
        arguments = {"method": method, "n_resamples": 99, "labels": np.arange(10)}
        assert not run((m1.y, m1.y_proba), statistic, **arguments).rejects(0.01)
        if method != "bound":
            assert run((m2.y, m2.y_proba), statistic, **arguments).rejects()


def six_permutations(n_samples, rng):
    """G22: forecasts that are right for every class and every confidence, and wrong as a whole.

    A permutation of (.5, .3, .2) deviates from E[Y|S] by its sign times (.2, -.2, 0). The two with
    the same forecast of a class have opposite signs, so that one class at a time all is well.
    """
    points = np.array(list(permutations([0.5, 0.3, 0.2])))
    signs = np.array([np.linalg.det(np.eye(3)[list(p)]) for p in permutations(range(3))])
    law = points + signs[:, None] * [0.2, -0.2, 0.0]
    which = rng.integers(6, size=n_samples)
    y = (law[which].cumsum(axis=1)[:, :-1] < rng.random((n_samples, 1))).sum(axis=1)
    return points, law, (y, points[which])


@pytest.mark.slow
def test_only_the_canonical_test_sees_the_six_permutations():
    rng, labels = np.random.default_rng(0), [0, 1, 2]
    rejections = dict.fromkeys(NOTIONS, 0)
    for _ in range(20):
        samples = six_permutations(800, rng)[2]
        for notion in NOTIONS:
            rejections[notion] += run(samples, notion=notion, labels=labels).rejects()
    assert rejections["canonical"] == 20
    assert rejections["classwise"] <= 5 and rejections["top_label"] <= 5  # 1 expected, error 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 0.08),
        ({"method": "bootstrap", "n_resamples": 300}, 0.08),
        ({"method": "embedding"}, 0.09),
    ],
    ids=str,
)
def test_rejections_in_the_models_of_w19(options, most):
    """n = 250, ten classes, level .05; 200 data sets, standard error .015."""
    rejections = {}
    for model in ("M1", "M2", "M3"):
        draws = [make_widmann(250, model=model, random_state=seed) for seed in range(200)]
        options = {"labels": np.arange(10), **options}
        tests = [run((d.y, d.y_proba), random_state=k, **options) for k, d in enumerate(draws)]
        rejections[model] = np.mean([test.rejects() for test in tests])
    assert 0.01 <= rejections["M1"] <= most and rejections["M2"] > 0.98 and rejections["M3"] > 0.98


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize(("n_samples", "n_sets"), [(100, 300), (1000, 200)])
@pytest.mark.parametrize("method", ["spectral", "embedding"])
def test_pvalues_under_the_null_are_not_below_uniform(
    n_classes, n_samples, n_sets, method, set_sizes
):
    """Spectra of a third of many rows; the standard error is .013 of 300 data sets, .015 of 200."""
    set_sizes(spectrum_rows=300)
    options = {"method": method, "labels": np.arange(n_classes)}
    sets = [calibrated(n_samples, n_classes, seed) for seed in range(n_sets)]
    pvalues = [
        run(samples, random_state=seed, **options).pvalue for seed, samples in enumerate(sets)
    ]
    assert kstest(pvalues, "uniform", alternative="greater").pvalue > 1e-3
    need_level(pvalues, [0.05], errors=4)


# --- golden values --------------------------------------------------------------------------------


def published(quantity, samples, kernel):
    """A published error, statistic or p-value by our functions, and the tolerance it deserves."""
    name = {"b": "biased", "uq": "unbiased", "ul": "linear"}.get(quantity.rpartition("_")[2])
    size, exact = int((re.findall(r"\d+", quantity) or [2])[0]), {"rel": 1e-9}
    options = {"statistic": name or "block", "block_size": None if name else size, "kernel": kernel}
    if quantity.startswith("pvalue_bound"):
        return run(samples, method="bound", **options).pvalue, exact
    if "pvalue_asympt" in quantity:
        return run(samples, **options).pvalue, exact
    if quantity in ("uq_test_statistic", "pvalue_bootstrap_uq"):
        test = run(samples, kernel=kernel, method="bootstrap", n_resamples=3000)
        if quantity == "uq_test_statistic":
            return test.statistic, exact
        # Monte Carlo errors of their 10,000 draws and our 3,000
        error = np.sqrt(test.pvalue * (1 - test.pvalue) * (1 / 3000 + 1 / 10_000))
        return test.pvalue, {"abs": 4 * error + 1 / 3000}
    y, proba = samples
    if re.fullmatch(r"skce_(b|uq|ul|block\d+)", quantity):
        return skcalib.kernel_calibration_error(y, proba, **options), exact
    h = ResidualKernel.of_problem(check_problem(y, proba), kernel, Canonical())
    values = block_estimates(h, size)[0]
    if quantity.startswith("skce_biased"):
        diagonal = h.diagonal()[: size * len(values)].mean()
        return ((size - 1) * values.mean() + diagonal) / size, exact
    spread = np.std(values, ddof=1)  # of the blocks, or of their mean
    return spread if quantity == "skce_ul_sigma" else spread / np.sqrt(len(values)), exact


@needs_golden
@pytest.mark.parametrize("name", ["bin500", "tri300"])
def test_published_values(name):
    """Errors and tests: both distances, every bandwidth and block size."""
    kinds = ("skce", "pvalue", "uq")
    rows = [row for row in golden_rows(name) if row["quantity"].startswith(kinds)]
    assert len(rows) == 104
    for row in rows:
        kernel = LaplacianKernel(row["params"]["nu"], row["params"]["dist"])
        value, tolerance = published(row["quantity"], golden_input(name), kernel)
        assert value == pytest.approx(row["value"], **tolerance), row


def test_the_normal_law_by_hand():
    """z is the mean over blocks by its standard error, with one degree of freedom less."""
    (y, proba), kernel = calibrated(250, 3, 0), LaplacianKernel(0.3)
    h = ResidualKernel.of_problem(check_problem(y, proba), kernel, Canonical()).matrix()
    values = h[np.arange(0, 250, 2), np.arange(1, 250, 2)]
    z = np.sqrt(125) * values.mean() / values.std(ddof=1)
    test = run((y, proba), "linear", kernel=kernel)
    assert test.statistic == pytest.approx(z, rel=1e-11)
    assert test.pvalue == pytest.approx(norm.sf(z), rel=1e-10)
    few = y[:4], proba[:4]  # two blocks are enough
    test = run(few, "block", kernel=kernel, block_size=2, labels=[0, 1, 2])
    z = np.sqrt(2) * values[:2].mean() / values[:2].std(ddof=1)
    assert test.statistic == pytest.approx(z, rel=1e-11)


# --- edges and refusals ---------------------------------------------------------------------------


@pytest.mark.parametrize(("statistic", "method"), [p for p in ALL if p[0] != "block"])
def test_certain_forecasts(statistic, method):
    """Forecasts of 0 and 1: all right is no evidence; an impossible label refutes."""
    proba = np.array([0.0, 1.0] * 20)
    arguments = {"method": method, "n_resamples": 99, "kernel": LaplacianKernel(0.3)}
    right = run((proba.astype(int), proba), statistic, **arguments)
    assert right.pvalue >= 0.5 and right.estimate == 0
    wrong = run(((proba == np.array([0, 0, 1, 1] * 10)).astype(int), proba), statistic, **arguments)
    assert wrong.pvalue == 0 and wrong.method.endswith("a label has a forecast of 0")


def test_one_uncertain_sample_in_random_blocks(few_are_many):
    certain = np.tile([1.0, 0.0, 1e-14], (300, 1))
    certain[random_blocks(300)[:, 0]] = 0.3, 0.6, 0.1  # one in each
    y = np.zeros(300, dtype=int)
    assert skcalib.kernel_calibration_error(y, certain, labels=[0, 1, 2]) == 0


def test_the_floor_of_a_pvalue_ties_single_classes_and_rounding_errors():
    """Equal blocks have no spread; 4,500 wrong samples have no chance."""
    certain = np.tile([1.0, 0.0, 1e-14], (30, 1))
    certain[0] = 0.3, 0.6, 0.1
    assert run((np.zeros(30, dtype=int), certain), labels=[0, 1, 2]).estimate == 0
    y, proba = np.ones(4500, dtype=int), np.full(4500, 0.01)
    test = run((y, proba), "linear", labels=[0, 1])
    assert test.statistic > 1e6 and test.pvalue == np.finfo(float).tiny
    assert run((y, proba), method="embedding", labels=[0, 1]).pvalue == np.finfo(float).tiny
    for samples in (([1] * 30, np.full(30, 0.5)), ([0] * 30, np.linspace(0, 1, 30))):
        for method in METHODS["unbiased"]:
            test = run(samples, method=method, labels=[0, 1], n_resamples=99)
            assert test.rejects() or method in ("bound", "embedding")
            assert np.isfinite(test.statistic)
