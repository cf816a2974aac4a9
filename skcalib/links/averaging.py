r"""Recalibration maps averaged by their evidence.

A `ModelAverage` fits a short list of nested models, `_TWO` or `_MORE`. Each corrects the logits in
the directions of some groups of a `LogitBasis`, by penalised maximum likelihood on all samples. The
guide (:ref:`averaged_maps`) has the cost of a model, its log evidence, and the weights.

Label distributions as targets vary less around C than labels do, by the factor :math:`\phi = E|Q -
C|^2 / E(1 - |C|^2)`, which is 1 for labels. Their log likelihoods are divided by this factor
(quasi-likelihood). The models are fitted first with the factor 1, which gives C, and then again.

`AverageWithout` is the average without some of the samples, by one step from the fit to all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp, softmax, xlogy

from skcalib._util.arithmetic import softmax_parts
from skcalib._util.parallel import add_fit, fit_once
from skcalib._util.sizes import SIZES
from skcalib.data.clusters import design_effect
from skcalib.data.labels import labels_or_shares
from skcalib.links.basis import BY_CLASS, CONFUSION, BasisBlock, Directions, LogitBasis
from skcalib.links.newton import expansion_holds, is_usual, minimise_convex

_TOLERANCE = 1e-6  # of the fits, in units of the log likelihood
_INACCURACY = 0.25  # of the gain that a score test predicts
_LEAST_DISPERSION = 1e-3  # of label distributions around the calibrated scores
#: Samples per class below which there are no directions of single classes.
PER_CLASS = 20

_TWO = (
    (("slope",), ()),
    (("bias",), ()),
    (("slope", "bias"), ("slope",)),
    (("class_slopes", "slope", "bias"), ("slope", "bias")),
    (("curve",), ()),
    (("curve", "curve_high"), ()),
    (("slope", "bias", "curve"), ("slope", "bias")),
    (("slope", "bias", "curve", "curve_high"), ("slope", "bias")),
)
_TOP, _SHARED = ("top", "top_high"), ("shared", "shared_high")
_MORE = (
    (("slope",), ()),
    (("bias",), ()),
    (("slope", "bias"), ("slope",)),
    (("slope", "bias", "class_slopes"), ("slope", "bias")),
    (("common",), ()),
    (("slope", "common"), ("slope",)),
    (("slope", "common", "bias"), ("slope", "bias")),
    (("top",), ()),
    (_TOP, ()),
    (("shared",), ()),
    (_SHARED, ()),
    (("slope", *_TOP), ("slope",)),
    (("slope", *_SHARED), ("slope",)),
    (("slope", "bias", "top"), ("slope", "bias")),
    (("slope", "bias", *_TOP), ("slope", "bias")),
    (("slope", *_SHARED, "bias"), ("slope", "bias")),
    (("slope", *_SHARED, "bias", "class_slopes", *_TOP), ("slope", "bias", "class_slopes")),
)


@dataclass(frozen=True)
class Prior:
    """What is assumed of the parameters before the data: they are normal around the identity.

    ``precision`` is that of every parameter; one of scale one has unit information. The others are
    costs in units of the log evidence. A parameter costs ``least`` up to ``free_samples``, and half
    the logarithm of their ratio to more samples. ``group`` is the cost of the variance of a group.
    ``confusion`` is added for the constants by most likely class, which are many.
    """

    precision: float = 1.0
    free_samples: float = 15.0
    least: float = 0.25
    group: float = 1.5
    confusion: float = 3.0

    def cost(self, gain: float, n_parameters: int, size: float) -> float:
        """Log evidence that is subtracted for a group of parameters with this gain."""
        total = max(0.5 * np.log(size / self.free_samples), self.least)
        if n_parameters > 1:
            spread = 1 + np.log(max(2 * gain / n_parameters, 1.0))
            total += self.group + 0.5 * n_parameters * spread
        return float(total)


PRIOR = Prior()


@dataclass(frozen=True)
class Model:
    """A fitted model: its groups, parameters, log likelihood and log evidence.

    ``gain`` is the log likelihood minus that of the identity, in units of effective samples.
    ``covariance`` is the inverse of the penalised Hessian at ``theta``. ``proba`` (n, K) holds the
    corrected forecasts.
    """

    groups: tuple[str, ...]
    theta: np.ndarray
    gain: float
    evidence: float
    proba: np.ndarray = field(repr=False)
    covariance: np.ndarray = field(repr=False)


class ScoreSums(NamedTuple):
    """Gradient (J,) and information (J, J) of the log likelihood along directions."""

    gradient: Any
    information: Any


@dataclass(frozen=True)
class AveragedMap:
    """The weighted mean of the identity and of ``parts``: weight, groups and parameters of maps.

    ``log_evidence`` is that of the best of them.
    """

    basis: LogitBasis
    identity: float
    parts: list[tuple[float, tuple[str, ...], np.ndarray]]
    log_evidence: float = -np.inf

    def __call__(self, forecast: np.ndarray) -> np.ndarray:
        """Forecasts (m, K) -> recalibrated forecasts (m, K)."""
        recalibrated, binary = self.identity * forecast, self.basis.n_classes == 2
        for rows in self.basis.blocks(len(forecast)) if self.parts else ():
            whole = self.basis(forecast[rows]) if binary else None
            for share, groups, theta in self.parts:
                if whole is None:
                    block = self.basis(forecast[rows], groups)
                    recalibrated[rows] += share * softmax_parts(block.logits(theta))[1]
                else:
                    logits = self.basis.part(whole, groups).logits(theta)
                    recalibrated[rows] += share * two_chances(logits[:, 1] - logits[:, 0])
        return np.minimum(recalibrated, 1.0, out=recalibrated)  # weights sum to one up to rounding

    @property
    def continues(self) -> bool:
        """Whether each map is monotone in the logits beyond those that it was fitted to.

        Curves of ranks are constant there, and cubic polynomials are not monotone.
        """
        return all(
            "common" not in groups and self.basis.slopes(groups, theta).min() >= 0
            for _, groups, theta in self.parts
        )

    @property
    def evidence(self) -> Mapping[str, float]:
        """Weights of a shift, slope, slopes of classes, curve, and shifts by predicted class."""
        weights = dict.fromkeys(("shift", "slope", "class_slopes", "curve", "confusion"), 0.0)
        names = {"bias": "shift"} | {name: name for name in weights}
        for share, groups, _ in self.parts:
            for name in {names.get(group, "curve") for group in groups}:
                weights[name] += share
        return {name: min(share, 1.0) for name, share in weights.items()}


class ModelAverage:
    """Nested models and their weights.

    ``directions`` are those of ``basis`` at the forecasts. ``weight`` (n,) are the weights of the
    rows, whose sum is the effective number of samples ``size``, and ``unit`` (n,) those of one
    sample of each row. ``models`` were fitted; the identity is not among them. ``shares``
    (len(models) + 1,) are the weights of the identity and of the models, which sum to one.

    ``log_odds`` is the logarithm of the mean evidence of the models, relative to that of the
    identity. For calibrated forecasts it is at least a with a probability of about exp(-a) or less.
    ``dispersion`` is the variance of label distributions around the calibrated scores relative to
    that of labels, at most 1; 1 for labels.
    """

    dispersion, _base = 1.0, 0.0

    def fit(
        self,
        forecast: np.ndarray,
        target: np.ndarray,
        weight: np.ndarray,
        square: np.ndarray | None = None,
        cluster: np.ndarray | None = None,
    ) -> Self:
        """Fit to forecasts (n, K), labels or shares, weights and their squares as in `Problem`.

        With numbers of clusters (n,) the effective number of samples is divided by the
        `design_effect` of the residuals: first of the forecasts, then of the fitted ones.
        """
        if cluster is None:
            self._fit_samples(forecast, target, weight, square)
            return self
        self.label, fitted = labels_or_shares(target), forecast
        for _ in range(2):
            residual = self.residual(slice(None), fitted)
            spread = np.sqrt(self.dispersion * np.maximum(fitted * (1 - fitted), 0.0))
            design = design_effect(residual, spread, weight, cluster)
            self._fit_samples(forecast, target, weight, square, design)
            fitted = self.averaged
        return self

    def _fit_samples(self, forecast, target, weight, square, design=1.0):
        """Fit to samples whose effective number is divided by a design effect."""
        self.dispersion, n_classes = 1.0, forecast.shape[1]
        square_mass = weight @ weight if square is None else square.sum()
        size = float(weight.sum() ** 2 / square_mass) / design
        self.size, self.forecast, self.label = size, forecast, labels_or_shares(target)
        self.weight = weight * (size / weight.sum())
        self.unit = self.weight if square is None else square / weight * (size / weight.sum())
        self.basis = LogitBasis(n_classes)
        if n_classes == 1:  # the only forecast is 1: there is nothing to correct
            self.models, self.shares, self.log_odds = [], np.ones(1), -np.inf
            return
        by_class = n_classes > 2 and size >= PER_CLASS * n_classes
        self.all_directions = self.basis.fit_directions(
            forecast, self.weight, size=size, by_class=by_class
        )
        self._fit_models()
        if self.label.ndim == 1:
            return
        fitted = self.averaged
        spread = self.weight @ np.sum((self.label - fitted) ** 2, axis=1)
        of_labels = self.weight @ (1 - np.sum(fitted**2, axis=1))
        ratio = spread / of_labels if of_labels > 0 else 1.0
        self.dispersion = float(np.clip(ratio, _LEAST_DISPERSION, 1.0))
        if self.dispersion < 1:  # label distributions again, with their log likelihood divided
            self.weight, self.unit = self.weight / self.dispersion, self.unit / self.dispersion
            self._fit_models()

    @property
    def weighted_models(self) -> list[tuple[float, Model]]:
        """The models with a weight above zero, the identity left out."""
        pairs = zip(self.shares[1:], self.models, strict=True)
        return [(float(share), model) for share, model in pairs if share > 0]

    @property
    def averaged(self) -> np.ndarray:
        """The averaged forecasts (n, K)."""
        mean = self.shares[0] * self.forecast
        for share, model in self.weighted_models:
            mean += share * model.proba
        return mean

    @property
    def evidence(self) -> Mapping[str, float]:
        """Sum of the weights of the models of each kind, as `AveragedMap.evidence`."""
        return self.map.evidence

    @property
    def affine(self) -> Model:
        """The model with slope and bias; slopes by class too, or a slope only, where there are."""
        wanted = {"slope", "bias"} if self.basis.n_classes == 2 else {"slope"}
        wanted |= BY_CLASS if self.basis.by_class else set()
        return next(model for model in self.models if set(model.groups) == wanted)

    @property
    def best(self) -> Model:
        """The model of the highest evidence, the identity left out."""
        return max(self.models, key=lambda model: model.evidence)

    @property
    def log_evidence(self) -> float:
        """Log likelihood of the best model minus its cost, in units of the samples."""
        if not self.models:
            return -np.inf
        return self.dispersion * (self._base + max(0.0, self.best.evidence))

    @property
    def map(self) -> AveragedMap:
        """The averaged map, for new forecasts."""
        parts = [(share, model.groups, model.theta) for share, model in self.weighted_models]
        return AveragedMap(self.basis, float(self.shares[0]), parts, float(self.log_evidence))

    def _fit_models(self):
        """Fit the models of the tree, but for those that cannot compete, and weigh them."""
        self.directions = self.all_directions.subset(set(self.basis.groups) - CONFUSION)
        tree, needed = tree_of(self.basis)
        identity = identity_model(np.exp(self.basis.log_proba(self.forecast)))
        self._base = self._log_likelihood(identity.proba)
        fitted, scores = {frozenset(): identity}, {}
        for groups, parent in tree:
            parent = fitted.get(frozenset(parent))
            if parent is None:
                continue
            if parent.groups not in scores:
                scores[parent.groups] = self.score_sums(parent.proba, self.directions)
            score = scores[parent.groups]
            if len(fitted) > needed:
                best = max(model.evidence for model in fitted.values())
                gain, n_added = self._gain(parent, groups, score)
                likely = parent.evidence + (1 + _INACCURACY) * gain  # rather too large
                likely -= PRIOR.cost(gain, n_added, self.size)
                if likely < best - SIZES.evidence_reach:
                    continue
            fitted[frozenset(groups)] = self._fit_one(groups, parent, score)
        if self.basis.confusion:  # constants by most likely class, for the best model
            parent = max(fitted.values(), key=lambda model: model.evidence)
            groups = (*parent.groups, *CONFUSION)
            score = self.score_sums(parent.proba, self.all_directions)
            gain, n_added = self._gain(parent, groups, score)
            # The statistic must exceed its expectation by one standard deviation, for K (K - 1)
            # degrees of freedom. Only then do they count in the intervals, which are longer so.
            if 2 * gain > n_added + np.sqrt(2 * n_added):
                self.directions = self.all_directions
                model = self._fit_one(groups, parent, score)
                evidence = model.evidence - PRIOR.confusion
                fitted[frozenset(groups)] = replace(model, evidence=evidence)
        self._weigh(fitted, self._log_likelihood(self.forecast) - self._base)

    def _weigh(self, fitted, identity):
        """Set the models and their weights, from the log likelihood of the identity."""
        # Forecasts of 0 have no logarithm: the models start close to them, the identity is exact.
        self.models = [model for key, model in fitted.items() if key]
        evidence = [model.evidence for model in self.models]
        self.log_odds = float(logsumexp(evidence) - identity) - float(np.log(len(evidence)))
        shares = softmax([identity, *evidence])
        shares[shares < SIZES.least_share] = 0.0
        self.shares = shares / shares.sum()

    def _log_likelihood(self, proba):
        return float(self.weight @ self._logs(proba))

    @cached_property
    def exact(self) -> np.ndarray:
        """Log likelihood of each forecast beyond that of a forecast without zeros (n,)."""
        nonzero = np.exp(self.basis.log_proba(self.forecast))
        return self._logs(self.forecast) - self._logs(nonzero)

    def _logs(self, proba):
        """Log likelihood of each row, without its weight (n,)."""
        with np.errstate(divide="ignore"):
            if self.label.ndim == 2:
                return xlogy(self.label, proba).sum(axis=1)
            return np.log(proba[np.arange(len(self.label)), self.label])

    def score_sums(self, proba: np.ndarray, directions: Directions) -> ScoreSums:
        """The sums of directions at some forecasts."""
        gradient, information = 0.0, 0.0
        for rows, block in directions:
            p, w = proba[rows], self.weight[rows]
            gradient = gradient + block.total(w[:, None] * self.residual(rows, p))
            information = information + block.information(p, w)
        return ScoreSums(gradient, information)

    def residual(self, rows: slice | np.ndarray, proba: np.ndarray) -> np.ndarray:
        """Some rows of the target minus probabilities (m, K)."""
        if self.label.ndim == 2:
            return self.label[rows] - proba
        residual = -proba
        residual[np.arange(len(proba)), self.label[rows]] += 1
        return residual

    def _gain(self, parent, groups, score):
        """Gain of log likelihood that the efficient score predicts, and number of parameters."""
        added = self.basis.select(set(groups) - set(parent.groups))
        old = self.basis.select(parent.groups)
        gradient = score.gradient[added]
        hessian = score.information[np.ix_(added, added)] + PRIOR.precision * np.eye(len(added))
        if len(old):
            cross = score.information[np.ix_(added, old)]
            inner = score.information[np.ix_(old, old)] + PRIOR.precision * np.eye(len(old))
            hessian = hessian - cross @ np.linalg.solve(inner, cross.T)
        return 0.5 * float(gradient @ np.linalg.solve(hessian, gradient)), len(added)

    def _fit_one(self, groups, parent, score):
        """Fit a model; the score of all directions at its parent gives the first Newton step."""
        blocks, chosen = self.directions.subset(groups), self.basis.select(groups)

        def value(theta):
            loss, by_block = 0.5 * PRIOR.precision * theta @ theta, []
            for rows, block in blocks:
                total, p = fit_of_block(block, theta, self.label[rows], self.weight[rows])
                loss -= total
                by_block.append(p)
            return loss, by_block

        def slopes(theta, by_block):
            gradient, hessian = PRIOR.precision * theta, PRIOR.precision * np.eye(len(theta))
            for (rows, block), p in zip(blocks, by_block, strict=True):
                w = self.weight[rows]
                gradient = gradient - block.total(w[:, None] * self.residual(rows, p))
                hessian += block.information(p, w)
            return gradient, hessian

        start = np.zeros(len(chosen))
        start[np.searchsorted(chosen, self.basis.select(parent.groups))] = parent.theta
        loss = 0.5 * PRIOR.precision * start @ start - parent.gain - self._base
        gradient = PRIOR.precision * start - score.gradient[chosen]
        hessian = score.information[np.ix_(chosen, chosen)]
        hessian = hessian + PRIOR.precision * np.eye(len(chosen))
        known = loss, [parent.proba], gradient, hessian
        minimum = minimise_convex(value, slopes, start, known=known, tolerance=_TOLERANCE)
        theta, proba = minimum.parameters, np.concatenate(minimum.state)
        gain = 0.5 * PRIOR.precision * theta @ theta - minimum.value - self._base
        price = PRIOR.cost(gain - parent.gain, len(theta) - len(parent.theta), self.size)
        evidence = parent.evidence + gain - parent.gain - price
        return Model(groups, theta, gain, evidence, proba, np.linalg.inv(minimum.hessian))


def averaged_map(
    forecast: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
) -> AveragedMap:
    """The map of a `ModelAverage` of these samples; `shared_fits` keep it."""
    return fit_once(_map_of, forecast, labels_or_shares(target), weight, square, cluster)


def add_averaged_map(
    average: ModelAverage,
    forecast: np.ndarray,
    label: np.ndarray,
    weight: np.ndarray,
    square: np.ndarray | None = None,
    cluster: np.ndarray | None = None,
) -> None:
    """Add the map of an average of these samples to shared fits."""
    add_fit(average.map, _map_of, forecast, label, weight, square, cluster)


def _map_of(forecast, label, weight, square, cluster):
    return ModelAverage().fit(forecast, label, weight, square, cluster).map


def tree_of(basis: LogitBasis) -> tuple[tuple, int]:
    """Models of a basis, pairs (groups, groups of the parent), and how many are always fitted."""
    if basis.n_classes == 2:
        return _TWO, 4  # with the affine one
    if basis.by_class:
        return _MORE, 4
    return tuple(model for model in _MORE if not BY_CLASS & set(model[0])), 1


def identity_model(proba: np.ndarray) -> Model:
    """The identity as a model; `proba` are the forecasts without zeros."""
    return Model((), np.empty(0), 0.0, 0.0, proba, np.empty((0, 0)))


def fit_of_block(
    block: BasisBlock, theta: np.ndarray, label: np.ndarray, weight: np.ndarray
) -> tuple[float, np.ndarray]:
    """Log likelihood of corrected forecasts, and these (n, K)."""
    p = block.logits(theta)
    if p.shape[1] == 2 and label.ndim == 1:
        odds = p[:, 1] - p[:, 0]
        p = two_chances(odds)
        hit = np.where(label == 1, np.minimum(odds, 0.0), np.minimum(-odds, 0.0))
        return weight @ (hit + np.log(np.maximum(p[:, 0], p[:, 1]))), p
    shifted, p, log_total = softmax_parts(p)
    if label.ndim == 2:
        hit = np.einsum("ik,ik->i", label, shifted)
    else:
        hit = shifted[np.arange(len(p)), label]
    return weight @ (hit - log_total), p


def two_chances(odds: np.ndarray) -> np.ndarray:
    """Probabilities (n, 2) from the log odds (n,) of the second class, with one exponential."""
    small = np.exp(-np.abs(odds))
    large = 1 / (1 + small)
    small *= large
    second = odds > 0
    return np.column_stack([np.where(second, small, large), np.where(second, large, small)])


# --- Without some of the samples ------------------------------------------------------------------


class AverageWithout(ModelAverage):
    """The average of maps, as `whole`, without the samples of the numbers `left_out`.

    The directions are those of all forecasts, without labels. Models that a score test on all
    samples excludes are not considered. ``accurate`` says whether the expansion holds for all
    models of positive weight, and the samples are like the others.
    """

    def __init__(self, whole: ModelAverage, left_out: np.ndarray) -> None:
        self.basis, self.dispersion = whole.basis, whole.dispersion
        remains = np.ones(len(whole.weight), dtype=bool)
        remains[left_out] = False
        weight = whole.weight[remains]
        self.size = float(weight.sum() ** 2 / (weight @ whole.unit[remains]))
        self._factor = self.size / (self.dispersion * weight.sum())
        self._share = 1 - float(weight.sum() / whole.weight.sum())
        # The rows of the sums are those that are left out.
        self.forecast, self.label = whole.forecast[left_out], whole.label[left_out]
        self.weight, self.unit = whole.weight[left_out], whole.unit[left_out]
        every = Directions(self.basis, self.forecast)
        self.directions = every.subset(whole.directions.names)
        pairs = tree_of(self.basis)[0]
        parents = {frozenset(groups): frozenset(parent) for groups, parent in pairs}
        identity = identity_model(np.exp(self.basis.log_proba(self.forecast)))
        self._base = self._log_likelihood(identity.proba)
        fitted, self._expansions, self._usual = {frozenset(): identity}, {}, {}
        for model in whole.models:
            key = frozenset(model.groups)
            parent = parents.get(key, key - CONFUSION)
            fitted[key] = self._without(model, fitted[parent], left_out)
        self._weigh(fitted, self._factor * (weight @ whole.exact[remains]))
        weighted = (*whole.weighted_models, *self.weighted_models)
        needed = {model.groups for _, model in weighted}
        self.accurate = all(self._follows(model) for model in self.models if model.groups in needed)

    def _without(self, model, parent, left_out):
        """A model of all samples -> the model without the rows, with its evidence."""
        proba, n = model.proba[left_out], len(model.theta)
        gradient, held_out_information = self.score_sums(
            proba, self.directions.subset(model.groups)
        )
        # The gradient of all samples balances the prior.
        ascent = self._factor * (PRIOR.precision * model.theta - gradient)
        of_all = np.linalg.inv(model.covariance) - PRIOR.precision * np.eye(n)
        information = self._factor * (of_all - held_out_information)
        hessian = information + PRIOR.precision * np.eye(n)
        step = np.linalg.solve(hessian, ascent - PRIOR.precision * model.theta)
        held_out = self._log_likelihood(proba)
        half_square = 0.5 * step @ held_out_information @ step
        self._expansions[model.groups] = held_out + gradient @ step - half_square, half_square
        self._usual[model.groups] = is_usual(gradient, of_all, self._share)
        gain = model.gain - (held_out - self._base)
        gain = self._factor * gain + ascent @ step - 0.5 * step @ information @ step
        added_gain = gain - parent.gain
        evidence = (
            parent.evidence + added_gain - PRIOR.cost(added_gain, n - len(parent.theta), self.size)
        )
        if set(model.groups) >= CONFUSION:
            evidence -= PRIOR.confusion
        theta, covariance = model.theta + step, np.linalg.inv(hessian)
        return Model(model.groups, theta, gain, evidence, proba, covariance)

    def _follows(self, model):
        """Whether the left-out samples are like the others, and the expansion holds at them."""
        if not self._usual[model.groups]:
            return False
        actual = sum(
            fit_of_block(block, model.theta, self.label[rows], self.weight[rows])[0]
            for rows, block in self.directions.subset(model.groups)
        )
        return expansion_holds(actual, *self._expansions[model.groups])
