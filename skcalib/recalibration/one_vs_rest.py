"""Recalibrators of one probability, class by class: parametric maps of the logit.

`OneVsRestRecalibrator` is the base class, also of the maps in `curves`. `PlattScaling`,
`BetaCalibration` and `QuadraticScaling` fit a parametric map of the logit.
"""

from __future__ import annotations

import warnings
from functools import partial
from itertools import chain, combinations
from typing import Literal

import numpy as np
from scipy.linalg import eigh
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.types import ArrayLike
from skcalib._util.validation import mean_one, number_of_samples
from skcalib.data.clusters import outside_level
from skcalib.data.notions import rests_and_classes
from skcalib.links import BetaMap, BinaryMap, LinkFit, PlattMap, QuadraticMap, fit_link
from skcalib.links.logits import Continuation, detection_limit, log_forecast
from skcalib.links.newton import likelihood_tolerance, logistic_loss, minimise_convex
from skcalib.recalibration.base import Recalibrator, divided_by_sum
from skcalib.recalibration.fitting import FittedFromParts, FittedFromSketch
from skcalib.scores import LogLoss, LossLike

#: Weak shrinkage towards the identity, in samples: keeps separable fits finite.
_WEAK = 1e-2
_PILOT, _MOST_VALUES = 2000, 50  # samples of a first fit, and evaluations of Newton's method
_COLLINEAR = 1e10  # condition number of the features
_WEAKEST = 1e-3  # information along a direction, below which labels may be separable


class OneVsRestRecalibrator(Recalibrator):
    """Base class: one map for each class against the rest, and rows divided by their sum.

    For two classes one map of the second column serves both. The ``_fit_map`` of a subclass calls
    ``_fit_each(fit_one, samples)``. There ``fit_one(samples)`` gets samples with two columns (rest,
    class), and returns a map from forecasts of two columns to the probability of the class, with
    the attributes ``injective``, ``preserves_order`` and ``continues``: whether it is monotone
    beyond the fitted scores. Where it is not, a `Continuation` replaces it there.
    """

    _takes_columns = True

    def _fit_each(self, fit_one, samples):
        """Fit the map of each class, and declare what all together preserve."""
        problems = samples.per_class()
        self._take_maps(Parallel()(delayed(fit_one)(rows) for rows in problems))
        for k, (fitted, rows) in enumerate(zip(self._maps, problems, strict=True)):
            if not fitted.continues:
                self._ends[k] = Continuation.of_forecasts(
                    partial(_both_columns, fitted), rows.forecast, rows.weight, rows.count
                )

    def _take_maps(self, maps):
        self._maps, self._ends = maps, [None] * len(maps)
        binary = len(self._maps) == 1
        # Beyond two classes the division by the sum mixes the maps: nothing is guaranteed.
        self.injective_ = binary and self._maps[0].injective
        self.preserves_order_ = binary and self._maps[0].preserves_order
        self.preserves_argmax_ = self.preserves_order_

    def _apply_map(self, forecast):
        if forecast.shape[1] == 2:
            return _both_columns(*self._maps, forecast, *self._ends)
        tasks = zip(self._maps, rests_and_classes(forecast), self._ends, strict=True)
        pairs = Parallel(prefer="threads")(delayed(_both_columns)(*task) for task in tasks)
        p = np.stack([proba[:, 1] for proba in pairs], axis=1)
        return divided_by_sum(p, forecast)

    def _write_map(self, add, x):
        if len(self._maps) == 1:
            return _write_columns(add, self._maps[0], x, self._ends[0])
        classes = np.eye(len(self._maps))
        pairs = [add("matrix", x, coef=np.column_stack([1 - class_, class_])) for class_ in classes]
        columns = [
            add.second(_write_columns(add, fitted, pair, ends))
            for fitted, pair, ends in zip(self._maps, pairs, self._ends, strict=True)
        ]
        return add("normalise", add("columns", *columns), x)


