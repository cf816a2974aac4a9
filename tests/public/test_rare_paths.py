"""Rare branches that no other suite happens to take."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB

import skcalib as s
from skcalib.datasets import make_tempered_simplex
from skcalib.significance import CalibrationTest

DATA = make_tempered_simplex(60, 3, random_state=0)


def test_a_metric_without_a_value_is_refused():
    def nothing(y_true, y_proba, labels=None):
        return np.nan

    with pytest.raises(ValueError, match="The metric returned NaN"):
        s.consistency_test(DATA.y, DATA.y_proba, metric=nothing, n_resamples=9)


def test_levels_of_tests_lie_between_0_and_1():
    test = CalibrationTest(statistic=1.0, pvalue=0.2, estimate=0.1, method="a method")
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1, got 5"):
        test.rejects(5)


def test_a_foreign_recalibrator_that_loses_rows_is_refused():
    foreign = SimpleNamespace(predict_proba=lambda proba: proba[:-1], classes_=np.arange(3))
    with pytest.raises(ValueError, match=r"has shape \(59, 3\), but 60 samples of 3 classes"):
        s.calibration_improvement(DATA.y, DATA.y_proba, foreign)


class OneClass(ClassifierMixin, BaseEstimator):
    """A foreign recalibrator that has learned a single class, whatever it was fitted to."""

    def fit(self, X, y):
        self.classes_ = np.array([1])
        return self

    def predict_proba(self, X):
        return np.ones((len(X), 1))


def test_a_foreign_recalibrator_of_one_class_is_certain():
    model = s.RecalibratedClassifierCV(GaussianNB(), OneClass()).fit(DATA.y_proba, DATA.y)
    found = model.predict_proba(DATA.y_proba)
    np.testing.assert_array_equal(found, np.tile([0.0, 1.0, 0.0], (60, 1)))


def test_one_class_alone_is_nothing_to_assess():
    X = np.zeros((2, 1))
    alone = DummyClassifier().fit(X, ["a", "a"])
    with pytest.raises(ValueError, match="have only one class, 'a'"):
        s.CalibrationErrorEstimator(alone).fit(X, ["a", "a"])


def test_three_models_have_a_table_of_pairs_for_each_quantity():
    forecasts = {f"model {k}": DATA.y_proba ** (1 / k) for k in (1, 2, 3)}
    forecasts = {k: p / p.sum(axis=1, keepdims=True) for k, p in forecasts.items()}
    text = s.ComparisonReport.from_predictions(DATA.y, forecasts).to_text(details=True)
    assert "intervals that hold for all 3 pairs together" in " ".join(text.split())
    for pair in ("model 1 - model 2", "model 1 - model 3", "model 2 - model 3"):
        assert pair in text
