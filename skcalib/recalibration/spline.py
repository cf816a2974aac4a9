"""A smooth curve of the logit: a natural cubic spline with penalised curvature."""

from __future__ import annotations

from copy import copy

import numpy as np
from scipy.special import expit

from skcalib.links._base import detection_limit, log_forecast, logistic_regression
from skcalib.links.ranks import curve_of_ranks, in_clumps
from skcalib.recalibration._sketched import FittedFromSketch
from skcalib.recalibration.one_vs_rest import OneVsRestRecalibrator
from skcalib.smoothers.partition import TiedScores
from skcalib.smoothers.spline import SplineBasis

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
    skcalib.recalibration.ModelAverageScaling : Curves that have a weight only where the labels show
    them. skcalib.smoothers.SplineSmoother : Regression splines with intervals, to draw a curve.

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

    def _fit_without_each(self, samples, folds, whole=None):
        problems = samples.per_class()
        maps = [_SplineMap(one) for one in problems] if whole is None else whole._maps
        pairs = zip(maps, problems, strict=True)
        fits = [one.without_each(problem, folds) for one, problem in pairs]
        found = [copy(self) for _ in folds]
        for one, own in zip(found, zip(*fits, strict=True), strict=True):
            one._take_maps(list(own))
        return found

    def _take_maps(self, maps):
        super()._take_maps(maps)
        self.penalty_ = np.array([one.penalty for one in maps])


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
        found = self.coef, float(_PENALTIES[0])  # where the evidence of no penalty is finite
        for penalty in _PENALTIES if len(self._root) else _PENALTIES[:1]:
            coef, hessian = self._fitted(design, t, label, weight, penalty)
            linear, prior = t + design @ coef, self._prior(penalty)
            value = weight @ (np.logaddexp(0, linear) - label * linear) + 0.5 * coef @ prior @ coef
            value += 0.5 * (np.linalg.slogdet(hessian)[1] - np.linalg.slogdet(prior)[1])
            value -= _COST * np.log10(penalty)
            if value < best:
                best, found = value, (coef, float(penalty))
            self.coef = coef  # where the next fit starts
        self._take(*found)

    def without_each(self, samples, folds):
        """The curves without the samples of each fold, with the knots and the penalty of all."""
        t, label, weight = self._data(samples)
        design, curves = self._design(t), [copy(self) for _ in folds]
        for test, curve in zip(folds, curves, strict=True):
            kept = np.delete(np.arange(len(t)), test)
            own = weight[kept] * (weight[kept].sum() / (weight[kept] @ weight[kept]))
            data = design[kept], t[kept], label[kept], own
            curve._take(self._fitted(*data, self.penalty)[0], self.penalty)
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

    def _fitted(self, design, t, label, weight, penalty):
        options = {"penalty": self._prior(penalty), "tolerance": _TOLERANCE}
        return logistic_regression(design, t, label, weight, start=self.coef, **options)

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
    parts = (left, left + right, right)  # Simpson's rule is exact: the functions are linear
    return sum((one.T * (np.diff(basis.knots) / 6)) @ one for one in parts)
