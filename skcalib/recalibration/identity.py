"""The extreme recalibrators: probabilities as they are, and the frequencies of the labels."""

from __future__ import annotations

import numpy as np

from skcalib.recalibration._base import Recalibrator


class IdentityRecalibrator(Recalibrator):  # numpydoc ignore=PR02
    """Leave probabilities unchanged: a baseline, or the last step of a pipeline.

    See Also
    --------
    TemperatureScaling : The simplest map that changes probabilities.

    Examples
    --------
    >>> from skcalib import IdentityRecalibrator
    >>> IdentityRecalibrator().fit([0.2, 0.7], [0, 1]).predict_proba([0.4])
    array([[0.6, 0.4]])
    """

    def _fit_map(self, samples):
        self.injective_ = self.preserves_argmax_ = self.preserves_order_ = True

    def _apply_map(self, forecast):
        return forecast

    def _write_map(self, add, x):
        return x


class LabelFrequency(Recalibrator):  # numpydoc ignore=PR02
    """Predict the label frequencies given the predicted class (G22, appendix E.1).

    Every forecast with the same predicted class is mapped to the class frequencies among those
    samples. The map is calibrated. It keeps the accuracy if the prediction is the most frequent
    label, but it loses all other sharpness. It illustrates why injective maps are preferable.

    Attributes
    ----------
    frequencies_ : array of shape (n_classes, n_classes)
        Row k: label frequencies where class k is predicted; the overall frequencies if it never is.

    See Also
    --------
    IdentityRecalibrator : Leaves the probabilities unchanged.
    LabelShiftRecalibrator : Adapts them to new frequencies of the classes.

    Examples
    --------
    >>> from skcalib import LabelFrequency
    >>> LabelFrequency().fit([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 0]).frequencies_
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    def _fit_map(self, samples):
        target, weight = samples.target, samples.weight
        top = samples.forecast.argmax(axis=1)
        overall = weight @ target / weight.sum()
        rows = []
        for k in range(target.shape[1]):
            w = weight * (top == k)
            rows.append(w @ target / w.sum() if w.any() else overall)
        self.frequencies_ = np.array(rows)
        self.injective_ = self.preserves_order_ = False
        kept = self.frequencies_.argmax(axis=1) == np.arange(len(rows))
        self.preserves_argmax_ = bool(kept.all())

    def _apply_map(self, forecast):
        return self.frequencies_[forecast.argmax(axis=1)]

    def _write_map(self, add, x):
        return add("matrix", add("top", x, tolerance=0.0), coef=self.frequencies_)
