import numpy as np
import pytest
from grids import rotated
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.svm import LinearSVC

from skcalib import CalibrationErrorEstimator, proper_calibration_error, score_decomposition
from skcalib.datasets import make_tempered_simplex
from skcalib.smoothers import SplineSmoother


def test_probabilities_agree_with_the_functions():
    sample = make_tempered_simplex(200, 3, random_state=0)
    methods, notions = ("risk", "cross", "direct"), ("canonical", "top_label", "classwise")
    for method, notion in rotated(methods, notions, 1):
        options = {"method": method, "notion": notion}
        estimator = CalibrationErrorEstimator(**options).fit(sample.y_proba, sample.y)
        error = proper_calibration_error(sample.y, sample.y_proba, **options)
        assert estimator.calibration_error_ == error
    terms = score_decomposition(sample.y, sample.y_proba)
    estimator = CalibrationErrorEstimator().fit(sample.y_proba, sample.y)
    assert estimator.expected_loss_ == terms.loss
    for name in ("refinement", "sharpness", "uncertainty"):
        assert getattr(estimator, f"{name}_") == getattr(terms, name)
    low, high = estimator.confidence_interval_
    assert low < estimator.calibration_error_ < high
    assert estimator.n_features_in_ == 3


def test_interval_follows_the_level_and_the_method():
    sample = make_tempered_simplex(500, 2, random_state=0)

    def fitted(**parameters):
        return CalibrationErrorEstimator(**parameters).fit(sample.y_proba, sample.y)

    widths = []
    for level in (0.5, 0.9, 0.95):
        estimator = fitted(confidence_level=level)
        low, high = estimator.confidence_interval_
        assert 0 < estimator.calibration_error_ - low < high - low
        widths.append(high - low)
    assert widths == sorted(widths) and fitted().confidence_interval_ == (low, high)
    assert fitted(method="cross").standard_error_ == fitted(method="risk").standard_error_
    for level in (1 - 1e-6, 1 - 1e-12):  # the lowest error there is
        assert fitted(confidence_level=level).confidence_interval_[0] == 0
    direct = fitted(method="direct")
    assert direct.confidence_interval_ is None and direct.standard_error_ is None


def test_a_smoother_by_name_has_the_seed_of_the_estimator():
    sample = make_tempered_simplex(300, 2, random_state=0)

    def fitted(smoother, **options):
        estimator = CalibrationErrorEstimator(smoother=smoother, method="cross", **options)
        return estimator.fit(sample.y_proba, sample.y).calibration_error_

    by_seed = [fitted("smooth", random_state=seed) for seed in (1, 2)]
    assert by_seed == [fitted(SplineSmoother(random_state=seed)) for seed in (1, 2)]
    assert fitted(SplineSmoother(random_state=1), random_state=2) == by_seed[0] != by_seed[1]


def test_fitted_frozen_and_cross_validated_classifiers(train_and_test):
    X, y, X_new, y_new = train_and_test
    classifier = LogisticRegression().fit(X, y)
    held_out = CalibrationErrorEstimator(classifier)
    frozen = CalibrationErrorEstimator(FrozenEstimator(classifier), cv=3)
    direct = proper_calibration_error(y_new, classifier.predict_proba(X_new))
    # A frozen classifier stays fitted when cloned, and cv leaves it alone.
    for estimator in (held_out, frozen, clone(frozen)):
        assert estimator.fit(X_new, y_new).calibration_error_ == direct
    estimator = CalibrationErrorEstimator(classifier, cv=3)
    crossed, sparse = (
        clone(estimator).fit(features, y_new) for features in (X_new, csr_array(X_new))
    )
    proba = cross_val_predict(LogisticRegression(), X_new, y_new, cv=3, method="predict_proba")
    expected = proper_calibration_error(y_new, proba)
    assert crossed.calibration_error_ == pytest.approx(expected, rel=1e-9) != direct
    assert crossed.n_features_in_ == X.shape[1]
    assert sparse.calibration_error_ == pytest.approx(expected, abs=1e-5)
    with pytest.raises(NotFittedError, match=r"cv=None needs a fitted classifier.*FrozenEstimator"):
        CalibrationErrorEstimator(LogisticRegression()).fit(X, y)
    with pytest.raises(NotFittedError, match="it has been cloned"):
        clone(held_out).fit(X, y)


def test_decision_values(train_and_test):
    X, y, X_new, y_new = train_and_test
    two, new = y < 2, y_new < 2
    machine = LinearSVC(random_state=0).fit(X[two], y[two])
    estimator = CalibrationErrorEstimator(machine).fit(X_new[new], y_new[new])
    margin = machine.decision_function(X_new[new])
    z = np.clip(margin, *np.quantile(margin, [0.01, 0.99]))
    p = expit(margin / z.std() * np.pi / np.sqrt(3))
    error = proper_calibration_error(y_new[new], p)
    assert estimator.calibration_error_ == pytest.approx(error, rel=1e-9)
    with pytest.raises(ValueError, match="has no predict_proba"):
        CalibrationErrorEstimator(machine, response_method="predict_proba").fit(X_new, y_new)


def test_training_and_evaluation_that_lack_a_class(train_and_test):
    X, y, X_new, y_new = train_and_test
    classifier = LogisticRegression().fit(X[y < 2], y[y < 2])
    estimator = CalibrationErrorEstimator(classifier).fit(X_new, y_new)
    assert estimator.classes_.tolist() == [0, 1, 2] and estimator.calibration_error_ > 0.1
    infinite = CalibrationErrorEstimator(classifier, loss="log").fit(X_new, y_new)
    assert infinite.calibration_error_ == np.inf
    assert infinite.confidence_interval_ == (np.inf, np.inf)
    two = y_new < 2
    classifier = LogisticRegression().fit(X, y)
    estimator = CalibrationErrorEstimator(classifier).fit(X_new[two], y_new[two])
    assert np.isfinite(estimator.calibration_error_) and estimator.classes_.tolist() == [0, 1, 2]