def _both_columns(fitted, forecast, ends=None):
    """Probabilities (n, 2) of rest and class by the map of a class, and `ends` beyond its range."""
    if ends is not None:
        return ends(partial(_both_columns, fitted), forecast)
    p = np.clip(fitted(forecast), 0.0, 1.0)
    return np.column_stack([1 - p, p])


def _write_columns(add, fitted, x, ends):
    """Add `_both_columns`."""
    if ends is not None:
        return ends.write_forecasts(add, lambda near: _write_columns(add, fitted, near, None), x)
    return add.pair(add.part(fitted, x))


class BinaryLinkRecalibrator(OneVsRestRecalibrator, FittedFromSketch, FittedFromParts):
    """Base class of recalibrators that fit a `BinaryMap` of the logit under the loss.

    The ``_fit_map(samples)`` of a subclass calls ``_fit_links(link, samples)``, which returns the
    parameters of the maps, shape (n_maps, P), and sets its public attributes from them.

    If the labels are separable, or all the same, the best parameters are infinite. The map is then
    shrunk towards the identity with the weight of a hundredth of a sample. A `ConvergenceWarning`
    is raised, unless it is the map of a class without labels among several classes.

    Attributes
    ----------
    n_iter_ : int
        Iterations of the longest fit.

    See Also
    --------
    skcalib.PlattScaling : An example.
    skcalib.testing.check_recalibrator : Checks a new recalibrator.
    """

    def _fit_links(self, link, samples, targets=None):
        """Fit the link to each class against the rest.

        `targets` is a function of samples with two columns that gives the target of the fit.
        """
        self._fit_each(partial(_LinkMap, link, targets), samples)
        labelled = [fitted for fitted in self._maps if fitted.labelled]
        # No warning for a class without labels among several classes.
        warned = labelled if len(labelled) > 1 else self._maps
        separable = sum(fitted.separable for fitted in warned)
        if separable:
            warnings.warn(
                f"{type(self).__name__}: in {separable} of {len(self._maps)} problems the labels "
                "are separable by the score, or all the same, and the best parameters are "
                f"infinite. The map was shrunk towards the identity with the weight of {_WEAK:g} "
                "samples, which keeps them finite.",
                ConvergenceWarning,
                stacklevel=outside_level(),
            )
        self.n_iter_ = max(fitted.n_iter for fitted in self._maps)
        return np.array([fitted.theta for fitted in self._maps])


class _LinkMap:
    """A fitted map of two columns to the probability of the second."""

    def __init__(self, link, targets, samples):
        self.link, self.limit = link, detection_limit(samples.forecast)
        self.labelled, self.separable = samples.target[:, 1].any(), False
        logits = log_forecast(samples.forecast, self.limit)
        target = samples.target if targets is None else targets(samples)
        rows = _LinkAtRows(link, logits, target, samples.weight, samples.count)
        fit = rows.newton() if isinstance(samples.score, LogLoss) else None
        if fit is None:
            fit = fit_link(rows, samples.score, logits, target, samples.weight, tolerance=1e-10)
            self.separable = not fit.converged or rows.separates(fit.theta)
        if self.separable:
            rows.strength = _WEAK
            fit = fit_link(
                rows,
                samples.score,
                logits,
                target,
                samples.weight,
                shrinkage=1.0,
                n_samples=number_of_samples(samples.weight, samples.count),
            )
        self.theta, self.n_iter = fit.theta, fit.n_iter
        self.injective = link.injective(fit.theta, 2)
        self.continues = link.continues(fit.theta)
        self.preserves_order = link.preserves_order(fit.theta, 2)

    def __call__(self, forecast):
        return expit(self.link.features(log_forecast(forecast, self.limit)) @ self.theta)

    def _write(self, add, x):
        return add("sigmoid", add.part(self.link, self.theta, add.log(x, self.limit)))


