"""The kernel calibration error of Gaussian forecasts: quadrature, identities, level and power."""

from itertools import combinations_with_replacement
from math import exp

import numpy as np
import pytest
from scipy.integrate import quad

from skcalib import kernel_calibration_error_gaussian, kernel_calibration_test_gaussian
from skcalib.errors.kernel import random_blocks


def sample(n_samples, seed, *, spread=1.0, shift=0.0):
    """Calibrated forecasts, or with a wrong variance or mean."""
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=n_samples), rng.uniform(0.2, 2, n_samples)
    y = rng.normal(mean, np.sqrt(variance))
    return y, mean + shift, variance * spread


def h_by_quadrature(i, j, y, mean, variance, nu, scale):
    def kappa(a, b):
        return exp(-((a - b) ** 2) / (2 * scale**2))

    def average(function, m, v):
        deviation = np.sqrt(v)
        scale = deviation * np.sqrt(2 * np.pi)  # many times faster than scipy.stats.norm.pdf
        return quad(
            lambda z: function(z) * exp(-((z - m) ** 2) / (2 * v)) / scale,
            m - 9 * deviation,
            m + 9 * deviation,
        )[0]

    both = average(
        lambda z: average(lambda x: kappa(z, x), mean[j], variance[j]), mean[i], variance[i]
    )
    left = average(lambda z: kappa(z, y[j]), mean[i], variance[i])
    right = average(lambda z: kappa(y[i], z), mean[j], variance[j])
    deviations = np.sqrt(variance[[i, j]])
    wasserstein = np.hypot(mean[i] - mean[j], deviations[0] - deviations[1])
    return np.exp(-wasserstein / nu) * (kappa(y[i], y[j]) - left - right + both)


def test_closed_forms_against_quadrature():
    y, mean, variance = sample(6, 0, spread=0.5)
    h = np.zeros((6, 6))
    for i, j in combinations_with_replacement(range(6), 2):
        h[i, j] = h[j, i] = h_by_quadrature(i, j, y, mean, variance, 0.7, 0.9)
    options = {"forecast_bandwidth": 0.7, "target_bandwidth": 0.9}
    off = h.sum() - np.trace(h)
    found = {
        name: kernel_calibration_error_gaussian(y, mean, variance, statistic=name, **options)
        for name in ("biased", "unbiased", "linear")
    }
    assert found["biased"] == pytest.approx(h.mean(), rel=1e-7)
    assert found["unbiased"] == pytest.approx(off / 30, rel=1e-7)
    assert found["linear"] == pytest.approx(np.mean([h[0, 1], h[2, 3], h[4, 5]]), rel=1e-7)
    block = kernel_calibration_error_gaussian(
        y, mean, variance, statistic="block", block_size=6, **options
    )
    assert block == pytest.approx(found["unbiased"])
    weight = np.array([1, 2, 1, 0, 1, 3.0])
    weighted = kernel_calibration_error_gaussian(
        y, mean, variance, statistic="biased", sample_weight=weight, **options
    )
    assert weighted == pytest.approx(weight @ h @ weight / weight.sum() ** 2, rel=1e-7)


def test_units_and_origin_do_not_matter():
    y, mean, variance = sample(200, 1, spread=0.5)
    error = kernel_calibration_error_gaussian(y, mean, variance)
    moved = kernel_calibration_error_gaussian(1e3 * y + 1e6, 1e3 * mean + 1e6, 1e6 * variance)
    assert moved == pytest.approx(error, rel=1e-6)


def test_unbiased_is_unbiased_for_calibrated_forecasts():
    draws = [kernel_calibration_error_gaussian(*sample(60, seed)) for seed in range(300)]
    assert abs(np.mean(draws)) < 4 * np.std(draws) / np.sqrt(len(draws))


@pytest.mark.parametrize("method", ["spectral", "multipliers", "asymptotic"])
def test_level_and_power(method):
    options = {"statistic": "linear"} if method == "asymptotic" else {"n_resamples": 300}
    rejected = {"calibrated": 0, "narrow": 0, "shifted": 0}
    n_draws = 100
    for seed in range(n_draws):
        for name, wrong in (
            ("calibrated", {}),
            ("narrow", {"spread": 0.2}),
            ("shifted", {"shift": 1.0}),
        ):
            data = sample(120, seed, **wrong)
            test = kernel_calibration_test_gaussian(*data, method=method, random_state=0, **options)
            assert 0 < test.pvalue <= 1
            rejected[name] += test.rejects()
    assert rejected["calibrated"] <= 0.05 * n_draws + 3 * np.sqrt(0.05 * 0.95 * n_draws)
    least = 0.5 if method == "asymptotic" else 0.95
    assert rejected["shifted"] > least * n_draws
    assert rejected["narrow"] > (0.08 if method == "asymptotic" else 0.95) * n_draws


def test_equal_forecasts_and_one_sample():
    rng = np.random.default_rng(0)
    y = rng.normal(size=100)
    assert abs(kernel_calibration_error_gaussian(y, np.zeros(100), np.ones(100))) < 0.02
    assert kernel_calibration_error_gaussian([1.0], [0.0], [1.0], statistic="biased") > 0


def test_many_samples_take_random_blocks(monkeypatch):
    """The mean of the unbiased estimates of blocks; below the limit nothing changes."""
    rng = np.random.default_rng(0)
    mean, noise = rng.normal(size=(2, 150))
    data = (mean + noise, mean, np.full(150, 0.5))
    scales = {"forecast_bandwidth": 0.5, "target_bandwidth": 1.0}
    exact = kernel_calibration_error_gaussian(*data, **scales)
    assert exact == kernel_calibration_error_gaussian(*data, statistic="unbiased", **scales)
    monkeypatch.setattr("skcalib.errors.kernel.MANY", 100)
    monkeypatch.setattr("skcalib.errors.kernel._FEWEST", 20)
    each = [
        kernel_calibration_error_gaussian(*(a[rows] for a in data), **scales)
        for rows in random_blocks(150)
    ]
    found = kernel_calibration_error_gaussian(*data, **scales)
    assert found == pytest.approx(np.mean(each), rel=1e-9) and found != exact
    test = kernel_calibration_test_gaussian(*data, **scales)
    assert "3 random blocks of 50 samples" in test.method
    assert test.estimate == pytest.approx(found, rel=1e-12)


def test_refusals_of_the_test():
    with pytest.raises(ValueError, match="tested by statistic='auto'"):
        kernel_calibration_test_gaussian(*sample(10, 0), statistic="biased")
    with pytest.raises(ValueError, match="tested by statistic='auto'"):
        kernel_calibration_test_gaussian(*sample(10, 0), method="bound")
    with pytest.raises(ValueError, match="at least 4 samples"):
        kernel_calibration_test_gaussian(*sample(3, 0))
