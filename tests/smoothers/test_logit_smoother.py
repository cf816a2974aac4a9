"""The smoother that averages recalibration maps, out of fold."""

import numpy as np
import pytest
from dense_directions import labels_from, world
from sklearn.model_selection import KFold

from skcalib import proper_calibration_error
from skcalib.links.averaging import ModelAverage
from skcalib.smoothers import LogitSmoother

FEW = "399 samples of 20 classes are fewer than 20 per class: .* notion='top_label'"


@pytest.mark.parametrize("n_classes", [2, 4])
def test_held_out_rows_are_the_averaged_maps_of_the_other_folds(n_classes):
    """Of `ModelAverage`, fitted to the other folds and applied to this one."""
    y, forecast, _ = world("slope", 300, n_classes, seed=0)
    target, weight = np.eye(n_classes)[y], np.random.default_rng(0).uniform(0.5, 2, 300)
    cv = KFold(4, shuffle=True, random_state=0)
    expected = np.empty_like(forecast)
    for train, test in cv.split(forecast):
        average = ModelAverage().fit(forecast[train], target[train], weight[train])
        expected[test] = average.map(forecast[test])
    fitted = LogitSmoother(cv=cv).fit(forecast, target, weight)
    np.testing.assert_allclose(fitted.smooth_held_out(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fitted.smooth(), expected, rtol=1e-9, atol=1e-12)
    whole = ModelAverage().fit(forecast, target, weight).map
    np.testing.assert_allclose(fitted.predict(forecast[:9]), whole(forecast[:9]), rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_label_distributions_and_nothing_else(n_classes):
    rng = np.random.default_rng(0)
    forecast, target = rng.dirichlet(np.ones(n_classes), (2, 200))
    fitted = LogitSmoother().fit(forecast, target)
    assert np.abs(fitted.smooth() - target.mean(axis=0)).max() < 0.2
    target[0, :2] = [-0.5, 1 - target[0, 2:].sum() + 0.5]
    for wrong in (target, 2 * np.abs(target), target[:, :1], target[:, 0]):
        with pytest.raises(ValueError, match="smooths one-hot labels|one forecast column per"):
            fitted.smooth(wrong)


def test_few_samples_of_many_classes_are_warned_of():
    """The same words as of the default error; not with enough samples, nor for few classes."""
    rng = np.random.default_rng(0)
    forecast = rng.dirichlet(np.ones(20), 400)
    y = labels_from(forecast, rng)
    target = np.eye(20)[y]
    with pytest.warns(UserWarning, match=FEW) as of_smoother:
        LogitSmoother().fit(forecast[:399], target[:399])
    with pytest.warns(UserWarning, match=FEW) as of_error:
        proper_calibration_error(y[:399], forecast[:399], labels=np.arange(20))
    assert {str(w.message) for w in of_smoother} == {str(w.message) for w in of_error}
    LogitSmoother().fit(forecast, target)  # enough: a warning would be an error here
    proper_calibration_error(y, forecast, labels=np.arange(20))
    fewer = forecast[:50, :19] / forecast[:50, :19].sum(axis=1, keepdims=True)
    LogitSmoother().fit(fewer, np.eye(19)[np.arange(50) % 19])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_that_is_missing_in_a_fold(n_classes):
    """Folds without a label of the last class, and data without one: probabilities, never a NaN."""
    rng = np.random.default_rng(3)
    forecast = rng.dirichlet(np.ones(n_classes), 120)
    y = rng.integers(n_classes - 1, size=120)
    target = np.eye(n_classes)
    some = y.copy()
    some[100:] = n_classes - 1  # the last fold of KFold holds all of them
    for labels in (some, y):
        fitted = LogitSmoother(cv=KFold(6)).fit(forecast, target[labels])
        for rows in (fitted.smooth_held_out(), fitted.predict(np.eye(n_classes))):
            assert np.isfinite(rows).all() and (rows >= 0).all()
            np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-9)
    fitted = LogitSmoother(cv=KFold(6)).fit(forecast, target[some])
    # Trained without the class, the last fold gets little of it.
    held_out = fitted.smooth_held_out()[100:, -1]
    assert held_out.mean() < 0.5 * forecast[100:, -1].mean()
