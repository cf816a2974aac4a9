"""The smooth calibration error: relplot's numbers, exact integrals, the fixed point, bias."""

import numpy as np
import pytest
from grids import rotated
from scipy.integrate import trapezoid
from scipy.stats import norm

from skcalib import ForecastSketch, calibration_error_interval, smooth_calibration_error
from skcalib.data.notions import Classwise

CURVES = {
    "calibrated": lambda p: p,
    "too extreme": lambda p: 0.2 + 0.6 * p,
    "square": lambda p: p**2,
    "wave": lambda p: p + 0.1 * np.sin(2 * np.pi * p),
}


def regular(n_samples, curve):
    """Labels and forecasts without random numbers, which other packages make as well."""
    i = np.arange(1, n_samples + 1)
    p = i * 0.6180339887498949 % 1
    return (i * 0.4142135623730951 % 1 < CURVES[curve](p)).astype(int), p


#: smECE, and smECE_sigma with sigma .02 and .1, of relplot 1.0.3 for the data of `regular`.
RELPLOT = {
    ("calibrated", 50): (0.04276606657851467, 0.1190970915922086, 0.02820035944825091),
    ("too extreme", 50): (0.09504177444323454, 0.1771600645519151, 0.09454662332307273),
    ("square", 50): (0.17939892825398843, 0.20521782161595725, 0.18413945833815062),
    ("wave", 50): (0.0765683623142962, 0.15874911775199785, 0.07424974408701236),
    ("calibrated", 1000): (0.01658498862578476, 0.014808236426820293, 0.006127496861394656),
    ("too extreme", 1000): (0.097228203706759, 0.10179927895041238, 0.09702858978713146),
    ("square", 1000): (0.1687628603978119, 0.16877187791905882, 0.16857848275113085),
    ("wave", 1000): (0.05928071916837267, 0.0622971498052056, 0.05552798241320839),
    ("calibrated", 20000): (0.007084890753406547, 0.0006366614916154998, 0.00015609966230535974),
    ("too extreme", 20000): (0.09667454809850805, 0.10014150793403634, 0.09648658736117927),
    ("square", 20000): (0.16662523516221897, 0.1666307750994583, 0.16644830118281678),
    ("wave", 20000): (0.06140304015307033, 0.06352143295769797, 0.05806473920230686),
}


@pytest.mark.parametrize("case", RELPLOT, ids=str)
def test_relplot(case):
    """Up to its ten steps of bisection and its grid of ten points per bandwidth."""
    curve, n_samples = case
    y, p = regular(n_samples, curve)
    errors = [smooth_calibration_error(y, p, bandwidth=h) for h in (None, 0.02, 0.1)]
    np.testing.assert_allclose(errors, RELPLOT[case], rtol=0.012, atol=0.0015)


def exactly(y, p, bandwidth):
    """Kernels at the scores and their mirror images, integrated over 100,000 intervals."""
    t, residual = np.linspace(0, 1, 100_001), 0.0
    for event, score in zip(y, p, strict=True):
        images = np.ravel(2 * np.arange(-8, 9) + np.array([[score], [-score]]))
        near = images[np.abs(images - 0.5) < 0.5 + 9 * bandwidth]
        residual += (event - score) * norm.pdf(t, near[:, None], bandwidth).sum(axis=0)
    return trapezoid(np.abs(residual), t) / len(y)


@pytest.mark.parametrize("bandwidth", [0.001, 0.01, 0.1, 1.0])
def test_exact_integral(bandwidth):
    rng = np.random.default_rng(0)
    p = np.append(rng.random(20), [0.0, 1.0, 0.5])
    y = (rng.random(23) < p**2).astype(int)
    error = smooth_calibration_error(y, p, bandwidth=bandwidth)
    assert error == pytest.approx(exactly(y, p, bandwidth), rel=2e-5)


