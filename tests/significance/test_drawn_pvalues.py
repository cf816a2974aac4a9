"""P-values of draws: more draws while none is as large, and a valid p-value at every level."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

import skcalib as s
from skcalib.grouping import GroupingLossEstimator
from skcalib.regression import kernel_calibration_test_gaussian
from skcalib.stats.pvalues import drawn_pvalue


def few_labels(n=60, seed=0):
    """Forecasts of a rare event that are ten times too low."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.01, 0.04, n)
    return (rng.random(n) < 10 * p).astype(int), p


def uniform(rng, sizes):
    """Draws of a uniform statistic, with a record of their numbers."""

    def draw(size):
        sizes.append(size)
        return rng.random(size)

    return draw


def test_draws_are_doubled_while_none_is_as_large():
    rng = np.random.default_rng(0)
    for observed, expected in ((0.5, [20]), (2.0, [20, 20, 40, 80, 40]), (1 - 1e-9, None)):
        sizes = []
        p, drawn = drawn_pvalue(uniform(rng, sizes), observed, 20, size=1, most=200)
        assert expected is None or sizes == expected
        assert len(drawn) == sum(sizes) <= 200
        assert p == (1 + np.sum(drawn >= observed)) / (1 + len(drawn))
    sizes = []
    p, _ = drawn_pvalue(uniform(rng, sizes), 2.0, 20, size=1, level=0.03)
    assert sizes == [20, 20] and p == 1 / 41 <= 0.03  # enough for a decision at this level
    sizes = []
    p, _ = drawn_pvalue(uniform(rng, sizes), 2.0, 20, size=1 << 20)
    assert sizes == [20, 20, 24] and p == 1 / 65  # each draw takes a million numbers
    sizes = []
    assert drawn_pvalue(uniform(rng, sizes), 2.0, 300, size=1, most=200)[0] == 1 / 301