class _LinkAtRows(BinaryMap):
    """A link at rows of samples, whose features are computed once.

    With a `strength` all parameters are weakly shrunk towards the identity.
    """

    strength = None

    def __init__(self, link, logits, target, weight, count):
        self.identity, self.bounds = link.identity, link.bounds
        self._link, self._features, self._logits = link, link.features(logits), logits
        self._target, self._share = target, mean_one(weight, count)
        self._count = np.ones(len(logits)) if count is None else count

    def features(self, logits):
        return self._features

    def stiffness(self, n_classes):
        if self.strength is None:
            return self._link.stiffness(n_classes)
        return np.full(len(self.identity), self.strength)

    def newton(self):
        """The `LinkFit` of the log loss; None for nearly separable labels or collinear features.

        The active bounds are those for which the optimum of the other parameters is feasible, and
        the loss does not fall towards the inside.
        """
        features = np.ascontiguousarray(self._features.T)
        gram, n_samples = (features * self._count) @ features.T, self._count.sum()
        size = np.sqrt(np.diag(gram))
        if size.min() == 0 or not np.linalg.cond(gram / np.outer(size, size)) < _COLLINEAR:
            return None
        label, share, start = self._target[:, 1], self._share, np.array(self.identity)
        if len(label) > 4 * _PILOT:
            rows = np.linspace(0, len(label) - 1, _PILOT).astype(int)
            loss = logistic_loss(features[:, rows], label[rows], share[rows])
            pilot = minimise_convex(*loss, start, max_values=_MOST_VALUES)
            start = pilot.parameters if pilot.converged else start
        tolerance = likelihood_tolerance(n_samples)
        bounded = [k for k, (low, _) in enumerate(self.bounds(2) or []) if low is not None]
        subsets = (combinations(bounded, n_active) for n_active in range(len(bounded) + 1))
        value, slopes = logistic_loss(features, label, share)
        for active in chain.from_iterable(subsets):
            free = np.setdiff1d(np.arange(len(start)), active)
            loss = logistic_loss(features[free], label, share) if active else (value, slopes)
            minimum = minimise_convex(
                *loss, start[free], tolerance=tolerance, max_values=_MOST_VALUES
            )
            if not minimum.converged:
                return None
            theta = np.zeros(len(start))
            theta[free] = minimum.refined
            gradient, information = slopes(theta, value(theta)[1])
            if min(theta[bounded], default=0) >= 0 and min(gradient[list(active)], default=0) >= 0:
                least = eigh(information, gram, eigvals_only=True)[0] * n_samples
                fit = LinkFit(theta, minimum.n_iter, True, "Newton's method")
                return fit if least >= _WEAKEST else None
        return None

    def separates(self, theta):
        """Whether a linear combination of the features separates the labels, apart from ties.

        The parameters then grow until the fitted probabilities are close to 0 or 1. So a direction
        with less information than a weak prior is one along which no sample becomes less likely, or
        the parameters themselves are. Directions in which the features do not vary are ignored.
        """
        count = self._count[:, None]
        basis, sizes, axes = np.linalg.svd(np.sqrt(count) * self._features, full_matrices=False)
        varies = sizes > 1e-10 * sizes[0]
        basis = basis[:, varies] * np.sqrt(count.sum() / count)
        p = softmax(self.apply(theta, self._logits), axis=1)[:, 1]
        spread = p * (1 - p) * self._share
        information, directions = np.linalg.eigh(basis.T @ (spread[:, None] * basis))
        weak = basis @ directions[:, information < _WEAKEST]
        if not weak.size:
            return False
        fitted = axes[varies] @ theta * sizes[varies] / np.sqrt(count.sum())
        steps = np.column_stack([weak, basis @ fitted]) * np.sign(self._target[:, 1:] - 0.5)
        least = 1e-9 * np.abs(steps).max(axis=0)
        return bool(np.any(np.all(steps >= -least, axis=0) | np.all(steps <= least, axis=0)))


