"""Recalibrators obey their laws; the checker rejects planted defects, by name."""

import numpy as np
import pytest
from public_estimators import RECALIBRATORS, quick
from sklearn.base import BaseEstimator, ClassifierMixin

from skcalib import IdentityRecalibrator, PlattScaling, TemperatureScaling
from skcalib.recalibration import Recalibrator
from skcalib.testing import check_recalibrator


@pytest.mark.parametrize("recalibrator", RECALIBRATORS, ids=lambda r: r.__name__)
def test_laws(recalibrator):
    check_recalibrator(quick(recalibrator))


def test_a_recalibrator_may_refuse_some_numbers_of_classes_but_not_all():
    class TwoOnly(IdentityRecalibrator):
        def fit(self, X, y, sample_weight=None):
            if np.shape(X)[1] > 2:
                raise ValueError("X must have two columns.")
            return super().fit(X, y, sample_weight)

    check_recalibrator(TwoOnly())
    with pytest.raises(AssertionError, match="refuses every number of classes"):
        check_recalibrator(TwoOnly(), n_classes=(3, 4))


# --- planted defects ------------------------------------------------------------------------------


class FitGivesNothing(IdentityRecalibrator):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)


class ChangesAParameter(TemperatureScaling):
    def fit(self, X, y, sample_weight=None):
        self.loss = "brier"
        return super().fit(X, y, sample_weight)


class Remembers(IdentityRecalibrator):
    def fit(self, X, y, sample_weight=None):
        self.n_fits_ = getattr(self, "n_fits_", 0) + 1
        return super().fit(X, y, sample_weight)

    def _apply_map(self, forecast):
        return forecast / 2 + 1 / (2 * forecast.shape[1]) if self.n_fits_ > 1 else forecast


class NotProbabilities(IdentityRecalibrator):
    def _apply_map(self, forecast):
        return forecast**2


class LooksAtTheBatch(IdentityRecalibrator):
    def _apply_map(self, forecast):
        return (forecast + forecast.mean(axis=0)) / 2


class PredictsTheFirst(IdentityRecalibrator):
    def predict(self, X):
        return np.full(len(X), self.classes_[0])


class TransformsOtherwise(IdentityRecalibrator):
    def transform(self, X):
        return self.predict_proba(X)[:, ::-1]


class CountsZeroWeights(BaseEstimator, ClassifierMixin):
    """Everybody gets the label frequencies, weights or no weights."""

    injective_ = preserves_argmax_ = preserves_order_ = False

    def fit(self, X, y, sample_weight=None):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.share_ = counts / counts.sum()
        return self

    def predict_proba(self, X):
        return np.tile(self.share_, (len(X), 1))

    transform = predict_proba

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class NotInjective(Recalibrator):
    def __init__(self, *, input="proba", loss="log", labels=None):
        self.input, self.loss, self.labels = input, loss, labels

    def _fit_map(self, forecast, target, weight):
        self.injective_ = self.preserves_argmax_ = self.preserves_order_ = True

    def _apply_map(self, forecast):
        coarse = np.floor(4 * forecast) + 1
        return coarse / coarse.sum(axis=1, keepdims=True)


class TurnsTheOrder(NotInjective):
    def _fit_map(self, forecast, target, weight):
        super()._fit_map(forecast, target, weight)
        self.preserves_argmax_ = False

    def _apply_map(self, forecast):
        return (1 - forecast) / (forecast.shape[1] - 1)


class LosesTheTop(TurnsTheOrder):
    def _fit_map(self, forecast, target, weight):
        super()._fit_map(forecast, target, weight)
        self.preserves_argmax_, self.preserves_order_ = True, False


class DeclaresNothing(IdentityRecalibrator):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        del self.injective_
        return self


DEFECTS = [
    (FitGivesNothing(), "does not return self"),
    (ChangesAParameter(), "changed a parameter"),
    (Remembers(), "after a second fit"),
    (NotProbabilities(), "must sum to one"),
    (LooksAtTheBatch(), "some of the rows"),
    (PredictsTheFirst(), "predict is not"),
    (TransformsOtherwise(), "transform is not"),
    (CountsZeroWeights(), "zero-weight samples"),
    (NotInjective(), "injective_ is declared"),
    (TurnsTheOrder(), "preserves_order_ is declared"),
    (LosesTheTop(), "preserves_argmax_ is declared"),
    (DeclaresNothing(), "injective_ is not declared"),
]


@pytest.mark.parametrize(("defect", "words"), DEFECTS, ids=lambda one: type(one).__name__)
def test_rejects_planted_defects(defect, words):
    with pytest.raises(AssertionError, match=words):
        check_recalibrator(defect)


def test_the_object_itself_is_not_fitted():
    one = PlattScaling()
    check_recalibrator(one, n_classes=(2,))
    assert not hasattr(one, "classes_")