def exact_levels(n_draws, most, levels):
    """P(p <= level) for a uniform statistic, by all outcomes at a grid of tails u of the draws."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    u, weights = ((nodes + 1) / 2) ** 4, weights / 2 * 4 * ((nodes + 1) / 2) ** 3  # finer near 0
    total, alive, before = np.zeros(len(levels)), np.ones(len(u)), 0
    size = n_draws
    while True:
        new = size - before
        largest = size == most
        for m in range(0 if largest else 1, new + 1):
            chance = weights @ (alive * binom.pmf(m, new, u))
            total += chance * ((1 + m) / (1 + size) <= levels)
        if largest:
            return total
        alive, before, size = alive * (1 - u) ** new, size, min(2 * size, most)


@pytest.mark.parametrize(("n_draws", "most"), [(9, 9), (9, 72), (19, 100), (4, 256)])
def test_the_level_is_exact(n_draws, most):
    """At every level; and for few draws nothing is lost at the levels that they have."""
    levels = np.sort(np.append(np.linspace(0.001, 1, 200), 1 / (1 + np.arange(1, most + 1))))
    sizes = exact_levels(n_draws, most, levels)
    assert (sizes <= levels + 1e-9).all() and sizes[-1] == pytest.approx(1)
    smallest = exact_levels(n_draws, most, np.array([1 / (1 + most)]))
    assert smallest == pytest.approx(1 / (1 + most), rel=1e-6)
    rng, n_tests = np.random.default_rng(0), 2000
    drawn = [
        drawn_pvalue(uniform(rng, []), exact, n_draws, size=1, most=most)[0]
        for exact in rng.random(n_tests)
    ]
    for level, chance in zip(levels[::20], sizes[::20], strict=True):
        error = np.sqrt(chance * (1 - chance) / n_tests)
        assert abs(np.mean(np.array(drawn) <= level) - chance) <= 4 * error + 1e-12


def of_all_labels(statistic, p):
    """Statistics of all labels, and their probabilities."""
    labels = np.array(list(product([0, 1], repeat=len(p))))
    chances = np.where(labels == 1, p, 1 - p).prod(axis=1)
    return labels, np.array([statistic(y) for y in labels]), chances


@pytest.mark.parametrize(
    "test",
    [
        s.significance.cumulative_test,
        partial(s.significance.cumulative_test, statistic="kuiper"),
        s.significance.spiegelhalter_test,
        partial(s.hosmer_lemeshow_test, n_bins=3),
        partial(s.significance.logistic_calibration_test, hypothesis="intercept"),
        s.kernel_calibration_test,
    ],
    ids=["cumulative", "kuiper", "spiegelhalter", "hosmer_lemeshow", "intercept", "kernel"],
)
def test_tiny_pvalues_are_those_of_all_labels(test):
    """Nine labels: p-values below one over the draws, to the error of the draws."""
    p = np.array([0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.12])

    def statistic(y):
        if test is s.kernel_calibration_test:
            return s.kernel_calibration_error(y, p)
        return abs(test(y, p, n_resamples=0).statistic)

    labels, values, chances = of_all_labels(statistic, p)
    tails = np.array([chances[values >= value * (1 - 1e-9)].sum() for value in values])
    for wanted in (1e-4, 1e-3):
        here = int(np.argmin(np.abs(np.log(tails / wanted))))
        exact = float(tails[here])
        assert wanted / 3 < exact < 3 * wanted
        pvalues = [test(labels[here], p, random_state=seed).pvalue for seed in range(3)]
        assert min(pvalues) > 1e-5 * (1 - 1e-4)
        # p-values of one or two draws that are as large: within a factor, and below the first floor
        assert exact / 12 < np.exp(np.mean(np.log(pvalues))) < 6 * exact
        assert wanted > 5e-4 or min(pvalues) < 1 / 1000


GROUPS = np.repeat(np.arange(30), 2)
CALLS = {
    "cumulative_test": lambda y, p: s.significance.cumulative_test(y, p),
    "hosmer_lemeshow_test": lambda y, p: s.hosmer_lemeshow_test(y, p),
    "spiegelhalter_test": lambda y, p: s.significance.spiegelhalter_test(y, p),
    "logistic_calibration_test": lambda y, p: s.significance.logistic_calibration_test(y, p),
    "cumulative_test of clusters": lambda y, p: s.significance.cumulative_test(
        np.tile(y, 2), np.tile(p, 2), groups=np.append(GROUPS, GROUPS + 30)
    ),
    "kernel_calibration_test": lambda y, p: s.kernel_calibration_test(y, p),
    "multipliers": lambda y, p: s.kernel_calibration_test(
        np.tile(y, 3), np.tile(p, 3), method="multipliers"
    ),
    "embedding": lambda y, p: s.kernel_calibration_test(y, p, method="embedding"),
    "embedding of clusters": lambda y, p: s.kernel_calibration_test(
        np.tile(y, 4), np.tile(p, 4), method="embedding", groups=np.arange(240) // 2
    ),
    "consistency_test": lambda y, p: s.significance.consistency_test(
        y, p, metric=s.ks_calibration_error, n_resamples=99, random_state=0
    ),
    "corp_test": lambda y, p: s.errors.corp_test(y, p, n_resamples=99),
    "corp_test of a sketch": lambda y, p: s.errors.corp_test(
        s.ForecastSketch([0, 1]).fit(y, p), n_resamples=99
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_pvalue_of_draws_falls_below_its_first_floor(name):
    y, p = few_labels()
    test = CALLS[name](y, p)
    floor = 1 / 100 if name.startswith(("consistency", "corp")) else 1 / 1000
    assert 1e-5 * (1 - 1e-4) < test.pvalue < floor / 2
    assert CALLS[name](y, p).pvalue == test.pvalue


def test_permutations_and_signs_of_regions():
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=400)
    z = rng.normal(size=400)
    y = (rng.random(400) < expit(z + 3 * (x - 0.5))).astype(int)
    p = expit(0.8 * z)
    options = {"method": "partition", "partitioner": "stump", "n_bins": 4, "random_state": 0}
    for groups in (None, np.arange(400) // 2):
        estimator = GroupingLossEstimator(n_permutations=49, **options)
        clusters = {} if groups is None else {"groups": groups}
        pvalue = estimator.fit(x[:, None].astype(float), y, y_proba=p, **clusters).pvalue_
        assert 0 < pvalue < 1 / 200


def test_the_draws_of_a_gaussian_kernel_test():
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=60), np.full(60, 0.2)
    outcome = mean + 0.5 + 0.45 * rng.normal(size=60)
    test = kernel_calibration_test_gaussian(
        outcome, mean, variance, method="multipliers", n_resamples=99, random_state=0
    )
    assert test.pvalue < 1 / 300
