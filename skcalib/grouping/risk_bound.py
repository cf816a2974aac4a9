"""The risk bound of one problem: what a model of the score and the features saves of its loss.

`fit_risk` evaluates any model with the weight that is best on the other folds (doc/design.rst has
the formula). `ScoreCurve` is the curve of the score that it is compared with. What a function of
the score explains is no grouping loss: `beside_score` removes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import qr
from scipy.special import ndtri, softmax
from scipy.stats import norm
from sklearn.base import clone, is_classifier

from skcalib._util.parallel import out_of_fold, run_each, threads_for
from skcalib._util.validation import mean_one
from skcalib.data.labels import is_one_hot
from skcalib.grouping.equal_scores import functions_of_position, intervals_for
from skcalib.grouping.partition import order_of
from skcalib.grouping.partition_bound import (
    GroupingFit,
    GroupingProblem,
    held_out_curve,
    variance_of_mean,
)
from skcalib.links.averaging import averaged_map
from skcalib.links.logits import detection_limit, log_forecast
from skcalib.recalibration.group import (
    MOST_COMPONENTS,
    Components,
    Mixing,
    held_out_paths,
)
from skcalib.scores import ProperScore, weighted_mean
from skcalib.smoothers import LogitSmoother
from skcalib.smoothers._base import check_folds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skcalib._util.types import Fold
    from skcalib.grouping.partition_bound import Options
    from skcalib.smoothers import Smoother

_NEAR_ZERO = 1e-4
_LEAST_SHARE = 0.05  # of a probability of the curve
_LEAST_KNOWN = 10  # values of a feature, to be of use to a model


def fit_risk(
    problem: GroupingProblem,
    score: ProperScore,
    smoother: Smoother,
    model: Any,
    options: Options,
    seed: int,
) -> GroupingFit:
    """Risk bound: the reduction of the loss by a model of (score, features) on held-out samples."""
    curve, cluster = held_out_curve(problem, smoother), problem.cluster
    folds = check_folds(options.folds, problem.target, random_state=seed, cluster=cluster)
    terms = risk_terms(problem, score, curve, model, folds, seed)
    weight = problem.weight / problem.weight.sum()
    before, after = score.loss(problem.target, problem.forecast), score.loss(problem.target, curve)
    # At a small scale the saving per scale is the slope of the loss towards the model. Folds learn
    # from each other, which under the null doubles the variance of the mean.
    mean = float(weight @ terms.slope)
    error = float(np.sqrt(2 * variance_of_mean(terms.slope, weight, cluster)))
    return GroupingFit(
        variance=variance_of_mean(terms.differences, weight, cluster),
        lower_bound=float(weight @ terms.differences),
        calibration=float(weight @ (before - after)),
        calibration_induced=0.0,  # no bins
        mean_loss=float(weight @ before),
        refinement=float(weight @ after),
        pvalue=float(norm.sf(mean / error)) if error > 0 else 1.0,
        n_measured=len(weight),
        scale=terms.scale,
    )


@dataclass(frozen=True)
class RiskTerms:
    """Paired differences of the loss, whose weighted mean is the lower bound, and the mean scale.

    ``slope`` is the saving per unit of the scale near a = 0.
    """

    differences: np.ndarray
    slope: np.ndarray
    scale: float


def risk_terms(
    problem: GroupingProblem,
    score: ProperScore,
    curve: np.ndarray,
    model: Any,
    folds: Sequence[Fold],
    seed: int,
) -> RiskTerms:
    """Steps from the held-out `curve`, mixed by the losses of the other folds.

    `model` is None for the corrected model, or a regressor of the residual, a column at a time, or
    a classifier of the label. What a function of the score explains is removed from the steps.
    """
    target, weight = problem.target, mean_one(problem.weight)  # penalties depend on their scale
    if model is None:
        start = log_forecast(curve, detection_limit(curve))
        finish = partial(_steps_of_fold, start, problem.forecast, curve, weight)
        paths = held_out_paths(
            start, problem.features, target, weight, folds, seed=seed, finish=finish
        )
    else:
        features = np.column_stack([problem.forecast[:, 1:], problem.features])
        predict = partial(_model_steps, model, features, problem.forecast, target, curve, weight)
        paths = [out_of_fold(predict, folds, len(curve))[0][None]]

    def losses(step, rows):
        return score.loss(target[rows], moved_curve(curve[rows], step))

    mixing = Mixing(losses, paths, weight, problem.cluster)
    differences, slope, scale = np.zeros((3, len(curve)))
    for test, mixture in mixing.of_other_folds(folds):
        before, far = mixing.before[test], mixture.of(paths, test)
        near = _NEAR_ZERO * mixture.of(paths, test, direction=True)
        differences[test] = _saved(before, losses(far, test))
        slope[test] = _saved(before, losses(near, test)) / _NEAR_ZERO
        scale[test] = mixture.weights.sum()
    return RiskTerms(differences, slope, float(weighted_mean(scale, weight)))


def _saved(before, after):
    """Differences of losses; equal infinite ones differ by 0."""
    equal = before == after
    return np.where(equal, 0.0, before) - np.where(equal, 0.0, after)


def moved_curve(curve: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Steps from the curve that stay in the simplex; no probability falls to less than a twentieth.

    Else the log loss of a single label could be infinite, and one sample near the border would hold
    back the weight of all.
    """
    moved = np.maximum(curve + step, _LEAST_SHARE * curve)
    return moved / moved.sum(axis=1, keepdims=True)


