r"""The default smoother: a cross-fitted map of the logits, with a curve if necessary.

`LogitSmoother` fits an affine map of the logits and adds an `AddedCurve` where a test rejects the
map. The curve f is piecewise linear and changes the log odds t of one class of each forecast, the
second of two classes or the most likely of more: :math:`t \mapsto t + f(t)`. The other classes keep
their proportions. The curve corrects confidences that no temperature can correct, because the
reliability curve is curved or not monotone.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.linalg import solve
from scipy.special import expit, logsumexp, softmax
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

from skcalib._validation import mean_one
from skcalib.links import BiasCorrectedTemperature, fit_bias_corrected
from skcalib.links._base import detection_limit, log_forecast, logistic_regression
from skcalib.smoothers._base import OutOfFoldSmoother

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skcalib._arguments import CV, RandomState

_MANY_CLASSES, _PER_CLASS = 20, 20  # classes, and samples per class below which `fit` warns


class LogitSmoother(OutOfFoldSmoother):
    r"""Cross-fitted map of the logits, with a curve if necessary: the default smoother.

    Models :math:`E[Y|S] = \mathrm{softmax}(\beta \log S + b)` by penalised maximum likelihood.
    For K = 2 this is the affine map of the logit; for K > 2 one temperature and class biases that
    are shrunk towards zero as far as the data allow (empirical Bayes). It has two parameters where
    a kernel has hundreds: little variance, and no curse of dimensionality.

    Where a test at the level .01 finds a pattern in the residuals of the map, a curve is added:
    with t the log odds of the second of two classes, or of the most likely of more, t becomes
    t + f(t), piecewise linear with up to twelve knots and smoothed by marginal likelihood; the
    other classes keep their proportions. So a curved or non-monotone reliability curve is also
    detected, from about a thousand samples on. Not detected are slopes that differ between three or
    more classes, other than through their biases, and patterns of single classes: `CrossFitted` may
    detect them, or ``notion="classwise"``.

    Half of the smallest positive probability of the training fold replaces forecasts of exactly 0,
    and logarithms below -87, the end of single precision, are compressed, as in
    `TemperatureScaling`. This affects the fitted curve only, not the forecasts under evaluation.

    From 20 classes on, `fit` warns below 20 samples per class: miscalibration common to all classes
    is then still detected, that of single classes is not.

    Parameters
    ----------
    cv : None, int or splitter, default=None
        Folds, as in `CrossFitted`; five by default.
    random_state : int, RandomState instance or None, default=0
        Shuffles the folds of an integer `cv`.
    curve : bool, default=True
        Whether a curve may be added to the map.

    Examples
    --------
    >>> from skcalib import proper_calibration_error
    >>> from skcalib.smoothers import LogitSmoother
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> error = proper_calibration_error(data.y, data.y_proba, smoother=LogitSmoother())
    >>> round(error, 3), round(data.truth["brier"], 3)
    (0.007, 0.006)
    """

    def __init__(self, cv: CV = None, random_state: RandomState = 0, curve: bool = True) -> None:
        self.cv = cv
        self.random_state = random_state
        self.curve = curve

    def fit(
        self, forecast: np.ndarray, target: np.ndarray, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Store forecasts (n, K) and target (n, C); models are fitted when they are needed."""
        super().fit(forecast, target, sample_weight)
        n_samples, n_classes = self.forecast_.shape
        if n_classes >= _MANY_CLASSES and n_samples < _PER_CLASS * n_classes:
            warnings.warn(
                f"{n_samples} samples of {n_classes} classes are less than {_PER_CLASS} per "
                "class: LogitSmoother then detects miscalibration common to all classes, but "
                "hardly any differences between them. The error may be larger than the "
                "estimate: use more samples, or notion='top_label'.",
                UserWarning,
                stacklevel=2,
            )
        return self

    def _fit_one(self, forecast, target, weight):
        link, limit = BiasCorrectedTemperature(), detection_limit(forecast)
        logits = log_forecast(forecast, limit)
        fit = fit_bias_corrected(logits, target, weight)
        if not fit.converged:
            warnings.warn(
                "The logit map of LogitSmoother did not converge: the forecasts may hold extreme "
                "values. The estimate is still valid, but another smoother may detect more.",
                ConvergenceWarning,
                stacklevel=2,
            )
        added = AddedCurve()
        if self.curve:
            added.fit(softmax(link.apply(fit.theta, logits), axis=1), target, weight)

        def predict(new):
            return added.apply(softmax(link.apply(fit.theta, log_forecast(new, limit)), axis=1))

        return predict

    def _check_target(self, values):
        super()._check_target(values)
        if values.shape != self.forecast_.shape:
            raise ValueError(
                "LogitSmoother needs one forecast column per class; got forecasts of shape "
                f"{self.forecast_.shape} and a target of shape {values.shape}. For other "
                "representations use DirichletKernel or CrossFitted."
            )


# --- Added curve ----------------------------------------------------------------------------------


