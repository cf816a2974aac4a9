"""Simulations: means of estimates against known truths, with their Monte Carlo errors.

Seeds are fixed, so nothing here fails by chance; bounds of four standard errors say what the
numbers would have to look like to be called biased.
"""

import numpy as np
import pytest
from scipy.stats import binom, ttest_1samp

from skcalib import proper_calibration_error, sharpness
from skcalib.datasets import make_grouping_problem, make_tempered_simplex
from skcalib.smoothers import DirichletKernel, LevelSets, NearestNeighborsSmoother, QuantileBins


@pytest.fixture(scope="module")
def p24():
    """20 data sets of n = 2000, K = 2, h = .01: estimates by loss and method, and the truth."""
    estimates = {}
    for seed in range(20):
        world = make_tempered_simplex(2000, 2, random_state=seed)
        for loss in ("brier", "log"):
            for method in ("direct", "risk"):
                error = proper_calibration_error(
                    world.y, world.y_proba, loss=loss, smoother=DirichletKernel(0.01), method=method
                )
                estimates.setdefault((loss, method), []).append(error)
    return {key: np.array(values) for key, values in estimates.items()}, world.truth


def test_mean_of_p24(p24):
    """The direct log error of 20 data sets, in the published window (truth .0366)."""
    assert 0.029 <= p24[0]["log", "direct"].mean() <= 0.040


@pytest.mark.parametrize("loss", ["brier", "log"])
def test_direct_beats_the_entropy_form_of_risk(p24, loss):
    """|direct - truth| < |risk - truth|, for the mean and data set by data set on average.

    "risk" as P24 has it: mean loss minus mean entropy of the smoothed labels, which is what
    `DirichletKernel` does by default.
    """
    values, truth = p24[0], p24[1][loss]
    direct, risk = values[loss, "direct"], values[loss, "risk"]
    assert abs(direct.mean() - truth) < abs(risk.mean() - truth)
    assert np.abs(direct - truth).mean() < np.abs(risk - truth).mean()


LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.95])
CURVE = np.array([0.2, 0.25, 0.5, 0.6, 0.9])  # E[Y|S] at the levels


@pytest.mark.parametrize(("level", "frequency"), [*zip(LEVELS, CURVE, strict=True)])
def test_cross_is_unbiased_where_the_smoother_is(level, frequency):
    """Twenty equal forecasts in a bin: exact expectations over the number of events.

    By the variance of a leave-one-out mean of 20, "direct" is too high and "risk" too low.
    """
    truth, variance = (frequency - level) ** 2, frequency * (1 - frequency) / 19
    for method, bias in (("cross", 0), ("direct", variance), ("risk", -variance)):
        options = {"smoother": QuantileBins(1), "method": method, "labels": [0, 1]}
        estimates = [
            proper_calibration_error(np.arange(20) < k, np.full(20, level), **options)
            for k in range(21)
        ]
        expected = binom.pmf(np.arange(21), 20, frequency) @ estimates
        assert expected == pytest.approx(truth + bias, abs=1e-12)


SMOOTHERS = [None, "isotonic", QuantileBins(8), NearestNeighborsSmoother()]
SMOOTHERS += [DirichletKernel(0.02, "loss")]


@pytest.mark.parametrize("smoother", SMOOTHERS, ids=repr)
def test_risk_is_a_lower_bound_in_expectation(smoother):
    """For any smoother: the mean of 60 estimates, n = 300, is not above the truth."""
    estimates = []
    for seed in range(60):
        world = make_tempered_simplex(300, 2, random_state=seed)
        estimates.append(proper_calibration_error(world.y, world.y_proba, smoother=smoother))
    assert ttest_1samp(estimates, world.truth["brier"]).statistic < 4


def test_sharpness_does_not_grow_through_a_layer():
    """P24 theorem 6.2: features explain at least what the score that is made of them explains."""
    problem = make_grouping_problem(2000, random_state=0)
    for smoother in (NearestNeighborsSmoother(60), DirichletKernel(0.005, refinement="loss")):
        of_features = sharpness(problem.y, problem.X, transform="simplex", smoother=smoother)
        of_scores = sharpness(problem.y, problem.y_proba, smoother=smoother)
        of_decisions = sharpness(problem.y, np.round(problem.y_proba[:, 1]), smoother=LevelSets())
        assert of_features > of_scores > of_decisions > 0
        expected = 0.25 - np.mean(problem.posterior[:, 0] * problem.posterior[:, 1])
        assert of_features == pytest.approx(expected, abs=0.01)


@pytest.mark.slow
def test_the_bandwidth_makes_the_kernel_consistent():
    """The direct error with a leave-one-out bandwidth comes closer as n grows."""
    distance = []
    for n_samples in (200, 800, 3200):
        errors = []
        for seed in range(12):
            world = make_tempered_simplex(n_samples, 2, random_state=seed)
            error = proper_calibration_error(
                world.y, world.y_proba, smoother="kernel", method="direct"
            )
            errors.append(abs(error - world.truth["brier"]))
        distance.append(np.mean(errors))
    assert distance[0] > distance[1] > distance[2]
