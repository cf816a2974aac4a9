"""Recalibrators obey their laws; the checker rejects planted defects, by name."""

from typing import ClassVar

import numpy as np
import pytest
from planted import altered, planted
from public_estimators import RECALIBRATORS, quick

from skcalib import IdentityRecalibrator, PlattScaling, TemperatureScaling
from skcalib.recalibration import LabelFrequency, Recalibrator
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
    platt = PlattScaling()
    check_recalibrator(platt, n_classes=(2,))
    assert not hasattr(platt, "classes_")


class Remembers(IdentityRecalibrator):
    def fit(self, X, y, sample_weight=None):
        self.n_fits_ = getattr(self, "n_fits_", 0) + 1
        return super().fit(X, y, sample_weight)

    def _apply_map(self, forecast):
        return forecast / 2 + 1 / (2 * forecast.shape[1]) if self.n_fits_ > 1 else forecast


class Declares(Recalibrator):
    """Turns the order round, and declares all properties but some."""

    not_declared: ClassVar = ()

    def __init__(self, *, input="proba", loss="log", labels=None):
        self.input, self.loss, self.labels = input, loss, labels

    def _fit_map(self, samples):
        for name in ("injective", "preserves_argmax", "preserves_order"):
            setattr(self, f"{name}_", name not in self.not_declared)

    def _apply_map(self, forecast):
        return (1 - forecast) / (forecast.shape[1] - 1)


def without_declaration(fitted):
    del fitted.injective_
    return fitted


DEFECTS = [
    (altered(IdentityRecalibrator, fit=lambda fitted: None)(), "does not return self"),
    (altered(TemperatureScaling, fit=lambda fitted: fitted.set_params(loss="brier"))(),
     "changed a parameter"),
    (Remembers(), "after a second fit"),
    (altered(IdentityRecalibrator, _apply_map=np.square)(), "must sum to one"),
    (altered(IdentityRecalibrator, _apply_map=lambda p: (p + p.mean(axis=0)) / 2)(),
     "some of the rows"),
    (altered(IdentityRecalibrator, predict=lambda answer: answer[::-1])(), "predict is not"),
    (altered(IdentityRecalibrator, transform=lambda answer: answer[:, ::-1])(), "transform is not"),
    (planted(LabelFrequency, fit=lambda self, X, y, sample_weight=None: LabelFrequency.fit(
        self, X, y))(),
     "zero-weight samples"),
    (altered(Declares, _apply_map=lambda p: np.full_like(p, 1 / p.shape[1]))(),
     "injective_ is declared"),
    (planted(Declares, not_declared=("preserves_argmax",))(), "preserves_order_ is declared"),
    (planted(Declares, not_declared=("preserves_order",))(), "preserves_argmax_ is declared"),
    (altered(IdentityRecalibrator, fit=without_declaration)(), "injective_ is not declared"),
]  # fmt: skip


@pytest.mark.parametrize(("defect", "words"), DEFECTS)
def test_rejects_planted_defects(defect, words):
    with pytest.raises(AssertionError, match=words):
        check_recalibrator(defect)
