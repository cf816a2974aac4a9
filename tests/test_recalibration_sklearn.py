"""scikit-learn's estimator checks, on recalibrators.

Their data are any real features, and a recalibrator takes probabilities: a test-only subclass maps
features to the simplex by a fixed random projection first. Everything else is the class as it is.
"""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from skcalib._labels import check_y
from skcalib.recalibration import (
    BetaCalibration,
    BiasCorrectedTemperatureScaling,
    DiagonalOrderPreserving,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    HistogramBinning,
    IdentityRecalibrator,
    IsotonicRecalibrator,
    KernelRecalibrator,
    LabelFrequency,
    MatrixScaling,
    PlattScaling,
    QuadraticScaling,
    TemperatureScaling,
    VectorScaling,
)


class Simplex:
    """Any features, by a fixed projection and the softmax, to as many columns as there are classes.

    Labels of a single class get a second column, of which they say nothing.
    """

    def fit(self, X, y, sample_weight=None):
        if y is None:
            return super().fit(X, y, sample_weight)
        X = self._features(X, reset=True)
        names = getattr(self, "feature_names_in_", None)
        classes = np.unique(check_y(y, name="y"))
        if len(classes) < 2:
            raise ValueError("Only one class: the columns of X would have no meaning.")
        rng = np.random.default_rng(0)
        self.projection_ = rng.normal(size=(X.shape[1], len(classes))) / np.sqrt(X.shape[1])
        super().fit(self._proba(X), y, sample_weight)
        self.n_features_in_ = X.shape[1]
        if names is not None:
            self.feature_names_in_ = names
        return self

    def predict_proba(self, X):
        check_is_fitted(self)
        return self._apply_map(self._read(self._proba(self._features(X, reset=False))))

    def _features(self, X, reset):
        return validate_data(self, X, reset=reset, dtype=np.float64)

    def _proba(self, X):
        z = X @ self.projection_
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # a random projection predicts nothing
        tags.input_tags.positive_only = False
        return tags


class Identity(Simplex, IdentityRecalibrator):
    pass


class Temperature(Simplex, TemperatureScaling):
    pass


class BiasCorrected(Simplex, BiasCorrectedTemperatureScaling):
    pass


class Ensemble(Simplex, EnsembleTemperatureScaling):
    pass


class Platt(Simplex, PlattScaling):
    pass


class Beta(Simplex, BetaCalibration):
    pass


class Quadratic(Simplex, QuadraticScaling):
    pass


class Vector(Simplex, VectorScaling):
    pass


class Matrix(Simplex, MatrixScaling):
    pass


class Dirichlet(Simplex, DirichletCalibration):
    pass


class Diagonal(Simplex, DiagonalOrderPreserving):
    pass


class Isotonic(Simplex, IsotonicRecalibrator):
    pass


class Histogram(Simplex, HistogramBinning):
    pass


class Kernel(Simplex, KernelRecalibrator):
    pass


class Frequency(Simplex, LabelFrequency):
    pass


# What counts samples, or cuts at ranks, tells a weight of 2 from a sample that stands there twice
# (DESIGN: weights average). Tested on their own terms in test_recalibration.py.
COUNTS = "shrinkage, a prior or folds count samples, and weights average: 2 is not a repetition"
SEPARABLE = "its labels of a class are separable, and the weak prior that helps counts samples"
RANKS = "bins, knots or a bandwidth come from the samples, and weights do not move them"
EQUIVALENCE = "check_sample_weight_equivalence_on_dense_data"
EXEMPT = {
    BiasCorrected: {EQUIVALENCE: COUNTS},
    Platt: {EQUIVALENCE: SEPARABLE},
    Quadratic: {EQUIVALENCE: SEPARABLE},
    Vector: {EQUIVALENCE: COUNTS},
    Matrix: {EQUIVALENCE: COUNTS},
    Dirichlet: {EQUIVALENCE: COUNTS},
    Diagonal: {EQUIVALENCE: COUNTS},
    Histogram: {EQUIVALENCE: RANKS},
    Kernel: {EQUIVALENCE: RANKS},
}
ESTIMATORS = [
    Identity(),
    Temperature(),
    BiasCorrected(),
    Ensemble(),
    Platt(),
    Beta(),
    Quadratic(),
    Vector(),
    Matrix(),
    Dirichlet(),
    Diagonal(),
    Isotonic(),
    Histogram(),
    Kernel(),
    Frequency(),
]


@parametrize_with_checks(
    ESTIMATORS, expected_failed_checks=lambda estimator: EXEMPT.get(type(estimator), {})
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    # their labels follow no projection, or are separable: the answer is finite, and warns
    check(estimator)


def test_the_filter_hides_nothing_else():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(3, size=60)
    with pytest.warns(ConvergenceWarning, match="do not follow the scores"):
        Temperature().fit(X, -y)
