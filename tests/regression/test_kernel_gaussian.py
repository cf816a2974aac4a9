"""The kernel calibration error of Gaussian forecasts: quadrature, identities, level and power."""

from itertools import combinations_with_replacement
from math import exp

import numpy as np
import pytest
from scipy.integrate import quad

from skcalib.errors.kernel import random_blocks
from skcalib.regression import kernel_calibration_error_gaussian, kernel_calibration_test_gaussian


def sample(n_samples, seed, *, spread=1.0, shift=0.0):
    """Calibrated forecasts, or with a wrong variance or mean."""
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=n_samples), rng.uniform(0.2, 2, n_samples)
    return rng.normal(mean, np.sqrt(variance)), mean + shift, variance * spread


def h_by_quadrature(i, j, y, mean, variance, nu, scale):
    def kappa(a, b):
        return exp(-((a - b) ** 2) / (2 * scale**2))

    def average(function, k):
        """Over the forecast of a sample; many times faster than with scipy.stats.norm.pdf."""
        m, v = mean[k], variance[k]
        reach = 9 * np.sqrt(v)
        value = quad(lambda z: function(z) * exp(-((z - m) ** 2) / (2 * v)), m - reach, m + reach)
        return value[0] / np.sqrt(2 * np.pi * v)

    both = average(lambda z: average(lambda x: kappa(z, x), j), i)
    left = average(lambda z: kappa(z, y[j]), i)
    right = average(lambda z: kappa(y[i], z), j)
    wasserstein = np.hypot(mean[i] - mean[j], np.sqrt(variance[i]) - np.sqrt(variance[j]))
    return np.exp(-wasserstein / nu) * (kappa(y[i], y[j]) - left - right + both)


def test_closed_forms_against_quadrature():
    y, mean, variance = sample(6, 0, spread=0.5)
    h = np.zeros((6, 6))
    for i, j in combinations_with_replacement(range(6), 2):
        h[i, j] = h[j, i] = h_by_quadrature(i, j, y, mean, variance, 0.7, 0.9)
    weight = np.array([1, 2, 1, 0, 1, 3.0])
    off = (h.sum() - np.trace(h)) / 30
    for options, expected in (
        ({"statistic": "biased"}, h.mean()),
        ({"statistic": "unbiased"}, off),
        ({"statistic": "linear"}, np.mean([h[0, 1], h[2, 3], h[4, 5]])),
        ({"statistic": "block", "block_size": 6}, off),
        ({"statistic": "biased", "sample_weight": weight}, weight @ h @ weight / weight.sum() ** 2),
    ):
        options |= {"forecast_bandwidth": 0.7, "target_bandwidth": 0.9}
        error = kernel_calibration_error_gaussian(y, mean, variance, **options)
        assert error == pytest.approx(expected, rel=1e-7)


def test_units_biases_and_edges():
    """Units and origin do not matter; calibrated forecasts have no error on average."""
    y, mean, variance = sample(200, 1, spread=0.5)
    moved = kernel_calibration_error_gaussian(1e3 * y + 1e6, 1e3 * mean + 1e6, 1e6 * variance)
    assert moved == pytest.approx(kernel_calibration_error_gaussian(y, mean, variance), rel=1e-6)
    draws = [kernel_calibration_error_gaussian(*sample(20, seed)) for seed in range(200)]
    assert abs(np.mean(draws)) < 4 * np.std(draws) / np.sqrt(len(draws))
    y = np.random.default_rng(0).normal(size=100)
    assert abs(kernel_calibration_error_gaussian(y, np.zeros(100), np.ones(100))) < 0.02
    assert kernel_calibration_error_gaussian([1.0], [0.0], [1.0], statistic="biased") > 0


@pytest.mark.parametrize("method", ["spectral", "multipliers", "asymptotic"])
def test_wrong_means_and_variances_are_rejected(method):
    options = {"statistic": "linear"} if method == "asymptotic" else {"n_resamples": 200}
    options |= {"method": method, "random_state": 0}
    calibrated, shifted, narrow = (
        kernel_calibration_test_gaussian(*sample(200, 0, **wrong), **options)
        for wrong in ({}, {"shift": 1.0}, {"spread": 0.1})
    )
    assert calibrated.pvalue > 0.05 > 10 * max(shifted.pvalue, narrow.pvalue) / 2
    wrong = sample(200, 0, shift=1.0)
    statistic = options.get("statistic", "unbiased")
    expected = kernel_calibration_error_gaussian(*wrong, statistic=statistic)
    assert shifted.estimate == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spectral", "multipliers", "asymptotic"])
def test_level_and_power(method):
    options = {"statistic": "linear"} if method == "asymptotic" else {"n_resamples": 300}
    options |= {"method": method, "random_state": 0}
    rejected, n_draws = {}, 60
    worlds = {"calibrated": {}, "narrow": {"spread": 0.2}, "shifted": {"shift": 1.0}}
    for name, wrong in worlds.items():
        samples = (sample(120, seed, **wrong) for seed in range(n_draws))
        tests = [
            kernel_calibration_test_gaussian(y, mean, variance, **options)
            for y, mean, variance in samples
        ]
        assert all(0 < test.pvalue <= 1 for test in tests)
        rejected[name] = np.mean([test.rejects() for test in tests])
    assert rejected["calibrated"] <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_draws)
    assert rejected["shifted"] > (0.5 if method == "asymptotic" else 0.95)
    assert rejected["narrow"] > (0.08 if method == "asymptotic" else 0.95)


def test_many_samples_take_random_blocks(set_sizes):
    set_sizes(paired_samples=100, pair_block_samples=20)
    drawn = sample(150, 0, spread=0.5)
    parts = [drawn, *([a[rows] for a in drawn] for rows in random_blocks(150))]
    scales = {"forecast_bandwidth": 0.5, "target_bandwidth": 1.0}
    whole, *blocks = (kernel_calibration_error_gaussian(*part, **scales) for part in parts)
    assert len(blocks) == 3 and whole == pytest.approx(np.mean(blocks), rel=1e-9)


@pytest.mark.parametrize("options", [{"statistic": "biased"}, {"method": "bound"}])
def test_refusals_of_the_test(options):
    with pytest.raises(ValueError, match="tested by statistic='auto'"):
        kernel_calibration_test_gaussian(*sample(10, 0), **options)
