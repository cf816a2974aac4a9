r"""A second lower bound: how much a model of (score, features) lowers the loss of the score.

For any model :math:`\hat R(S, X)` fitted on other folds,
:math:`GL \ge E\, L(Y, C) - E\, L(Y, \hat R)`, and any point between :math:`\hat C` and
:math:`\hat R` is a model too. With the residual model :math:`m = \hat R - \hat C` and the Brier
score, :math:`\hat C + a m` saves :math:`2 a \langle Y - \hat C, m \rangle - a^2 \|m\|^2`, most at
:math:`a = cross / direct`, where it saves :math:`cross^2 / direct`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils.parallel import Parallel, delayed

from skcalib.tower import weighted_mean

_NEAR_ZERO = 1e-4


@dataclass(frozen=True)
class RiskTerms:
    """Paired differences of the loss, whose weighted mean is the lower bound, and the scale a.

    ``slope`` is the saving per unit of the scale near a = 0.
    """

    differences: np.ndarray
    slope: np.ndarray
    scale: float


def default_model(random_state):
    """Boosting of the residual by small trees, slowly, and stopped early."""
    return HistGradientBoostingRegressor(
        learning_rate=0.05,
        max_iter=300,
        max_leaf_nodes=8,
        min_samples_leaf=20,
        early_stopping=True,
        n_iter_no_change=10,
        random_state=random_state,
    )


def risk_terms(score, X, forecast, target, curve, weight, *, model, folds, n_jobs=None):
    """Cross-fit the model of (score, features) and scale it.

    `curve` is the held-out calibration curve at each sample; `model` a regressor of the residual,
    a column at a time, or a classifier of the label.
    """
    features = np.column_stack([forecast[:, 1:], X])
    fits = Parallel(n_jobs=n_jobs)(
        delayed(_refine)(model, features, target, curve, weight, train, test)
        for train, test in folds
    )
    refined = np.empty_like(curve)
    for (_, test), part in zip(folds, fits, strict=True):
        refined[test] = part
    before = score.loss(target, curve)

    def after(scale):
        return score.loss(target, curve + scale * (refined - curve))

    def mean_loss(scale):
        return float(weighted_mean(after(scale), weight))

    top = _largest_scale(curve, refined)
    found = minimize_scalar(mean_loss, bounds=(0.0, top), method="bounded")
    candidates = (0.0, min(1.0, top), float(found.x))
    scale = min(candidates, key=mean_loss)
    return RiskTerms(
        differences=before - after(scale),
        slope=(before - after(_NEAR_ZERO)) / _NEAR_ZERO,
        scale=scale,
    )


def _largest_scale(curve, refined):
    """Largest scale, at most 3, that keeps every model point in the simplex."""
    step = refined - curve
    room = np.where(step < 0, curve / np.where(step < 0, -step, 1.0), np.inf)
    return float(min(3.0, room.min()))


def _refine(model, features, target, curve, weight, train, test):
    """Refined forecasts at the rows `test`, in the simplex."""
    weighted = {} if np.ptp(weight) == 0 else {"sample_weight": weight[train]}
    if is_classifier(model):
        labels = target[train].argmax(axis=1)
        if len(np.unique(labels)) == 1:
            return curve[test]
        fitted = clone(model).fit(features[train], labels, **weighted)
        refined = np.zeros((len(test), target.shape[1]))
        refined[:, fitted.classes_] = fitted.predict_proba(features[test])
        return refined
    residual = target[train] - curve[train]
    columns = range(1, target.shape[1]) if target.shape[1] == 2 else range(target.shape[1])
    step = np.zeros((len(test), target.shape[1]))
    for k in columns:
        step[:, k] = clone(model).fit(features[train], residual[:, k], **weighted).predict(
            features[test]
        )
    if target.shape[1] == 2:
        step[:, 0] = -step[:, 1]
    # Onto the simplex: what falls below zero is zero, and the row is divided by its sum.
    refined = np.maximum(curve[test] + step, 0.0)
    total = refined.sum(axis=1, keepdims=True)
    return np.where(total > 0, refined / np.where(total > 0, total, 1.0), curve[test])
