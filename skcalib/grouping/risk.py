r"""A second lower bound: how much a model of (score, features) lowers the loss of the score.

For any model :math:`\hat R(S, X)` fitted on other folds,
:math:`GL \ge E\, L(Y, C) - E\, L(Y, \hat R)`, and any point between :math:`\hat C` and
:math:`\hat R` is a model too. With the residual model :math:`m = \hat R - \hat C` and the Brier
score, :math:`\hat C + a m` saves :math:`2 a \langle Y - \hat C, m \rangle - a^2 \|m\|^2`, most at
:math:`a = cross / direct`, where it saves :math:`cross^2 / direct`. Each fold is scaled by what is
best on the others: the best scale of all would never save less than nothing, and so lie above the
truth where there is no grouping loss.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils.parallel import Parallel, delayed

from skcalib._parallel import run_each
from skcalib.tower import weighted_mean

_NEAR_ZERO = 1e-4
_LARGEST_SCALE = 3.0
_LEAST_SHARE = 0.05  # of a probability of the curve
_LEAST_KNOWN = 10  # values of a feature, to be of use to a model


@dataclass(frozen=True)
class RiskTerms:
    """Paired differences of the loss, whose weighted mean is the lower bound, and the mean scale.

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
    weight = weight / weight.mean()  # a penalty of the model must not depend on their scale
    fits = Parallel(n_jobs=n_jobs)(
        delayed(_refine)(model, features, target, curve, weight, train, test)
        for train, test in folds
    )
    step = np.zeros_like(curve)  # where a splitter tests nobody
    for (_, test), part in zip(folds, fits, strict=True):
        step[test] = part
    scale = np.zeros(len(curve))
    for _, test in folds:
        others = np.setdiff1d(np.arange(len(curve)), test)
        scale[test] = _best_scale(
            score, target[others], curve[others], step[others], weight[others]
        )
    before = score.loss(target, curve)
    return RiskTerms(
        differences=before - score.loss(target, _refined(curve, step, scale[:, None])),
        slope=(before - score.loss(target, _refined(curve, step, _NEAR_ZERO))) / _NEAR_ZERO,
        scale=float(weighted_mean(scale, weight)),
    )


def _best_scale(score, target, curve, step, weight):
    """Scale of the steps of the lowest loss, 0 to 3."""

    def mean_loss(scale):
        return float(weighted_mean(score.loss(target, _refined(curve, step, scale)), weight))

    found = minimize_scalar(mean_loss, bounds=(0.0, _LARGEST_SCALE), method="bounded")
    return min((0.0, 1.0, float(found.x)), key=mean_loss)


def _refined(curve, step, scale):
    """Steps from the curve that stay in the simplex; no probability falls to less than a twentieth.

    Else the log loss of a single label could be infinite, and one sample near the border would hold
    back the scale of all.
    """
    moved = np.maximum(curve + scale * step, _LEAST_SHARE * curve)
    return moved / moved.sum(axis=1, keepdims=True)


def _fit_predict(model, X, residual, weighted, X_new):
    return clone(model).fit(X, residual, **weighted).predict(X_new)


def _refine(model, features, target, curve, weight, train, test):
    """Steps from the curve to what the model says at the rows `test`."""
    weighted = {} if np.ptp(weight) == 0 else {"sample_weight": weight[train]}
    # Boosting stumbles over a feature without any value, also once it has set rows aside.
    known = np.count_nonzero(~np.isnan(features[train]), axis=0)
    hollow = (known < len(train)) & (known < _LEAST_KNOWN)
    if hollow.any():
        features = np.where(hollow, 0.0, features)
    if is_classifier(model):
        labels = target[train].argmax(axis=1)
        if len(np.unique(labels)) == 1:
            return np.zeros_like(curve[test])
        fitted = clone(model).fit(features[train], labels, **weighted)
        refined = np.zeros((len(test), target.shape[1]))
        refined[:, fitted.classes_] = fitted.predict_proba(features[test])
        return refined - curve[test]
    residual = target[train] - curve[train]
    columns = range(1, target.shape[1]) if target.shape[1] == 2 else range(target.shape[1])
    step = np.zeros((len(test), target.shape[1]))
    tasks = ((model, features[train], residual[:, k], weighted, features[test]) for k in columns)
    step[:, columns] = np.stack(run_each(_fit_predict, tasks), axis=1)
    if target.shape[1] == 2:
        step[:, 0] = -step[:, 1]
    return step