def _fit_predict(model, X, residual, weighted, X_new):
    return clone(model).fit(X, residual, **weighted).predict(X_new)


def _steps_of_fold(start, forecast, curve, weight, predict, train, test):
    """Steps of the probabilities for the corrections of their logarithms."""

    def steps(rows):
        return softmax(start[rows] + predict(rows), axis=2) - softmax(start[rows], axis=1)

    return steps_beside_score(forecast, curve, weight, steps, train, test)


def _model_steps(model, features, forecast, target, curve, weight, train, test):
    """Steps from the curve to the predictions of a model, with the threads that it can feed."""

    def steps(rows):
        return model_step(model, features, target, curve, weight, train, rows)[None]

    with threads_for(features):
        return steps_beside_score(forecast, curve, weight, steps, train, test)[0]


def model_step(
    model: Any,
    features: np.ndarray,
    target: np.ndarray,
    curve: np.ndarray,
    weight: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
) -> np.ndarray:
    """Steps from the curve to the predictions of the model at the rows `test`."""
    weighted = {} if np.ptp(weight) == 0 else {"sample_weight": weight[train]}
    # Boosting fails on a feature without any value, also in its early-stopping split.
    known = np.count_nonzero(~np.isnan(features[train]), axis=0)
    hollow = (known < len(train)) & (known < _LEAST_KNOWN)
    if hollow.any():
        features = np.where(hollow, 0.0, features)
    if is_classifier(model):
        if not is_one_hot(target):
            raise ValueError(
                f"{type(model).__name__} is a classifier, which cannot be fitted to soft labels: "
                "pass a regressor, or leave out partitioner=."
            )
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


# --- Functions of the score -----------------------------------------------------------------------


_DOUBT = 5.0  # log evidence by which the ranks of scores must be better than the scores
_ROUNDING = 1e-9  # share of a step that the functions leave by rounding
_TIED = 1e-13  # largest difference of centred logits that are equal up to rounding
_LEAST = 1e-15  # smallest share of the mass below a score
_SAMPLES = 100  # of each component
_ROWS = 2000  # of a regression, if there are as many


class ScoreCurve(LogitSmoother):
    """`LogitSmoother` of the forecasts, or of their ranks where the evidence for these is larger.

    Its curves are not finer than cells of log odds, and most scores may lie in one cell.
    """

    def _fit_one(self, forecast, target, weight, cluster=None):
        ranks = _Ranks(forecast, weight)
        plain = averaged_map(forecast, target, weight, None, cluster)
        ranked = averaged_map(ranks(forecast), target, weight, None, cluster)
        if not ranked.log_evidence > plain.log_evidence + _DOUBT:
            return plain
        return lambda new: ranked(ranks(new))


