"""The two ends: change nothing, and keep nothing but the predicted class."""

import numpy as np

from skcalib.recalibration._base import Recalibrator


class IdentityRecalibrator(Recalibrator):
    """Changes nothing: the candidate that says "leave it", and the end of a pipeline.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds; logits go through the softmax.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What ``loss_before_`` and ``loss_after_`` are measured in.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.

    Examples
    --------
    >>> from skcalib import IdentityRecalibrator
    >>> IdentityRecalibrator().fit([0.2, 0.7], [0, 1]).predict_proba([0.4])
    array([[0.6, 0.4]])
    """

    def __init__(self, *, input="proba", loss="log", labels=None):
        self.input = input
        self.loss = loss
        self.labels = labels

    def _fit_map(self, forecast, target, weight):
        self.injective_ = self.preserves_argmax_ = self.preserves_order_ = True

    def _apply_map(self, forecast):
        return forecast


class LabelFrequency(Recalibrator):
    """Keeps the predicted class and answers with its label frequencies (G22, appendix E.1).

    Every forecast with the same predicted class gets the same answer: the class frequencies among
    those samples. It is calibrated and keeps the accuracy where the prediction is the most frequent
    label, and it has lost all sharpness beyond that: the reason to ask for injective maps.

    Parameters
    ----------
    input : {"proba", "logits"}, default="proba"
        What X holds.
    loss : {"log", "brier", "spherical"} or ProperScore, default="log"
        What ``loss_before_`` and ``loss_after_`` are measured in.
    labels : array-like of shape (n_classes,), default=None
        The class of each column, needed where y may lack a class.

    Attributes
    ----------
    frequencies_ : array of shape (n_classes, n_classes)
        Row k: label frequencies where class k is predicted; the overall ones if it never is.

    Examples
    --------
    >>> from skcalib import LabelFrequency
    >>> LabelFrequency().fit([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 0]).frequencies_
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    def __init__(self, *, input="proba", loss="log", labels=None):
        self.input = input
        self.loss = loss
        self.labels = labels

    def _fit_map(self, forecast, target, weight):
        top = forecast.argmax(axis=1)
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
