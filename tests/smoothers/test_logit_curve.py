"""The curve that the default smoother adds where its map leaves a pattern behind."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from skcalib import proper_calibration_error
from skcalib.recalibration import BiasCorrectedTemperatureScaling
from skcalib.smoothers import LogitSmoother, logit
from skcalib.smoothers.logit import AddedCurve, _equal_information, _hats
from skcalib.testing import check_smoother


def bent_world(n_samples, n_classes, seed):
    """The most likely class is right with a probability that is a wave around its confidence."""
    rng = np.random.default_rng(seed)
    forecast = softmax(1.5 * rng.normal(size=(n_samples, n_classes)), axis=1)
    rows, top = np.arange(n_samples), forecast.argmax(axis=1)
    confidence, lowest = forecast[rows, top], 1 / n_classes
    wave = np.sin(2 * np.pi * (confidence - lowest) / (1 - lowest))
    right = confidence + 0.7 * (1 - confidence) * wave
    truth = forecast * ((1 - right) / (1 - confidence))[:, None]
    truth[rows, top] = right
    y = (truth.cumsum(axis=1) < rng.uniform(size=(n_samples, 1))).sum(axis=1)
    square = np.sum((truth - forecast) ** 2, axis=1)
    return y, forecast, square.mean() / (2 if n_classes == 2 else 1)


def calibrated(n_samples, n_classes, seed):
    rng = np.random.default_rng(seed)
    forecast = softmax(1.5 * rng.normal(size=(n_samples, n_classes)), axis=1)
    y = (forecast.cumsum(axis=1) < rng.uniform(size=(n_samples, 1))).sum(axis=1)
    return np.eye(n_classes)[y], forecast


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("method", ["risk", "cross"])
def test_an_error_that_no_temperature_can_see(n_classes, method):
    """Where the map sees next to nothing, the curve finds the error; 4 standard errors allowed."""
    y, forecast, truth = bent_world(20_000, n_classes, seed=0)
    errors = [
        proper_calibration_error(y, forecast, smoother=LogitSmoother(curve=curve), method=method)
        for curve in (False, True)
    ]
    assert errors[0] < 0.35 * truth
    assert abs(errors[1] - truth) < 0.2 * truth


@pytest.mark.parametrize("n_classes", [2, 5])
def test_calibrated_forecasts_rarely_get_a_curve(n_classes):
    """Level .01; the standard error over 400 data sets is .005, and the test is conservative."""
    let_in = 0
    for seed in range(400):
        target, forecast = calibrated(400, n_classes, seed)
        weight = np.ones(len(target))
        scaling = BiasCorrectedTemperatureScaling(labels=np.arange(n_classes))
        mapped = scaling.fit(forecast, target.argmax(axis=1)).predict_proba(forecast)
        let_in += AddedCurve().fit(mapped, target, weight).knots_ is not None
    assert let_in / 400 <= 0.02


def test_smoother_laws_hold_with_a_curve(monkeypatch):
    monkeypatch.setattr(logit, "_LEVEL", 2.0)
    monkeypatch.setattr(logit, "_INFORMATION", 0.5)
    target, forecast = calibrated(60, 3, seed=0)
    assert AddedCurve().fit(forecast, target, np.ones(60)).knots_ is not None
    check_smoother(LogitSmoother(cv=4), n_classes=(2, 3))


def test_hat_functions_interpolate():
    knots = np.array([-2.0, 0.5, 1.0, 4.0])
    odds, values = np.linspace(-6, 6, 101), np.array([0.3, -1.0, 2.0, 0.1])
    hats = _hats(odds, knots)
    np.testing.assert_allclose(hats.sum(axis=1), 1, atol=1e-15)
    np.testing.assert_allclose(hats @ values, np.interp(odds, knots, values), atol=1e-14)


def test_knots_share_the_information():
    odds = np.random.default_rng(0).normal(size=5000)
    information = expit(odds) * expit(-odds)
    knots = _equal_information(odds, information, 8)
    parts = np.histogram(odds, np.r_[-np.inf, knots, np.inf], weights=information)[0]
    np.testing.assert_allclose(parts[1:-1], information.sum() / 8, rtol=0.01)
    np.testing.assert_allclose(parts[[0, -1]], information.sum() / 16, rtol=0.02)
    assert len(_equal_information(np.zeros(100), np.ones(100), 8)) == 1


def test_curve_maximises_its_penalised_likelihood_for_the_other_classes_too():
    """Other classes keep their proportions; the class itself follows t + f(t)."""
    y, forecast, _ = bent_world(4000, 3, seed=1)
    added = AddedCurve().fit(forecast, np.eye(3)[y], np.ones(4000))
    assert added.pvalue_ < 0.01
    bent = added.apply(forecast)
    rows, top = np.arange(4000), forecast.argmax(axis=1)
    before, after = forecast[rows, top], bent[rows, top]
    shift = np.interp(np.log(before / (1 - before)), added.knots_, added.values_)
    np.testing.assert_allclose(after, expit(np.log(before / (1 - before)) + shift), atol=1e-12)
    others = np.arange(3) != top[:, None]
    kept = (bent / forecast)[others].reshape(-1, 2)
    np.testing.assert_allclose(kept[:, 0], kept[:, 1], rtol=1e-9)
    np.testing.assert_allclose(bent.sum(axis=1), 1, atol=1e-12)


def test_no_curve_without_information():
    """Few samples, one class, forecasts of exactly 0 and 1, and one distinct forecast."""
    corners = np.eye(3)[np.arange(600) % 3]
    cases = [
        (corners, corners),
        (np.full((600, 2), 0.5), np.eye(2)[np.arange(600) % 2]),
        (np.full((5, 2), 0.5), np.eye(2)[np.zeros(5, dtype=int)]),
    ]
    for forecast, target in cases:
        added = AddedCurve().fit(forecast, target, np.ones(len(target)))
        assert added.knots_ is None and added.pvalue_ == 1.0
        assert added.apply(forecast) is forecast


def test_zeros_and_ones_pass_through_a_curve():
    y, forecast, _ = bent_world(4000, 2, seed=1)
    forecast[:2] = [[1, 0], [0, 1]]
    added = AddedCurve().fit(forecast, np.eye(2)[y], np.ones(4000))
    assert added.knots_ is not None
    bent = added.apply(forecast)
    np.testing.assert_array_equal(bent[:2], forecast[:2])
    np.testing.assert_allclose(bent.sum(axis=1), 1, atol=1e-12)


def test_few_samples_of_many_classes_are_warned_of():
    target, forecast = calibrated(399, 20, seed=0)
    with pytest.warns(UserWarning, match="399 samples of 20 classes are less than 20 per class"):
        LogitSmoother().fit(forecast, target)
    LogitSmoother().fit(
        forecast[:380, :19] / forecast[:380, :19].sum(axis=1)[:, None],
        np.eye(19)[np.arange(380) % 19],
    )
    target, forecast = calibrated(400, 20, seed=0)
    LogitSmoother().fit(forecast, target)  # enough: no warning, which would be an error here