class _Ranks:
    """Forecasts whose logits are normal scores of the ranks of the centred logits of each class.

    Between and beyond the forecasts that it was learned from, it is linear and constant.
    """

    def __init__(self, forecast, weight):
        self.limit, self.scores = detection_limit(forecast), []
        for column in self._places(forecast).T:
            order = np.argsort(column, kind="stable")
            values, which = column[order], np.empty(len(column), dtype=int)
            first = np.append(True, np.diff(values) > _TIED * np.maximum(1, np.abs(values[1:])))
            which[order], values = np.cumsum(first) - 1, values[first]
            mass = np.bincount(which, weight)
            share = (np.cumsum(mass) - mass / 2) / mass.sum()  # 0 and 1 by rounding
            self.scores.append((values, ndtri(np.clip(share, _LEAST, 1 - _LEAST))))

    def __call__(self, forecast):
        columns = zip(self._places(forecast).T, self.scores, strict=True)
        scores = [np.interp(column, values, score) for column, (values, score) in columns]
        return softmax(np.column_stack(scores), axis=1)

    def _places(self, forecast):
        log = log_forecast(forecast, self.limit)
        return log - log.mean(axis=1, keepdims=True)


def steps_beside_score(
    forecast: np.ndarray,
    curve: np.ndarray,
    weight: np.ndarray,
    predict: Callable[[np.ndarray], np.ndarray],
    train: np.ndarray,
    test: np.ndarray,
) -> np.ndarray:
    """Steps (L, m, K) of a model at the rows `test`, minus their regression on the forecasts.

    ``predict(rows)`` has the steps at any rows. The regression is that of this model alone, on the
    test rows and, if these are few, on some of its training rows. One regression of the steps of
    all folds would follow the labels of all folds, and take away what the models have found.
    """
    n_further = min(max(_ROWS - len(test), 0), len(train))
    further = np.linspace(0, len(train) - 1, n_further).astype(int)
    rows = np.append(test, train[further])
    steps = predict(rows)
    beside = beside_score(np.concatenate(steps, axis=1), forecast[rows], curve[rows], weight[rows])
    return np.stack(np.split(beside[: len(test)], len(steps), axis=1))


def beside_score(
    values: np.ndarray, forecast: np.ndarray, curve: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    r"""Values (n, m) minus their regression on functions of the forecasts (n, K).

    The residual :math:`\tilde m` of a step m fulfils :math:`E[\tilde m | S] \approx 0`. Then
    :math:`E \langle Y - \hat C, \tilde m \rangle = E \langle Q - C, \tilde m \rangle` for the curve
    :math:`\hat C` (n, K), up to the product of the errors with which the functions approximate C
    and m: a step finds grouping loss only, no calibration error that the curve has left.

    The functions are piecewise linear in the position of the probability of the event or of the top
    label. They are also linear in principal components of the logits and of the probabilities of
    the curve, and linear and quadratic in those of the forecasts and of their ranks: at most ten
    components, one for each hundred samples.
    """
    root = np.sqrt(weight)[:, None]
    # With pivots, functions that depend on others come last, and can be left out.
    basis, triangle, _ = qr(
        root * functions_of_score(forecast, curve, weight), mode="economic", pivoting=True
    )
    size = np.abs(np.diag(triangle))
    basis = basis[:, size > 1e-8 * size.max()]
    beside = values - (basis @ (basis.T @ (root * values))) / root
    size, least = np.linalg.norm(root * beside, axis=0), np.linalg.norm(root * values, axis=0)
    return np.where(size > _ROUNDING * least, beside, 0.0)


def functions_of_score(forecast: np.ndarray, curve: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Functions (n, m) of the forecasts on which `beside_score` regresses."""
    n_samples, n_classes = forecast.shape
    n_used = int(np.clip(n_samples // _SAMPLES, 1, min(n_classes - 1, MOST_COMPONENTS)))
    parts = [functions_of_position(order_of(forecast), weight, intervals_for(n_samples))[0]]
    for proba in (forecast, _Ranks(forecast, weight)(forecast), curve):
        logits = np.log(np.maximum(proba, proba[proba > 0].min()))
        scores, shares = (Components(x, n_used).read(x) for x in (logits, proba))
        parts += [scores, shares]
        if proba is not curve:
            first, second = np.triu_indices(min(scores.shape[1], 3), 1)
            parts += [scores**2, shares**2, scores[:, first] * scores[:, second]]
    return np.hstack(parts)