_LEVEL = 0.01  # of the test for a curve; the same as for the biases of the map
_INFORMATION = 5.0  # sum of p (1 - p) for each knot
_FEWEST, _MOST = 3, 12  # knots
_WEAK_PRIOR = 0.01  # precision of a constant, in samples
_ROUNDS = 8  # of the search for the roughness
_LARGEST = 700.0  # largest log odds: exp overflows from 710 on


class AddedCurve:
    """Piecewise linear correction of the log odds after a map, fitted if a test rejects.

    A score test checks whether the residuals of the map vary with t, with hat functions whose knots
    have equal information. The degrees of freedom of the map are not subtracted, so the test is
    conservative. A fitted curve has a random walk as its prior; the updates of Fellner and Schall
    estimate the variance of its steps by maximising the marginal likelihood.

    Attributes
    ----------
    knots_, values_ : array of shape (n_knots,), or None
        The curve, constant beyond its ends; None if there is none.
    pvalue_ : float
        p-value of the score test; 1 if there is too little information for it.
    """

    knots_ = values_ = None
    pvalue_ = 1.0

    def fit(self, mapped: np.ndarray, target: np.ndarray, weight: np.ndarray) -> Self:
        """Fit to mapped forecasts (n, K), one-hot targets and weights; return self."""
        weight = mean_one(weight)
        _, reference, odds = _log_odds(mapped)
        hit = target[np.arange(len(target)), reference]
        proba = expit(odds)
        information = weight * proba * (1 - proba)
        n_knots = min(int(information.sum() / _INFORMATION), _MOST)
        if n_knots < _FEWEST:
            return self
        knots = _equal_information(odds, information, n_knots)
        if len(knots) < _FEWEST:
            return self
        hats = _hats(odds, knots)
        score = hats.T @ (weight * (hit - proba))
        noise = hats.T @ ((weight * information)[:, None] * hats)
        statistic = score @ np.linalg.pinv(noise, rcond=1e-10, hermitian=True) @ score
        self.pvalue_ = float(chi2.sf(statistic, len(knots)))
        if self.pvalue_ < _LEVEL:
            self.knots_, self.values_ = knots, _smooth_curve(odds, hats, hit, weight)
        return self

    def apply(self, mapped: np.ndarray) -> np.ndarray:
        """Apply the curve to mapped forecasts (m, K)."""
        if self.knots_ is None:
            return mapped
        log_proba, reference, odds = _log_odds(mapped)
        log_proba[np.arange(len(mapped)), reference] += np.interp(odds, self.knots_, self.values_)
        return softmax(log_proba, axis=1)


def _log_odds(mapped):
    """Logarithms, the reference class of each row, and its log odds."""
    with np.errstate(divide="ignore"):
        log_proba = np.log(mapped)
    n_samples, n_classes = mapped.shape
    rows = np.arange(n_samples)
    reference = np.ones(n_samples, dtype=int) if n_classes == 2 else mapped.argmax(axis=1)
    others = log_proba.copy()
    others[rows, reference] = -np.inf
    chances = log_proba[rows, reference], logsumexp(others, axis=1)
    first, rest = np.maximum(chances, -_LARGEST)
    return log_proba, reference, first - rest


def _equal_information(odds, information, n_knots):
    """Knots in the middle of groups of equal information; ties give fewer."""
    order = np.argsort(odds)
    reached = np.cumsum(information[order]) / information.sum()
    places = np.searchsorted(reached, (np.arange(n_knots) + 0.5) / n_knots)
    return np.unique(odds[order[np.minimum(places, len(odds) - 1)]])


def _hats(odds, knots):
    """Hat functions (n, n_knots), which sum to one; the outer ones are one beyond the ends."""
    odds = np.clip(odds, knots[0], knots[-1])
    left = np.clip(np.searchsorted(knots, odds) - 1, 0, len(knots) - 2)
    share = (odds - knots[left]) / (knots[left + 1] - knots[left])
    hats = np.zeros((len(odds), len(knots)))
    rows = np.arange(len(odds))
    hats[rows, left] = 1 - share
    hats[rows, left + 1] = share
    return hats


def _smooth_curve(odds, hats, hit, weight):
    """Values at the knots by penalised likelihood, with the penalty from marginal likelihood."""
    n_knots = hats.shape[1]
    steps = np.diff(np.eye(n_knots), axis=0)
    roughness = steps.T @ steps
    values, precision = np.zeros(n_knots), 1.0
    for _ in range(_ROUNDS):
        penalty = precision * roughness + _WEAK_PRIOR * np.eye(n_knots)
        values, hessian = logistic_regression(
            hats, odds, hit, weight, penalty=penalty, start=values
        )
        used = precision * np.trace(solve(hessian, roughness, assume_a="pos"))
        found = (n_knots - 1 - used) / max(values @ roughness @ values, 1e-12)
        change = np.log(max(found, 1e-6) / precision)
        precision *= np.exp(change)
        if abs(change) < 0.1:  # smaller changes of the penalty hardly change the curve
            break
    return values
