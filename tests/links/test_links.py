"""The parametric map of the default smoother."""

import numpy as np
import pytest
from dense_directions import labels_from
from scipy.special import logit, softmax
from sklearn.linear_model import LogisticRegression

from skcalib.links.temperature import halley
from skcalib.recalibration import BiasCorrectedTemperatureScaling


def fit(forecast, y, weight=None):
    labels = np.arange(forecast.shape[1])
    return BiasCorrectedTemperatureScaling(labels=labels).fit(forecast, y, weight)


def test_binary_is_logistic_regression_on_the_logit(binary):
    """Up to a prior of a hundredth of a sample: slope and intercept of Platt's map on logits."""
    y, proba = binary
    inside = (proba[:, 1] > 0) & (proba[:, 1] < 1)
    y, proba = y[inside], proba[inside]
    z = logit(proba[:, 1:])
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(z, y)
    link = fit(proba, y)
    assert 1 / link.temperature_ == pytest.approx(model.coef_[0, 0], rel=1e-3)
    assert np.diff(link.intercept_) == pytest.approx(model.intercept_, abs=1e-3)
    np.testing.assert_allclose(link.predict_proba(proba), model.predict_proba(z), atol=1e-3)


def test_biases_come_where_the_classes_ask_for_them():
    """Constant forecasts keep the frequencies; those of several classes are shrunken."""
    rng = np.random.default_rng(0)
    forecast = rng.dirichlet(np.ones(4), 5000)
    bias = np.array([1.0, -0.5, -0.5, 0.0])
    y = labels_from(softmax(np.log(forecast) + bias, axis=1), np.random.default_rng(1))
    found = fit(forecast, y).intercept_
    np.testing.assert_allclose(found - found.mean(), bias - bias.mean(), atol=0.12)
    for n_classes in (2, 4):
        y = np.repeat(np.arange(n_classes), np.arange(1, n_classes + 1) * 100)
        forecast = np.full((len(y), n_classes), 1 / n_classes)
        rows = fit(forecast, y).predict_proba(forecast)
        np.testing.assert_allclose(rows, rows[:1] + 0 * rows, rtol=1e-12)
        np.testing.assert_allclose(rows[0], np.bincount(y) / len(y), atol=0.01)


def test_halley_at_the_optimum_ends_at_once():
    """A step of the size of rounding left the bracket, and the search started again at an end."""
    calls = []

    def derivatives(beta):
        calls.append(beta)
        return np.array([2e-14, 1.8e3, -4.6e3]) if beta == 0.5 else np.array([beta - 0.5, 1, 0])

    assert halley(derivatives, 0.5, 1e-4, 1e4) == (0.5, 1)
    assert calls == [0.5]