class PlattScaling(BinaryLinkRecalibrator):
    r"""Platt scaling on logits: :math:`\sigma(a\, logit(s) + b)`, for each class against the rest.

    The map is applied to the *logit*: Platt's map of the probability itself fits worse on most
    tasks. For two classes it is injective if a is not 0. An intercept b that is not 0 may change
    the predicted class.

    Parameters
    ----------
    smooth_targets : bool, default=False
        Platt's targets :math:`(n_+ + 1) / (n_+ + 2)` and :math:`1 / (n_- + 2)` for 1 and 0.

    Attributes
    ----------
    coef_ : array of shape (n_maps,)
        Slopes a; one map for two classes, else one for each class.
    intercept_ : array of shape (n_maps,)
        Intercepts b.

    See Also
    --------
    BetaCalibration : One parameter more, for curves that are not logistic.
    TemperatureScaling : One parameter fewer: no shift.

    Examples
    --------
    >>> from skcalib import PlattScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 2, random_state=0)
    >>> PlattScaling().fit(data.y_proba, data.y).coef_.round(1)
    array([0.6])
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        smooth_targets: bool = False,
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.smooth_targets = smooth_targets

    def _fit_map(self, samples):
        targets = _smooth_targets if self.smooth_targets else None
        self.coef_, self.intercept_ = self._fit_links(PlattMap(), samples, targets).T


def _smooth_targets(samples):
    """Platt's targets of samples with two columns."""
    counts = mean_one(samples.weight, samples.count) @ samples.target
    high, low = (counts + 1) / (counts + 2), 1 / (counts + 2)
    right = np.where(samples.target[:, 1] == 1, high[1], low[0])
    return np.column_stack([1 - right, right])


class BetaCalibration(BinaryLinkRecalibrator):
    r"""Beta calibration: :math:`\sigma(a \log s - b \log(1 - s) + c)` with a, b >= 0 (Kull 2017).

    One map for each class against the rest. The family contains the identity. For two classes the
    map is injective unless a = b = 0.

    Parameters
    ----------
    parameters : {"abm", "am", "ab"}, default="abm"
        All three parameters; b = a; or :math:`c = (a - b) \log 2`, which leaves forecasts of 1/2
        unchanged (m = 1/2 in the paper).

    Attributes
    ----------
    coef_ : array of shape (n_maps, 2)
        a and b of each map.
    intercept_ : array of shape (n_maps,)
        c of each map.

    See Also
    --------
    PlattScaling : One parameter fewer.
    skcalib.recalibration.QuadraticScaling : Another map of three parameters.

    Examples
    --------
    >>> from skcalib import BetaCalibration
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(20_000, 2, random_state=0)
    >>> BetaCalibration(parameters="am").fit(data.y_proba, data.y).coef_.round(1)
    array([[0.6, 0.6]])
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        parameters: Literal["abm", "am", "ab"] = "abm",
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.parameters = parameters

    def _fit_map(self, samples):
        link = BetaMap(self.parameters)
        thetas = self._fit_links(link, samples)
        self.coef_ = np.array([link.slopes(theta) for theta in thetas])
        self.intercept_ = np.array([link.intercept(theta) for theta in thetas])


class QuadraticScaling(BinaryLinkRecalibrator):
    r"""Quadratic scaling: :math:`\sigma(a\, l^2 + b\, l + c)` of the logit l, class by class.

    One parameter more than `PlattScaling`, for curved maps. A parabola is not monotone, so the map
    is not injective unless a = 0, and may fall within the scores that it was fitted to. Beyond them
    the log odds continue as a line that does not fall (:ref:`beyond_the_scores`).

    Attributes
    ----------
    coef_ : array of shape (n_maps, 2)
        b and a of each map: the linear and the quadratic coefficient.
    intercept_ : array of shape (n_maps,)
        c of each map.

    See Also
    --------
    BetaCalibration : Another map of three parameters.

    Examples
    --------
    >>> from skcalib.recalibration import QuadraticScaling
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> QuadraticScaling().fit(data.y_proba, data.y).coef_.shape
    (1, 2)
    """

    def _fit_map(self, samples):
        theta = self._fit_links(QuadraticMap(), samples)
        self.coef_, self.intercept_ = theta[:, [0, 2]], theta[:, 1]