def test_hand_computed_errors():
    """Residuals of one sign do not cancel: the error is their mean, for every bandwidth."""
    y, p = np.repeat([0, 1], [30, 70]), np.full(100, 0.3)
    for bandwidth in (None, 0.001, 0.1, 1.0):
        error = smooth_calibration_error(y, p, bandwidth=bandwidth)
        assert error == pytest.approx(0.4, abs=1e-8)
    assert smooth_calibration_error([0, 0, 1], [0.0, 0.0, 1.0]) == 0
    assert smooth_calibration_error([1, 0], [0.0, 1.0], bandwidth=0.01) == pytest.approx(1)
    # With sigma = 1 the second term of the series, e^{-pi^2 / 2}, is all that does not cancel.
    far = smooth_calibration_error([1, 0], [0.0, 1.0], bandwidth=1.0)
    assert far == pytest.approx(2 * np.exp(-(np.pi**2) / 2) * 2 / np.pi, rel=1e-4)
    # Opposite errors at a distance much larger than the bandwidth add up, and cancel close by.
    y = np.repeat([1, 0, 1, 0], [30, 20, 20, 30])
    apart, near = np.repeat([0.3, 0.7], 50), np.repeat([0.5, 0.5 + 1e-6], 50)
    assert smooth_calibration_error(y, apart, bandwidth=0.05) == pytest.approx(0.3, rel=1e-3)
    assert smooth_calibration_error(y, near) < 1e-3


@pytest.mark.parametrize(("curve", "n_samples"), rotated(CURVES, [20, 500, 20_000], 2))
def test_the_error_is_its_bandwidth(curve, n_samples):
    y, p = regular(n_samples, curve)
    error = smooth_calibration_error(y, p)
    assert smooth_calibration_error(y, p, bandwidth=error) == pytest.approx(error, rel=1e-5)
    bandwidths = np.geomspace(1e-4, 1, 15)
    sizes = [smooth_calibration_error(y, p, bandwidth=h) for h in bandwidths]
    assert np.all(np.diff(sizes) <= 1e-6)  # smoothing never increases the size


def test_the_error_of_a_known_curve():
    """For C = s^2 it is the mean distance 1/6."""
    rng = np.random.default_rng(1)
    p = rng.random(200_000)
    error = smooth_calibration_error((rng.random(200_000) < p**2).astype(int), p)
    assert error == pytest.approx(1 / 6, abs=0.004)


def test_continuity_and_a_sketch():
    """A tiny change moves every sample to another bin, and the error by as little."""
    y, p = regular(5000, "wave")
    error = smooth_calibration_error(y, p)
    moved = np.clip(p + np.where(np.arange(5000) % 2, 1e-5, -1e-5), 0, 1)
    assert smooth_calibration_error(y, moved) == pytest.approx(error, abs=3e-5)
    sketch = ForecastSketch([0, 1]).fit(y, p)
    assert smooth_calibration_error(sketch) == pytest.approx(error, rel=1e-4)


def test_classes_and_weights(multiclass):
    """The mean or sum over classes, each with its bandwidth; weights are repetitions."""
    y, proba = multiclass
    weight = np.arange(len(y)) % 3
    for bandwidth, notion in ((None, Classwise()), (0.05, Classwise("sum"))):
        each = [
            smooth_calibration_error(y == k, proba[:, k], bandwidth=bandwidth) for k in range(3)
        ]
        options = {"labels": [0, 1, 2], "bandwidth": bandwidth}
        error = smooth_calibration_error(y, proba, notion=notion, **options)
        assert error == pytest.approx(np.mean(each) if bandwidth is None else sum(each), rel=1e-9)
        repeated = np.repeat(np.arange(len(y)), weight)
        expected = smooth_calibration_error(y[repeated], proba[repeated], **options)
        error = smooth_calibration_error(y, proba, sample_weight=0.1 * weight, **options)
        assert error == pytest.approx(expected, rel=1e-7)
    turned = smooth_calibration_error(y == 0, proba[:, 1], pos_label=False)
    assert turned == pytest.approx(smooth_calibration_error(y != 0, proba[:, 1]), rel=1e-9)


def test_its_interval_is_a_jackknife():
    """Which is not valid where the bias is as large as the error."""
    p = np.random.default_rng(4).random(80)
    y = (np.random.default_rng(5).random(80) < p).astype(int)
    jackknife = calibration_error_interval(y, p, metric=smooth_calibration_error)
    assert jackknife.method == "jackknife" and jackknife.low < jackknife.estimate < jackknife.high
    assert not jackknife.valid
