"""Recalibrators of one probability, class by class: parametric maps of the logit, and curves.

`OneVsRestRecalibrator` is the base class. `PlattScaling`, `BetaCalibration` and `QuadraticScaling`
fit a parametric map of the logit. `IsotonicRecalibrator`, `HistogramBinning` and
`KernelRecalibrator` apply a smoother out of sample, `VennAbersRecalibrator` two isotonic
regressions, and `SplineScaling` a spline of the logit.
"""

from __future__ import annotations

import warnings
from copy import copy
from functools import partial
from itertools import chain, combinations
from typing import Literal

import numpy as np
from scipy.linalg import eigh
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from skcalib._util.arithmetic import reach_in_single_precision
from skcalib._util.types import ArrayLike, Bandwidth, Bins, Strategy
from skcalib._util.validation import look_up, number_of_samples, weights_of_mean_one
from skcalib.data.clusters import outside_level
from skcalib.data.notions import rests_and_classes
from skcalib.links import BetaMap, BinaryMap, LinkFit, PlattMap, QuadraticMap, fit_link
from skcalib.links.logits import (
    Continuation,
    curve_of_ranks,
    detection_limit,
    in_clumps,
    log_forecast,
)
from skcalib.links.newton import (
    likelihood_tolerance,
    logistic_loss,
    logistic_regression,
    minimise_convex,
)
from skcalib.recalibration.base import (
    FittedFromParts,
    FittedFromSketch,
    Recalibrator,
    divided_by_sum,
)
from skcalib.scores import LogLoss, LossLike, weighted_mean
from skcalib.smoothers import DirichletKernel, QuantileBins, UniformBins
from skcalib.smoothers.partition import TiedScores, interpolate, isotonic_cells
from skcalib.smoothers.spline import SplineBasis

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
        pairs = Parallel(prefer="threads")(
            delayed(_both_columns)(fitted, pair, ends)
            for fitted, pair, ends in zip(
                self._maps, rests_and_classes(forecast), self._ends, strict=True
            )
        )
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
        self._target, self._share = target, weights_of_mean_one(weight, count)
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
            value, slopes = logistic_loss(features[:, rows], label[rows], share[rows])
            pilot = minimise_convex(value, slopes, start, max_values=_MOST_VALUES)
            start = pilot.parameters if pilot.converged else start
        tolerance = likelihood_tolerance(n_samples)
        bounded = [k for k, (low, _) in enumerate(self.bounds(2) or []) if low is not None]
        subsets = (combinations(bounded, n_active) for n_active in range(len(bounded) + 1))
        value, slopes = logistic_loss(features, label, share)
        for active in chain.from_iterable(subsets):
            free = np.setdiff1d(np.arange(len(start)), active)
            free_value, free_slopes = (
                logistic_loss(features[free], label, share) if active else (value, slopes)
            )
            minimum = minimise_convex(
                free_value, free_slopes, start[free], tolerance=tolerance, max_values=_MOST_VALUES
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
    counts = weights_of_mean_one(samples.weight, samples.count) @ samples.target
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


# --- Smoothers ------------------------------------------------------------------------------------


class IsotonicRecalibrator(OneVsRestRecalibrator, FittedFromSketch):
    r"""Isotonic regression of the label on the probability, class by class.

    Plain isotonic regression is constant within its cells, so it is not injective and loses
    sharpness. Its ends are often exactly 0 or 1, so a wrong forecast there has an infinite log
    loss. ``centered=True`` places each level at the mean probability of its cell and interpolates
    (centered isotonic regression). Beyond the first and the last cell the map is constant.
    ``strict=True`` also adds a small share of the identity. The map is then strictly increasing,
    injective for two classes, and 0 or 1 only if the forecast is.

    Parameters
    ----------
    centered : bool, default=False
        Interpolate between the centres of the cells.
    strict : bool, default=False
        Strictly increasing; implies `centered`.

    See Also
    --------
    PlattScaling : Two parameters, for few samples.
    HistogramBinning : A map that is constant in bins.

    Examples
    --------
    >>> from skcalib import IsotonicRecalibrator
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> IsotonicRecalibrator(strict=True).fit(data.y_proba, data.y).injective_
    True
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        centered: bool = False,
        strict: bool = False,
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.centered = centered
        self.strict = strict

    def _fit_map(self, samples):
        self._fit_each(partial(_IsotonicMap, self.centered, self.strict), samples)
        if len(self._maps) > 1 or self.centered or self.strict or not self._measures:
            return None
        # The height of a cell is the mean label, so the mean loss in the cell is the entropy.
        level, mass = self._maps[0].levels[::2], self._maps[0].mass
        after = weighted_mean(samples.score.entropy(np.column_stack([1 - level, level])), mass)
        return samples.mean_loss(samples.forecast), float(after)


class _IsotonicMap:
    """Linear interpolation between knots or centres of isotonic cells, with a part of identity."""

    preserves_order, continues = False, True

    def __init__(self, centered, strict, samples):
        cells = isotonic_cells(samples.forecast[:, 1], samples.target[:, 1], samples.weight)
        self.mass, self.blend = cells.mass, 0.0
        if centered or strict:
            self.knots, self.levels = cells.mean, cells.level
        else:
            self.knots = np.column_stack([cells.lower, cells.upper]).ravel()
            self.levels = np.repeat(cells.level, 2)
        if strict:  # the identity has the weight of one sample among n + 1
            self.blend = 1 / (number_of_samples(samples.weight, samples.count) + 1)
        self.injective = self.blend > 0

    def __call__(self, forecast):
        p = forecast[:, 1]
        curve = interpolate(p, self.knots, self.levels)
        return (1 - self.blend) * curve + self.blend * p if self.blend else curve

    def _write(self, add, x):
        curve = add.lines(add.second(x), self.knots, (1 - self.blend) * self.levels)
        return add("sum", curve, add("scale", add.second(x), factor=self.blend))


class HistogramBinning(OneVsRestRecalibrator, FittedFromSketch):
    r"""Histogram binning: the frequency of the class in the bin of its probability (F24).

    :math:`h(s) = \sum_b \bar y_b 1\{s \in I_b\}`, class by class. Not injective: it depends
    on the forecast only through its bin. A new forecast in a bin without samples gets the
    value of the nearest bin. So the map is constant beyond the scores that it was fitted to. The
    frequencies need not increase from bin to bin. A score at an edge stays in its bin if it is
    rounded to single precision.

    Parameters
    ----------
    n_bins : int, "auto" or "cube_root", default=15
        Bins of each probability; for ``strategy="uniform"`` also edges from 0 to 1. As in
        :func:`~skcalib.calibration_error`, whose "auto" minimises the bias of an error, not of a
        map.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass or equal width.

    See Also
    --------
    IsotonicRecalibrator : An increasing map that finds its own bins.
    skcalib.reliability_bins : The bins as numbers.

    Examples
    --------
    >>> from skcalib import HistogramBinning
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(2000, 2, random_state=0)
    >>> binning = HistogramBinning(n_bins=5).fit(data.y_proba, data.y)
    >>> len(set(binning.predict_proba(data.y_proba)[:, 1]))
    5
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        n_bins: Bins = 15,
        strategy: Strategy = "quantile",
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.n_bins = n_bins
        self.strategy = strategy

    def _fit_map(self, samples):
        kinds = {"quantile": QuantileBins, "uniform": UniformBins}
        bins = look_up(self.strategy, kinds, "strategy")
        self._fit_each(partial(_BinMap, bins, self.n_bins), samples)


class _BinMap:
    """The second column of the means of bins, which are constant beyond the scores.

    The rounding of a score to single precision does not move it to another bin.
    """

    injective, preserves_order, continues = False, False, True

    def __init__(self, bins, n_bins, samples):
        self.bins = bins = bins(n_bins).fit_rows(
            samples.forecast, samples.target, samples.weight, samples.count
        )
        order = np.argsort(bins.forecast_[:, 1], kind="stable")
        score, cell = bins.forecast_[order, 1], bins.cells_[order]
        last = np.flatnonzero(np.diff(cell))
        # The last score of a bin, and the first of the next one.
        self.ends = np.unique(score[np.append(last, last + 1)])
        self.lower, self.upper = reach_in_single_precision(self.ends)

    def __call__(self, forecast):
        score = np.array(forecast[:, 1], dtype=np.float64)
        place = np.searchsorted(self.lower, score, side="right") - 1
        near = (place >= 0) & (score <= np.append(self.upper, -1.0)[place])
        score[near] = self.ends[place[near]]
        return self.bins.predict(np.column_stack([1 - score, score]))[:, 1]

    def _write(self, add, x):
        breaks = np.column_stack([self.lower, self.upper]).ravel()
        level = np.column_stack([self.ends, self.upper]).ravel()
        slope = np.tile([0.0, 1.0], len(self.ends))
        coef = np.column_stack([np.append(self.lower[:1], level), np.append(1.0, slope)])
        score = add.second(x)
        if len(self.ends):
            score = add("curve", score, breaks=breaks, coef=coef)
        return add.part(self.bins, add.pair(score))


class KernelRecalibrator(OneVsRestRecalibrator):
    r"""Kernel regression of the label on the probability with a Beta kernel, class by class.

    The kernels are those of the ranks: the log odds of the quantile of the rank p first become
    log(p / (1 - p)), by lines between knots. Gaps between clumps of log odds stay gaps, of up to
    two units. So the map does not depend on the scale of logits, nor on any increasing function of
    the probabilities. With a number or a function as the bandwidth, and for fewer than 20 samples,
    the kernels are those of the probabilities.

    The map may fall within the scores that it was fitted to. Beyond them, where no kernel has
    neighbours, the log odds continue as a line that does not fall (:ref:`beyond_the_scores`).
    Probabilities below the limit of detection, and 0, count as this limit.

    Parameters
    ----------
    bandwidth : {"risk", "loo", "scott"}, float or callable, default="risk"
        As in `DirichletKernel`, of the ranks. "risk" minimises the leave-one-out `loss` of the map.

    See Also
    --------
    HistogramBinning : Bins in place of the kernel.

    Examples
    --------
    >>> from skcalib.recalibration import KernelRecalibrator
    >>> from skcalib.datasets import make_tempered_simplex
    >>> data = make_tempered_simplex(1000, 2, random_state=0)
    >>> kernel = KernelRecalibrator(bandwidth=0.01).fit(data.y_proba, data.y)
    >>> kernel.loss_after_ < kernel.loss_before_
    True
    """

    def __init__(
        self,
        *,
        input: Literal["proba", "logits"] = "proba",
        loss: LossLike = "log",
        labels: ArrayLike | None = None,
        bandwidth: Bandwidth = "risk",
    ) -> None:
        super().__init__(input=input, loss=loss, labels=labels)
        self.bandwidth = bandwidth

    def _fit_map(self, samples):
        self._fit_each(partial(_KernelMap, self.bandwidth, self.loss), samples)


class _RankKernel(DirichletKernel):
    """A Dirichlet kernel in units of the ranks."""

    def _curve_of(self, forecast):
        return curve_of_ranks(forecast)


class _KernelMap:
    """The second column of averages, at forecasts of at least the limit of detection."""

    injective = preserves_order = continues = False

    def __init__(self, bandwidth, loss, samples):
        self.limit = detection_limit(samples.forecast)
        self.kernel = _RankKernel(bandwidth, loss=loss)
        self.kernel.fit(samples.forecast, samples.target, samples.weight)

    def __call__(self, forecast):
        return self.kernel.predict(np.maximum(forecast, self.limit))[:, 1]

    def _write(self, add, x):
        coef = [[self.limit, 0], [self.limit, 1]]
        return add.part(self.kernel, add("curve", x, breaks=[self.limit], coef=coef))


# --- Venn-Abers predictors ------------------------------------------------------------------------


class VennAbersRecalibrator(OneVsRestRecalibrator, FittedFromSketch):  # numpydoc ignore=PR02
    r"""Inductive Venn-Abers predictor: two isotonic regressions for each forecast, merged.

    A new forecast s is added to the calibration samples, once with the label 0 and once with the
    label 1. The values :math:`p_0 \le p_1` of the two isotonic regressions at s are an imprecise
    probability: if the samples are exchangeable, the one that belongs to the true label is
    calibrated, for any number of samples [1]_. `predict_interval` returns both. The probability is

    .. math:: p = \frac{p_1}{1 - p_0 + p_1},

    which minimises the largest regret under the log loss [2]_. It is never 0 or 1. The map
    increases but is constant between neighbouring scores and within most isotonic cells, so it is
    not injective. For more than two classes, each class is one problem against the rest, and
    rows are divided by their sum.

    A new sample has the weight 1, and the weights of the calibration samples are divided by their
    mean. Forecasts of the calibration set that differ by rounding only are tied. A new forecast is
    tied to one of them up to the rounding errors of single precision, but at most up to a quarter
    of the distance to the next.

    See Also
    --------
    IsotonicRecalibrator : One isotonic regression; its ends are often exactly 0 or 1.
    HistogramBinning : Frequencies of bins.

    Notes
    -----
    The fit computes :math:`p_0` and :math:`p_1` at all distinct scores and between them from the
    diagram of cumulative sums, without an isotonic regression for each. Cost: O(n log n), about
    .2 s for 100,000 and 2 s for a million samples; a prediction is a binary search.

    References
    ----------
    .. [1] Vovk and Petej (2014), Venn-Abers predictors, UAI.
    .. [2] Vovk, Petej and Fedorova (2015), Large-scale probabilistic predictors with and without
       guarantees of validity, NeurIPS.

    Examples
    --------
    >>> from skcalib import VennAbersRecalibrator
    >>> venn_abers = VennAbersRecalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1])
    >>> venn_abers.predict_interval([0.5, 0.95])
    array([[0.        , 1.        ],
           [0.66666667, 1.        ]])
    >>> venn_abers.predict_proba([0.5, 0.95])
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """

    def _fit_map(self, samples):
        self._fit_each(_VennAbersMap, samples)

    def predict_interval(self, X: ArrayLike) -> np.ndarray:
        r"""The two probabilities :math:`p_0 \le p_1` of each forecast.

        Parameters
        ----------
        X : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities or logits, as in `fit`.

        Returns
        -------
        array of shape (n_samples, 2) or (n_samples, n_classes, 2)
            For two classes those of the last class. For more, those of each class against the rest.
        """
        forecast = self._read(self._check_forecasts(X))
        problems = [*rests_and_classes(forecast)][-len(self._maps) :]
        limits = [venn.interval(rows) for venn, rows in zip(self._maps, problems, strict=True)]
        return limits[0] if len(limits) == 1 else np.stack(limits, axis=1)


class _VennAbersMap:
    """Tables of p0 and p1 at the distinct scores (m,) of samples with two columns."""

    injective = preserves_order = False
    continues = True

    def __init__(self, samples):
        weight = weights_of_mean_one(samples.weight, samples.count)
        ties = TiedScores(samples.forecast[:, 1], weight)
        means = np.clip(ties.means(samples.target[:, 1]), 0.0, 1.0)
        mass = np.maximum(ties.mass, 1e-15 * ties.mass.sum())  # less is lost in sums
        self.lower, self.upper = reach_in_single_precision(ties.score)
        # A label of 1 between two scores is pooled with the samples above it, as if tied to them.
        self.high = np.append(_after_added_label(mass, means), 1.0)
        mirrored = _after_added_label(mass[::-1], 1 - means[::-1])
        self.low = np.append(0.0, 1 - mirrored[::-1])

    def interval(self, forecast):
        score = forecast[:, 1]
        place = np.searchsorted(self.lower, score, side="right")
        tied = (place > 0) & (score <= self.upper[place - 1])
        return np.column_stack([self.low[place], self.high[place - tied]])

    def __call__(self, forecast):
        low, high = self.interval(forecast).T
        return high / (1 - low + high)

    def _write(self, add, x):
        upper = np.nextafter(self.upper, 2)  # from there on a new score is not tied
        low, high = np.repeat(self.low, 2)[1:], np.repeat(self.high, 2)[:-1]
        return add.stairs(x, np.column_stack([self.lower, upper]).ravel(), high / (1 - low + high))


def _after_added_label(mass, means):
    r"""Isotonic regression at each of m ordered groups after a label of 1 is added to the group.

    In the diagram of cumulative mass and sums, the value at a group is the slope of the lower
    common tangent of the points left of the group, moved by (-1, -1), and of the points right of
    it. From group to group one point passes from the right to the left, down by 1 minus the slope.
    The tangent changes only where that point lies below it, and then starts there (Vovk, Petej and
    Fedorova 2015, algorithms 1 and 2). Both of its ends move to the right only.
    """
    n_groups = len(mass)
    x = np.append(0.0, np.cumsum(mass)).tolist()
    y = np.append(0.0, np.cumsum(mass * means)).tolist()
    # The vertex after each point of the convex hull of this point and those right of it.
    following = [n_groups] * (n_groups + 1)

    def lowest(left, below, end):
        """The end of the lowest line from a point to the hull from `end` on, and its slope."""
        slope = (y[end] - below) / (x[end] - left)
        while end < n_groups:
            after = following[end]
            new = (y[after] - below) / (x[after] - left)
            if new > slope:
                break
            end, slope = after, new
        return end, slope

    for start in range(n_groups - 1, -1, -1):
        following[start] = lowest(x[start], y[start], start + 1)[0]
    slopes, end, slope, left, below = [], 0, np.inf, -2.0, 0.0
    for start in range(n_groups):
        if y[start] - 1 - below < slope * (x[start] - 1 - left):
            left, below = x[start] - 1, y[start] - 1
            end, slope = lowest(left, below, max(end, start + 1))
        slopes.append(slope)
    return np.clip(slopes, 0.0, 1.0)


# --- Splines --------------------------------------------------------------------------------------


_PLACES = np.linspace(0.02, 0.98, 12)  # quantiles of the logits at which the knots lie
_CLOSE = 1e-3  # least distance of two knots, in units of the range of all
_PENALTIES = 10.0 ** -np.arange(6)  # precisions of the curvature
_MIDDLE, _END = 0.1, 0.5  # prior precisions: of the change at the mean, and its slopes at the ends
_WIDEST = 4.0  # standard deviation of the logits beyond which both precisions are smaller
_COST = 0.5  # of the log likelihood, for each power of ten by which the penalty is smaller
_TOLERANCE = 1e-7  # of the log likelihood: a Newton step then gives twice as many digits
_ROUNDING = 1e-9  # least distance of two logits, and least slope of a monotone curve


class SplineScaling(OneVsRestRecalibrator, FittedFromSketch):  # numpydoc ignore=PR02
    r"""Spline of the logit: :math:`\sigma(f(logit\, s))` with a natural cubic spline f.

    The spline has 12 knots, at quantiles of the logits from .02 to .98, or fewer where scores are
    tied. Between the knots f is cubic, and beyond them linear. It minimises

    .. math:: \sum_i w_i \log(1 + e^{-(2 y_i - 1) f(t_i)}) + \frac{\lambda}{2} \int f''(u)^2 du +
        c \Big( \frac{v}{4} \sum_{e} (f'(e) - 1)^2 + \frac{1}{20} (f(m) - m)^2 \Big),

    where u is the logit in units of the distance of the outer knots e, and m and v are mean and
    variance of the logits. The weights add up to the effective number of samples. The last two
    terms are weak normal priors, which keep the curve finite where labels are separable or all the
    same. The factor c = min(1, 16 / v) keeps them weak where forecasts are very over-confident.
    The strength :math:`\lambda` is one of 1, .1, ..., 1e-5. It has the largest marginal
    likelihood (Laplace's approximation) times :math:`e^{1/2}` for each power of ten. So the curve
    is nearly straight where the data do not support a curvature.

    If the logits lie in clumps, where in the median a tenth of the different ones is closer
    together than .2 % of their range, those of the ranks take their place: log(p / (1 - p)) for the
    quantile of the rank p, with gaps of up to two units between the clumps. Otherwise no scale of
    the logits matters but by the weak priors.

    For more than two classes there is one curve for each class against the rest. For two classes
    the map is injective if f is monotone, which is checked exactly. It may fall within the scores
    that it was fitted to. If it falls beyond the outer knots, another line, which does not fall,
    replaces it beyond the scores (:ref:`beyond_the_scores`).

    Cost: O(n log n), with about 15 Newton steps for 12 coefficients: .5 s for 100,000 samples.

    Attributes
    ----------
    penalty_ : array of shape (n_maps,)
        Strength :math:`\lambda` of the penalty; one map for two classes, else one for each class.

    See Also
    --------
    PlattScaling : A straight line of the logit.
    skcalib.recalibration.QuadraticScaling : A parabola.
    skcalib.recalibration.ModelAverageScaling : Curves, where the labels show them.
    skcalib.smoothers.SplineSmoother : Regression splines with intervals, to draw a curve.

    Examples
    --------
    >>> import numpy as np
    >>> from skcalib import SplineScaling
    >>> rng = np.random.default_rng(0)
    >>> score = rng.random(5000)
    >>> y = rng.random(5000) < np.where(score < 0.5, 0.2, 0.8)  # a step
    >>> SplineScaling().fit(score, y).predict_proba([0.3, 0.7])[:, 1].round(1)
    array([0.2, 0.8])
    """

    def _fit_map(self, samples):
        self._fit_each(_SplineMap, samples)

    def _fit_without_each(self, samples, average):
        of_classes = [
            _SplineMap(rows).without_each(rows, samples.folds) for rows in samples.per_class()
        ]
        fits = [copy(self) for _ in samples.folds]
        for fit, *maps in zip(fits, *of_classes, strict=True):
            fit._take_maps(maps)
        return fits

    def _take_maps(self, maps):
        super()._take_maps(maps)
        self.penalty_ = np.array([curve.penalty for curve in maps])


class _SplineMap:
    """The fitted curve of samples with two columns: the logit plus a spline of the logit."""

    def __init__(self, samples):
        self._limit, self._ranks = detection_limit(samples.forecast), None
        log = log_forecast(samples.forecast, self._limit).astype(np.float64)
        if in_clumps(log[:, 1] - log[:, 0]):
            self._ranks = curve_of_ranks(samples.forecast)
        t, label, weight = self._data(samples)
        self._basis = SplineBasis(_knots(samples.forecast[:, 1], t, weight))
        self._at = self._basis.start + self._basis.unit * self._basis.knots
        self._centre = np.average(t, weights=weight)
        self._spread = np.sqrt(np.average((t - self._centre) ** 2, weights=weight)) or 1.0
        # In units of the root of the roughness, which is then a multiple of the identity.
        self._root = np.linalg.inv(np.linalg.cholesky(_roughness(self._basis)).T)
        design, best = self._design(t), np.inf
        self.coef = np.zeros(design.shape[1])
        best_coef, best_penalty = self.coef, _PENALTIES[0]  # where no evidence is finite
        for penalty in _PENALTIES if len(self._root) else _PENALTIES[:1]:
            prior = self._prior(penalty)
            coef, hessian = logistic_regression(
                design, t, label, weight, penalty=prior, start=self.coef, tolerance=_TOLERANCE
            )
            linear = t + design @ coef
            value = weight @ (np.logaddexp(0, linear) - label * linear) + 0.5 * coef @ prior @ coef
            value += 0.5 * (np.linalg.slogdet(hessian)[1] - np.linalg.slogdet(prior)[1])
            value -= _COST * np.log10(penalty)
            if value < best:
                best, best_coef, best_penalty = value, coef, penalty
            self.coef = coef  # where the next fit starts
        self._take(best_coef, float(best_penalty))

    def without_each(self, samples, folds):
        """The curves without the samples of each fold, with the knots and the penalty of all."""
        t, label, weight = self._data(samples)
        design, prior = self._design(t), self._prior(self.penalty)
        curves = [copy(self) for _ in folds]
        for test, curve in zip(folds, curves, strict=True):
            train = np.delete(np.arange(len(t)), test)
            train_weight = weight[train] * (weight[train].sum() / (weight[train] @ weight[train]))
            coef, _ = logistic_regression(
                design[train],
                t[train],
                label[train],
                train_weight,
                penalty=prior,
                start=self.coef,
                tolerance=_TOLERANCE,
            )
            curve._take(coef, self.penalty)
        return curves

    def __call__(self, forecast):
        t = self._logit(forecast)
        return expit(t + self._design(t) @ self.coef)

    def _write(self, add, x):
        at = self._at if len(self._at) else np.zeros(1)
        value, slope, bend = (self._design(at, order) @ self.coef for order in range(3))
        coef = np.column_stack([at + value, 1 + slope, bend / 2, np.zeros(len(at))])
        coef[:-1, 3] = np.diff(bend) / np.diff(at) / 6
        coef = np.vstack([coef[:1], coef])
        coef[[0, -1], 2:] = 0.0  # beyond the knots
        t = add.logit(add.log(x, self._limit))
        if self._ranks is not None:
            t = self._ranks._write_values(add, t)
        return add("sigmoid", add("curve", t, breaks=at, coef=coef))

    def _data(self, samples):
        """Logits, labels, and weights that add up to the effective number of samples."""
        weight = samples.weight
        square = weight @ weight if samples.square is None else samples.square.sum()
        weight = weight * (weight.sum() / square)
        return self._logit(samples.forecast), samples.target[:, 1].astype(np.float64), weight

    def _logit(self, forecast):
        log = log_forecast(forecast, self._limit)
        t = (log[:, 1] - log[:, 0]).astype(np.float64)
        return t if self._ranks is None else self._ranks.of_values(t)

    def _design(self, t, derivative=0):
        columns = self._basis(t, derivative)
        if columns.shape[1] > 1:
            line = (t - self._centre, np.ones(len(t)), np.zeros(len(t)))[derivative]
            columns[:, 1] = line / self._spread
            columns[:, 2:] = columns[:, 2:] @ self._root
        return columns

    def _prior(self, penalty):
        """Precision of the coefficients."""
        middle = self._design(np.array([self._centre]))
        ends = self._design(self._at[[0, -1]] if len(self._at) else self._at, 1) * self._spread
        prior = _MIDDLE * middle.T @ middle + _END * ends.T @ ends
        prior *= min(1.0, _WIDEST / self._spread) ** 2
        prior[2:, 2:] += penalty * np.eye(len(self._root))
        return prior

    def _take(self, coef, penalty):
        """Set the coefficients, and whether the curve is monotone."""
        self.coef, self.penalty = coef, penalty
        at = self._at if len(self._at) else np.zeros(1)
        # The slope is extreme at knots, and where the second derivative, which is linear, is 0.
        bend = self._design(at, 2) @ coef
        before, after = bend[:-1], bend[1:]
        turns = before * after < 0
        share = before[turns] / (before[turns] - after[turns])
        at = np.append(at, at[:-1][turns] + share * np.diff(at)[turns])
        slope = 1 + self._design(at, 1) @ coef
        increasing = bool(slope.min() > _ROUNDING)
        self.injective = increasing or bool(slope.max() < -_ROUNDING)
        self.continues = bool(slope[[0, len(bend) - 1]].min() >= 0)
        middle = self._design(np.zeros(1)) @ coef
        self.preserves_order = increasing and self._ranks is None and bool(middle[0] == 0)


def _knots(score, t, weight):
    """Quantiles of logits that are apart; the ends where there are fewer than three of them."""
    ties = TiedScores(score, weight)
    middles = (np.cumsum(ties.mass) - 0.5 * ties.mass) / weight.sum()
    places = np.interp(_PLACES, middles, ties.means(t))
    least, knots = max(_CLOSE * (places[-1] - places[0]), _ROUNDING), places[:1].tolist()
    for place in places[1:]:
        if place - knots[-1] > least:
            knots.append(place)
    ends = np.unique([t.min(), t.max()])
    return np.array(knots) if len(knots) > 2 else ends[: 0 if len(ends) < 2 else 2]


def _roughness(basis):
    """Integrals of products of second derivatives, in units of the distance of the outer knots."""
    bends = basis(basis.start + basis.unit * basis.knots, 2)[:, 2:] * basis.unit**2
    left, right = bends[:-1], bends[1:]
    ends_and_middle = (left, left + right, right)  # Simpson's rule is exact for linear functions
    return sum((bend.T * (np.diff(basis.knots) / 6)) @ bend for bend in ends_and_middle)
