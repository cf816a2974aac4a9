import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from skcalib import CalibrationErrorEstimator, proper_calibration_error, score_decomposition
from skcalib.datasets import make_tempered_simplex


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        600, n_classes=3, n_informative=6, class_sep=0.7, flip_y=0.1, random_state=0
    )
    return X[:300], y[:300], X[300:], y[300:]


def test_probabilities_agree_with_the_functions():
    data = make_tempered_simplex(500, 3, random_state=0)
    for method in ("risk", "cross", "direct"):
        for notion in ("canonical", "top_label", "classwise"):
            estimator = CalibrationErrorEstimator(method=method, notion=notion)
            estimator.fit(data.y_proba, data.y)
            expected = proper_calibration_error(data.y, data.y_proba, method=method, notion=notion)
            assert estimator.calibration_error_ == expected
    terms = score_decomposition(data.y, data.y_proba)
    estimator = CalibrationErrorEstimator().fit(data.y_proba, data.y)
    assert estimator.expected_loss_ == terms.loss
    assert estimator.refinement_ == terms.refinement
    assert estimator.sharpness_ == terms.sharpness
    assert estimator.uncertainty_ == terms.uncertainty
    low, high = estimator.confidence_interval_
    assert low < estimator.calibration_error_ < high
    assert estimator.n_features_in_ == 3


def test_interval_follows_the_level_and_the_method():
    data = make_tempered_simplex(500, 2, random_state=0)

    def width(**parameters):
        fitted = CalibrationErrorEstimator(**parameters).fit(data.y_proba, data.y)
        low, high = fitted.confidence_interval_
        reach = fitted.calibration_error_ - low
        assert 0 < reach < high - low
        return high - low

    assert width(confidence_level=0.5) < width(confidence_level=0.9) < width()
    errors = {
        CalibrationErrorEstimator(method=method).fit(data.y_proba, data.y).standard_error_
        for method in ("cross", "risk")
    }
    assert len(errors) == 1
    for level in (1 - 1e-6, 1 - 1e-12):
        near_zero = CalibrationErrorEstimator(confidence_level=level).fit(data.y_proba, data.y)
        assert near_zero.confidence_interval_[0] == 0  # the lowest error there is
    direct = CalibrationErrorEstimator(method="direct").fit(data.y_proba, data.y)
    assert direct.confidence_interval_ is None and direct.standard_error_ is None


def test_fitted_frozen_and_cross_validated_classifiers(data):
    X, y, X_new, y_new = data
    classifier = LogisticRegression().fit(X, y)
    held_out = CalibrationErrorEstimator(classifier).fit(X_new, y_new)
    frozen = CalibrationErrorEstimator(FrozenEstimator(classifier)).fit(X_new, y_new)
    direct = proper_calibration_error(y_new, classifier.predict_proba(X_new))
    assert held_out.calibration_error_ == frozen.calibration_error_ == direct
    # A frozen classifier stays fitted when cloned, and cv leaves it alone.
    again = clone(CalibrationErrorEstimator(FrozenEstimator(classifier), cv=3)).fit(X_new, y_new)
    assert again.calibration_error_ == direct
    crossed = CalibrationErrorEstimator(classifier, cv=3).fit(X_new, y_new)
    assert crossed.calibration_error_ != direct
    assert crossed.n_features_in_ == X.shape[1]


def test_unfitted_classifier_is_explained(data):
    X, y, *_ = data
    with pytest.raises(NotFittedError, match=r"cv=None needs a fitted classifier.*FrozenEstimator"):
        CalibrationErrorEstimator(LogisticRegression()).fit(X, y)
    fitted = CalibrationErrorEstimator(LogisticRegression().fit(X, y))
    with pytest.raises(NotFittedError, match="it has been cloned"):
        clone(fitted).fit(X, y)


def test_overfitting_is_not_rewarded_by_cross_validation(data):
    """In sample a forest looks sharp and calibrated; out of fold it does not."""
    X, y, *_ = data
    forest = RandomForestClassifier(30, random_state=0)
    out_of_fold = CalibrationErrorEstimator(forest, cv=3).fit(X, y)
    in_sample = CalibrationErrorEstimator(forest.fit(X, y)).fit(X, y)
    assert out_of_fold.expected_loss_ > 3 * in_sample.expected_loss_


def test_sparse_features_go_to_the_classifier(data):
    X, y, *_ = data
    dense = CalibrationErrorEstimator(LogisticRegression(), cv=3).fit(X, y)
    sparse = CalibrationErrorEstimator(LogisticRegression(), cv=3).fit(csr_array(X), y)
    assert sparse.calibration_error_ == pytest.approx(dense.calibration_error_, abs=1e-5)


def test_decision_values(data):
    X, y, X_new, y_new = data
    two = y < 2, y_new < 2
    machine = LinearSVC(random_state=0).fit(X[two[0]], y[two[0]])
    estimator = CalibrationErrorEstimator(machine).fit(X_new[two[1]], y_new[two[1]])
    p = expit(machine.decision_function(X_new[two[1]]))
    assert estimator.calibration_error_ == proper_calibration_error(y_new[two[1]], p)
    with pytest.raises(ValueError, match="has no predict_proba"):
        CalibrationErrorEstimator(machine, response_method="predict_proba").fit(X_new, y_new)
    with pytest.raises(ValueError, match="response_method must be one of"):
        CalibrationErrorEstimator(machine, response_method="predict").fit(X_new, y_new)


def test_class_that_training_lacked(data):
    X, y, X_new, y_new = data
    classifier = LogisticRegression().fit(X[y < 2], y[y < 2])
    estimator = CalibrationErrorEstimator(classifier).fit(X_new, y_new)
    assert estimator.classes_.tolist() == [0, 1, 2]
    assert estimator.calibration_error_ > 0.1
    infinite = CalibrationErrorEstimator(classifier, loss="log").fit(X_new, y_new)
    assert infinite.calibration_error_ == np.inf
    assert infinite.confidence_interval_ == (np.inf, np.inf)


def test_evaluation_that_lacks_a_class(data):
    X, y, X_new, y_new = data
    classifier = LogisticRegression().fit(X, y)
    estimator = CalibrationErrorEstimator(classifier).fit(X_new[y_new < 2], y_new[y_new < 2])
    assert np.isfinite(estimator.calibration_error_)
    assert estimator.classes_.tolist() == [0, 1, 2]
