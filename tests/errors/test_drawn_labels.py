"""P-values by labels drawn from the forecasts: exact laws, levels, impossible labels."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from conftest import pairs

from skcalib import calibration_error_interval as interval
from skcalib import kernel_calibration_test as kernel_test
from skcalib.data.notions import Canonical, Classwise, Multilabel, TopLabel
from skcalib.data.problem import Problem
from skcalib.errors.kernel import (
    Embedding,
    ResidualKernel,
    drawn_embedding_pvalue,
    drawn_kernel_pvalue,
    estimate,
)
from skcalib.kernels import GaussianKernel, LaplacianKernel, MatrixKernel
from skcalib.significance import consistency_test

MATRIX = MatrixKernel(GaussianKernel(0.3), [[2.0, 0.5], [0.5, 1.0]])
#: Statistic, block size, columns, notion, kernel, what is special.
LAWS = [
    ("unbiased", None, 2, Canonical(), LaplacianKernel(), ""),
    ("unbiased", None, 3, Canonical(), LaplacianKernel(), "weights"),
    ("unbiased", None, 3, TopLabel(), GaussianKernel(), ""),
    ("unbiased", None, 3, Classwise("sum"), LaplacianKernel(), "weights"),
    ("unbiased", None, 2, Canonical(), MATRIX, ""),
    ("unbiased", None, 2, Canonical(), LaplacianKernel(), "clusters"),
    ("linear", None, 2, Canonical(), LaplacianKernel(), "weights"),
    ("block", 3, 2, Canonical(), LaplacianKernel(), ""),
    ("auto", None, 2, Canonical(), LaplacianKernel(), "random blocks"),
    ("unbiased", None, 2, Multilabel(), LaplacianKernel(), "labels"),
    ("embedding", None, 3, Canonical(), LaplacianKernel(), "weights"),
    ("embedding", None, 3, TopLabel(), LaplacianKernel(), ""),
]


def small_problem(n_columns, special, rng, n_samples=None):
    """Six or seven samples of uneven forecasts, or four with two labels each."""
    if n_samples is None:
        n_samples = 4 if special == "labels" else 9 - n_columns
    forecast = rng.dirichlet(np.full(n_columns, 0.6), n_samples)
    if special == "labels":
        forecast = rng.uniform(0.05, 0.6, (n_samples, 2))
    weight = rng.uniform(0.2, 3, n_samples) if special == "weights" else np.ones(n_samples)
    cluster = np.arange(n_samples) // 2 if special == "clusters" else None
    kinds = {"indicator": special == "labels", "cluster": cluster}
    return Problem(forecast, forecast.copy(), weight, np.arange(n_columns), **kinds)


def all_targets(problem):
    """All labels and their probabilities."""
    n_samples, n_columns = problem.forecast.shape
    if problem.indicator:
        cells = np.array(list(product([0.0, 1.0], repeat=problem.forecast.size)))
        targets = cells.reshape(-1, n_samples, n_columns)
        share = np.where(targets > 0, problem.forecast, 1 - problem.forecast)
        return targets, share.prod(axis=(1, 2))
    codes = np.array(list(product(range(n_columns), repeat=n_samples)))
    return np.eye(n_columns)[codes], problem.forecast[np.arange(n_samples), codes].prod(axis=1)


def check_law(problem, statistic, size, notion, kernel, n_draws, rng, ranks):
    """P(T* >= T) by enumeration, for observations of these ranks: within four standard errors."""
    targets, share = all_targets(problem)
    points = np.eye(len(problem.classes) if isinstance(notion, Canonical) else 2)

    def value(sample):
        if statistic == "embedding":
            return Embedding(sample, kernel, notion, points).error()
        h = ResidualKernel.of_problem(sample, kernel, notion).of_clusters(sample.cluster)
        return estimate(h, statistic, size)

    values = np.array([value(replace(problem, labels_or_target=target)) for target in targets])
    for place in np.argsort(values)[[int(rank * len(values)) for rank in ranks]]:
        labelled = replace(problem, labels_or_target=targets[place])
        draws = {"n_draws": n_draws, "rng": rng}
        if statistic == "embedding":
            embedding = Embedding(labelled, kernel, notion, points)
            pvalue = drawn_embedding_pvalue(labelled, embedding, notion, **draws)
        else:
            draws |= {"statistic": statistic, "block_size": size}
            pvalue = drawn_kernel_pvalue(labelled, kernel, notion, **draws)
        exact = min(share[values >= values[place] - 1e-12].sum(), 1.0)
        assert abs(pvalue - exact) < 4 * np.sqrt(exact * (1 - exact) / n_draws) + 1.1 / n_draws


@pytest.mark.parametrize(("statistic", "size", "n_columns", "notion", "kernel", "special"), LAWS)
def test_draws_have_the_law_of_all_labels(
    statistic, size, n_columns, notion, kernel, special, set_sizes
):
    if special == "random blocks":
        set_sizes(paired_samples=5, pair_block_samples=3)
    set_sizes(kernel_rows=2)  # strips of rows that begin and end within blocks
    rng = np.random.RandomState(3)
    problem = small_problem(n_columns, special, rng)
    check_law(problem, statistic, size, notion, kernel, 4000, rng, (0, 0.5, 0.95))


def test_draws_of_every_kind_have_the_law_of_all_labels(set_sizes):
    """The same for three or four samples, or two with two labels each, all kinds in one test."""
    set_sizes(paired_samples=2, pair_block_samples=2)
    rng = np.random.RandomState(0)
    for statistic, size, n_columns, notion, kernel, special in LAWS:
        problem = small_problem(
            n_columns, special, rng, 2 if special == "labels" else 6 - n_columns
        )
        check_law(problem, statistic, size, notion, kernel, 600, rng, (0.5, 0.75))


def test_only_labels_of_heavy_rows_are_drawn():
    """Of even odds, the first 300: by draws of the sum of their residuals, as all are neighbours.

    The 100 light rows keep their labels, all 1.
    """
    weight, n_draws = np.repeat([1.0, 0.3], [300, 100]), 300
    y, rng = np.repeat([0, 1, 1], [160, 140, 100]), np.random.RandomState(0)
    proba = np.full((400, 2), 0.5)
    problem = Problem(proba, np.eye(2)[y], weight, np.arange(2))
    options = {"statistic": "unbiased", "block_size": None, "n_draws": n_draws, "rng": rng}
    pvalue = drawn_kernel_pvalue(problem, LaplacianKernel(1e9), Canonical(), **options)
    others = rng.binomial(300, 0.5, 40_000) - 150 + 15.0
    exact = np.mean(np.abs(others) >= abs(140 - 150 + 15.0))
    assert abs(pvalue - exact) < 4 * np.sqrt(exact * (1 - exact) / n_draws)


def rare(rate):
    return lambda rng, n: pairs(rng.beta(0.5, 0.5 / rate - 0.5, n))


def confident(rng, n):
    return np.array([0.99, 0.005, 0.005])[rng.random_sample((n, 3)).argsort(axis=1)]


def u_shaped(rng, n):
    return pairs(rng.beta(0.3, 0.3, n))


LINEAR, BLOCK = {"statistic": "linear"}, {"statistic": "block", "block_size": 10}
NAMED = [{"method": name} for name in ("bootstrap", "multipliers", "embedding")]
#: Name, forecasts, sample size, whether weights are very uneven, arguments.
WORLDS = [
    ("rare", rare(0.02), 50, False, {}),
    ("rare", rare(0.005), 100, False, {"method": "embedding"}),
    ("rare", rare(0.02), 100, False, LINEAR),
    ("confident", confident, 200, False, {}),
    ("confident", confident, 100, False, {"notion": "top_label"}),
    ("confident", confident, 100, False, {"notion": "classwise"}),
    ("weights", rare(0.3), 100, True, LINEAR),
    ("u-shaped", u_shaped, 50, False, {}),
]
STUDY = [("rare", rare(r), n, False, {}) for r in (0.005, 0.02) for n in (50, 100, 200)]
STUDY += [("rare", rare(0.02), n, False, a) for n in (50, 200) for a in (LINEAR, BLOCK, *NAMED)]
STUDY += [("confident", confident, 200, False, a) for a in ({}, LINEAR, BLOCK, *NAMED)]
STUDY += [("weights", rare(0.3), 200, True, LINEAR), ("u-shaped", u_shaped, 50, False, {})]


@pytest.mark.parametrize(
    ("n_sets", "name", "make", "n_samples", "uneven", "arguments"),
    [
        *((60, *world) for world in WORLDS),
        *(pytest.param(400, *world, marks=pytest.mark.slow) for world in STUDY),
    ],
)
def test_level_with_few_uncertain_labels(n_sets, name, make, n_samples, uneven, arguments):
    """Asymptotic laws reject up to .48; the standard error is .028 for 60 sets, .011 for 400."""
    rng, rejections = np.random.RandomState(7), []
    for seed in range(n_sets):
        proba = make(rng, n_samples)
        y = (rng.random_sample((n_samples, 1)) > proba.cumsum(axis=1)[:, :-1]).sum(axis=1)
        weight = np.exp(3 * rng.standard_normal(n_samples)) if uneven else None
        options = {"labels": range(proba.shape[1]), "sample_weight": weight, "n_resamples": 99}
        test = kernel_test(y, proba, random_state=seed, **options, **arguments)
        assert "labels drawn from the forecasts" in test.method
        rejections.append(test.rejects())
    assert np.mean(rejections) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_sets)


def test_no_event_is_judged_by_its_exact_tail():
    """A hundred forecasts of .02: 0 events or 5 and more are as far, .1326 + .0508."""
    test = kernel_test(np.zeros(100, int), np.full(100, 0.02), labels=[0, 1], n_resamples=2000)
    assert abs(test.pvalue - 0.1834) < 4 * np.sqrt(0.1834 * 0.8166 / 2000)


def test_consistency_test_keeps_forecasts_that_leave_few_labels_uncertain():
    rng = np.random.RandomState(0)
    score = rng.uniform(0.01, 0.05, 300)
    y = (rng.random_sample(300) < score).astype(int)
    for forecast, many in ((score, False), (10 * score, True)):
        test = consistency_test(y, forecast, n_resamples=9)
        assert test == consistency_test(y, forecast, n_resamples=9, resample_forecasts=many)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["kernel", "embedding"])
def test_lower_limits_of_calibrated_rare_events(metric):
    """Rate .01, n = 200: .07 at most, of 100 sets (standard error .022); .28 without draws."""
    rng, above = np.random.RandomState(0), 0
    options = {"locations": pairs(np.array([0.01, 0.1]))} if metric == "embedding" else {}
    for _ in range(100):
        score = rng.beta(0.5, 49.5, 200)
        y = (rng.random_sample(200) < score).astype(int)
        limits = interval(y, score, metric=metric, labels=[0, 1], n_resamples=99, **options)
        above += limits.low > 0
    assert above <= 7
